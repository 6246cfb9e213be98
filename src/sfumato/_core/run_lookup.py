"""Runs of a long row of places: which run each place is in."""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Counts, UInts

MORE_BITS, MOST_BITS = 6, 20
"""The table that leads to a run has so many bits of entries more than there are runs, so that it seldom leads to one
before; and so many at most, however long the row is. The smaller it is, the nearer it stays to a core."""


class Runs:
    """Runs one after the other; those of no length are passed over."""

    def __init__(self, lengths: Counts) -> None:
        self.run_numbers = np.flatnonzero(lengths)
        """The number of each run among the lengths that were given."""
        self.lengths = lengths[self.run_numbers]
        ends = np.cumsum(lengths)[self.run_numbers]
        total = int(ends[-1])
        self.type = np.dtype(np.uint32 if total < 2**32 else np.uint64)
        self._ends = ends.astype(self.type)
        table_bits = min(len(self.run_numbers).bit_length() + MORE_BITS, MOST_BITS)
        self._bits = self.type.type(max(0, total.bit_length() - table_bits))
        steps = np.arange(0, total, 1 << int(self._bits))
        self._table = np.searchsorted(ends, steps, side="right").astype(np.int32)

    def find(self, places: UInts) -> UInts:
        """The run of each place: a table leads to it or before it, and what is left behind is searched for."""
        runs: UInts = self._table.take(places >> self._bits)
        behind = np.flatnonzero(self._ends.take(runs) <= places)
        runs[behind] = np.searchsorted(self._ends, places[behind], side="right")
        return runs
