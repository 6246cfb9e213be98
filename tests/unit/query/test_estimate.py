"""An estimate and its score interval; the worked numbers were computed with an independent implementation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.random_draws import Draws
from sfumato._query.estimate import Estimate, Estimates, Interval, Ratio
from sfumato._query.intervals import DEFAULT_LEVEL, compute_score_ends
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.errors import QueryError
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms.estimator import Moments
from single import Single


@dataclass(frozen=True)
class Worked:
    """A count of one value: `hits` of `rows` rows show it."""

    hits: int
    rows: int
    amplification: str
    domain_size: int
    value: str
    variance: float
    interval: tuple[float, float]


EXAMPLES = pytest.mark.parametrize(
    "worked",
    [
        pytest.param(
            Worked(40, 1000, "12/5", 50, "5280/7", 51575.51020408162, (370.18163764396417, 1270.09695049412)),
            id="inside the range",
        ),
        pytest.param(Worked(0, 25, "3", 13, "-25/2", 87.5, (-15.486844204546989, 11.614867718364682)), id="below zero"),
        pytest.param(
            Worked(25, 25, "3", 13, "175", 225.0, (121.18132692527927, 249.9466965885384)), id="above the rows"
        ),
    ],
)


def moments_of(worked: Worked) -> Moments:
    """What uniform perturbation makes of the rows."""
    amplification, size = Fraction(worked.amplification), worked.domain_size
    histogram = Histogram(tuple(range(size)), (worked.rows,) * size)
    spec = BreachBound("1/10", amplification / (9 + amplification))
    design = uniform.make_design(uniform.plan(histogram, spec, uniform.NoOptions(), Draws.unsafe_test_key("00" * 32)))
    counts = np.array([worked.hits, worked.rows - worked.hits] + [0] * (size - 2))
    (moments,) = uniform.MECHANISM.estimators["closed"].count(design, Tally.of_symbols(counts), [np.array([0])])
    return moments


def score_interval(moments: Moments, level: float) -> Interval:
    """The interval of one number before it is moved into the range that a count can have."""
    (low,), (high,) = (ends.tolist() for ends in compute_score_ends(moments, level))
    return Interval(low, high)


def estimate_of(moments: Moments) -> Estimate:
    return Estimate.of(moments, "method", "assumption")


@EXAMPLES
def test_estimate_is_the_worked_one(worked: Worked) -> None:
    estimate = estimate_of(moments_of(worked))
    assert estimate.value == pytest.approx(float(Fraction(worked.value)), rel=1e-9)
    assert estimate.standard_error**2 == pytest.approx(worked.variance, rel=1e-9)


@EXAMPLES
def test_score_interval_is_the_worked_one(worked: Worked) -> None:
    assert score_interval(moments_of(worked), 0.95) == pytest.approx(worked.interval, rel=1e-9)


@EXAMPLES
def test_interval_is_the_score_interval_within_the_range_of_a_count(worked: Worked) -> None:
    """Of a count that is not told by hits of a known law."""
    if worked.interval[0] > worked.rows:
        return  # beyond the range: see below
    clipped = [min(max(end, 0), worked.rows) for end in worked.interval]
    moments = replace(moments_of(worked), chances=None)
    assert estimate_of(moments).interval(0.95) == pytest.approx(clipped, rel=1e-9)


@pytest.mark.parametrize(("value", "interval"), [(-50, (0, 1)), (50, (19, 20))], ids=["below", "above"])
def test_interval_beyond_the_range_starts_from_the_nearest_count(value: int, interval: tuple[float, float]) -> None:
    """No count of 0 to 20 fits; the nearest one is given with the standard error of 1, not alone."""
    estimate = estimate_of(Moments.of(value, 1.0, 0.0, 20))
    assert estimate.interval(0.95) == pytest.approx(interval, rel=1e-6)


def test_share_below_zero_is_not_almost_certain() -> None:
    """Fieller's interval of -100 / 1000 ends at 0.0025: an error of 0.052 is joined."""
    ratio = Ratio(-100.0, 1000.0, 52.3**2, 0.0, 0.0)
    estimate = replace(estimate_of(Moments.of(-0.1, 0.0523**2, 0.0, 1.0)), origin=ratio)
    assert ratio.interval(0.95).high == pytest.approx(0.0025, abs=1e-4)
    assert estimate.interval(0.95) == pytest.approx((0, 0.0523))


