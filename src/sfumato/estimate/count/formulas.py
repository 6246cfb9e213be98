"""Counts of many conditions made into estimates at once, by the same formulas as one by one.

Methods that no array formula is known for are asked one condition at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.mechanisms.coins.inverse import COMPOSITION_STEPS, flat_counts, inverse_counts
from sfumato.mechanisms.coins.methods import Method
from sfumato.mechanisms.coins.operators import Operator, Places
from sfumato.mechanisms.coins.weights import Cells, Sets
from sfumato.shown.tally import Counts, Floats, ManyMoments, Tally

Estimator = Callable[[Counts, Counts, Places], ManyMoments]
"""From the counts of each condition (a row each), the numbers of their records, and wanted places."""


def estimator(method: Method, design: Any, whole: Tally | None) -> Estimator:
    """The array formula of a method, or the method itself, condition by condition."""
    linear = method.linear(design) if method.linear is not None else None
    if isinstance(linear, Sets):
        return lambda counts, rows, places: _sets(linear, counts, rows, places)
    if isinstance(linear, Cells) and linear.operator.is_flat:
        return lambda counts, rows, places: flat_counts(linear.operator, counts, places)
    if isinstance(linear, Cells) and len(linear.operator.sizes) == 1:
        return lambda counts, rows, places: _inverse(linear.operator, counts, rows, places)
    return lambda counts, rows, places: _one_by_one(method, design, whole, counts, rows, places)


def _one_by_one(  # noqa: PLR0913, PLR0917 - the method with all that it looks at, and what an estimator takes
    method: Method, design: Any, whole: Tally | None, counts: Counts, rows: Counts, places: Places
) -> ManyMoments:
    tallies = [Tally(mine, int(number), whole) for mine, number in zip(counts, rows, strict=True)]
    return ManyMoments.of([moments for tally in tallies for moments in method.reconstruct(design, tally, [places])])


def _sets(linear: Sets, counts: Counts, rows: Counts, places: Places) -> ManyMoments:
    """Members of sets: the variance of a record depends on whether its own value is wanted."""
    is_wanted = np.isin(np.arange(linear.size), places)
    theta = is_wanted.astype(np.float64)
    weights, spread = linear.weights(theta), linear.spread(theta)
    inside, outside = float(spread[is_wanted][0]), float(spread[~is_wanted][0])
    value = counts @ weights.shown + weights.always * rows
    all_rows = rows.astype(np.float64)
    slopes = np.full(len(rows), inside - outside)
    return ManyMoments(value, all_rows * outside, slopes, all_rows, np.zeros(len(rows)))


def _inverse(operator: Operator, counts: Counts, rows: Counts, places: Places) -> ManyMoments:
    """One cell in which values have coins of their own: the variance depends on what all records hold."""
    return inverse_counts(operator, counts, rows.astype(np.float64), composition(operator, counts), places)


def composition(operator: Operator, counts: Counts) -> Floats:
    """Iterative Bayes for many tallies of a single cell, from an even start: the counts of the entries."""
    rows = counts.sum(axis=1, keepdims=True).astype(np.float64)
    held = np.repeat(rows / operator.domain_size, len(operator.places), axis=1)
    retention, swap = operator.retention, operator.swap
    expected, ratio = np.empty_like(held), np.zeros_like(held)
    for _ in range(COMPOSITION_STEPS):
        np.multiply(held, retention, out=expected)
        expected += (held @ swap)[:, np.newaxis]
        np.divide(counts, expected, out=ratio, where=expected > 0)
        told = ratio.sum(axis=1, keepdims=True) * swap
        ratio *= retention
        told += ratio
        held *= told
    return held
