"""Intermediate rows of a query for DuckDB. They have values, and for each estimate the number of its formula.

DuckDB groups, filters and orders the rows. An estimate and its formula number always move together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sfumato._query.duckdb_session import Session
from sfumato._query.estimate import Estimate
from sfumato._query.formula_estimation import Formula
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer
from sfumato._query.query_plan.joint_sums import JointSums
from sfumato._records.sql_quoting import quote_name
from sfumato.errors import QueryError

LINE = "line"
"""The column that keeps the order of the rows."""
MOST_ROWS = 100_000
NULL_NOTE = "no number (NULL in SQL)"
SCALAR = "s"
_ROWS = "sfumato rows"


def is_scalar(column: str) -> bool:
    """Whether a column has the single number of a subquery. This number is equal in all rows."""
    return column.startswith(SCALAR)


def name_formula_column(column: str) -> str:
    """The column with the formula numbers of an estimate."""
    return f"{column} formula"


@dataclass(frozen=True)
class EstimateRows:
    """A table with internal column names. Some of its columns are estimates."""

    table: pa.Table
    estimate_columns: frozenset[str] = frozenset()

    def list_estimates(self, tree: Tree) -> list[str]:
        """The estimates that an expression uses."""
        return [
            column.name
            for column in tree.find_all(exp.Column)
            if is_of_answer(column) and column.name in self.estimate_columns
        ]


@dataclass
class PlanContext:
    """The DuckDB session of a query, and the sums behind its estimates."""

    session: Session
    sums: JointSums
    has_uncertain_rows: bool = False
    """Whether an estimate decided which rows exist, or their order."""
    has_uncertain_case: bool = False
    """Whether CASE chose between numbers by an estimate."""
    uncertain_columns: set[str] = field(default_factory=set)
    """The columns without known errors, because they depend on choices by estimates."""
    most_rows: int = 0
    _name_count: int = 0

    def make_name(self, letter: str) -> str:
        """A new column name."""
        self._name_count += 1
        return f"{letter}{self._name_count}"

    def select_columns(self, rows: EstimateRows, columns: Sequence[str], clauses_sql: str = "") -> pa.Table:
        """Selects columns of the rows, by SQL over internal names."""
        self.session.register(_ROWS, rows.table)
        table = self.session.fetch_subquery(
            f"SELECT {', '.join(columns) or '1'} FROM {quote_name(_ROWS)} {clauses_sql}"
        )
        self.most_rows = max(self.most_rows, table.num_rows)
        return table

    def check_row_count(self, rows: EstimateRows) -> EstimateRows:
        """Checks the number of rows of a join, a UNION ALL or a window."""
        if rows.table.num_rows > MOST_ROWS:
            raise QueryError(
                f"the answer has more than {MOST_ROWS:,} rows; add LIMIT, or group by coarser columns.",
                code="answer-too-large",
                fields={"limit": MOST_ROWS, "unit": "rows"},
            )
        return rows

    def note_choice(self, rows: EstimateRows, trees: Sequence[Tree]) -> None:
        """Notes that rows are filtered or ordered by expressions, if these contain estimates."""
        self.has_uncertain_rows = self.has_uncertain_rows or self.is_uncertain(rows, trees)

    def is_uncertain(self, rows: EstimateRows, trees: Sequence[Tree]) -> bool:
        """Whether expressions contain estimates, or depend on choices by estimates."""
        estimate_names = {name for tree in trees for name in rows.list_estimates(tree)}
        column_names = {column.name for tree in trees for column in tree.find_all(exp.Column) if is_of_answer(column)}
        return not column_names.isdisjoint(self.uncertain_columns) or any(
            not self.is_exact(rows, name) for name in estimate_names
        )

    def is_exact(self, rows: EstimateRows, name: str) -> bool:
        """Whether no number of a column has an error."""
        numbers = rows.table.column(name_formula_column(name)).to_pylist()
        return all(number is None or self.sums.is_exact(number) for number in numbers)

    def filter_rows(self, rows: EstimateRows, condition: Tree | None) -> EstimateRows:
        """The rows that satisfy a condition."""
        if condition is None:
            return rows
        self.note_choice(rows, [condition])
        table = self.select_columns(rows, ["*"], f"WHERE {allowed_sql.write_sql(condition)} ORDER BY {LINE}")
        return EstimateRows(table, rows.estimate_columns)

    def append_values(self, rows: EstimateRows, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> EstimateRows:
        """The rows with more columns."""
        table = rows.table
        for name, column in columns.items():
            table = table.append_column(name, column)
        return EstimateRows(table, rows.estimate_columns)

    def append_formulas(self, rows: EstimateRows, columns: Mapping[str, Sequence[Formula | None]]) -> EstimateRows:
        """The rows with more estimates."""
        table = rows.table
        for name, formulas in columns.items():
            values: list[float | None] = []
            numbers: list[int | None] = []
            numbers_by_formula: dict[Formula, tuple[float | None, int | None]] = {}
            for formula in formulas:
                self.session.clock.check()
                if formula is None:
                    values.append(None)
                    numbers.append(None)
                    continue
                if formula not in numbers_by_formula:
                    numbers_by_formula[formula] = self.sums.find_value(formula), self.sums.add_formula(formula)
                values.append(numbers_by_formula[formula][0])
                numbers.append(numbers_by_formula[formula][1])
            table = table.append_column(name, pa.array(values, pa.float64()))
            table = table.append_column(name_formula_column(name), pa.array(numbers, pa.int64()))
        return EstimateRows(table, rows.estimate_columns | set(columns))

    def read_column(self, rows: EstimateRows, column: str) -> list[Any]:
        """The displayed content of a column, which is estimates or values."""
        if column not in rows.estimate_columns:
            return list(rows.table.column(column).to_pylist())
        numbers = rows.table.column(name_formula_column(column)).to_pylist()
        return [Estimate.missing(NULL_NOTE) if number is None else self.sums.estimate(number) for number in numbers]

    def is_count(self, rows: EstimateRows, column: str) -> bool:
        """Whether every estimate in a column is a single COUNT(*)."""
        numbers = rows.table.column(name_formula_column(column)).to_pylist()
        return all(number is not None and self.sums.is_count(number) for number in numbers)

    def get_formulas(self, numbers: Sequence[int | None]) -> list[Formula | None]:
        """The formulas behind formula numbers."""
        return [None if number is None else self.sums.formulas[number] for number in numbers]


@dataclass(frozen=True)
class Result:
    """The result of a query, with rows and the displayed columns and their names."""

    rows: EstimateRows
    output_columns: tuple[tuple[str, str], ...]
    """The displayed and the internal name of each column."""
    candidates: tuple[Formula, ...] | None = None
    """The estimates before any filter. None if windows or other queries may have filtered."""
    has_only_counts: bool = False
    """Whether every number is a single COUNT(*)."""
