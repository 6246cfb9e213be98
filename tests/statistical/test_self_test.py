"""The test of published values: its self-test is detected as often as it says, and an honest release is not.

On tables in which one value is so frequent that it is always guessed, whatever is published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from sfumato._planning.mechanism_choice import choose
from sfumato._profile.record_sample import Sample
from sfumato._records.column_codes import CodedColumn, SensitiveColumns
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers import published_value_test
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.attack_target import make_targets
from sfumato._risk.attackers.published_value_test import (
    PublishedValueTest,
    corrupt_published_values,
    examine_published_values,
    find_detected_share,
    measure_fit,
    run_self_test,
)
from sfumato._risk.attackers.row_order_attack import LARGEST_SCORE
from sfumato._risk.attackers.self_test import NORMAL_95_ONE_SIDED
from statistical.support import ALPHA

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

AUDITS = 200
FEWEST_DETECTED = int(stats.binom.ppf(ALPHA, AUDITS, 0.95))
"""The fewest detections that a rate of 95% gives, but for the error rate of these tests."""
BOUND = BreachBound("1/10", "1/3")


@dataclass(frozen=True)
class Case:
    """A table of one column, and how it is published."""

    counts: tuple[int, ...]
    rows_per_person: int = 1
    mechanism: str = "uniform"

    def make_setup(self, seed: int) -> AttackSetup:
        """Publishes the table anew; each person has several rows of one value."""
        names = [f"value {number}" for number in range(len(self.counts))]
        sensitive = SensitiveColumns.of_column(CodedColumn("y", pa.array(names), False))
        people = np.repeat(np.arange(len(names)), [count // self.rows_per_person for count in self.counts])
        codes = np.repeat(np.random.default_rng(seed).permutation(people), self.rows_per_person)
        sample = Sample({}, codes, len(codes))
        chosen = choose(Histogram.of(names, np.bincount(codes).tolist()), BOUND, make_draws(seed), self.mechanism)
        (setup,) = make_planned_setups(chosen, sample, sensitive, make_targets(sample, sensitive, BOUND), seed)
        return setup


DOMINANT = (2550, *[45] * 10)
CASES = {
    "dominant": Case(DOMINANT),
    "dominant, sets": Case(DOMINANT, mechanism="subset"),
    "dominant, 2 rows a person": Case(tuple(count // 2 * 2 for count in DOMINANT), 2),
    "yes or no": Case((2850, 150)),
    "yes or no, 2 rows a person": Case((2850, 150), 2),
    "even": Case((500,) * 6),
}
every_case = pytest.mark.parametrize("name", list(CASES))


def score(setup: AttackSetup) -> float:
    """The score of the test of the audit."""
    result = examine_published_values(setup)
    assert result is not None
    return result.score


def least_share(setup: AttackSetup) -> float:
    """The share that the audit says is detected in 95% of cases."""
    honest, corrupted = measure_fit(setup), measure_fit(corrupt_published_values(setup))
    assert honest is not None
    assert corrupted is not None
    share = find_detected_share(honest, corrupted, NORMAL_95_ONE_SIDED)
    assert share is not None
    return share


@every_case
def test_stated_share_is_detected_as_often_as_stated(name: str) -> None:
    """At least 95% of audits but for the error rate of 1e-9; the self-test itself is always detected.

    Each self-test is missed once in a million times, so one of all is with a chance below 1e-3; seeds are fixed.
    """
    setups = [CASES[name].make_setup(seed) for seed in range(AUDITS)]
    scores = [score(corrupt_published_values(setup, least_share(setup))) for setup in setups]
    assert sum(abs(number) > LARGEST_SCORE for number in scores) >= FEWEST_DETECTED
    self_tests = [run_self_test(setup) for setup in setups[:60]]
    assert all(item is not None and item.is_possible and item.is_noticed for item in self_tests)


@every_case
def test_smaller_share_is_detected_less_often(name: str) -> None:
    """The twin: with two thirds of the stated share, the test would not pass. The stated share is no safe excess."""
    setups = [CASES[name].make_setup(seed) for seed in range(AUDITS)]
    scores = [score(corrupt_published_values(setup, least_share(setup) * 2 / 3)) for setup in setups]
    assert sum(abs(number) > LARGEST_SCORE for number in scores) < FEWEST_DETECTED


@every_case
def test_uncorrupted_records_are_not_noticed(name: str) -> None:
    """Once in a million audits. Scores are at most standard normal: their variance is tested with an error of 1e-9."""
    scores = np.array([score(corrupt_published_values(CASES[name].make_setup(seed), 0.0)) for seed in range(AUDITS)])
    assert np.abs(scores).max() <= LARGEST_SCORE
    assert float((scores**2).sum()) <= stats.chi2.isf(ALPHA, AUDITS)
    assert abs(scores.mean()) <= stats.norm.isf(ALPHA) / math.sqrt(AUDITS)


def test_table_without_power_says_that_no_self_test_is_possible() -> None:
    """One person has the other value: even if everybody's value were disclosed, that is too little."""
    result = run_self_test(Case((39, 1)).make_setup(1))
    assert result is not None
    assert not result.is_possible
    assert result.check is None
    assert abs(result.score) <= LARGEST_SCORE


def test_unknown_distribution_says_that_no_self_test_is_possible() -> None:
    setup = replace(CASES["dominant"].make_setup(1), compute_likelihoods=lambda rows: None)
    assert examine_published_values(setup) is None
    result = run_self_test(setup)
    assert result is not None
    assert not result.is_possible


def test_self_test_that_is_missed_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = PublishedValueTest("y", 3000, 0.5, 0.5, 0.3)
    monkeypatch.setattr(published_value_test, "examine_published_values", lambda setup: blind)
    result = run_self_test(CASES["dominant"].make_setup(1))
    assert result is not None
    assert result.is_possible
    assert result.check is not None
    assert not result.check.has_passed
