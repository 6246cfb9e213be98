"""Whose row is whose: how many rows a person may have, and which are published where there are more.

Every further row of a person multiplies the odds again. So either a person has one row, or the bound of a person is
shared out among as many rows as a person may have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from sfumato.errors import SchemaError

MOST_ROWS = 1000
"""Beyond this a bound leaves nothing for a single row, and a table is not one of persons."""


class Surplus(StrEnum):
    """What is done with persons who have more rows than they may."""

    REFUSE = "refuse"
    DROP = "drop"


class RowChoice(StrEnum):
    """Which row of each person is published, where it is one."""

    FIRST = "first"
    LAST = "last"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class OneRow:
    """One row of each person: the first or the last by a column, or a random one."""

    which: RowChoice
    column: str | None = None

    def __post_init__(self) -> None:
        if (self.column is None) != (self.which is RowChoice.RANDOM):
            raise SchemaError("one row of each person is chosen by first:COL, last:COL or random.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `first:COL`, `last:COL` or `random`."""
        word, _, column = text.partition(":")
        if word not in list(RowChoice):
            raise SchemaError(
                f"{text!r} does not say which row of each person to publish: first:COL, last:COL, random."
            )
        return cls(RowChoice(word), column or None)

    def __str__(self) -> str:
        return self.which if self.column is None else f"{self.which}:{self.column}"


@dataclass(frozen=True, slots=True)
class PersonRows:
    """How many rows a person may have, and what is done where there are more."""

    most: int = 1
    surplus: Surplus = Surplus.REFUSE
    one_row: OneRow | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MOST_ROWS:
            raise SchemaError(
                f"a person has {self.most} rows at most, and this must be a number from 1 to {MOST_ROWS}."
            )
        if self.one_row is not None and (self.most > 1 or self.surplus is Surplus.DROP):
            raise SchemaError(
                "--one-row leaves one row of each person, so there is nothing for --rows-per-person or --surplus to "
                "decide; give one or the other."
            )

    @property
    def is_plain(self) -> bool:
        """Whether nothing was said: one row, and a second one is a mistake."""
        return self == ONE_EACH

    @property
    def chooses(self) -> bool:
        """Whether rows may be left out."""
        return self.one_row is not None or self.surplus is Surplus.DROP

    def to_json(self) -> dict[str, Any]:
        """For a plan file."""
        return {"most": self.most, "surplus": self.surplus.value, "one_row": self.one_row and str(self.one_row)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read it back from a plan file."""
        one_row = written["one_row"]
        chosen = None if one_row is None else OneRow.parse(str(one_row))
        return cls(int(written["most"]), Surplus(written["surplus"]), chosen)


ONE_EACH = PersonRows()
"""Where nothing was said."""


@dataclass(frozen=True, slots=True)
class Persons:
    """How it was made sure that a person has no more rows than the promise counts: published.

    The column that tells persons apart is not named: it is not published.
    """

    most: int = 1
    surplus: Surplus = Surplus.REFUSE
    one_row: str | None = None
    """Which row of each person is published, if it is one; with the column that decides if that is published too."""
    left_out: int = 0
    """How many rows were not published, because their persons have others."""

    @classmethod
    def of(cls, rows: PersonRows, left_out: int, published: Collection[str]) -> Self:
        """What is said of persons in a release of some columns."""
        chosen = rows.one_row
        named = None if chosen is None else str(chosen) if chosen.column in published else chosen.which.value
        return cls(rows.most, rows.surplus, named, left_out)

    @property
    def chooses(self) -> bool:
        """Whether rows may have been left out."""
        return self.one_row is not None or self.surplus is Surplus.DROP

    @property
    def sentence(self) -> str:
        """In plain words."""
        most = "one row" if self.most == 1 else f"at most {self.most} rows"
        person_note = "a column that is not published tells persons apart"
        if self.one_row is not None:
            which, _, column = self.one_row.partition(":")
            chosen = "a random one" if which == RowChoice.RANDOM else f"the {which}"
            chosen += f" by {column!r}" if column else ""
            return (
                f"One row of each person is published, {chosen}, and {self.left_out:,} others are not; {person_note}."
            )
        if self.surplus is Surplus.DROP:
            return (
                f"Each person has {most} here; of persons with more, that many were chosen at random, and "
                f"{self.left_out:,} rows are not published; {person_note}."
            )
        return f"It was checked that each person has {most}; {person_note}."

    def to_json(self) -> dict[str, Any]:
        """As a manifest has it."""
        written = {"most": self.most, "surplus": self.surplus.value, "one_row": self.one_row}
        return {**written, "left_out": self.left_out}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read it back from a manifest."""
        one_row = None if written["one_row"] is None else str(written["one_row"])
        if one_row is not None:
            RowChoice(one_row.partition(":")[0])
        return cls(int(written["most"]), Surplus(written["surplus"]), one_row, int(written["left_out"]))


UNCHECKED = (
    "Nothing says that it was checked whose row is whose: if a person has several rows, each of them tells about that "
    "person, and the promise holds for each row alone."
)
"""Where no column told the persons apart."""
