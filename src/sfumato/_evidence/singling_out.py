"""Measures singling out by class sizes, on all public columns and on few, before and after recoding into ranges."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfumato._core.array_types import Codes, Counts
from sfumato._core.json_types import Json
from sfumato._profile.equivalence_classes import ClassSizeShares, compute_class_size_shares, count_class_sizes
from sfumato._risk.attackers.record_linkage import encode_shared_values

SIZES = (1, 2, 3, 4, 10, 20, 50, 100, 200, 500, 1000)
"""The class sizes for cumulative shares. 4 stands for "fewer than 5", and 10 for "fewer than 11"."""
MOST_TOGETHER = 3
MOST_COLUMNS = 8
"""If there are more columns, only the columns with the most values are combined."""


@dataclass(frozen=True)
class SinglingOut:
    """The sizes of equivalence classes. Private."""

    records: int
    after_bins: tuple[tuple[int, float], ...]
    """The share of records in classes of at most this size, as published."""
    before_bins: tuple[tuple[int, float], ...] | None
    """The same shares before columns were recoded into ranges; None without ranges."""
    class_size_shares: ClassSizeShares
    smallest_class: int
    """The size of the smallest class."""
    column_sets: tuple[tuple[tuple[str, ...], float], ...]
    """Sets of up to three columns with their share of unique records, largest share first."""
    tried_count: int
    """The number of sets that were tried."""
    untried_columns: tuple[str, ...] = ()
    """The columns that were not combined."""

    def to_json(self) -> Json:
        """The result as JSON."""
        return {
            "records": self.records,
            "smallest_group": self.smallest_class,
            "published": [list(pair) for pair in self.after_bins],
            "before_bins": None if self.before_bins is None else [list(pair) for pair in self.before_bins],
            "sets": [{"columns": list(names), "alone": share} for names, share in self.column_sets],
            "sets_tried": self.tried_count,
            "columns_not_tried": list(self.untried_columns),
        }


def measure_singling_out(names: Sequence[str], table: pa.Table, raw_columns: Mapping[str, Codes] | None) -> SinglingOut:
    """Measures the public columns of a table as published, and before ranges if given."""
    (columns,) = encode_shared_values(names, [table]) if names else ([],)
    sizes = count_class_sizes(columns, table.num_rows)
    chosen_columns = sorted(range(len(names)), key=lambda place: -int(columns[place].max(initial=0)))[:MOST_COLUMNS]
    column_sets = [
        item
        for number in range(1, MOST_TOGETHER + 1)
        for item in itertools.combinations(sorted(chosen_columns), number)
    ]
    column_sets = [item for item in column_sets if len(item) < len(names) or len(names) == 1]
    unique_shares = [
        (tuple(names[place] for place in item), _compute_unique_share([columns[place] for place in item]))
        for item in column_sets
    ]
    unique_shares.sort(key=lambda item: (-item[1], len(item[0])))
    before_bins = (
        None
        if raw_columns is None
        else _compute_size_shares(
            count_class_sizes(list(raw_columns.values()), len(next(iter(raw_columns.values()), ())))
        )
    )
    return SinglingOut(
        table.num_rows,
        _compute_size_shares(sizes),
        before_bins,
        compute_class_size_shares(sizes, table.num_rows),
        int(sizes.min(initial=table.num_rows)),
        tuple(item for item in unique_shares if item[1] > 0),
        len(column_sets),
        tuple(name for place, name in enumerate(names) if place not in chosen_columns),
    )


def _compute_size_shares(sizes: Counts) -> tuple[tuple[int, float], ...]:
    total = max(int(sizes.sum()), 1)
    return tuple((size, float(sizes[sizes <= size].sum()) / total) for size in SIZES)


def _compute_unique_share(columns: Sequence[Codes]) -> float:
    """The share of records that are unique on a few columns."""
    records = len(columns[0])
    return compute_class_size_shares(count_class_sizes(columns, records), records).unique_share
