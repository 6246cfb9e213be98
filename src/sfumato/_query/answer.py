"""The answer to a question, with rows of groups and estimates, for other tools and for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sfumato._core.cell_values import Value, format_value_count
from sfumato._document.document import Document
from sfumato._document.notebook_document import render_notebook
from sfumato._figures.figure import WIDTH, Figure
from sfumato._figures.forest_plot import draw_forest_plot, list_answer_rows
from sfumato._query.answer_document import MOST_ROWS, make_answer_document
from sfumato._query.estimate import Estimate, Tabular
from sfumato._query.intervals import DEFAULT_LEVEL, check_level
from sfumato._query.parser.sensitive_queries import list_number_columns, name_note_column
from sfumato._request.person_rows import Population
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import QueryError


@dataclass(frozen=True, repr=False)
class Answer(Tabular):
    """The rows of an answer. Each column has values of a group or Estimates."""

    names: tuple[str, ...]
    numbers: tuple[str, ...]
    """The columns that hold estimates."""
    rows: tuple[Mapping[str, Any], ...]
    method: str
    assumption: str
    note: str | None = None
    estimate_count: int = 0
    """The number of estimates before rows were filtered or limited."""
    is_simultaneous: bool = False
    """Whether all intervals hold simultaneously at their level."""
    adjusted_columns: Mapping[str, str] = field(default_factory=dict)
    """For each number with a consistent or calibrated version, the column with this version."""
    adjustment: str | None = None
    """For each number with a consistent or calibrated version, the column of this version."""
    counted_unit: str = "rows"
    """The unit of counts: people, or rows if a person may have several rows."""
    population: Population | None = None
    """The people or rows that the numbers describe; None for an answer about the release itself."""
    absence_note: str | None = None
    """A sentence about queried values that do not exist, or about an empty selection. `note` includes this sentence."""

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} ±" if name in self.numbers else name for name in self.names)
        return escape_unprintable(f"Answer({format_value_count(self.rows, 'row')} of {columns})")

    def _repr_html_(self) -> str:
        """Renders the answer for a notebook."""
        return render_notebook(self.document(max_rows=MOST_ROWS))

    def document(self, level: float = DEFAULT_LEVEL, max_rows: int | None = None) -> Document:
        """Makes the document of the answer, with its first rows or all rows."""
        return make_answer_document(self, level, max_rows)

    def plot(self, number: str | None = None, level: float = DEFAULT_LEVEL, width: float = WIDTH) -> Figure:
        """Draws a point and an interval for each row of a number. Without a name, it draws the first numeric column."""
        name = next(iter(self.numbers), None) if number is None else number
        if name not in self.numbers:
            raise QueryError(
                f"{str(name)!r} is not a number of the answer; its numbers are {', '.join(self.numbers) or 'none'}.",
                code="unknown-number",
                fields={"name": str(name)},
            )
        names = tuple(column for column in self.names if column == name or column not in self.numbers)
        answer_rows = list_answer_rows(replace(self, names=names, numbers=(name,)), level)
        source = None if self.population is None else self.population.source
        return draw_forest_plot(answer_rows, width, level=level, is_simultaneous=self.is_simultaneous, source=source)

    def correct_level(self, level: float) -> float:
        """The level that each interval needs so that all intervals hold simultaneously at `level`, by Bonferroni."""
        check_level(level)
        return 1 - (1 - level) / max(self.estimate_count, 1) if self.is_simultaneous else level

    def to_table(self, level: float = DEFAULT_LEVEL) -> tuple[list[str], list[dict[str, Value]]]:
        """Column names and rows with `n`, `n_se`, `n_low` and `n_high`. Numbers with notes also have `n_note`.

        An adjusted number (`n_consistent` or `n_calibrated`) comes before the note.
        """
        interval_level = self.correct_level(level)
        number_rows = {name: [row[name].to_row(interval_level) for row in self.rows] for name in self.numbers}
        columns: list[str] = []
        for name in self.names:
            columns += self.list_columns(name) if name in number_rows else [name]
            if name in number_rows and any(cells[-1] for cells in number_rows[name]):
                columns.append(name_note_column(name))
        return columns, [self._make_row(number, columns, number_rows) for number in range(len(self.rows))]

    def list_columns(self, number: str) -> list[str]:
        """The columns of one number: its value, its error, its interval and its adjusted version."""
        return [
            *list_number_columns(number),
            *([self.adjusted_columns[number]] if number in self.adjusted_columns else []),
        ]

    def get_note_column(self, number: str) -> str:
        """The column that holds the notes on a number."""
        return name_note_column(number)

    def _make_row(
        self, number: int, columns: list[str], number_rows: Mapping[str, list[tuple[Value, ...]]]
    ) -> dict[str, Value]:
        cells: dict[str, Value] = dict(self.rows[number])
        for name, lines in number_rows.items():
            cells.update(zip([*list_number_columns(name), name_note_column(name)], lines[number], strict=True))
        return {name: cells[name] for name in columns}

    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """Converts the answer to an Arrow table."""
        columns, rows = self.to_table(level)
        numbers = {name for number in self.numbers for name in self.list_columns(number)}
        return pa.table(
            {name: pa.array([row[name] for row in rows], pa.float64() if name in numbers else None) for name in columns}
        )

    def get_estimate(self) -> Estimate:
        """The single estimate of an answer with one row and one number."""
        ((name,), (row,)) = self.numbers, self.rows
        estimate: Estimate = row[name]
        return replace(estimate.add_note(self.absence_note), population=self.population)

    def add_absence_note(self, sentence: str | None) -> Answer:
        """Adds a note about queried values that do not exist."""
        if sentence is None:
            return self
        return replace(self, note=" ".join(filter(None, [sentence, self.note])), absence_note=sentence)
