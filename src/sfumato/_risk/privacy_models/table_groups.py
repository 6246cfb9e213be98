"""Counts a column's values in groups of records that have equal values in other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats
from sfumato._profile.equivalence_classes import number_combinations
from sfumato._risk.inspected_table import CodedValues


def group_records(columns: Sequence[CodedValues], rows: int) -> tuple[Codes, Counts]:
    """The group of each record, and the size of each group. Without columns, all records form one group."""
    if not columns:
        return np.zeros(rows, dtype=np.int64), np.array([rows])
    groups = number_combinations([column.codes for column in columns])
    return groups, np.bincount(groups)


@dataclass(frozen=True)
class GroupValues:
    """The counts of each value in each group, with a line for each pair that occurs, by group and then by value."""

    sizes: Counts
    """The number of records of each group."""
    totals: Counts
    """The number of records with each value."""
    group_codes: Codes
    value_codes: Codes
    counts: Counts

    @classmethod
    def of(cls, groups: Codes, sizes: Counts, column: CodedValues) -> GroupValues:
        """Counts the values of a column in each group."""
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
