"""Tests if published values fit the true values as often as the reference distribution says, with a self-test.

The fit of a record is a quotient of two likelihoods of its published value. The numerator is its likelihood for the
true value. The denominator is its likelihood for the value that it fits best. Given the published value, the mean and
the variance of the fit follow from the frequencies of values and the reference distribution. The sum of the fits of all
records is compared with its mean, in standard deviations.

A count of correct guesses would test nothing if one value is so frequent that this value is always guessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato._core.array_types import Floats, Places
from sfumato._risk.attackers.attack_result import ROUNDING
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.row_order_attack import LARGEST_SCORE
from sfumato._risk.attackers.self_test import NORMAL_95_ONE_SIDED, SelfTest
from sfumato._verify.check_results import Check

BISECTIONS = 40
CORRUPTION = "published values that disclose the true values of {!r}"


@dataclass(frozen=True, eq=False)
class FitSurplus:
    """For each record, its fit, and what the reference distribution expects given the published value."""

    fits: Floats
    expected: Floats
    variances: Floats

    @property
    def surplus(self) -> Floats:
        """The fit of each record beyond its expectation."""
        return np.asarray(self.fits - self.expected)

    @property
    def score(self) -> float:
        """The sum of all surpluses in standard deviations; 0 if no published value says anything."""
        variance = float(self.variances.sum())
        return float(self.surplus.sum()) / math.sqrt(variance) if variance > ROUNDING else 0.0


@dataclass(frozen=True, slots=True)
class PublishedValueTest:
    """The result of the test for one protected column."""

    column: str
    records: int
    mean_fit: float
    expected_fit: float
    score: float
    """The surplus in standard deviations."""

    @property
    def check(self) -> Check:
        """The test as a check of `verify`; it fails by chance once in a million times."""
        sentence = (
            f"published values of {self.column!r} reach {self.mean_fit:.1%} of the best possible fit to the true "
            "values "
            f"({self.records:,} records); the reference distribution expects {self.expected_fit:.1%} "
            f"({self.score:.1f} standard deviations)."
        )
        return Check("law", abs(self.score) <= LARGEST_SCORE, sentence)


def examine_published_values(setup: AttackSetup) -> PublishedValueTest | None:
    """Tests the published values of a protected column; None if their likelihood is unknown, or records are grouped."""
    fit = measure_fit(setup)
    if fit is None:
        return None
    return PublishedValueTest(
        setup.target.name, len(setup.rows), float(fit.fits.mean()), float(fit.expected.mean()), fit.score
    )


def measure_fit(setup: AttackSetup) -> FitSurplus | None:
    """Measures the fit of the published values of attacked records."""
    likelihoods = None if setup.groups is not None else setup.compute_likelihoods(setup.rows)
    if likelihoods is None:
        return None
    fits = likelihoods / np.maximum(likelihoods.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    beliefs = setup.target.learn(()).compute_beliefs(setup.rows) * fits
    beliefs /= np.maximum(beliefs.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    expected = (beliefs * fits).sum(axis=1)
    variances = (beliefs * fits**2).sum(axis=1) - expected**2
    own_fits = fits[np.arange(len(setup.rows)), setup.target.true_codes[setup.rows]]
    return FitSurplus(own_fits, expected, np.maximum(variances, 0.0))


def corrupt_published_values(setup: AttackSetup, share: float = 1.0) -> AttackSetup:
    """Replaces published values, each with the same probability, by the one that discloses the true value most."""
    disclosing_rows, true_codes = _select_most_disclosing(setup), setup.target.true_codes
    is_corrupted = setup.draws.get_stream("spoilt").draw_bits(0, len(true_codes)) / 2.0**64 < share

    def compute_likelihoods(rows: Places) -> Floats | None:
        return setup.compute_likelihoods(np.where(is_corrupted[rows], disclosing_rows[true_codes[rows]], rows))

    return replace(setup, compute_likelihoods=compute_likelihoods)


def _select_most_disclosing(setup: AttackSetup) -> Places:
    """For each value, the record that discloses it most."""
    likelihoods = setup.compute_likelihoods(setup.rows)
    if likelihoods is None:
        return setup.rows[:0]
    weights = likelihoods * setup.target.shares
    parts = weights / np.maximum(weights.sum(axis=1, keepdims=True), ROUNDING)
    return np.asarray(setup.rows[parts.argmax(axis=0)])


def run_self_test(setup: AttackSetup) -> SelfTest | None:
    """Tests records of which some disclose their value. Their share is such that the test misses one case in a million.

    The result is None for records in groups, which have no such test. If the test cannot detect even that every record
    is corrupted, the result says that no self-test is possible.
    """
    if setup.groups is not None:
        return None
    corruption, records = CORRUPTION.format(setup.target.name), f"{len(setup.rows):,} records"
    honest = measure_fit(setup)
    corrupted = None if honest is None else measure_fit(corrupt_published_values(setup))
    if honest is None or corrupted is None:
        return SelfTest.make_impossible(corruption, 0.0, "the distribution of published values is unknown")
    share = find_detected_share(honest, corrupted, LARGEST_SCORE)
    least_share = find_detected_share(honest, corrupted, NORMAL_95_ONE_SIDED)
    if share is None or least_share is None:
        reason = (
            f"even if the published values of all {records} disclosed their value, the test would see "
            f"{corrupted.score:.1f} standard deviations, and it needs {LARGEST_SCORE:.1f}"
        )
        return SelfTest.make_impossible(corruption, corrupted.score, reason)
    corrupted_test = examine_published_values(corrupt_published_values(setup, share))
    return SelfTest(
        f"{share:.1%} of records have {corruption}",
        0.0 if corrupted_test is None else corrupted_test.score,
        f"{least_share:.1%} of records with this fault are detected in 95% of cases ({records} tested)",
    )


def find_detected_share(honest: FitSurplus, corrupted: FitSurplus, margin: float) -> float | None:
    """The smallest share of corrupted records that is detected with a margin of `margin` standard deviations, or None.

    By a normal approximation: each record is corrupted with this probability, and then has the surplus of its most
    disclosing value. The excess is convex in the share and negative at 0, so it has at most one root.
    """
    gains = corrupted.surplus
    total_gain, squared_gain = float(gains.sum()), float((gains**2).sum())
    honest_variance, corrupted_variance = float(honest.variances.sum()), float(corrupted.variances.sum())

    def compute_excess(share: float) -> float:
        spread = math.sqrt((1 - share) * (honest_variance + share * squared_gain))
        deviation = math.sqrt((1 - share) * honest_variance + share * corrupted_variance)
        return share * total_gain - margin * spread - LARGEST_SCORE * deviation

    if not total_gain > ROUNDING or not compute_excess(1.0) > 0:
        return None
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if compute_excess(middle) > 0 else (middle, high)
    return high
