"""How far off counts of a given size are, for a value chosen evenly and for one chosen as the records have it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.json_types import Json


@dataclass(frozen=True, slots=True)
class ErrorAtCount:
    """The standard error of a count that finds so many records, divided by the count.

    The records found share a value, and lie among as many rows as hold that many of it: a condition that has nothing to
    do with the value. Only values with so many records can be found so often. None where there is no such value, or
    nothing is known of the error of one.
    """

    count: float
    evenly: float | None
    """The mean over these values: somebody who picks one out of a list."""
    by_records: float | None
    """The mean over their records: somebody who asks about the value of a person."""
    values: int
    """How many values have so many records."""

    def to_json(self) -> Json:
        """For machines."""
        return {name: getattr(self, name) for name in ("count", "evenly", "by_records", "values")}


def predict_error(value_counts: Floats, variances: Callable[[Floats, Floats], Floats], count: float) -> ErrorAtCount:
    """The error of a count of this size, if each value is held by so many; `variances` as a mechanism has them."""
    total = float(value_counts.sum())
    is_found = (value_counts >= count) & (count >= 1)
    if not is_found.any():
        return ErrorAtCount(count, None, None, 0)
    rows = np.where(is_found, count * total / np.where(value_counts > 0, value_counts, 1), total)
    errors = np.sqrt(np.maximum(variances(rows, np.full(len(value_counts), float(count)))[is_found], 0.0)) / count
    means = [float(weights @ errors / weights.sum()) for weights in (np.ones(len(errors)), value_counts[is_found])]
    evenly, by_records = (mean if math.isfinite(mean) else None for mean in means)
    return ErrorAtCount(count, evenly, by_records, int(is_found.sum()))
