"""Shadow prices: the gain in record utility if a bound were slightly larger.

Next to an optimum, every value is on a line, at the cap, or at the point where both meet. If a bound rises, the lines
of its value move, and the level may move too. To first order, the gain is a concave, piecewise linear function of the
level's step. So prices need the exact optimum, which determines the lines that meet there. The prices themselves may be
floats.

Notation: m = domain size, γ = amplification, p = retention, f = share, M = level.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from sfumato._core.array_types import Floats
from sfumato.errors import InternalError
from sfumato.mechanisms._randomized_response.fine_grain.amplification_order import (
    BITS,
    AmplificationOrder,
    Bound,
    BoundGroup,
    Candidate,
    Share,
    compute_proportions,
    is_ceiling_demand,
    is_own_demand,
)
from sfumato.mechanisms._randomized_response.fine_grain.retention_solver import (
    find_best_on_curve,
    find_best_with_peak,
    find_turning_group,
)
from sfumato.mechanisms._randomized_response.value_bounds import Direction

_Move = tuple[float, float]
"""A line next to an optimum, with the rate at which it rises with the raised bound, and its slope in the level."""

_LEVEL: _Move = (0.0, 1.0)

_Term = tuple[Floats | float, list[_Move]]
"""One or several shares, and their lines, of which the lowest counts."""


def compute_shadow_prices(
    shares: Sequence[Share], amplifications: Sequence[Bound], retentions: Sequence[Fraction], direction: Direction
) -> tuple[float, ...]:
    """The gain in record utility for each unit by which the bound of a single value is raised.

    The retentions are those of `solve`, perhaps rounded down. The prices are right derivatives. If several points are
    optimal, the largest of their gains counts. Gains are linear between two optimal points, so the two end points are
    enough.
    """
    order = AmplificationOrder.of(shares, amplifications, direction)
    lowest = find_turning_group(order)
    peaks = [find_best_with_peak(order, lowest), find_best_with_peak(order, lowest, 0)]
    curve = [find_best_on_curve(order, lowest), find_best_on_curve(order, find_turning_group(order, 0))]
    # The lowest optimum comes first, then the highest ones on the curve and with a peak.
    optima = dict.fromkeys(candidate for candidate in (peaks if peaks[0] else [*curve, *peaks]) if candidate)
    if max(retentions) > next(iter(optima)).level:
        raise InternalError(
            "prices are available only for retentions that `solve` finds.", code="retentions-not-optimal"
        )
    prices = np.max([_compute_prices(_OptimumState.of(order, optimum)) for optimum in optima], axis=0)
    return tuple((prices * order.other_count / len(shares)).tolist())


@dataclass(frozen=True, slots=True)
class _OptimumState:
    """An optimum, and the position of the groups there.

    Groups before `low` are on their own lines, and groups from `high` on are at the cap. A group between them is on
    both.
    """

    order: AmplificationOrder
    optimum: Candidate
    low: int
    high: int
    zero: int | None
    """The group with retentions of 0. At a higher level its retentions would be negative."""

    @classmethod
    def of(cls, order: AmplificationOrder, optimum: Candidate) -> _OptimumState:
        def compute_retention(group: BoundGroup) -> Fraction:
            return group.line.evaluate(optimum.level)

        cap = order.compute_cap(optimum)
        low, high = (
            bisect_left(order.groups, cap, key=compute_retention),
            bisect_right(order.groups, cap, key=compute_retention),
        )
        least = order.find_least_other(optimum.peak)
        zero = least if least is not None and order.groups[least].line.zero == optimum.level else None
        return cls(order, optimum, low, high, zero)

    def compute_rise(self, value: int, is_demand: Callable[[Fraction, int, Direction], bool] = is_own_demand) -> float:
        """The rate at which one of the lines of a value rises with its bound."""
        order, level = self.order, self.optimum.level
        bound = order.groups[order.group_numbers[value]].amplification
        if is_demand(bound, order.other_count, order.direction):
            return float((1 - level) / order.other_count)
        return float((1 + order.other_count * level) / bound**2)

    def list_lines(self, value: int, ceilings: list[_Move], rise: float = 0.0) -> list[_Move]:
        """Lists the lines that meet at a value."""
        number = self.order.group_numbers[value]
        if number >= self.high:
            return ceilings
        own = (rise, -float(self.order.groups[number].line.slope))
        return [*ceilings, own] if number >= self.low else [own]

    def make_ceiling(self, raised: int, peak: int) -> _Move:
        """The retention that a peak leaves to other values. It rises only with the peak's own bound."""
        rise = self.compute_rise(peak, is_ceiling_demand) if raised == peak else 0.0
        return rise, -float(self.order.make_ceiling(peak).slope)

    def list_cases(self) -> list[tuple[list[int], int | None]]:
        """Lists the values whose bound may move the level if it is raised alone. Each list has a peak to try.

        Without a peak, each value at its corner may become a peak. If the peak is a raised value, each raised value is
        tried as its own peak.
        """
        order, peak = self.order, self.optimum.peak
        between = [value for group in order.groups[self.low : self.high] for value in group.members]
        at_zero = [] if self.zero is None else list(order.groups[self.zero].members)
        if peak is None:
            peaks = heapq.nlargest(2, between, key=order.weights.__getitem__)
            cases = [(between, next(iter(between), None)), (at_zero, None)]
        else:
            peaks, cases = [peak], [([peak], peak)]
        for top in peaks:
            cases += [([value for value in values if value != top], top) for values in (between, at_zero)]
        return [case for case in cases if case[0]]

    def find_highest_step(self, raised: int, peak: int | None) -> float:
        """The largest rise of the level before a retention becomes negative."""
        order = self.order
        steps = [0.0] if self.optimum.level == 1 else []
        if self.zero is not None:
            group = order.groups[self.zero]
            at_zero = {
                value for value in (raised, peak) if value is not None and order.group_numbers[value] == self.zero
            }
            if len(group.members) > len(at_zero):
                steps.append(0.0)
            if raised in at_zero - {peak}:
                steps.append(self.compute_rise(raised) / float(group.line.slope))
        if peak is not None and order.make_ceiling(peak).zero == self.optimum.level:
            rise, slope = self.make_ceiling(raised, peak)
            steps.append(-rise / slope)
        return min(steps, default=math.inf)


