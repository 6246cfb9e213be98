"""Runs the clauses of a SELECT over rows: groups, HAVING, windows, QUALIFY, DISTINCT, ORDER BY and LIMIT.

DuckDB decides which rows are added up. For a sum of estimates, DuckDB returns the list of their formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sfumato._query.formula_estimation import Arithmetic, Formula, Number, add_formulas
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import make_answer_column
from sfumato._query.query_plan.computed_columns import add_columns, is_number
from sfumato._query.query_plan.intermediate_rows import LINE, EstimateRows, PlanContext, Result, name_formula_column
from sfumato._records.sql_quoting import quote_name
from sfumato.errors import QueryError

_VALUE_WINDOWS = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_RANK_WINDOWS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile)
_EXTREMES = {exp.Min: "ARG_MIN", exp.Max: "ARG_MAX"}


@dataclass(frozen=True)
class Ending:
    """The last clauses of a SELECT, with internal column names."""

    outputs: tuple[tuple[str, Tree], ...]
    having: Tree | None = None
    qualify: Tree | None = None
    order: tuple[Tree, ...] = ()
    limit: str = ""
    is_distinct: bool = False

    @property
    def trees(self) -> list[Tree]:
        """All expressions of these clauses."""
        filters = [item for item in (self.having, self.qualify) if item is not None]
        return [*(tree for _, tree in self.outputs), *filters, *(item.this for item in self.order)]


def is_window_function(node: Tree) -> bool:
    """Whether an aggregate belongs to a window instead of a group."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is node


def find_aggregates(tree: Tree) -> list[Tree]:
    """The outermost aggregates of groups in an expression, each with its FILTER."""
    aggregates: list[Tree] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        inner = node.this if isinstance(node, exp.Filter | exp.WithinGroup) else node
        if isinstance(inner, exp.AggFunc) and not is_window_function(inner):
            aggregates.append(node)
        elif not isinstance(node, exp.Query):  # an aggregate within a subquery belongs to the subquery
            waiting.extend(node.iter_expressions())
    return aggregates


# --------------------------------------------------------------------------------------------------------------- groups


def group_rows(
    context: PlanContext,
    rows: EstimateRows,
    keys: Mapping[str, Tree],
    grouping_sql: str,
    aggregates: Mapping[str, Tree],
) -> EstimateRows:
    """Groups rows, with their keys and aggregates under the given names."""
    if any(is_number(item, rows) for item in keys.values()):
        raise QueryError(
            "group by columns instead of an estimate; to group by an estimate, use CASE with a comparison.",
            code="group-by-estimate",
        )
    context.note_choice(rows, [*keys.values()])
    selected_sql = [f"{allowed_sql.write_sql(item)} AS {name}" for name, item in keys.items()]
    columns_sql: dict[str, _ColumnSql] = {}
    for name, item in aggregates.items():
        rows, columns_sql[name] = _aggregate(context, rows, item, f"{name} of", "")
    selected_sql += [f"{item.sql} AS {name}" for name, item in columns_sql.items()]
    if context.has_uncertain_rows:  # the set of counted rows depends on chance
        context.uncertain_columns |= {name for name, item in columns_sql.items() if not item.is_formula}
    selected_sql.append(f"MIN({LINE}) AS {LINE}")
    group_clause = f"GROUP BY {grouping_sql}" if grouping_sql else ""
    return _fill_formulas(
        context,
        EstimateRows(context.select_columns(rows, selected_sql, f"{group_clause} ORDER BY {LINE}")),
        columns_sql,
    )


@dataclass(frozen=True)
class _ColumnSql:
    """The SQL of a column. It is a plain column, or a column of formula numbers, possibly in lists."""

    sql: str
    is_formula: bool = False
    is_list: bool = False
    is_mean: bool = False


def _aggregate(
    context: PlanContext, rows: EstimateRows, node: Tree, name: str, over_sql: str
) -> tuple[EstimateRows, _ColumnSql]:
    """The SQL of an aggregate of rows or of a window. Its argument becomes a column first."""
    function, condition = node, ""
    if isinstance(node, exp.Filter):
        function = node.this
        context.note_choice(rows, [node.expression])
        condition = f" FILTER (WHERE {allowed_sql.write_sql(node.expression.this)})"
    argument = function.this
    if isinstance(argument, exp.Distinct) and rows.list_estimates(argument):
        raise QueryError(
            "DISTINCT does not work on estimates, because equal estimates need not stand for equal numbers.",
            code="distinct-estimates",
        )
    if not isinstance(argument, exp.Expression) or isinstance(argument, exp.Star) or not is_number(argument, rows):
        allowed_sql.check(function, allowed_sql.PUBLIC_CONSTRUCTS)
        return rows, _ColumnSql(f"{allowed_sql.write_sql(function)}{condition}{over_sql}")
    rows = add_columns(context, rows, {name: argument})
    number = quote_name(name_formula_column(name))
    if isinstance(function, exp.Count):
        return rows, _ColumnSql(f"COUNT({quote_name(name)}){condition}{over_sql}")
    if isinstance(function, exp.Sum | exp.Avg):
        list_sql = f"LIST({number}){condition}{over_sql}"
        return rows, _ColumnSql(list_sql, is_formula=True, is_list=True, is_mean=isinstance(function, exp.Avg))
    if type(function) in _EXTREMES:
        context.note_choice(rows, [make_answer_column(name)])
        extreme_sql = f"{_EXTREMES[type(function)]}({number}, {quote_name(name)}){condition}{over_sql}"
        return rows, _ColumnSql(extreme_sql, is_formula=True)
    raise QueryError(
        f"{function.sql_name()} of estimates would mainly measure their errors instead of differences between "
        "groups; use SUM, AVG, COUNT, MIN or MAX of estimates.",
        code="aggregate-of-estimates",
        fields={"aggregate": function.sql_name()},
    )


