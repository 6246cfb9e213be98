"""Finds the best retentions if every value has its own amplification bound, with exact rational numbers.

A record of value i is kept with probability p_i, and otherwise redrawn from all m values: Pr[i→j] = q_i = (1-p_i)/m,
and p_i + q_i for j = i. Upward, the demand of value j is p_j + q_j <= γ_j q_i for all i, that is (m-1) p_j + γ_j p_i <=
γ_j - 1. In both directions min(γ_i, γ_j) replaces γ_j. Lowering a retention breaks no demand, since all coefficients
are positive.

Claim: the retentions of `solve` meet every demand, and no others have a higher record utility.
Source: the linear program of the fine-grain paper, Fig. 3; its Theorem 1 is false downward, hence the two directions.
Notation: m = domain size, γ = amplification, p = retention, f = share, M = level = the largest retention.

A search over one number is enough, for the following reason. At the level M, the retention of value i is at most
line_i(M). This line has the slope -s_i, and meets M itself at the corner b_i. Unless a single value is at the level,
p_i = min(M, line_i(M)) is best for all values. Along this curve the utility is concave and piecewise linear, with the
slope

    (sum of f_i with b_i > M) - (sum of f_i s_i with b_i < M).

If only value a is at the level, then M > b_a, and the other values keep min(line_i(M), the rest that a leaves). This
rest is a line of slope -t_a with the same corner b_a. Such a peak gains only if f_a > (sum of f_i s_i with γ_i < γ_a) +
t_a (sum of f_i with γ_i > γ_a). Since s_a t_a >= 1, the curve then rises up to b_a and falls beyond it. So only the
most frequent value at the best corner of the curve can be a useful peak. With a peak, the utility is concave in M too.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from sfumato._core.array_types import Floats
from sfumato.mechanisms._randomized_response.fine_grain.amplification_order import (
    AmplificationOrder,
    Bound,
    Candidate,
    FallingLine,
    Share,
    compute_proportions,
    make_sort_key,
    make_whole_weights,
    sum_exactly,
)
from sfumato.mechanisms._randomized_response.value_bounds import Direction

_GRID, _ZOOMS = 64, 4
"""The number of levels that the aggregate search evaluates, and its number of refinements."""

_RESOLUTION = 1 << 20
"""The result of this search is rounded down to one of this number of steps."""

MOST_PEAKS = 5
"""The largest domain in which every value is tried as the peak."""

# ------------------------------------------------------------------------------------------------------ record utility


def solve(shares: Sequence[Share], amplifications: Sequence[Bound], direction: Direction) -> tuple[Fraction, ...]:
    """Finds the retentions of the highest record utility; of several optima, the one with the lowest level.

    InternalError if no value has a bound, because everything could then be published unchanged.
    """
    order = AmplificationOrder.of(shares, amplifications, direction)
    number = find_turning_group(order)
    return order.compute_retentions(find_best_with_peak(order, number) or find_best_on_curve(order, number))


def compute_record_utility(shares: Sequence[Share], retentions: Sequence[Fraction]) -> Fraction:
    """The expected share of records whose published value is the true one."""
    weights = make_whole_weights(shares)
    weight_by_retention: dict[Fraction, int] = defaultdict(int)
    for weight, retention in zip(weights, retentions, strict=True):
        weight_by_retention[retention] += weight
    mean = sum_exactly(weight * retention for retention, weight in weight_by_retention.items()) / sum(weights)
    return mean + (1 - mean) / len(weights)


def find_turning_group(order: AmplificationOrder, least_sign: int = 1) -> int:
    """Finds the first group beyond whose corner the curve no longer rises (with least sign 0: falls)."""

    def sign(number: int) -> int:
        # Beyond the corner of a group, this group and all below are on their lines, and the others rise with the level.
        return order.compare(Fraction(order.total - order.weights_below[number + 1]), number + 1)

    return bisect_left(range(len(order.groups)), True, key=lambda number: sign(number) < least_sign)


def find_best_on_curve(order: AmplificationOrder, number: int) -> Candidate:
    """The best point of the curve, given the group beyond which it no longer rises."""
    if number == len(order.groups):  # the values without a bound have a larger weight than all others
        return Candidate(order.highest_level)
    return Candidate(min(order.groups[number].line.corner, order.highest_level))


def find_best_with_peak(order: AmplificationOrder, number: int, least_sign: int = 1) -> Candidate | None:
    """The best point with the heaviest value of a group as the peak; None if the corner is as good."""
    if number == len(order.groups):
        return None
    peak = max(order.groups[number].members, key=order.weights.__getitem__)
    own, line = order.groups[number].line, order.make_ceiling(peak)
    # Counts the groups that are on their own lines rather than on the peak's, while the level rises. If the peak's own
    # line is steeper, further groups reach their lines from below; otherwise groups leave their lines from above.
    if own.slope > line.slope:
        stages = range(number + 1, len(order.groups) + 1)
    elif own.slope < line.slope:
        stages = range(number, -1, -1)
    else:  # both lines are equal, so nothing changes
        stages = range(number, number + 1)
    stage = bisect_left(stages, True, key=lambda falling: _compute_peak_sign(order, peak, line, falling) < least_sign)
    # Beyond the limit, another value would have a negative retention.
    limit, least = min(Fraction(1), line.zero), order.find_least_other(peak)
    if least is not None:
        limit = min(limit, order.groups[least].line.zero)
    if stage == 0 or limit <= line.corner:
        return None
    if stage < len(stages):
        turning = order.groups[min(stages[stage - 1], stages[stage])].line
        limit = min(limit, (turning.evaluate(Fraction(0)) - line.evaluate(Fraction(0))) / (turning.slope - line.slope))
    return Candidate(limit, peak)


def _compute_peak_sign(order: AmplificationOrder, peak: int, line: FallingLine, falling: int) -> int:
    """Whether a higher peak gains, if this many groups are on their own lines."""
    weight, number = order.weights[peak], order.group_numbers[peak]
    beside = order.total - order.weights_below[falling]
    if number >= falling:
        return order.compare(weight - line.slope * (beside - weight), falling)
    # The peak is summed among the falling values, although it does not fall.
    return order.compare(weight + order.groups[number].line.slope * weight - line.slope * beside, falling)


# --------------------------------------------------------------------------------------------------------- feasibility


def find_violation(
    amplifications: Sequence[Bound], retentions: Sequence[Fraction], direction: Direction
) -> tuple[int, int] | None:
    """A pair (j, i) with (m-1) p_j + γ p_i > γ - 1, where γ is the bound for that pair; None if there is none."""
    pairs = _list_tightest_pairs if direction is Direction.BOTH else _list_tightest_pairs_upward
    for value, other, bound in pairs(amplifications, retentions):
        # Uses integers, which are faster than fractions, because this runs for every value of a large domain.
        retention, beside = retentions[value], retentions[other]
        room = (bound.numerator - bound.denominator) * beside.denominator - bound.numerator * beside.numerator
        demand = (len(retentions) - 1) * retention.numerator * beside.denominator * bound.denominator
        if demand > room * retention.denominator:
            return value, other
    return None


def _list_tightest_pairs_upward(
    amplifications: Sequence[Bound], retentions: Sequence[Fraction]
) -> Iterator[tuple[int, int, Fraction]]:
    """Lists each demand with the largest other retention."""
    first, second = heapq.nlargest(2, range(len(retentions)), key=retentions.__getitem__)
    for value, bound in enumerate(amplifications):
        if bound is not None:
            yield value, second if value == first else first, bound


def _list_tightest_pairs(
    amplifications: Sequence[Bound], retentions: Sequence[Fraction]
) -> Iterator[tuple[int, int, Fraction]]:
    """Lists each bound with the largest retention among the values whose bounds are not smaller, in both orders."""
    bounds = {value: bound for value, bound in enumerate(amplifications) if bound is not None}
    free = [value for value, bound in enumerate(amplifications) if bound is None]
    largest = max(free, key=retentions.__getitem__, default=None)
    for value in sorted(bounds, key=lambda value: make_sort_key(bounds[value]), reverse=True):
        if largest is not None:
            yield value, largest, bounds[value]
            yield largest, value, bounds[value]
        if largest is None or retentions[value] > retentions[largest]:
            largest = value


# ---------------------------------------------------------------------------------------------------- aggregate utility


def solve_aggregate(
    shares: Sequence[Share], amplifications: Sequence[Bound], direction: Direction
) -> tuple[Fraction, ...]:
    """Finds retentions with a small total variance, at most that of uniform perturbation.

    An objective that falls with every retention is best on the curve or at a peak. Peaks are searched only in small
    domains, because no search found a useful peak with 6 or more values. Only points at which every value is sometimes
    kept are tried.
    """
    order = AmplificationOrder.of(shares, amplifications, direction)
    if len(shares) == 2:  # noqa: PLR2004 - a pair
        return _solve_tight_pair(*amplifications, direction=direction)
    uniform = order.groups[0].line.corner
    candidates = [order.compute_retentions(Candidate(uniform)), _search_retentions(order, uniform, order.highest_level)]
    for peak in (value for group in order.groups for value in group.members) if len(shares) <= MOST_PEAKS else ():
        ceiling, least = order.make_ceiling(peak), order.find_least_other(peak)
        end = min(Fraction(1), ceiling.zero, *(order.groups[place].line.zero for place in [least] if place is not None))
        if ceiling.corner < end:
            candidates.append(_search_retentions(order, ceiling.corner, end, peak))
    return min(candidates, key=lambda retentions: compute_total_variance(shares, retentions))


def _solve_tight_pair(first: Bound, second: Bound, *, direction: Direction) -> tuple[Fraction, Fraction]:
    """The best retentions of two values for any shares. Both demands hold with equality.

    With q_i = (1-p_i)/2 the variance is 2 [f_1 q_1 (1-q_1) + f_2 q_2 (1-q_2)] / (1-q_1-q_2)², which rises with q_1 and
    q_2. Where the demand of 1 is tight, 1-q_1 = γ_1 q_2, it is (f_1 γ_1 + f_2) / q_2 - (f_1 γ_1² + f_2), times a
    constant. So the variance falls along that line until the demand of 2 is tight too, or p_2 is 0. The demand of a
    value without a bound is tight if the other value is always kept.
    """
    one, two = (Fraction(0) if bound is None else 1 / bound for bound in (first, second))
    if direction is Direction.BOTH:
        one = two = max(one, two)
    room = 1 - one * two
    retentions = (1 - 2 * two + one * two) / room, (1 - 2 * one + one * two) / room
    if retentions[0] < 0:  # so this value is never kept, and the other value is kept as often as its own demand allows
        return Fraction(0), 1 / two - 1
    return (1 / one - 1, Fraction(0)) if retentions[1] < 0 else retentions


def _search_retentions(
    order: AmplificationOrder, start: Fraction, end: Fraction, peak: int | None = None
) -> tuple[Fraction, ...]:
    """Finds the best retentions between two levels, on the curve or with a peak. The end itself is excluded."""
    lines = [(group.line.top / group.line.bottom, group.line.pull / group.line.bottom) for group in order.groups]
    starts, slopes = np.array([*lines, (1.0, 0.0)])[
        list(order.group_numbers)
    ].T  # the last group has the values without a bound
    weights, low, high = compute_proportions(order.weights), 0.0, 1.0
    ceiling = None if peak is None else order.make_ceiling(peak)

    def variance(part: float) -> float:
        level = float(start) + part * (float(end) - float(start))
        cap = level if ceiling is None else (ceiling.top - ceiling.pull * level) / ceiling.bottom
        retentions = np.minimum(cap, starts - slopes * level)
        if peak is not None:
            retentions[peak] = level
        return _compute_variance(weights, retentions)

    for _ in range(_ZOOMS):  # the distance from the start to the end
        parts = np.linspace(low, high, _GRID + 1)[:-1]
        best = int(np.argmin([variance(part) for part in parts]))
        low, high = parts[max(best - 1, 0)], parts[best + 1] if best + 1 < _GRID else high
    step = Fraction(min(int(parts[best] * _RESOLUTION), _RESOLUTION - 1), _RESOLUTION)
    return order.compute_retentions(Candidate(start + step * (end - start), peak))


def compute_total_variance(shares: Sequence[Share], retentions: Sequence[Fraction]) -> float:
    """The sum of the variances of the shares estimated by the inverse of the operator, for one record.

    For n records the sum is n times smaller. It is infinite if the operator has no inverse.
    """
    return _compute_variance(
        compute_proportions(make_whole_weights(shares)), np.array([float(retention) for retention in retentions])
    )


def _compute_variance(shares: Floats, retentions: Floats) -> float:
    """The sum of W_xj² E[o_j] over x and j, less 1: W is the inverse, E[o_j] = f_j p_j + sum of f_i q_i.

    Products are summed without `@`, because starting the threads of `@` would take longer than the sum.
    """
    is_kept = retentions > 0
    if is_kept.sum() < len(shares) - 1:
        return math.inf  # two values that are never kept cannot be distinguished
    published_shares = shares * retentions + (shares * (1 - retentions)).sum() / len(shares)
    inverses = 1 / retentions[is_kept]
    if is_kept.all():
        # The estimate is f_x = (o_x - s) / p_x, with the background s = (sum of o_j / p_j - n) / (sum of 1 / p_j).
        total = inverses.sum()
        diagonal = inverses * (_sum_of_others(inverses) + 1) / total
        background = (inverses - 1) / total
        squares = diagonal**2 + background**2 * _sum_of_others(inverses**2)  # the squared length of each column of W
        return float((published_shares * squares).sum()) - 1
    # A value z that is never kept estimates the background: f_x = (o_x - o_z) / p_x for the other values, and f_z is
    # the rest.
    beside, own = inverses**2 + (inverses - 1) ** 2, (inverses**2).sum() + (inverses.sum() + 1) ** 2
    return float((published_shares[is_kept] * beside).sum() + published_shares[~is_kept].sum() * own) - 1


def _sum_of_others(terms: Floats) -> Floats:
    sums: Floats = terms.sum() - terms
    largest = int(terms.argmax())  # the subtraction would cancel all digits of the sum
    sums[largest] = terms[:largest].sum() + terms[largest + 1 :].sum()
    return sums
