"""Recognises SQL for a simple count, so that many such queries can be answered at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sfumato._core.cell_values import Scalar, Value, split_value
from sfumato._query.counting.count_request import Condition, CountQuery, Range
from sfumato._records.sql_quoting import TABLE
from sfumato._release.manifest import Manifest
from sfumato._request.hierarchy import format_level_name
from sfumato._request.range_edges import Ranges

_ENDS: dict[type[exp.Expression], str] = {exp.GTE: "at_least", exp.GT: "above", exp.LTE: "at_most", exp.LT: "below"}
_MIRROR_COMPARISONS: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GTE: exp.LTE,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.LT: exp.GT,
}


class _NotSimple(Exception):
    """The query has another form."""


def parse_simple_count(select: exp.Expression, manifest: Manifest) -> CountQuery | None:
    """Reads SELECT COUNT(*) with a WHERE of simple conditions joined by AND. None for any other form.

    This function raises no errors, because the general parser handles other queries and explains mistakes.
    """
    try:
        where = _find_where(select)
        return _build_query(where, manifest)
    except _NotSimple:
        return None


def _find_where(select: exp.Expression) -> exp.Expression | None:
    allowed_clauses = {"expressions", "from", "from_", "where", "kind"}
    if not isinstance(select, exp.Select) or any(
        value for name, value in select.args.items() if name not in allowed_clauses
    ):
        raise _NotSimple
    source = select.args.get("from_") or select.args.get("from")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or any(value for name, value in table.args.items() if name != "this"):
        raise _NotSimple
    if table.name.lower() != TABLE or len(select.expressions) != 1:
        raise _NotSimple
    count = select.expressions[0].unalias()
    if not isinstance(count, exp.Count) or not isinstance(count.this, exp.Star) or count.args.get("expressions"):
        raise _NotSimple
    where = select.args.get("where")
    return where.this if where else None


def _build_query(where: exp.Expression | None, manifest: Manifest) -> CountQuery:
    public = {name.lower(): name for name in manifest.public_columns}
    conditions: dict[str, Condition] = {}
    places: list[int] | None = None
    for conjunct in _split_conjuncts(where) if where is not None else ():
        (table, name), condition = _parse_condition(conjunct)
        if table or name not in public:
            if isinstance(condition, Range):
                raise _NotSimple
            kind, domain_values = _list_domain_values(table, name, manifest)
            checked_condition = _check_condition_kind(condition, kind)
            listed = checked_condition if isinstance(checked_condition, tuple) else (checked_condition,)
            if not {*listed} <= {None, *domain_values}:
                raise _NotSimple  # the answer reports a value that does not exist
            candidates = range(len(domain_values)) if places is None else places
            places = [place for place in candidates if domain_values[place] in listed]
        else:
            column = public[name]
            condition = _check_range_condition(
                _check_condition_kind(condition, manifest.get_field(column).type), manifest.ranges.get(column)
            )
            conditions[column] = _merge_ranges(conditions[column], condition) if column in conditions else condition
    if places is not None and not places:
        raise _NotSimple
    return CountQuery(conditions, None if places is None else tuple(manifest.domain[place] for place in places))


def _check_range_condition(condition: Condition, edges: Sequence[str] | None) -> Condition:
    """The condition, if it names ranges of a column published in ranges. Other conditions follow other rules."""
    if edges is None:
        return condition
    listed = condition if isinstance(condition, tuple) else (condition,)
    if not {*listed} <= {None, *Ranges(tuple(edges)).labels}:
        raise _NotSimple
    return condition


def _list_domain_values(table: str, name: str, manifest: Manifest) -> tuple[str, Sequence[Value]]:
    """For a sensitive column or a level, the part of each domain value, with its type."""
    for number, column in enumerate(manifest.sensitive_columns):
        if not table and name == column.lower():
            return manifest.sensitive_types[number], [split_value(value)[number] for value in manifest.domain]
    for level, groups in manifest.upper_levels.items():
        if table and format_level_name(table, name) == level.lower():
            return "string", groups
    raise _NotSimple


def _split_conjuncts(expression: exp.Expression) -> Iterator[exp.Expression]:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if isinstance(expression, exp.And):
        yield from _split_conjuncts(expression.this)
        yield from _split_conjuncts(expression.expression)
    else:
        yield expression


def _parse_condition(expression: exp.Expression) -> tuple[tuple[str, str], Condition]:
    """The lower-case table and name of a condition's column, and the condition."""
    if isinstance(expression, exp.EQ | exp.GTE | exp.GT | exp.LTE | exp.LT):
        left, right = expression.this, expression.expression
        kind: type[exp.Expression] = type(expression)
        if not isinstance(left, exp.Column):
            left, right, kind = right, left, _MIRROR_COMPARISONS.get(kind, kind)
        value = _parse_scalar(right)
        return _split_column_name(left), value if kind is exp.EQ else Range(**{_ENDS[kind]: value})
    if isinstance(expression, exp.In) and expression.expressions:
        return _split_column_name(expression.this), tuple(_parse_scalar(item) for item in expression.expressions)
    if isinstance(expression, exp.Between) and not expression.args.get("symmetric"):
        return _split_column_name(expression.this), Range(
            _parse_scalar(expression.args["low"]), at_most=_parse_scalar(expression.args["high"])
        )
    if isinstance(expression, exp.Is) and isinstance(expression.expression, exp.Null):
        return _split_column_name(expression.this), None
    raise _NotSimple


def _split_column_name(column: exp.Expression) -> tuple[str, str]:
    if not isinstance(column, exp.Column) or column.args.get("db") or not isinstance(column.this, exp.Identifier):
        raise _NotSimple
    table = column.table.lower()
    return "" if table == TABLE else table, column.name.lower()


def _parse_scalar(expression: exp.Expression) -> Scalar:
    """A string, a number or a boolean literal."""
    sign = 1
    if isinstance(expression, exp.Neg):
        expression, sign = expression.this, -1
        if not isinstance(expression, exp.Literal) or expression.is_string:
            raise _NotSimple
    if isinstance(expression, exp.Boolean):
        return bool(expression.this)
    if not isinstance(expression, exp.Literal):
        raise _NotSimple
    if expression.is_string:
        return str(expression.this)
    try:
        return sign * int(expression.this)
    except ValueError:
        return sign * float(expression.this)


_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def _check_condition_kind(condition: Condition, kind: str) -> Condition:
    """The condition, if its values have the type of the column.

    For other types, DuckDB has special comparison rules.
    """
    values = condition.list_ends().values() if isinstance(condition, Range) else condition
    for value in values if not isinstance(values, str | int | float | None) else (values,):  # type: ignore[union-attr]
        is_bool = isinstance(value, bool) and kind != "boolean"
        if is_bool or not (value is None or isinstance(value, _KINDS.get(kind, ()))):
            raise _NotSimple
    return condition


def _merge_ranges(first: Condition, second: Condition) -> Condition:
    """Combines two ranges of one column with different limits."""
    if not isinstance(first, Range) or not isinstance(second, Range):
        raise _NotSimple
    ends = {
        name: getattr(side, name)
        for side in (first, second)
        for name in Range.__slots__
        if getattr(side, name) is not None
    }
    if len(ends) < len(first.list_ends()) + len(second.list_ends()):
        raise _NotSimple
    return Range(**ends)
