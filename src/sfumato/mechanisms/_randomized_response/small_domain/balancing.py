"""Phase 1: divides a table into groups of few values, in which protected values have the smallest possible shares.

Claim: the groups are the table, record by record. If every value is protected, each group but the last is flat: the
same number of records of each of exactly `balance` values. There are at most as many groups as protected values, and
one more.
Source: Chaytor and Wang, section 5.1 and appendix 10.7. Eq. (13) is scanned with σ > μ, and read as σ ≥ μ, or the first
group may ask for records that do not exist (docs/errata.md: counts 7, 3, 2, 2).
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
    """The groups in order of creation; `balance` is how often the largest protected count fits in its table."""

    balance: int
    groups: tuple[Group, ...]


def find_protected_places(counts: Sequence[int], prior: Fraction) -> tuple[int, ...]:
    """The values whose share is at most the prior; a value without records protects nobody."""
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
            f"the rarest value of the sensitive column has a share of {rarest}, which is above the prior, so no value "
            f"would be protected; choose a prior of at least {rarest}.",
            code="no-value-below-prior",
            fields={"rarest": str(rarest)},
        )
    width = sum(protected_counts) // max(protected_counts)
    groups = list(_generate_groups(protected_counts, width))
    _distribute(other_counts, groups)
    return BalancedGroups(width, tuple(map(tuple, groups)))


def _generate_groups(counts: Sequence[int], width: int) -> Iterator[list[int]]:
    """Takes `height` records of each of the `width` most frequent values, until no record is left.

    The rest stays balanced (no count above |T0|/θ), so it always has `width` values to take from.
    """
    rest = [(-count, place) for place, count in enumerate(counts) if count]  # of equal counts, the first value leads
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
    """The most records of each top value that leave a balanced rest, Eq. (13); 0 if only all records do.

    σ(μ_θ) = |T0|/θ - max(μ_1 - μ_θ, μ_{θ+1}) ≥ μ_θ, with both sides times θ. As the rest is balanced, μ_1 is at most
    |T0|/θ: the first term of the maximum never decides.
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
    """Adds records to the groups in proportion to their sizes, the most frequent value first; the last takes the rest.

    It goes value by value, so that a group gets as few new values as possible.
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
