"""Exact numbers: what a promise rests on is a rational, written as `1/13`, `0.02`, `2%` or `3`."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from sfumato.errors import SpecError

Exact = str | int | Fraction | Decimal

_HUGE = re.compile(r"[eE][-+]?[\d_]{4}")
"""An exponent that would take minutes and gigabytes to write out; a stranger's release may hold one."""


def exact(number: Exact, what: str = "a number") -> Fraction:
    """Read an exact rational from `1/13`, `0.02`, `2%`, `3`, a Fraction or a Decimal.

    Floats are refused: 0.1 as a float is not one tenth, and a promise must not rest on the difference. So is `1/3%`,
    which one reader takes for a third and another for a third of a hundredth.
    """
    if isinstance(number, float):
        written = float.__repr__(number)
        raise SpecError(f"{what} must be exact, and the float {written} is not: write it as a string, '{written}'.")
    try:
        if isinstance(number, str) and _HUGE.search(number):
            raise ValueError("the exponent is too large")
        if isinstance(number, str) and number.rstrip().endswith("%") and "/" not in number:
            return Fraction(number.rstrip().removesuffix("%")) / 100
        return Fraction(number)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise SpecError(f"{what} is {number!r}: write a number such as 1/13, 0.02, 2% or 3.") from error


FINEST_STEPS, COARSEST_STEP = 100, 10
"""Shares are rounded down to hundredths, or to ten records if that is coarser, before something published follows."""

SMALLEST_PRIOR = Fraction(1, 10**9)
"""Stands for a share that was rounded down to nothing: below the share of one record in a thousand million."""


def coarse_steps(total: int) -> int:
    """Into how many steps shares of a table of this size are cut where what is published follows them."""
    return max(1, min(FINEST_STEPS, total // COARSEST_STEP))
