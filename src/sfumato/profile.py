"""The first pass over a table: what values its columns hold, how often, and which columns tell each other's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import local_codes
from sfumato.source import plain_type

MOST_VALUES = 1 << 20
"""A column of more values than this is not counted value by value."""

MOST_PAIRS = 1 << 22
"""Pairs of public and sensitive values are counted up to this many; beyond, a column is reported as not checked."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnProfile:
    """The values of a column in canonical order with their counts; no values where there are too many."""

    name: str
    type: pa.DataType
    values: pa.Array
    counts: Numbers
    missing: int
    is_wide: bool

    @property
    def alone(self) -> int:
        """How many records are the only one with their value."""
        return int((self.counts == 1).sum())


@dataclass(frozen=True)
class Association:
    """How often the sensitive value can be told from one public column, by the most frequent value in each group."""

    column: str
    hits: int
    rows: int
    is_complete: bool

    @property
    def share(self) -> Fraction:
        """The share of records whose sensitive value is the most frequent one among those with their public value."""
        return Fraction(self.hits, self.rows)


@dataclass(frozen=True)
class Profile:
    """What the first pass learned."""

    rows: int
    columns: dict[str, ColumnProfile]
    associations: tuple[Association, ...]


class Profiler:
    """Collects the profile batch by batch; the result does not depend on how the rows were cut into batches."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str], sensitive: str) -> None:
        self.rows = 0
        self.sensitive = sensitive
        self.counters = {name: _Counter(name, plain_type(schema.field(name).type)) for name in columns}
        self.pairs = {name: _Pairs() for name in columns if name != sensitive}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch."""
        self.rows += batch.num_rows
        sensitive = self.counters[self.sensitive].add(batch.column(self.sensitive))
        for name, pairs in self.pairs.items():
            codes = self.counters[name].add(batch.column(name))
            pairs.add(codes, sensitive)

    def result(self) -> Profile:
        """The profile of all rows added."""
        associations = tuple(
            Association(name, pairs.hits, self.rows, pairs.is_complete) for name, pairs in self.pairs.items()
        )
        return Profile(self.rows, {name: each.result() for name, each in self.counters.items()}, associations)


class _Counter:
    """Counts the values of one column under running codes, in order of first appearance."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name = name
        self.values = pa.array([], type=kind)
        self.counts: Numbers = np.zeros(1, dtype=np.int64)  # the missing value has the last place
        self.is_wide = False

    def add(self, column: pa.Array) -> Numbers | None:
        """Count a batch; returns its running codes (-1 where missing), or None where there are too many values."""
        if self.is_wide:
            self.counts[-1] += _missing(column)
            return None
        local, values = local_codes(column)
        running = self._running(values)
        codes = np.append(running, -1)[local]
        seen = np.bincount(local + 1, minlength=len(values) + 1)
        self.counts[running] += seen[1:]
        self.counts[-1] += seen[0]
        if len(self.values) > MOST_VALUES:
            self.is_wide = True
            self.values, self.counts = self.values[:0], self.counts[-1:]
        return codes

    def _running(self, values: pa.Array) -> Numbers:
        """The running codes of a batch's distinct values; new values get the next ones."""
        found = pc.index_in(values, self.values)
        new = pc.and_not(pc.is_null(found), pc.is_null(values, nan_is_null=True))
        fresh = values.filter(new)
        first = len(self.values)
        running: Numbers = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        running[new.to_numpy(zero_copy_only=False)] = first + np.arange(len(fresh))
        if len(fresh):
            self.values = pa.concat_arrays([self.values, fresh])
            self.counts = np.concatenate([self.counts[:-1], np.zeros(len(fresh), dtype=np.int64), self.counts[-1:]])
        return running

    def result(self) -> ColumnProfile:
        order = pc.sort_indices(self.values).to_numpy()
        return ColumnProfile(
            self.name,
            self.values.type,
            self.values.take(pa.array(order)),
            self.counts[:-1][order],
            int(self.counts[-1]),
            self.is_wide,
        )


def _missing(column: pa.Array) -> int:
    return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0)


class _Pairs:
    """Counts how often each public value meets each sensitive value; missing values are values here."""

    def __init__(self) -> None:
        self.table: npt.NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
        self.is_complete = True

    def add(self, public: Numbers | None, sensitive: Numbers | None) -> None:
        if not self.is_complete or public is None or sensitive is None:
            self.is_complete = False
            return
        shape = (int(public.max(initial=-1)) + 2, int(sensitive.max(initial=-1)) + 2)
        height, width = (max(old, new) for old, new in zip(self.table.shape, shape, strict=True))
        if height * width > MOST_PAIRS:
            self.is_complete = False
            return
        if (height, width) != self.table.shape:
            grown = np.zeros((height, width), dtype=np.int64)
            grown[: self.table.shape[0], : self.table.shape[1]] = self.table
            self.table = grown
        cells = (public + 1) * width + (sensitive + 1)
        self.table += np.bincount(cells, minlength=height * width).reshape(height, width)

    @property
    def hits(self) -> int:
        """The records that the most frequent sensitive value of each public value gets right."""
        return int(self.table.max(axis=1).sum()) if self.is_complete else 0
