"""How often intervals hold the truth, and whether that is as often as they say.

Score intervals are approximate, outcomes are whole numbers, and an interval that leaves the range of a count is cut. So
coverage misses its level by up to two or three points, and near the ends of the range, where an interval can miss on
one side only, it rises towards the middle between the level and one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from sfumato._core.array_types import Mask
from sfumato._query.estimate import Estimate, Estimates
from sfumato.mechanisms.estimator import Moments
from statistical.support import ALPHA

Floats = npt.NDArray[np.float64]
Range = tuple[float, float]

LEVELS = (0.8, 0.95, 0.99)

RANGES: Mapping[float, Range] = {0.8: (0.765, 0.925), 0.95: (0.925, 0.985), 0.99: (0.975, 0.999)}
"""Between what coverage lies where at least a few hits, and a few misses, are expected."""

MEANS: Mapping[float, Range] = {0.8: (0.79, 0.86), 0.95: (0.94, 0.97), 0.99: (0.98, 0.997)}
"""Between what it lies on average over many settings."""


def holds(moments: Moments, level: float, truth: float) -> bool:
    """Whether the interval of an estimate holds the truth."""
    low, high = Estimate.of(moments, "method", "assumption").interval(level)
    return low <= truth <= high


def halved(moments: Moments) -> Moments:
    """An estimate that claims half of its standard error: its intervals have about half their width."""
    assert not np.isnan(moments.base).any()
    return replace(moments, base=moments.base / 4, slope=moments.slope / 4, chances=None)


def held(moments: Moments, level: float, truth: float | Floats) -> Mask:
    """Which of many intervals hold the truth."""
    assert not np.isnan(moments.base).any()
    low, high = Estimates(moments, "method", "assumption").interval(level)
    return np.asarray((low <= truth) & (truth <= high))


def share_held(moments: Moments, level: float, truth: float | Floats) -> float:
    """The share of intervals that hold the truth."""
    return float(held(moments, level, truth).mean())


def assert_covers(share: float, trials: int, limits: Range) -> None:
    """Coverage could well lie within the limits; fails with probability ALPHA if it does."""
    low, high = limits
    hits = share * trials
    assert stats.binom.cdf(np.ceil(hits), trials, low) >= ALPHA, f"{share:.3f} of {trials} is too rare for {low}"
    assert stats.binom.sf(np.floor(hits) - 1, trials, high) >= ALPHA, f"{share:.3f} of {trials} is too often for {high}"


def assert_covers_too_rarely(share: float, trials: int, limits: Range) -> None:
    """Coverage cannot reach the lower limit."""
    low, _ = limits
    assert stats.binom.cdf(np.floor(share * trials), trials, low) < ALPHA, f"{share:.3f} of {trials} may well be {low}"
