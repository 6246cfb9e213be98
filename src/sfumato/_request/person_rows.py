"""Whose row is whose: how many rows a person may have, and which are published where there are more.

Every further row of a person multiplies the odds again. So either a person has one row, or the bound of a person is
shared out among as many rows as a person may have.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from sfumato._core.json_types import Json, JsonView
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

    choice: RowChoice
    column: str | None = None

    def __post_init__(self) -> None:
        if (self.column is None) != (self.choice is RowChoice.RANDOM):
            raise SchemaError("one row of each person is chosen by first:COL, last:COL or random.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `first:COL`, `last:COL` or `random`."""
        choice, _, column = text.partition(":")
        if choice not in list(RowChoice):
            raise SchemaError(
                f"{text!r} does not say which row of each person to publish: first:COL, last:COL, random."
            )
        return cls(RowChoice(choice), column or None)

    def __str__(self) -> str:
        return self.choice if self.column is None else f"{self.choice}:{self.column}"


@dataclass(frozen=True, slots=True)
class PersonRows:
    """How many rows a person may have, and what is done where there are more."""

    max_rows: int = 1
    surplus: Surplus = Surplus.REFUSE
    one_row: OneRow | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.max_rows <= MOST_ROWS:
            raise SchemaError(
                f"a person has {self.max_rows} rows at most, and this must be a number from 1 to {MOST_ROWS}."
            )
        if self.one_row is not None and (self.max_rows > 1 or self.surplus is Surplus.DROP):
            raise SchemaError(
                "`one_row=` leaves one row of each person, so there is nothing for `rows_per_person=` or `surplus=` to "
                "decide; give one or the other."
            )

    @property
    def is_default(self) -> bool:
        """Whether nothing was said: one row, and a second one is a mistake."""
        return self == ONE_ROW_EACH

    @property
    def is_selective(self) -> bool:
        """Whether rows may be left out."""
        return self.one_row is not None or self.surplus is Surplus.DROP

    def to_json(self) -> Json:
        """For a plan file."""
        return {"most": self.max_rows, "surplus": self.surplus.value, "one_row": self.one_row and str(self.one_row)}

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Read it back from a plan file."""
        one_row = entries["one_row"]
        row_choice = None if one_row is None else OneRow.parse(str(one_row))
        return cls(int(entries["most"]), Surplus(entries["surplus"]), row_choice)


ONE_ROW_EACH = PersonRows()
"""Where nothing was said."""


@dataclass(frozen=True, slots=True)
class PersonCheck:
    """How it was made sure that a person has no more rows than the promise counts: published.

    The column that tells persons apart is not named: it is not published.
    """

    max_rows: int = 1
    surplus: Surplus = Surplus.REFUSE
    one_row: str | None = None
    """Which row of each person is published, if it is one; with the column that decides if that is published too."""
    dropped_rows: int = 0
    """How many rows were not published, because their persons have others."""

    @classmethod
    def of(cls, rows: PersonRows, dropped_rows: int, published_columns: Collection[str]) -> Self:
        """What is said of persons in a release of some columns."""
        one_row = rows.one_row
        row_name = (
            None if one_row is None else str(one_row) if one_row.column in published_columns else one_row.choice.value
        )
        return cls(rows.max_rows, rows.surplus, row_name, dropped_rows)

    @property
    def is_selective(self) -> bool:
        """Whether rows may have been left out."""
        return self.one_row is not None or self.surplus is Surplus.DROP

    @property
    def sentence(self) -> str:
        """In plain words."""
        rows_text = "one row" if self.max_rows == 1 else f"at most {self.max_rows} rows"
        person_note = "a column that is not published tells persons apart"
        if self.one_row is not None:
            which, _, column = self.one_row.partition(":")
            choice_text = "a random one" if which == RowChoice.RANDOM else f"the {which}"
            choice_text += f" by {column!r}" if column else ""
            return (
                f"One row of each person is published, {choice_text}, and {self.dropped_rows:,} others are not; "
                f"{person_note}."
            )
        if self.surplus is Surplus.DROP:
            return (
                f"Each person has {rows_text} here; of persons with more, that many were chosen at random, and "
                f"{self.dropped_rows:,} rows are not published; {person_note}."
            )
        return f"It was checked that each person has {rows_text}; {person_note}."

    def to_json(self) -> Json:
        """As a manifest has it."""
        entries = {"most": self.max_rows, "surplus": self.surplus.value, "one_row": self.one_row}
        return {**entries, "left_out": self.dropped_rows}

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Read it back from a manifest."""
        one_row = None if entries["one_row"] is None else str(entries["one_row"])
        if one_row is not None:
            RowChoice(one_row.partition(":")[0])
        return cls(int(entries["most"]), Surplus(entries["surplus"]), one_row, int(entries["left_out"]))


UNCHECKED_SENTENCE = (
    "Nothing says that it was checked whose row is whose: if a person has several rows, each of them tells about that "
    "person, and the promise holds for each row alone."
)
"""Where no column told the persons apart."""
