"""Finds the nearest table by an interior-point method, which is slower than multiplier steps but always converges.

Source: Mehrotra 1992, here for the sum of (x - value)² / variance over x >= 0 with given sums. Notation: y =
multipliers of the sums, z = pulls that keep cells at zero, A = a matrix with a row of zeros and ones for each sum. The
solution has (x - value) / variance = Aᵀy + z and xz = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._query.consistency.least_squares import remove_rounding, solve_multipliers
from sfumato._query.consistency.sum_constraints import TOLERANCE, SumConstraints, is_near
from sfumato.errors import InternalError

MOST_STEPS = 200
CLOSE = 1e-9
"""A cell or its pull counts as zero if their product, in units of the cell's variance, is below this."""
STAY_INSIDE = 0.995
LEAST_REACH = 1e-3
REFINEMENTS = 4


@dataclass(frozen=True)
class _State:
    """An iterate, or a direction between iterates."""

    cells: Floats
    multipliers: Floats
    pulls: Floats

    @property
    def gap(self) -> float:
        return float(np.mean(self.cells * self.pulls))

    def move(self, direction: _State, reach: float) -> _State:
        return _State(
            self.cells + reach * direction.cells,
            self.multipliers + reach * direction.multipliers,
            self.pulls + reach * direction.pulls,
        )

    def find_reach(self, direction: _State) -> float:
        """The largest step in a direction, at most 1, before a cell or a pull becomes negative."""
        ends = [1.0]
        for position, change in ((self.cells, direction.cells), (self.pulls, direction.pulls)):
            falls = change < 0
            ends.append(float((-position[falls] / change[falls]).min(initial=1.0)))
        return min(ends)


@dataclass(frozen=True)
class _Program:
    values: Floats
    variances: Floats
    sums: SumConstraints

    def find_direction(self, state: _State, product: Floats) -> _State:
        """The direction in which the sums hold and each cell times its pull equals a given product."""
        stiffness = 1 / self.variances + state.pulls / state.cells
        slope = (state.cells - self.values) / self.variances - self.sums.spread(state.multipliers) - state.pulls
        towards = product / state.cells - state.pulls - slope
        lack = self.sums.totals - self.sums.add_up(state.cells) - self.sums.add_up(towards / stiffness)
        multipliers, _ = solve_multipliers(self.sums, 1 / stiffness, lack, REFINEMENTS)
        cells = (self.sums.spread(multipliers) + towards) / stiffness
        return _State(cells, multipliers, (product - state.pulls * cells) / state.cells - state.pulls)

    def is_solved(self, state: _State) -> bool:
        adds_up = is_near(self.sums.totals, self.sums.add_up(state.cells), np.sqrt(TOLERANCE)).all()
        return bool(adds_up) and float((state.cells * state.pulls).max()) <= CLOSE

    def step(self, state: _State) -> _State:
        """Takes one step: measures the distance to the boundary, corrects the direction, and moves."""
        first = self.find_direction(state, np.zeros(len(state.cells)))
        reach = state.find_reach(first)
        aim = state.gap * (state.move(first, reach).gap / state.gap) ** 3
        second = self.find_direction(state, aim - first.cells * first.pulls)
        next_state = state.move(second, STAY_INSIDE * state.find_reach(second))
        if next_state.gap < state.gap:
            return next_state
        # The corrected step made no progress, and might never make any. So the step goes towards the centre as long as
        # this closes the gap. A short step always closes a part of the gap, because cells and pulls that add up change
        # in the same direction.
        careful = self.find_direction(state, np.full(len(state.cells), state.gap / 3))
        reach = STAY_INSIDE * state.find_reach(careful)
        while reach > LEAST_REACH and state.move(careful, reach).gap >= state.gap:
            reach /= 2
        return state.move(careful, reach)


def find_nearest_table(values: Floats, variances: Floats, sums: SumConstraints) -> Floats:
    """Finds the table without negative numbers that is nearest to the estimates.

    A table with these sums must exist.
    """
    program = _Program(values, variances, sums)
    errors = np.sqrt(variances)
    state = _State(np.maximum(values, errors), np.zeros(len(sums.totals)), 1 / errors)
    for _ in range(MOST_STEPS):
        if program.is_solved(state):
            # Cells with a positive pull become zero, and the others add up exactly.
            is_above = state.cells > state.pulls * variances
            table, _ = remove_rounding(np.where(is_above, state.cells, 0.0), is_above, sums)
            return np.maximum(0.0, table)
        state = program.step(state)
    raise InternalError("no consistent table was found, although one exists.", code="no-consistent-table")
