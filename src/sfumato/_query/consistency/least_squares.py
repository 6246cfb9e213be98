"""Finds the nearest table that adds up, by generalised least squares (calibration). Cells may be negative.

Source: Deville and Särndal 1992, the linear method. Minimise the sum of (x - value)² / variance over all tables x with
the given sums. The result is linear in the estimates. So it is unbiased if the totals are right and the variances are
treated as known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato._core.array_types import Floats, Mask
from sfumato._query.consistency import conflicting_totals
from sfumato._query.consistency.sum_constraints import (
    CONFLICT,
    TOLERANCE,
    Family,
    SumConstraints,
    is_near,
    make_checked_sums,
)
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from scipy import sparse

RIDGE = 1e-9
"""A small number that is added to the diagonal of a system whose equations may be redundant."""
SMALLEST_WEIGHT = 1e-6
"""The smallest weight of a cell, as a share of the largest weight."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibrated table, and the dependence of each cell on the estimates."""

    values: Floats
    variances: Floats
    """The variances of the original estimates."""
    weights: Floats
    """The weights by which cells move. They are the variances, unless these are very small."""
    sums: SumConstraints

    def compute_coefficients(self, cell: int) -> Floats:
        """The factors of the estimates in a calibrated cell.

        The cell is a sum of factors times estimates and a known number. These factors and the covariance of the
        estimates give the error of the cell. Exact cells are part of the known number.
        """
        coefficients = np.zeros(len(self.values))
        if self.variances[cell] == 0:
            return coefficients
        coefficients[cell] = 1.0
        if len(self.sums.totals):
            multipliers, _ = solve_multipliers(self.sums, self.weights, self.sums.add_up(coefficients))
            coefficients -= self.weights[cell] * self.sums.spread(multipliers)
        return np.where(self.variances > 0, coefficients, 0.0)

    def compute_uncorrelated_error(self, cell: int) -> float:
        """The standard error of a cell, assuming that the errors of the estimates are uncorrelated.

        Estimates of several values in the same public group are correlated. Often these estimates add up already, and
        then this standard error is too small. Estimates of one value in different groups are uncorrelated, unless
        records were dealt to buckets.
        """
        return math.sqrt(float((self.compute_coefficients(cell) ** 2 * self.variances).sum()))


def calibrate(values: Floats, variances: Floats, families: Sequence[Family]) -> Calibration:
    """The nearest table to the estimates that has the given sums. Each cell is weighted by its variance.

    Cells without variance stay unchanged.
    """
    sums = make_checked_sums(values, variances, families)
    if not len(sums.totals):
        return Calibration(values.copy(), variances, variances, sums)
    conflicting_totals.check_sums(sums, has_signs=True)
    weights = moderate_variances(variances)
    multipliers, _ = solve_multipliers(sums, weights, sums.totals - sums.add_up(values))
    calibrated_values, remainder = remove_rounding(values + weights * sums.spread(multipliers), weights > 0, sums)
    if not is_near(sums.totals, sums.totals - remainder, CONFLICT).all():
        raise conflicting_totals.explain_equations(sums, remainder)
    return Calibration(calibrated_values, variances, weights, sums)


def moderate_variances(variances: Floats) -> Floats:
    """The variances as weights.

    The smallest weights are raised so that numbers of very different sizes can be computed together.
    """
    least = SMALLEST_WEIGHT * float(variances.max(initial=0.0))
    return np.where(variances > 0, np.maximum(variances, least), 0.0)


def remove_rounding(table: Floats, may_move: Mask, sums: SumConstraints) -> tuple[Floats, Floats]:
    """Removes rounding differences between a table and its sums. Also returns differences with other causes."""
    multipliers, remainder = solve_multipliers(sums, may_move.astype(np.float64), sums.totals - sums.add_up(table))
    return table + np.where(may_move, sums.spread(multipliers), 0.0), remainder


def solve_multipliers(
    sums: SumConstraints, weights: Floats, changes: Floats, refinements: int = 60
) -> tuple[Floats, Floats]:
    """Multipliers that change the sums as requested. Each cell moves in proportion to its weight.

    Also returns the part of the request that no multipliers can reach.
    """
    solve = make_solver(sums, weights, RIDGE)
    multipliers, remainder = np.zeros(len(changes)), changes
    for _ in range(refinements):
        if np.abs(remainder).max() <= TOLERANCE / 100 * max(1.0, float(np.abs(changes).max())):
            break
        multipliers = multipliers + solve(remainder)
        remainder = changes - sums.add_up(weights * sums.spread(multipliers))
    return multipliers, remainder


def make_solver(sums: SumConstraints, weights: Floats, ridge: float) -> Callable[[Floats], Floats]:
    """Returns a function that turns changes of the sums into multipliers. Cells move in proportion to their weights.

    The sets of one family share no cell. So the largest family is solved by division. Only the other families need
    elimination.
    """
    from scipy import sparse  # noqa: PLC0415 - most answers do without it

    matrix = sums.matrix
    normal = (matrix * weights) @ matrix.T
    diagonal = normal.diagonal()
    # A diagonal of ones makes the system equally accurate for groups of ten records and of a million.
    scale = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    scaled = sparse.csr_array(normal * scale[:, np.newaxis] * scale[np.newaxis, :])
    large = sums.is_largest
    divisor = np.where(diagonal[large] > 0, 1.0, 0.0) + ridge
    shared = sparse.csr_array(scaled[large][:, ~large])
    others = scaled[~large][:, ~large] + ridge * sparse.eye_array(int((~large).sum()))
    eliminated = _factorize(sparse.csc_array(others - shared.T @ (shared / divisor[:, np.newaxis])))

    def solve(changes: Floats) -> Floats:
        changes, solution = scale * changes, np.zeros(len(scale))
        solution[~large] = eliminated(changes[~large] - shared.T @ (changes[large] / divisor))
        solution[large] = (changes[large] - shared @ solution[~large]) / divisor
        return scale * solution

    return solve


def _factorize(system: sparse.csc_array) -> Callable[[Floats], Floats]:
    from scipy.sparse.linalg import splu  # noqa: PLC0415

    if not system.shape[0]:
        return lambda changes: changes
    try:
        factors = splu(system, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    except RuntimeError as error:
        raise QueryError(
            "the table cannot be made to add up, because the sizes of its variances differ too much.",
            code="unequal-variances",
        ) from error
    return lambda changes: np.asarray(factors.solve(changes), dtype=np.float64)
