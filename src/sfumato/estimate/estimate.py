"""An answer with its error: the estimate, its standard error, and an interval at any level."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from sfumato.errors import QueryError
from sfumato.shown.tally import Floats, Moments

Number = float | Floats

DEFAULT_LEVEL = 0.95
EXACT_METHOD = "exact count"
EXACT_ASSUMPTION = "none: only public columns are counted"


class Interval(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """A number that is a known factor times an estimate, plus a known number."""

    inner: Estimate
    factor: float
    shift: float

    def interval(self, level: float) -> Interval:
        """The interval of the estimate, moved along."""
        low, high = sorted(self.factor * end + self.shift for end in self.inner.interval(level))
        return Interval(low, high)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two estimates, with the variances and the covariance of the two."""

    numerator: float
    denominator: float
    variance: float
    covariance: float
    denominator_variance: float

    def interval(self, level: float) -> Interval:
        """All ratios r for which numerator - r * denominator may be zero; everything where the denominator may be.

        Source: Fieller 1954. With z for the level, solve (a - rb)² <= z² (V_a - 2 r C + r² V_b) for r.
        """
        squared = quantile(level) ** 2
        square = self.denominator**2 - squared * self.denominator_variance
        middle = self.numerator * self.denominator - squared * self.covariance
        rest = self.numerator**2 - squared * self.variance
        if square <= 0:
            return Interval(-math.inf, math.inf)
        half = math.sqrt(max(0.0, middle**2 - square * rest))
        return Interval((middle - half) / square, (middle + half) / square)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of a count, or of another number, of the original table.

    The interval is for the number in that table, not for a population that the table was sampled from. An unbiased
    estimate may be negative or exceed the number of rows: clipping it would bias sums over groups. Not a number where
    there is nothing to estimate.
    """

    value: float
    standard_error: float | None
    method: str
    assumption: str
    moments: Moments = field(repr=False)
    note: str | None = None
    """Why something is not given, or what to beware of."""
    derived: Scaled | Ratio | None = field(default=None, repr=False)
    """How it comes from other estimates, where that tells the interval."""

    @classmethod
    def of(cls, moments: Moments, method: str, assumption: str, note: str | None = None) -> Estimate:
        """Take the standard error at the estimate, moved into the range that a count can have."""
        nearest = min(max(moments.value, float(moments.least)), float(moments.most))
        variance = moments.variance_at(nearest)
        error = None if variance is None else math.sqrt(variance)
        return cls(moments.value, error, method, assumption, moments, note)

    @classmethod
    def exact(cls, count: float) -> Estimate:
        """A count or a sum of public columns only, which the release answers without error."""
        return cls(float(count), 0.0, EXACT_METHOD, EXACT_ASSUMPTION, Moments(count, 0, 0, count, count))

    @classmethod
    def missing(cls, note: str | None) -> Estimate:
        """No number, as SQL gives NULL."""
        nothing = Moments(math.nan, None, 0.0, math.inf, -math.inf)
        return cls(math.nan, None, EXACT_METHOD, EXACT_ASSUMPTION, nothing, note)

    def __str__(self) -> str:
        if math.isnan(self.value) or self.standard_error is None:
            return f"{self.value:,.6g} ({self.note or self.method})"
        low, high = self.interval()
        return f"{self.value:,.6g} ± {self.standard_error:,.3g} ({DEFAULT_LEVEL:.0%}: {low:,.6g} to {high:,.6g})"

    @property
    def is_exact(self) -> bool:
        """Whether there is no error at all."""
        return self.method == EXACT_METHOD

    def scaled(self, factor: float, shift: float) -> Estimate:
        """A known factor times this estimate, plus a known number."""
        if (factor, shift) == (1.0, 0.0):
            return self
        value = factor * self.value + shift
        error = None if self.standard_error is None else abs(factor) * self.standard_error
        variance = None if error is None else error**2
        least, most = sorted(factor * end + shift for end in (self.moments.least, self.moments.most))
        moments = Moments(value, variance, 0.0, most, least)
        note = None if self.moments.is_own_note else self.note
        return Estimate(value, error, self.method, self.assumption, moments, note, Scaled(self, factor, shift))

    def interval(self, level: float = DEFAULT_LEVEL) -> Interval:
        """The score interval: all counts that a test at this level would not reject."""
        if self.standard_error is None:
            raise QueryError(f"the method {self.method!r} tells no error, so it has no interval; use the default one.")
        if self.derived is not None:
            return self._clipped(self.derived.interval(level))
        low, high = self._clipped(score_interval(self.moments, level))
        if low == high and self.standard_error:
            # Every count that fits lies outside the range of a count: say how far off the nearest may be, not that
            # it is certain.
            nearest, reach = low, quantile(level) * self.standard_error
            return self._clipped(Interval(nearest - reach, nearest + reach))
        return Interval(low, high)

    def _clipped(self, interval: Interval) -> Interval:
        least, most = float(self.moments.least), float(self.moments.most)
        return Interval(*(min(max(end, least), most) for end in interval))


def score_interval(moments: Moments, level: float) -> Interval:
    """The score interval of one estimate, without regard to the range of a count."""
    low, high = score_ends(moments.value, moments.variance_base or 0.0, moments.variance_slope, level)
    return Interval(float(low), float(high))


def score_ends(value: Number, base: Number, slope: Number, level: float) -> tuple[Number, Number]:
    """Solve (value - c)² <= z² (base + slope c) for c; for one estimate, or for an array of them.

    Source: Wilson 1927 for one binomial; here for the sum of two.
    """
    squared = quantile(level) ** 2
    shift = squared * slope / 2
    # (value + shift)² - value² + z² base, written so that the square of a large sum does not swallow the rest. Below
    # zero no count fits: the variance would be negative wherever the estimate lies.
    half = np.sqrt(np.maximum(shift * (2 * value + shift) + squared * base, 0.0))
    return value + shift - half, value + shift + half


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < (1 + level) / 2 < 1:
        raise QueryError(f"the level is {level}, and must lie between 0 and 1, such as 0.95.")


def quantile(level: float) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    check_level(level)
    return NormalDist().inv_cdf((1 + level) / 2)
