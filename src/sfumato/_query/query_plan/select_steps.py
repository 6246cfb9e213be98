"""What SELECT does with rows: groups and aggregates, HAVING, windows, QUALIFY, the columns, DISTINCT, ORDER BY, LIMIT.

DuckDB says which rows are added up: where a sum of estimates is asked for, it is asked for the list of their formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import make_answer_column
from sfumato._query.parser.formulas import Arithmetic, Formula, Number, add_formulas
from sfumato._query.query_plan.computed_columns import add_columns, is_number
from sfumato._query.query_plan.estimated_rows import LINE, Bench, EstimateRows, Result, name_formula_column
from sfumato._records.sql_quoting import quote_name
from sfumato.errors import QueryError

_PICKED = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_BY_ORDER = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile)
_EXTREMES = {exp.Min: "ARG_MIN", exp.Max: "ARG_MAX"}


@dataclass(frozen=True)
class Ending:
    """The end of a SELECT, over the names that we gave to columns of rows."""

    outputs: tuple[tuple[str, Tree], ...]
    having: Tree | None = None
    qualify: Tree | None = None
    order: tuple[Tree, ...] = ()
    limit: str = ""
    is_distinct: bool = False

    @property
    def trees(self) -> list[Tree]:
        """All its expressions."""
        chosen = [item for item in (self.having, self.qualify) if item is not None]
        return [*(tree for _, tree in self.outputs), *chosen, *(item.this for item in self.order)]


def is_window_function(node: Tree) -> bool:
    """Whether an aggregate is one of a window, and not of a group."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is node


def find_aggregates(tree: Tree) -> list[Tree]:
    """The aggregates of groups in an expression, outermost only, each with its FILTER."""
    aggregates: list[Tree] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        inner = node.this if isinstance(node, exp.Filter | exp.WithinGroup) else node
        if isinstance(inner, exp.AggFunc) and not is_window_function(inner):
            aggregates.append(node)
        elif not isinstance(node, exp.Query):  # what a subquery adds up is its own
            waiting.extend(node.iter_expressions())
    return aggregates


# --------------------------------------------------------------------------------------------------------------- groups


def group_rows(
    bench: Bench, rows: EstimateRows, keys: Mapping[str, Tree], sets: str, aggregates: Mapping[str, Tree]
) -> EstimateRows:
    """The rows of groups, with their keys and aggregates under the names that are given."""
    if any(is_number(item, rows) for item in keys.values()):
        raise QueryError("group by columns, not by an estimate; use CASE with a comparison to make classes of it.")
    bench.looked(rows, [*keys.values()])
    selected_sql = [f"{allowed_sql.write_sql(item)} AS {name}" for name, item in keys.items()]
    columns_sql: dict[str, _ColumnSql] = {}
    for name, item in aggregates.items():
        rows, columns_sql[name] = _aggregate(bench, rows, item, f"{name} of", "")
    selected_sql += [f"{item.sql} AS {name}" for name, item in columns_sql.items()]
    if bench.chosen:  # which rows were counted is a matter of chance
        bench.by_chance |= {name for name, item in columns_sql.items() if not item.is_formula}
    selected_sql.append(f"MIN({LINE}) AS {LINE}")
    rest = f"GROUP BY {sets}" if sets else ""
    return _fill_formulas(bench, EstimateRows(bench.asked(rows, selected_sql, f"{rest} ORDER BY {LINE}")), columns_sql)


@dataclass(frozen=True)
class _ColumnSql:
    """SQL that gives a column: a plain one, or one of formulas, which may come as lists."""

    sql: str
    is_formula: bool = False
    is_list: bool = False
    is_mean: bool = False


def _aggregate(bench: Bench, rows: EstimateRows, node: Tree, name: str, over: str) -> tuple[EstimateRows, _ColumnSql]:
    """How to have an aggregate of rows or of a window computed; its argument becomes a column first."""
    function, condition = node, ""
    if isinstance(node, exp.Filter):
        function = node.this
        bench.looked(rows, [node.expression])
        condition = f" FILTER (WHERE {allowed_sql.write_sql(node.expression.this)})"
    argument = function.this
    if isinstance(argument, exp.Distinct) and rows.reads(argument):
        raise QueryError("DISTINCT of estimates has no meaning: equal estimates are not equal numbers.")
    if not isinstance(argument, exp.Expression) or isinstance(argument, exp.Star) or not is_number(argument, rows):
        allowed_sql.check(function, allowed_sql.PUBLIC)
        return rows, _ColumnSql(f"{allowed_sql.write_sql(function)}{condition}{over}")
    rows = add_columns(bench, rows, {name: argument})
    number = quote_name(name_formula_column(name))
    if isinstance(function, exp.Count):
        return rows, _ColumnSql(f"COUNT({quote_name(name)}){condition}{over}")
    if isinstance(function, exp.Sum | exp.Avg):
        listed = f"LIST({number}){condition}{over}"
        return rows, _ColumnSql(listed, is_formula=True, is_list=True, is_mean=isinstance(function, exp.Avg))
    if type(function) in _EXTREMES:
        bench.looked(rows, [make_answer_column(name)])
        picked = f"{_EXTREMES[type(function)]}({number}, {quote_name(name)}){condition}{over}"
        return rows, _ColumnSql(picked, is_formula=True)
    raise QueryError(
        f"{function.sql_name()} of estimates would tell more of their errors than of the groups; use SUM, AVG, COUNT, "
        "MIN and MAX of them."
    )


