"""Errors of a band: one mean for each release, and whether one is smaller by more than chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from papers.measured_errors import MeanError, MeasuredAnswers
from papers.query_pools import Band, Pool, make_lower_bands
from sfumato._query.estimate import Estimates
from sfumato.mechanisms.estimator import Moments


def test_smaller_by_three_standard_errors_is_below() -> None:
    low = MeanError(0.10, 0.003, 50)
    assert low.is_below(MeanError(0.1151, 0.004, 50))  # three times 0.005
    assert not low.is_below(MeanError(0.1149, 0.004, 50))
    assert not MeanError(0.1151, 0.004, 50).is_below(low)


def test_one_release_tells_nothing_of_chance() -> None:
    assert MeanError(0.1, 0.003, 50).is_repeated
    assert not MeanError(0.1, math.nan, 50).is_repeated
    assert not MeanError(0.1, math.nan, 50).is_below(MeanError(9.0, 0.003, 50))


def _answers(*values: float) -> Estimates:
    found = np.array(values, dtype=np.float64)
    ones = np.ones(len(found))
    return Estimates(Moments(found, ones, 0 * ones, 1000 * ones, 0 * ones), "made up", "none")


@pytest.fixture
def band() -> Band:
    (only,) = make_lower_bands(1000, "10%")
    return only


def test_errors_are_of_the_queries_of_the_band_and_spread_over_releases(band: Band) -> None:
    pool = Pool((), np.array([100, 200, 50]))  # the last is below a tenth of the records
    measured = MeasuredAnswers(pool, (_answers(110, 200, 0), _answers(100, 240, 0), _answers(130, 200, 0)), 1.0)
    found = measured.compute_errors(band)
    means = [0.05, 0.1, 0.15]
    assert found.query_count == 2
    assert found.mean == pytest.approx(0.1)
    assert found.standard_error == pytest.approx(np.std(means, ddof=1) / 3**0.5)
    assert found.percent == pytest.approx(10)


def test_an_empty_band_has_no_error(band: Band) -> None:
    found = MeasuredAnswers(Pool((), np.array([5])), (_answers(5),), 1.0).compute_errors(band)
    assert found.query_count == 0
    assert math.isnan(found.mean)
