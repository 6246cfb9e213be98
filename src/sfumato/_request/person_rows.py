"""Rules for the rows of a person: how many may be published, and which ones if a person has more.

Every further row of a person multiplies the odds again. So either a person has one row, or the bound of a person is
shared among as many rows as a person may have.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from sfumato._core.json_types import Json, JsonView
from sfumato.errors import SchemaError

MOST_ROWS = 1000
"""The largest number of rows per person.

With more rows, the share of the bound for one row is too small to publish anything.
"""


class Surplus(StrEnum):
    """The action for persons with more rows than allowed."""

    REFUSE = "refuse"
    DROP = "drop"


class PersonBasis(StrEnum):
    """The reason to believe that no person has more rows than the guarantee allows."""

    COLUMN = "column"
    """The rows of each person were counted by the person column."""
    ROW_NUMBERS = "row-numbers"
    """The person column numbers the rows, so counting the rows of each person shows nothing."""
    STATED = "stated"
    """The data steward states that each row is a different person."""


class RowChoice(StrEnum):
    """The row that is published, if only one row of each person is published."""

    FIRST = "first"
    LAST = "last"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class OneRow:
    """Chooses one row of each person: the first or the last row by a column, or a random row."""

    choice: RowChoice
    column: str | None = None

    def __post_init__(self) -> None:
        if (self.column is None) != (self.choice is RowChoice.RANDOM):
            raise SchemaError(
                "one row of each person is chosen by first:COL, last:COL or random.", code="unknown-row-choice"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `first:COL`, `last:COL` or `random`."""
        choice, _, column = text.partition(":")
        if choice not in list(RowChoice):
            raise SchemaError(
                f"{text!r} does not choose a row of each person; write first:COL, last:COL or random.",
                code="unknown-row-choice",
                fields={"given": text},
            )
        return cls(RowChoice(choice), column or None)

    def __str__(self) -> str:
        return self.choice if self.column is None else f"{self.choice}:{self.column}"


@dataclass(frozen=True, slots=True)
class PersonRows:
    """The largest number of rows that a person may have, and the action if a person has more."""

    max_rows: int = 1
    surplus: Surplus = Surplus.REFUSE
    one_row: OneRow | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.max_rows <= MOST_ROWS:
            raise SchemaError(
                f"the number of rows per person is {self.max_rows}; choose a number from 1 to {MOST_ROWS}.",
                code="rows-out-of-range",
                fields={"given": self.max_rows, "largest": MOST_ROWS},
            )
        if self.one_row is not None and (self.max_rows > 1 or self.surplus is Surplus.DROP):
            raise SchemaError(
                "`one_row=` leaves one row of each person, so `rows_per_person=` and `surplus=` have no effect; give "
                "only one of these.",
                code="one-row-with-several",
            )

    @property
    def is_default(self) -> bool:
        """Whether these are the default rules, under which a person with two rows is refused."""
        return self == ONE_ROW_EACH

    @property
    def is_selective(self) -> bool:
        """Whether rows may be left out."""
        return self.one_row is not None or self.surplus is Surplus.DROP

    def to_json(self) -> Json:
        """Writes the rules for a plan file."""
        return {"most": self.max_rows, "surplus": self.surplus.value, "one_row": self.one_row and str(self.one_row)}

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Reads the rules from a plan file."""
        one_row = entries["one_row"]
        row_choice = None if one_row is None else OneRow.parse(str(one_row))
        return cls(int(entries["most"]), Surplus(entries["surplus"]), row_choice)


ONE_ROW_EACH = PersonRows()
"""The default rules, under which each person has one row."""


@dataclass(frozen=True, slots=True)
class PersonCheck:
    """Records how the rows of persons were checked; this record is published.

    The record does not name the person column, because that column is not published.
    """

    max_rows: int = 1
    surplus: Surplus = Surplus.REFUSE
    one_row: str | None = None
    """The rule for the published row of each person, if only one is published.

    The rule names the deciding column if that is published.
    """
    dropped_rows: int = 0
    """The number of rows that were not published, because other rows of the same persons were."""
    basis: PersonBasis = PersonBasis.COLUMN

    @classmethod
    def of(
        cls,
        rows: PersonRows,
        dropped_rows: int,
        published_columns: Collection[str],
        basis: PersonBasis = PersonBasis.COLUMN,
    ) -> Self:
        """The record of the checks for a release with these columns."""
        one_row = rows.one_row
        row_name = (
            None if one_row is None else str(one_row) if one_row.column in published_columns else one_row.choice.value
        )
        return cls(rows.max_rows, rows.surplus, row_name, dropped_rows, basis)

    @property
    def is_selective(self) -> bool:
        """Whether rows may have been left out."""
        return self.one_row is not None or self.surplus is Surplus.DROP

    @property
    def has_one_row_each(self) -> bool:
        """Whether each person has one row, by a check or by the statement of the data steward."""
        return self.max_rows == 1 and self.basis is not PersonBasis.ROW_NUMBERS

    @property
    def sentence(self) -> str:
        """The check in plain words."""
        if self.basis is PersonBasis.STATED:
            return STATED_SENTENCE
        if self.basis is PersonBasis.ROW_NUMBERS:
            return ROW_NUMBERS_SENTENCE
        rows_text = "one row" if self.max_rows == 1 else f"at most {self.max_rows} rows"
        person_note = "checked with a column that is not published"
        if self.one_row is not None:
            which, _, column = self.one_row.partition(":")
            choice_text = "a random one" if which == RowChoice.RANDOM else f"the {which} one"
            choice_text += f" by {column!r}" if column else ""
            return (
                f"One row of each person is published, {choice_text} ({person_note}). The other "
                f"{self.dropped_rows:,} rows are not published."
            )
        if self.surplus is Surplus.DROP:
            return (
                f"Each person has {rows_text} here ({person_note}). If a person had more, the published rows were "
                f"chosen at random; {self.dropped_rows:,} rows are not published."
            )
        return f"Each person has {rows_text.replace('one', 'exactly one')} ({person_note})."

    def to_json(self) -> Json:
        """Writes the check as a manifest has it."""
        entries = {"most": self.max_rows, "surplus": self.surplus.value, "one_row": self.one_row}
        basis = {} if self.basis is PersonBasis.COLUMN else {"basis": self.basis.value}
        return {**entries, "left_out": self.dropped_rows, **basis}

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Reads the check from a manifest."""
        one_row = None if entries["one_row"] is None else str(entries["one_row"])
        if one_row is not None:
            RowChoice(one_row.partition(":")[0])
        basis = PersonBasis(entries.get("basis", PersonBasis.COLUMN))
        return cls(int(entries["most"]), Surplus(entries["surplus"]), one_row, int(entries["left_out"]), basis)


