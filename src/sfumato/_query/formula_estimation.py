"""Estimates formulas over sums, such as linear combinations, ratios, and other arithmetic and functions.

A formula is a tree over numbers and sums. The error of a formula is computed from its linearised residual. The residual
is again a sum over records: each record adds its contribution to the formula at the estimates. A function around a
formula is applied to the formula's interval. For example, the interval for the logarithm of a ratio ends at the
logarithms of Fieller's ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sfumato._query.estimate import Estimate, Ratio, TransformedEstimate
from sfumato._query.parser.query_size import MOST_PARTS, explain_too_large
from sfumato._query.scalar_functions import Function, NoNumber
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Moments


@dataclass(frozen=True)
class Number:
    """A constant in a formula."""

    value: float


@dataclass(frozen=True)
class Sum:
    """A reference to one of the sums, by its number."""

    number: int


@dataclass(frozen=True)
class Linear:
    """A known number plus sums, each times a known factor."""

    constant: float
    factors: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Arithmetic:
    """Two formulas joined by + - * or /."""

    sign: str
    left: Formula
    right: Formula
    parts: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _count_parts(self.left, self.right))


@dataclass(frozen=True)
class FunctionCall:
    """A function of a formula."""

    function: Function
    inner: Formula
    parts: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _count_parts(self.inner))


Formula = Number | Sum | Linear | Arithmetic | FunctionCall


def _count_parts(*inner: Formula) -> int:
    """Counts the parts of a formula, up to a limit. A repeated part counts each time."""
    parts = 1 + sum(part.parts if isinstance(part, Arithmetic | FunctionCall) else 1 for part in inner)
    if parts > MOST_PARTS:
        raise explain_too_large(MOST_PARTS, "sums, numbers and signs for one number of the answer")
    return parts


Gradient = Mapping[int, float]
"""The derivatives of a number with respect to the sums, by the number of the sum."""

RATIO = "ratio with Fieller's confidence interval"
DELTA = "formula by the delta method, with a normal confidence interval"
FUNCTION = "function of a number, applied to both ends of its interval"
NO_DENOMINATOR = "the denominator is zero"


@dataclass(frozen=True)
class Affine:
    """A known number plus sums with known factors."""

    constant: float
    factors: Gradient

    def add(self, other: Affine, sign: float) -> Affine:
        """The sum or the difference of two linear combinations."""
        numbers = dict.fromkeys((*self.factors, *other.factors))
        factors = {
            sum_number: self.factors.get(sum_number, 0.0) + sign * other.factors.get(sum_number, 0.0)
            for sum_number in numbers
        }
        return Affine(
            self.constant + sign * other.constant,
            {sum_number: coefficient for sum_number, coefficient in factors.items() if coefficient},
        )

    def scale(self, factor: float) -> Affine:
        """The linear combination times a number."""
        factors = {
            sum_number: coefficient * factor for sum_number, coefficient in self.factors.items() if coefficient * factor
        }
        return Affine(self.constant * factor, factors)


@dataclass(frozen=True)
class RowSums:
    """The sums of one row of the answer."""

    estimate_total: Callable[[int], Estimate]
    """Estimates a sum by its number."""
    estimate_combination: Callable[[Gradient], Estimate]
    """Estimates a linear combination of sums."""
    compute_ratio_bounds: Callable[[Affine, Affine], tuple[float, float]]
    """Bounds a ratio. For example, a share lies between 0 and 1."""
    method_label: str
    """The label of the method."""
    assumption: str


def evaluate_formula(formula: Formula, row: RowSums) -> Estimate:  # noqa: PLR0911 - one for each kind
    """Estimates a formula."""
    missing = next((total for total in map(row.estimate_total, list_sums(formula)) if math.isnan(total.value)), None)
    if missing is not None:
        return missing
    try:
        if isinstance(formula, FunctionCall):
            return _apply_function(formula.function, evaluate_formula(formula.inner, row))
        linear = _linearize(formula, row)
        if linear is not None:
            return _estimate_affine(linear, row)
        if isinstance(formula, Arithmetic) and formula.sign == "/":
            parts = _linearize(formula.left, row), _linearize(formula.right, row)
            if parts[0] is not None and parts[1] is not None:
                return _estimate_ratio(parts[0], parts[1], row)
        return _estimate_by_delta(formula, row)
    except ZeroDivisionError:
        return Estimate.missing(NO_DENOMINATOR)
    except NoNumber as error:
        return Estimate.missing(str(error))
    except OverflowError as error:
        raise QueryError("a number of the answer is too large to compute.", code="number-too-large") from error


def list_sums(formula: Formula) -> list[int]:
    """The sums that a formula uses."""
    return list(dict.fromkeys(_find_sums(formula)))


def _find_sums(formula: Formula) -> Iterator[int]:
    if isinstance(formula, Sum):
        yield formula.number
    elif isinstance(formula, Linear):
        yield from (number for number, _ in formula.factors)
    elif isinstance(formula, FunctionCall):
        yield from _find_sums(formula.inner)
    elif isinstance(formula, Arithmetic):
        yield from _find_sums(formula.left)
        yield from _find_sums(formula.right)


def add_formulas(formulas: Sequence[Formula]) -> Formula:
    """The sum of many formulas."""
    constant, factors = 0.0, dict[int, float]()
    others: list[Formula] = []
    for formula in formulas:
        if isinstance(formula, Number):
            constant += formula.value
        elif isinstance(formula, Sum | Linear):
            linear = formula if isinstance(formula, Linear) else Linear(0.0, ((formula.number, 1.0),))
            constant += linear.constant
            for number, coefficient in linear.factors:
                factors[number] = factors.get(number, 0.0) + coefficient
        else:
            others.append(formula)
    if not others or constant or factors:
        others.append(_simplify_linear(Linear(constant, tuple(factors.items()))))
    while len(others) > 1:  # adding in pairs keeps the tree shallow
        pairs = [others[at : at + 2] for at in range(0, len(others), 2)]
        others = [Arithmetic("+", *pair) if pair[1:] else pair[0] for pair in pairs]
    return others[0]


def _simplify_linear(linear: Linear) -> Formula:
    if not linear.factors:
        return Number(linear.constant)
    if linear.constant == 0.0 and len(linear.factors) == 1 and linear.factors[0][1] == 1.0:
        return Sum(linear.factors[0][0])
    return linear


def substitute_sums(formula: Formula, sums: Callable[[int], Formula]) -> Formula:
    """Replaces each sum in a formula by another formula."""
    if isinstance(formula, Sum):
        return sums(formula.number)
    if isinstance(formula, FunctionCall):
        return FunctionCall(formula.function, substitute_sums(formula.inner, sums))
    if isinstance(formula, Arithmetic):
        return Arithmetic(formula.sign, substitute_sums(formula.left, sums), substitute_sums(formula.right, sums))
    return formula


def compute_value(formula: Formula, row: RowSums) -> float:
    """The value of a formula without its error. NaN if the formula has no value."""
    try:
        return _differentiate(formula, row, with_gradient=False)[0]
    except (ZeroDivisionError, NoNumber):
        return math.nan
    except OverflowError as error:
        raise QueryError("a number of the answer is too large to compute.", code="number-too-large") from error


def _apply_function(function: Function, inner: Estimate) -> Estimate:
    """Applies a function to an estimate and to its interval."""
    if math.isnan(inner.value):
        return inner
    value, slope = function.evaluate(inner.value), function.compute_slope(inner.value)
    if inner.is_exact:
        return Estimate.exact(value)
    error = inner.standard_error
    least, most = function.map_interval(*inner.bounds)
    moments = Moments.of(value, None if error is None else (slope * error) ** 2, 0.0, most, least)
    method_label = inner.method if inner.derivation is None else inner.method.removesuffix(f"; {inner.derivation}")
    image = Estimate.of(moments, method_label, inner.assumption, inner.lasting_note, FUNCTION)
    return replace(image, origin=TransformedEstimate(inner, function))


def _linearize(formula: Formula, row: RowSums) -> Affine | None:
    """The formula as a linear combination. None if it is not linear. Exact sums become constants."""
    if isinstance(formula, Number):
        return Affine(formula.value, {})
    if isinstance(formula, Sum):
        return _make_affine(Linear(0.0, ((formula.number, 1.0),)), row)
    if isinstance(formula, Linear):
        return _make_affine(formula, row)
    if isinstance(formula, FunctionCall):
        return None
    left, right = _linearize(formula.left, row), _linearize(formula.right, row)
    return None if left is None or right is None else _join_affine(formula.sign, left, right)


def _make_affine(linear: Linear, row: RowSums) -> Affine:
    """Replaces exact sums by constants. Several sums become one constant if only their total is exact."""
    constant, factors = linear.constant, dict[int, float]()
    for number, coefficient in linear.factors:
        total = row.estimate_total(number)
        if total.is_exact:
            constant += coefficient * total.value
        else:
            factors[number] = coefficient
    if len(factors) > 1 and (combination := row.estimate_combination(factors)).is_exact:
        return Affine(constant + combination.value, {})
    return Affine(constant, factors)


def _join_affine(sign: str, left: Affine, right: Affine) -> Affine | None:
    """Joins two linear combinations by an operator, if the result is linear."""
    if sign in "+-":
        return left.add(right, 1.0 if sign == "+" else -1.0)
    if sign == "/":
        return None if right.factors else left.scale(1.0 / right.constant)
    if left.factors and right.factors:
        return None
    return left.scale(right.constant) if left.factors else right.scale(left.constant)


def _estimate_affine(linear: Affine, row: RowSums) -> Estimate:
    if not linear.factors:
        return Estimate.exact(linear.constant)
    if len(linear.factors) == 1:
        ((number, factor),) = linear.factors.items()
        return row.estimate_total(number).scale(factor, linear.constant)
    return row.estimate_combination(linear.factors).scale(1.0, linear.constant)


def _estimate_ratio(upper: Affine, lower: Affine, row: RowSums) -> Estimate:
    """Estimates a ratio of two linear combinations."""
    numerator, denominator = _estimate_affine(upper, row), _estimate_affine(lower, row)
    value = numerator.value / denominator.value
    # The covariance follows from the variances of the numerator, the denominator, and numerator - step * denominator.
    step = value if value else 1.0
    residual = upper.add(lower, -step)
    residual_variance = _compute_variance(residual, row)
    variance, denominator_variance = _compute_variance(upper, row), _compute_variance(lower, row)
    covariance = (variance + step**2 * denominator_variance - residual_variance) / (2 * step)
    error_variance = residual_variance if value else variance
    error = math.sqrt(error_variance) / abs(denominator.value)
    least, most = row.compute_ratio_bounds(upper, lower)
    moments = Moments.of(value, error**2, 0.0, most, least)
    estimates = [numerator, denominator, *([row.estimate_combination(residual.factors)] if residual.factors else [])]
    note = next((estimate.lasting_note for estimate in estimates if estimate.lasting_note), None)
    ratio = Estimate.of(moments, row.method_label, row.assumption, note, RATIO)
    return replace(ratio, origin=Ratio(numerator.value, denominator.value, variance, covariance, denominator_variance))


def _compute_variance(linear: Affine, row: RowSums) -> float:
    error = _estimate_affine(Affine(0.0, linear.factors), row).standard_error if linear.factors else 0.0
    if error is None:
        raise QueryError(
            "this method gives no errors, so it cannot estimate ratios; use the default method.",
            code="method-without-errors",
            fields={"operation": "ratio"},
        )
    return error**2


def _estimate_by_delta(formula: Formula, row: RowSums) -> Estimate:
    """Estimates any other formula, after linearising it at the estimates."""
    value, gradient = _differentiate(formula, row)
    used_gradient = {
        number: coefficient
        for number, coefficient in gradient.items()
        if coefficient and not row.estimate_total(number).is_exact
    }
    if not used_gradient:
        return Estimate.exact(value)
    error = row.estimate_combination(used_gradient).standard_error
    if error is None:
        raise QueryError(
            "this method gives no errors, so it cannot estimate formulas; use the default method.",
            code="method-without-errors",
            fields={"operation": "formula"},
        )
    moments = Moments.of(value, error**2, 0.0, math.inf, -math.inf)
    totals = [row.estimate_total(item) for item in list_sums(formula)]
    note = next((item.lasting_note for item in totals if item.lasting_note), None)
    return Estimate.of(moments, row.method_label, row.assumption, note, DELTA)


def _differentiate(  # noqa: PLR0911 - one for each kind
    formula: Formula, row: RowSums, *, with_gradient: bool = True
) -> tuple[float, dict[int, float]]:
    """The value of a formula. On request, also its derivative with respect to each sum."""
    if isinstance(formula, Number):
        return formula.value, {}
    if isinstance(formula, Sum):
        return row.estimate_total(formula.number).value, {formula.number: 1.0}
    if isinstance(formula, Linear):
        value = formula.constant + sum(
            coefficient * row.estimate_total(number).value for number, coefficient in formula.factors
        )
        return value, dict(formula.factors) if with_gradient else {}
    if isinstance(formula, FunctionCall):
        inner, by_inner = _differentiate(formula.inner, row, with_gradient=with_gradient)
        return formula.function.evaluate(inner), _weigh_gradients(
            by_inner, formula.function.compute_slope(inner), {}, 0.0
        )
    left, by_left = _differentiate(formula.left, row, with_gradient=with_gradient)
    right, by_right = _differentiate(formula.right, row, with_gradient=with_gradient)
    if formula.sign in "+-":
        sign = 1.0 if formula.sign == "+" else -1.0
        return left + sign * right, _weigh_gradients(by_left, 1.0, by_right, sign)
    if formula.sign == "*":
        return left * right, _weigh_gradients(by_left, right, by_right, left)
    return left / right, _weigh_gradients(by_left, 1 / right, by_right, -left / right**2)


def _weigh_gradients(one: Gradient, by_one: float, other: Gradient, by_other: float) -> dict[int, float]:
    numbers = dict.fromkeys((*one, *other))
    return {
        sum_number: one.get(sum_number, 0.0) * by_one + other.get(sum_number, 0.0) * by_other for sum_number in numbers
    }
