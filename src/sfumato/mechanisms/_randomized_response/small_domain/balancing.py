"""Phase 1: divides a table into groups of few values, so that protected values have the smallest possible shares.

Claim: every record of the table is in exactly one group. If every value is protected, each group except the last has
exactly `balance` values, with the same number of records of each. The number of groups is at most the number of
protected values plus one.
Source: Chaytor and Wang, section 5.1 and appendix 10.7. The scan of Eq. (13) has σ > μ; it is read as σ ≥ μ, because
otherwise the first group may need records that do not exist (docs/errata.md: counts 7, 3, 2, 2).
Notation: T0 = the rest, |T0| = its records, μ_i = its i-th largest count, θ or θ' = balance, h = height of a group, SA'
= protected, T' and T'' = the protected and the other records.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InfeasibleError

Group = tuple[int, ...]
"""The number of records of each value of the domain."""


@dataclass(frozen=True, slots=True)
class BalancedGroups:
    """The groups in order of creation.

    `balance` is the number of times that the largest protected count fits into its table.
    """

    balance: int
    groups: tuple[Group, ...]


def find_protected_places(counts: Sequence[int], prior: Fraction) -> tuple[int, ...]:
    """The values whose share is at most the prior. Values without records are left out, because they protect nobody."""
    limit = prior.numerator * sum(counts)
    return tuple(place for place, count in enumerate(counts) if 0 < count * prior.denominator <= limit)


def balance(counts: Sequence[int], protected: Sequence[int]) -> BalancedGroups:
    """Balances the protected records, then distributes the others over the groups."""
    protected_counts, other_counts = [0] * len(counts), list(counts)
    for place in protected:
        protected_counts[place], other_counts[place] = counts[place], 0
    if not any(protected_counts):
        rarest = Fraction(min(filter(None, counts)), sum(counts))
        raise InfeasibleError(
            f"the rarest value of the sensitive column has a share of {rarest} of the records, which is above the "
            f"prior, so no value would be protected; choose a prior of at least {rarest}.",
            code="no-value-below-prior",
            fields={"rarest": str(rarest)},
        )
    width = sum(protected_counts) // max(protected_counts)
    groups = list(_generate_groups(protected_counts, width))
    _distribute(other_counts, groups)
    return BalancedGroups(width, tuple(map(tuple, groups)))


def _generate_groups(counts: Sequence[int], width: int) -> Iterator[list[int]]:
    """Takes `height` records of each of the `width` most frequent values, until no record is left.

    The rest stays balanced (no count is above |T0|/θ), so it always has at least `width` values.
    """
    rest = [
        (-count, place) for place, count in enumerate(counts) if count
    ]  # of equal counts, the first value comes first
    heapq.heapify(rest)
    total = sum(counts)
    while rest:
        top = [heapq.heappop(rest) for _ in range(width)]
        height = _compute_height(total, [-count for count, _ in top], -rest[0][0] if rest else 0)
        if not height:
            yield _make_group([(place, -count) for count, place in top + rest], len(counts))
            return
        yield _make_group([(place, height) for _, place in top], len(counts))
        total -= width * height
        for count, place in top:
            if count + height:
                heapq.heappush(rest, (count + height, place))


def _compute_height(total: int, top: Sequence[int], following: int) -> int:
    """The largest number of records of each top value that leaves a balanced rest, Eq. (13).

    It is 0 if only taking all records leaves a balanced rest.

    σ(μ_θ) = |T0|/θ - max(μ_1 - μ_θ, μ_{θ+1}) ≥ μ_θ, with both sides times θ. The rest is balanced, so μ_1 is at most
    |T0|/θ, and the first term of the maximum never matters.
    """
    width, least = len(top), top[-1]
    if total >= width * (least + following):
        return least
    return total // width - following


def _make_group(place_counts: Sequence[tuple[int, int]], size: int) -> list[int]:
    group = [0] * size
    for place, count in place_counts:
        group[place] = count
    return group


def _distribute(counts: Sequence[int], groups: list[list[int]]) -> None:
    """Adds records to the groups in proportion to their sizes, the most frequent value first.

    The last group takes the rest.

    Records are added value by value, so that a group gets as few new values as possible.
    """
    sizes = [sum(group) for group in groups]
    amounts = [size * sum(counts) // sum(sizes) for size in sizes]
    amounts[-1] += sum(counts) - sum(amounts)
    remaining = [
        (place, counts[place]) for place in sorted(range(len(counts)), key=lambda place: (counts[place], -place))
    ]
    for group, amount in zip(groups, amounts, strict=True):
        lacking = amount
        while lacking:
            place, count = remaining.pop()
            moved = min(lacking, count)
            group[place] += moved
            lacking -= moved
            if moved < count:
                remaining.append((place, count - moved))
