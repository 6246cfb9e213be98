"""The sums in all rows of all parts of a query, with the error of any linear combination.

The rows of one part come from the same records. So their errors depend on each other and are computed jointly. For
several parts of a query, the errors are added up. The result is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._query.estimate import Estimate
from sfumato._query.formula_estimation import (
    Affine,
    Formula,
    Gradient,
    RowSums,
    Sum,
    compute_value,
    evaluate_formula,
    list_sums,
)
from sfumato._query.group_estimation import UPPER_BOUND, Factors, GroupCell, GroupEstimator
from sfumato._query.parser.aggregates import Total
from sfumato._query.parser.conditions import Condition
from sfumato._records.tally import Key
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Method, Moments

JOINT_ERROR = "combination of estimates from several parts of the query; its error is the sum of their errors"


NOT_COMBINED = (
    "a median or quantile cannot be combined with another estimate, because the error is not known. Select the two as "
    "separate columns; each may be scaled, rounded or compared."
)


@dataclass(frozen=True)
class _Leaf:
    """A sum of one row of one part of a query."""

    estimator: GroupEstimator
    cell: GroupCell
    number: int

    @property
    def is_count(self) -> bool:
        question = self.estimator.question
        return question.totals[self.number] == Total(Condition()) and not question.where.mixed_parts


@dataclass
class JointSums:
    """All numbered sums of a query, and the formulas over these sums."""

    method: Method[object]
    leaves: list[_Leaf | Estimate] = field(default_factory=list)
    """The sums of rows, and other numbers with their own estimates."""
    formulas: list[Formula] = field(default_factory=list)
    """The formulas of the columns of rows, by their numbers."""
    _numbers: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _combinations: dict[frozenset[tuple[int, float]], Estimate] = field(default_factory=dict)
    _estimates: dict[Formula, Estimate] = field(default_factory=dict)

    def add_leaf(self, estimator: GroupEstimator, cell: GroupCell, number: int) -> int:
        """Adds a sum of one row and returns its number."""
        key = (id(estimator), id(cell), number)
        if key not in self._numbers:
            self._numbers[key] = len(self.leaves)
            self.leaves.append(_Leaf(estimator, cell, number))  # keeping both objects alive keeps their ids unique
        return self._numbers[key]

    def add_estimate(self, estimate: Estimate) -> int:
        """Adds an estimate that is not a sum and returns its number."""
        self.leaves.append(estimate)
        return len(self.leaves) - 1

    def _get_sum(self, leaf: int) -> _Leaf:
        leaf_sum = self.leaves[leaf]
        if isinstance(leaf_sum, Estimate):
            raise QueryError(NOT_COMBINED, code="not-combined")
        return leaf_sum

    def estimate_total(self, leaf: int) -> Estimate:
        """Estimates one sum."""
        leaf_sum = self.leaves[leaf]
        if isinstance(leaf_sum, Estimate):
            return leaf_sum
        return leaf_sum.estimator.estimate_total(leaf_sum.number, leaf_sum.cell)

    def add_formula(self, formula: Formula) -> int:
        """Adds a formula and returns the number that rows of tables use for it."""
        self.formulas.append(formula)
        return len(self.formulas) - 1

    def find_value(self, formula: Formula) -> float | None:
        """The value of a formula. None if the formula has no value."""
        number = compute_value(formula, self.row)
        return number if math.isfinite(number) else None

    def estimate(self, number: int) -> Estimate:
        """Estimates a formula, given by its number."""
        return self.evaluate(self.formulas[number])

    def evaluate(self, formula: Formula) -> Estimate:
        """Estimates a formula. Each formula is estimated only once."""
        if formula not in self._estimates:
            self._estimates[formula] = evaluate_formula(formula, self.row)
        return self._estimates[formula]

    def is_count(self, number: int) -> bool:
        """Whether a formula is a single COUNT(*) of records, without a condition that mixes columns."""
        formula = self.formulas[number]
        leaf = self.leaves[formula.number] if isinstance(formula, Sum) else None
        return isinstance(leaf, _Leaf) and leaf.is_count

    def is_exact(self, number: int) -> bool:
        """Whether the sums in a formula alone show that the formula has no error."""
        return all(self.estimate_total(leaf).is_exact for leaf in list_sums(self.formulas[number]))

    @property
    def row(self) -> RowSums:
        """All sums in the form of a single row."""
        return RowSums(
            self.estimate_total,
            self.estimate_combination,
            self._compute_ratio_bounds,
            self.method.label,
            self.method.assumption,
        )

    def estimate_combination(self, gradient: Gradient) -> Estimate:
        """Estimates a linear combination of sums."""
        key = frozenset(gradient.items())
        if key not in self._combinations:
            self._combinations[key] = self._add_estimates(
                [self._estimate_part(*part) for part in self._split_by_part(gradient)]
            )
        return self._combinations[key]

    def _split_by_part(self, gradient: Gradient) -> list[tuple[GroupEstimator, Gradient]]:
        parts_by_estimator: dict[int, tuple[GroupEstimator, dict[int, float]]] = {}
        for leaf, factor in gradient.items():
            estimator = self._get_sum(leaf).estimator
            parts_by_estimator.setdefault(id(estimator), (estimator, {}))[1][leaf] = factor
        return list(parts_by_estimator.values())

    def _estimate_part(self, estimator: GroupEstimator, gradient: Gradient) -> Estimate:
        """Estimates the contribution of one part of the query. It may be a single count over several rows."""
        if len({id(self._get_sum(leaf).cell) for leaf in gradient}) == 1:
            return estimator.estimate_sum(self._collect_factors(gradient))
        common = set(gradient.values())
        common_factor = common.pop() if len(common) == 1 else 1.0
        return estimator.estimate_combination(
            self._collect_factors({leaf: factor / common_factor for leaf, factor in gradient.items()})
        ).scale(common_factor, 0.0)

    def _collect_factors(self, gradient: Gradient) -> Factors:
        factors_by_key: dict[Key, dict[int, Floats]] = {}
        for number, factor in gradient.items():
            leaf = self._get_sum(number)
            sums = factors_by_key.setdefault(leaf.cell.public_key, {})
            sums[leaf.number] = sums.get(leaf.number, np.zeros(len(leaf.cell.mask))) + factor * leaf.cell.mask
        return factors_by_key

    def _add_estimates(self, parts: list[Estimate]) -> Estimate:
        if len(parts) == 1:
            return parts[0]
        uncertain = [estimate for estimate in parts if not estimate.is_exact]
        value = sum(estimate.value for estimate in parts)
        if not uncertain:
            return Estimate.exact(value)
        if len(uncertain) == 1:
            return uncertain[0].scale(1.0, value - uncertain[0].value)
        errors = [estimate.standard_error for estimate in uncertain]
        error = None if None in errors else sum(estimate for estimate in errors if estimate is not None) ** 2
        least, most = (sum(estimate.bounds[end] for estimate in parts) for end in (0, 1))
        moments = Moments.of(value, error, 0.0, most, least)
        return Estimate.of(moments, self.method.label, self.method.assumption, UPPER_BOUND, JOINT_ERROR)

    def _compute_ratio_bounds(self, upper: Affine, lower: Affine) -> tuple[float, float]:
        parts = [self._split_by_part(affine.factors) for affine in (upper, lower)]
        estimators = {id(estimator): estimator for part in parts for estimator, _ in part}
        if len(estimators) != 1 or upper.constant or lower.constant:
            return -math.inf, math.inf
        (estimator,) = estimators.values()
        return estimator.compute_ratio_bounds(
            self._collect_factors(upper.factors), self._collect_factors(lower.factors)
        )
