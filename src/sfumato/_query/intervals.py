"""Intervals of estimates: for one or for thousands, by the same rule."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from sfumato._core.arrays import Floats
from sfumato._query.exact_intervals import FEW_EXPECTED_HITS, MOST_HITS, invert_hits
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Moments

DEFAULT_LEVEL = 0.95


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < (1 + level) / 2 < 1:
        raise QueryError(f"the level is {level}, and must lie between 0 and 1, such as 0.95.")


def compute_quantile(level: float) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    check_level(level)
    return NormalDist().inv_cdf((1 + level) / 2)


def compute_standard_errors(moments: Moments) -> Floats:
    """The standard errors at the estimates, moved into the range that a count can have; not a number if unknown."""
    nearest = np.clip(moments.centre, moments.least, moments.most)
    return np.asarray(np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0)))


def compute_score_ends(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Solve (value - c)² <= z² (base + slope c) for c: all counts that a test at this level would not reject.

    Source: Wilson 1927 for one binomial; here for the sum of two.
    """
    value, squared = moments.centre, compute_quantile(level) ** 2
    shift = squared * moments.slope / 2
    # (value + shift)² - value² + z² base, written so that the square of a large sum does not swallow the rest. Below
    # zero no count fits: the variance would be negative wherever the estimate lies.
    half = np.sqrt(np.maximum(shift * (2 * value + shift) + squared * moments.base, 0.0))
    return value + shift - half, value + shift + half


def compute_one_error_interval(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """One standard error around the estimates moved into the ranges of counts, or less if the level asks for less."""
    nearest = np.clip(moments.centre, moments.least, moments.most)
    reach = min(compute_quantile(level), 1.0) * compute_standard_errors(moments)
    low, high = (np.clip(end, moments.least, moments.most) for end in (nearest - reach, nearest + reach))
    return low, high


def compute_intervals(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """The intervals within the ranges that counts can have; not a number where no error is known.

    They hold the counts that a test at this level would not reject: by the exact law where few hits are expected from
    other values, by the score elsewhere. Which of the two it is depends on the design and the number of rows alone, but
    for so many hits that both agree, of which the exact law would fill the memory. One standard error around the
    estimate is joined, so that an estimate far outside its range is not taken for a certain one.
    """
    low, high = compute_score_ends(moments, level)
    wanted_chances, other_chances = moments.hit_chances
    rows = moments.most - moments.least
    hits = np.clip(
        np.rint((moments.centre - moments.least) * (wanted_chances - other_chances) + rows * other_chances), 0, rows
    )
    (few_hits,) = np.nonzero(
        (rows * other_chances < FEW_EXPECTED_HITS) & (rows > 0) & (wanted_chances > other_chances) & (hits < MOST_HITS)
    )
    if len(few_hits):
        whole = rows[few_hits].astype(np.int64), hits[few_hits].astype(np.int64)
        ends = invert_hits(moments.hit_chances[:, few_hits], *whole, level)
        low[few_hits], high[few_hits] = (end + moments.least[few_hits] for end in ends)
    least, most = compute_one_error_interval(moments, level)
    low, high = (np.clip(end, moments.least, moments.most) for end in (low, high))
    return np.minimum(low, least), np.maximum(high, most)
