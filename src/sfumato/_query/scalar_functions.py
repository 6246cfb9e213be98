"""Functions of one number that can be applied to estimates. Each has a value, a slope and images of intervals.

A rounding function has the slope of the identity, and maps the ends of intervals like other functions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

MOST_POWER = 10


class NoNumber(Exception):
    """The function has no value, as for the logarithm of zero. SQL returns NULL in this case."""


class Function(ABC):
    """A function of one number. It rises everywhere, or falls up to a turning point and then rises."""

    @abstractmethod
    def evaluate(self, number: float) -> float:
        """The value of the function."""

    def compute_slope(self, number: float) -> float:
        """The derivative of the function. The default is 1."""
        return 1.0

    @property
    def turning_point(self) -> float | None:
        """The point where the function turns from falling to rising. None if the function only rises."""
        return None

    least_argument: ClassVar[float] = -math.inf
    """The function has no value below this number."""

    def map_interval(self, low: float, high: float) -> tuple[float, float]:
        """The image of an interval under the function."""
        low, high = max(low, self.least_argument), max(high, self.least_argument)
        if self.turning_point is None or low >= self.turning_point:
            return self._evaluate_end(low), self._evaluate_end(high)
        if high <= self.turning_point:
            return self._evaluate_end(high), self._evaluate_end(low)
        return self._evaluate_end(self.turning_point), max(self._evaluate_end(low), self._evaluate_end(high))

    def _evaluate_end(self, number: float) -> float:
        try:
            return self.evaluate(number)
        except NoNumber:
            return -math.inf
        except OverflowError:
            return math.inf


@dataclass(frozen=True)
class Identity(Function):
    """The identity function."""

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        return number


@dataclass(frozen=True)
class Clipping(Function):
    """Clips to the range of possible values. For example, a correlation is clipped to its range."""

    least: float
    most: float

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        return min(max(number, self.least), self.most)


@dataclass(frozen=True)
class IntegerRounding(Function):
    """FLOOR, CEIL and TRUNC."""

    rounding: Callable[[float], int]

    def evaluate(self, number: float) -> float:
        """The value of the function. An infinite number stays infinite."""
        return float(self.rounding(number)) if math.isfinite(number) else number


@dataclass(frozen=True)
class Rounding(Function):
    """ROUND. Halves are rounded away from zero."""

    decimals: int = 0

    def evaluate(self, number: float) -> float:
        """The value of the function. An infinite number stays infinite."""
        if not math.isfinite(number):
            return number
        unit = 10.0**self.decimals
        return math.copysign(math.floor(abs(number) * unit + 0.5) / unit, number)


@dataclass(frozen=True)
class Logarithm(Function):
    """LN, LOG and LOG2."""

    base: float = math.e

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        if number <= 0:
            raise NoNumber("the logarithm of a number that is not positive")
        return math.inf if math.isinf(number) else math.log(number) / math.log(self.base)

    def compute_slope(self, number: float) -> float:
        """The derivative of the function."""
        return 1 / (number * math.log(self.base))


@dataclass(frozen=True)
class Exponential(Function):
    """EXP."""

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        return math.exp(number)

    def compute_slope(self, number: float) -> float:
        """The derivative of the function."""
        return math.exp(number)


@dataclass(frozen=True)
class SquareRoot(Function):
    """SQRT."""

    least_argument: ClassVar[float] = 0.0

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        if number < 0:
            raise NoNumber("no root, because the estimate is negative by chance")
        return math.sqrt(number)

    def compute_slope(self, number: float) -> float:
        """The derivative of the function."""
        if number == 0:
            raise NoNumber("the root of zero, whose error is unknown")
        return 0.5 / math.sqrt(number)


@dataclass(frozen=True)
class AbsoluteValue(Function):
    """ABS."""

    @property
    def turning_point(self) -> float | None:
        """The point where it turns from falling to rising."""
        return 0.0

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        return abs(number)

    def compute_slope(self, number: float) -> float:
        """The derivative of the function."""
        return math.copysign(1.0, number)


@dataclass(frozen=True)
class Power(Function):
    """POWER with a whole exponent above zero."""

    exponent: int

    @property
    def turning_point(self) -> float | None:
        """The point where the function turns from falling to rising. None for odd exponents."""
        return None if self.exponent % 2 else 0.0

    def evaluate(self, number: float) -> float:
        """The value of the function."""
        return float(number**self.exponent)

    def compute_slope(self, number: float) -> float:
        """The derivative of the function."""
        return float(self.exponent * number ** (self.exponent - 1))


def make_power(exponent: float) -> Function | None:
    """The power function for an exponent. None for exponents without a known error."""
    if exponent == 0.5:  # noqa: PLR2004 - the square root
        return SquareRoot()
    is_whole = exponent == int(exponent) and 1 <= exponent <= MOST_POWER
    return Power(int(exponent)) if is_whole else None
