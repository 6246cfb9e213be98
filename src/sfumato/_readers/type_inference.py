"""Infers the spelling of numbers, dates and times in strings, and converts the strings.

Strings are converted only if all strings of the column have the same spelling and no information is lost. In
`31.12.2024` the day always comes first. In `12/31/2024` and `12-31-2024`, a number above twelve must be the day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

OVERSIZED = pa.decimal256(76, 0)
"""The type of whole numbers beyond 64 bits.

Such numbers are allowed in dropped columns, and refused in published columns.
"""
TIME = pa.timestamp("us")
MOMENT = pa.timestamp("us", "UTC")

INTEGER = r"^(0|-?[1-9][0-9]*)$"
NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
LOOSE_CLOCK = CLOCK.replace("[0-9]{2}:", "[0-9]{1,2}:", 1)
THOUSANDS_MARKS = ((",", r"\."), (r"\.", ","), ("['\u2019]", r"\."), ("[ \u00a0\u2009\u202f]", "[.,]"))
"""Separators of thousands, each with the decimal marks that may go with it."""
OFFSET = r"(Z|[-+][0-9]{2}:?[0-9]{2})"


@dataclass(frozen=True)
class Spelling:
    """A type with the spelling of its values."""

    kind: pa.DataType
    pattern: str
    replacements: tuple[tuple[str, str], ...] = ()
    """Patterns and their replacements, which turn the strings into strings that Arrow reads."""
    day_order: str = ""
    """For ambiguous dates, the part that comes first (day or month)."""

    def fits(self, texts: pa.Array) -> bool:
        """Whether all strings have this spelling and are values of the type."""
        return self._can_read(texts[:1]) and self._can_read(texts)

    def _can_read(self, texts: pa.Array) -> bool:
        if not pc.all(pc.match_substring_regex(texts, self.pattern)).as_py():
            return False
        try:
            self.read(texts)
        except pa.ArrowInvalid:
            return False
        return True

    def read(self, texts: pa.Array) -> pa.Array:
        """Converts strings to values. A string that is not a value raises an error of Arrow."""
        for pattern, replacement in self.replacements:
            texts = pc.replace_substring_regex(texts, pattern, replacement)
        return texts.cast(self.kind)


def make_number_spelling(decimal: str = ".") -> Spelling:
    """The spelling of numbers with a decimal mark. If the mark is a comma, points are not allowed."""
    mark = re.escape(decimal)
    steps = () if decimal == "." else ((mark, "."),)
    return Spelling(pa.float64(), NUMBER.replace(r"\.", mark), steps)


def _add_clock(day: str, steps: tuple[tuple[str, str], ...], order: str) -> tuple[Spelling, Spelling]:
    hours = (r"[ T]([0-9]):", r" 0\1:")
    return (
        Spelling(pa.date32(), f"{day}$", steps, order),
        Spelling(TIME, f"{day}{LOOSE_CLOCK}$", (*steps, hours), order),
    )


def _make_local_dates(marks: str, order: str) -> tuple[Spelling, Spelling]:
    """Spellings of dates that end with the year, and have days and months of one or two digits."""
    padding_steps = ((r"^([0-9])([./-])", r"0\1\2"), (r"^([0-9]{2}[./-])([0-9][./-])", r"\10\2"))
    iso_order = r"\3-\2-\1" if order == "day" else r"\3-\1-\2"
    day = "|".join(f"[0-9]{{1,2}}{re.escape(mark)}[0-9]{{1,2}}{re.escape(mark)}[0-9]{{4}}" for mark in marks)
    return _add_clock(f"^({day})", (*padding_steps, (r"^(..).(..).(....)", iso_order)), "" if marks == "." else order)


ISO_DAY = Spelling(pa.date32(), f"{DAY}$")
ISO_TIMES = (Spelling(TIME, f"{DAY}{CLOCK}$"), Spelling(MOMENT, f"{DAY}{CLOCK}{OFFSET}$"))
DATES = (
    ISO_DAY,
    *ISO_TIMES,
    *_make_local_dates(".", "day"),
    *_make_local_dates("/-", "day"),
    *_make_local_dates("/-", "month"),
)
"""All supported spellings of dates and times."""


def list_number_spellings(decimal: str = ".") -> tuple[Spelling, ...]:
    """All spellings of numbers, the most restrictive first."""
    return Spelling(pa.int64(), INTEGER), Spelling(OVERSIZED, INTEGER), make_number_spelling(decimal)


class SpellingGuess:
    """The spellings that fit all values of a column so far, the most restrictive first."""

    def __init__(self, spellings: Iterable[Spelling]) -> None:
        self.has_texts = False
        self.spellings = list(spellings)

    def add(self, texts: pa.Array) -> None:
        """Narrow the guess with further strings, none of them missing."""
        if len(texts):
            self.has_texts = True
            self.spellings = [spelling for spelling in self.spellings if spelling.fits(texts)]

    @classmethod
    def of(cls, texts: pa.Array, spellings: Iterable[Spelling]) -> SpellingGuess:
        """Guesses the spelling from the strings of a column."""
        guess = cls(spellings)
        guess.add(texts)
        return guess

    @property
    def spelling(self) -> Spelling | None:
        """The most restrictive spelling that all values have. None if day and month could be swapped."""
        if not self.has_texts or not self.spellings:
            return None
        is_ambiguous = len({spelling.day_order for spelling in self.spellings}) > 1
        return None if is_ambiguous else self.spellings[0]


def has_decimal_commas(texts: pa.Array) -> bool:
    """Whether strings are numbers only if a comma is the decimal mark, and not a separator of thousands."""
    texts = texts.drop_null()
    if not len(texts) or not pc.any(pc.match_substring(texts, ",")).as_py():
        return False
    return make_number_spelling(",").fits(texts) and not has_thousands_separators(texts)


def has_thousands_separators(texts: pa.Array) -> bool:
    """Whether strings are numbers such as 1,234 or 1.234,5, some of them with a separator of thousands."""
    texts = texts.drop_null()
    return any(_has_separator(texts, mark, decimal) for mark, decimal in THOUSANDS_MARKS)


def _has_separator(texts: pa.Array, mark: str, decimal: str) -> bool:
    """Whether all strings are numbers, and some of them have this separator of thousands."""
    fraction = rf"({decimal}[0-9]+)?$"
    grouped = rf"^-?[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+{fraction}"
    either = rf"{grouped}|^-?[0-9]{{1,3}}{fraction}"
    if not len(texts) or not pc.all(pc.match_substring_regex(texts[:1], either)).as_py():
        return False
    are_numbers = pc.all(pc.match_substring_regex(texts, either)).as_py()
    return bool(are_numbers and pc.any(pc.match_substring_regex(texts, grouped)).as_py())
