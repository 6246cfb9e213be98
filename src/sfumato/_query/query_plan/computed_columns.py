"""Computes new columns of rows. DuckDB computes known values, and estimates become formulas.

An expression is rejected if it would show an estimate without its error. An example is a string made from the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sfumato._core.cell_values import find_field_type
from sfumato._query import scalar_functions
from sfumato._query.formula_estimation import Arithmetic, Formula, FunctionCall, Number
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.aggregates import SIGNS
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.query_plan.intermediate_rows import LINE, EstimateRows, PlanContext, name_formula_column
from sfumato._query.scalar_functions import Function, Identity
from sfumato._records.sql_quoting import quote_name
from sfumato.errors import QueryError

Getter = Callable[[int], Any]
"""A function that returns the value of the row with a number."""

_FUNCTIONS: Mapping[type[exp.Expr], Function] = {
    exp.Sqrt: scalar_functions.SquareRoot(),
    exp.Exp: scalar_functions.Exponential(),
    exp.Abs: scalar_functions.AbsoluteValue(),
    exp.Floor: scalar_functions.IntegerRounding(math.floor),
    exp.Ceil: scalar_functions.IntegerRounding(math.ceil),
    exp.Ln: scalar_functions.Logarithm(),
}
_PREDICATES = (exp.Predicate, exp.Connector, exp.Not)


def is_number(tree: Tree, rows: EstimateRows) -> bool:
    """Whether an expression is a number computed from estimates. A choice that depends on estimates does not count."""
    node = allowed_sql.unwrap(tree)
    if not rows.list_estimates(node) or isinstance(node, _PREDICATES):
        return False
    if isinstance(node, exp.Case):
        return any(is_number(branch, rows) for branch in _list_branches(node))
    return True


def add_columns(context: PlanContext, rows: EstimateRows, columns: Mapping[str, Tree]) -> EstimateRows:
    """The rows with more columns, each computed from the existing ones."""
    rows, columns = _rename_known(rows, columns)
    computer = _ColumnComputer(context, rows)
    numbers = {name: computer.make_formula(tree) for name, tree in columns.items() if is_number(tree, rows)}
    plain_columns = {name: computer.request_column(tree) for name, tree in columns.items() if name not in numbers}
    computer.run()
    extended_rows = context.append_values(rows, {name: computer.get_column(at) for name, at in plain_columns.items()})
    lines = range(rows.table.num_rows)
    return context.append_formulas(
        extended_rows, {name: [get(line) for line in lines] for name, get in numbers.items()}
    )


def _rename_known(rows: EstimateRows, columns: Mapping[str, Tree]) -> tuple[EstimateRows, Mapping[str, Tree]]:
    """Renames the columns that exist already, and returns the others."""
    table, estimated = rows.table, rows.estimate_columns
    known_columns = {name: tree.name for name, tree in columns.items() if is_of_answer(tree)}
    for name, source_name in known_columns.items():
        table = table.append_column(name, table.column(source_name))
        if source_name in rows.estimate_columns:
            table = table.append_column(name_formula_column(name), table.column(name_formula_column(source_name)))
            estimated |= {name}
    return EstimateRows(table, estimated), {name: tree for name, tree in columns.items() if name not in known_columns}


class _ColumnComputer:
    """Collects the expressions for DuckDB, runs all of them once, and builds formulas."""

    def __init__(self, context: PlanContext, rows: EstimateRows) -> None:
        self.context, self.rows = context, rows
        self.names_by_sql: dict[str, str] = {}
        self.table = rows.table
        self.values_by_column: dict[str, list[Any]] = {}

    def request_column(self, tree: Tree) -> str:
        """Requests an expression from DuckDB unless it is an existing column. Returns the name of its column."""
        if is_of_answer(tree):
            return str(tree.name)
        return self.names_by_sql.setdefault(allowed_sql.write_sql(tree), f"asked {len(self.names_by_sql)}")

    def run(self) -> None:
        """Runs all requested expressions."""
        if self.names_by_sql:
            columns = [f"{sql} AS {quote_name(name)}" for sql, name in self.names_by_sql.items()]
            table = self.context.select_columns(self.rows, columns, f"ORDER BY {LINE}")
            for name in table.column_names:
                self.table = self.table.append_column(name, table.column(name))

    def get_column(self, name: str) -> pa.ChunkedArray:
        """An existing column, or a column that DuckDB computed."""
        return self.table.column(name)

    def _make_getter(self, tree: Tree) -> Getter:
        column_name = self.request_column(tree)

        def get(line: int) -> Any:
            if column_name not in self.values_by_column:
                self.values_by_column[column_name] = self.get_column(column_name).to_pylist()
            return self.values_by_column[column_name][line]

        return get

    def make_formula(self, tree: Tree) -> Callable[[int], Formula | None]:  # noqa: PLR0911 - one for each construct
        """Returns a function that builds the formula of a row."""
        node = allowed_sql.unwrap(tree)
        if not self.rows.list_estimates(node):
            return self._make_number(node)
        if isinstance(node, exp.Column):
            number = self._make_getter(make_answer_column(name_formula_column(node.name)))
            formulas = self.context.sums.formulas
            return lambda line: None if number(line) is None else formulas[number(line)]
        if type(node) in SIGNS:
            return self._join_formulas(SIGNS[type(node)], node.this, node.expression)
        if isinstance(node, exp.Neg):
            return self._join_formulas("-", exp.Literal.number(0), node.this)
        if isinstance(node, exp.IntDiv):
            return _apply_function(
                scalar_functions.IntegerRounding(math.trunc), self._join_formulas("/", node.this, node.expression)
            )
        if isinstance(node, exp.Case | exp.Coalesce | exp.Nullif | exp.If):
            return self._choose_formula(node)
        function = _find_function(node)
        if function is None:
            raise explain_unknown_function(node)
        argument = node.expression if isinstance(node, exp.Log) and node.expression else node.this
        inner = self.make_formula(argument)
        return inner if function == Identity() else _apply_function(function, inner)

    def _make_number(self, node: Tree) -> Callable[[int], Formula | None]:
        """A known number in a formula."""
        if (constant := _parse_constant(node)) is not None:
            return lambda line: Number(constant)
        kind = (
            self.context.select_columns(self.rows, [f"{allowed_sql.write_sql(node)} AS a"], "LIMIT 0")
            .schema.field(0)
            .type
        )
        if find_field_type(kind) not in ("integer", "number") and not pa.types.is_null(kind):
            raise QueryError(
                "an estimate can be combined with numbers only, not with strings, dates or booleans.",
                code="estimate-with-other-type",
            )
        get = self._make_getter(exp.Cast(this=node.copy(), to=exp.DataType.build("double")))
        return lambda line: None if get(line) is None else Number(float(get(line)))

    def _join_formulas(self, sign: str, left: Tree, right: Tree) -> Callable[[int], Formula | None]:
        one, other = self.make_formula(left), self.make_formula(right)

        def join(line: int) -> Formula | None:
            parts = one(line), other(line)
            return None if parts[0] is None or parts[1] is None else Arithmetic(sign, parts[0], parts[1])

        return join

    def _choose_formula(self, node: Tree) -> Callable[[int], Formula | None]:
        """Selects the first of several numbers whose condition is true."""
        conditions, branches = _split_cases(node)
        if isinstance(node, exp.Case | exp.If) and self.context.is_uncertain(self.rows, conditions):
            self.context.has_uncertain_case = True
        tests, numbers = (
            [self._make_getter(tree) for tree in conditions],
            [self.make_formula(tree) for tree in branches],
        )

        def choose(line: int) -> Formula | None:
            return next((get(line) for test, get in zip(tests, numbers, strict=True) if test(line)), None)

        return choose


def _split_cases(node: Tree) -> tuple[list[Tree], list[Tree]]:
    """The conditions and the numbers of CASE, IF, COALESCE and NULLIF. The first true condition decides."""
    if isinstance(node, exp.Coalesce):
        item = [node.this, *node.expressions]
        return [exp.Not(this=exp.Is(this=exp.paren(one.copy()), expression=exp.Null())) for one in item], item
    if isinstance(node, exp.Nullif):
        other = exp.NullSafeNEQ(this=exp.paren(node.this.copy()), expression=exp.paren(node.expression.copy()))
        return [other], [node.this]
    if isinstance(node, exp.If):
        branches, default = [node], node.args.get("false")
        subject = None
    else:
        branches, default, subject = node.args["ifs"], node.args.get("default"), node.this
    conditions = [item.this if not subject else exp.EQ(this=subject.copy(), expression=item.this) for item in branches]
    numbers = [item.args["true"] for item in branches]
    if default is not None:
        conditions, numbers = [*conditions, exp.true()], [*numbers, default]
    return conditions, numbers


def _list_branches(node: exp.Case) -> list[Tree]:
    return _split_cases(node)[1]


def _find_function(node: Tree) -> Function | None:
    """The function of one number that an expression applies. None if the function is unknown."""
    if isinstance(node, exp.Cast | exp.TryCast):
        return _find_cast_function(node.to)
    if isinstance(node, exp.Round | exp.Trunc):
        places = node.args.get("decimals")
        if isinstance(node, exp.Trunc) and places is None:
            return scalar_functions.IntegerRounding(math.trunc)
        number = 0 if places is None else _parse_constant(places)
        return scalar_functions.Rounding(int(number)) if isinstance(node, exp.Round) and number is not None else None
    if isinstance(node, exp.Log):
        base = 10.0 if node.expression is None or not node.args.get("expression") else _parse_constant(node.this)
        return scalar_functions.Logarithm(base) if base is not None and base > 1 else None
    if isinstance(node, exp.Pow):
        exponent = _parse_constant(node.expression)
        return None if exponent is None else scalar_functions.make_power(exponent)
    return _FUNCTIONS.get(type(node))


def _find_cast_function(kind: exp.DataType) -> Function | None:
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        return scalar_functions.Rounding()
    if kind.is_type(exp.DataType.Type.DECIMAL) and len(kind.expressions) == 2:  # noqa: PLR2004 - width and places
        return scalar_functions.Rounding(int(kind.expressions[1].name))
    return Identity() if kind.is_type(*exp.DataType.REAL_TYPES) else None


def _parse_constant(node: Tree) -> float | None:
    sign = 1.0
    node = allowed_sql.unwrap(node)
    if isinstance(node, exp.Neg):
        node, sign = allowed_sql.unwrap(node.this), -1.0
    return sign * float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _apply_function(function: Function, inner: Callable[[int], Formula | None]) -> Callable[[int], Formula | None]:
    def apply(line: int) -> Formula | None:
        formula = inner(line)
        return None if formula is None else FunctionCall(function, formula)

    return apply


def explain_unknown_function(node: Tree) -> QueryError:
    """Makes the error for a function of an estimate whose result has no known error."""
    name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
    return QueryError(
        f"{name} of an estimate has no known error; use + - * /, ROUND, CAST to a number, LN, LOG, EXP, SQRT, ABS, "
        "POWER, CASE and COALESCE.",
        code="unsupported-function-of-estimate",
        fields={"function": name},
    )
