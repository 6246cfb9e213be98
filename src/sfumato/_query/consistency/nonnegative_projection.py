"""The nearest table without negative numbers that adds up.

Minimise the sum of (x - value)² / variance over all tables x >= 0 with the given sums. The solution has the form
x = max(0, value + variance * m), where m adds up one multiplier for each set that the cell is in. One family of sums is
solved in closed form, set by set. Several are solved through the multipliers: the closed form for one family after the
other always makes progress, and Newton steps between make it fast.

Sources: Michelot 1986 for one sum; Qi and Sun 1993 for the Newton method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.arrays import Floats
from sfumato._query.consistency import conflicting_totals, interior_point
from sfumato._query.consistency.least_squares import moderate_variances, solve_multipliers
from sfumato._query.consistency.sum_constraints import CONFLICT, TOLERANCE, Family, Sums, is_near, make_checked_sums

MOST_STEPS = 40
MOST_HALVINGS = 30
RESTING = 0.1
"""How much of the variance of a cell at zero counts in a step, at first: it may be lifted off by it."""


def make_consistent(values: Floats, variances: Floats, families: Sequence[Family]) -> Floats:
    """The table without negative numbers, with the given sums, that is nearest to the estimates.

    Each cell is weighted by its variance; cells without variance stay as they are.
    """
    sums = make_checked_sums(values, variances, families)
    conflicting_totals.check_exact(values, variances)
    conflicting_totals.check_sums(sums, has_signs=False)
    # Take out the cells that are exact, or zero because they are part of nothing; the others must add up the rest.
    table, is_free = np.where(variances > 0, 0.0, values), variances > 0
    while True:
        left = sums.totals - sums.added(table)
        left[np.abs(left) <= CONFLICT * np.maximum(1.0, np.abs(sums.totals))] = 0.0
        conflicting_totals.check_left(sums, left, sums.added(is_free.astype(np.float64)) > 0)
        is_nothing = sums.spread((left == 0).astype(np.float64)) > 0
        if not (is_nothing & is_free).any():
            break
        is_free = is_free & ~is_nothing
    families = [family.on(is_free, own) for family, own in zip(sums.families, sums.split(left), strict=True)]
    rest = Sums(families, int(is_free.sum()))
    table[is_free] = _find_nearest_table(values[is_free], moderate_variances(variances)[is_free], rest, sums)
    return table


def _find_nearest_table(values: Floats, variances: Floats, rest: Sums, sums: Sums) -> Floats:
    """The nearest table of cells that may all move."""
    multipliers, lifted = np.zeros(len(rest.totals)), values
    if not len(multipliers) or not rest.size:
        return np.maximum(0.0, values)
    for _ in range(MOST_STEPS):
        multipliers = _sweep_families(values, variances, rest, multipliers)
        lifted = values + variances * rest.spread(multipliers)
        left = _compute_remainder(rest, lifted)
        if len(rest.families) == 1 or is_near(rest.totals, rest.totals - left, TOLERANCE).all():
            return np.maximum(0.0, lifted)
        multipliers = _take_newton_step(lifted, variances, rest, multipliers, left)
    conflicting_totals.check_feasible(rest, sums)
    # Sets that hardly overlap and variances of very different sizes: slower, and sure.
    return interior_point.find_nearest_table(values, variances, rest)


def _compute_remainder(rest: Sums, lifted: Floats) -> Floats:
    return rest.totals - rest.added(np.maximum(0.0, lifted))


# ------------------------------------------------------------------------------------------------ one family in one go


def _sweep_families(values: Floats, variances: Floats, rest: Sums, multipliers: Floats) -> Floats:
    """Solve for the multipliers of one family after the other, given those of the others."""
    own = rest.split(multipliers)
    spread = [family.spread(item) for family, item in zip(rest.families, own, strict=True)]
    for number, family in enumerate(rest.families):
        others = np.sum([item for place, item in enumerate(spread) if place != number], axis=0)
        own[number] = _solve_family(values + variances * others, variances, family)
        spread[number] = family.spread(own[number])
    return np.concatenate(own)


def _solve_family(values: Floats, variances: Floats, family: Family) -> Floats:
    """For each set the number by which its cells are lifted so that they add up to its total.

    Begin with all cells, and leave out those that become negative, until none does: those left out were to be zero.
    """
    is_above = np.ones(len(values), dtype=np.bool_)
    lifts = np.zeros(len(family.totals))
    while True:
        variance = family.added(np.where(is_above, variances, 0.0))
        # Where rounding took the last cell, the multiplier that took it is as good as can be.
        lack = family.totals - family.added(np.where(is_above, values, 0.0))
        lifts = np.where(variance > 0, lack / np.where(variance > 0, variance, 1.0), lifts)
        stays = is_above & (values + variances * family.spread(lifts) > 0)
        if (stays == is_above).all():
            return lifts
        is_above = stays


# ------------------------------------------------------------------------------------------------- all families at once


def _take_newton_step(lifted: Floats, variances: Floats, rest: Sums, multipliers: Floats, left: Floats) -> Floats:
    """One Newton step for all multipliers, no further than it leads towards the totals."""
    missing = float(np.abs(left).max() / max(1.0, float(np.abs(rest.totals).max())))
    weights = np.where(lifted > 0, variances, min(RESTING, missing) * variances)
    direction, _ = solve_multipliers(rest, weights, left, refinements=1)
    moved = variances * rest.spread(direction)
    begin, reach, low, high = float(direction @ left), 1.0, 0.0, 1.0
    for _ in range(MOST_HALVINGS):
        # How fast the distance still shrinks at the end of the step: it should stop near where it ends to shrink.
        ahead = float(direction @ _compute_remainder(rest, lifted + reach * moved))
        if abs(ahead) <= begin / 10 or (reach == 1.0 and ahead > 0):
            break
        low, high = (reach, high) if ahead > 0 else (low, reach)
        reach = (low + high) / 2
    return multipliers + reach * direction
