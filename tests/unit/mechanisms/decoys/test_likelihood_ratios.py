from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._request import decoy_count_errors
from sfumato._request.decoy_count_errors import (
    EXACT_SEATS,
    compute_chebyshev_bound,
    compute_error_probability,
    compute_tail,
    compute_tail_figure,
    find_accurate_count,
    find_chebyshev_count,
)
from sfumato.errors import ErrorField, SpecError
from sfumato.mechanisms._decoys.likelihood_ratios import (
    compute_amplification,
    compute_leak,
    compute_likelihood_ratio,
    find_largest_group_size,
)

group_sizes = st.integers(2, 12)
relative_errors = st.fractions(Fraction(1, 50), 2, max_denominator=50)
TENTH, THREE_TENTHS = Fraction(1, 10), Fraction(3, 10)


def _chances(count: int, group_size: int) -> list[Fraction]:
    """The law of the published count, from the definition: group after group, seat after seat."""
    law = [Fraction(1)]
    for _ in range(count * group_size):
        law = [
            (law[published] if published < len(law) else Fraction(0)) * (1 - Fraction(1, group_size))
            + (law[published - 1] if published else Fraction(0)) * Fraction(1, group_size)
            for published in range(len(law) + 1)
        ]
    return law


# ---------------------------------------------------------------------------------------------------- published counts


@given(st.integers(1, 9), st.integers(2, 6), relative_errors, st.booleans())
def test_tail_is_the_sum_of_what_is_off(count: int, group_size: int, error: Fraction, inclusive: bool) -> None:
    off = (
        chance
        for published, chance in enumerate(_chances(count, group_size))
        if abs(published - count) > error * count or (inclusive and abs(published - count) == error * count)
    )
    assert compute_tail(count, group_size, error, inclusive=inclusive) == sum(off)


def test_conventions_differ_only_where_the_error_can_be_met_exactly() -> None:
    for count in range(1, 41):
        wider, narrower = (compute_tail(count, 5, THREE_TENTHS, inclusive=inclusive) for inclusive in (True, False))
        assert (wider > narrower) == (count % 10 == 0)


