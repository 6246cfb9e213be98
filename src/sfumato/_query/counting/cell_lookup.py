"""Counting the cells that are asked about: a table says of each cell of some columns which of them it is, if any.

It costs the same however many combinations of these columns are asked about, and however many symbols there are; the
records of all other cells are left behind at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato._core.arrays import Counts
from sfumato._query.counting.cell_keys import compute_keys, compute_volume, list_cells, split_rows
from sfumato._query.counting.query_workload import Workload
from sfumato._query.counting.record_blocks import Block


class AskedCells:
    """The combinations of conditions on the same columns."""

    def __init__(
        self, work: Workload, columns: Sequence[int], shape: tuple[int, ...], wheres: Sequence[int], symbols: int
    ) -> None:
        self.columns, self.shape, self.wheres, self.symbols = columns, shape, wheres, symbols
        asked_keys, self.sizes = list_cells(work, wheres, shape)
        self.cells, self.numbers = np.unique(asked_keys, return_inverse=True)
        """The cells that are asked about, and which of them each cell of each combination is."""
        self.known = len(self.cells)
        self.table = np.full(int(compute_volume(shape)), self.known, dtype=np.min_scalar_type(self.known))
        self.table[self.cells] = np.arange(self.known)

    @property
    def size(self) -> int:
        """How many numbers are counted."""
        return self.known * self.symbols

    def counted(self, block: Block) -> Counts:
        """How many records of a block are in each of these cells, by symbols."""
        cell_counts = [np.zeros(0, dtype=np.int64)]
        for rows in split_rows(block.rows):
            numbers = self.table.take(compute_keys(block, self.columns, self.shape, rows))
            chosen = np.flatnonzero(numbers != self.known)
            cell_counts.append(numbers[chosen].astype(np.int64) * self.symbols + block.shown[rows][chosen])
        return np.bincount(np.concatenate(cell_counts), minlength=self.size)

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
        self.columns = {column for asked_cells in within for column in asked_cells.columns}
        self.is_asked = np.zeros(shape[0] * shape[1], dtype=np.bool_)
        for asked_cells in within:
            codes = dict(zip(asked_cells.columns, np.unravel_index(asked_cells.cells, asked_cells.shape), strict=True))
            self.is_asked[codes[pair[0]] * shape[1] + codes[pair[1]]] = True

    def counted(self, block: Block) -> Counts:
        """How many records of a block are in each of the cells of each set of columns, by symbols."""
        block_counts = [np.zeros(0, dtype=np.int64)]
        for rows in split_rows(block.rows):
            block_counts.append(
                np.flatnonzero(self.is_asked.take(compute_keys(block, self.pair, self.shape, rows))) + rows.start
            )
        chosen = np.concatenate(block_counts)
        codes = [item.take(chosen) if column in self.columns else item for column, item in enumerate(block.codes)]
        some = Block(len(chosen), codes, {}, block.shown.take(chosen))
        return np.concatenate([item.counted(some) for item in self.within])

    def answers(self, work: Workload, counted: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """For each combination, how many of its records show each symbol."""
        ends = np.cumsum([asked_cells.size for asked_cells in self.within])
        for asked_cells, mine in zip(self.within, np.split(counted, ends[:-1]), strict=True):
            yield from asked_cells.answers(work, mine)
