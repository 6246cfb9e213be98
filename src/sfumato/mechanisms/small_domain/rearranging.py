"""Phase 2: bring groups that share values next to each other.

Source: Chaytor and Wang, section 5.2: the reverse order of Cuthill and McKee, for the pattern of A·Aᵀ, where A[i][j] is
the count of value j in group i. The paper leaves ties open, and with them the result; here a walk starts at the group
with the fewest neighbours, of those the last one, and visits neighbours with few neighbours first, of those the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.mechanisms.small_domain.balancing import Group


def rearranged(groups: Sequence[Group]) -> tuple[int, ...]:
    """The numbers of the groups, in an order in which neighbours tend to share values."""
    neighbours = _neighbours(groups)
    order: list[int] = []
    seen: set[int] = set()
    for start in sorted(range(len(groups)), key=lambda number: (len(neighbours[number]), -number)):
        if start not in seen:
            order += _walk(start, neighbours, seen)
    return tuple(reversed(order))


def _neighbours(groups: Sequence[Group]) -> list[list[int]]:
    """For each group the groups that share a value with it, those with few neighbours first."""
    places = [frozenset(place for place, count in enumerate(group) if count) for group in groups]
    shared = [
        [number for number, others in enumerate(places) if number != own and not others.isdisjoint(places[own])]
        for own in range(len(groups))
    ]
    return [sorted(numbers, key=lambda number: (len(shared[number]), number)) for numbers in shared]


def _walk(start: int, neighbours: Sequence[Sequence[int]], seen: set[int]) -> list[int]:
    """Everything that can be reached from a group, breadth first; adds it to `seen`."""
    walk = [start]
    seen.add(start)
    for number in walk:  # grows while it is walked
        found = [neighbour for neighbour in neighbours[number] if neighbour not in seen]
        seen.update(found)
        walk += found
    return walk