def _fill_formulas(bench: Bench, rows: EstimateRows, columns_sql: dict[str, _ColumnSql]) -> EstimateRows:
    """The rows with formulas put together from what DuckDB listed."""
    table, formulas = rows.table, dict[str, list[Formula | None]]()
    for name, column_sql in columns_sql.items():
        if not column_sql.is_formula:
            continue
        column = table.column(name).to_pylist()
        table = table.drop_columns([name])
        if column_sql.is_list:
            formulas[name] = [_add_numbers(bench, numbers, is_mean=column_sql.is_mean) for numbers in column]
        else:
            formulas[name] = bench.formulas(column)
    return bench.with_formulas(EstimateRows(table, rows.estimated), formulas)


def _add_numbers(bench: Bench, numbers: list[int | None] | None, *, is_mean: bool) -> Formula | None:
    """The sum of some numbers, or their mean; nothing where there is none of them, as in SQL."""
    formulas = [formula for formula in bench.formulas(numbers or []) if formula is not None]
    bench.session.clock.check()
    if not formulas:
        return None
    return Arithmetic("/", add_formulas(formulas), Number(float(len(formulas)))) if is_mean else add_formulas(formulas)


# -------------------------------------------------------------------------------------------------------------- windows


def _add_windows(bench: Bench, rows: EstimateRows, trees: Sequence[Tree]) -> tuple[EstimateRows, list[Tree]]:
    """The rows with a column for each window, and the expressions with those columns in their place."""
    holders = [exp.Paren(this=item.copy()) for item in trees]
    names_by_window: dict[str, str] = {}
    for window in [item for holder in holders for item in holder.find_all(exp.Window)]:
        bench.check_row_count(rows)
        sql = allowed_sql.write_sql(window)
        if sql not in names_by_window:
            names_by_window[sql] = bench.fresh("w")
            rows = _add_window(bench, rows, window, names_by_window[sql])
        window.replace(make_answer_column(names_by_window[sql]))
    return rows, [item.this for item in holders]


def _add_window(bench: Bench, rows: EstimateRows, window: exp.Window, name: str) -> EstimateRows:
    over = f" {allowed_sql.write_sql(_make_window_spec(window))}"
    function = window.this
    named = [*(window.args.get("partition_by") or ()), *([window.args["order"]] if window.args.get("order") else [])]
    if bench.is_chance(rows, named):
        bench.chosen = True
        bench.by_chance.add(name)
    inner = function.this if isinstance(function, exp.IgnoreNulls | exp.RespectNulls) else function
    if isinstance(inner, _BY_ORDER):
        return bench.with_plain(
            rows, {name: bench.asked(rows, [f"{allowed_sql.write_sql(function)}{over} AS w"], _ORDER)["w"]}
        )
    if isinstance(inner, _PICKED) and is_number(inner.this, rows):
        if inner.args.get("default") is not None:
            raise QueryError(f"{inner.sql_name()} of an estimate has no default; use COALESCE around it.")
        rows = add_columns(bench, rows, {f"{name} of": inner.this})
        inner.set("this", make_answer_column(name_formula_column(f"{name} of")))
        picked = bench.asked(rows, [f"{allowed_sql.write_sql(function)}{over} AS w"], _ORDER)["w"]
        return bench.with_formulas(rows, {name: bench.formulas(picked.to_pylist())})
    rows, column_sql = _aggregate(bench, rows, function, f"{name} of", over)
    column = bench.asked(rows, [f"{column_sql.sql} AS {name}"], _ORDER)[name]
    return _fill_formulas(bench, bench.with_plain(rows, {name: column}), {name: column_sql})


_ORDER = f"ORDER BY {LINE}"
_NEXT = "next line"


