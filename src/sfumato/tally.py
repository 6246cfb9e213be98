"""What is counted in a release, and what an estimator makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[Any]
"""Numbers of values in the order of their domain, in the narrowest unsigned type."""

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tally:
    """For the rows that satisfy a predicate on public columns: how many show each symbol of the domain."""

    counts: Counts

    @property
    def rows(self) -> int:
        """The number of rows that satisfy the predicate; exact, because public columns are untouched."""
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Moments:
    """An unbiased estimate of a count between 0 and `most`, and the variance it has if the count is c.

    The variance is `variance_base + variance_slope * c`: linear in the unknown count, which is what lets an
    interval solve for c instead of plugging an estimate in.
    """

    value: float
    variance_base: float
    variance_slope: float
    most: int

    def variance_at(self, count: float) -> float:
        """The variance of the estimate if the true count were `count`."""
        return max(0.0, self.variance_base + self.variance_slope * count)
