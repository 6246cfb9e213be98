"""Answers comparisons with a column published in ranges. The compared number must be an edge of a range."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from sfumato._query.impossible_literals import explain_missing_range
from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._records.sql_quoting import TABLE
from sfumato._request.range_edges import Edge, Ranges
from sfumato.errors import QueryError

# Equalities of a column with a literal, and their negations.

EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)


def find_equalities(tree: Tree) -> Iterator[tuple[exp.Column, exp.Literal]]:
    """Yields each column with each literal compared to it by =, <>, IS DISTINCT FROM, IN, or CASE column WHEN."""
    for node in tree.walk(bfs=False):
        if isinstance(node, EQUALITIES):
            sides = [(node.this, node.expression), (node.expression, node.this)]
        elif isinstance(node, exp.In):
            sides = [(node.this, item) for item in node.expressions]
        elif isinstance(node, exp.Case) and node.this is not None:
            sides = [(node.this, item.this) for item in node.args["ifs"]]
        else:
            continue
        for column, other in sides:
            bare_column, literal = allowed_sql.unwrap(column), allowed_sql.unwrap(other)
            if isinstance(bare_column, exp.Column) and isinstance(literal, exp.Literal):
                yield bare_column, literal


# ---------------------------------------------------------------------------------------------------------------------

FLIPPED_COMPARISONS: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
IsOwn = Callable[[exp.Column], bool]
"""Whether a column has the mark of the release, and so belongs to the release."""


def is_release_column(column: exp.Column) -> bool:
    """Whether a resolved column belongs to the release."""
    return column.table in ("", TABLE)


def rewrite_by_ranges(expression: Tree, bins: Mapping[str, tuple[str, ...]], is_own: IsOwn = is_release_column) -> Tree:
    """Rewrites comparisons of ranges with numbers or dates as lists of ranges.

    A comparison that cuts inside a range is rejected. A string that is not a range is also rejected. No record can have
    it, and it is probably a typo.
    """
    if not bins:
        return expression
    for column, literal in find_equalities(expression):
        if is_own(column) and column.name in bins:
            _check_range(literal, column.name, Ranges(bins[column.name]))
    return expression.transform(lambda node: _rewrite_node(node, bins, is_own))


def _check_range(literal: exp.Literal, name: str, ranges: Ranges) -> None:
    if literal.is_string and literal.name not in ranges.labels and _parse_constant(literal, ranges) is None:
        raise explain_missing_range(literal.name, name, ranges)


def _rewrite_node(node: Tree, bins: Mapping[str, tuple[str, ...]], is_own: IsOwn) -> Tree:
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        ends = [_rewrite_comparison(comparisons, bins, is_own) for comparisons in (low, high)]
        return node if ends[0] is None or ends[1] is None else exp.paren(exp.And(this=ends[0], expression=ends[1]))
    if isinstance(node, exp.In) and node.expressions:
        comparisons = [
            _rewrite_comparison(exp.EQ(this=node.this, expression=other), bins, is_own) for other in node.expressions
        ]
        return _make_never_true(node.this) if all(other is not None for other in comparisons) else node
    comparison = _rewrite_comparison(node, bins, is_own)
    return node if comparison is None else comparison


def _rewrite_comparison(node: Tree, bins: Mapping[str, tuple[str, ...]], is_own: IsOwn) -> Tree | None:
    """The comparison as a list of ranges.

    None if it does not compare a range with a number, a date or a range.
    """
    kind = type(node)
    if kind not in FLIPPED_COMPARISONS:
        return None
    left, right = allowed_sql.unwrap(node.this), allowed_sql.unwrap(node.expression)
    if not isinstance(left, exp.Column):
        left, right, kind = right, left, FLIPPED_COMPARISONS[kind]
    if not isinstance(left, exp.Column) or not is_own(left) or left.name not in bins:
        return None
    ranges = Ranges(bins[left.name])
    bound = _parse_constant(right, ranges)
    if bound is None and (kind in (exp.EQ, exp.NEQ) or not (isinstance(right, exp.Literal) and right.is_string)):
        return None
    if kind in (exp.EQ, exp.NEQ):
        if ranges.parsed_edges[0] <= bound <= ranges.parsed_edges[-1]:  # type: ignore[operator]
            raise _explain_cut(ranges, left.name, node)
        condition = _make_never_true(left)
        return exp.Not(this=exp.paren(condition)) if kind is exp.NEQ else condition
    with_bound = kind in (exp.LTE, exp.GT)
    if bound is None:  # if ranges were compared as strings, [100,120) would come before [20,40)
        _check_range(right, left.name, ranges)
        labels = list(ranges.labels[: ranges.labels.index(right.name) + with_bound])
    else:
        labels = _list_ranges_below(ranges, bound, with_bound, left.name, node)
    condition = _make_never_true(left)
    if labels:
        condition = exp.In(this=left.copy(), expressions=[exp.Literal.string(label) for label in labels])
    return exp.Not(this=exp.paren(condition)) if kind in (exp.GT, exp.GTE) else condition


def _list_ranges_below(ranges: Ranges, bound: Edge, with_bound: bool, name: str, node: Tree) -> list[str]:
    """The ranges below a bound. The bound itself may be included."""
    edges = ranges.parsed_edges
    range_labels = []
    for number, label in enumerate(ranges.labels):
        low, high = edges[number], edges[number + 1]
        is_last = number == len(edges) - 2
        has_high_edge = is_last and not with_bound
        if high < bound or (high == bound and not has_high_edge):  # type: ignore[operator]
            range_labels.append(label)
        elif low < bound or (low == bound and with_bound):  # type: ignore[operator]
            raise _explain_cut(ranges, name, node)
    return range_labels


def _explain_cut(ranges: Ranges, name: str, node: Tree) -> QueryError:
    return QueryError(
        f"{allowed_sql.write_sql(node)!r} cuts inside a range of {name!r}, which was published in ranges with the "
        f"edges {', '.join(ranges.edges)}. Each range includes its lower edge, so compare with < or >= at an edge.",
        code="cut-inside-range",
        fields={"column": name},
    )


def _make_never_true(column: Tree) -> Tree:
    """An expression that is false, or NULL if the column is missing."""
    missing = exp.Is(this=column.copy(), expression=exp.Null())
    return exp.paren(exp.And(this=missing, expression=exp.Null()))


def _parse_constant(node: Tree, ranges: Ranges) -> Edge | None:
    """Reads a number or a date of the same kind as the edges. None for anything else."""
    sign = 1
    if isinstance(node, exp.Neg):
        node, sign = allowed_sql.unwrap(node.this), -1
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        node = node.this
    if not isinstance(node, exp.Literal) or node.name in ranges.labels:
        return None
    first = ranges.parsed_edges[0]
    try:
        if not isinstance(first, datetime.date):  # SQL treats a quoted number as a number
            number = _parse_number(node.name)
            return sign * number if math.isfinite(number) else None
        if isinstance(first, datetime.datetime):
            return _convert_moment(datetime.datetime.fromisoformat(node.name), first)
        return datetime.date.fromisoformat(node.name)
    except ValueError:
        return None


def _parse_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _convert_moment(moment: datetime.datetime, edge: datetime.datetime) -> datetime.datetime:
    """A moment that can be compared with an edge. Without an offset it is in UTC."""
    if (moment.tzinfo is None) == (edge.tzinfo is None):
        return moment
    if moment.tzinfo is None:
        return moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def check_sum(expression: Tree, bins: Mapping[str, tuple[str, ...]], is_own: IsOwn = is_release_column) -> None:
    """Rejects sums of ranges. Comparisons of ranges within a sum are allowed."""
    for column in expression.find_all(exp.Column):
        if is_own(column) and column.name in bins and not _is_compared(column, expression):
            raise QueryError(
                f"{column.name!r} was published in ranges with the edges {', '.join(bins[column.name])}, so its sum "
                f"and mean are not known; count its ranges with GROUP BY {column.name}.",
                code="sum-of-ranges",
                fields={"column": column.name},
            )


def _is_compared(column: Tree, root: Tree) -> bool:
    """Whether a column is only compared with ranges. Its own value is then not used."""
    node = column.parent
    while node is not None and node is not root.parent:
        if isinstance(node, exp.Predicate):
            return True
        node = node.parent
    return False
