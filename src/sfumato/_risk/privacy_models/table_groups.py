"""Records that are alike in some columns, and the values that they have in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats
from sfumato._risk.inspected_table import CodedValues

MOST_NUMBERS = 1 << 62


def group_records(columns: Sequence[CodedValues], rows: int) -> tuple[Codes, Counts]:
    """The group of each record, and how many records each group has; without columns all records are one group."""
    numbers, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        if size * column.size >= MOST_NUMBERS:  # combinations that occur are fewer, and are numbered anew
            distinct_numbers, numbers = np.unique(numbers, return_inverse=True)
            size = len(distinct_numbers)
        numbers = numbers * column.size + column.codes
        size *= column.size
    _, groups, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    return groups, sizes


@dataclass(frozen=True)
class GroupValues:
    """How many records of each group have each value: a line for each pair that occurs, by group and then by value."""

    sizes: Counts
    """How many records each group has."""
    totals: Counts
    """How many records have each value."""
    group_codes: Codes
    value_codes: Codes
    counts: Counts

    @classmethod
    def of(cls, groups: Codes, sizes: Counts, column: CodedValues) -> GroupValues:
        """The values of a column in each group."""
        pairs, count = np.unique(groups * np.int64(column.size) + column.codes, return_counts=True)
        totals = column.counts[: column.size]
        return cls(sizes, totals, pairs // column.size, pairs % column.size, count)

    @cached_property
    def shares(self) -> Floats:
        """The share of the value among all records, for each line."""
        shares: Floats = self.totals / self.totals.sum()
        return shares.take(self.value_codes)

    @cached_property
    def group_shares(self) -> Floats:
        """The share of the value within the group, for each line."""
        return self.counts / self.sizes.take(self.group_codes)

    @property
    def starts(self) -> Counts:
        """The first line of each group."""
        return np.flatnonzero(np.diff(self.group_codes, prepend=-1))
