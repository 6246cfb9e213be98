"""Counting the cells that are asked about: a table says of each cell of some columns which of them it is, if any.

It costs the same however many combinations of these columns are asked about, and however many symbols there are; the
records of all other cells are left behind at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato._core.arrays import Counts
from sfumato._query.counting.cell_keys import cells, keys, slices, volume
from sfumato._query.counting.query_workload import Workload
from sfumato._query.counting.record_blocks import Block


class AskedCells:
    """The combinations of conditions on the same columns."""

    def __init__(
        self, work: Workload, columns: Sequence[int], shape: tuple[int, ...], wheres: Sequence[int], symbols: int
    ) -> None:
        self.columns, self.shape, self.wheres, self.symbols = columns, shape, wheres, symbols
        asked, self.sizes = cells(work, wheres, shape)
        self.cells, self.numbers = np.unique(asked, return_inverse=True)
        """The cells that are asked about, and which of them each cell of each combination is."""
        self.known = len(self.cells)
        self.table = np.full(int(volume(shape)), self.known, dtype=np.min_scalar_type(self.known))
        self.table[self.cells] = np.arange(self.known)

    @property
    def size(self) -> int:
        """How many numbers are counted."""
        return self.known * self.symbols

    def counted(self, block: Block) -> Counts:
        """How many records of a block are in each of these cells, by symbols."""
        found = [np.zeros(0, dtype=np.int64)]
        for rows in slices(block.rows):
            numbers = self.table.take(keys(block, self.columns, self.shape, rows))
            chosen = np.flatnonzero(numbers != self.known)
            found.append(numbers[chosen].astype(np.int64) * self.symbols + block.shown[rows][chosen])
        return np.bincount(np.concatenate(found), minlength=self.size)

    def answers(self, work: Workload, counted: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """For each combination, how many of its records show each symbol."""
        lines = counted.reshape(self.known, self.symbols)
        if (self.sizes == 1).all():
            yield self.wheres, lines[self.numbers]
            return
        for where, numbers in zip(self.wheres, np.split(self.numbers, np.cumsum(self.sizes)[:-1]), strict=True):
            yield [where], lines[numbers].sum(axis=0)[np.newaxis]


class SharedPair:
    """Combinations on several sets of columns, all with the same two: first, records are chosen by these."""

    def __init__(self, pair: tuple[int, int], shape: tuple[int, int], within: Sequence[AskedCells]) -> None:
        self.pair, self.shape, self.within = pair, shape, within
        self.columns = {column for each in within for column in each.columns}
        self.is_asked = np.zeros(shape[0] * shape[1], dtype=np.bool_)
        for each in within:
            codes = dict(zip(each.columns, np.unravel_index(each.cells, each.shape), strict=True))
            self.is_asked[codes[pair[0]] * shape[1] + codes[pair[1]]] = True

    def counted(self, block: Block) -> Counts:
        """How many records of a block are in each of the cells of each set of columns, by symbols."""
        found = [np.zeros(0, dtype=np.int64)]
        for rows in slices(block.rows):
            found.append(np.flatnonzero(self.is_asked.take(keys(block, self.pair, self.shape, rows))) + rows.start)
        chosen = np.concatenate(found)
        codes = [each.take(chosen) if column in self.columns else each for column, each in enumerate(block.codes)]
        some = Block(len(chosen), codes, {}, block.shown.take(chosen))
        return np.concatenate([each.counted(some) for each in self.within])

    def answers(self, work: Workload, counted: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """For each combination, how many of its records show each symbol."""
        ends = np.cumsum([each.size for each in self.within])
        for each, mine in zip(self.within, np.split(counted, ends[:-1]), strict=True):
            yield from each.answers(work, mine)
