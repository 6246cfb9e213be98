"""Finds the run of each position in a long sequence of runs."""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Counts, UInts

MORE_BITS, MOST_BITS = 6, 20
"""The lookup table has 2^`MORE_BITS` times as many entries as there are runs, so that it rarely
points to an earlier run than the right one. It has at most 2^`MOST_BITS` entries, because a small table fits into the
cache of a processor core."""


class Runs:
    """Consecutive runs. Runs of length zero are skipped."""

    def __init__(self, lengths: Counts) -> None:
        self.run_numbers = np.flatnonzero(lengths)
        """The position of each run in the list of all lengths."""
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
        """Finds the run of each position.

        A table gives this run or an earlier one, and a search corrects the earlier ones.
        """
        runs: UInts = self._table.take(places >> self._bits)
        behind = np.flatnonzero(self._ends.take(runs) <= places)
        runs[behind] = np.searchsorted(self._ends, places[behind], side="right")
        return runs
