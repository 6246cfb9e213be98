"""Spread and association of numbers, as formulas of sums: STDDEV, VAR, COVAR, CORR, and the straight lines of REGR.

All follow from the number of records, and the sums of the numbers, their squares and their product. Public numbers are
taken from their mean first, which changes nothing but keeps large squares from swallowing small differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlglot import exp

from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.formulas import Applied, Arithmetic, Formula, Number
from sfumato._query.scalar_functions import Clipped, SquareRoot


class Summing(Protocol):
    """Reads sums over records."""

    def count_of(self, where: Sequence[Tree]) -> Formula:
        """How many records satisfy conditions."""
        ...

    def sum_of(self, value: Tree, where: list[Tree]) -> Formula:
        """The sum of an expression over them."""
        ...

    def centre_of(self, value: Tree) -> float:
        """A number near the mean of an expression; zero where none is known."""
        ...

    def resolved(self, expression: Tree) -> Tree:
        """An expression with every column found."""
        ...


@dataclass(frozen=True)
class _Moments:
    """The sums behind everything, of two numbers y and x that were moved by known amounts."""

    count: Formula
    y: Formula
    x: Formula
    yy: Formula
    xx: Formula
    xy: Formula
    moved_y: float
    moved_x: float


def _subtract(left: Formula, right: Formula) -> Formula:
    return Arithmetic("-", left, right)


def _multiply(left: Formula, right: Formula) -> Formula:
    return Arithmetic("*", left, right)


def _divide(left: Formula, right: Formula) -> Formula:
    return Arithmetic("/", left, right)


def _center_products(both: Formula, one: Formula, other: Formula, count: Formula) -> Formula:
    """A sum of products around the means."""
    return _subtract(both, _divide(_multiply(one, other), count))


def _sxx(of: _Moments) -> Formula:
    return _center_products(of.xx, of.x, of.x, of.count)


def _syy(of: _Moments) -> Formula:
    return _center_products(of.yy, of.y, of.y, of.count)


def _sxy(of: _Moments) -> Formula:
    return _center_products(of.xy, of.y, of.x, of.count)


def _but_one(of: _Moments) -> Formula:
    return _subtract(of.count, Number(1.0))


def _mean(total: Formula, moved: float, of: _Moments) -> Formula:
    return Arithmetic("+", _divide(total, of.count), Number(moved))


def _slope(of: _Moments) -> Formula:
    return _divide(_sxy(of), _sxx(of))


def _intercept(of: _Moments) -> Formula:
    return _subtract(_mean(of.y, of.moved_y, of), _multiply(_slope(of), _mean(of.x, of.moved_x, of)))


def _correlation(of: _Moments) -> Formula:
    return Applied(Clipped(-1.0, 1.0), _divide(_sxy(of), Applied(SquareRoot(), _multiply(_sxx(of), _syy(of)))))


def _r_squared(of: _Moments) -> Formula:
    return Applied(Clipped(0.0, 1.0), _divide(_multiply(_sxy(of), _sxy(of)), _multiply(_sxx(of), _syy(of))))


def _sample_variance(of: _Moments) -> Formula:
    return _divide(_syy(of), _but_one(of))


def _population_variance(of: _Moments) -> Formula:
    return _divide(_syy(of), of.count)


def _make_root(inner: Callable[[_Moments], Formula]) -> Callable[[_Moments], Formula]:
    return lambda of: Applied(SquareRoot(), inner(of))


_FORMULAS: Mapping[type[Any], Callable[[_Moments], Formula]] = {
    exp.Variance: _sample_variance,
    exp.VariancePop: _population_variance,
    exp.Stddev: _make_root(_sample_variance),
    exp.StddevSamp: _make_root(_sample_variance),
    exp.StddevPop: _make_root(_population_variance),
    exp.CovarSamp: lambda of: _divide(_sxy(of), _but_one(of)),
    exp.CovarPop: lambda of: _divide(_sxy(of), of.count),
    exp.Corr: _correlation,
    exp.RegrSlope: _slope,
    exp.RegrIntercept: _intercept,
    exp.RegrR2: _r_squared,
    exp.RegrCount: lambda of: of.count,
    exp.RegrAvgx: lambda of: _mean(of.x, of.moved_x, of),
    exp.RegrAvgy: lambda of: _mean(of.y, of.moved_y, of),
    exp.RegrSxx: _sxx,
    exp.RegrSyy: _syy,
    exp.RegrSxy: _sxy,
}


def is_spread(node: Tree) -> bool:
    """Whether an aggregate is one of spread or association."""
    return type(node) in _FORMULAS


def spread_of(node: Tree, where: Sequence[Tree], sums: Summing) -> Formula:
    """The formula of an aggregate of one number, or of two."""
    y = sums.resolved(node.this)
    x = sums.resolved(node.expression) if node.args.get("expression") is not None else y
    conditions = (
        [*where, *(_make_not_null(value_tree) for value_tree in (y, x))] if x is not y else [*where, _make_not_null(y)]
    )
    moved = [sums.centre_of(value_tree) for value_tree in (y, x)]
    left, right = (_shift_value(value_tree, by) for value_tree, by in zip((y, x), moved, strict=True))
    moments = _Moments(
        sums.count_of(conditions),
        sums.sum_of(left, conditions),
        sums.sum_of(right, conditions),
        sums.sum_of(exp.Mul(this=left.copy(), expression=left.copy()), conditions),
        sums.sum_of(exp.Mul(this=right.copy(), expression=right.copy()), conditions),
        sums.sum_of(exp.Mul(this=left.copy(), expression=right.copy()), conditions),
        *moved,
    )
    return _FORMULAS[type(node)](moments)


def _shift_value(value: Tree, by: float) -> Tree:
    if not by:
        return exp.paren(value.copy())
    return exp.paren(exp.Sub(this=exp.paren(value.copy()), expression=exp.Literal.number(repr(by))))


def _make_not_null(value: Tree) -> Tree:
    return exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
