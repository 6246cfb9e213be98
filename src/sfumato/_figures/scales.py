"""Maps numbers to pixels, on linear and logarithmic scales, and on a signed scale for numbers of all sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

STEPS = (1, 2, 5, 10)
SMALLEST, LARGEST = 1e-300, 1e300
"""The largest and the smallest drawn number.

Larger numbers, which overflow in subtraction, are drawn at the largest, and smaller numbers as zero.
"""
LEAST_SHARE = 0.001
"""The smallest distance of ticks for shares. Closer ticks would have the same percentage as label."""


@dataclass(frozen=True)
class Scale:
    """A linear scale from numbers to pixels. Numbers outside its ends are drawn at the nearest end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """The pixel of a number."""
        low, high = self._ends
        at = self.transform(min(max(number, self.low), self.high))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return self.transform(self.low), self.transform(self.high)

    def transform(self, number: float) -> float:
        """The number, transformed to a linear position."""
        return number

    def list_ticks(self, room: float) -> list[float]:
        """Round numbers at least this many pixels apart."""
        step = find_nice_step((self.high - self.low) * room / abs(self.end - self.start))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True)
class LogScale(Scale):
    """A logarithmic scale for positive numbers."""

    def transform(self, number: float) -> float:
        """The logarithm. A number that is not positive has the logarithm of the lowest end."""
        return math.log10(max(number, self.low))

    def list_ticks(self, room: float) -> list[float]:
        """Powers of ten, with 2 and 5 between them if they fit, or every second or third power if few fit."""
        first, last = math.floor(math.log10(self.low) + 1e-9), math.ceil(math.log10(self.high) - 1e-9)
        decade_width = abs(self.end - self.start) / max(self.transform(self.high) - self.transform(self.low), 1e-9)
        power_step = max(1, math.ceil(room / decade_width))
        factors = (1, 2, 5) if decade_width * 0.3 >= room else (1,)
        candidates = [factor * 10.0**power for power in range(first, last + 1, power_step) for factor in factors]
        return [tick for tick in candidates if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]


@dataclass(frozen=True)
class SignedScale(Scale):
    """A scale for estimates, which may be negative. The scale is linear around zero and logarithmic beyond."""

    unit: float = 1.0
    """The approximate end of the linear part."""

    def transform(self, number: float) -> float:
        """The inverse of the hyperbolic sine."""
        return math.asinh(number / self.unit)

    def list_ticks(self, room: float) -> list[float]:
        """Zero, and powers of ten on both sides if they fit."""
        tick_values = [0.0] if self.low <= 0 <= self.high else []
        for power in range(math.floor(math.log10(self.unit)), math.ceil(math.log10(self.max_magnitude)) + 1):
            for tick in (10.0**power, -(10.0**power)):
                is_inside = self.low <= tick <= self.high
                if is_inside and all(abs(self(tick) - self(other)) >= room for other in tick_values):
                    tick_values.append(tick)
        return sorted(tick_values)

    def space_evenly(self, low: float, high: float, steps: int) -> list[float]:
        """Numbers at equal distances on the scale."""
        first, last = self.transform(low), self.transform(high)
        return [self.unit * math.sinh(first + (last - first) * step / steps) for step in range(steps + 1)]

    @property
    def max_magnitude(self) -> float:
        """The largest distance from zero."""
        return max(abs(self.low), abs(self.high), self.unit)


def find_nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50, ... and their tenths that is at least a number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((power * step for step in STEPS if power * step >= least * (1 - 1e-9)), power * STEPS[-1])


def keep_finite(numbers: Iterable[float | None]) -> list[float]:
    """The numbers that can be drawn."""
    return [min(max(number, -LARGEST), LARGEST) for number in numbers if number is not None and math.isfinite(number)]


def make_linear_scale(numbers: Iterable[float | None], start: float, end: float) -> Scale:
    """A linear scale for some numbers and for zero, with a margin at ends other than zero."""
    finite_numbers = [0.0, *keep_finite(numbers)]
    low, high = min(finite_numbers), max(finite_numbers)
    if high - low <= SMALLEST:
        return Scale(0.0, 1.0, start, end)
    return Scale(low - (0.04 * (high - low) if low else 0), high + (0.04 * (high - low) if high else 0), start, end)


def make_spanning_scale(numbers: Iterable[float | None], start: float, end: float) -> Scale:
    """A linear scale for a varied quantity, from the smallest to the largest number. Zero need not be included."""
    finite_numbers = keep_finite(numbers)
    if not finite_numbers:
        return make_linear_scale(finite_numbers, start, end)
    if max(finite_numbers) - min(finite_numbers) <= SMALLEST:  # a single number is drawn in the middle
        half = max(abs(finite_numbers[0]), 1.0) / 2
        return Scale(finite_numbers[0] - half, finite_numbers[0] + half, start, end)
    return Scale(min(finite_numbers), max(finite_numbers), start, end)


def make_spanning_log_scale(numbers: Iterable[float | None], start: float, end: float) -> Scale:
    """A logarithmic scale from the smallest to the largest number. The scale is linear if a number is not positive."""
    finite_numbers = keep_finite(numbers)
    if not finite_numbers or min(finite_numbers) <= SMALLEST or max(finite_numbers) <= min(finite_numbers) * (1 + 1e-9):
        return make_spanning_scale(finite_numbers, start, end)
    return LogScale(min(finite_numbers), max(finite_numbers), start, end)


def make_share_scale(numbers: Sequence[float | None], start: float, end: float) -> Scale:
    """A linear scale for shares, from zero to at most one."""
    largest = max(keep_finite(numbers), default=0.0)
    high = make_linear_scale([largest], start, end).high if largest > 0 else 1.0
    return Scale(0.0, min(max(high, LEAST_SHARE), 1.0), start, end)


def make_log_scale(numbers: Iterable[float | None], start: float, end: float) -> LogScale:
    """A logarithmic scale for positive numbers. Its ends are 1, 2 or 5 times a power of ten."""
    positive_numbers = [number for number in keep_finite(numbers) if number > SMALLEST] or [1.0]
    low, high = _round_down(min(positive_numbers)), find_nice_step(max(positive_numbers))
    if high < 10 * low:
        low, high = low / 2, high * 2
    return LogScale(_round_down(low), find_nice_step(high), start, end)


def _round_down(number: float) -> float:
    power = 10.0 ** math.floor(math.log10(number))
    return max((power * step for step in STEPS if power * step <= number * (1 + 1e-9)), default=power)
