"""Expresses STDDEV, VAR, COVAR, CORR and REGR as formulas of sums.

All of these functions follow from the number of records, and from sums of the numbers, their squares and their product.
Public numbers are centred first. Centring does not change the result. Without it, large squares would hide small
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from sfumato._query.formula_estimation import Arithmetic, Formula, FunctionCall, Number
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.scalar_functions import Clipping, SquareRoot


class SumBuilder(Protocol):
    """Builds sums over records."""

    def make_count(self, where: Sequence[Tree]) -> Formula:
        """The number of records that satisfy the conditions."""
        ...

    def make_sum(self, value: Tree, where: list[Tree]) -> Formula:
        """The sum of an expression over the records that satisfy the conditions."""
        ...

    def compute_centre(self, value: Tree) -> float:
        """A number near the mean of an expression. Zero if no such number is known."""
        ...

    def resolve(self, expression: Tree) -> Tree:
        """The expression with every column resolved."""
        ...


@dataclass(frozen=True)
class _Moments:
    """The sums that all functions of two numbers y and x need. Both numbers are shifted by known amounts."""

    count: Formula
    y: Formula
    x: Formula
    yy: Formula
    xx: Formula
    xy: Formula
    shift_y: float
    shift_x: float


def _subtract(left: Formula, right: Formula) -> Formula:
    return Arithmetic("-", left, right)


def _multiply(left: Formula, right: Formula) -> Formula:
    return Arithmetic("*", left, right)


def _divide(left: Formula, right: Formula) -> Formula:
    return Arithmetic("/", left, right)


def _center_products(both: Formula, one: Formula, other: Formula, count: Formula) -> Formula:
    """A sum of products around the means."""
    return _subtract(both, _divide(_multiply(one, other), count))


def _sxx(moments: _Moments) -> Formula:
    return _center_products(moments.xx, moments.x, moments.x, moments.count)


def _syy(moments: _Moments) -> Formula:
    return _center_products(moments.yy, moments.y, moments.y, moments.count)


def _sxy(moments: _Moments) -> Formula:
    return _center_products(moments.xy, moments.y, moments.x, moments.count)


def _subtract_one(moments: _Moments) -> Formula:
    return _subtract(moments.count, Number(1.0))


def _make_mean(total: Formula, shift: float, moments: _Moments) -> Formula:
    return Arithmetic("+", _divide(total, moments.count), Number(shift))


def _make_slope(moments: _Moments) -> Formula:
    return _divide(_sxy(moments), _sxx(moments))


def _make_intercept(moments: _Moments) -> Formula:
    return _subtract(
        _make_mean(moments.y, moments.shift_y, moments),
        _multiply(_make_slope(moments), _make_mean(moments.x, moments.shift_x, moments)),
    )


def _make_correlation(moments: _Moments) -> Formula:
    return FunctionCall(
        Clipping(-1.0, 1.0), _divide(_sxy(moments), FunctionCall(SquareRoot(), _multiply(_sxx(moments), _syy(moments))))
    )


def _make_r_squared(moments: _Moments) -> Formula:
    return FunctionCall(
        Clipping(0.0, 1.0), _divide(_multiply(_sxy(moments), _sxy(moments)), _multiply(_sxx(moments), _syy(moments)))
    )


def _make_sample_variance(moments: _Moments) -> Formula:
    return _divide(_syy(moments), _subtract_one(moments))


def _make_population_variance(moments: _Moments) -> Formula:
    return _divide(_syy(moments), moments.count)


def _make_root(inner: Callable[[_Moments], Formula]) -> Callable[[_Moments], Formula]:
    return lambda of: FunctionCall(SquareRoot(), inner(of))


_FORMULAS: Mapping[type[exp.Expr], Callable[[_Moments], Formula]] = {
    exp.Variance: _make_sample_variance,
    exp.VariancePop: _make_population_variance,
    exp.Stddev: _make_root(_make_sample_variance),
    exp.StddevSamp: _make_root(_make_sample_variance),
    exp.StddevPop: _make_root(_make_population_variance),
    exp.CovarSamp: lambda of: _divide(_sxy(of), _subtract_one(of)),
    exp.CovarPop: lambda of: _divide(_sxy(of), of.count),
    exp.Corr: _make_correlation,
    exp.RegrSlope: _make_slope,
    exp.RegrIntercept: _make_intercept,
    exp.RegrR2: _make_r_squared,
    exp.RegrCount: lambda of: of.count,
    exp.RegrAvgx: lambda of: _make_mean(of.x, of.shift_x, of),
    exp.RegrAvgy: lambda of: _make_mean(of.y, of.shift_y, of),
    exp.RegrSxx: _sxx,
    exp.RegrSyy: _syy,
    exp.RegrSxy: _sxy,
}


def is_spread(node: Tree) -> bool:
    """Whether an aggregate measures spread or association."""
    return type(node) in _FORMULAS


def make_spread_formula(node: Tree, where: Sequence[Tree], sums: SumBuilder) -> Formula:
    """The formula of an aggregate of one or two numbers."""
    y = sums.resolve(node.this)
    x = sums.resolve(node.expression) if node.args.get("expression") is not None else y
    conditions = (
        [*where, *(_make_not_null(value_tree) for value_tree in (y, x))] if x is not y else [*where, _make_not_null(y)]
    )
    shifts = [sums.compute_centre(value_tree) for value_tree in (y, x)]
    left, right = (_shift_value(value_tree, shift) for value_tree, shift in zip((y, x), shifts, strict=True))
    moments = _Moments(
        sums.make_count(conditions),
        sums.make_sum(left, conditions),
        sums.make_sum(right, conditions),
        sums.make_sum(exp.Mul(this=left.copy(), expression=left.copy()), conditions),
        sums.make_sum(exp.Mul(this=right.copy(), expression=right.copy()), conditions),
        sums.make_sum(exp.Mul(this=left.copy(), expression=right.copy()), conditions),
        *shifts,
    )
    return _FORMULAS[type(node)](moments)


def _shift_value(value: Tree, shift: float) -> Tree:
    if not shift:
        return exp.paren(value.copy())
    return exp.paren(exp.Sub(this=exp.paren(value.copy()), expression=exp.Literal.number(repr(shift))))


def _make_not_null(value: Tree) -> Tree:
    return exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
