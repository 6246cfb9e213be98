"""Counts that are pulled towards what the release as a whole leads one to expect: empirical Bayes.

Under a condition, a value is expected as often as it is in the release. How much further counts are from that than
their noise explains is learnt from all values of the same condition, and as far as noise explains it they are pulled
back. So small counts come out much nearer to the truth, and all are biased towards no relation of value and condition.

Source: James and Stein 1961; the limit to the pull: Efron and Morris 1972. Notation: R selected of N records, e = what
is expected, x = the unbiased count, V = the variance of x - e.
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
"""So many standard errors a count is pulled at most: one that stands out is not taken for noise."""
ROUNDS = 5
"""Rounds after which the weights of the values have settled."""
TINY = 1e-9
"""Less than this is nothing: a value that so few records are expected to have tells of no other."""
POWER = 1.5
"""How counts vary beyond noise grows with this power of what is expected: between 1, as if each record came by itself,
and 2, as if all values were more or less frequent alike (Taylor 1961)."""

Chances = tuple[float, float]
"""How likely a record shows a value that it holds, and one given value that it does not hold."""

NOTE = (
    "biased: pulled towards its share of the whole release; the error and the interval are those of the unbiased count"
)


def shrink_counts(values: Floats, noise: Floats, expected: Floats) -> Floats:
    """Pull the counts of each line towards what they typically are, the more of how they vary is noise; none below 0.

    Lines are conditions, columns values; `noise` is the variance of each count less what is expected. How often a value
    is there beside what is expected is skew: few are there much more often, and most a little less. What is typical is
    the median of a gamma law with the same mean and variance (Wilson and Hilferty 1931).
    """
    signal = _estimate_spreads(values, noise, expected)[:, np.newaxis] * expected**POWER
    relative = np.divide(signal, expected**2, out=np.zeros_like(signal), where=expected > TINY)
    typical = expected * np.maximum(1 - relative / 9, 0.0) ** 3
    both = signal + noise
    signal_share = np.divide(signal, both, out=np.ones_like(both), where=both > 0)
    return np.asarray(np.maximum(typical + (values - typical) * signal_share, 0.0))


def _estimate_spreads(values: Floats, noise: Floats, expected: Floats) -> Floats:
    """By how much the counts of each line vary beyond noise: the mean of ((x - e)² - V) / e^POWER, by its precision.

    Never less than the standard error that this mean has if there is nothing but noise: of few values little is learnt,
    and what is not known to be noise is not pulled away.
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
    """A way to estimate beside an unbiased one, where every value of a record is shown by the same chances."""
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
    """The counts of single values, pulled and added up; none further from the unbiased count than the limit."""
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
    """For each condition the count of every value, pulled towards its share of all records.

    What is expected comes from the same release, and errs with the count: of the noise of x, x - e has 1 - R/N.
    """
    if tally.release_tally is None:
        raise InternalError("counts cannot be shrunk without the counts of the whole release.")
    (own, other), rows = chances, tally.rows.astype(np.float64)[:, np.newaxis]
    gain, total = own - other, max(float(tally.release_tally.rows[0]), 1.0)
    positive = np.maximum(tally.release_tally.counts[0] - total * other, 0.0)
    expected = rows * positive / max(float(positive.sum()), TINY)
    values = (tally.counts - rows * other) / gain
    clipped_counts = np.clip(values, 0.0, rows)
    noise = (clipped_counts * own * (1 - own) + (rows - clipped_counts) * other * (1 - other)) / gain**2
    return shrink_counts(values, noise * np.maximum(1 - rows / total, 0.0), expected)
