"""Consistent numbers beside the estimates of an answer: its counts as cells, with what they must add up to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sfumato._core.cell_values import Value, display
from sfumato._query.attached_tables import read_attached_table
from sfumato._query.consistency.consistent_tables import CALIBRATED, CONSISTENT, Adjustment, AnswerCells
from sfumato._query.consistency.known_totals import TOTAL, KnownTotals, read_totals
from sfumato._query.estimate import Estimate
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.query_plan.computed_columns import add_columns, is_number
from sfumato._query.query_plan.estimated_rows import EstimateRows, PlanContext
from sfumato._query.query_plan.record_selects import RecordSelect
from sfumato._query.query_plan.select_steps import Ending
from sfumato._readers.reader import AnyTable
from sfumato._records.tally import Key, make_group_key
from sfumato.errors import QueryError

NO_COUNT = "only COUNT(*) is made consistent or calibrated, and the question does not select it; add COUNT(*)."
NOT_ADJUSTED = "only COUNT(*) of a plain SELECT with GROUP BY is made consistent or calibrated; ask for that alone."
ADJUSTED = "adjusted"
"""What we call the column of adjusted counts."""
NOTHING_TO_ADJUST = "every number is exact, so nothing was made consistent or calibrated."


@dataclass(frozen=True)
class _CountedPart:
    """A row of an answer, or what the rows leave out of a public group."""

    key: Key | None
    """Its values in the columns of the answer; None for what is left out, which is in no total of the analyst."""
    estimate: Estimate
    group: Key

    @property
    def certain_count(self) -> float:
        """How many records are in it for certain, where not all of it is known."""
        return 0.0 if self.estimate.is_exact else max(0.0, self.estimate.bounds.low)

    def split(self) -> tuple[_CountedPart, _CountedPart]:
        """What is certain, and the rest of it, which cannot be negative either."""
        certain_part, rest = Estimate.exact(self.certain_count), self.estimate.scale(1.0, -self.certain_count)
        return replace(self, estimate=certain_part), replace(self, estimate=rest)


@dataclass(frozen=True)
class CountAdjuster:
    """How to adjust the counts of an answer, and to which totals of the analyst."""

    adjustment: Adjustment
    totals: tuple[KnownTotals, ...] = ()

    def find_counts(self, block: RecordSelect, ending: Ending) -> dict[str, str]:
        """The names of the numbers to adjust, which are every COUNT(*), with what we call their columns."""
        if block.grouping_sets is not None or any(tree.find(exp.Window) for tree in ending.trees):
            raise QueryError(NOT_ADJUSTED)
        count_columns = {name: tree.name for name, tree in ending.outputs if block.is_count(tree)}
        if not count_columns:
            raise QueryError(NO_COUNT)
        return count_columns

    def add_adjusted(
        self, context: PlanContext, block: RecordSelect, rows: EstimateRows, ending: Ending
    ) -> tuple[EstimateRows, Ending, dict[str, str]]:
        """All rows, before they are chosen among, each with its adjusted count, which becomes one more output.

        With the name of each number that was adjusted, and the name of its adjusted one.
        """
        counts = self.find_counts(block, ending)
        values = {name: tree for name, tree in ending.outputs if not is_number(tree, rows)}
        value_table = add_columns(context, rows, {f"value {name}": tree for name, tree in values.items()}).table
        columns = [value_table.column(f"value {name}").to_pylist() for name in values]
        keys = [make_group_key([column[line] for column in columns]) for line in range(value_table.num_rows)]
        groups, (column, *_) = block.estimator.count_public_groups(), counts.values()
        cells = zip(keys, context.read_column(rows, column), block.cells, strict=True)
        parts = [_CountedPart(key, estimate, cell.public_key) for key, estimate, cell in cells]
        parts += [_CountedPart(None, group.rest, key) for key, group in groups.items() if group.rest is not None]
        names_by_column = {tree.name: name for name, tree in values.items() if is_of_answer(tree)}
        public = [
            names_by_column.get(f"k{position}", group.sql)
            for position, group in enumerate(block.estimator.question.groups)
            if not group.is_sensitive
        ]
        records = {key: group.record_count for key, group in groups.items()}
        numbers = self._compute_numbers(tuple(values), tuple(public), parts, records)[: len(keys)]
        rows = context.append_values(rows, {ADJUSTED: pa.array(numbers, pa.float64())})
        ending = replace(ending, outputs=(*ending.outputs, (ADJUSTED, make_answer_column(ADJUSTED))))
        return rows, ending, {name: self.adjustment.name_column(name) for name in counts}

    def _compute_numbers(
        self,
        columns: tuple[str, ...],
        public: tuple[str, ...],
        parts: Sequence[_CountedPart],
        records: Mapping[Key, float],
    ) -> list[float]:
        """The adjusted count of each part."""
        certain_parts, free = zip(*(part.split() for part in parts), strict=True) if parts else ((), ())
        split = [*free, *(part for part in certain_parts if part.estimate.value)]
        cells = AnswerCells(
            columns,
            [part.key for part in split],
            [part.estimate for part in split],
            public,
            [part.group for part in split],
            records,
        )
        adjusted_numbers = cells.adjust(self.adjustment, self.totals)[: len(parts)].tolist()
        return [number + part.certain_count for number, part in zip(adjusted_numbers, parts, strict=True)]


def make_adjuster(*, consistent: bool, totals: Sequence[AnyTable]) -> CountAdjuster | None:
    """What is asked for: no negative numbers, known totals (files or tables), both or nothing."""
    if isinstance(totals, str | Path):
        raise QueryError("give a list of totals, such as totals=['known.csv'].")
    known_totals = tuple(
        read_totals(Path(total))
        if isinstance(total, str | Path)
        else _read_totals_table(total, f"table {number} of totals")
        for number, total in enumerate(totals, 1)
    )
    if not consistent and not known_totals:
        return None
    return CountAdjuster(CONSISTENT if consistent else CALIBRATED, known_totals)


def _read_totals_table(source: AnyTable, name: str) -> KnownTotals:
    """Known totals from a frame, or another table in memory."""
    table = read_attached_table("totals", source)
    columns = tuple(column for column in table.schema.names if column != TOTAL)
    if len(columns) == table.num_columns:
        raise QueryError(f"{name} must have the column {TOTAL!r}, and columns of the answer.")
    lines: dict[tuple[str, ...], float] = {}
    for row in table.to_pylist():
        key = tuple(_format_value(row[column]) for column in columns)
        if key in lines:
            raise QueryError(f"{name} has two rows with the same values; write one total for them.")
        lines[key] = _parse_total(row, name)
    if not lines:
        raise QueryError(f"{name} has no row; write one for each total that is known.")
    return KnownTotals(columns, lines, name)


def _parse_total(row: Mapping[str, Any], name: str) -> float:
    try:
        total = float(row[TOTAL])
    except (TypeError, ValueError):
        total = math.nan
    if not (math.isfinite(total) and total >= 0):
        raise QueryError(f"{name} has a row without a total that is a number from 0, such as 1234 or 56.7.")
    return total


def _format_value(value: Value) -> str:
    """A value as a CSV would have it: frames turn whole numbers into others where one is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else display(value)
