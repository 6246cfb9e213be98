"""Answers a SELECT over the records of the release. Its groups and aggregates become rows with formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import pyarrow as pa
from sqlglot import exp

from sfumato._core.array_types import Mask
from sfumato._query.duckdb_session import Session
from sfumato._query.formula_estimation import Formula, Number, Sum, add_formulas, substitute_sums
from sfumato._query.group_estimation import GroupCell, GroupEstimator
from sfumato._query.parser import allowed_sql, range_comparisons
from sfumato._query.parser.aggregates import Total
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.parser.conditions import Condition, split_conditions
from sfumato._query.parser.query_size import check_sets
from sfumato._query.parser.sensitive_queries import Group, Question, SelectReader
from sfumato._query.query_plan.intermediate_rows import LINE, EstimateRows, PlanContext
from sfumato._query.query_plan.quantiles import Distribution, QuantileRequest, is_quantile, parse_quantile
from sfumato._query.query_plan.select_clauses import find_aggregates
from sfumato._records.sql_quoting import quote_if_needed
from sfumato.errors import QueryError

MOST_GROUPING = 62
"""The largest number of columns that one GROUPING can combine."""
SINGLE_ROWS = (
    "{name!r} is protected, so a query cannot show it for single rows or select rows by it; count rows instead: "
    "SELECT {column}, COUNT(*) FROM release GROUP BY {column}."
)


@dataclass
class RecordSelect:
    """Rewrites the expressions of a SELECT over records as expressions over the rows of its groups."""

    reader: SelectReader
    session: Session
    groups: list[Tree] = field(default_factory=list)
    grouping_sets: list[tuple[int, ...]] | None = None
    grouping_columns: dict[tuple[int, ...], str] = field(default_factory=dict)
    quantiles: list[tuple[str, QuantileRequest]] = field(default_factory=list)
    cells: list[GroupCell] = field(default_factory=list)
    """The counted groups."""
    hidden_groups: set[int] = field(default_factory=set)
    """Groups that are added internally. They are numbers that all records of a group share."""

    def read_groups(self) -> None:
        """Reads GROUP BY, with ROLLUP, CUBE and GROUPING SETS."""
        select = self.reader.select
        group = select.args.get("group")
        if group is None:
            return
        if any(value for name, value in group.args.items() if name not in ("expressions", "all")):
            raise QueryError(
                "write subtotals as GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...).",
                code="unsupported-subtotals",
            )
        if group.args.get("all"):
            for expression in select.expressions:
                if not find_aggregates(expression.unalias()) and not expression.find(exp.Window, exp.Query):
                    self._add_group(expression.unalias())
            return
        check_sets(group)
        element_sets = [self._expand_element(expression) for expression in group.expressions]
        sets = [tuple(dict.fromkeys(key for part in parts for key in part)) for parts in product(*element_sets)]
        self.grouping_sets = None if sets == [tuple(range(len(self.groups)))] else sets

    def _add_group(self, expression: Tree) -> int:
        group_tree = self.reader.read_group(expression)
        groups_sql = [allowed_sql.write_sql(group) for group in self.groups]
        if allowed_sql.write_sql(group_tree) not in groups_sql:
            self.groups.append(group_tree)
            return len(self.groups) - 1
        return groups_sql.index(allowed_sql.write_sql(group_tree))

    def _expand_element(self, element: Tree) -> list[tuple[int, ...]]:
        """The key sets of one part of GROUP BY."""
        if isinstance(element, exp.Rollup):
            keys = [self._read_keys(part) for part in element.expressions]
            return [sum(keys[:end], ()) for end in range(len(keys), -1, -1)]
        if isinstance(element, exp.Cube):
            keys = [self._read_keys(part) for part in element.expressions]
            sizes = range(len(keys), -1, -1)
            return [sum(subset, ()) for size in sizes for subset in combinations(keys, size)]
        if isinstance(element, exp.GroupingSets):
            return [group_numbers for part in element.expressions for group_numbers in self._expand_element(part)]
        return [self._read_keys(element)]

    def _read_keys(self, element: Tree) -> tuple[int, ...]:
        if isinstance(element, exp.Tuple):
            return tuple(self._add_group(expression) for expression in element.expressions)
        return (self._add_group(element),)

    # ------------------------------------------------------------------------------------------------------ expressions

    def has_column(self, name: str) -> bool:
        """Whether a table has a column with the name."""
        return any(name in columns for columns in self.reader.names.tables.values())

    def rewrite(self, tree: Tree) -> Tree:
        """The expression over the rows of the groups."""
        holder = exp.Paren(this=tree.copy())
        for node in list(holder.find_all(exp.Grouping)):
            node.replace(make_answer_column(self._add_grouping(node)))
        for node in find_aggregates(holder):
            self.session.clock.check()
            node.replace(make_answer_column(self._add_aggregate(node)))
        if holder.find(exp.Star):
            raise self.explain_single_rows(holder)
        resolved_tree = self.reader.resolve(holder.this, allowed_sql.EXPRESSIONS + allowed_sql.WINDOWS)
        keys = {allowed_sql.write_sql(column): number for number, column in enumerate(self.groups)}

        def replace_key(node: Tree) -> Tree:
            number = keys.get(allowed_sql.write_sql(allowed_sql.unwrap(node)))
            return node if number is None or number in self.hidden_groups else make_answer_column(f"k{number}")

        row_tree: Tree = resolved_tree.transform(replace_key)
        for column in row_tree.find_all(exp.Column):
            if not is_of_answer(column):
                raise self.reader.explain_ungrouped(column)
        return row_tree

    def _add_grouping(self, node: Tree) -> str:
        if len(node.expressions) > MOST_GROUPING:
            raise QueryError(
                f"GROUPING supports at most {MOST_GROUPING} columns; use fewer.",
                code="too-many-grouping-columns",
                fields={"limit": MOST_GROUPING},
            )
        keys = tuple(self._read_keys(expression)[0] for expression in node.expressions)
        return self.grouping_columns.setdefault(keys, f"grouping{len(self.grouping_columns)}")

    def _add_aggregate(self, node: Tree) -> str:
        if isinstance(node, exp.Min | exp.Max | exp.AnyValue | exp.First) and isinstance(node.this, exp.Expression):
            value = self.reader.resolve(node.this)
            if self.reader.names.is_public(value) and self.reader.source.record_joins:
                return self._add_hidden_group(value)
        if is_quantile(node):
            name = f"q{len(self.quantiles)}"
            self.quantiles.append((name, parse_quantile(node)))
            return name
        return f"e{self.reader.add_formula(node)}"

    def _make_distribution(self, request: QuantileRequest, question: Question, context: PlanContext) -> Distribution:
        """The distribution behind a quantile."""
        names, bins = self.reader.names, self.session.manifest.ranges
        value = self.reader.resolve(request.value)
        if not names.is_public(value):
            raise QueryError(
                "quantiles are only available for public numbers; count the protected values with GROUP BY.",
                code="quantile-of-protected-column",
            )
        range_comparisons.check_sum(value, bins)
        is_not_null = exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
        condition = split_conditions([*map(self.reader.resolve, request.where), is_not_null], names)
        return Distribution(self.session, question, context.sums.method, allowed_sql.write_sql(value), condition)

    def _add_hidden_group(self, value: Tree) -> str:
        """Adds a number of a joined table as a group.

        If all records of a group have the same number, this number is known.
        """
        group_count = len(self.groups)
        number = self._add_group(value)
        if number == group_count:
            self.hidden_groups.add(number)
        return f"k{number}"

    def explain_single_rows(self, tree: Tree) -> QueryError:
        """Makes the error for a query that would show single rows by their protected value."""
        name = (self.reader.names.list_sensitive_names(tree) or self.session.manifest.sensitive_columns)[0]
        return QueryError(
            SINGLE_ROWS.format(name=name, column=quote_if_needed(name)), code="protected-rows", fields={"column": name}
        )

    # ------------------------------------------------------------------------------------------------------------- rows

    def is_count(self, tree: Tree) -> bool:
        """Whether an expression over the rows is COUNT(*), without a condition of its own."""
        formulas = {f"e{number}": formula for number, formula in enumerate(self.reader.formulas)}
        formula = formulas.get(tree.name) if is_of_answer(tree) else None
        return isinstance(formula, Sum) and list(self.reader.aggregates.totals)[formula.number] == Total(Condition())

    def find_formula_groups(self, trees: Sequence[Tree]) -> list[list[int]]:
        """The formulas that are combined in one number by expressions over the rows."""
        numbers = {f"e{number}": number for number in range(len(self.reader.formulas))}
        return [
            [numbers[column.name] for column in tree.find_all(exp.Column) if column.name in numbers] for tree in trees
        ]

    def estimate_rows(
        self, context: PlanContext, value_mask: Mask | None = None, formula_groups: Sequence[list[int]] | None = None
    ) -> EstimateRows:
        """Counts and estimates, and returns a row for each group or subtotal."""
        reader = self.reader
        groups = tuple(Group(allowed_sql.write_sql(item), not reader.names.is_public(item)) for item in self.groups)
        totals, formulas = tuple(reader.aggregates.totals), tuple(reader.formulas)
        question = Question(reader.source, reader.read_where(), groups, totals, formulas)
        self.estimator = estimator = GroupEstimator(
            self.session, question, context.sums.method, value_mask, formula_groups
        )
        self.cells = list(estimator.count_cells())
        self.has_records = estimator.has_records or not question.where.public_parts
        self._check_hidden(groups, self.cells)
        keyed_cells = [(_make_key(groups, cell), [cell]) for cell in self.cells]
        sets = [tuple(range(len(groups)))] * len(keyed_cells)
        if self.grouping_sets is not None:
            keyed_cells, sets = self._add_subtotals(keyed_cells)
        values = [[key[at] for key, _ in keyed_cells] for at in range(len(groups))]
        columns = {f"k{at}": self._make_column(*item) for at, item in enumerate(zip(groups, values, strict=True))}
        for keys, name in self.grouping_columns.items():
            columns[name] = pa.array([_compute_grouping_bits(keys, item) for item in sets], pa.int64())
        table = pa.table({LINE: pa.array(range(len(keyed_cells)), pa.int64()), **columns})
        formulas_by_name: dict[str, list[Formula | None]] = {
            f"e{number}": [_merge_formula(context, estimator, formula, item) for _, item in keyed_cells]
            for number, formula in enumerate(formulas)
        }
        for name, quantile in self.quantiles:
            distribution = self._make_distribution(quantile, question, context)
            estimates = [distribution.estimate(item, quantile) for _, item in keyed_cells]
            formulas_by_name[name] = [
                None if item.value != item.value else Sum(context.sums.add_estimate(item)) for item in estimates
            ]
        context.most_rows = max(context.most_rows, len(keyed_cells))
        return context.append_formulas(EstimateRows(table), formulas_by_name)

    def _check_hidden(self, groups: Sequence[Group], cells: Sequence[GroupCell]) -> None:
        visible = [at for at in range(len(groups)) if at not in self.hidden_groups]
        keys = [tuple(_make_key(groups, cell)[at] for at in visible) for cell in cells]
        if self.hidden_groups and len(set(keys)) != len(keys):
            raise QueryError(
                "with a condition on a protected column, MIN, MAX and ANY_VALUE are only available if all records "
                "of a group have the same value; group by the column, or use AVG.",
                code="extreme-under-condition",
            )

    def _add_subtotals(
        self, keyed_cells: Sequence[tuple[list[object], list[GroupCell]]]
    ) -> tuple[list[tuple[list[object], list[GroupCell]]], list[tuple[int, ...]]]:
        """The groups of all grouping sets, each with its rows.

        A column is missing in a group if the grouping set does not contain it.
        """
        subtotals: list[tuple[list[object], list[GroupCell]]] = []
        sets: list[tuple[int, ...]] = []
        for grouping_set in self.grouping_sets or []:
            grouped_keys = {*grouping_set, *self.hidden_groups}
            by_key: dict[tuple[object, ...], list[GroupCell]] = {} if grouped_keys else {(): []}
            for key, cells in keyed_cells:
                subtotal_key = tuple(value if at in grouped_keys else None for at, value in enumerate(key))
                by_key.setdefault(subtotal_key if grouped_keys else (), []).extend(cells)
            subtotals += [(list(key) or [None] * len(self.groups), cells) for key, cells in by_key.items()]
            sets += [grouping_set] * len(by_key)
        return subtotals, sets

    def _make_column(self, group: Group, values: list[object]) -> pa.Array:
        """The values of a group in their DuckDB type. All strings have the same type."""
        if any(isinstance(value, str) for value in values):
            return pa.array(values, pa.string())
        source = self.reader.source
        records = source.values_sql if group.is_sensitive else source.records_sql
        kind = self.session.fetch_table(f"SELECT {group.sql} AS k FROM {records} LIMIT 0").schema.field(0).type
        return pa.array(values, kind)


def _make_key(groups: Sequence[Group], cell: GroupCell) -> list[object]:
    public, sensitive = iter(cell.public_key), iter(cell.sensitive_key)
    return [next(sensitive) if group.is_sensitive else next(public) for group in groups]


def _compute_grouping_bits(keys: Sequence[int], grouped_keys: Sequence[int]) -> int:
    """The result of GROUPING, with a bit for each key. A bit is set if the row is not grouped by its key."""
    return sum((key not in grouped_keys) << place for place, key in enumerate(reversed(keys)))


def _merge_formula(
    context: PlanContext, estimator: GroupEstimator, formula: Formula, cells: Sequence[GroupCell]
) -> Formula:
    """Adds up a formula over several rows. Sums without records are skipped, as in SQL."""

    def merge_sum(number: int) -> Formula:
        leaves = [context.sums.add_leaf(estimator, cell, number) for cell in cells]
        finite_leaves = [
            leaf
            for leaf in leaves
            if context.sums.estimate_total(leaf).value == context.sums.estimate_total(leaf).value
        ]
        return add_formulas([Sum(leaf) for leaf in finite_leaves or leaves]) if leaves else Number(0.0)

    return substitute_sums(formula, merge_sum)
