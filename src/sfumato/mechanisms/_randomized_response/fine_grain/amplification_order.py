"""Orders the values by amplification, and computes the largest retention of each value at a level, in exact integers.

The demands, and the reason why retentions follow from a level and perhaps a peak, are explained in `retention_solver`.

Notation: m = domain size, γ = amplification, p = retention, f = share, M = level = the largest retention.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from sfumato._core.array_types import Floats
from sfumato.errors import InternalError
from sfumato.mechanisms._randomized_response.value_bounds import Direction

Share = Fraction | int
"""The share of a value, or its count, because only proportions matter."""

Bound = Fraction | None
"""The amplification bound of a value; None if it has none."""

BITS = 160
"""Sums are kept as integers in units of 2**-160.

This precision is enough to decide nearly every comparison of exact sums.
"""


@dataclass(frozen=True, slots=True)
class FallingLine:
    """A retention that falls as the level rises, as (top - pull * level) / bottom.

    There is one such line for every value. It is stored in integers, which are several times faster than fractions.
    """

    top: int
    pull: int
    bottom: int

    @classmethod
    def of(cls, amplification: Fraction, others: int, *, is_demand: bool) -> FallingLine:
        """The line of a value's own demand at a level, or of its demand on the other values at its level.

        Both lines have the same corner.
        """
        over, under = amplification.numerator, amplification.denominator * others
        top = over - amplification.denominator
        return cls(top, over, under) if is_demand else cls(top, under, over)

    def evaluate(self, level: Fraction) -> Fraction:
        """The retention at a level."""
        return Fraction(self.top * level.denominator - self.pull * level.numerator, self.bottom * level.denominator)

    @property
    def slope(self) -> Fraction:
        """The rate at which the retention falls."""
        return Fraction(self.pull, self.bottom)

    @property
    def corner(self) -> Fraction:
        """The point where the line meets the level itself."""
        return Fraction(self.top, self.bottom + self.pull)

    @property
    def zero(self) -> Fraction:
        """The level at which nothing is kept."""
        return Fraction(self.top, self.pull)


@dataclass(frozen=True, slots=True)
class BoundGroup:
    """The values with one amplification, and their largest retention at a level."""

    amplification: Fraction
    members: tuple[int, ...]
    line: FallingLine


@dataclass(frozen=True, slots=True)
class Candidate:
    """A level, and the single value at this level (None on the curve)."""

    level: Fraction
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class AmplificationOrder:
    """The values by rising amplification. Values without a bound come last."""

    direction: Direction
    weights: tuple[int, ...]
    """The shares of the values over their common denominator."""
    total: int
    groups: tuple[BoundGroup, ...]
    group_numbers: tuple[int, ...]
    weights_below: tuple[int, ...]
    """The weight of the first n groups, for every n."""
    pull_sums: tuple[int, ...]
    """The sum of weight * slope over the first n groups, in units of 2**-160, each term rounded down."""

    @classmethod
    def of(cls, shares: Sequence[Share], amplifications: Sequence[Bound], direction: Direction) -> AmplificationOrder:
        """Puts the values into groups.

        Raises InternalError if no value has a bound, because everything could then be published unchanged.
        """
        places: dict[Fraction, list[int]] = defaultdict(list)
        for value, bound in enumerate(amplifications):
            if bound is not None:
                places[bound].append(value)
        others = len(amplifications) - 1
        if not places or not others:
            raise InternalError(
                "retentions can be computed only for two or more values with at least one bound.",
                code="nothing-to-solve",
            )
        groups, group_numbers = [], [len(places)] * len(shares)
        for place, bound in enumerate(sorted(places, key=make_sort_key)):
            line = FallingLine.of(bound, others, is_demand=is_own_demand(bound, others, direction))
            groups.append(BoundGroup(bound, tuple(places[bound]), line))
            for value in places[bound]:
                group_numbers[value] = place
        weights = make_whole_weights(shares)
        group_weights = [sum(weights[value] for value in group.members) for group in groups]
        pulls = [
            _scale_to_integer(weight * group.line.pull, group.line.bottom)
            for weight, group in zip(group_weights, groups, strict=True)
        ]
        weights_below, pull_sums = (tuple(accumulate(terms, initial=0)) for terms in (group_weights, pulls))
        return cls(direction, weights, sum(weights), tuple(groups), tuple(group_numbers), weights_below, pull_sums)

    @property
    def other_count(self) -> int:
        """The number of other values, m - 1."""
        return len(self.weights) - 1

    @property
    def highest_level(self) -> Fraction:
        """The highest level of the curve, where the most strictly bounded retention is 0."""
        return self.groups[0].line.zero

    def compare(self, target: Fraction, count: int) -> int:
        """The exact sign of target - (sum of weight * slope over the first `count` rungs)."""
        scaled, low = target.numerator << BITS, self.pull_sums[count] * target.denominator
        if scaled < low:
            return -1
        if scaled > low + count * target.denominator:
            return 1
        pull = sum_exactly(
            (self.weights_below[place + 1] - self.weights_below[place]) * self.groups[place].line.slope
            for place in range(count)
        )
        return (target > pull) - (target < pull)

    def make_ceiling(self, peak: int) -> FallingLine:
        """The largest retention that a peak leaves to the other values."""
        bound = self.groups[self.group_numbers[peak]].amplification
        return FallingLine.of(
            bound, self.other_count, is_demand=is_ceiling_demand(bound, self.other_count, self.direction)
        )

    def compute_cap(self, candidate: Candidate) -> Fraction:
        """The largest retention of a value that is not a peak."""
        return (
            candidate.level if candidate.peak is None else self.make_ceiling(candidate.peak).evaluate(candidate.level)
        )

    def find_least_other(self, peak: int | None) -> int | None:
        """The first group with another value than the peak."""
        return next((place for place, group in enumerate(self.groups[:2]) if group.members != (peak,)), None)

    def compute_retentions(self, candidate: Candidate) -> tuple[Fraction, ...]:
        """The largest retention of every value that its group and the cap allow."""
        cap = self.compute_cap(candidate)
        retentions = [cap] * len(self.weights)
        for group in self.groups:
            retention = group.line.evaluate(candidate.level)
            if retention >= cap:  # all later groups have the same limit
                break
            for value in group.members:
                retentions[value] = retention
        if candidate.peak is not None:
            retentions[candidate.peak] = candidate.level
        return tuple(retentions)


def is_own_demand(amplification: Fraction, others: int, direction: Direction) -> bool:
    """Whether a value below the level is bounded by its own demand.

    In both directions the smaller bound of a pair is a demand on each of the two values, so the steeper of its lines
    counts.
    """
    return direction is Direction.UPWARD or amplification >= others


def is_ceiling_demand(amplification: Fraction, others: int, direction: Direction) -> bool:
    """Whether a value beside a peak has its own demand with the peak's bound. It has none if only rises are bounded."""
    return direction is Direction.BOTH and amplification >= others


def make_sort_key(number: Fraction) -> tuple[int, Fraction]:
    """A key that sorts fractions fast. Comparing fractions is slow, and integers decide nearly all comparisons."""
    return _scale_to_integer(number.numerator, number.denominator), number


def _scale_to_integer(numerator: int, denominator: int) -> int:
    return (numerator << BITS) // denominator


def make_whole_weights(shares: Sequence[Share]) -> tuple[int, ...]:
    """The shares over their common denominator."""
    common = math.lcm(*(share.denominator for share in shares))
    return tuple(share.numerator * (common // share.denominator) for share in shares)


def compute_proportions(weights: Sequence[int]) -> Floats:
    """The weights as floats that add up to 1."""
    total = sum(weights)
    return np.array([weight / total for weight in weights])


def sum_exactly(terms: Iterable[Fraction]) -> Fraction:
    """Computes an exact sum by halves. A sum term by term would be slow, because its denominator soon becomes huge."""
    parts = list(terms) or [Fraction(0)]
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [left + right for left, right in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]