def test_estimate_below_zero_says_that_it_is_so_by_chance() -> None:
    below, above = Moments.of(-3.0, 4.0, 0.0, 10), Moments.of(3.0, 4.0, 0.0, 10)
    assert [estimate_of(each).note for each in (below, above)] == ["below zero by chance", None]
    assert Estimates(Moments.concatenate([below, above]), "method", "assumption").notes == [
        "below zero by chance",
        None,
    ]
    both = Estimate.of(below, "method", "assumption", "biased")
    assert (both.note, both.lasting_note) == ("biased; below zero by chance", "biased")
    assert both.scale(2.0, 0.0).note == both.note
    assert both.scale(-1.0, 0.0).note == "biased"
    many = Estimates(Moments.concatenate([below, above]), "method", "assumption", "biased")
    assert [each.note for each in many] == many.notes == ["biased; below zero by chance", "biased"]
    assert estimate_of(Moments.of(-3.0, 4.0, 0.0, 10, -10)).note is None
    assert estimate_of(below).scale(2.0, 0.0).note == "below zero by chance"
    assert estimate_of(below).scale(-1.0, 0.0).note is None
    assert estimate_of(below).scale(1.0, 20.0).note is None


def test_estimate_travels_with_its_method_and_assumption() -> None:
    estimate = Estimate.of(Moments.of(1.0, 4.0, 0.0, 10), "method", "assumption")
    assert (estimate.method, estimate.assumption, estimate.standard_error) == ("method", "assumption", 2.0)


@st.composite
def all_moments(draw: st.DrawFn) -> Moments:
    """What any release gives: a wanted record shows a wanted value with chance `wanted`, another one with `other`."""
    other = draw(st.floats(0.001, 0.9))
    wanted = draw(st.floats(other + 0.01, 0.999))
    rows = draw(st.integers(1, 10**6))
    hits = draw(st.integers(0, rows))
    kept = wanted - other
    at_zero, at_most = (rows * chance * (1 - chance) / kept**2 for chance in (other, wanted))
    return Moments.of((hits - rows * other) / kept, at_zero, (at_most - at_zero) / rows, rows)


@given(all_moments(), st.floats(0.01, 0.999))
def test_score_interval_ends_where_a_test_just_does_not_reject(moments: Moments, level: float) -> None:
    low, high = score_interval(moments, level)
    assert low < high
    score = NormalDist().inv_cdf((1 + level) / 2)
    found = Single.of(moments)
    assert found.base is not None
    for end in (low, high):
        variance = found.base + found.slope * end
        assert (found.value - end) ** 2 == pytest.approx(score**2 * variance, rel=1e-4, abs=1e-6 * found.most)


@given(all_moments(), st.floats(0.01, 0.98), st.floats(0.001, 0.019))
def test_interval_is_wider_at_a_higher_level(moments: Moments, level: float, more: float) -> None:
    narrow, wide = (score_interval(moments, each) for each in (level, level + more))
    assert wide.low < narrow.low < narrow.high < wide.high
    if narrow.low < moments.most[0] and narrow.high > 0:
        narrow, wide = (estimate_of(moments).interval(each) for each in (level, level + more))
        assert wide.low <= narrow.low < narrow.high <= wide.high


@given(all_moments(), st.floats(0.01, 0.999))
def test_interval_stays_within_the_range_of_a_count_and_is_never_a_point(moments: Moments, level: float) -> None:
    low, high = estimate_of(moments).interval(level)
    assert 0 <= low < high <= moments.most[0]


@given(all_moments(), st.floats(0.01, 0.999))
def test_interval_holds_an_estimate_that_lies_within_the_range(moments: Moments, level: float) -> None:
    low, high = estimate_of(moments).interval(level)
    (value,), (most,) = moments.value.tolist(), moments.most.tolist()
    if 0 <= value <= most:
        assert low - 1e-9 * most <= value <= high + 1e-9 * most


