"""Tests if the noise of published counts has its reference distribution, with a self-test.

The noise of a crowd moves some units: half the sum of the absolute noise. The total of these units over all crowds is
compared with its distribution. For few crowds the exact distribution is used, and for many crowds its mean and
variance. Counts with too little noise disclose the true values of their people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.random_draws import Draws
from sfumato._risk.attackers.published_crowds import PublishedCrowds
from sfumato._risk.attackers.published_value_test import FitSurplus, find_detected_share
from sfumato._risk.attackers.row_order_attack import LARGEST_SCORE
from sfumato._risk.attackers.self_test import NORMAL_95_ONE_SIDED, SelfTest
from sfumato._verify.check_results import Check

CORRUPTION = "noisy counts of {!r} that are published without noise"
MOST_EXACT = 1000
"""Up to this number of crowds, the distribution of the total is exact."""
NEGLIGIBLE = 1e-15
"""Smaller probabilities are rounding errors."""


@dataclass(frozen=True, slots=True)
class PublishedCountTest:
    """The result of the test for one protected column."""

    column: str
    crowds: int
    mean_moved: float
    expected_moved: float
    score: float
    """The difference from the mean in standard deviations of a normal number with the same probability."""

    @property
    def check(self) -> Check:
        """The test as a check of `verify`; it fails by chance at most once in a million times."""
        sentence = (
            f"the noise in the counts of {self.column!r} moves {self.mean_moved:.2f} people per group on average "
            f"({self.crowds:,} groups); the reference distribution expects {self.expected_moved:.2f} "
            f"({self.score:.1f} standard deviations)."
        )
        return Check("law", abs(self.score) <= LARGEST_SCORE, sentence)


def examine_published_counts(column: str, crowds: PublishedCrowds) -> PublishedCountTest:
    """Tests the noisy counts of a protected column."""
    surplus = measure_missing_noise(crowds)
    total, number = round(float(-surplus.fits.sum())), len(surplus.fits)
    score = score_total(crowds.moved_probabilities, total, number)
    return PublishedCountTest(column, number, total / max(number, 1), float(-surplus.expected[:1].sum()), score)


def measure_missing_noise(crowds: PublishedCrowds) -> FitSurplus:
    """The units that the noise of each crowd moves, below zero, so that less noise is a larger fit."""
    moved = np.abs(crowds.noisy - crowds.true_counts).sum(axis=1) / 2
    mean, variance = compute_moments(crowds.moved_probabilities)
    return FitSurplus(-moved, np.full(len(moved), -mean), np.full(len(moved), variance))


def compute_moments(probabilities: Floats) -> tuple[float, float]:
    """The mean and the variance of a number with the given probabilities of 0, 1, 2, ..."""
    numbers = np.arange(len(probabilities))
    mean = float(probabilities @ numbers)
    return mean, float(probabilities @ (numbers - mean) ** 2)


def score_total(probabilities: Floats, total: int, number: int) -> float:
    """Converts the total of some numbers into a standard normal number that is at most as far from zero."""
    mean, variance = compute_moments(probabilities)
    if not number or not variance > 0:
        return 0.0
    normal = (total - number * mean) / math.sqrt(number * variance)
    if number > MOST_EXACT:
        return normal
    listed = probabilities[: int((np.cumsum(probabilities[::-1])[::-1] > NEGLIGIBLE).sum())]
    length = 1 << max(len(listed) * number, total + 1).bit_length()
    totals = np.maximum(np.fft.irfft(np.fft.rfft(listed, length) ** number, length), 0.0)
    is_above = normal > 0
    probability = float(totals[total:].sum() if is_above else totals[: total + 1].sum())
    if probability < NEGLIGIBLE * length:
        return normal
    score = max(-NormalDist().inv_cdf(min(probability, 0.5)), 0.0)
    return score if is_above else -score


def corrupt_published_counts(crowds: PublishedCrowds, draws: Draws, share: float = 1.0) -> PublishedCrowds:
    """Publishes true counts instead of noisy ones, each crowd with the same probability."""
    is_corrupted = draws.get_stream("spoilt counts").draw_bits(0, len(crowds.noisy)) / 2.0**64 < share
    return replace(crowds, noisy=np.where(is_corrupted[:, np.newaxis], crowds.true_counts, crowds.noisy))


def run_count_self_test(column: str, crowds: PublishedCrowds, draws: Draws) -> SelfTest:
    """Tests counts of which some have no noise. Their share is such that the test misses one case in a million.

    If the test cannot detect even counts without any noise, the result says that no self-test is possible.
    """
    corruption, number = CORRUPTION.format(column), f"{len(crowds.noisy):,} groups"
    honest = measure_missing_noise(crowds)
    silent = corrupt_published_counts(crowds, draws)
    corrupted, score = measure_missing_noise(silent), examine_published_counts(column, silent).score
    corrupted = replace(corrupted, variances=np.zeros(len(corrupted.fits)))  # true counts are certain
    share = find_detected_share(honest, corrupted, LARGEST_SCORE)
    least_share = find_detected_share(honest, corrupted, NORMAL_95_ONE_SIDED)
    if share is None or least_share is None or not abs(score) > LARGEST_SCORE:
        reason = (
            f"even if the counts of all {number} had no noise, the test would see {score:.1f} standard deviations, and "
            f"it needs {LARGEST_SCORE:.1f}"
        )
        return SelfTest.make_impossible(corruption, score, reason)
    tested = examine_published_counts(column, corrupt_published_counts(crowds, draws, share))
    return SelfTest(
        f"{share:.1%} of groups have {corruption}",
        tested.score,
        f"{least_share:.1%} of groups with this fault are detected in 95% of cases ({number} tested)",
    )
