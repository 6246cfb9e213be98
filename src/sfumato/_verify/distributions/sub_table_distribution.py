"""The distribution of published values given true values, for sub-tables in which a value is kept or redrawn.

The largest odds ratios and Bayes' rule are exact, and follow from the published rational numbers and first principles.
No code of the planners is used, so a mistake in that code is not repeated here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato.errors import ReleaseFormatError


@dataclass(frozen=True)
class SubTableDistribution:
    """The distribution of a published value within one sub-table.

    `same[i]` is the probability that value i of the sub-table is published unchanged. `other[i]` is the probability
    that value i is published as one given other value.
    """

    places: tuple[int, ...]
    same_chances: tuple[Fraction, ...]
    other_chances: tuple[Fraction, ...]

    @classmethod
    def of(cls, places: Sequence[int], retentions: Sequence[Fraction]) -> SubTableDistribution:
        """Makes the distribution: a record is kept with its retention, or drawn from all values of the sub-table."""
        size = len(places)
        other = tuple((1 - retention) / size for retention in retentions)
        distribution = cls(tuple(places), tuple(1 - (size - 1) * chance for chance in other), other)
        if (
            size in (0, 1)
            or len(retentions) != size
            or not all(0 <= chance <= 1 for chance in (*distribution.same_chances, *distribution.other_chances))
        ):
            raise ReleaseFormatError(
                "the design is not a probability distribution that protects values.", code="invalid-distribution"
            )
        return distribution

    def compute_rise(self, number: int) -> Fraction | None:
        """The largest factor by which a published value multiplies the odds of one value against another.

        Either the first value or another value is published. The second value is the value with the smallest
        probability of being published in this way. The result is None without a limit.
        """
        other, same = (_find_least_beside(extremes, number) for extremes in (self._rarest_other, self._rarest_same))
        rival = min(other, same) if len(self.places) > 2 else same  # noqa: PLR2004 - a third value must exist
        return _find_largest_ratio((self.same_chances[number], other), (self.other_chances[number], rival))

    def compute_fall(self, number: int) -> Fraction | None:
        """The largest factor by which a published value divides the odds of one value against another."""
        other, same = (
            _find_least_beside(extremes, number) for extremes in (self._commonest_other, self._commonest_same)
        )
        rival = max(other, same) if len(self.places) > 2 else same  # noqa: PLR2004 - a third value must exist
        return _find_largest_ratio((other, self.same_chances[number]), (rival, self.other_chances[number]))

    @cached_property
    def _rarest_other(self) -> list[tuple[Fraction, int]]:
        return heapq.nsmallest(2, _number_chances(self.other_chances))

    @cached_property
    def _rarest_same(self) -> list[tuple[Fraction, int]]:
        return heapq.nsmallest(2, _number_chances(self.same_chances))

    @cached_property
    def _commonest_other(self) -> list[tuple[Fraction, int]]:
        return heapq.nlargest(2, _number_chances(self.other_chances))

    @cached_property
    def _commonest_same(self) -> list[tuple[Fraction, int]]:
        return heapq.nlargest(2, _number_chances(self.same_chances))


def _number_chances(chances: Sequence[Fraction]) -> Iterator[tuple[Fraction, int]]:
    return ((chance, number) for number, chance in enumerate(chances))


def _find_least_beside(two: Sequence[tuple[Fraction, int]], number: int) -> Fraction:
    """The first of two indices that differs from this number."""
    return two[1][0] if two[0][1] == number else two[0][0]


def _find_largest_ratio(*ratios: tuple[Fraction, Fraction]) -> Fraction | None:
    """The largest of some ratios; None if one has no limit."""
    quotients = [None if below == 0 else above / below for above, below in ratios if above]
    finite_quotients = [quotient for quotient in quotients if quotient is not None]
    return max(finite_quotients) if len(finite_quotients) == len(quotients) else None


def read_retention(design: JsonView) -> Fraction:
    """Reads a retention that keeps some records but not all."""
    retention = parse_exact(design["retention"])
    if not 0 < retention < 1:
        raise ReleaseFormatError(
            "the design is not a probability distribution that protects values.", code="invalid-distribution"
        )
    return retention


def parse_bound(prior: str, posterior: str) -> tuple[Fraction, Fraction]:
    """Reads the prior and the posterior of a bound; refuses a bound without effect."""
    low, high = parse_exact(prior), parse_exact(posterior)
    if not 0 < low < high < 1:
        raise ReleaseFormatError(
            f"a bound from {low} to {high} has no effect.",
            code="bound-without-effect",
            fields={"prior": str(low), "posterior": str(high)},
        )
    return low, high


def compute_raised_belief(prior: Fraction, factor: Fraction | None) -> Fraction:
    """The belief after its odds are multiplied, which is the worst case of Bayes' rule."""
    return Fraction(1) if factor is None else prior * factor / (prior * factor + 1 - prior)


def compute_lowered_belief(prior: Fraction, factor: Fraction | None) -> Fraction:
    """The belief after its odds are divided."""
    return Fraction(0) if factor is None else prior / (prior + (1 - prior) * factor)


def compute_sub_table_posteriors(counts: Sequence[int], distribution: SubTableDistribution) -> list[Fraction]:
    """The exact largest posterior of each value of a sub-table, for an attacker who knows the sub-table's counts.

    For a published value y, Bayes' rule gives x the probability n(x) P(y|x) / sum of n(z) P(y|z), with counts instead
    of shares.
    """
    redrawn_weight = sum(
        (count * other for count, other in zip(counts, distribution.other_chances, strict=True)), Fraction(0)
    )
    retained_counts = [
        count * (same - other)
        for count, same, other in zip(counts, distribution.same_chances, distribution.other_chances, strict=True)
    ]
    # The weight of y has two parts: the records that are redrawn evenly over all values, and the records that keep y.
    published_weights = [redrawn_weight + retained_count for retained_count in retained_counts]
    rarest = sorted(published_weights)[:2]
    posteriors = []
    for number, count in enumerate(counts):
        own = (
            count * distribution.same_chances[number] / published_weights[number]
            if published_weights[number]
            else Fraction(0)
        )
        rival = rarest[1] if published_weights[number] == rarest[0] else rarest[0]
        posteriors.append(max(own, count * distribution.other_chances[number] / rival if rival else Fraction(0)))
    return posteriors
