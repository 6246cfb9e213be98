"""Intervals of estimates: for one or for thousands, by the same rule."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.mechanisms.method import Moments

DEFAULT_LEVEL = 0.95


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < (1 + level) / 2 < 1:
        raise QueryError(f"the level is {level}, and must lie between 0 and 1, such as 0.95.")


def quantile(level: float) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    check_level(level)
    return NormalDist().inv_cdf((1 + level) / 2)


def standard_errors(moments: Moments) -> Floats:
    """The standard errors at the estimates, moved into the range that a count can have; not a number if unknown."""
    nearest = np.clip(moments.value, moments.least, moments.most)
    return np.asarray(np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0)))


def score_ends(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Solve (value - c)² <= z² (base + slope c) for c: all counts that a test at this level would not reject.

    Source: Wilson 1927 for one binomial; here for the sum of two.
    """
    value, squared = moments.value, quantile(level) ** 2
    shift = squared * moments.slope / 2
    # (value + shift)² - value² + z² base, written so that the square of a large sum does not swallow the rest. Below
    # zero no count fits: the variance would be negative wherever the estimate lies.
    half = np.sqrt(np.maximum(shift * (2 * value + shift) + squared * moments.base, 0.0))
    return value + shift - half, value + shift + half


def intervals(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """The score intervals within the ranges that counts can have; not a number where no error is known."""
    low, high = (np.clip(end, moments.least, moments.most) for end in score_ends(moments, level))
    errors = standard_errors(moments)
    # Every count that fits lies outside the range of a count: say how far off the nearest may be, not that it is
    # certain.
    is_stuck, reach = (low == high) & (errors > 0), quantile(level) * errors
    stuck_low, stuck_high = (np.clip(end, moments.least, moments.most) for end in (low - reach, low + reach))
    return np.where(is_stuck, stuck_low, low), np.where(is_stuck, stuck_high, high)
