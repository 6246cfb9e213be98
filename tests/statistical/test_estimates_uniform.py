"""Estimates from a release are right on average, and scatter as much as they say; randomness is the perturbation's."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from single import Single, counted
from statistical.support import ALPHA, assert_mean, assert_other_mean, counts_of, keyed_draws

pytestmark = pytest.mark.statistical

KEYS = 4000
COUNTS = (250, 100, 40, 10, 0, 0)
SIZE = len(COUNTS)
PLAN = uniform.plan(Histogram.of(range(SIZE), COUNTS), BreachBound("1/5", "3/5"), uniform.NoOptions(), keyed_draws(0))
DESIGN = uniform.make_design(PLAN)


@cache
def _tallies() -> tuple[Tally, ...]:
    """The published counts of the same table, under many keys."""
    codes = np.repeat(np.arange(SIZE), COUNTS)
    released = (uniform.perturb(PLAN, codes, None, keyed_draws(number), 0).values for number in range(KEYS))
    return tuple(Tally.of_symbols(counts_of(published, SIZE)) for published in released)


def _reconstructed(values: tuple[int, ...], tally: Tally, design: uniform.Design) -> Single:
    (moments,) = counted(uniform.MECHANISM.estimators["closed"], design, tally, values)
    return moments


@cache
def _estimates(values: tuple[int, ...], design: uniform.Design = DESIGN) -> tuple[float, ...]:
    return tuple(_reconstructed(values, tally, design).value for tally in _tallies())


def _truth(values: tuple[int, ...]) -> int:
    return sum(COUNTS[value] for value in values)


def _deviation(values: tuple[int, ...]) -> float:
    variance = _reconstructed(values, _tallies()[0], DESIGN).variance_at(_truth(values))
    assert variance is not None
    return math.sqrt(variance)


every_count = pytest.mark.parametrize("values", [*((value,) for value in range(SIZE)), (0, 1, 2)], ids=str)


@every_count
def test_estimates_are_unbiased(values: tuple[int, ...]) -> None:
    assert_mean(_estimates(values), _truth(values), _deviation(values))


@every_count
@pytest.mark.parametrize("bias", [-0.2, 0.2])
def test_a_bias_of_a_fifth_of_a_standard_deviation_would_be_noticed(values: tuple[int, ...], bias: float) -> None:
    deviation = _deviation(values)
    assert_other_mean(_estimates(values), _truth(values) + bias * deviation, deviation)


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["too small", "too large"])
def test_estimates_with_another_retention_would_be_noticed(factor: Fraction) -> None:
    """The most frequent value: an estimator with the wrong retention is biased by a tenth of what it stands out by."""
    wrong = uniform.Design(DESIGN.domain, DESIGN.retention * factor, DESIGN.bound)
    assert_other_mean(_estimates((0,), wrong), COUNTS[0], _deviation((0,)))


def _variance_p_value(estimates: tuple[float, ...], deviation: float) -> float:
    """Two-sided, by the chi-square law of the sample variance; a sum of 400 coins is as good as normal."""
    freedom = len(estimates) - 1
    statistic = freedom * np.var(estimates, ddof=1) / deviation**2
    return 2 * min(float(stats.chi2.cdf(statistic, freedom)), float(stats.chi2.sf(statistic, freedom)))


@every_count
def test_estimates_scatter_as_much_as_they_say(values: tuple[int, ...]) -> None:
    assert _variance_p_value(_estimates(values), _deviation(values)) >= ALPHA


@every_count
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_another_scatter_would_be_noticed(values: tuple[int, ...], factor: float) -> None:
    assert _variance_p_value(_estimates(values), factor * _deviation(values)) < ALPHA
