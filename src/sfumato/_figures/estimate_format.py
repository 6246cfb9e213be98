"""Formats a number as one cell, with its error and interval. The size of the error determines the number of digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato._figures.number_format import is_known

NO_NUMBER = "no number"
UNKNOWN = "?"
ROUNDING, LEAST = 1e-8, 1e-12
"""Smaller errors, relative to the number or absolute, are floating-point noise."""
EXACT_DIGITS = 4
LONGEST, MOST_DIGITS = 1e15, 8
"""The most digits of a number without error, because more would only fill the line."""


@dataclass(frozen=True, slots=True)
class NumberCell:
    """A formatted number in parts. Parts that do not exist are empty."""

    value: str
    error: str = ""
    low: str = ""
    high: str = ""

    @classmethod
    def of(
        cls,
        value: float | None,
        error: float | None = None,
        ends: tuple[float, float] | None = None,
        centre: float | None = None,
    ) -> NumberCell:
        """Formats the error to two digits, and the number and its interval to the same place.

        If the error belongs to another number, the `centre`, both numbers are printed.
        """
        if value is None or math.isnan(value):
            return cls(NO_NUMBER)
        if error is None or not math.isfinite(error):
            place = 0 if not value or abs(value) >= 10 else _find_decimal_place(value)  # noqa: PLR2004 - two digits of its own
            return cls(_format_to_place(value, place), UNKNOWN)
        if error <= max(ROUNDING * abs(value), LEAST):
            return cls(_format_exactly(value))
        place = _find_decimal_place(error)
        low, high = (_format_to_place(end, place, error) for end in ends) if ends else ("", "")
        formatted_value = _format_to_place(value, place, error)
        if centre is not None:
            formatted_value = f"{formatted_value} beside {_format_to_place(centre, place, error)}"
        return cls(formatted_value, _format_to_place(error, place), low, high)

    @property
    def text(self) -> str:
        """The whole text, such as 4.16 ± 0.03 [4.10, 4.22]."""
        return " ".join(filter(None, (self.value_with_error, self.interval)))

    @property
    def value_with_error(self) -> str:
        """The number with its error."""
        return f"{self.value} ± {self.error}" if self.error else self.value

    @property
    def interval(self) -> str:
        """The interval."""
        return f"[{self.low}, {self.high}]" if self.low else ""


def align_cells(cells: Sequence[NumberCell]) -> list[tuple[str, str]]:
    """Aligns the cells of a column, so that the errors and the intervals start at the same position."""
    width = max((len(cell.value) for cell in cells), default=0)
    middles = [replace(cell, value=cell.value.rjust(width)).value_with_error for cell in cells]
    middle_width = max(map(len, middles), default=0)
    return [(middle.ljust(middle_width), cell.interval) for middle, cell in zip(middles, cells, strict=True)]


def _find_decimal_place(number: float) -> int:
    """The decimal place of the second digit, which is 3 for 0.031 and -1 for 170."""
    return 1 - math.floor(math.log10(float(f"{abs(number):.1e}")))


def _format_exactly(number: float) -> str:
    if number == round(number) and abs(number) < LONGEST:
        return f"{number:,.0f}"
    return f"{number:,.{EXACT_DIGITS}f}" if 1 <= abs(number) < LONGEST else f"{number:.{EXACT_DIGITS}g}"


def _format_to_place(number: float, place: int, error: float = 0.0) -> str:
    """Formats a number to a decimal place. A number other than zero keeps at least one digit."""
    if not is_known(number):
        return "∞" if number > 0 else "-∞"
    rounded_number = round(number, place)
    if not rounded_number:
        if abs(number) <= ROUNDING * error:
            return f"{0:.{max(place, 0)}f}" if place <= MOST_DIGITS else "0"
        place = -math.floor(math.log10(abs(number)))
        rounded_number = round(number, place)
    if abs(rounded_number) >= LONGEST or place > MOST_DIGITS:
        return f"{rounded_number:.2g}"
    return f"{rounded_number:,.{max(place, 0)}f}"