def _make_window_spec(window: exp.Window) -> exp.Window:
    """What stands behind OVER, of nothing."""
    copy = window.copy()
    copy.set("this", exp.Var(this=""))
    return copy


# ----------------------------------------------------------------------------------------------------------- the ending


def finish_select(bench: Bench, rows: EstimateRows, block: Ending, *, is_outer: bool = False) -> Result:
    """The rows that a SELECT gives, and its columns; of the outermost one also what was estimated before it chose."""
    named = {bench.fresh("o"): tree for _, tree in block.outputs}
    early = {name: tree for name, tree in named.items() if is_number(tree, rows) and not tree.find(exp.Window)}
    rows = add_columns(bench, rows, early)
    candidates = _list_candidates(bench, rows, block, [*early]) if is_outer else None
    are_counts = all(bench.is_count(rows, name) for name in early)
    rows = bench.filtered(rows, block.having)
    late = [name for name in named if name not in early]
    trees = [*(named[name] for name in late), *(item.this for item in block.order)]
    rows, (*trees, qualify) = _add_windows(bench, rows, [*trees, block.qualify or exp.true()])
    rows = bench.filtered(rows, qualify if block.qualify is not None else None)
    computed, order = dict(zip(late, trees, strict=False)), trees[len(late) :]
    rows = add_columns(bench, rows, computed)
    bench.by_chance |= {
        name for name, tree in computed.items() if name not in rows.estimated and bench.is_chance(rows, [tree])
    }
    bench.looked(rows, order)
    if block.is_distinct:
        if not rows.estimated.isdisjoint(named):
            raise QueryError("SELECT DISTINCT of estimates has no meaning: equal estimates are not equal numbers.")
        rows = _drop_duplicates(bench, rows, [*named])
    columns = [item for name in named for item in _list_columns(rows, name)]
    if order or block.limit or block.is_distinct:
        by = [_write_order(item, tree) for item, tree in zip(block.order, order, strict=True)]
        numbered = f"ROW_NUMBER() OVER (ORDER BY {', '.join([*by, LINE])}) AS {quote_name(_NEXT)}"
        table = bench.asked(rows, [*map(quote_name, columns), numbered], f"ORDER BY {quote_name(_NEXT)} {block.limit}")
        table = table.rename_columns([LINE if name == _NEXT else name for name in table.column_names])
    else:
        table = rows.table.select([*columns, LINE])
    shown = tuple((name, column) for (name, _), column in zip(block.outputs, named, strict=True))
    return Result(
        EstimateRows(table, rows.estimated & set(named)),
        shown,
        candidates,
        are_counts and rows.estimated.isdisjoint(late),
    )


def _list_candidates(
    bench: Bench, rows: EstimateRows, block: Ending, numbers: Sequence[str]
) -> tuple[Formula, ...] | None:
    """Every number that a SELECT estimates to show it or to choose by it; None where windows make more of them."""
    choosing = [*([] if block.having is None else [block.having]), *(item.this for item in block.order)]
    if block.qualify is not None or any(item.find(exp.Window) for _, item in block.outputs):
        return None
    used = dict.fromkeys([*numbers, *(name for tree in choosing for name in rows.reads(tree))])
    columns = [bench.formulas(rows.table.column(name_formula_column(name)).to_pylist()) for name in used]
    return tuple(dict.fromkeys(item for row in zip(*columns, strict=True) for item in row if item is not None))


def _write_order(ordered: Tree, tree: Tree) -> str:
    """A part of ORDER BY, of another expression."""
    copy = ordered.copy()
    copy.set("this", tree)
    return allowed_sql.write_sql(copy)


def _list_columns(rows: EstimateRows, name: str) -> list[str]:
    return [name, name_formula_column(name)] if name in rows.estimated else [name]


def _drop_duplicates(bench: Bench, rows: EstimateRows, names: Sequence[str]) -> EstimateRows:
    """The first of the rows that are alike."""
    listed = ", ".join(map(quote_name, names))
    table = bench.asked(rows, ["*"], f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {listed} ORDER BY {LINE}) = 1")
    return replace(rows, table=table)


def add_constant(bench: Bench, rows: EstimateRows, name: str, result: Result) -> EstimateRows:
    """The rows with the one number of a subquery in each of them."""
    ((_, column),) = result.shown
    table, size = result.rows.table, rows.table.num_rows
    if column in result.rows.estimated:
        numbers = table.column(name_formula_column(column)).to_pylist() or [None]
        return bench.with_formulas(rows, {name: bench.formulas(numbers) * size})
    number_column = table.column(column)
    values = number_column.to_pylist() or [None]
    return bench.with_plain(rows, {name: pa.array(values * size, number_column.type)})
