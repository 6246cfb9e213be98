"""Comparing draws with an exact law: one error rate for all statistical tests, and power twins.

A test that asserts a law fails with probability ALPHA if the code is right. Each one has a twin that asserts that a
slightly wrong law would have been noticed: a test without power proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy import stats

from sfumato._core.random_draws import Draws

ALPHA = 1e-9
"""The probability that one assertion fails although the code is right."""

LEAST_EXPECTED = 5.0
"""Below this expected count the chi-square law is no good description of a cell."""

Probabilities = Sequence[float] | Sequence[Fraction] | npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def keyed_draws(number: int) -> Draws:
    """Draws from the test key of a number: fixed, so that a failure can be repeated."""
    return Draws.unsafe_test_key(f"{number:064x}")


def counts_of(published: npt.NDArray[np.integer], size: int) -> Counts:
    """How often each of `range(size)` occurs."""
    outcomes = published.astype(np.int64)
    assert outcomes.min() >= 0, "an outcome lies outside the law"
    assert outcomes.max() < size, "an outcome lies outside the law"
    return np.bincount(outcomes, minlength=size)


def joint_counts_of(one: npt.NDArray[np.integer], other: npt.NDArray[np.integer], size: int) -> Counts:
    """How often each pair of `range(size)` occurs, row by row."""
    return counts_of(one.astype(np.int64) * size + other.astype(np.int64), size * size)


def product_law(one: Probabilities, other: Probabilities) -> npt.NDArray[np.float64]:
    """The law of independent pairs, in the order of `joint_counts_of`."""
    return np.outer(_floats(one), _floats(other)).ravel()


def p_value(observed: Counts, probabilities: Probabilities) -> float:
    """The probability, under the law, of counts at least as far from it: the chi-square test of goodness of fit."""
    law = _floats(probabilities)
    if not math.isclose(law.sum(), 1):
        raise ValueError("the probabilities of a law sum to one.")
    possible = law > 0
    if observed[~possible].any():
        return 0.0
    expected = law[possible] * observed.sum()
    if expected.min() < LEAST_EXPECTED:
        raise ValueError(
            f"a cell expects {expected.min():.2g} draws; take more draws, at least {LEAST_EXPECTED} a cell."
        )
    return float(stats.chisquare(observed[possible], expected).pvalue)


def assert_same_distribution(observed: Counts, probabilities: Probabilities) -> None:
    """The counts could well come from the law; fails with probability ALPHA if they do."""
    value = p_value(observed, probabilities)
    assert value >= ALPHA, f"counts like these come from the law with probability {value:.2g}, below {ALPHA}"


def assert_different(observed: Counts, probabilities: Probabilities) -> None:
    """The counts cannot come from the law."""
    value = p_value(observed, probabilities)
    assert value < ALPHA, f"counts like these come from the law with probability {value:.2g}, not below {ALPHA}"


def standard_score(sample: Iterable[float], mean: float, deviation: float) -> float:
    """How many standard errors the sample's mean lies from `mean`, if each draw has the given deviation."""
    drawn = np.fromiter(sample, dtype=np.float64)
    return float((drawn.mean() - mean) / (deviation / math.sqrt(len(drawn))))


def assert_mean(sample: Sequence[float], mean: float, deviation: float) -> None:
    """The sample could well have this mean; fails with probability ALPHA if it has."""
    score = standard_score(sample, mean, deviation)
    assert abs(score) <= LARGEST_SCORE, f"the mean is {score:.1f} standard errors away, above {LARGEST_SCORE:.1f}"


def assert_other_mean(sample: Sequence[float], mean: float, deviation: float) -> None:
    """The sample cannot have this mean."""
    score = standard_score(sample, mean, deviation)
    assert abs(score) > LARGEST_SCORE, f"the mean is {score:.1f} standard errors away, not above {LARGEST_SCORE:.1f}"


LARGEST_SCORE = NormalDist().inv_cdf(1 - ALPHA / 2)
"""A standard score beyond this has probability ALPHA."""


def _floats(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    return np.array([float(probability) for probability in probabilities])
