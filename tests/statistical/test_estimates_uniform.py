"""Estimates from a release are right on average, and scatter as much as they say; randomness is the perturbation's."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sfumato.histogram import Histogram
from sfumato.mechanisms import uniform
from sfumato.spec import BreachBound
from sfumato.tally import Mask, Tally
from statistical.support import ALPHA, assert_mean, assert_other_mean, counts_of, keyed_draws

pytestmark = pytest.mark.statistical

KEYS = 4000
COUNTS = (250, 100, 40, 10, 0, 0)
SIZE = len(COUNTS)
PLAN = uniform.plan(Histogram.of(range(SIZE), COUNTS), BreachBound("1/5", "3/5"), uniform.Options(), keyed_draws(0))
DESIGN = uniform.design(PLAN)


@cache
def _tallies() -> tuple[Tally, ...]:
    """The published counts of the same table, under many keys."""
    codes = np.repeat(np.arange(SIZE), COUNTS)
    released = (uniform.replace(PLAN, codes, None, keyed_draws(number), 0) for number in range(KEYS))
    return tuple(Tally(counts_of(published, SIZE)) for published in released)


def _estimates(wanted: Mask) -> list[float]:
    return [uniform.reconstruct(DESIGN, tally, wanted).value for tally in _tallies()]


def _deviation(wanted: Mask, truth: int) -> float:
    base, slope = uniform.count_variance(DESIGN, sum(COUNTS), int(wanted.sum()))
    return math.sqrt(base + slope * truth)


every_count = pytest.mark.parametrize(
    "wanted",
    [np.arange(SIZE) == value for value in range(SIZE)] + [np.arange(SIZE) < 3],
    ids=[*(f"value {value}" for value in range(SIZE)), "three values"],
)


@every_count
def test_estimates_are_unbiased(wanted: Mask) -> None:
    truth = int(np.array(COUNTS)[wanted].sum())
    assert_mean(_estimates(wanted), truth, _deviation(wanted, truth))


@every_count
def test_a_bias_of_a_fifth_of_a_standard_deviation_would_be_noticed(wanted: Mask) -> None:
    truth = int(np.array(COUNTS)[wanted].sum())
    deviation = _deviation(wanted, truth)
    for bias in (-deviation / 5, deviation / 5):
        assert_other_mean(_estimates(wanted), truth + bias, deviation)


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["too small", "too large"])
def test_estimates_with_another_retention_would_be_noticed(factor: Fraction) -> None:
    """The most frequent value: an estimator with the wrong retention is biased by a tenth of what it stands out by."""
    wrong = uniform.Design(DESIGN.domain, DESIGN.retention * factor, DESIGN.bound)
    wanted = np.arange(SIZE) == 0
    estimates = [uniform.reconstruct(wrong, tally, wanted).value for tally in _tallies()]
    assert_other_mean(estimates, COUNTS[0], _deviation(wanted, COUNTS[0]))


def _variance_p_value(estimates: list[float], deviation: float) -> float:
    """Two-sided, by the chi-square law of the sample variance; a sum of 400 coins is as good as normal."""
    statistic = (len(estimates) - 1) * np.var(estimates, ddof=1) / deviation**2
    below = float(stats.chi2.cdf(statistic, len(estimates) - 1))
    return 2 * min(below, float(stats.chi2.sf(statistic, len(estimates) - 1)))


@every_count
def test_estimates_scatter_as_much_as_they_say(wanted: Mask) -> None:
    truth = int(np.array(COUNTS)[wanted].sum())
    assert _variance_p_value(_estimates(wanted), _deviation(wanted, truth)) >= ALPHA


@every_count
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_another_scatter_would_be_noticed(wanted: Mask, factor: float) -> None:
    truth = int(np.array(COUNTS)[wanted].sum())
    assert _variance_p_value(_estimates(wanted), factor * _deviation(wanted, truth)) < ALPHA
