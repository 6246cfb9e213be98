"""How texts spell numbers, dates and times, and what they are read as.

A text is read only if all of its column are spelled alike and nothing is lost. `31.12.2024` has its day first wherever
it is written; of `12/31/2024` and `12-31-2024` the day tells which it is, once it is beyond the twelfth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

OVERSIZED = pa.decimal256(76, 0)
"""Whole numbers beyond 64 bits: harmless in a column that is not published, refused in one that is."""
TIME = pa.timestamp("us")
MOMENT = pa.timestamp("us", "UTC")

INTEGER = r"^(0|-?[1-9][0-9]*)$"
NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
LOOSE_CLOCK = CLOCK.replace("[0-9]{2}:", "[0-9]{1,2}:", 1)
OFFSET = r"(Z|[-+][0-9]{2}:?[0-9]{2})"


@dataclass(frozen=True)
class Spelling:
    """A type, and how texts spell its values."""

    kind: pa.DataType
    pattern: str
    replacements: tuple[tuple[str, str], ...] = ()
    """Patterns, and what is put in their place: after them the text is one that Arrow reads."""
    day_order: str = ""
    """For dates that could be meant otherwise: which of day and month comes first."""

    def fits(self, texts: pa.Array) -> bool:
        """Whether all texts are spelled so, and are values of the type."""
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
        """Texts as values; what is none raises an error of Arrow."""
        for pattern, replacement in self.replacements:
            texts = pc.replace_substring_regex(texts, pattern, replacement)
        return texts.cast(self.kind)


def make_number_spelling(decimal: str = ".") -> Spelling:
    """Numbers with a decimal mark; with a comma, a point is part of no number."""
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
    """Dates with the year last, days and months of one digit or two."""
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
"""All spellings of dates and times that a table may have."""


def list_number_spellings(decimal: str = ".") -> tuple[Spelling, ...]:
    """All spellings of numbers, the narrowest first."""
    return Spelling(pa.int64(), INTEGER), Spelling(OVERSIZED, INTEGER), make_number_spelling(decimal)


class SpellingGuess:
    """The spellings that the values of a column still allow, the narrowest first."""

    def __init__(self, spellings: Iterable[Spelling]) -> None:
        self.has_texts = False
        self.spellings = list(spellings)

    def add(self, texts: pa.Array) -> None:
        """Narrow the guess by further texts, of which none is missing."""
        if len(texts):
            self.has_texts = True
            self.spellings = [spelling for spelling in self.spellings if spelling.fits(texts)]

    @property
    def spelling(self) -> Spelling | None:
        """The narrowest spelling that all values had; none where it may be the day or the month that comes first."""
        if not self.has_texts or not self.spellings:
            return None
        is_ambiguous = len({spelling.day_order for spelling in self.spellings}) > 1
        return None if is_ambiguous else self.spellings[0]


def has_decimal_commas(texts: pa.Array) -> bool:
    """Whether texts read as numbers if a comma is taken for the decimal mark, and not all of them without it."""
    texts = texts.drop_null()
    return bool(len(texts)) and pc.any(pc.match_substring(texts, ",")).as_py() and make_number_spelling(",").fits(texts)
