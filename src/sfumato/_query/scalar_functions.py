"""Functions of one number that estimates may be put through: their values, slopes, and what they make of intervals.

A rounding is taken to have the slope of what it rounds, and takes the ends of intervals along like the others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

MOST_POWER = 10


class NoNumber(Exception):
    """A function has no value there, such as the logarithm of what is not positive: SQL says NULL."""


class Function(ABC):
    """A function of one number, which rises; or falls to where it turns, and rises from there."""

    @abstractmethod
    def evaluate(self, number: float) -> float:
        """What it makes of a number."""

    def compute_slope(self, number: float) -> float:
        """How much it rises with the number; as much as that, unless it says otherwise."""
        return 1.0

    @property
    def turning_point(self) -> float | None:
        """Where it turns from falling to rising; None where it only rises."""
        return None

    least_argument: ClassVar[float] = -math.inf
    """Below this there is no value."""

    def map_interval(self, low: float, high: float) -> tuple[float, float]:
        """What the function makes of all numbers between two."""
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
    """The number itself."""

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        return number


@dataclass(frozen=True)
class Clipping(Function):
    """The nearest number that is possible, such as of a correlation."""

    least: float
    most: float

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        return min(max(number, self.least), self.most)


@dataclass(frozen=True)
class IntegerRounding(Function):
    """FLOOR, CEIL and TRUNC."""

    rounding: Callable[[float], int]

    def evaluate(self, number: float) -> float:
        """What it makes of a number; what is infinite stays so."""
        return float(self.rounding(number)) if math.isfinite(number) else number


@dataclass(frozen=True)
class Rounding(Function):
    """ROUND, halves away from zero."""

    decimals: int = 0

    def evaluate(self, number: float) -> float:
        """What it makes of a number; what is infinite stays so."""
        if not math.isfinite(number):
            return number
        unit = 10.0**self.decimals
        return math.copysign(math.floor(abs(number) * unit + 0.5) / unit, number)


@dataclass(frozen=True)
class Logarithm(Function):
    """LN, LOG and LOG2."""

    base: float = math.e

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        if number <= 0:
            raise NoNumber("the logarithm of a number that is not positive")
        return math.inf if math.isinf(number) else math.log(number) / math.log(self.base)

    def compute_slope(self, number: float) -> float:
        """How much it rises with the number."""
        return 1 / (number * math.log(self.base))


@dataclass(frozen=True)
class Exponential(Function):
    """EXP."""

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        return math.exp(number)

    def compute_slope(self, number: float) -> float:
        """How much it rises with the number."""
        return math.exp(number)


@dataclass(frozen=True)
class SquareRoot(Function):
    """SQRT."""

    least_argument: ClassVar[float] = 0.0

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        if number < 0:
            raise NoNumber("no root, because the number came out below zero by chance where it should not")
        return math.sqrt(number)

    def compute_slope(self, number: float) -> float:
        """How much it rises with the number."""
        if number == 0:
            raise NoNumber("the root of zero, whose error is not known")
        return 0.5 / math.sqrt(number)


@dataclass(frozen=True)
class AbsoluteValue(Function):
    """ABS."""

    @property
    def turning_point(self) -> float | None:
        """Where it turns from falling to rising."""
        return 0.0

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        return abs(number)

    def compute_slope(self, number: float) -> float:
        """How much it rises with the number."""
        return math.copysign(1.0, number)


@dataclass(frozen=True)
class Power(Function):
    """POWER with a whole exponent above zero."""

    exponent: int

    @property
    def turning_point(self) -> float | None:
        """Where it turns from falling to rising."""
        return None if self.exponent % 2 else 0.0

    def evaluate(self, number: float) -> float:
        """What it makes of a number."""
        return float(number**self.exponent)

    def compute_slope(self, number: float) -> float:
        """How much it rises with the number."""
        return float(self.exponent * number ** (self.exponent - 1))


def make_power(exponent: float) -> Function | None:
    """The power with an exponent; None of those whose error is not told."""
    if exponent == 0.5:  # noqa: PLR2004 - the square root
        return SquareRoot()
    is_whole = exponent == int(exponent) and 1 <= exponent <= MOST_POWER
    return Power(int(exponent)) if is_whole else None
