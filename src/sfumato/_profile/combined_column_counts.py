"""Counts and hashes several columns with few values at a time, by combining their codes into one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import BLOCK_ROWS, Codes, Counts, Places, RandomBits

MOST_NUMBERS = 1 << 12
"""At most this many combinations of codes are counted in one table, which then fits into the processor's cache."""


def count_and_hash_columns(
    columns: Mapping[str, tuple[Codes, RandomBits]], rows: int
) -> tuple[dict[str, Counts], RandomBits]:
    """The frequency of each code of each column, and for each row the sum of the hashes of its codes.

    A column has one hash for each of its codes.
    """
    groups = list(
        _group_columns({name: _HashedColumn(name, *codes_and_hashes) for name, codes_and_hashes in columns.items()})
    )
    sums: RandomBits = np.zeros(rows, dtype=np.uint64)
    for first in range(0, rows, BLOCK_ROWS):
        part = slice(first, first + BLOCK_ROWS)
        for group in groups:
            places = group.combine_codes(part)
            group.count(places)
            group.add_hashes(places, sums[part])
    return {name: counts for group in groups for name, counts in group.sum_margins()}, sums


@dataclass(frozen=True)
class _HashedColumn:
    name: str
    codes: Codes
    hashes: RandomBits


def _group_columns(columns: Mapping[str, _HashedColumn]) -> Iterator[_ColumnGroup]:
    """Groups neighbouring columns as long as a group has few combinations."""
    group: list[_HashedColumn] = []
    size = 1
    for column in columns.values():
        if group and size * len(column.hashes) > MOST_NUMBERS:
            yield _ColumnGroup(group)
            group, size = [], 1
        group.append(column)
        size *= len(column.hashes)
    if group:
        yield _ColumnGroup(group)


class _ColumnGroup:
    """Columns whose codes together make one number."""

    def __init__(self, columns: list[_HashedColumn]) -> None:
        self.columns = columns
        self.sizes = [len(column.hashes) for column in columns]
        self.hashes = columns[0].hashes
        for column in columns[1:]:
            self.hashes = (self.hashes[:, None] + column.hashes).ravel()
        self.has_table = len(self.hashes) <= MOST_NUMBERS
        """Whether rows are counted in blocks. A column with many values is counted in all rows at once."""
        self.counts = np.zeros(len(self.hashes) if self.has_table else 0, dtype=np.int64)

    def combine_codes(self, part: slice) -> Places:
        """The combined number of each row of a block."""
        first, *others = self.columns
        numbers = first.codes[part]
        if others:
            numbers = numbers.astype(np.uint16)
            for column in others:
                numbers *= np.uint16(len(column.hashes))
                numbers += column.codes[part].astype(np.uint16, copy=False)
        return numbers.astype(np.intp)  # converted once for all uses

    def count(self, places: Places) -> None:
        """Count the rows of a block."""
        if self.has_table:
            self.counts += np.bincount(places, minlength=len(self.counts))

    def add_hashes(self, places: Places, sums: RandomBits) -> None:
        """Add the hashes of the rows of a block to sums."""
        sums += self.hashes.take(places)

    def sum_margins(self) -> Iterator[tuple[str, Counts]]:
        """The counts of each column separately."""
        if not self.has_table:
            (column,) = self.columns
            yield column.name, np.bincount(column.codes, minlength=len(column.hashes))
            return
        table = self.counts.reshape(self.sizes)
        for axis, column in enumerate(self.columns):
            yield column.name, table.sum(axis=tuple(other for other in range(table.ndim) if other != axis))
