"""Counts that are pulled towards what the release as a whole leads one to expect: empirical Bayes.

Under a condition, a value is expected as often as it is in the release. How much further counts are from that than
their noise explains is learnt from all values of the same condition, and as far as noise explains it they are pulled
back. So small counts come out much nearer to the truth, and all are biased towards no relation of value and condition.

Source: James and Stein 1961; the limit to the pull: Efron and Morris 1972. Notation: R selected of N records, e = what
is expected, x = the unbiased count, V = the variance of x - e; a count is e times its lift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sfumato.arrays import Floats, Places
from sfumato.errors import InternalError
from sfumato.mechanisms.method import Method, Moments
from sfumato.shown.tally import Tally

MOST_ERRORS = 2.0
"""So many standard errors a count is pulled at most: one that stands out is not taken for noise."""
ROUNDS = 5
"""Rounds after which the weights of the values have settled."""
TINY = 1e-9
"""Less than this is nothing: of a value that so few records are expected to have, no lift can be told."""

Chances = tuple[float, float]
"""How likely a record shows a value that it holds, and one given value that it does not hold."""

NOTE = (
    "biased: pulled towards what the whole release leads one to expect, by two standard errors at most; the error and "
    "the interval are those of the unbiased count"
)


def pulled(values: Floats, noise: Floats, expected: Floats) -> Floats:
    """Pull the counts of each line towards what is expected: where they deviate no more than noise does, all the way.

    Lines are conditions, columns values; `noise` is the variance of each count less what is expected.
    """
    signal = lift_spreads(values, noise, expected)[:, np.newaxis] * expected**2
    both = signal + noise
    return np.asarray(expected + (values - expected) * np.divide(signal, both, out=np.ones_like(both), where=both > 0))


def lift_spreads(values: Floats, noise: Floats, expected: Floats) -> Floats:
    """By how much the lifts of each line vary beyond noise: the mean of ((x - e)² - V) / e², weighted by its precision.

    Never less than the standard error that this mean has if lifts do not vary: of few values little is learnt, and what
    is not known to be noise is not pulled away.
    """
    is_told = expected > TINY
    square = np.where(is_told, expected, 1.0) ** 2
    known = np.where(is_told, np.maximum(noise, TINY) / square, np.inf)  # the variance of a lift by noise alone
    excess = np.where(is_told, (values - expected) ** 2 / square - np.where(is_told, known, 0.0), 0.0)
    found = np.zeros(len(values))
    for _ in range(ROUNDS):
        weights = 1 / (known + found[:, np.newaxis]) ** 2
        found = np.maximum((weights * excess).sum(axis=1) / np.where(is_told.any(axis=1), weights.sum(axis=1), 1.0), 0)
    least = np.sqrt(2 / np.where(is_told.any(axis=1), (1 / known**2).sum(axis=1), np.inf))
    return np.maximum(found, least)


def shrunk(unbiased: Method[Any], chances: Callable[[Any], Chances]) -> Method[Any]:
    """A way to estimate beside an unbiased one, where every value of a record is shown by the same chances."""
    return Method(
        "shrunk towards the shares of the whole release (empirical Bayes), biased",
        unbiased.assumption,
        partial(_counted, unbiased, chances),
        needs_whole=True,
        note=NOTE,
    )


def _counted(
    unbiased: Method[Any], chances: Callable[[Any], Chances], design: Any, tally: Tally, wanted: Sequence[Places]
) -> list[Moments]:
    """The counts of single values, pulled and added up; none further from the unbiased count than the limit."""
    singles = _singles(chances(design), tally)
    found = []
    for places, moments in zip(wanted, unbiased.count(design, tally, wanted), strict=True):
        nearest = np.clip(moments.value, moments.least, moments.most)
        reach = MOST_ERRORS * np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0))
        value = np.clip(singles[:, places].sum(axis=1), moments.value - reach, moments.value + reach)
        value = np.clip(value, moments.least, moments.most)
        found.append(replace(moments, value=value, unbiased=moments.value))
    return found


def _singles(chances: Chances, tally: Tally) -> Floats:
    """For each condition the count of every value, pulled towards its share of all records; none is negative.

    What is expected comes from the same release, and errs with the count: of the noise of x, x - e has 1 - R/N.
    """
    if tally.whole is None:
        raise InternalError("counts cannot be shrunk without the counts of the whole release.")
    (held, other), rows = chances, tally.rows.astype(np.float64)[:, np.newaxis]
    gain, total = held - other, max(float(tally.whole.rows[0]), 1.0)
    positive = np.maximum(tally.whole.counts[0] - total * other, 0.0)
    expected = rows * positive / max(float(positive.sum()), TINY)
    noise = ((rows - expected) * other * (1 - other) + expected * held * (1 - held)) / gain**2
    values = (tally.counts - rows * other) / gain
    return np.maximum(pulled(values, noise * np.maximum(1 - rows / total, 0.0), expected), 0.0)
