"""The nearest table from inside: all cells stay positive until the end. Slower than steps by multipliers, and sure.

Source: Mehrotra 1992, for the sum of (x - value)² / variance over x >= 0 with given sums.
Notation: y = multipliers of the sums, z = pulls that keep cells at zero; in the end (x - value) / variance = Aᵀy + z
and xz = 0, where A has a row of zeros and ones for each sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import Floats
from sfumato._query.consistency.least_squares import remove_rounding, solve_multipliers
from sfumato._query.consistency.sum_constraints import TOLERANCE, Sums, is_near
from sfumato.errors import InternalError

MOST_STEPS = 200
CLOSE = 1e-9
"""The product of a cell and its pull, in units of its variance, at which one of them is taken to be zero."""
STAY_INSIDE = 0.995
LEAST_REACH = 1e-3
REFINEMENTS = 4


@dataclass(frozen=True)
class _State:
    """Where one is, or the way from there to another place."""

    cells: Floats
    multipliers: Floats
    pulls: Floats

    @property
    def gap(self) -> float:
        return float(np.mean(self.cells * self.pulls))

    def moved(self, by: _State, reach: float) -> _State:
        return _State(
            self.cells + reach * by.cells,
            self.multipliers + reach * by.multipliers,
            self.pulls + reach * by.pulls,
        )

    def reach(self, by: _State) -> float:
        """How far one can go until a cell or a pull is zero, at most 1."""
        ends = [1.0]
        for have, change in ((self.cells, by.cells), (self.pulls, by.pulls)):
            falls = change < 0
            ends.append(float((-have[falls] / change[falls]).min(initial=1.0)))
        return min(ends)


@dataclass(frozen=True)
class _Program:
    values: Floats
    variances: Floats
    sums: Sums

    def direction(self, at: _State, product: Floats) -> _State:
        """Where to go so that the sums hold and each cell times its pull is a given product."""
        stiffness = 1 / self.variances + at.pulls / at.cells
        slope = (at.cells - self.values) / self.variances - self.sums.spread(at.multipliers) - at.pulls
        towards = product / at.cells - at.pulls - slope
        lack = self.sums.totals - self.sums.added(at.cells) - self.sums.added(towards / stiffness)
        multipliers, _ = solve_multipliers(self.sums, 1 / stiffness, lack, REFINEMENTS)
        cells = (self.sums.spread(multipliers) + towards) / stiffness
        return _State(cells, multipliers, (product - at.pulls * cells) / at.cells - at.pulls)

    def is_solved(self, at: _State) -> bool:
        adds_up = is_near(self.sums.totals, self.sums.added(at.cells), np.sqrt(TOLERANCE)).all()
        return bool(adds_up) and float((at.cells * at.pulls).max()) <= CLOSE

    def stepped(self, at: _State) -> _State:
        """Look how far one gets towards the edge, aim at the middle accordingly, and go."""
        first = self.direction(at, np.zeros(len(at.cells)))
        reach = at.reach(first)
        aim = at.gap * (at.moved(first, reach).gap / at.gap) ** 3
        second = self.direction(at, aim - first.cells * first.pulls)
        next_state = at.moved(second, STAY_INSIDE * at.reach(second))
        if next_state.gap < at.gap:
            return next_state
        # The correction led astray, and could do so for ever: go towards the middle, as far as that closes the gap. A
        # short way does, because cells and pulls that add up change in the same direction.
        careful = self.direction(at, np.full(len(at.cells), at.gap / 3))
        reach = STAY_INSIDE * at.reach(careful)
        while reach > LEAST_REACH and at.moved(careful, reach).gap >= at.gap:
            reach /= 2
        return at.moved(careful, reach)


def find_nearest_table(values: Floats, variances: Floats, sums: Sums) -> Floats:
    """The table without negative numbers, with sums that some such table has, that is nearest to the estimates."""
    program = _Program(values, variances, sums)
    errors = np.sqrt(variances)
    at = _State(np.maximum(values, errors), np.zeros(len(sums.totals)), 1 / errors)
    for _ in range(MOST_STEPS):
        if program.is_solved(at):
            # Cells that the pull holds down become zero, and the others add up exactly.
            is_above = at.cells > at.pulls * variances
            table, _ = remove_rounding(np.where(is_above, at.cells, 0.0), is_above, sums)
            return np.maximum(0.0, table)
        at = program.stepped(at)
    raise InternalError("no consistent table was found though there is one.")
