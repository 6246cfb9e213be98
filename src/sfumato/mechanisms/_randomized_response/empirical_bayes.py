"""Shrinks counts towards the values expected from the release as a whole: empirical Bayes.

Under a condition, each value is expected to have its share of the whole release. Counts differ from this expectation by
more than their noise, and all values of a condition together show by how much. Shrinking removes the part that noise
explains. Small counts become much more accurate, but all counts are biased towards independence of value and condition.

True counts are not negative. If negative counts are replaced by 0, the sum of all counts becomes too large. So the
counts of a condition are first adjusted to add up to its number of records. A count of several values is the sum of
their counts, also for one column of a compound. In simulated compounds of 40 to 500 values, this sum was compared with
direct shrinking of the column's counts. The error of the sum was mostly smaller by a quarter to a half. It was always
smaller than the error of the unbiased counts.

Source: James and Stein 1961; the limit to the pull: Efron and Morris 1972; the sum: Michelot 1986. Notation: R of N
records are selected, e = the expected count, x = the unbiased count, V = the variance of x - e.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from sfumato._core.array_types import Floats, Indices
from sfumato._records.tally import Tally
from sfumato.errors import InternalError
from sfumato.mechanisms.estimator import Method, Moments

DesignT = TypeVar("DesignT")

MOST_ERRORS = 2.0
"""A count is shrunk by at most this many standard errors, because an outlying count is not noise."""
ROUNDS = 5
"""The rounds after which the weights of the values have settled."""
TINY = 1e-9
"""Smaller numbers count as zero: a value with so few expected records gives no information about other values."""
POWER = 1.5
"""The variation of counts beyond noise grows with the expected count to this power.

The power lies between 1 (each record varies independently) and 2 (all values vary in the same proportion; Taylor 1961).
"""

Chances = tuple[float, float]
"""The probability that a record publishes a value that it has, and one given value that it does not have."""

NOTE = (
    "biased, because it is shrunk towards its share of the whole release; the error and the interval are those of "
    "the unbiased count"
)


def shrink_counts(values: Floats, noise: Floats, expected: Floats) -> Floats:
    """Shrinks the counts of each line towards typical counts, more strongly if there is more noise.

    Lines are conditions, and columns are values. `noise` is the variance of each count minus its expectation. The ratio
    of a value's count to its expectation is skewed: few values are much more frequent than expected, and most are a
    little less frequent. The typical count is the median of a gamma distribution with the same mean and variance
    (Wilson and Hilferty 1931).
    """
    signal = _estimate_spreads(values, noise, expected)[:, np.newaxis] * expected**POWER
    relative = np.divide(signal, expected**2, out=np.zeros_like(signal), where=expected > TINY)
    typical = expected * np.maximum(1 - relative / 9, 0.0) ** 3
    both = signal + noise
    signal_share = np.divide(signal, both, out=np.ones_like(both), where=both > 0)
    return np.asarray(np.maximum(typical + (values - typical) * signal_share, 0.0))


def make_counts_add_up(counts: Floats, totals: Floats) -> Floats:
    """The nearest counts of each line that are not negative and add up to the total of the line."""
    sums = np.maximum(totals, 0.0)[:, np.newaxis]
    falling = -np.sort(-counts, axis=1)
    surplus = (np.cumsum(falling, axis=1) - sums) / np.arange(1, counts.shape[1] + 1)
    positive = np.maximum((falling > surplus).sum(axis=1, keepdims=True), 1)
    return np.asarray(np.maximum(counts - np.take_along_axis(surplus, positive - 1, axis=1), 0.0))


def _estimate_spreads(values: Floats, noise: Floats, expected: Floats) -> Floats:
    """The variation of each line's counts beyond noise: the mean of ((x - e)² - V) / e^POWER, weighted by precision.

    The result is at least the standard error of this mean under pure noise. Few values give little information, and
    variation that may not be noise is not removed.
    """
    is_informative = expected > TINY
    scale = np.where(is_informative, expected, 1.0) ** POWER
    scaled_noise = np.where(is_informative, np.maximum(noise, TINY) / scale, np.inf)
    excess = np.where(is_informative, ((values - expected) ** 2 - noise) / scale, 0.0)
    spreads, has_any = np.zeros(len(values)), is_informative.any(axis=1)
    for _ in range(ROUNDS):
        weights = 1 / (scaled_noise + spreads[:, np.newaxis]) ** 2
        spreads = np.maximum((weights * excess).sum(axis=1) / np.where(has_any, weights.sum(axis=1), 1.0), 0.0)
    return np.maximum(spreads, np.sqrt(2 / np.where(has_any, (1 / scaled_noise**2).sum(axis=1), np.inf)))


def make_shrunk_method(unbiased: Method[DesignT], chances: Callable[[DesignT], Chances]) -> Method[DesignT]:
    """A biased estimation method for designs that publish every value with the same probabilities."""
    return Method(
        "shrunk towards the shares of the whole release (empirical Bayes), biased",
        unbiased.assumption,
        partial(_estimate_counts, unbiased, chances),
        needs_whole=True,
        note=NOTE,
    )


def _estimate_counts(
    unbiased: Method[DesignT],
    chances: Callable[[DesignT], Chances],
    design: DesignT,
    tally: Tally,
    value_sets: Sequence[Indices],
) -> list[Moments]:
    """The counts of single values, shrunk and summed.

    No count differs from the unbiased count by more than the limit.
    """
    singles = _estimate_single_values(chances(design), tally)
    estimates = []
    for places, moments in zip(value_sets, unbiased.count(design, tally, value_sets), strict=True):
        nearest = np.clip(moments.value, moments.least, moments.most)
        reach = MOST_ERRORS * np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0))
        value = np.clip(singles[:, places].sum(axis=1), moments.value - reach, moments.value + reach)
        value = np.clip(value, moments.least, moments.most)
        estimates.append(replace(moments, value=value, unbiased_value=moments.value))
    return estimates


def _estimate_single_values(chances: Chances, tally: Tally) -> Floats:
    """The count of every value under each condition, shrunk towards the value's share of all records.

    The counts add up.

    The expected count comes from the same release, so it shares a part of the noise. The noise of x - e is 1 - R/N of
    the noise of x.
    """
    if tally.release_tally is None:
        raise InternalError(
            "counts cannot be shrunk without the counts of the whole release.", code="no-release-counts"
        )
    (own, other), rows = chances, tally.rows.astype(np.float64)[:, np.newaxis]
    gain, total = own - other, max(float(tally.release_tally.rows[0]), 1.0)
    positive = np.maximum(tally.release_tally.counts[0] - total * other, 0.0)
    expected = rows * positive / max(float(positive.sum()), TINY)
    values = (tally.counts - rows * other) / gain
    clipped_counts = np.clip(values, 0.0, rows)
    noise = (clipped_counts * own * (1 - own) + (rows - clipped_counts) * other * (1 - other)) / gain**2
    shrunk_counts = shrink_counts(values, noise * np.maximum(1 - rows / total, 0.0), expected)
    return make_counts_add_up(shrunk_counts, rows[:, 0])