STATED_SENTENCE = "The publisher states that each row is a different person; sfumato did not check this."
"""The sentence for a table in which each row is a different person, as the data steward states."""

ROW_NUMBERS_SENTENCE = (
    "The person column numbers the rows, so it does not show whether people are repeated, and the guarantee is per "
    "row. If a person has several rows, each of them discloses something about that person."
)
"""The sentence for a person column that numbers the rows."""


@dataclass(frozen=True, slots=True)
class Population:
    """The people or rows that the numbers of a release describe. Its text says which people or rows these are."""

    unit: str
    """`people`, or `rows` if a person may have several rows or persons were not checked."""
    selection: str = ""
    """The rule by which the rows of a person were chosen, if rows were dropped."""
    dropped_rows: int = 0
    """The number of rows that were dropped by this rule."""
    missing_column: str | None = None
    """The protected column, if records without its value were dropped."""

    @classmethod
    def of(cls, check: PersonCheck | None, missing_column: str | None = None) -> Self:
        """The population of a release, from the record of its person check; None if persons were not checked."""
        unit = "people" if check is not None and check.has_one_row_each else "rows"
        if check is None or check.dropped_rows == 0:
            return cls(unit, missing_column=missing_column)
        return cls(unit, _describe_selection(check), check.dropped_rows, missing_column)

    @property
    def is_original(self) -> bool:
        """Whether the release describes all rows of the original table."""
        return not self.selection and self.missing_column is None

    @property
    def source(self) -> str:
        """The table that holds the true numbers: the original table, or some of its rows."""
        return "the original table" if self.is_original else "the chosen rows of the original table"

    @property
    def remark(self) -> str:
        """The note about the population below an answer.

        The note is empty for the original table, because the legend names that table.
        """
        if self.is_original:
            return "counts are of rows, and a person may have several rows" if self.unit == "rows" else ""
        dropped = f"; {self.dropped_rows:,} other rows are not published" if self.dropped_rows else ""
        return f"the numbers are about {self}{dropped}"

    @property
    def sentence(self) -> str:
        """The population in sentences."""
        sentences = [f"All numbers are about the {self.unit} in the original table, not about a larger population."]
        if self.selection:
            subject = "Each person is represented" if self.unit == "people" else "The published rows are"
            sentences.append(f"{subject} {self.selection}.")
        if self.missing_column is not None:
            sentences.append(f"Records without a value of {self.missing_column!r} are not included.")
        if self.dropped_rows:
            sentences.append(f"{self.dropped_rows:,} other rows of the original table are not published.")
        return " ".join(sentences)

    def __str__(self) -> str:
        rows = f"{self.unit}, {self.selection}" if self.selection else f"{self.unit} of the original table"
        return rows if self.missing_column is None else f"{rows}, without records that lack a {self.missing_column!r}"


def _describe_selection(check: PersonCheck) -> str:
    """Describes the published rows of a person who had more rows."""
    if check.max_rows > 1:
        return f"at most {check.max_rows} of each person, chosen at random"
    choice, _, column = (check.one_row or RowChoice.RANDOM).partition(":")
    if choice == RowChoice.RANDOM:
        return "by one random row each"
    return f"by their {choice} row" + (f" by {column!r}" if column else "")


UNCHECKED_SENTENCE = (
    "No person column was given, so repeated people were not checked for, and the guarantee is per row. If a person "
    "has several rows, each of them discloses something about that person."
)
"""The sentence for a table without a person column."""