def _fill_formulas(context: PlanContext, rows: EstimateRows, columns_sql: dict[str, _ColumnSql]) -> EstimateRows:
    """Builds the formulas from DuckDB's lists of formula numbers."""
    table, formulas = rows.table, dict[str, list[Formula | None]]()
    for name, column_sql in columns_sql.items():
        if not column_sql.is_formula:
            continue
        column = table.column(name).to_pylist()
        table = table.drop_columns([name])
        if column_sql.is_list:
            formulas[name] = [_add_numbers(context, numbers, is_mean=column_sql.is_mean) for numbers in column]
        else:
            formulas[name] = context.get_formulas(column)
    return context.append_formulas(EstimateRows(table, rows.estimate_columns), formulas)


def _add_numbers(context: PlanContext, numbers: list[int | None] | None, *, is_mean: bool) -> Formula | None:
    """The sum or the mean of some numbers. None if there are no numbers, as in SQL."""
    formulas = [formula for formula in context.get_formulas(numbers or []) if formula is not None]
    context.session.clock.check()
    if not formulas:
        return None
    return Arithmetic("/", add_formulas(formulas), Number(float(len(formulas)))) if is_mean else add_formulas(formulas)


# -------------------------------------------------------------------------------------------------------------- windows


def _add_windows(context: PlanContext, rows: EstimateRows, trees: Sequence[Tree]) -> tuple[EstimateRows, list[Tree]]:
    """Adds a column for each window, and replaces the windows in the expressions by these columns."""
    holders = [exp.Paren(this=item.copy()) for item in trees]
    names_by_window: dict[str, str] = {}
    for window in [item for holder in holders for item in holder.find_all(exp.Window)]:
        context.check_row_count(rows)
        sql = allowed_sql.write_sql(window)
        if sql not in names_by_window:
            names_by_window[sql] = context.make_name("w")
            rows = _add_window(context, rows, window, names_by_window[sql])
        window.replace(make_answer_column(names_by_window[sql]))
    return rows, [item.this for item in holders]


def _add_window(context: PlanContext, rows: EstimateRows, window: exp.Window, name: str) -> EstimateRows:
    over_sql = f" {allowed_sql.write_sql(_make_window_spec(window))}"
    function = window.this
    ordering_trees = [
        *(window.args.get("partition_by") or ()),
        *([window.args["order"]] if window.args.get("order") else []),
    ]
    if context.is_uncertain(rows, ordering_trees):
        context.has_uncertain_rows = True
        context.uncertain_columns.add(name)
    inner = function.this if isinstance(function, exp.IgnoreNulls | exp.RespectNulls) else function
    if isinstance(inner, _RANK_WINDOWS):
        return context.append_values(
            rows,
            {name: context.select_columns(rows, [f"{allowed_sql.write_sql(function)}{over_sql} AS w"], _ORDER)["w"]},
        )
    if isinstance(inner, _VALUE_WINDOWS) and is_number(inner.this, rows):
        if inner.args.get("default") is not None:
            raise QueryError(
                f"{inner.sql_name()} of an estimate cannot have a default value; put COALESCE around the function.",
                code="default-of-estimate",
                fields={"function": inner.sql_name()},
            )
        rows = add_columns(context, rows, {f"{name} of": inner.this})
        inner.set("this", make_answer_column(name_formula_column(f"{name} of")))
        formula_numbers = context.select_columns(rows, [f"{allowed_sql.write_sql(function)}{over_sql} AS w"], _ORDER)[
            "w"
        ]
        return context.append_formulas(rows, {name: context.get_formulas(formula_numbers.to_pylist())})
    rows, column_sql = _aggregate(context, rows, function, f"{name} of", over_sql)
    column = context.select_columns(rows, [f"{column_sql.sql} AS {name}"], _ORDER)[name]
    return _fill_formulas(context, context.append_values(rows, {name: column}), {name: column_sql})


_ORDER = f"ORDER BY {LINE}"
_NEXT_LINE = "next line"


def _make_window_spec(window: exp.Window) -> exp.Window:
    """An empty OVER clause with the specification of a window."""
    copy = window.copy()
    copy.set("this", exp.Var(this=""))
    return copy


