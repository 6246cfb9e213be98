"""From sums to the numbers of an answer: linear combinations, ratios, and what else arithmetic makes.

The error of a formula is that of its linearised residual: a sum over records again, in which each record adds what it
adds to the formula at the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sfumato.errors import QueryError
from sfumato.estimate.estimate import Estimate, Ratio
from sfumato.estimate.sql.aggregates import Arithmetic, Formula, Number, Sum
from sfumato.mechanisms.method import Moments

Gradient = Mapping[int, float]
"""How much each sum adds to a number, by the number of the sum."""

RATIO = "ratios with Fieller's interval"
DELTA = "formulas by the delta method, normal interval"
NO_DENOMINATOR = "the denominator is zero"


@dataclass(frozen=True)
class Affine:
    """A known number plus sums with known factors."""

    constant: float
    factors: Gradient

    def plus(self, other: Affine, sign: float) -> Affine:
        """The sum or the difference of two."""
        numbers = dict.fromkeys((*self.factors, *other.factors))
        factors = {each: self.factors.get(each, 0.0) + sign * other.factors.get(each, 0.0) for each in numbers}
        return Affine(self.constant + sign * other.constant, {each: by for each, by in factors.items() if by})

    def times(self, factor: float) -> Affine:
        """All of it times a number."""
        factors = {each: by * factor for each, by in self.factors.items() if by * factor}
        return Affine(self.constant * factor, factors)


@dataclass(frozen=True)
class RowSums:
    """The sums of one row of the answer."""

    total: Callable[[int], Estimate]
    """A sum by its number."""
    combined: Callable[[Gradient], Estimate]
    """A linear combination of sums, with its error."""
    is_part: Callable[[int, int], bool]
    """Whether the records of one count are all among those of another."""
    words: str
    """The method."""
    assumption: str


def evaluated(formula: Formula, row: RowSums) -> Estimate:
    """The estimate of a formula."""
    missing = next((each for each in map(row.total, sums_of(formula)) if math.isnan(each.value)), None)
    if missing is not None:
        return missing
    try:
        linear = _linear(formula, row)
        if linear is not None:
            return _combined(linear, row)
        if isinstance(formula, Arithmetic) and formula.sign == "/":
            parts = _linear(formula.left, row), _linear(formula.right, row)
            if parts[0] is not None and parts[1] is not None:
                return _ratio(formula, parts[0], parts[1], row)
        return _by_delta(formula, row)
    except ZeroDivisionError:
        return Estimate.missing(NO_DENOMINATOR)
    except OverflowError as error:
        raise QueryError("a number of the answer is too large to be computed.") from error


def sums_of(formula: Formula) -> list[int]:
    """The sums that a formula uses."""
    if isinstance(formula, Sum):
        return [formula.number]
    return [] if isinstance(formula, Number) else [*sums_of(formula.left), *sums_of(formula.right)]


def _linear(formula: Formula, row: RowSums) -> Affine | None:
    """The formula as a linear combination, if it is one; sums without error are numbers."""
    if isinstance(formula, Number):
        return Affine(formula.value, {})
    if isinstance(formula, Sum):
        found = row.total(formula.number)
        return Affine(found.value, {}) if found.is_exact else Affine(0.0, {formula.number: 1.0})
    left, right = _linear(formula.left, row), _linear(formula.right, row)
    return None if left is None or right is None else _joined(formula.sign, left, right)


def _joined(sign: str, left: Affine, right: Affine) -> Affine | None:
    """Two linear combinations joined by a sign, if that is one."""
    if sign in "+-":
        return left.plus(right, 1.0 if sign == "+" else -1.0)
    if sign == "/":
        return None if right.factors else left.times(1.0 / right.constant)
    if left.factors and right.factors:
        return None
    return left.times(right.constant) if left.factors else right.times(left.constant)


def _combined(linear: Affine, row: RowSums) -> Estimate:
    if not linear.factors:
        return Estimate.exact(linear.constant)
    if len(linear.factors) == 1:
        ((number, factor),) = linear.factors.items()
        return row.total(number).scaled(factor, linear.constant)
    return row.combined(linear.factors).scaled(1.0, linear.constant)


def _ratio(formula: Arithmetic, upper: Affine, lower: Affine, row: RowSums) -> Estimate:
    """A ratio of two linear combinations."""
    numerator, denominator = _combined(upper, row), _combined(lower, row)
    value = numerator.value / denominator.value
    # The covariance follows from the variances of the two and of numerator - step * denominator.
    step = value if value else 1.0
    residual = upper.plus(lower, -step)
    apart = _variance(residual, row)
    variance, below = _variance(upper, row), _variance(lower, row)
    covariance = (variance + step**2 * below - apart) / (2 * step)
    rest = apart if value else variance
    error = math.sqrt(rest) / abs(denominator.value)
    least, most = _range(formula, row)
    moments = Moments.of(value, error**2, 0.0, most, least)
    beside = [numerator, denominator, *([row.combined(residual.factors)] if residual.factors else [])]
    note = next((each.lasting_note for each in beside if each.lasting_note), None)
    found = Estimate.of(moments, row.words, row.assumption, note, RATIO)
    return replace(found, derived=Ratio(numerator.value, denominator.value, variance, covariance, below))


def _variance(linear: Affine, row: RowSums) -> float:
    error = _combined(Affine(0.0, linear.factors), row).standard_error if linear.factors else 0.0
    if error is None:
        raise QueryError("this method tells no error, so it gives no ratios; use the default one.")
    return error**2


def _range(formula: Arithmetic, row: RowSums) -> tuple[float, float]:
    """Between what a ratio must lie: a share lies between 0 and 1."""
    left, right = formula.left, formula.right
    if isinstance(left, Sum) and isinstance(right, Sum) and row.is_part(left.number, right.number):
        return 0.0, 1.0
    return -math.inf, math.inf


def _by_delta(formula: Formula, row: RowSums) -> Estimate:
    """Any other formula: linearised at the estimates."""
    value, gradient = _differentiated(formula, row)
    used = {number: by for number, by in gradient.items() if by and not row.total(number).is_exact}
    error = row.combined(used).standard_error if used else 0.0
    if error is None:
        raise QueryError("this method tells no error, so it gives no formulas; use the default one.")
    moments = Moments.of(value, error**2, 0.0, math.inf, -math.inf)
    totals = [row.total(each) for each in sums_of(formula)]
    note = next((each.lasting_note for each in totals if each.lasting_note), None)
    return Estimate.of(moments, row.words, row.assumption, note, DELTA)


def _differentiated(formula: Formula, row: RowSums) -> tuple[float, dict[int, float]]:
    """The value of a formula, and its derivative by each sum."""
    if isinstance(formula, Number):
        return formula.value, {}
    if isinstance(formula, Sum):
        return row.total(formula.number).value, {formula.number: 1.0}
    (left, by_left), (right, by_right) = _differentiated(formula.left, row), _differentiated(formula.right, row)
    if formula.sign in "+-":
        sign = 1.0 if formula.sign == "+" else -1.0
        return left + sign * right, _weighed(by_left, 1.0, by_right, sign)
    if formula.sign == "*":
        return left * right, _weighed(by_left, right, by_right, left)
    return left / right, _weighed(by_left, 1 / right, by_right, -left / right**2)


def _weighed(one: Gradient, by_one: float, other: Gradient, by_other: float) -> dict[int, float]:
    numbers = dict.fromkeys((*one, *other))
    return {each: one.get(each, 0.0) * by_one + other.get(each, 0.0) * by_other for each in numbers}
