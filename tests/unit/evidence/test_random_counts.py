from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from sfumato._evidence.random_counts import Coverage, Utility, count_independent_questions, measure_overlaps
from sfumato._figures import EstimateWithTruth

HALVES = np.array([0, 0, 1, 1])
ALL, LEFT, RIGHT = {}, {0: 0}, {0: 1}


def test_overlaps_are_shared_records_by_the_geometric_mean_of_the_sizes() -> None:
    found = measure_overlaps([HALVES], [ALL, LEFT, RIGHT], 4)
    assert found == pytest.approx(np.array([[1, 0.5**0.5, 0.5**0.5], [0.5**0.5, 1, 0], [0.5**0.5, 0, 1]]))


@pytest.mark.parametrize(
    ("conditions", "values", "domain_size", "independent"),
    [
        ([LEFT, RIGHT], [0, 0], 9, 2),  # no record in common
        ([ALL, ALL], [0, 0], 9, 1),  # one question twice
        ([ALL] * 2, [0, 1], 2, 1),  # yes and no: who knows one error knows the other
        ([ALL] * 5, range(5), 5, 4),  # five counts with a known sum
        ([ALL, LEFT, RIGHT], [0] * 3, 9, 9 / (3 + 4 * 0.5)),  # each half shares half of the variance with the whole
    ],
)
def test_questions_that_share_records_count_less(
    conditions: list[dict[int, int]], values: list[int], domain_size: int, independent: float
) -> None:
    overlaps = measure_overlaps([HALVES], conditions, 4)
    found = count_independent_questions(overlaps, np.arange(len(values)), np.array(values), domain_size)
    assert found == pytest.approx(independent)


@pytest.mark.parametrize(
    ("misses", "questions", "is_fault"), [(2, 10, False), (3, 10, True), (6, 60, False), (8, 60, True), (0, 600, False)]
)
def test_coverage_is_a_fault_only_beyond_its_own_error(misses: int, questions: int, is_fault: bool) -> None:
    """Where that number of misses, or more, has a probability below 2.5%, with independent questions."""
    assert bool(stats.binom.sf(misses - 1, questions, 0.05) < 0.025) is is_fault
    assert Coverage(1 - misses / questions, 660, questions).is_below_expected is is_fault


def test_coverage_and_its_error_are_in_the_json() -> None:
    answers = tuple(EstimateWithTruth(10.0, 10.0, 1.0, low, 12.0) for low in (8.0, 11.0))
    written = json.loads(json.dumps(Utility(answers, independent_questions=2.0).to_json(), allow_nan=False))
    assert (written["questions"], written["coverage"], written["independent_questions"]) == (2, 0.5, 2.0)
    assert written["coverage_low"] < 0.5 < written["coverage_high"]
    assert written["is_coverage_below_expected"] is False
    assert json.loads(json.dumps(Utility((), "why").to_json()))["coverage"] is None