# ----------------------------------------------------------------------------------------------------------- the ending


def finish_select(context: PlanContext, rows: EstimateRows, ending: Ending, *, is_outer: bool = False) -> Result:
    """The rows and columns of a SELECT. The outermost SELECT also returns its estimates before any filter."""
    trees_by_name = {context.make_name("o"): tree for _, tree in ending.outputs}
    number_trees = {
        name: tree for name, tree in trees_by_name.items() if is_number(tree, rows) and not tree.find(exp.Window)
    }
    rows = add_columns(context, rows, number_trees)
    candidates = _list_candidates(context, rows, ending, [*number_trees]) if is_outer else None
    are_counts = all(context.is_count(rows, name) for name in number_trees)
    rows = context.filter_rows(rows, ending.having)
    other_names = [name for name in trees_by_name if name not in number_trees]
    trees = [*(trees_by_name[name] for name in other_names), *(item.this for item in ending.order)]
    rows, (*trees, qualify) = _add_windows(context, rows, [*trees, ending.qualify or exp.true()])
    rows = context.filter_rows(rows, qualify if ending.qualify is not None else None)
    computed, order = dict(zip(other_names, trees, strict=False)), trees[len(other_names) :]
    rows = add_columns(context, rows, computed)
    context.uncertain_columns |= {
        name
        for name, tree in computed.items()
        if name not in rows.estimate_columns and context.is_uncertain(rows, [tree])
    }
    context.note_choice(rows, order)
    if ending.is_distinct:
        if not rows.estimate_columns.isdisjoint(trees_by_name):
            raise QueryError(
                "SELECT DISTINCT does not work on estimates, because equal estimates need not stand for equal numbers.",
                code="distinct-estimates",
            )
        rows = _drop_duplicates(context, rows, [*trees_by_name])
    columns = [item for name in trees_by_name for item in _list_columns(rows, name)]
    if order or ending.limit or ending.is_distinct:
        order_sql = [_write_order(item, tree) for item, tree in zip(ending.order, order, strict=True)]
        line_sql = f"ROW_NUMBER() OVER (ORDER BY {', '.join([*order_sql, LINE])}) AS {quote_name(_NEXT_LINE)}"
        table = context.select_columns(
            rows, [*map(quote_name, columns), line_sql], f"ORDER BY {quote_name(_NEXT_LINE)} {ending.limit}"
        )
        table = table.rename_columns([LINE if name == _NEXT_LINE else name for name in table.column_names])
    else:
        table = rows.table.select([*columns, LINE])
    output_columns = tuple((name, column) for (name, _), column in zip(ending.outputs, trees_by_name, strict=True))
    return Result(
        EstimateRows(table, rows.estimate_columns & set(trees_by_name)),
        output_columns,
        candidates,
        are_counts and rows.estimate_columns.isdisjoint(other_names),
    )


def _list_candidates(
    context: PlanContext, rows: EstimateRows, ending: Ending, numbers: Sequence[str]
) -> tuple[Formula, ...] | None:
    """Every estimate that a SELECT shows or uses in a filter. None if windows compute further estimates."""
    choice_trees = [*([] if ending.having is None else [ending.having]), *(item.this for item in ending.order)]
    if ending.qualify is not None or any(item.find(exp.Window) for _, item in ending.outputs):
        return None
    used_columns = dict.fromkeys([*numbers, *(name for tree in choice_trees for name in rows.list_estimates(tree))])
    columns = [context.get_formulas(rows.table.column(name_formula_column(name)).to_pylist()) for name in used_columns]
    return tuple(dict.fromkeys(item for row in zip(*columns, strict=True) for item in row if item is not None))


def _write_order(ordered: Tree, tree: Tree) -> str:
    """A part of ORDER BY with another expression."""
    copy = ordered.copy()
    copy.set("this", tree)
    return allowed_sql.write_sql(copy)


def _list_columns(rows: EstimateRows, name: str) -> list[str]:
    return [name, name_formula_column(name)] if name in rows.estimate_columns else [name]


def _drop_duplicates(context: PlanContext, rows: EstimateRows, names: Sequence[str]) -> EstimateRows:
    """Keeps the first of equal rows."""
    column_list = ", ".join(map(quote_name, names))
    table = context.select_columns(
        rows, ["*"], f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {column_list} ORDER BY {LINE}) = 1"
    )
    return replace(rows, table=table)


def add_constant(context: PlanContext, rows: EstimateRows, name: str, result: Result) -> EstimateRows:
    """Adds the single number of a subquery to each row."""
    ((_, column),) = result.output_columns
    table, size = result.rows.table, rows.table.num_rows
    if column in result.rows.estimate_columns:
        numbers = table.column(name_formula_column(column)).to_pylist() or [None]
        return context.append_formulas(rows, {name: context.get_formulas(numbers) * size})
    number_column = table.column(column)
    values = number_column.to_pylist() or [None]
    return context.append_values(rows, {name: pa.array(values * size, number_column.type)})
