"""Which cell a record goes to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.arrays import Codes, UInts
from sfumato.mechanisms._bucketization.run_lengths import Runs
from sfumato.mechanisms._randomized_response.small_domain.balancing import Group


class CellLayout:
    """The cell of each slot: the slots of a value are cut into runs, one for each cell that holds some of its records.

    A position is a slot counted on from the slots of all values before.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        by_value = np.array(groups, dtype=np.int64).T
        self.runs = Runs(by_value.ravel())
        self.run_cells: Codes = (self.runs.run_numbers % len(groups)).astype(np.min_scalar_type(len(groups)))
        self.first_positions = (np.cumsum(by_value.sum(axis=1)) - by_value.sum(axis=1)).astype(self.runs.type)

    def find_cells(self, codes: Codes, slots: UInts) -> Codes:
        """The cell of each record."""
        positions = self.first_positions.take(codes) + slots.astype(self.runs.type, copy=False)
        return self.run_cells.take(self.runs.find(positions))
