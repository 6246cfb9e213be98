"""Exact errors of the counts that decoys publish: how far a published count may be off.

Every record publishes a value drawn from its group of `group_size` records with different values. So a value that
`count` records have has `group_size * count` seats in its groups. Each seat publishes it with probability 1/group_size,
so the published count is binomial. All decisions use integers and Fractions. Floats serve for display, and for counts
whose exact errors would take long.

The errors hold where every group has `group_size` records. A larger group makes the published count vary more; then
`chebyshev` holds for the size of the largest group.

Source: Fu, Wang, Wong, Wang and Jiang 2014. Theorem 3 and Lemma 1 are corrected: the paper divides the variance by the
number of seats twice. Definition 2 counts an error of exactly ε as an error, Lemma 2 does not; both are offered.
Notation: f = count, f' = published count, γ = group_size, ε = relative_error, T_p = error_probability(α, γ, ε), T_f =
accurate_count or chebyshev_count, T_E = probability.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction

from sfumato.errors import SpecError

EXACT_SEATS = 20_000
"""Up to this many seats (count times group size) a tail is summed exactly, within a fraction of a second."""

RELATIVE_TOLERANCE = 1e-9
"""Floats that differ by less than this (relatively) are compared exactly; their own error is a thousandth of it."""

NEGLIGIBLE_CHANCE = 1e-20
"""Chances smaller than the first of a sum by this factor are left out of the sum."""

SMALLEST_GROUP = 2


def compute_tail(count: int, group_size: int, relative_error: Fraction, *, inclusive: bool = True) -> Fraction:
    """The exact chance that a published count is off by at least (or, not inclusive, more than) a share of the count.

    Refused above EXACT_SEATS; see `tail_figure`.
    """
    count, group_size = _check_arguments(count, group_size, relative_error)
    seats = count * group_size
    if seats > EXACT_SEATS:
        raise SpecError(
            f"an exact chance is computed for at most {EXACT_SEATS:,} seats; {count:,} records in groups of "
            f"{group_size} have {seats:,}. Use the rounded chance.",
            code="too-many-seats",
            fields={"seats": seats, "largest": EXACT_SEATS},
        )
    reach = _compute_reach(count, relative_error, inclusive) - 1
    first, last = max(count - reach, 0), min(count + reach, seats)
    # Over the common denominator γ^n, the chance of k is C(n, k) (γ-1)^(n-k); each follows from the previous one.
    weight = math.comb(seats, first) * (group_size - 1) ** (seats - first)
    within = 0
    for published in range(first, last + 1):
        within += weight
        weight = weight * (seats - published) // ((published + 1) * (group_size - 1))
    return 1 - Fraction(within, group_size**seats)


def compute_tail_figure(count: int, group_size: int, relative_error: Fraction, *, inclusive: bool = True) -> float:
    """The chance of `tail` for display: the exact one rounded up to EXACT_SEATS, otherwise to about 12 digits."""
    count, group_size = _check_arguments(count, group_size, relative_error)
    if count * group_size <= EXACT_SEATS:
        return float(compute_tail(count, group_size, relative_error, inclusive=inclusive))
    return _approximate_tail(count, group_size, _compute_reach(count, relative_error, inclusive))


def compute_error_probability(
    largest_count: int, group_size: int, relative_error: Fraction, *, inclusive: bool = False
) -> Fraction:
    """T_p of Lemma 2: the smallest chance, over all counts up to the largest, that the published count is off.

    It concerns only the published count as an estimate of the count of a value. The count of a value among the records
    of a condition can be estimated better (Theorem 4 is false), and other estimates may do so too.
    """
    if largest_count < 1:
        raise SpecError(
            f"the largest count is {largest_count} and must be at least 1.",
            code="count-out-of-range",
            fields={"given": largest_count},
        )
    return min(
        compute_tail(count, group_size, relative_error, inclusive=inclusive)
        for count in range(1, int(largest_count) + 1)
    )


def compute_chebyshev_bound(count: int, group_size: int, relative_error: Fraction) -> Fraction:
    """Theorem 3, corrected: an upper bound of `tail`, (1 - 1/γ) / (ε² f); above 1 it says nothing."""
    count, group_size = _check_arguments(count, group_size, relative_error)
    return Fraction(group_size - 1, group_size) / (relative_error**2 * count)


def find_chebyshev_count(group_size: int, relative_error: Fraction, probability: Fraction) -> int:
    """Lemma 1, corrected: from this count on, `chebyshev` is at most the probability."""
    _check_probability(probability)
    return max(1, math.ceil(compute_chebyshev_bound(1, group_size, relative_error) / probability))


def find_accurate_count(
    group_size: int, relative_error: Fraction, probability: Fraction, *, inclusive: bool = True
) -> int:
    """The smallest count from which on every count has a `tail` of at most the probability.

    The tail is not monotone: while ε f stays between two integers the tail rises with f, and at the next integer it
    falls. The last count that exceeds the probability is sought downwards from a count that proves all larger ones.
    Floats decide clear cases, exact chances the others. Above EXACT_SEATS an unclear count is treated as exceeding, so
    the result may be too large, but never too small.
    """
    _, group_size = _check_arguments(1, group_size, relative_error)
    _check_probability(probability)
    # From some count on all tails are small, by Chebyshev's inequality or Bernstein's.
    variance, error = 1 - 1 / group_size, float(relative_error)
    bernstein = 2 * (variance + error / 3) * math.log(2 / float(probability)) / error**2
    count = min(
        find_chebyshev_count(group_size, relative_error, probability) - 1,
        math.ceil(bernstein * (1 + RELATIVE_TOLERANCE)),
    )
    while count > 0 and not _has_larger_tail(count, group_size, relative_error, probability, inclusive=inclusive):
        count = _find_next_lower(count, group_size, relative_error, inclusive)
    return count + 1


def _find_next_lower(count: int, group_size: int, relative_error: Fraction, inclusive: bool) -> int:
    """The next lower count to check: the last one with a smaller reach.

    With a fixed reach d both tails rise with f, so the last count stands for the others. The reason: one more record
    adds γ seats, b of which publish the value. The lower tail gains Pr[b = 0] times the chance of f-d+1, and loses b-1
    chances below that one. The upper tail loses Pr[b = 0] times the chance of f+d, and gains b-1 chances below that
    one. The mean of b is 1, so b-1 above 0 has the mean Pr[b = 0]. Chances rise up to f and fall from f on. So the
    chances below f+d are at least its own while d >= γ-1; with a smaller reach every count is checked.
    """
    reach = _compute_reach(count, relative_error, inclusive)
    if reach < group_size - 1:
        return count - 1
    last = (reach - 1) / relative_error
    return math.floor(last) if inclusive else max(math.ceil(last) - 1, 0)


def _has_larger_tail(
    count: int, group_size: int, relative_error: Fraction, probability: Fraction, *, inclusive: bool
) -> bool:
    figure = _approximate_tail(count, group_size, _compute_reach(count, relative_error, inclusive))
    if not math.isclose(figure, probability, rel_tol=RELATIVE_TOLERANCE):
        return figure > probability
    if count * group_size > EXACT_SEATS:
        return True
    return compute_tail(count, group_size, relative_error, inclusive=inclusive) > probability


def _compute_reach(count: int, relative_error: Fraction, inclusive: bool) -> int:
    """The smallest deviation that counts as an error."""
    error = relative_error * count
    return math.ceil(error) if inclusive else math.floor(error) + 1


def _approximate_tail(count: int, group_size: int, reach: int) -> float:
    """Pr[f' <= f - reach] + Pr[f' >= f + reach], in floats."""
    seats, low, high = count * group_size, count - reach, count + reach
    if seats <= EXACT_SEATS:
        return _sum_chances(seats, low, group_size, -1) + _sum_chances(seats, high, group_size, 1)
    from scipy.special import betainc, betaincc  # noqa: PLC0415 - scipy takes long to load, and few commands need it

    below = float(betaincc(low + 1, seats - low, 1 / group_size)) if low >= 0 else 0.0
    above = float(betainc(high, seats - high + 1, 1 / group_size)) if high <= seats else 0.0
    return below + above


def _sum_chances(seats: int, first: int, group_size: int, step: int) -> float:
    """Sums the chance of a published count and of all beyond it, which fall, until further ones add nothing."""
    if not 0 <= first <= seats:
        return 0.0
    published, others = first, group_size - 1
    chance = math.comb(seats, first) * others ** (seats - first) / group_size**seats
    chances = [chance]
    while chance > chances[0] * NEGLIGIBLE_CHANCE and 0 <= published + step <= seats:
        rising = (seats - published) / ((published + 1) * others)
        falling = published * others / (seats - published + 1)
        chance *= rising if step > 0 else falling
        published += step
        chances.append(chance)
    return math.fsum(chances)


def _check_arguments(count: int, group_size: int, relative_error: Fraction) -> tuple[int, int]:
    check_group_size(group_size)
    if count < 1:
        raise SpecError(
            f"the count is {count}; only a count of at least 1 has a relative error.",
            code="count-out-of-range",
            fields={"given": count},
        )
    if not relative_error > 0:
        raise SpecError(
            f"the relative error is {relative_error} and must be above 0.",
            code="error-out-of-range",
            fields={"given": str(relative_error)},
        )
    return operator.index(count), operator.index(group_size)


def check_group_size(group_size: int) -> None:
    """Refuses a group without decoys."""
    if group_size < SMALLEST_GROUP:
        raise SpecError(
            f"the group size is {group_size} and must be at least {SMALLEST_GROUP}.",
            code="group-size-out-of-range",
            fields={"given": group_size},
        )


def _check_probability(probability: Fraction) -> None:
    if not 0 < probability < 1:
        raise SpecError(
            f"the probability is {probability} and must be between 0 and 1.",
            code="chance-out-of-range",
            fields={"given": str(probability)},
        )
