"""Formats numbers and names in the same way for a picture, its sentence and its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sfumato._figures.svg import ELLIPSIS, escape_controls

NOT_AVAILABLE = "not available"
LONGEST_NAME = 60
"""The most letters of a name within a sentence."""

MOST_DIGITS = 6
"""The most decimals of a percentage that is rounded up."""

FACTOR_TOLERANCE = Fraction(1, 10**7)
"""A factor that exceeds a round number by at most this relative amount is described as "just over" the round number."""

_TENTH, _HUNDREDTH, _LEAST = 0.1, 0.01, 1e-4


def is_known(number: float | None) -> bool:
    """Whether there is a finite number."""
    return number is not None and math.isfinite(number)


def format_percent(share: float | None) -> str:
    """Formats a share as whole percents, and with two digits below 10%. Only exactly 0 or 1 gives 0% or 100%."""
    if share is None or not math.isfinite(share):
        return NOT_AVAILABLE
    size = abs(share)
    if 0 < size < _LEAST:
        return "below 0.01%" if share > 0 else "above -0.01%"
    if 1 - _LEAST < size < 1:
        return "above 99.99%" if share > 0 else "below -99.99%"
    digits = 0 if size >= _TENTH else 1 if size >= _HUNDREDTH else 2
    if _HUNDREDTH / 2 > 1 - size > 0:
        digits = 2
    return _group_thousands(100 * share, digits) + "%"


def format_exact_percent(share: float | None) -> str:
    """Formats a share with one more digit, to be compared with a requested share."""
    if share is None or not math.isfinite(share):
        return NOT_AVAILABLE
    return (
        format_percent(share) if share in {0.0, 1.0} or not _LEAST * 10 <= share <= 1 - _LEAST * 10 else f"{share:.1%}"
    )


def format_upper_percent(share: Fraction | float) -> str:
    """Formats a share that is not exceeded, for "at most". Rounds up, with enough digits to stay below 100%."""
    exact = _make_exact(share)
    for digits in range(1, MOST_DIGITS + 1):
        tenths = math.ceil(exact * 100 * 10**digits)
        if tenths < 100 * 10**digits and (digits > 1 or exact >= Fraction(1, 100)):
            return _group_thousands(tenths / 10**digits, digits) + "%"
    return "100%"


def format_upper_factor(factor: Fraction | float) -> str:
    """Formats a positive factor that is not exceeded. Rounds up at the fourth digit, or writes "just over"."""
    exact = _make_exact(factor)
    unit = Fraction(10) ** (math.floor(math.log10(exact)) - 3)
    whole = exact // unit * unit
    if exact > whole * (1 + FACTOR_TOLERANCE):
        return f"{float(whole + unit):,.10g}"
    return f"{'just over ' if exact > whole else ''}{float(whole):,.10g}"


def _make_exact(number: Fraction | float) -> Fraction:
    """The number itself; a float without the noise of its last digits, which would be rounded up."""
    return number if isinstance(number, Fraction) else Fraction(f"{number:.12g}")


def format_points(difference: float | None) -> str:
    """Formats a difference of two shares in percentage points."""
    if difference is None or not math.isfinite(difference):
        return NOT_AVAILABLE
    return f"{format_percent(difference).removesuffix('%')} points"


def format_quantity(number: float | None) -> str:
    """Formats a number of any size, with grouped thousands, and with three digits below a hundred."""
    if number is None or not math.isfinite(number):
        return NOT_AVAILABLE
    size = abs(number)
    if size >= 1e15 or 0 < size < 1e-4:  # noqa: PLR2004 - beyond these, digits only fill the line
        return f"{number:.3g}"
    if size >= 100 or number == round(number):  # noqa: PLR2004
        return _group_thousands(number, 0)
    return _group_thousands(number, 2 - math.floor(math.log10(size)))


def round_to_two_digits(number: float) -> float:
    """Rounds a number to two digits."""
    return round(number, 1 - math.floor(math.log10(abs(number)))) if number else 0.0


def _group_thousands(number: float, digits: int) -> str:
    text = f"{number:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text


def format_name(text: str) -> str:
    """Shortens a name within a sentence."""
    safe_text = escape_controls(text)
    return safe_text if len(safe_text) <= LONGEST_NAME else safe_text[: LONGEST_NAME - 1] + ELLIPSIS


def format_count(number: int, noun: str) -> str:
    """Formats a count with its noun, singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def join_phrases(phrases: Sequence[str]) -> str:
    """Joins phrases in a list with "and"."""
    return " and ".join([", ".join(phrases[:-1]), phrases[-1]]) if len(phrases) > 1 else "".join(phrases)
