"""Finds the nearest table without negative numbers that adds up.

Minimise the sum of (x - value)² / variance over all tables x >= 0 with the given sums. The solution has the form x =
max(0, value + variance * m), where m is the sum of one multiplier for each set that contains the cell. One family of
sums has a closed form, set by set. Several families are solved through the multipliers. Applying the closed form to one
family after the other always makes progress, and Newton steps in between make this fast.

Sources: Michelot 1986 for one sum; Qi and Sun 1993 for the Newton method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._query.consistency import conflicting_totals, interior_point
from sfumato._query.consistency.least_squares import moderate_variances, solve_multipliers
from sfumato._query.consistency.sum_constraints import (
    CONFLICT,
    TOLERANCE,
    Family,
    SumConstraints,
    is_near,
    make_checked_sums,
)

MOST_STEPS = 40
MOST_HALVINGS = 30
ZERO_CELL_WEIGHT = 0.1
"""In a step, a zero cell at first counts with this share of its variance, because the step may make it positive."""


def make_consistent(values: Floats, variances: Floats, families: Sequence[Family]) -> Floats:
    """Finds the nearest table to the estimates that has the given sums and no negative numbers.

    Each cell is weighted by its variance. Cells without variance stay unchanged.
    """
    sums = make_checked_sums(values, variances, families)
    conflicting_totals.check_exact(values, variances)
    conflicting_totals.check_sums(sums, has_signs=False)
    # Remove cells that are exact, or zero because their total is zero; the others must add up to the rest.
    table, is_free = np.where(variances > 0, 0.0, values), variances > 0
    while True:
        remainder = sums.totals - sums.add_up(table)
        remainder[np.abs(remainder) <= CONFLICT * np.maximum(1.0, np.abs(sums.totals))] = 0.0
        conflicting_totals.check_remainders(sums, remainder, sums.add_up(is_free.astype(np.float64)) > 0)
        is_zero = sums.spread((remainder == 0).astype(np.float64)) > 0
        if not (is_zero & is_free).any():
            break
        is_free = is_free & ~is_zero
    families = [
        family.restrict(is_free, family_totals)
        for family, family_totals in zip(sums.families, sums.split(remainder), strict=True)
    ]
    rest = SumConstraints(families, int(is_free.sum()))
    table[is_free] = _find_nearest_table(values[is_free], moderate_variances(variances)[is_free], rest, sums)
    return table


def _find_nearest_table(values: Floats, variances: Floats, rest: SumConstraints, sums: SumConstraints) -> Floats:
    """Finds the nearest table if every cell can move."""
    multipliers, lifted = np.zeros(len(rest.totals)), values
    if not len(multipliers) or not rest.size:
        return np.maximum(0.0, values)
    for _ in range(MOST_STEPS):
        multipliers = _sweep_families(values, variances, rest, multipliers)
        lifted = values + variances * rest.spread(multipliers)
        remainder = _compute_remainder(rest, lifted)
        if len(rest.families) == 1 or is_near(rest.totals, rest.totals - remainder, TOLERANCE).all():
            return np.maximum(0.0, lifted)
        multipliers = _take_newton_step(lifted, variances, rest, multipliers, remainder)
    conflicting_totals.check_feasible(rest, sums)
    # This is for sets with little overlap and very different variances. It is slower, but always converges.
    return interior_point.find_nearest_table(values, variances, rest)


def _compute_remainder(rest: SumConstraints, lifted: Floats) -> Floats:
    return rest.totals - rest.add_up(np.maximum(0.0, lifted))


# ------------------------------------------------------------------------------------------------ one family in one go


def _sweep_families(values: Floats, variances: Floats, rest: SumConstraints, multipliers: Floats) -> Floats:
    """Solves for the multipliers of each family in turn. The multipliers of the other families stay fixed."""
    family_multipliers = rest.split(multipliers)
    spread = [family.spread(item) for family, item in zip(rest.families, family_multipliers, strict=True)]
    for number, family in enumerate(rest.families):
        others = np.sum([item for place, item in enumerate(spread) if place != number], axis=0)
        family_multipliers[number] = _solve_family(values + variances * others, variances, family)
        spread[number] = family.spread(family_multipliers[number])
    return np.concatenate(family_multipliers)


def _solve_family(values: Floats, variances: Floats, family: Family) -> Floats:
    """For each set, the number that shifts its cells so that they add up to the set's total.

    The search starts with all cells. It sets cells to zero as long as shifted cells are negative.
    """
    is_above = np.ones(len(values), dtype=np.bool_)
    lifts = np.zeros(len(family.totals))
    while True:
        variance = family.add_up(np.where(is_above, variances, 0.0))
        # If rounding removed the last cell, the previous multiplier is as good as possible.
        lack = family.totals - family.add_up(np.where(is_above, values, 0.0))
        lifts = np.where(variance > 0, lack / np.where(variance > 0, variance, 1.0), lifts)
        stays = is_above & (values + variances * family.spread(lifts) > 0)
        if (stays == is_above).all():
            return lifts
        is_above = stays


# ------------------------------------------------------------------------------------------------- all families at once


def _take_newton_step(
    lifted: Floats, variances: Floats, rest: SumConstraints, multipliers: Floats, remainder: Floats
) -> Floats:
    """Takes one Newton step for all multipliers. The step ends where it no longer approaches the totals."""
    missing = float(np.abs(remainder).max() / max(1.0, float(np.abs(rest.totals).max())))
    weights = np.where(lifted > 0, variances, min(ZERO_CELL_WEIGHT, missing) * variances)
    direction, _ = solve_multipliers(rest, weights, remainder, refinements=1)
    cell_changes = variances * rest.spread(direction)
    start_slope, reach, low, high = float(direction @ remainder), 1.0, 0.0, 1.0
    for _ in range(MOST_HALVINGS):
        # The rate of progress at the end of the step. The step should stop near the point where progress ends.
        end_slope = float(direction @ _compute_remainder(rest, lifted + reach * cell_changes))
        if abs(end_slope) <= start_slope / 10 or (reach == 1.0 and end_slope > 0):
            break
        low, high = (reach, high) if end_slope > 0 else (low, reach)
        reach = (low + high) / 2
    return multipliers + reach * direction
