"""An answer with its error: the estimate, its standard error, and an interval at any level."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

from sfumato.errors import QueryError
from sfumato.tally import Moments

DEFAULT_LEVEL = 0.95
EXACT_METHOD = "exact count"
EXACT_ASSUMPTION = "none: only public columns are counted"


class Interval(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of a count in the original table.

    The interval is for the count in that table, not for a population that the table was sampled from. An unbiased
    estimate may be negative or exceed the number of rows: clipping it would bias sums over groups.
    """

    value: float
    standard_error: float | None
    method: str
    assumption: str
    moments: Moments = field(repr=False)
    note: str | None = None
    """Why something is not given, or what to beware of."""

    @classmethod
    def of(cls, moments: Moments, method: str, assumption: str, note: str | None = None) -> Estimate:
        """Take the standard error at the estimate, moved into the range that a count can have."""
        nearest = min(max(moments.value, float(moments.least)), float(moments.most))
        variance = moments.variance_at(nearest)
        error = None if variance is None else math.sqrt(variance)
        return cls(moments.value, error, method, assumption, moments, note)

    @classmethod
    def exact(cls, count: int) -> Estimate:
        """A count of public columns only, which the release answers without error."""
        return cls(float(count), 0.0, EXACT_METHOD, EXACT_ASSUMPTION, Moments(count, 0, 0, count, count))

    def interval(self, level: float = DEFAULT_LEVEL) -> Interval:
        """The score interval: all counts that a test at this level would not reject."""
        if self.standard_error is None:
            raise QueryError(f"the method {self.method!r} tells no error, so it has no interval; use the default one.")
        low, high = self._clipped(score_interval(self.moments, level))
        if low == high and self.standard_error:
            # Every count that fits lies outside the range of a count: say how far off the nearest may be, not that
            # it is certain.
            nearest, reach = low, NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
            return self._clipped(Interval(nearest - reach, nearest + reach))
        return Interval(low, high)

    def _clipped(self, interval: Interval) -> Interval:
        least, most = float(self.moments.least), float(self.moments.most)
        return Interval(*(min(max(end, least), most) for end in interval))


def score_interval(moments: Moments, level: float) -> Interval:
    """Solve (value - c)² <= z² (base + slope c) for c, without regard to the range of a count.

    Source: Wilson 1927 for one binomial; here for the sum of two.
    """
    if not 0 < level < (1 + level) / 2 < 1:
        raise QueryError(f"the level is {level}, and must lie between 0 and 1, such as 0.95.")
    base = moments.variance_base or 0.0
    squared = NormalDist().inv_cdf((1 + level) / 2) ** 2
    middle = moments.value + squared * moments.variance_slope / 2
    discriminant = middle**2 - moments.value**2 + squared * base
    # A negative discriminant means that no count fits: the variance would be negative wherever the estimate lies.
    half = math.sqrt(max(0.0, discriminant))
    return Interval(middle - half, middle + half)
