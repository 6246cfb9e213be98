"""New columns from those of rows: by DuckDB where nothing is estimated, as formulas where something is.

Whatever would show an estimate without its error, such as a text that is made from it, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sfumato._core.cell_values import field_type
from sfumato._query import scalar_functions
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.aggregates import SIGNS
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer, of_answer
from sfumato._query.parser.formulas import Applied, Arithmetic, Formula, Number
from sfumato._query.query_plan.estimated_rows import LINE, Bench, EstimateRows, formula_column
from sfumato._query.scalar_functions import Function, Same
from sfumato._records.sql_quoting import quoted
from sfumato.errors import QueryError

Getter = Callable[[int], Any]
"""What a row has, by its number."""

_FUNCTIONS: Mapping[type[Any], Function] = {
    exp.Sqrt: scalar_functions.SquareRoot(),
    exp.Exp: scalar_functions.Exponential(),
    exp.Abs: scalar_functions.Absolute(),
    exp.Floor: scalar_functions.ToWhole(math.floor),
    exp.Ceil: scalar_functions.ToWhole(math.ceil),
    exp.Ln: scalar_functions.Logarithm(),
}
_PREDICATES = (exp.Predicate, exp.Connector, exp.Not)


def is_number(tree: Tree, rows: EstimateRows) -> bool:
    """Whether an expression is a number made from estimates, and no choice by them."""
    node = allowed_sql.unwrapped(tree)
    if not rows.reads(node) or isinstance(node, _PREDICATES):
        return False
    if isinstance(node, exp.Case):
        return any(is_number(each, rows) for each in _branches(node))
    return True


def with_columns(bench: Bench, rows: EstimateRows, columns: Mapping[str, Tree]) -> EstimateRows:
    """The rows with more columns, each computed from those that there are."""
    rows, columns = _rename_known(rows, columns)
    computing = _Computing(bench, rows)
    numbers = {name: computing.formula(tree) for name, tree in columns.items() if is_number(tree, rows)}
    plain = {name: computing.plain(tree) for name, tree in columns.items() if name not in numbers}
    computing.run()
    found = bench.with_plain(rows, {name: computing.column(at) for name, at in plain.items()})
    lines = range(rows.table.num_rows)
    return bench.with_formulas(found, {name: [get(line) for line in lines] for name, get in numbers.items()})


def _rename_known(rows: EstimateRows, columns: Mapping[str, Tree]) -> tuple[EstimateRows, Mapping[str, Tree]]:
    """The rows with those of the columns that are there already, and the columns that are left to compute."""
    table, estimated = rows.table, rows.estimated
    there = {name: tree.name for name, tree in columns.items() if is_of_answer(tree)}
    for name, own in there.items():
        table = table.append_column(name, table.column(own))
        if own in rows.estimated:
            table = table.append_column(formula_column(name), table.column(formula_column(own)))
            estimated |= {name}
    return EstimateRows(table, estimated), {name: tree for name, tree in columns.items() if name not in there}


class _Computing:
    """Collects what DuckDB must be asked, asks it once, and puts formulas together."""

    def __init__(self, bench: Bench, rows: EstimateRows) -> None:
        self.bench, self.rows = bench, rows
        self.asked: dict[str, str] = {}
        self.table = rows.table
        self.lists: dict[str, list[Any]] = {}

    def plain(self, tree: Tree) -> str:
        """Have an expression computed by DuckDB, unless it is a column that is there; the name of its column."""
        if is_of_answer(tree):
            return str(tree.name)
        return self.asked.setdefault(allowed_sql.sql_of(tree), f"asked {len(self.asked)}")

    def run(self) -> None:
        """Ask for everything."""
        if self.asked:
            columns = [f"{sql} AS {quoted(name)}" for sql, name in self.asked.items()]
            found = self.bench.asked(self.rows, columns, f"ORDER BY {LINE}")
            for name in found.column_names:
                self.table = self.table.append_column(name, found.column(name))

    def column(self, name: str) -> pa.ChunkedArray:
        """A column that was there, or that DuckDB computed."""
        return self.table.column(name)

    def _got(self, tree: Tree) -> Getter:
        at = self.plain(tree)

        def get(line: int) -> Any:
            if at not in self.lists:
                self.lists[at] = self.column(at).to_pylist()
            return self.lists[at][line]

        return get

    def formula(self, tree: Tree) -> Callable[[int], Formula | None]:  # noqa: PLR0911 - one for each construct
        """How to make the formula of a row."""
        node = allowed_sql.unwrapped(tree)
        if not self.rows.reads(node):
            return self._number(node)
        if isinstance(node, exp.Column):
            number = self._got(of_answer(formula_column(node.name)))
            formulas = self.bench.sums.formulas
            return lambda line: None if number(line) is None else formulas[number(line)]
        if type(node) in SIGNS:
            return self._joined(SIGNS[type(node)], node.this, node.expression)
        if isinstance(node, exp.Neg):
            return self._joined("-", exp.Literal.number(0), node.this)
        if isinstance(node, exp.IntDiv):
            return _applied(scalar_functions.ToWhole(math.trunc), self._joined("/", node.this, node.expression))
        if isinstance(node, exp.Case | exp.Coalesce | exp.Nullif | exp.If):
            return self._chosen(node)
        function = _function(node)
        if function is None:
            raise unknown(node)
        argument = node.expression if isinstance(node, exp.Log) and node.expression else node.this
        inner = self.formula(argument)
        return inner if function == Same() else _applied(function, inner)

    def _number(self, node: Tree) -> Callable[[int], Formula | None]:
        """A known number, in a formula."""
        if (constant := _constant(node)) is not None:
            return lambda line: Number(constant)
        kind = self.bench.asked(self.rows, [f"{allowed_sql.sql_of(node)} AS a"], "LIMIT 0").schema.field(0).type
        if field_type(kind) not in ("integer", "number") and not pa.types.is_null(kind):
            raise QueryError("an estimate can be computed with numbers only, not with texts, dates or truth values.")
        get = self._got(exp.Cast(this=node.copy(), to=exp.DataType.build("double")))
        return lambda line: None if get(line) is None else Number(float(get(line)))

    def _joined(self, sign: str, left: Tree, right: Tree) -> Callable[[int], Formula | None]:
        one, other = self.formula(left), self.formula(right)

        def joined(line: int) -> Formula | None:
            parts = one(line), other(line)
            return None if parts[0] is None or parts[1] is None else Arithmetic(sign, parts[0], parts[1])

        return joined

    def _chosen(self, node: Tree) -> Callable[[int], Formula | None]:
        """The first of several numbers whose condition holds."""
        conditions, branches = _cases(node)
        if isinstance(node, exp.Case | exp.If) and self.bench.is_chance(self.rows, conditions):
            self.bench.picked = True
        tests, numbers = [self._got(each) for each in conditions], [self.formula(each) for each in branches]

        def chosen(line: int) -> Formula | None:
            return next((get(line) for test, get in zip(tests, numbers, strict=True) if test(line)), None)

        return chosen


def _cases(node: Tree) -> tuple[list[Tree], list[Tree]]:
    """The conditions and the numbers of CASE, IF, COALESCE and NULLIF; the first that holds decides."""
    if isinstance(node, exp.Coalesce):
        each = [node.this, *node.expressions]
        return [exp.Not(this=exp.Is(this=exp.paren(one.copy()), expression=exp.Null())) for one in each], each
    if isinstance(node, exp.Nullif):
        other = exp.NullSafeNEQ(this=exp.paren(node.this.copy()), expression=exp.paren(node.expression.copy()))
        return [other], [node.this]
    if isinstance(node, exp.If):
        branches, default = [node], node.args.get("false")
        subject = None
    else:
        branches, default, subject = node.args["ifs"], node.args.get("default"), node.this
    conditions = [each.this if not subject else exp.EQ(this=subject.copy(), expression=each.this) for each in branches]
    numbers = [each.args["true"] for each in branches]
    if default is not None:
        conditions, numbers = [*conditions, exp.true()], [*numbers, default]
    return conditions, numbers


def _branches(node: exp.Case) -> list[Tree]:
    return _cases(node)[1]


def _function(node: Tree) -> Function | None:
    """The function that an expression is of one number; None where it is none that is known."""
    if isinstance(node, exp.Cast | exp.TryCast):
        return _cast(node.to)
    if isinstance(node, exp.Round | exp.Trunc):
        places = node.args.get("decimals")
        if isinstance(node, exp.Trunc) and places is None:
            return scalar_functions.ToWhole(math.trunc)
        number = 0 if places is None else _constant(places)
        return scalar_functions.Rounded(int(number)) if isinstance(node, exp.Round) and number is not None else None
    if isinstance(node, exp.Log):
        base = 10.0 if node.expression is None or not node.args.get("expression") else _constant(node.this)
        return scalar_functions.Logarithm(base) if base is not None and base > 1 else None
    if isinstance(node, exp.Pow):
        exponent = _constant(node.expression)
        return None if exponent is None else scalar_functions.power(exponent)
    return _FUNCTIONS.get(type(node))


def _cast(kind: exp.DataType) -> Function | None:
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        return scalar_functions.Rounded()
    if kind.is_type(exp.DataType.Type.DECIMAL) and len(kind.expressions) == 2:  # noqa: PLR2004 - width and places
        return scalar_functions.Rounded(int(kind.expressions[1].name))
    return Same() if kind.is_type(*exp.DataType.REAL_TYPES) else None


def _constant(node: Tree) -> float | None:
    sign = 1.0
    node = allowed_sql.unwrapped(node)
    if isinstance(node, exp.Neg):
        node, sign = allowed_sql.unwrapped(node.this), -1.0
    return sign * float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _applied(function: Function, inner: Callable[[int], Formula | None]) -> Callable[[int], Formula | None]:
    def applied(line: int) -> Formula | None:
        found = inner(line)
        return None if found is None else Applied(function, found)

    return applied


def unknown(node: Tree) -> QueryError:
    """What is said of a function that no error is known for."""
    return QueryError(
        f"{node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()} of an estimate has no known "
        "error; use + - * /, ROUND, CAST to a number, LN, LOG, EXP, SQRT, ABS, POWER, CASE and COALESCE."
    )
