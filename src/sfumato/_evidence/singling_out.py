"""Singling out: how many records are alike, by all public columns and by few, before and after bins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Codes, Counts, Places
from sfumato._profile.equivalence_classes import Alike, alike
from sfumato._risk.attackers.predictive_columns import counted
from sfumato._risk.attackers.record_linkage import combination_numbers, shared_codes

SIZES = (1, 2, 3, 4, 10, 20, 50, 100, 200, 500, 1000)
"""The shares of records among so many alike or fewer are told; 4 is below 5, and 10 below 11."""
MOST_TOGETHER = 3
MOST_COLUMNS = 8
"""Of more columns those of most values are tried together."""


@dataclass(frozen=True)
class Singling:
    """How many records are alike. Private."""

    records: int
    after: tuple[tuple[int, float], ...]
    """The share of the records among so many alike or fewer, as published."""
    before: tuple[tuple[int, float], ...] | None
    """The same before columns were put into bins; None where none was."""
    alike: Alike
    smallest: int
    """The size of the smallest group."""
    sets: tuple[tuple[tuple[str, ...], float], ...]
    """Sets of at most three columns, and the share that is alone with them; those that make most alone first."""
    tried: int
    """How many sets were tried."""
    left_out: tuple[str, ...] = ()
    """Columns that were not tried together."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "records": self.records,
            "smallest_group": self.smallest,
            "published": [list(pair) for pair in self.after],
            "before_bins": None if self.before is None else [list(pair) for pair in self.before],
            "sets": [{"columns": list(names), "alone": share} for names, share in self.sets],
            "sets_tried": self.tried,
            "columns_not_tried": list(self.left_out),
        }


def singling(names: Sequence[str], table: pa.Table, raw: Mapping[str, Codes] | None) -> Singling:
    """Look at the public columns of a table as it was published, and before bins if those are given."""
    (columns,) = shared_codes(names, [table]) if names else ([],)
    sizes = _sizes(columns, table.num_rows)
    chosen = sorted(range(len(names)), key=lambda place: -int(columns[place].max(initial=0)))[:MOST_COLUMNS]
    tried = [each for number in range(1, MOST_TOGETHER + 1) for each in itertools.combinations(sorted(chosen), number)]
    tried = [each for each in tried if len(each) < len(names) or len(names) == 1]
    found = [(tuple(names[place] for place in each), _alone([columns[place] for place in each])) for each in tried]
    found.sort(key=lambda each: (-each[1], len(each[0])))
    before = None if raw is None else _shares(_sizes(list(raw.values()), len(next(iter(raw.values()), ()))))
    return Singling(
        table.num_rows,
        _shares(sizes),
        before,
        alike(sizes, table.num_rows),
        int(sizes.min(initial=table.num_rows)),
        tuple(each for each in found if each[1] > 0),
        len(tried),
        tuple(name for place, name in enumerate(names) if place not in chosen),
    )


def _sizes(columns: Sequence[Codes], rows: int) -> Counts:
    """How many records each combination has that occurs."""
    return np.bincount(combination_numbers(columns)) if columns else np.array([rows])


def _shares(sizes: Counts) -> tuple[tuple[int, float], ...]:
    total = max(int(sizes.sum()), 1)
    return tuple((size, float(sizes[sizes <= size].sum()) / total) for size in SIZES)


def _alone(columns: Sequence[Codes]) -> float:
    """The share that is alone with a few columns: counted in a table where that is small."""
    keys: Places = np.zeros(len(columns[0]), dtype=np.int64)
    for codes in columns:
        keys = keys * (int(codes.max(initial=0)) + 1) + codes.astype(np.int64)
    return float((counted(keys)[1] == 1).sum()) / max(len(keys), 1)
