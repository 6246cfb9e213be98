"""Counting the cells that are asked about: a table says of each cell of some columns which of them it is, if any.

It costs the same however many combinations of these columns are asked about, and however many symbols there are; the
records of all other cells are left behind at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.arrays import Counts
from sfumato.estimate.count.blocks import Block
from sfumato.estimate.count.keys import cells, keys, slices, volume
from sfumato.estimate.count.workload import Workload


class AskedCells:
    """The combinations of conditions on the same columns."""

    def __init__(
        self, work: Workload, columns: Sequence[int], shape: Sequence[int], wheres: Sequence[int], symbols: int
    ) -> None:
        self.columns, self.shape, self.wheres, self.symbols = columns, shape, wheres, symbols
        asked, self.sizes = cells(work, wheres, shape)
        known, self.numbers = np.unique(asked, return_inverse=True)
        """The number of each cell of each combination, among those that are asked about."""
        self.known = len(known)
        self.table = np.full(int(volume(shape)), self.known, dtype=np.min_scalar_type(self.known))
        self.table[known] = np.arange(self.known)

    def counted(self, block: Block) -> Counts:
        """How many records of a block are in each of these cells, by symbols."""
        found = []
        for rows in slices(block.rows):
            numbers = self.table.take(keys(block, self.columns, self.shape, rows))
            chosen = np.flatnonzero(numbers != self.known)
            found.append(numbers[chosen].astype(np.int64) * self.symbols + block.shown[rows][chosen])
        return np.bincount(np.concatenate(found), minlength=self.known * self.symbols)

    def answers(self, work: Workload, counted: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """For each combination, how many of its records show each symbol."""
        lines = counted.reshape(self.known, self.symbols)
        if (self.sizes == 1).all():
            yield self.wheres, lines[self.numbers]
            return
        for where, numbers in zip(self.wheres, np.split(self.numbers, np.cumsum(self.sizes)[:-1]), strict=True):
            yield [where], lines[numbers].sum(axis=0)[np.newaxis]
