"""The stated error of a coverage: it is at least the real one, where questions share records, and not much more."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato._evidence.random_counts import (
    EXPECTED_COVERAGE,
    Coverage,
    _draw_conditions,
    count_independent_questions,
    measure_overlaps,
)
from statistical.support import ALPHA

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

RECORDS, RELEASES, QUANTILE = 600, 1000, 1.959963984540054
BINOMIAL_VARIANCE = EXPECTED_COVERAGE * (1 - EXPECTED_COVERAGE)


def simulate(values: int) -> tuple[np.ndarray, float, int]:
    """The coverage of honest intervals in many releases, their independent questions, and their questions.

    Each record adds a normal error to the count of each value; the errors of a record add up to zero.
    """
    chance = np.random.default_rng(3)
    columns = [chance.integers(0, size, RECORDS) for size in (2, 4, 6, 9)]
    conditions = [condition for condition, _ in _draw_conditions(columns, RECORDS, chance)]
    selected = np.array(
        [
            np.all([columns[place] == code for place, code in item.items()] or [[True] * RECORDS], axis=0)
            for item in conditions
        ]
    ).astype(np.float64)
    deviations = np.sqrt(selected.sum(axis=1) * (1 - 1 / values))
    coverages = np.empty(RELEASES)
    for number in range(RELEASES):
        errors = chance.standard_normal((RECORDS, values))
        errors -= errors.mean(axis=1, keepdims=True)
        coverages[number] = (np.abs(selected @ errors) <= QUANTILE * deviations[:, None]).mean()
    asked = np.repeat(np.arange(len(conditions)), values), np.tile(np.arange(values), len(conditions))
    overlaps = measure_overlaps(columns, conditions, RECORDS)
    return coverages, count_independent_questions(overlaps, *asked, values), len(asked[0])


@pytest.mark.parametrize("values", [2, 6])
def test_error_of_the_coverage_is_not_understated(values: int) -> None:
    """The variance over 1,000 releases has a standard error of 5%, as 1,000 nearly normal numbers have.

    The twin: independent questions would have a smaller variance than the real one, by more than this test allows.
    """
    coverages, independent, questions = simulate(values)
    variance, slack = float(coverages.var()), 1 + stats.norm.isf(ALPHA) * 0.05
    assert variance <= BINOMIAL_VARIANCE / independent * slack
    assert variance >= BINOMIAL_VARIANCE / independent / 2 / slack  # and at most twice the real one
    assert variance > BINOMIAL_VARIANCE / questions * slack
    below = [Coverage(share, questions, independent).is_below_expected for share in coverages]
    assert np.mean(below) <= 0.025 + stats.norm.isf(ALPHA) * (0.025 / RELEASES) ** 0.5


def test_coverage_that_is_too_low_is_noticed() -> None:
    """Intervals that are a third too short cover 81%: with 168 independent questions this is noticed nearly always."""
    coverages, independent, questions = simulate(6)
    short = coverages - (EXPECTED_COVERAGE - 0.81)
    assert np.mean([Coverage(max(share, 0), questions, independent).is_below_expected for share in short]) > 0.95
