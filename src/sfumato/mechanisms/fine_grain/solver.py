"""The best retentions where every value has an amplification bound of its own; decided in exact rationals.

A record of value i is kept with coin p_i, else redrawn from all m values: Pr[i→j] = q_i = (1-p_i)/m, and p_i + q_i for
j = i. Upward, the demand of value j is p_j + q_j <= γ_j q_i for all i, that is (m-1) p_j + γ_j p_i <= γ_j - 1; in both
directions min(γ_i, γ_j) stands for γ_j. Lowering a retention breaks no demand, since all coefficients are positive.

Claim: the retentions of `solve` meet every demand, and no others have a higher record utility.
Source: the linear program of the fine-grain paper, Fig. 3; its Theorem 1 is false downward, hence the two directions.
Notation: m = domain size, γ = amplification, p = retention, f = share, M = level = the largest retention.

Why a search over one number is enough. Beside the level M, value i may keep what a falling line allows: line_i(M), of
slope -s_i, which meets M itself at the corner b_i. Unless one value alone is at the level, p_i = min(M, line_i(M)) is
best for all; along this curve the utility is concave and piecewise linear, of slope

    (sum of f_i with b_i > M) - (sum of f_i s_i with b_i < M).

If value a alone is at the level, then M > b_a, and the others keep min(line_i(M), what a leaves them); the latter is a
line of slope -t_a with the same corner b_a. This gains only if f_a > (sum of f_i s_i with γ_i < γ_a) + t_a (sum of f_i
with γ_i > γ_a). Since s_a t_a >= 1, the curve then rises up to b_a and falls beyond it. So only the heaviest value at
the best corner of the curve can be worth a peak; and with a peak, too, the utility is concave in M.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate, combinations

import numpy as np
import numpy.typing as npt

from sfumato.errors import InternalError

Share = Fraction | int
"""The share of a value, or its count: only proportions matter."""

Bound = Fraction | None
"""The amplification bound of a value; None if it has none."""

_Floats = npt.NDArray[np.float64]

_BITS = 160
"""Sums are kept as integers in units of 2**-160: a bracket that settles nearly every comparison of exact sums."""

_GRID, _ZOOMS = 64, 4
"""The aggregate search looks at so many levels, and so many times closer."""

_RESOLUTION = 1 << 20
"""What it finds is rounded down to one of so many steps."""


class Direction(StrEnum):
    """Which beliefs are bounded: those that rise, as in the paper, or also those that fall."""

    UPWARD = "upward"
    BOTH = "both"


# --------------------------------------------------------------------------------------------------------- the problem


@dataclass(frozen=True, slots=True)
class _Line:
    """A retention that falls while the level rises: (top - pull * level) / bottom.

    It is kept in integers, which are several times faster than fractions; there is one for every value.
    """

    top: int
    pull: int
    bottom: int

    def at(self, level: Fraction) -> Fraction:
        return Fraction(self.top * level.denominator - self.pull * level.numerator, self.bottom * level.denominator)

    @property
    def slope(self) -> Fraction:
        return Fraction(self.pull, self.bottom)

    @property
    def corner(self) -> Fraction:
        """Where the line meets the level itself."""
        return Fraction(self.top, self.bottom + self.pull)

    @property
    def zero(self) -> Fraction:
        return Fraction(self.top, self.pull)


@dataclass(frozen=True, slots=True)
class _Rung:
    """The values of one amplification, and what each of them may keep beside a level."""

    amplification: Fraction
    members: tuple[int, ...]
    line: _Line


@dataclass(frozen=True, slots=True)
class _Ladder:
    """The values by rising amplification; those without a bound stand above all rungs."""

    direction: Direction
    weights: tuple[int, ...]
    """The shares of the values over their common denominator."""
    total: int
    rungs: tuple[_Rung, ...]
    rung_of: tuple[int, ...]
    below: tuple[int, ...]
    """The weight of the first n rungs, for every n."""
    pulls: tuple[int, ...]
    """The sum of weight * slope over the first n rungs, in units of 2**-160, each term rounded down."""

    @property
    def others(self) -> int:
        """The number of values beside a given one, m - 1."""
        return len(self.weights) - 1

    @property
    def end(self) -> Fraction:
        """The highest level of the curve, where the least bounded retention is 0."""
        return self.rungs[0].line.zero


@dataclass(frozen=True, slots=True)
class _Point:
    """A level, and the value that alone is at it; None on the curve."""

    level: Fraction
    peak: int | None = None


def _ladder(shares: Sequence[Share], amplifications: Sequence[Bound], direction: Direction) -> _Ladder:
    rungs = _rungs(amplifications, direction)
    rung_of = [len(rungs)] * len(shares)
    for place, rung in enumerate(rungs):
        for value in rung.members:
            rung_of[value] = place
    weights = _weights(shares)
    heavy = [sum(weights[value] for value in rung.members) for rung in rungs]
    pulls = [_scaled(weight * rung.line.pull, rung.line.bottom) for weight, rung in zip(heavy, rungs, strict=True)]
    below, pulled = (tuple(accumulate(terms, initial=0)) for terms in (heavy, pulls))
    return _Ladder(direction, weights, sum(weights), rungs, tuple(rung_of), below, pulled)


def _rungs(amplifications: Sequence[Bound], direction: Direction) -> tuple[_Rung, ...]:
    places: dict[Fraction, list[int]] = defaultdict(list)
    for value, bound in enumerate(amplifications):
        if bound is not None:
            places[bound].append(value)
    others = len(amplifications) - 1
    if not places or not others:
        raise InternalError("without a bound, or without a second value, there is nothing to solve.")
    return tuple(
        _Rung(bound, tuple(members), _line(bound, others, is_demand=_own_is_demand(bound, others, direction)))
        for bound, members in sorted(places.items(), key=lambda item: _sortable(item[0]))
    )


def _line(amplification: Fraction, others: int, *, is_demand: bool) -> _Line:
    """What a value may keep by its own demand, beside a level; or what its demand leaves to others, at its own level.

    Both have the same corner.
    """
    over, under = amplification.numerator, amplification.denominator * others
    top = over - amplification.denominator
    return _Line(top, over, under) if is_demand else _Line(top, under, over)


def _own_is_demand(amplification: Fraction, others: int, direction: Direction) -> bool:
    """Whether a value below the level is bounded by its own demand.

    In both directions the smaller bound of a pair is a demand on either value, so the steeper of its two lines counts.
    """
    return direction is Direction.UPWARD or amplification >= others


def _ceiling_is_demand(amplification: Fraction, others: int, direction: Direction) -> bool:
    """Whether a value beside a peak is bounded by a demand of its own, with the peak's bound: never so upward."""
    return direction is Direction.BOTH and amplification >= others


