"""A SELECT over the records of the release: its groups and aggregates become rows with formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import pyarrow as pa
from sqlglot import exp

from sfumato._core.arrays import Mask
from sfumato._query.connection import Session
from sfumato._query.estimation import Estimator, GroupCell
from sfumato._query.parser import allowed_sql, range_comparisons
from sfumato._query.parser.aggregates import Total
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.parser.conditions import Condition, split
from sfumato._query.parser.formulas import Formula, Number, Sum, add_formulas, substitute_sums
from sfumato._query.parser.query_size import check_sets
from sfumato._query.parser.sensitive_queries import Group, Question, SelectReader
from sfumato._query.query_plan.estimated_rows import LINE, Bench, EstimateRows
from sfumato._query.query_plan.quantiles import Distribution, QuantileAsked, is_quantile, parse_quantile
from sfumato._query.query_plan.select_steps import find_aggregates
from sfumato._records.sql_quoting import quote_if_needed
from sfumato.errors import QueryError

MOST_GROUPING = 62
"""How many columns GROUPING can tell of in one number."""
SINGLE_ROWS = (
    "the {name!r} of single rows is protected, so rows cannot be shown by it or with it; count them instead: SELECT "
    "{column}, COUNT(*) FROM release GROUP BY {column}."
)


@dataclass
class RecordsBlock:
    """Reads the expressions of a SELECT over records into expressions over the rows of its groups."""

    reader: SelectReader
    session: Session
    groups: list[Tree] = field(default_factory=list)
    sets: list[tuple[int, ...]] | None = None
    grouping: dict[tuple[int, ...], str] = field(default_factory=dict)
    quantiles: list[tuple[str, QuantileAsked]] = field(default_factory=list)
    cells: list[GroupCell] = field(default_factory=list)
    """The groups that were counted."""
    hidden: set[int] = field(default_factory=set)
    """The groups that nobody asked for: numbers that are the same for all records of a group."""

    def read_groups(self) -> None:
        """Read GROUP BY, with ROLLUP, CUBE and GROUPING SETS."""
        select = self.reader.select
        group = select.args.get("group")
        if group is None:
            return
        if any(value for name, value in group.args.items() if name not in ("expressions", "all")):
            raise QueryError("write subtotals as GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...).")
        if group.args.get("all"):
            for expression in select.expressions:
                if not find_aggregates(expression.unalias()) and not expression.find(exp.Window, exp.Query):
                    self._group(expression.unalias())
            return
        check_sets(group)
        grouping_sets = [self._element(expression) for expression in group.expressions]
        sets = [tuple(dict.fromkeys(key for part in parts for key in part)) for parts in product(*grouping_sets)]
        self.sets = None if sets == [tuple(range(len(self.groups)))] else sets

    def _group(self, expression: Tree) -> int:
        group_tree = self.reader.group(expression)
        written = [allowed_sql.write_sql(group) for group in self.groups]
        if allowed_sql.write_sql(group_tree) not in written:
            self.groups.append(group_tree)
            return len(self.groups) - 1
        return written.index(allowed_sql.write_sql(group_tree))

    def _element(self, element: Tree) -> list[tuple[int, ...]]:
        """The sets of keys that one part of GROUP BY makes."""
        if isinstance(element, exp.Rollup):
            keys = [self._keys(part) for part in element.expressions]
            return [sum(keys[:end], ()) for end in range(len(keys), -1, -1)]
        if isinstance(element, exp.Cube):
            keys = [self._keys(part) for part in element.expressions]
            sizes = range(len(keys), -1, -1)
            return [sum(some, ()) for size in sizes for some in combinations(keys, size)]
        if isinstance(element, exp.GroupingSets):
            return [group_numbers for part in element.expressions for group_numbers in self._element(part)]
        return [self._keys(element)]

    def _keys(self, element: Tree) -> tuple[int, ...]:
        if isinstance(element, exp.Tuple):
            return tuple(self._group(expression) for expression in element.expressions)
        return (self._group(element),)

    # ------------------------------------------------------------------------------------------------------ expressions

    def has_column(self, name: str) -> bool:
        """Whether a table has a column of a name."""
        return any(name in columns for columns in self.reader.names.tables.values())

    def over_rows(self, tree: Tree) -> Tree:
        """An expression over the rows of the groups."""
        holder = exp.Paren(this=tree.copy())
        for node in list(holder.find_all(exp.Grouping)):
            node.replace(make_answer_column(self._grouping(node)))
        for node in find_aggregates(holder):
            self.session.clock.check()
            node.replace(make_answer_column(self._aggregate(node)))
        if holder.find(exp.Star):
            raise self.single_rows(holder)
        resolved_tree = self.reader.resolved(holder.this, allowed_sql.EXPRESSIONS + allowed_sql.WINDOWS)
        keys = {allowed_sql.write_sql(column): number for number, column in enumerate(self.groups)}

        def put(node: Tree) -> Tree:
            number = keys.get(allowed_sql.write_sql(allowed_sql.unwrap(node)))
            return node if number is None or number in self.hidden else make_answer_column(f"k{number}")

        over: Tree = resolved_tree.transform(put)
        for column in over.find_all(exp.Column):
            if not is_of_answer(column):
                raise self.reader.ungrouped(column)
        return over

    def _grouping(self, node: Tree) -> str:
        if len(node.expressions) > MOST_GROUPING:
            raise QueryError(f"GROUPING tells of {MOST_GROUPING} columns at most; ask it of fewer.")
        keys = tuple(self._keys(expression)[0] for expression in node.expressions)
        return self.grouping.setdefault(keys, f"grouping{len(self.grouping)}")

    def _aggregate(self, node: Tree) -> str:
        if isinstance(node, exp.Min | exp.Max | exp.AnyValue | exp.First) and isinstance(node.this, exp.Expression):
            value = self.reader.resolved(node.this)
            if self.reader.names.is_public(value) and self.reader.source.record_joins:
                return self._same(value)
        if is_quantile(node):
            name = f"q{len(self.quantiles)}"
            self.quantiles.append((name, parse_quantile(node)))
            return name
        return f"e{self.reader.formula(node)}"

    def _distribution(self, asked: QuantileAsked, question: Question, bench: Bench) -> Distribution:
        """The distribution that a quantile is of."""
        names, ranged = self.reader.names, self.session.manifest.bins
        value = self.reader.resolved(asked.value)
        if not names.is_public(value):
            raise QueryError("quantiles are known of public numbers only; count the protected values with GROUP BY.")
        range_comparisons.check_sum(value, ranged)
        is_not_null = exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
        condition = split([*map(self.reader.resolved, asked.where), is_not_null], names)
        return Distribution(self.session, question, bench.sums.method, allowed_sql.write_sql(value), condition)

    def _same(self, value: Tree) -> str:
        """A number of a joined table, which may be the same for all records of a group: it is known then."""
        before = len(self.groups)
        number = self._group(value)
        if number == before:
            self.hidden.add(number)
        return f"k{number}"

    def single_rows(self, tree: Tree) -> QueryError:
        """What is said of a query that would show single rows by their protected value."""
        name = (self.reader.names.protected(tree) or self.session.manifest.sensitive)[0]
        return QueryError(SINGLE_ROWS.format(name=name, column=quote_if_needed(name)))

    # ------------------------------------------------------------------------------------------------------------- rows

    def is_count(self, tree: Tree) -> bool:
        """Whether an expression over the rows is COUNT(*), without a condition of its own."""
        formulas = {f"e{number}": formula for number, formula in enumerate(self.reader.formulas)}
        formula = formulas.get(tree.name) if is_of_answer(tree) else None
        return isinstance(formula, Sum) and list(self.reader.aggregates.totals)[formula.number] == Total(Condition())

    def find_formula_groups(self, trees: Sequence[Tree]) -> list[list[int]]:
        """The formulas that expressions over the rows make one number of."""
        numbers = {f"e{number}": number for number in range(len(self.reader.formulas))}
        return [
            [numbers[column.name] for column in tree.find_all(exp.Column) if column.name in numbers] for tree in trees
        ]

    def rows(
        self, bench: Bench, only: Mask | None = None, formula_groups: Sequence[list[int]] | None = None
    ) -> EstimateRows:
        """Count and estimate, and give a row to each group or subtotal."""
        reader = self.reader
        groups = tuple(Group(allowed_sql.write_sql(item), not reader.names.is_public(item)) for item in self.groups)
        totals, formulas = tuple(reader.aggregates.totals), tuple(reader.formulas)
        question = Question(reader.source, reader.where(), groups, totals, formulas)
        self.estimator = estimator = Estimator(self.session, question, bench.sums.method, only, formula_groups)
        self.cells = list(estimator.cells())
        self.has_records = estimator.has_records or not question.where.public
        self._check_hidden(groups, self.cells)
        keyed = [(_make_key(groups, cell), [cell]) for cell in self.cells]
        sets = [tuple(range(len(groups)))] * len(keyed)
        if self.sets is not None:
            keyed, sets = self._subtotals(keyed)
        values = [[key[at] for key, _ in keyed] for at in range(len(groups))]
        columns = {f"k{at}": self._column(*item) for at, item in enumerate(zip(groups, values, strict=True))}
        for keys, name in self.grouping.items():
            columns[name] = pa.array([_compute_grouping_bits(keys, item) for item in sets], pa.int64())
        table = pa.table({LINE: pa.array(range(len(keyed)), pa.int64()), **columns})
        formulas_by_name: dict[str, list[Formula | None]] = {
            f"e{number}": [_merge_formula(bench, estimator, formula, item) for _, item in keyed]
            for number, formula in enumerate(formulas)
        }
        for name, quantile in self.quantiles:
            distribution = self._distribution(quantile, question, bench)
            estimates = [distribution.estimate(item, quantile) for _, item in keyed]
            formulas_by_name[name] = [
                None if item.value != item.value else Sum(bench.sums.own(item)) for item in estimates
            ]
        bench.most_rows = max(bench.most_rows, len(keyed))
        return bench.with_formulas(EstimateRows(table), formulas_by_name)

    def _check_hidden(self, groups: Sequence[Group], cells: Sequence[GroupCell]) -> None:
        visible = [at for at in range(len(groups)) if at not in self.hidden]
        keys = [tuple(_make_key(groups, cell)[at] for at in visible) for cell in cells]
        if self.hidden and len(set(keys)) != len(keys):
            raise QueryError(
                "MIN, MAX and ANY_VALUE under a condition on a protected column are known only where all records of a "
                "group have the same; group by the column, or use AVG."
            )

    def _subtotals(
        self, keyed: Sequence[tuple[list[object], list[GroupCell]]]
    ) -> tuple[list[tuple[list[object], list[GroupCell]]], list[tuple[int, ...]]]:
        """The groups of all sets, each with the rows that it adds up; what a set does not group by is missing."""
        subtotals: list[tuple[list[object], list[GroupCell]]] = []
        sets: list[tuple[int, ...]] = []
        for grouping_set in self.sets or []:
            grouped_keys = {*grouping_set, *self.hidden}
            by_key: dict[tuple[object, ...], list[GroupCell]] = {} if grouped_keys else {(): []}
            for key, cells in keyed:
                own = tuple(value if at in grouped_keys else None for at, value in enumerate(key))
                by_key.setdefault(own if grouped_keys else (), []).extend(cells)
            subtotals += [(list(key) or [None] * len(self.groups), cells) for key, cells in by_key.items()]
            sets += [grouping_set] * len(by_key)
        return subtotals, sets

    def _column(self, group: Group, values: list[object]) -> pa.Array:
        """The values of a group, with the type that DuckDB gives them; texts have one type only."""
        if any(isinstance(value, str) for value in values):
            return pa.array(values, pa.string())
        source = self.reader.source
        records = source.values if group.is_sensitive else source.records
        kind = self.session.table(f"SELECT {group.sql} AS k FROM {records} LIMIT 0").schema.field(0).type
        return pa.array(values, kind)


def _make_key(groups: Sequence[Group], cell: GroupCell) -> list[object]:
    public, sensitive = iter(cell.public), iter(cell.sensitive)
    return [next(sensitive) if group.is_sensitive else next(public) for group in groups]


def _compute_grouping_bits(keys: Sequence[int], grouped_keys: Sequence[int]) -> int:
    """What GROUPING says: a bit for each key, set where it was not grouped by."""
    return sum((key not in grouped_keys) << place for place, key in enumerate(reversed(keys)))


def _merge_formula(bench: Bench, estimator: Estimator, formula: Formula, cells: Sequence[GroupCell]) -> Formula:
    """A formula of the sums of some rows together; sums of no record are left out, as SQL does."""

    def total(number: int) -> Formula:
        leaves = [bench.sums.leaf(estimator, cell, number) for cell in cells]
        finite_leaves = [leaf for leaf in leaves if bench.sums.total(leaf).value == bench.sums.total(leaf).value]
        return add_formulas([Sum(leaf) for leaf in finite_leaves or leaves]) if leaves else Number(0.0)

    return substitute_sums(formula, total)