def _compute_prices(state: _OptimumState) -> Floats:
    """The gain from raising the bound of each value next to this optimum. Redrawn records are not counted."""
    shares = compute_proportions(state.order.weights)
    prices = np.zeros(len(shares))
    for group in state.order.groups[: state.low]:  # at an unchanged level, only the raised value gains
        members = list(group.members)
        prices[members] = shares[members] * state.compute_rise(members[0])
    if state.optimum.peak is not None:
        prices[state.optimum.peak] = 0.0  # the value is not on its line
    for raised, peak in state.list_cases():
        prices[raised] = np.maximum(prices[raised], _compute_gain(state, shares, raised, peak))
    return prices


def _compute_gain(state: _OptimumState, shares: Floats, raised: list[int], peak: int | None) -> Floats:
    """The largest first-order gain from moving the level, while the bound of one raised value rises at rate 1.

    The raised values have equal bounds. Next to the optimum, each value is on the lowest of the lines that meet there.
    """
    order, value, weight = state.order, raised[0], shares[raised]
    ceilings = [_LEVEL] if state.optimum.peak is None else []
    if peak is not None:
        ceilings.append(state.make_ceiling(value, peak))
    # The shares of all values with their lines, if no bound were raised and there were no peak ...
    falling, between = (
        order.pull_sums[state.low] / (order.total << BITS),
        order.weights_below[state.high] - order.weights_below[state.low],
    )
    terms: list[_Term] = [
        (-falling, [_LEVEL]),
        ((order.total - order.weights_below[state.high]) / order.total, ceilings),
    ]
    if between:
        terms.append((between / order.total, state.list_lines(order.groups[state.low].members[0], ceilings)))
    # ... and then the raised value and the peak with their own lines.
    if value != peak:
        terms += [
            (-weight, state.list_lines(value, ceilings)),
            (weight, state.list_lines(value, ceilings, state.compute_rise(value))),
        ]
    if peak is not None:
        top = weight if value == peak else shares[[peak]]
        terms += [(-top, state.list_lines(peak, ceilings)), (top, [_LEVEL])]
    return _maximize_concave_sum(terms, state.find_highest_step(value, peak))


def _maximize_concave_sum(terms: Sequence[_Term], highest: float) -> Floats:
    """The maximum of a concave sum over steps of the level.

    It is at a crossing of two lines of a value, or at the highest level.
    """
    steps = {0.0} if math.isinf(highest) else {0.0, highest}
    for _, lines in terms:
        for first, second in combinations(lines, 2):
            if first[1] != second[1]:
                steps.add(min(highest, (first[0] - second[0]) / (second[1] - first[1])))
    gains = [
        np.asarray(sum(share * min(rise + slope * step for rise, slope in lines) for share, lines in terms))
        for step in steps
    ]
    best: Floats = np.max(gains, axis=0)
    return best
