"""An answer: rows of groups and estimates, as a table for any tool, and to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sfumato._core.cell_values import format_value_count
from sfumato._figures.answer_intervals import draw_forest_plot, list_answer_rows
from sfumato._figures.figure import WIDTH, Figure
from sfumato._query.arrow_answers import Tabular
from sfumato._query.estimate import Estimate
from sfumato._query.intervals import DEFAULT_LEVEL, check_level
from sfumato._query.notebook_html import render_answer
from sfumato._query.parser.sensitive_queries import note_column, number_columns
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import QueryError


@dataclass(frozen=True, repr=False)
class Answer(Tabular):
    """The rows of an answer: for each column a value of the groups, or an Estimate."""

    names: tuple[str, ...]
    numbers: tuple[str, ...]
    """The columns that hold estimates."""
    rows: tuple[Mapping[str, Any], ...]
    method: str
    assumption: str
    note: str | None = None
    estimated: int = 0
    """How many numbers were estimated, before rows were chosen among."""
    is_simultaneous: bool = False
    """Whether the intervals shall hold together."""
    adjusted: Mapping[str, str] = field(default_factory=dict)
    """For each number that was also made consistent or calibrated, the column of the rows that holds the other one."""
    adjustment: str | None = None
    """How that was done."""
    counted: str = "rows"
    """What a count counts: people, or rows where a person may have several."""
    lacking: str | None = None
    """Which values were named and are not there, or that no record was meant; the note says it too."""

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} ±" if name in self.numbers else name for name in self.names)
        return escape_unprintable(f"Answer({format_value_count(self.rows, 'row')} of {columns})")

    def _repr_html_(self) -> str:
        """For a notebook."""
        return render_answer(self)

    def plot(self, number: str | None = None, level: float = DEFAULT_LEVEL, width: float = WIDTH) -> Figure:
        """A dot and an interval for each row, of one of the numbers: the first, unless one is named."""
        name = next(iter(self.numbers), None) if number is None else number
        if name not in self.numbers:
            raise QueryError(f"{str(name)!r} is no number of the answer; it has {', '.join(self.numbers) or 'none'}.")
        names = tuple(column for column in self.names if column == name or column not in self.numbers)
        shown = list_answer_rows(replace(self, names=names, numbers=(name,)), level)
        return draw_forest_plot(shown, width, level=level, is_simultaneous=self.is_simultaneous)

    def level_of_each(self, level: float) -> float:
        """The level of each interval so that all hold together at a level: Bonferroni's, however they depend."""
        check_level(level)
        return 1 - (1 - level) / max(self.estimated, 1) if self.is_simultaneous else level

    def table(self, level: float = DEFAULT_LEVEL) -> tuple[list[str], list[dict[str, Any]]]:
        """Column names and rows with `n`, `n_se`, `n_low` and `n_high`, and `n_note` if there is something to say.

        An adjusted number stands before the note: `n_consistent` or `n_calibrated`.
        """
        own = self.level_of_each(level)
        filled = {name: [row[name].filled(own) for row in self.rows] for name in self.numbers}
        columns: list[str] = []
        for name in self.names:
            columns += self.columns_of(name) if name in filled else [name]
            if name in filled and any(cells[-1] for cells in filled[name]):
                columns.append(note_column(name))
        return columns, [self._row(number, columns, filled) for number in range(len(self.rows))]

    def columns_of(self, number: str) -> list[str]:
        """The columns that hold numbers, for one of them: itself, its error and interval, and its adjusted one."""
        return [*number_columns(number), *([self.adjusted[number]] if number in self.adjusted else [])]

    def note_of(self, number: str) -> str:
        """The column that says what to beware of in one of the numbers."""
        return note_column(number)

    def _row(self, number: int, columns: list[str], filled: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, Any]:
        cells: dict[str, Any] = dict(self.rows[number])
        for name, lines in filled.items():
            cells.update(zip([*number_columns(name), note_column(name)], lines[number], strict=True))
        return {name: cells[name] for name in columns}

    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """The table of the answer for Arrow."""
        columns, rows = self.table(level)
        numbers = {name for number in self.numbers for name in self.columns_of(number)}
        return pa.table(
            {name: pa.array([row[name] for row in rows], pa.float64() if name in numbers else None) for name in columns}
        )

    def only(self) -> Estimate:
        """The estimate of an answer that has one row and one number."""
        ((name,), (row,)) = self.numbers, self.rows
        estimate: Estimate = row[name]
        return estimate.beware(self.lacking)

    def with_lacking(self, told: str | None) -> Answer:
        """The answer with what is said of values that were named and are not there."""
        if told is None:
            return self
        return replace(self, note=" ".join(filter(None, [told, self.note])), lacking=told)
