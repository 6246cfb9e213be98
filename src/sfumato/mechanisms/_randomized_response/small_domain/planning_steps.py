"""How cells came about, for the holder: the groups that balancing made, in their order, and which were merged."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._core.cell_values import to_json
from sfumato._core.json_types import Json
from sfumato._figures.number_format import percent, some
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response.guarantee_sentences import RISK
from sfumato.mechanisms._randomized_response.small_domain.balancing import Group
from sfumato.mechanisms._randomized_response.small_domain.merging import Part
from sfumato.mechanisms.capabilities import PlanTable

SHOWN = 20
"""Groups that people look at; JSON has them all."""


def groups_json(histogram: Histogram, groups: Sequence[Group], parts: Sequence[Part]) -> list[Json]:
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


def groups_table(groups: Sequence[Group], parts: Sequence[Part], bound: float) -> PlanTable:
    """A line for each group, in their order, with the cell that it went to."""
    title = (
        f"{some(len(groups), 'group')} that balancing made, in the order in which neighbours were merged into cells. "
        f"The paper's bound on the error of a share is {bound:.3g}; it holds with a chance of {percent(1 - RISK)} "
        f"(its delta is {RISK}):"
    )
    lines = [
        (str(number + 1), *_of(groups[number]), str(cell + 1)) for cell, part in enumerate(parts) for number in part
    ]
    more = [(f"... {len(lines) - SHOWN} more", "", "", "", "")] if len(lines) > SHOWN else []
    return PlanTable(title, ("group", "values", "records", "of each value", "cell"), lines[:SHOWN] + more)


def _of(group: Group) -> tuple[str, str, str]:
    held = [count for count in group if count]
    each = f"{min(held):,}" if min(held) == max(held) else f"{min(held):,} to {max(held):,}"
    return f"{len(held)}", f"{sum(held):,}", each
