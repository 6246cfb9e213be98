"""Computes the relative error of counts of a given size, averaged over values or over records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.json_types import Json


@dataclass(frozen=True, slots=True)
class ErrorAtCount:
    """The standard error of a count of this size, divided by the count.

    The counted records are all records with one value in a random subset of rows. Only values with enough records can
    have such a count. The error is None if no value has enough records, or if the error is unknown.
    """

    count: float
    evenly: float | None
    """The mean over these values with equal weights, for an analyst who picks a value from a list."""
    by_records: float | None
    """The mean over the records with these values, for an analyst who asks about the value of a person."""
    values: int
    """The number of values with enough records."""

    def to_json(self) -> Json:
        """Writes the errors for programs."""
        return {name: getattr(self, name) for name in ("count", "evenly", "by_records", "values")}


def predict_error(value_counts: Floats, variances: Callable[[Floats, Floats], Floats], count: float) -> ErrorAtCount:
    """The error of a count of this size, given the count of each value. A mechanism defines `variances`."""
    total = float(value_counts.sum())
    is_found = (value_counts >= count) & (count >= 1)
    if not is_found.any():
        return ErrorAtCount(count, None, None, 0)
    rows = np.where(is_found, count * total / np.where(value_counts > 0, value_counts, 1), total)
    errors = np.sqrt(np.maximum(variances(rows, np.full(len(value_counts), float(count)))[is_found], 0.0)) / count
    means = [float(weights @ errors / weights.sum()) for weights in (np.ones(len(errors)), value_counts[is_found])]
    evenly, by_records = (mean if math.isfinite(mean) else None for mean in means)
    return ErrorAtCount(count, evenly, by_records, int(is_found.sum()))
