"""Counts only the queried cells. A table maps each cell of some columns to its query, if a query names the cell.

The cost does not depend on the number of combinations or symbols, because all other records are skipped at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato._core.array_types import Counts
from sfumato._query.counting.cell_keys import compute_keys, compute_volume, list_cells, split_rows
from sfumato._query.counting.record_blocks import Block
from sfumato._query.counting.shared_conditions import Workload


class CellLookup:
    """The combinations of conditions on the same columns."""

    def __init__(
        self, work: Workload, columns: Sequence[int], shape: tuple[int, ...], wheres: Sequence[int], symbols: int
    ) -> None:
        self.columns, self.shape, self.wheres, self.symbols = columns, shape, wheres, symbols
        asked_keys, self.sizes = list_cells(work, wheres, shape)
        self.cells, self.numbers = np.unique(asked_keys, return_inverse=True)
        """The queried cells. Also, for each combination, the numbers of its cells among the queried cells."""
        self.cell_count = len(self.cells)
        self.lookup_table = np.full(
            int(compute_volume(shape)), self.cell_count, dtype=np.min_scalar_type(self.cell_count)
        )
        self.lookup_table[self.cells] = np.arange(self.cell_count)

    @property
    def size(self) -> int:
        """The number of counts."""
        return self.cell_count * self.symbols

    def count(self, block: Block) -> Counts:
        """For each of these cells, the number of a block's records by symbol."""
        cell_counts = [np.zeros(0, dtype=np.int64)]
        for rows in split_rows(block.rows):
            numbers = self.lookup_table.take(compute_keys(block, self.columns, self.shape, rows))
            chosen = np.flatnonzero(numbers != self.cell_count)
            cell_counts.append(numbers[chosen].astype(np.int64) * self.symbols + block.published_codes[rows][chosen])
        return np.bincount(np.concatenate(cell_counts), minlength=self.size)

    def iter_counts(self, work: Workload, cell_counts: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """Yields each combination with the symbol counts of its records."""
        lines = cell_counts.reshape(self.cell_count, self.symbols)
        if (self.sizes == 1).all():
            yield self.wheres, lines[self.numbers]
            return
        for where, numbers in zip(self.wheres, np.split(self.numbers, np.cumsum(self.sizes)[:-1]), strict=True):
            yield [where], lines[numbers].sum(axis=0)[np.newaxis]


class SharedPair:
    """Combinations on several column sets that share two columns. These two columns select the records first."""

    def __init__(self, pair: tuple[int, int], shape: tuple[int, int], lookups: Sequence[CellLookup]) -> None:
        self.pair, self.shape, self.lookups = pair, shape, lookups
        self.columns = {column for lookup in lookups for column in lookup.columns}
        self.is_asked = np.zeros(shape[0] * shape[1], dtype=np.bool_)
        for lookup in lookups:
            codes = dict(zip(lookup.columns, np.unravel_index(lookup.cells, lookup.shape), strict=True))
            self.is_asked[codes[pair[0]] * shape[1] + codes[pair[1]]] = True

    def count(self, block: Block) -> Counts:
        """For each cell of each column set, the number of a block's records by symbol."""
        row_numbers = [np.zeros(0, dtype=np.int64)]
        for rows in split_rows(block.rows):
            row_numbers.append(
                np.flatnonzero(self.is_asked.take(compute_keys(block, self.pair, self.shape, rows))) + rows.start
            )
        chosen = np.concatenate(row_numbers)
        codes = [item.take(chosen) if column in self.columns else item for column, item in enumerate(block.codes)]
        chosen_block = Block(len(chosen), codes, {}, block.published_codes.take(chosen))
        return np.concatenate([item.count(chosen_block) for item in self.lookups])

    def iter_counts(self, work: Workload, cell_counts: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """Yields each combination with the symbol counts of its records."""
        ends = np.cumsum([lookup.size for lookup in self.lookups])
        for lookup, lookup_counts in zip(self.lookups, np.split(cell_counts, ends[:-1]), strict=True):
            yield from lookup.iter_counts(work, lookup_counts)
