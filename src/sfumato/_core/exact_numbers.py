"""Reads and rounds exact numbers, because guarantees rest on rationals such as `1/13`, `0.02`, `2%` or `3`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import SpecError

Exact = str | int | Fraction | Decimal

_HUGE = re.compile(r"[eE][-+]?[\d_]{4}")
"""Matches an exponent of four digits or more. An untrusted release may contain a number that would fill the memory."""


def parse_exact(number: Exact, what: str = "a number") -> Fraction:
    """Parses an exact rational from `1/13`, `0.02`, `2%`, `3`, a Fraction or a Decimal.

    Floats are rejected: 0.1 as a float is not one tenth, and a guarantee must not depend on the difference. `1/3%` is
    rejected too, because it could mean a third or a third of a hundredth.
    """
    if isinstance(number, float):
        digits = float.__repr__(number)
        raise SpecError(
            f"{what} must be exact, and the float {digits} is not: write it as a string, '{digits}'.",
            code="number-not-exact",
            fields={"subject": what, "given": digits},
        )
    try:
        if isinstance(number, str) and _HUGE.search(number):
            raise ValueError("the exponent is too large")
        if isinstance(number, str) and number.rstrip().endswith("%") and "/" not in number:
            return Fraction(number.rstrip().removesuffix("%")) / 100
        return Fraction(number)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise SpecError(
            f"{what} is {number!r}: write a number such as 1/13, 0.02, 2% or 3.",
            code="not-a-number",
            fields={"subject": what},
        ) from error


FINEST_STEPS, COARSEST_STEP = 100, 10
"""Shares that published numbers depend on are rounded down to one of at most 100 steps, each of at least ten records.
"""

SMALLEST_PRIOR = Fraction(1, 10**9)
"""Replaces a share that was rounded down to zero.

This number is smaller than the share of one record in any real table.
"""


def count_coarse_steps(total: int) -> int:
    """The number of equal steps for rounding shares: at most 100, so that each step has at least ten records."""
    return max(1, min(FINEST_STEPS, total // COARSEST_STEP))


def round_share_down(count: int, total: int) -> Fraction:
    """Rounds a share down to two significant digits, or to a multiple of ten records if that is coarser.

    Integers decide. Rounding to two digits alone would disclose the counts of rare values, because the total is public.
    Every rounded share except 1 can result from ten or more consecutive counts.
    """
    parts = 10  # the unit in which the share is 10 to 99
    while 0 < count * parts < 10 * total:
        parts *= 10
    if parts * COARSEST_STEP <= total:
        return Fraction(count * parts // total, parts)
    tens, first = count // COARSEST_STEP, -(-100 * total // parts)
    # At the start of a digit step, a step of ten records may be cut short; it then belongs to the previous one.
    is_cut = parts <= total and first - COARSEST_STEP * tens < COARSEST_STEP
    return Fraction(COARSEST_STEP * (tens - is_cut), total)


LARGEST_PART = 10**6
"""The numerator and the denominator of a root are below this."""


@lru_cache
def find_root_below(whole: Fraction, times: int) -> Fraction:
    """The largest n/d, both below a million, whose `times`-th power is at most the whole; decided by integers.

    The whole is above 1. The first power is the whole itself. Fractions between two neighbours of the Stern-Brocot tree
    are their mediants, so a walk towards the root passes every best approximation from below.
    """
    if times == 1:
        return whole
    low, high = (1, 1), (1, 0)  # the integer part of the root, which is at least 1
    while True:
        steps = _count_steps(low, high, lambda part: _is_within(part, whole, times))
        low = _move_towards(low, high, steps)
        back_steps = _count_steps(high, low, lambda part: not _is_within(part, whole, times))
        high = _move_towards(high, low, back_steps)
        if not steps and not back_steps:
            return Fraction(*low)


Part = tuple[int, int]


def _is_within(part: Part, whole: Fraction, times: int) -> bool:
    """Whether a power of n/d is at most the whole."""
    numerator, denominator = part
    return bool(numerator**times * whole.denominator <= whole.numerator * denominator**times)


def _move_towards(start: Part, towards: Part, steps: int) -> Part:
    return start[0] + steps * towards[0], start[1] + steps * towards[1]


def _count_steps(start: Part, towards: Part, holds: Callable[[Part], bool]) -> int:
    """The number of steps from one end of an interval towards the other while a condition holds.

    The condition holds up to some step and never again. Numerators and denominators stay below the largest; bisection
    finds the step.
    """
    most = min((LARGEST_PART - 1 - at) // by for at, by in zip(start, towards, strict=True) if by)
    reached, beyond = 0, most + 1
    while beyond - reached > 1:
        middle = (reached + beyond) // 2
        if holds(_move_towards(start, towards, middle)):
            reached = middle
        else:
            beyond = middle
    return reached


def round_up_two_digits(share: Fraction) -> Fraction:
    """A share above 0, rounded up to two significant digits."""
    unit = Fraction(1)
    while share < 10 * unit:
        unit /= 10
    return math.ceil(share / unit) * unit