def _sortable(number: Fraction) -> tuple[int, Fraction]:
    # Fractions compare slowly; integers decide nearly always.
    return _scaled(number.numerator, number.denominator), number


def _scaled(numerator: int, denominator: int) -> int:
    return (numerator << _BITS) // denominator


def _weights(shares: Sequence[Share]) -> tuple[int, ...]:
    common = math.lcm(*(share.denominator for share in shares))
    return tuple(share.numerator * (common // share.denominator) for share in shares)


def _sum(terms: Iterable[Fraction]) -> Fraction:
    """An exact sum by halves: one by one, a huge denominator would be dragged through every step."""
    parts = list(terms) or [Fraction(0)]
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [left + right for left, right in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]


# ------------------------------------------------------------------------------------------------------ record utility


def solve(shares: Sequence[Share], amplifications: Sequence[Bound], direction: Direction) -> tuple[Fraction, ...]:
    """The retentions of the highest record utility; of several optima, that of the lowest level.

    InternalError if no value has a bound, for then everything could be published as it is.
    """
    ladder = _ladder(shares, amplifications, direction)
    rung = _turning_rung(ladder)
    return _retentions(ladder, _peak_point(ladder, rung) or _curve_point(ladder, rung))


def record_utility(shares: Sequence[Share], retentions: Sequence[Fraction]) -> Fraction:
    """The expected share of records whose published value is the true one."""
    weights = _weights(shares)
    kept: dict[Fraction, int] = defaultdict(int)
    for weight, retention in zip(weights, retentions, strict=True):
        kept[retention] += weight
    mean = _sum(weight * retention for retention, weight in kept.items()) / sum(weights)
    return mean + (1 - mean) / len(weights)


def _turning_rung(ladder: _Ladder, least_sign: int = 1) -> int:
    """The first rung beyond whose corner the curve no longer rises; with least sign 0, beyond which it falls."""
    places = range(len(ladder.rungs))
    return bisect_left(places, True, key=lambda place: _curve_sign(ladder, place + 1) < least_sign)


def _curve_sign(ladder: _Ladder, falling: int) -> int:
    """Whether a higher level gains, where so many rungs are on their lines."""
    return _compare(ladder, Fraction(ladder.total - ladder.below[falling]), falling)


def _compare(ladder: _Ladder, target: Fraction, count: int) -> int:
    """The exact sign of target - (sum of weight * slope over the first `count` rungs)."""
    scaled, low = target.numerator << _BITS, ladder.pulls[count] * target.denominator
    if scaled < low:
        return -1
    if scaled > low + count * target.denominator:
        return 1
    pull = _sum(
        (ladder.below[place + 1] - ladder.below[place]) * ladder.rungs[place].line.slope for place in range(count)
    )
    return (target > pull) - (target < pull)


def _curve_point(ladder: _Ladder, rung: int) -> _Point:
    if rung == len(ladder.rungs):  # the values without a bound outweigh all others
        return _Point(ladder.end)
    return _Point(min(ladder.rungs[rung].line.corner, ladder.end))


def _peak_point(ladder: _Ladder, rung: int, least_sign: int = 1) -> _Point | None:
    """The best point with the heaviest value of a rung as the peak; None if that is no better than the corner."""
    if rung == len(ladder.rungs):
        return None
    peak = max(ladder.rungs[rung].members, key=ladder.weights.__getitem__)
    limit, line = _limit(ladder, peak), _ceiling(ladder, peak)
    stages = _stages(ladder, rung, line)
    stage = bisect_left(stages, True, key=lambda falling: _peak_sign(ladder, peak, line, falling) < least_sign)
    if stage == 0 or limit <= line.corner:
        return None
    if stage < len(stages):
        turning = ladder.rungs[min(stages[stage - 1], stages[stage])].line
        limit = min(limit, (turning.at(Fraction(0)) - line.at(Fraction(0))) / (turning.slope - line.slope))
    return _Point(limit, peak)


def _stages(ladder: _Ladder, rung: int, line: _Line) -> range:
    """How many rungs are on their own lines rather than on the peak's, while the level rises.

    If the peak's own line is the steeper one, further rungs reach theirs, from below; else they leave theirs, from
    above; and if it is the same line, nothing changes.
    """
    own = ladder.rungs[rung].line
    if own.slope > line.slope:
        return range(rung + 1, len(ladder.rungs) + 1)
    return range(rung, -1, -1) if own.slope < line.slope else range(rung, rung + 1)


def _peak_sign(ladder: _Ladder, peak: int, line: _Line, falling: int) -> int:
    """Whether a higher peak gains, where so many rungs are on their own lines."""
    weight, rung = ladder.weights[peak], ladder.rung_of[peak]
    beside = ladder.total - ladder.below[falling]
    if rung >= falling:
        return _compare(ladder, weight - line.slope * (beside - weight), falling)
    # The peak is summed among those that fall, which it does not.
    return _compare(ladder, weight + ladder.rungs[rung].line.slope * weight - line.slope * beside, falling)


def _ceiling(ladder: _Ladder, peak: int) -> _Line:
    """The most that a peak leaves to the other values."""
    bound = ladder.rungs[ladder.rung_of[peak]].amplification
    return _line(bound, ladder.others, is_demand=_ceiling_is_demand(bound, ladder.others, ladder.direction))


def _limit(ladder: _Ladder, peak: int) -> Fraction:
    """The highest level of a peak: beyond it, another value would have a negative retention."""
    least = _least_other(ladder, peak)
    zeros = [Fraction(1), _ceiling(ladder, peak).zero]
    return min(zeros if least is None else [*zeros, ladder.rungs[least].line.zero])


def _least_other(ladder: _Ladder, peak: int | None) -> int | None:
    """The first rung with another value than the peak."""
    return next((place for place, rung in enumerate(ladder.rungs[:2]) if rung.members != (peak,)), None)


def _retentions(ladder: _Ladder, point: _Point) -> tuple[Fraction, ...]:
    """Every value as often as its rung and the cap allow."""
    cap = _cap(ladder, point)
    retentions = [cap] * len(ladder.weights)
    for rung in ladder.rungs:
        kept = rung.line.at(point.level)
        if kept >= cap:  # and so it is on all higher rungs
            break
        for value in rung.members:
            retentions[value] = kept
    if point.peak is not None:
        retentions[point.peak] = point.level
    return tuple(retentions)


def _cap(ladder: _Ladder, point: _Point) -> Fraction:
    return point.level if point.peak is None else _ceiling(ladder, point.peak).at(point.level)


# --------------------------------------------------------------------------------------------------------- feasibility


def violation(
    amplifications: Sequence[Bound], retentions: Sequence[Fraction], direction: Direction
) -> tuple[int, int] | None:
    """A pair (j, i) with (m-1) p_j + γ p_i > γ - 1, where γ is the bound for that pair; None if there is none."""
    pairs = _tightest_pairs if direction is Direction.BOTH else _tightest_pairs_upward
    for value, other, bound in pairs(amplifications, retentions):
        if _is_broken(bound, len(retentions) - 1, retentions[value], retentions[other]):
            return value, other
    return None


def _tightest_pairs_upward(
    amplifications: Sequence[Bound], retentions: Sequence[Fraction]
) -> Iterator[tuple[int, int, Fraction]]:
    """Each demand with the largest retention beside it."""
    first, second = heapq.nlargest(2, range(len(retentions)), key=retentions.__getitem__)
    for value, bound in enumerate(amplifications):
        if bound is not None:
            yield value, second if value == first else first, bound


def _tightest_pairs(
    amplifications: Sequence[Bound], retentions: Sequence[Fraction]
) -> Iterator[tuple[int, int, Fraction]]:
    """Each bound with the largest retention among the values whose own bound is no smaller, both ways round."""
    bounds = {value: bound for value, bound in enumerate(amplifications) if bound is not None}
    free = [value for value, bound in enumerate(amplifications) if bound is None]
    largest = max(free, key=retentions.__getitem__, default=None)
    for value in sorted(bounds, key=lambda value: _sortable(bounds[value]), reverse=True):
        if largest is not None:
            yield value, largest, bounds[value]
            yield largest, value, bounds[value]
        if largest is None or retentions[value] > retentions[largest]:
            largest = value


def _is_broken(bound: Fraction, others: int, kept: Fraction, beside: Fraction) -> bool:
    # In integers, which are faster than fractions: this is asked for every value of a large domain.
    room = (bound.numerator - bound.denominator) * beside.denominator - bound.numerator * beside.numerator
    return others * kept.numerator * beside.denominator * bound.denominator > room * kept.denominator


# ------------------------------------------------------------------------------------------------------- shadow prices

_Move = tuple[float, float]
"""A line next to an optimum: how much it rises with the raised bound, and its slope in the level."""

_LEVEL: _Move = (0.0, 1.0)

_Term = tuple[_Floats | float, list[_Move]]
"""A share, or several, and the lines of which the lowest counts."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An optimum, and how the rungs stand there.

    Those before `low` are on their own lines, those from `high` on at the cap; the one between, if any, is at both.
    """

    ladder: _Ladder
    point: _Point
    low: int
    high: int
    zero: int | None
    """The rung with retentions of 0, which would be negative at a higher level."""


def shadow_prices(
    shares: Sequence[Share], amplifications: Sequence[Bound], retentions: Sequence[Fraction], direction: Direction
) -> tuple[float, ...]:
    """What the record utility gains for each unit by which the bound of one value alone is raised.

    The retentions are those of `solve`, perhaps rounded down. The prices are right derivatives; where several points
    are optimal, the best of their gains counts. Gains are linear between two such points, so the ends are enough.
    """
    ladder = _ladder(shares, amplifications, direction)
    points = _optima(ladder)
    if max(retentions) > points[0].level:
        raise InternalError("prices were asked for retentions that `solve` does not find.")
    prices = np.max([_prices(_place(ladder, point)) for point in points], axis=0)
    return tuple((prices * ladder.others / len(shares)).tolist())


def _optima(ladder: _Ladder) -> list[_Point]:
    """The lowest optimum, then the highest ones on the curve and with a peak."""
    lowest = _turning_rung(ladder)
    peaks = [_peak_point(ladder, lowest), _peak_point(ladder, lowest, 0)]
    curve = [_curve_point(ladder, lowest), _curve_point(ladder, _turning_rung(ladder, 0))]
    points = peaks if peaks[0] else [*curve, *peaks]
    return list(dict.fromkeys(point for point in points if point))


def _place(ladder: _Ladder, point: _Point) -> _Place:
    def kept(rung: _Rung) -> Fraction:
        return rung.line.at(point.level)

    cap = _cap(ladder, point)
    low, high = bisect_left(ladder.rungs, cap, key=kept), bisect_right(ladder.rungs, cap, key=kept)
    least = _least_other(ladder, point.peak)
    zero = least if least is not None and ladder.rungs[least].line.zero == point.level else None
    return _Place(ladder, point, low, high, zero)


def _prices(place: _Place) -> _Floats:
    """What raising the bound of each value gains next to this optimum, before the redrawn records are counted."""
    shares = _proportions(place.ladder.weights)
    prices = np.zeros(len(shares))
    for rung in place.ladder.rungs[: place.low]:  # at an unchanged level, only the raised value gains
        members = list(rung.members)
        prices[members] = shares[members] * _rise(place, members[0], _own_is_demand)
    if place.point.peak is not None:
        prices[place.point.peak] = 0.0  # it is not on its line
    for raised, peak in _cases(place):
        prices[raised] = np.maximum(prices[raised], _gain(place, shares, raised, peak))
    return prices


def _cases(place: _Place) -> list[tuple[list[int], int | None]]:
    """Values whose bounds, raised one at a time, may move the level; each list with a peak that it is tried with.

    Where no value is a peak, those at their corner may become one. If the peak is among the raised, each is its own.
    """
    ladder, peak = place.ladder, place.point.peak
    between = [value for rung in ladder.rungs[place.low : place.high] for value in rung.members]
    at_zero = [] if place.zero is None else list(ladder.rungs[place.zero].members)
    if peak is None:
        peaks = heapq.nlargest(2, between, key=ladder.weights.__getitem__)
        cases = [(between, next(iter(between), None)), (at_zero, None)]
    else:
        peaks, cases = [peak], [([peak], peak)]
    for top in peaks:
        cases += [([value for value in values if value != top], top) for values in (between, at_zero)]
    return [case for case in cases if case[0]]


def _gain(place: _Place, shares: _Floats, raised: list[int], peak: int | None) -> _Floats:
    """The best gain of first order from moving the level, while the bound of one of the raised values rises at rate 1.

    The raised values have equal bounds. Next to the optimum, each value is on the lowest of the lines that meet there.
    """
    value, weight = raised[0], shares[raised]
    ceilings = [_LEVEL] if place.point.peak is None else []
    if peak is not None:
        ceilings.append(_ceiling_move(place, value, peak))
    terms = _standing(place, ceilings)
    if value != peak:
        risen = _lines(place, value, ceilings, _rise(place, value, _own_is_demand))
        terms += [(-weight, _lines(place, value, ceilings)), (weight, risen)]
    if peak is not None:
        top = weight if value == peak else shares[[peak]]
        terms += [(-top, _lines(place, peak, ceilings)), (top, [_LEVEL])]
    return _best(terms, _highest_step(place, value, peak))


def _standing(place: _Place, ceilings: list[_Move]) -> list[_Term]:
    """The shares of all values with the lines that they are on, as if nothing were raised and nobody were a peak."""
    ladder, low, high = place.ladder, place.low, place.high
    falling, between = ladder.pulls[low] / (ladder.total << _BITS), (ladder.below[high] - ladder.below[low])
    terms: list[_Term] = [(-falling, [_LEVEL]), ((ladder.total - ladder.below[high]) / ladder.total, ceilings)]
    if between:
        member = ladder.rungs[low].members[0]
        terms.append((between / ladder.total, _lines(place, member, ceilings)))
    return terms


def _lines(place: _Place, value: int, ceilings: list[_Move], rise: float = 0.0) -> list[_Move]:
    rung = place.ladder.rung_of[value]
    if rung >= place.high:
        return ceilings
    own = (rise, -float(place.ladder.rungs[rung].line.slope))
    return [*ceilings, own] if rung >= place.low else [own]


def _best(terms: Sequence[_Term], highest: float) -> _Floats:
    """The maximum of a concave sum over steps of the level: where two lines of a value cross, or at the highest."""
    steps = {0.0} if math.isinf(highest) else {0.0, highest}
    for _, lines in terms:
        for first, second in combinations(lines, 2):
            if first[1] != second[1]:
                steps.add(min(highest, (first[0] - second[0]) / (second[1] - first[1])))
    best: _Floats = np.max([_gain_of(terms, step) for step in steps], axis=0)
    return best


def _gain_of(terms: Sequence[_Term], step: float) -> _Floats:
    gains = [share * min(rise + slope * step for rise, slope in lines) for share, lines in terms]
    return np.asarray(sum(gains))


def _highest_step(place: _Place, raised: int, peak: int | None) -> float:
    """How far the level may rise until a retention is negative."""
    ladder = place.ladder
    steps = [0.0] if place.point.level == 1 else []
    if place.zero is not None:
        rung = ladder.rungs[place.zero]
        at_zero = {value for value in (raised, peak) if value is not None and ladder.rung_of[value] == place.zero}
        if len(rung.members) > len(at_zero):
            steps.append(0.0)
        if raised in at_zero - {peak}:
            steps.append(_rise(place, raised, _own_is_demand) / float(rung.line.slope))
    if peak is not None and _ceiling(ladder, peak).zero == place.point.level:
        rise, slope = _ceiling_move(place, raised, peak)
        steps.append(-rise / slope)
    return min(steps, default=math.inf)


def _ceiling_move(place: _Place, raised: int, peak: int) -> _Move:
    """What a peak leaves to others: it rises only with the peak's own bound."""
    rise = _rise(place, peak, _ceiling_is_demand) if raised == peak else 0.0
    return rise, -float(_ceiling(place.ladder, peak).slope)


def _rise(place: _Place, value: int, is_demand: Callable[[Fraction, int, Direction], bool]) -> float:
    """How fast one of the lines of a value rises with its bound."""
    ladder, level = place.ladder, place.point.level
    bound = ladder.rungs[ladder.rung_of[value]].amplification
    if is_demand(bound, ladder.others, ladder.direction):
        return float((1 - level) / ladder.others)
    return float((1 + ladder.others * level) / bound**2)


# ---------------------------------------------------------------------------------------------------- aggregate utility


def aggregate(shares: Sequence[Share], amplifications: Sequence[Bound], direction: Direction) -> tuple[Fraction, ...]:
    """The retentions of the curve with the least total variance found; those of uniform perturbation if none is better.

    An objective that falls with every retention is best on the curve or at a peak; only the curve is searched, and only
    where every value is kept at times.
    """
    ladder = _ladder(shares, amplifications, direction)
    uniform = ladder.rungs[0].line.corner
    step = Fraction(min(int(_best_part(ladder) * _RESOLUTION), _RESOLUTION - 1), _RESOLUTION)
    found = [_retentions(ladder, _Point(uniform + part * (ladder.end - uniform))) for part in (Fraction(0), step)]
    return min(found, key=lambda retentions: total_variance(shares, retentions))


def _best_part(ladder: _Ladder) -> float:
    """How far to go from uniform perturbation to the end of the curve, for the least variance."""
    shares = _proportions(ladder.weights)
    lines = [(rung.line.top / rung.line.bottom, rung.line.pull / rung.line.bottom) for rung in ladder.rungs]
    starts, slopes = np.array([*lines, (1.0, 0.0)])[list(ladder.rung_of)].T  # the last one is of values without a bound
    uniform, end = float(ladder.rungs[0].line.corner), float(ladder.end)
    low, high = 0.0, 1.0
    for _ in range(_ZOOMS):
        parts = np.linspace(low, high, _GRID + 1)[:-1]
        levels = uniform + parts * (end - uniform)
        best = int(np.argmin([_variance(shares, np.minimum(level, starts - slopes * level)) for level in levels]))
        low, high = parts[max(best - 1, 0)], parts[best + 1] if best + 1 < _GRID else high
    return float(parts[best])


def total_variance(shares: Sequence[Share], retentions: Sequence[Fraction]) -> float:
    """The variances of the shares estimated by the inverse of the operator, summed, for one record.

    For n records it is n times less; it is infinite where the operator has no inverse.
    """
    return _variance(_proportions(_weights(shares)), np.array([float(each) for each in retentions]))


def _proportions(weights: Sequence[int]) -> _Floats:
    total = sum(weights)
    return np.array([weight / total for weight in weights])


def _variance(shares: _Floats, retentions: _Floats) -> float:
    """The sum of W_xj² E[o_j] over x and j, less 1: W is the inverse, E[o_j] = f_j p_j + sum of f_i q_i.

    Products are summed rather than given to `@`, whose threads take longer to wake than the sum takes.
    """
    is_kept = retentions > 0
    if is_kept.sum() < len(shares) - 1:
        return math.inf  # two values that are never kept cannot be told apart
    shown = shares * retentions + (shares * (1 - retentions)).sum() / len(shares)
    inverses = 1 / retentions[is_kept]
    if is_kept.all():
        return float((shown * _squares(inverses)).sum()) - 1
    # The value that is never kept shows the background alone: f_x = (o_x - o_z) / p_x for the others, and f_z the rest.
    beside, own = inverses**2 + (inverses - 1) ** 2, (inverses**2).sum() + (inverses.sum() + 1) ** 2
    return float((shown[is_kept] * beside).sum() + shown[~is_kept].sum() * own) - 1


def _squares(inverses: _Floats) -> _Floats:
    """The squared length of each column of W.

    It is the estimate f_x = (o_x - s) / p_x, with the background s = (sum of o_j / p_j - n) / (sum of 1 / p_j).
    """
    total = inverses.sum()
    diagonal = inverses * (_sum_of_others(inverses) + 1) / total
    background = (inverses - 1) / total
    squares: _Floats = diagonal**2 + background**2 * _sum_of_others(inverses**2)
    return squares


def _sum_of_others(terms: _Floats) -> _Floats:
    sums: _Floats = terms.sum() - terms
    largest = int(terms.argmax())  # nothing would be left of its sum after the subtraction
    sums[largest] = terms[:largest].sum() + terms[largest + 1 :].sum()
    return sums
