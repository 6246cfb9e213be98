"""Columns of few values are counted and hashed several at a time: their codes make one number, as digits do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import BLOCK_ROWS, Codes, Counts, Places, RandomBits

MOST_NUMBERS = 1 << 12
"""So many combinations of codes have a table: it stays in the cache too."""


def count_and_hash_columns(
    columns: Mapping[str, tuple[Codes, RandomBits]], rows: int
) -> tuple[dict[str, Counts], RandomBits]:
    """How often each code of each column occurs, and for each row the sum of the words of its codes.

    A column has a word for each of its codes.
    """
    groups = list(
        _group_columns({name: _Column(name, *codes_and_hashes) for name, codes_and_hashes in columns.items()})
    )
    sums: RandomBits = np.zeros(rows, dtype=np.uint64)
    for first in range(0, rows, BLOCK_ROWS):
        part = slice(first, first + BLOCK_ROWS)
        for group in groups:
            places = group.places(part)
            group.count(places)
            group.hash(places, sums[part])
    return {name: counts for group in groups for name, counts in group.margins()}, sums


@dataclass(frozen=True)
class _Column:
    name: str
    codes: Codes
    words: RandomBits


def _group_columns(columns: Mapping[str, _Column]) -> Iterator[_Group]:
    """Neighbours together, as long as their combinations are few."""
    waiting: list[_Column] = []
    size = 1
    for column in columns.values():
        if waiting and size * len(column.words) > MOST_NUMBERS:
            yield _Group(waiting)
            waiting, size = [], 1
        waiting.append(column)
        size *= len(column.words)
    if waiting:
        yield _Group(waiting)


class _Group:
    """Columns whose codes make one number."""

    def __init__(self, columns: list[_Column]) -> None:
        self.columns = columns
        self.sizes = [len(column.words) for column in columns]
        self.words = columns[0].words
        for column in columns[1:]:
            self.words = (self.words[:, None] + column.words).ravel()
        self.is_counted = len(self.words) <= MOST_NUMBERS
        """Whether rows are counted a part at a time; a column of many values is counted at once."""
        self.counts = np.zeros(len(self.words) if self.is_counted else 0, dtype=np.int64)

    def places(self, part: slice) -> Places:
        """The number of each of some rows."""
        first, *others = self.columns
        numbers = first.codes[part]
        if others:
            numbers = numbers.astype(np.uint16)
            for column in others:
                numbers *= np.uint16(len(column.words))
                numbers += column.codes[part].astype(np.uint16, copy=False)
        return numbers.astype(np.intp)  # once for all uses

    def count(self, places: Places) -> None:
        """Count some rows."""
        if self.is_counted:
            self.counts += np.bincount(places, minlength=len(self.counts))

    def hash(self, places: Places, sums: RandomBits) -> None:
        """Add the words of some rows to sums."""
        sums += self.words.take(places)

    def margins(self) -> Iterator[tuple[str, Counts]]:
        """The counts of each column by itself."""
        if not self.is_counted:
            (column,) = self.columns
            yield column.name, np.bincount(column.codes, minlength=len(column.words))
            return
        table = self.counts.reshape(self.sizes)
        for axis, column in enumerate(self.columns):
            yield column.name, table.sum(axis=tuple(other for other in range(table.ndim) if other != axis))