@given(st.integers(1, 400), group_sizes, relative_errors)
def test_corrected_theorem_3_is_never_exceeded(count: int, group_size: int, error: Fraction) -> None:
    assert compute_tail(count, group_size, error) <= compute_chebyshev_bound(count, group_size, error)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize(
    ("count", "group_size", "error"),
    [(4001, 5, Fraction(1, 50)), (2001, 10, Fraction(3, 100)), (10001, 2, Fraction(1, 100)), (20, 1001, TENTH)],
)
def test_figure_of_a_large_count_agrees_with_the_exact_one(
    count: int, group_size: int, error: Fraction, inclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = compute_tail_figure(count, group_size, error, inclusive=inclusive)
    monkeypatch.setattr("sfumato._request.decoy_count_errors.EXACT_SEATS", 30_000)
    assert figure == pytest.approx(float(compute_tail(count, group_size, error, inclusive=inclusive)), rel=1e-12)


def test_figure_of_a_small_count_is_the_exact_one_rounded() -> None:
    assert compute_tail_figure(100, 10, TENTH) == float(compute_tail(100, 10, TENTH))


def test_figures_of_ten_million_records_are_quick_and_near_the_normal_law() -> None:
    """At five deviations, where the normal law still has three digits."""
    count, group_size = 10**7, 10
    deviation = math.sqrt(count * (1 - 1 / group_size))
    error = Fraction(round(5 * deviation), count)
    assert compute_tail_figure(count, group_size, error) == pytest.approx(math.erfc(5 / math.sqrt(2)), rel=0.02)


def test_exact_tail_of_too_many_seats_is_refused() -> None:
    with refuses(SpecError, "too-many-seats", largest=EXACT_SEATS):
        compute_tail(EXACT_SEATS // 10 + 1, 10, TENTH)


def test_an_error_beyond_every_published_count_has_no_chance() -> None:
    assert compute_tail(3, 2, Fraction(11, 10)) == 0
    assert compute_tail_figure(EXACT_SEATS, 2, Fraction(11, 10)) == 0
    assert compute_tail(3, 5, Fraction(2)) > 0


@given(st.integers(1, 30), st.integers(2, 6), relative_errors, st.booleans())
def test_error_probability_is_the_least_tail(largest: int, group_size: int, error: Fraction, inclusive: bool) -> None:
    tails = [compute_tail(count, group_size, error, inclusive=inclusive) for count in range(1, largest + 1)]
    assert compute_error_probability(largest, group_size, error, inclusive=inclusive) == min(tails)


@given(
    st.integers(2, 9),
    st.fractions(Fraction(1, 10), 2, max_denominator=20),
    st.fractions(Fraction(1, 50), Fraction(9, 10)),
    st.booleans(),
)
def test_accurate_count_is_the_smallest(
    group_size: int, error: Fraction, probability: Fraction, inclusive: bool
) -> None:
    """Looked up in a list of tails, none left out, up to a count from which on Chebyshev's inequality is enough."""
    enough = find_chebyshev_count(group_size, error, probability)
    assume(enough < 150)
    tails = {count: compute_tail(count, group_size, error, inclusive=inclusive) for count in range(1, enough)}
    exceeding = [count for count, chance in tails.items() if chance > probability]
    assert find_accurate_count(group_size, error, probability, inclusive=inclusive) == max(exceeding, default=0) + 1


@given(st.integers(1, 200), st.integers(2, 12), relative_errors, st.booleans())
def test_figure_is_the_exact_tail_to_nearly_all_its_digits(
    count: int, group_size: int, error: Fraction, inclusive: bool
) -> None:
    """Summed from the largest chance on, and by incomplete beta functions where there are many seats."""
    reach, exact = (
        decoy_count_errors._compute_reach(count, error, inclusive),
        compute_tail(count, group_size, error, inclusive=inclusive),
    )
    for seats in (0, decoy_count_errors.EXACT_SEATS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoy_count_errors, "EXACT_SEATS", seats)
            figure = decoy_count_errors._approximate_tail(count, group_size, reach)
        assert figure == pytest.approx(float(exact), rel=decoy_count_errors.RELATIVE_TOLERANCE / 1000, abs=1e-280)


def test_promise_of_decoys_does_without_scipy() -> None:
    """Which takes longer to load than a small table takes to be published."""
    code = (
        "import sys\nfrom fractions import Fraction\nfrom sfumato._request.decoy_count_errors import "
        "find_accurate_count\nfind_accurate_count(10, Fraction(1, 10), Fraction(1, 20))\nassert 'scipy' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("group_size", "count"), [(5, 30), (2, 23), (10, 40)])
def test_accurate_count_settles_a_tie_exactly(group_size: int, count: int) -> None:
    """The last tail of a tooth, asked for exactly and a little less: no float can tell these two apart."""
    met = compute_tail(count, group_size, THREE_TENTHS)
    below = met - Fraction(1, 10**40)
    assert find_accurate_count(group_size, THREE_TENTHS, below) == count + 1
    assert find_accurate_count(group_size, THREE_TENTHS, met) < count + 1


def test_accurate_count_errs_upwards_where_exact_chances_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    met = compute_tail(20, 5, THREE_TENTHS)
    monkeypatch.setattr("sfumato._request.decoy_count_errors.EXACT_SEATS", 100)
    assert find_accurate_count(5, THREE_TENTHS, met) < 21
    monkeypatch.setattr("sfumato._request.decoy_count_errors.EXACT_SEATS", 99)
    assert find_accurate_count(5, THREE_TENTHS, met) == 21


def test_accurate_count_of_a_thousandth_is_found() -> None:
    error, probability = Fraction(1, 1000), Fraction(1, 100)
    found = find_accurate_count(10, error, probability)
    assert compute_tail_figure(found - 1, 10, error) > probability
    assert all(compute_tail_figure(count, 10, error) <= probability for count in range(found, found + 3000))
    assert found < find_chebyshev_count(10, error, probability)


@given(group_sizes, relative_errors, st.fractions(Fraction(1, 1000), Fraction(999, 1000)))
def test_chebyshev_count_is_the_smallest_that_its_bound_allows(
    group_size: int, error: Fraction, probability: Fraction
) -> None:
    least = find_chebyshev_count(group_size, error, probability)
    assert compute_chebyshev_bound(least, group_size, error) <= probability
    assert least == 1 or compute_chebyshev_bound(least - 1, group_size, error) > probability


# ----------------------------------------------------------------------------------------------------- published values


@st.composite
def eligible(draw: st.DrawFn) -> tuple[int, int, int]:
    group_size = draw(group_sizes)
    count = draw(st.integers(1, 10**6))
    return count, draw(st.integers(group_size * count, 10**8)), group_size


@given(eligible())
def test_leak_keeps_the_expected_count(figures: tuple[int, int, int]) -> None:
    count, total, group_size = figures
    assert Fraction(count, group_size) + (total - count) * compute_leak(*figures) == count


@given(eligible())
def test_likelihood_ratio_and_amplification_follow_from_the_leak(figures: tuple[int, int, int]) -> None:
    count, total, group_size = figures
    kept, leaked = Fraction(1, group_size), compute_leak(*figures)
    assert compute_likelihood_ratio(*figures) == kept / leaked >= 1
    assert compute_amplification(*figures) == (math.inf if kept == leaked else 1 / (kept - leaked))
    assert (compute_amplification(*figures) == math.inf) == (group_size * count == total)


def test_a_published_count_beyond_its_limit_tells_nothing() -> None:
    assert compute_amplification(21, 100, 5) == math.inf
    assert compute_amplification(0, 100, 5) == 5
    assert compute_leak(0, 100, 5) == 0


def test_a_leak_from_groups_that_are_written_down() -> None:
    """Groups {a, b}, {a, c}, {a, c}: b is published by its own record with 1/2, and by one a of the five others."""
    assert compute_leak(1, 6, 2) == Fraction(1, 2) / 5


@pytest.mark.parametrize(
    ("counts", "size"), [((2, 3, 3, 1), 3), ((4,) * 6, 6), ((10, 1), 1), ((7,), 1), ((0, 0), 0), ((), 0)]
)
def test_largest_group_size(counts: tuple[int, ...], size: int) -> None:
    assert find_largest_group_size(counts) == size


def test_largest_group_size_is_decided_in_integers() -> None:
    most = 10**17 + 1
    assert find_largest_group_size((most, most, most)) == 3
    assert find_largest_group_size((most, most, most - 1)) == 2


def test_figures_of_numpy_integers_are_those_of_integers() -> None:
    count, total, size = np.int64(40), np.int64(10**9), np.int64(10)
    assert compute_tail(count, size, TENTH) == compute_tail(40, 10, TENTH)
    assert compute_leak(count, total, size) == compute_leak(40, 10**9, 10)
    assert find_largest_group_size(np.full(3, 2**62)) == 3


# --------------------------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("ask", "code", "fields"),
    [
        (lambda: compute_tail(0, 2, TENTH), "count-out-of-range", {"given": 0}),
        (lambda: compute_tail(5, 1, TENTH), "group-size-out-of-range", {"given": 1}),
        (lambda: compute_tail(5, 2, Fraction(0)), "error-out-of-range", {"given": "0"}),
        (lambda: compute_tail_figure(5, 2, Fraction(-1)), "error-out-of-range", {"given": "-1"}),
        (lambda: compute_error_probability(0, 2, TENTH), "count-out-of-range", {"given": 0}),
        (lambda: find_chebyshev_count(2, TENTH, Fraction(0)), "chance-out-of-range", {"given": "0"}),
        (lambda: find_accurate_count(2, TENTH, Fraction(1)), "chance-out-of-range", {"given": "1"}),
        (lambda: find_accurate_count(1, TENTH, TENTH), "group-size-out-of-range", {"given": 1}),
        (lambda: compute_leak(21, 100, 5), "value-too-frequent", {"largest_count": 20}),
        (lambda: compute_leak(0, 0, 5), "value-too-frequent", {"largest_count": 0}),
        (lambda: compute_likelihood_ratio(0, 100, 5), "value-without-records", {}),
        (lambda: compute_amplification(11, 10, 5), "count-out-of-range", {"given": 11, "records": 10}),
    ],
)
def test_what_makes_no_sense_is_refused(ask: Callable[[], object], code: str, fields: dict[str, ErrorField]) -> None:
    with refuses(SpecError, code, **fields):
        ask()


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("group_size", [2, 5, 9, 30])
def test_a_tail_rises_while_its_reach_stays(group_size: int, inclusive: bool) -> None:
    """What the search for the accurate count rests on: proven from a reach of group_size - 1 on, seen below it too."""
    error = Fraction(1, 9)
    tails = [compute_tail(count, group_size, error, inclusive=inclusive) for count in range(1, 61)]
    for count in range(1, 60):
        falls = count % 9 == (0 if inclusive else 8)  # the next count has to be off by one record more
        assert (tails[count] < tails[count - 1]) == falls
