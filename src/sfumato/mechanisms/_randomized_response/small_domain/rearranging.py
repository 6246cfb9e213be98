"""Phase 2: bring groups that share values next to each other.

Source: Chaytor and Wang, section 5.2: the reverse order of Cuthill and McKee, for the pattern of A·Aᵀ, where A[i][j] is
the count of value j in group i. The paper leaves ties open, and with them the result; here a walk starts at the group
with the fewest neighbours, of those the last one, and visits neighbours with few neighbours first, of those the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.mechanisms._randomized_response.small_domain.balancing import Group


def rearrange_groups(groups: Sequence[Group]) -> tuple[int, ...]:
    """The numbers of the groups, in an order in which neighbours tend to share values."""
    places = [frozenset(place for place, count in enumerate(group) if count) for group in groups]
    adjacency = [
        [number for number, others in enumerate(places) if number != own and not others.isdisjoint(places[own])]
        for own in range(len(groups))
    ]
    # Those with few neighbours of their own come first.
    neighbours = [sorted(numbers, key=lambda number: (len(adjacency[number]), number)) for numbers in adjacency]
    order: list[int] = []
    visited: set[int] = set()
    for start in sorted(range(len(groups)), key=lambda number: (len(adjacency[number]), -number)):
        walk = [] if start in visited else [start]
        visited.update(walk)
        for number in walk:  # breadth first: it grows while it is walked
            new_neighbours = [neighbour for neighbour in neighbours[number] if neighbour not in visited]
            visited.update(new_neighbours)
            walk += new_neighbours
        order += walk
    return tuple(reversed(order))
