"""Orders the groups before merging, assigns records to sub-tables, and describes both to the data steward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.array_types import Codes, UInts
from sfumato._core.cell_values import to_json
from sfumato._core.json_types import Json
from sfumato._core.run_lookup import Runs
from sfumato._figures.number_format import format_count, format_percent
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response.guarantee_sentences import BOUND_RISK
from sfumato.mechanisms._randomized_response.small_domain.balancing import Group
from sfumato.mechanisms._randomized_response.small_domain.merging import Part
from sfumato.mechanisms.capabilities import PlanTable

# Phase 2: orders the groups so that groups that share values are neighbours.
#
# Source: Chaytor and Wang, section 5.2: the reverse order of Cuthill and McKee, for the pattern of A·Aᵀ, where A[i][j]
# is the count of value j in group i. The paper does not say how to break ties, and the result depends on it. Here a
# walk starts at the last of the groups with the fewest neighbours, and visits neighbours with few neighbours first, in
# their order.


def rearrange_groups(groups: Sequence[Group]) -> tuple[int, ...]:
    """The numbers of the groups, in an order in which neighbours tend to share values."""
    places = [frozenset(place for place, count in enumerate(group) if count) for group in groups]
    adjacency = [
        [number for number, others in enumerate(places) if number != own and not others.isdisjoint(places[own])]
        for own in range(len(groups))
    ]
    # Groups with few neighbours of their own come first.
    neighbours = [sorted(numbers, key=lambda number: (len(adjacency[number]), number)) for numbers in adjacency]
    order: list[int] = []
    visited: set[int] = set()
    for start in sorted(range(len(groups)), key=lambda number: (len(adjacency[number]), -number)):
        walk = [] if start in visited else [start]
        visited.update(walk)
        for number in walk:  # breadth first, so the list grows during the walk
            new_neighbours = [neighbour for neighbour in neighbours[number] if neighbour not in visited]
            visited.update(new_neighbours)
            walk += new_neighbours
        order += walk
    return tuple(reversed(order))


# ---------------------------------------------------------------------------------------------------------------------

# The sub-table of each record.


class CellLayout:
    """The sub-table of each slot.

    The slots of a value are divided into runs, one for each sub-table with records of this value.

    A position is a slot plus the number of slots of all earlier values.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        by_value = np.array(groups, dtype=np.int64).T
        self.runs = Runs(by_value.ravel())
        self.run_cells: Codes = (self.runs.run_numbers % len(groups)).astype(np.min_scalar_type(len(groups)))
        self.first_positions = (np.cumsum(by_value.sum(axis=1)) - by_value.sum(axis=1)).astype(self.runs.type)

    def find_cells(self, codes: Codes, slots: UInts) -> Codes:
        """The sub-table of each record."""
        positions = self.first_positions.take(codes) + slots.astype(self.runs.type, copy=False)
        return self.run_cells.take(self.runs.find(positions))


# ---------------------------------------------------------------------------------------------------------------------

SHOWN_GROUPS = 20
"""The largest number of groups in a table for people. JSON has all groups."""


def describe_groups(histogram: Histogram, groups: Sequence[Group], parts: Sequence[Part]) -> list[Json]:
    """The groups in the order of merging, numbered by creation."""
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
    """A line for each group, in order, with its sub-table."""
    title = (
        f"{format_count(len(groups), 'group')} from balancing, in the order in which neighbours were merged into "
        f"sub-tables. The paper's bound on the error of a share is {bound:.3g}, which holds with a probability of "
        f"{format_percent(1 - BOUND_RISK)} (delta is {BOUND_RISK}):"
    )
    lines = [
        (str(number + 1), *_format_group(groups[number]), str(cell + 1))
        for cell, part in enumerate(parts)
        for number in part
    ]
    more = [(f"... and {len(lines) - SHOWN_GROUPS} more", "", "", "", "")] if len(lines) > SHOWN_GROUPS else []
    return PlanTable(title, ("group", "values", "records", "of each value", "cell"), lines[:SHOWN_GROUPS] + more)


def _format_group(group: Group) -> tuple[str, str, str]:
    value_counts = [count for count in group if count]
    count_range = (
        f"{min(value_counts):,}"
        if min(value_counts) == max(value_counts)
        else f"{min(value_counts):,} to {max(value_counts):,}"
    )
    return f"{len(value_counts)}", f"{sum(value_counts):,}", count_range
