from __future__ import annotations

import math

import numpy as np
import pytest

from papers.accuracy import Accuracy, compute_accuracy, compute_relative_errors
from papers.query_pools import Band, Pool
from refusals import refuses
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.estimate import Estimates
from sfumato.errors import SpecError
from sfumato.mechanisms.estimator import Moments

POOL = Pool((CountQuery({"sex": "F"}, ["flu"]),) * 4, np.array([2, 10, 100, 400]))


def answered(values: list[float]) -> Estimates:
    """Answers that say they are certain, whose intervals are therefore points."""
    return Estimates(Moments.exact(np.array(values, dtype=np.float64)), "", "")


def test_relative_errors_by_hand() -> None:
    found = compute_relative_errors(np.array([3.0, -5.0, 100.0]), np.array([2, 10, 100]))
    assert found.tolist() == [0.5, 1.5, 0.0]
    bounded = compute_relative_errors(np.array([3.0, -5.0, 7.0]), np.array([2, 10, 0]), at_least=20)
    assert bounded.tolist() == [0.05, 0.75, 0.35]
    with refuses(SpecError, "sanity-bound-out-of-range", given="0"):
        compute_relative_errors(np.array([1.0]), np.array([1]), at_least=0)


def test_accuracy_by_hand_over_two_releases() -> None:
    """Errors 0.5, 0.5, 0.5, 0 and 0, 0.1, 0, 0; the exact answers among them hold the truth: one, and three."""
    releases = [answered([3, 5, 150, 400]), answered([2, 11, 100, 400])]
    found = compute_accuracy(POOL, releases)
    assert found == Accuracy(4, pytest.approx(1.6 / 8), pytest.approx(0.05), 4 / 8)


def test_accuracy_of_a_band_is_of_its_queries_alone() -> None:
    releases = [answered([3, 5, 150, 400])]
    assert compute_accuracy(POOL, releases, Band("10 to 99", 10, 100)) == Accuracy(1, 0.5, 0.5, 0.0)
    assert compute_accuracy(POOL, releases, Band("from 100", 100)) == Accuracy(2, 0.25, 0.25, 0.5)
    empty = compute_accuracy(POOL, releases, Band("from 1,000", 1000))
    assert empty.queries == 0
    assert math.isnan(empty.mean)


def test_accuracy_without_intervals_has_no_coverage() -> None:
    none = np.full(4, np.nan)
    moments = Moments.exact(np.array([2.0, 10.0, 100.0, 400.0]))
    without = Estimates(type(moments)(**{**vars(moments), "base": none, "slope": none}), "", "")
    found = compute_accuracy(POOL, [without])
    assert found.mean == 0
    assert math.isnan(found.coverage)
