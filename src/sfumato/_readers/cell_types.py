"""Infers the type of a column from single values, as in JSON and spreadsheets.

A column has whole numbers, numbers, booleans, dates, times or text. A CSV file of the same values would give the same
types.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sfumato._readers.type_inference import DATES, OVERSIZED, TIME, SpellingGuess

INT64_LIMIT = 1 << 63
MOST_DIGITS = 10**76
"""The limit of the numbers that the type `OVERSIZED` can hold."""


class ColumnKind:
    """The types of the values of a column seen so far."""

    def __init__(self, *, is_text: bool = False) -> None:
        self.kinds: set[type] = set()
        self.is_text = is_text
        self.is_wide = False
        """Whether a whole number is beyond 64 bits."""
        self.date_guess = SpellingGuess(() if is_text else DATES)
        self.has_times = False

    def add(self, values: Iterable[object]) -> None:
        """Take further values into account. Missing values are ignored."""
        all_values = list(values)
        kinds = set(map(type, all_values)) - {type(None)}
        self.kinds |= kinds
        if int in kinds and not self.is_wide:
            integers = [value for value in all_values if type(value) is int]
            self.is_wide = min(integers) < -INT64_LIMIT or max(integers) >= INT64_LIMIT
        if str in kinds and self.date_guess.spellings:
            self.date_guess.add(pa.array([value for value in all_values if type(value) is str], pa.string()))
        if datetime.datetime in kinds and not self.has_times:
            self.has_times = any(type(value) is datetime.datetime and value.time() != _MIDNIGHT for value in all_values)

    @property
    def is_mixed(self) -> bool:
        """Whether the values have incompatible types, such as strings and numbers."""
        return len(self.kinds) > 1 and self.kinds not in ({int, float}, {datetime.date, datetime.datetime})

    @property
    def type(self) -> pa.DataType:
        """The type of the column. A mixed column is text."""
        if self.is_text or self.is_mixed or not self.kinds:
            return pa.string()
        if self.kinds == {str}:
            return self.date_guess.spelling.kind if self.date_guess.spelling else pa.string()
        if self.kinds == {int}:
            return OVERSIZED if self.is_wide else pa.int64()
        if self.kinds <= {int, float}:
            return pa.float64()
        if self.kinds == {bool}:
            return pa.bool_()
        return TIME if self.has_times else pa.date32()

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        """The values in the type of the column. A value of a new type raises an error of Arrow."""
        kind = self.type
        if pa.types.is_string(kind) and self.kinds != {str}:
            return pa.array([None if value is None else format_as_csv(value) for value in values], kind)
        if self.kinds == {str} and self.date_guess.spelling:
            return self.date_guess.spelling.read(pa.array(values, pa.string()))
        if pa.types.is_date32(kind):
            return pa.array([_convert_to_day(value) for value in values], kind)
        if pa.types.is_floating(kind):
            return pa.array([None if value is None else float(value) for value in values], kind)
        return pa.array(values, kind)


_MIDNIGHT = datetime.time()


def format_as_csv(value: object) -> str:
    """A value as it is written in a CSV file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _convert_to_day(value: datetime.date | None) -> datetime.date | None:
    return value.date() if isinstance(value, datetime.datetime) else value