def test_interval_has_the_default_level() -> None:
    estimate = estimate_of(Moments.of(700.0, 5e4, 2.0, 1000))
    assert DEFAULT_LEVEL == 0.95
    assert estimate.interval() == estimate.interval(0.95) != estimate.interval(0.9)


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, 95, math.nan, math.inf])
def test_level_outside_zero_and_one_is_refused(level: float) -> None:
    with refuses(QueryError, "invalid-level", level=level):
        Estimate.exact(3).interval(level)


@pytest.mark.parametrize("count", [0, 1, 10**15])
def test_exact_estimate_has_no_error(count: int) -> None:
    estimate = Estimate.exact(count)
    assert (estimate.value, estimate.standard_error) == (count, 0)
    assert estimate.interval(0.999) == (count, count)
    assert estimate.method == "exact count"


def test_estimate_without_a_variance_has_no_error_and_refuses_an_interval() -> None:
    estimate = Estimate.of(Moments.of(4.0, None, 0.0, 10), "iterative Bayes", "assumption", "biased")
    assert (estimate.value, estimate.standard_error, estimate.note) == (4.0, None, "biased")
    with refuses(QueryError, "method-without-errors", operation="interval", method="iterative Bayes"):
        estimate.interval()


def test_interval_does_not_go_below_what_is_certain() -> None:
    """Of 20 rows, 5 are known to be counted: no count below 5 is possible, whatever the estimate."""
    low, high = estimate_of(Moments.of(6.0, 16.0, 0.0, 20, 5)).interval(0.95)
    assert (low, high) == pytest.approx((5, 6 + 4 * 1.959964), rel=1e-6)


def test_estimate_does_not_show_its_moments_but_keeps_them() -> None:
    estimate = estimate_of(Moments.of(1.0, 4.0, 0.0, 10))
    assert "moments" not in repr(estimate)
    assert estimate.moments.most.tolist() == [10]
    assert estimate.bounds == (0, 10)


def test_an_estimate_is_printed_with_its_error() -> None:
    assert str(Estimate.exact(1234)) == "1,234"
    found = Estimate.of(Moments.of(120.0, 100.0, 0.0, 1000), "m", "a", "beware\x1b[2J")
    assert str(found) == "120 ± 10 [100, 140]"
    assert repr(found) == "Estimate(120 ± 10 [100, 140]: beware\\x1b[2J)"
    assert str(Estimate.of(Moments.of(120.0, None, 0.0, 1000), "m", "a", "biased")) == "120 ± ?"
    assert repr(Estimate.missing("nobody")) == "Estimate(no number: nobody)"


# ------------------------------------------------------------------------------------------------------- many estimates


@given(st.lists(all_moments(), min_size=1, max_size=5), st.floats(0.01, 0.999))
def test_many_estimates_are_each_what_it_is_alone(moments: list[Moments], level: float) -> None:
    many = Estimates(Moments.concatenate(moments), "method", "assumption")
    low, high = many.interval(level)
    assert len(many) == len(moments)
    for number, each in enumerate(moments):
        one = estimate_of(each)
        assert many[number].value == many.value[number] == one.value
        assert many[number].standard_error == many.standard_error[number] == one.standard_error
        assert many[number].interval(level) == (low[number], high[number]) == one.interval(level)
    assert [each.value for each in many] == [each.value for each in many[:]] == many.value.tolist()


def test_many_estimates_say_beside_each_what_to_beware_of_unless_it_is_certain() -> None:
    biased, usual = Moments.of(4.0, None, 0.0, 10, note="biased"), Moments.of(5.0, 4.0, 0.0, 10)
    parts = Moments.concatenate([biased, Moments.exact(np.array([7.0])), usual])
    many = Estimates(parts, "method", "assumption")
    assert many.notes == [each.note for each in many] == ["biased", None, None]
    assert [each.is_exact for each in many] == many.is_exact.tolist() == [False, True, False]
    assert [each.standard_error for each in many] == [None, 0, 2]
    assert Estimates(many.moments, "method", "assumption", "of all").notes == ["of all", None, "of all"]
    table = many.to_arrow()
    assert table.column_names == ["n", "n_se", "n_low", "n_high", "n_note"]
    assert table.column("n_se").to_pylist() == [None, 0, 2]
    assert table.column("n_low").to_pylist()[0] is None
