"""Adds consistent numbers to an answer. These are its counts, adjusted so that they add up to the correct totals."""

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
from sfumato._query.query_plan.intermediate_rows import EstimateRows, PlanContext
from sfumato._query.query_plan.record_selects import RecordSelect
from sfumato._query.query_plan.select_clauses import Ending
from sfumato._readers.reader import AnyTable
from sfumato._records.tally import Key, make_group_key
from sfumato.errors import QueryError

NO_COUNT = "only COUNT(*) can be made consistent or calibrated, and the question does not select it; add COUNT(*)."
NOT_ADJUSTED = "only COUNT(*) of a plain SELECT with GROUP BY can be made consistent or calibrated; write such a query."
ADJUSTED = "adjusted"
"""The internal name of the column of adjusted counts."""
NOTHING_TO_ADJUST = "every number is exact, so nothing was made consistent or calibrated."


@dataclass(frozen=True)
class _CountedPart:
    """A row of an answer, or a public group's records that are in no row."""

    key: Key | None
    """The values in the columns of the answer.

    None if the records are in no row. Totals of the analyst do not cover such records.
    """
    estimate: Estimate
    group: Key

    @property
    def certain_count(self) -> float:
        """The number of records that the row certainly contains, even if its full count is unknown."""
        return 0.0 if self.estimate.is_exact else max(0.0, self.estimate.bounds.low)

    def split(self) -> tuple[_CountedPart, _CountedPart]:
        """Splits the count into a certain part and the rest. Neither part can be negative."""
        certain_part, rest = Estimate.exact(self.certain_count), self.estimate.scale(1.0, -self.certain_count)
        return replace(self, estimate=certain_part), replace(self, estimate=rest)


@dataclass(frozen=True)
class CountAdjuster:
    """Adjusts the counts of an answer, optionally to totals from the analyst."""

    adjustment: Adjustment
    totals: tuple[KnownTotals, ...] = ()

    def find_counts(self, block: RecordSelect, ending: Ending) -> dict[str, str]:
        """Maps each number to adjust to its internal column. All COUNT(*) are adjusted."""
        if block.grouping_sets is not None or any(tree.find(exp.Window) for tree in ending.trees):
            raise QueryError(NOT_ADJUSTED, code="not-adjustable")
        count_columns = {name: tree.name for name, tree in ending.outputs if block.is_count(tree)}
        if not count_columns:
            raise QueryError(NO_COUNT, code="no-count-to-adjust")
        return count_columns

    def add_adjusted(
        self, context: PlanContext, block: RecordSelect, rows: EstimateRows, ending: Ending
    ) -> tuple[EstimateRows, Ending, dict[str, str]]:
        """All rows before filtering, with an additional output for each adjusted count.

        Also returns the name of each adjusted number and the name of its adjusted version.
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
        """Computes the adjusted count of each part."""
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
    """Builds an adjuster for the request: no negative numbers, known totals, or both. None if nothing is requested."""
    if isinstance(totals, str | Path):
        raise QueryError(
            "give a list of totals, such as totals=['known.csv'].", code="not-a-list", fields={"argument": "totals"}
        )
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
    """Reads known totals from a frame or another table in memory."""
    table = read_attached_table("totals", source)
    columns = tuple(column for column in table.schema.names if column != TOTAL)
    if len(columns) == table.num_columns:
        raise QueryError(
            f"{name} must have the column {TOTAL!r} and at least one column of the answer.",
            code="invalid-totals-header",
            fields={"file": name},
        )
    lines: dict[tuple[str, ...], float] = {}
    for row in table.to_pylist():
        key = tuple(_format_value(row[column]) for column in columns)
        if key in lines:
            raise QueryError(
                f"{name} has two rows with the same values; write one total for these values.",
                code="repeated-total",
                fields={"file": name},
            )
        lines[key] = _parse_total(row, name)
    if not lines:
        raise QueryError(
            f"{name} has no rows; write one row for each known total.", code="no-totals", fields={"file": name}
        )
    return KnownTotals(columns, lines, name)


def _parse_total(row: Mapping[str, Any], name: str) -> float:
    try:
        total = float(row[TOTAL])
    except (TypeError, ValueError):
        total = math.nan
    if not (math.isfinite(total) and total >= 0):
        raise QueryError(
            f"{name} has a row without a valid total; a total is a number of at least 0, such as 1234 or 56.7.",
            code="invalid-total",
            fields={"file": name},
        )
    return total


def _format_value(value: Value) -> str:
    """Formats a value as in a CSV. Whole numbers may be floats, because frames convert columns with missing values."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else display(value)
