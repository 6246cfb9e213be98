"""Computes exactly by how much a count published with decoys may be wrong.

Every record publishes a value drawn from its group of `group_size` records with different values. If `count` records
have a value, its groups have `group_size * count` seats. Each seat publishes the value with probability 1/group_size,
so the published count is binomial. All decisions use integers and Fractions. Floats serve for display, and for counts
whose exact errors would take long.

The errors hold where every group has `group_size` records. A larger group makes the published count vary more. In that
case, `chebyshev` holds for the size of the largest group.

Source: Fu, Wang, Wong, Wang and Jiang 2014. Theorem 3 and Lemma 1 are corrected: the paper divides the variance by the
number of seats twice. An error of exactly ε counts as an error in Definition 2, but not in Lemma 2; both variants are
here. Notation: f = count, f' = published count, γ = group_size, ε = relative_error, T_p = error_probability(α, γ, ε),
T_f = accurate_count or chebyshev_count, T_E = probability.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction

from sfumato.errors import SpecError

EXACT_SEATS = 20_000
"""Up to this many seats (count times group size), a tail probability is summed exactly in a fraction of a second."""

RELATIVE_TOLERANCE = 1e-9
"""Floats with a relative difference below this are compared exactly. Their own error is a thousandth of this."""

NEGLIGIBLE_CHANCE = 1e-20
"""A chance is left out of a sum if it is smaller than this fraction of the first chance."""

SMALLEST_GROUP = 2


def compute_tail(count: int, group_size: int, relative_error: Fraction, *, inclusive: bool = True) -> Fraction:
    """The exact chance that the error of a published count is at least a given share of the count.

    If not `inclusive`, the error must exceed the share. Refused above EXACT_SEATS; see `tail_figure`.
    """
    count, group_size = _check_arguments(count, group_size, relative_error)
    seats = count * group_size
    if seats > EXACT_SEATS:
        raise SpecError(
            f"an exact chance is computed for at most {EXACT_SEATS:,} seats, but {count:,} records in groups of "
            f"{group_size} have {seats:,} seats. Use the rounded chance.",
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
    """The chance that `tail` computes, for display.

    The chance is exact up to EXACT_SEATS, and has about 12 correct digits above.
    """
    count, group_size = _check_arguments(count, group_size, relative_error)
    if count * group_size <= EXACT_SEATS:
        return float(compute_tail(count, group_size, relative_error, inclusive=inclusive))
    return _approximate_tail(count, group_size, _compute_reach(count, relative_error, inclusive))


def compute_error_probability(
    largest_count: int, group_size: int, relative_error: Fraction, *, inclusive: bool = False
) -> Fraction:
    """The smallest chance that a published count is off, over all counts up to the largest (T_p of Lemma 2).

    The chance is for the published count of a value, not for other estimates. The count of a value among the records
    of a condition can be estimated better (Theorem 4 is false). Other estimates may also be better.
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
    """An upper bound of `tail`, (1 - 1/γ) / (ε² f), by the corrected Theorem 3. A bound above 1 is of no use."""
    count, group_size = _check_arguments(count, group_size, relative_error)
    return Fraction(group_size - 1, group_size) / (relative_error**2 * count)


def find_chebyshev_count(group_size: int, relative_error: Fraction, probability: Fraction) -> int:
    """The smallest count whose Chebyshev bound is at most the probability, by the corrected Lemma 1."""
    _check_probability(probability)
    return max(1, math.ceil(compute_chebyshev_bound(1, group_size, relative_error) / probability))


def find_accurate_count(
    group_size: int, relative_error: Fraction, probability: Fraction, *, inclusive: bool = True
) -> int:
    """The smallest count such that this count and every larger one have a `tail` of at most the probability.

    The tail is not monotone: while ε f stays between two integers the tail rises with f, and at the next integer the
    tail falls. The search begins at a count above which no tail exceeds the probability. The search goes down to the
    last count whose tail exceeds the probability. Floats decide clear cases, and exact chances decide the others. An
    unclear count above EXACT_SEATS is treated as if its tail were too large, so the result may be too large, but never
    too small.
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
    """The next lower count to check, which is the largest count with a smaller reach.

    With a fixed reach d both tails rise with f, so checking the largest f with this reach suffices. The reason is that
    one more record adds γ seats, of which b publish the value. The lower tail gains Pr[b = 0] times the chance of
    f-d+1, and loses b-1 chances below that one. The upper tail loses Pr[b = 0] times the chance of f+d, and gains b-1
    chances below that one. The mean of b is 1, so b-1 above 0 has the mean Pr[b = 0]. Chances rise up to f and fall
    from f on. So the chances below f+d are at least its own while d >= γ-1; with a smaller reach every count is
    checked.
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
    """The smallest difference from the true count that counts as an error."""
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
    """Sums the chances of a published count and of all counts beyond it.

    The chances fall, so the sum ends where further ones add nothing.
    """
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
            f"the count is {count}, but only a count of at least 1 has a relative error.",
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
