"""How cells came about, for the holder: the groups that balancing made, in their order, and which were merged."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._core.cell_values import to_json
from sfumato._core.json_types import Json
from sfumato._figures.number_format import format_count, format_percent
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response.guarantee_sentences import BOUND_RISK
from sfumato.mechanisms._randomized_response.small_domain.balancing import Group
from sfumato.mechanisms._randomized_response.small_domain.merging import Part
from sfumato.mechanisms.capabilities import PlanTable

SHOWN_GROUPS = 20
"""Groups that people look at; JSON has them all."""


def describe_groups(histogram: Histogram, groups: Sequence[Group], parts: Sequence[Part]) -> list[Json]:
    """The groups in the order in which they stand beside each other, numbered by when they were made."""
    return [
        {
            "number": number + 1,
            "values": [to_json(histogram.values[place]) for place, count in enumerate(groups[number]) if count],
            "counts": [count for count in groups[number] if count],
        }
        for part in parts
        for number in part
    ]


def make_groups_table(groups: Sequence[Group], parts: Sequence[Part], bound: float) -> PlanTable:
    """A line for each group, in their order, with the cell that it went to."""
    title = (
        f"{format_count(len(groups), 'group')} that balancing made, in the order in which neighbours were merged "
        f"into cells. The paper's bound on the error of a share is {bound:.3g}; it holds with a chance of "
        f"{format_percent(1 - BOUND_RISK)} (its delta is {BOUND_RISK}):"
    )
    lines = [
        (str(number + 1), *_format_group(groups[number]), str(cell + 1))
        for cell, part in enumerate(parts)
        for number in part
    ]
    more = [(f"... {len(lines) - SHOWN_GROUPS} more", "", "", "", "")] if len(lines) > SHOWN_GROUPS else []
    return PlanTable(title, ("group", "values", "records", "of each value", "cell"), lines[:SHOWN_GROUPS] + more)


def _format_group(group: Group) -> tuple[str, str, str]:
    value_counts = [count for count in group if count]
    count_range = (
        f"{min(value_counts):,}"
        if min(value_counts) == max(value_counts)
        else f"{min(value_counts):,} to {max(value_counts):,}"
    )
    return f"{len(value_counts)}", f"{sum(value_counts):,}", count_range
