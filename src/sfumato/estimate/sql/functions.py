"""Functions of one number that estimates may be put through: their values, slopes, and what they make of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

Real = Callable[[float], float]


class NoNumber(Exception):
    """A function has no value there, such as the logarithm of what is not positive."""


@dataclass(frozen=True)
class Function:
    """A function of one number: continuous, or a rounding of it, which is taken to have the slope of what it rounds."""

    name: str
    value: Real
    slope: Real
    turn: float | None = None
    """Where it turns from falling to rising; None where it only rises."""
    begins: float = -math.inf
    """Below this there is no value."""

    def image(self, low: float, high: float) -> tuple[float, float]:
        """What the function makes of all numbers between two."""
        low, high = max(low, self.begins), max(high, self.begins)
        if self.turn is None or low >= self.turn:
            return self._end(low), self._end(high)
        if high <= self.turn:
            return self._end(high), self._end(low)
        return self._end(self.turn), max(self._end(low), self._end(high))

    def _end(self, number: float) -> float:
        try:
            return self.value(number)
        except NoNumber:
            return -math.inf
        except OverflowError:
            return math.inf


def _one(number: float) -> float:
    return 1.0


def _finite(function: Real) -> Real:
    """A rounding, which leaves what is infinite as it is."""
    return lambda number: function(number) if math.isfinite(number) else number


@cache
def rounding(decimals: int) -> Function:
    """ROUND, halves away from zero."""
    unit = 10.0**decimals
    return Function(
        f"round {decimals}", _finite(lambda x: math.copysign(math.floor(abs(x) * unit + 0.5) / unit, x)), _one
    )


def _log(base: float) -> Real:
    def log(number: float) -> float:
        if number <= 0:
            raise NoNumber("the logarithm of a number that is not positive")
        return math.inf if math.isinf(number) else math.log(number) / math.log(base)

    return log


@cache
def logarithm(base: float) -> Function:
    """LN, LOG and LOG2."""
    return Function(f"log {base}", _log(base), lambda x: 1 / (x * math.log(base)))


def _sqrt(number: float) -> float:
    if number < 0:
        raise NoNumber("the root of a number that is below zero by chance")
    return math.sqrt(number)


@cache
def power(exponent: float) -> Function | None:
    """A whole power above zero; None of others."""
    if exponent != int(exponent) or not 1 <= exponent <= 10:  # noqa: PLR2004 - nobody asks for more
        return None
    whole = int(exponent)
    return Function(
        f"power {whole}", lambda x: x**whole, lambda x: whole * x ** (whole - 1), None if whole % 2 else 0.0
    )


def _sqrt_slope(number: float) -> float:
    if number == 0:
        raise NoNumber("the root of zero, whose error is not known")
    return 0.5 / math.sqrt(number)


SQUARE_ROOT = Function("sqrt", _sqrt, _sqrt_slope, begins=0.0)
EXPONENTIAL = Function("exp", lambda x: 0.0 if x == -math.inf else math.exp(x), math.exp)
ABSOLUTE = Function("abs", abs, lambda x: math.copysign(1.0, x), turn=0.0)
FLOOR = Function("floor", _finite(lambda x: float(math.floor(x))), _one)
CEILING = Function("ceil", _finite(lambda x: float(math.ceil(x))), _one)
TRUNCATED = Function("trunc", _finite(lambda x: float(math.trunc(x))), _one)
WHOLE = rounding(0)
