"""The first pass over a table: what values its columns hold, how often, and which columns tell each other's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.arrays import Counts
from sfumato.shown.columns import local_codes

MOST_VALUES = 1 << 20
"""A column of more values than this is not counted value by value."""

FEW_RECORDS = 5
"""A value of fewer records than this is nearly an identifier."""

MOST_PAIRS = 1 << 18
"""Pairs of public and sensitive values are counted up to this many; beyond, a column is reported as not checked."""


@dataclass(frozen=True)
class ColumnProfile:
    """The values of a column in canonical order with their counts; no values where there are too many."""

    name: str
    type: pa.DataType
    values: pa.Array
    counts: Counts
    missing: int
    is_wide: bool

    @property
    def nearly_alone(self) -> int:
        """How many records share their value with very few others."""
        return int(self.counts[self.counts < FEW_RECORDS].sum())

    @property
    def alone(self) -> int:
        """How many records are the only one with their value."""
        return int((self.counts == 1).sum())


@dataclass(frozen=True)
class Association:
    """How often each value of a public column (a row each) meets each sensitive value; None: too many pairs.

    Sensitive values stand in the order of their profile, the missing one last.
    """

    column: str
    pairs: Counts | None


@dataclass(frozen=True)
class Profile:
    """What the first pass learned."""

    rows: int
    columns: dict[str, ColumnProfile]
    associations: tuple[Association, ...]


@dataclass(frozen=True)
class BatchCounts:
    """One column of one batch: its distinct values, their counts (the missing value last), and their pairs.

    `pairs` counts each value (a row each) with each sensitive value of the batch; None where there are too many.
    """

    values: pa.Array
    counts: Counts
    pairs: Counts | None = None


class Profiler:
    """Collects the profile batch by batch; the result does not depend on how the rows were cut into batches."""

    def __init__(self, schema: pa.Schema, sensitive: str, parts: Sequence[str] = ()) -> None:
        """Count all columns, and the pairs of each public one with the sensitive one, which may be made of parts."""
        self.rows = 0
        self.sensitive = sensitive
        self.parts = [name for name in parts if name != sensitive]
        self.counters = {name: _Counter(name, schema.field(name).type) for name in schema.names}
        self.pairs = {name: _Pairs() for name in schema.names if name not in (sensitive, *parts)}

    def count(self, batch: pa.RecordBatch) -> dict[str, BatchCounts]:
        """Count one batch on its own; touches nothing, so that batches can be counted side by side."""
        sensitive, values = local_codes(batch.column(self.sensitive))
        width = len(values) + 1
        sensitive = sensitive.astype(np.int32)
        counted = {self.sensitive: BatchCounts(values, np.bincount(sensitive, minlength=width))}
        for name in self.parts:
            codes, values = local_codes(batch.column(name))
            counted[name] = BatchCounts(values, np.bincount(codes, minlength=len(values) + 1))
        for name in self.pairs:
            codes, values = local_codes(batch.column(name))
            height = len(values) + 1
            if height * width > MOST_PAIRS:
                counted[name] = BatchCounts(values, np.bincount(codes, minlength=height))
                continue
            cells = np.bincount(
                codes.astype(np.int32, copy=False) * np.int32(width) + sensitive, minlength=height * width
            )
            pairs = cells.reshape(height, width)
            counted[name] = BatchCounts(values, pairs.sum(axis=1), pairs)
        return counted

    def add(self, counted: dict[str, BatchCounts]) -> None:
        """Add the counts of one batch."""
        self.rows += int(counted[self.sensitive].counts.sum())
        sensitive = self.counters[self.sensitive].add(counted[self.sensitive])
        for name in self.parts:
            self.counters[name].add(counted[name])
        for name, pairs in self.pairs.items():
            places = self.counters[name].add(counted[name])
            pairs.add(places, sensitive, counted[name].pairs)

    def result(self) -> Profile:
        """The profile of all rows added."""
        order = np.append(self.counters[self.sensitive].order() + 1, 0)
        associations = tuple(Association(name, pairs.ordered(order)) for name, pairs in self.pairs.items())
        return Profile(self.rows, {name: each.result() for name, each in self.counters.items()}, associations)


class _Counter:
    """The values of one column in order of first appearance, after the missing value, with their counts."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name = name
        self.values = pa.array([], type=kind)
        self.counts: Counts = np.zeros(1, dtype=np.int64)
        self.is_wide = False

    def add(self, counted: BatchCounts) -> Counts | None:
        """Add a batch; returns the places of its values (the missing one last), or None if there are too many."""
        if self.is_wide:
            self.counts[0] += counted.counts[-1]
            return None
        places = np.append(self._places(counted.values), 0)
        # Values that stand for a missing one (a NaN in a dictionary) have the place 0 too, and a count of zero.
        np.add.at(self.counts, places, counted.counts)
        if len(self.values) > MOST_VALUES:
            self.is_wide = True
            self.values, self.counts = self.values[:0], self.counts[:1]
            return None
        return places

    def _places(self, values: pa.Array) -> Counts:
        """The places of a batch's distinct values; new values get the next ones."""
        found = pc.index_in(values, self.values)
        is_new = pc.and_not(pc.is_null(found), pc.is_null(values, nan_is_null=True))
        fresh = values.filter(is_new)
        places: Counts = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        places[is_new.to_numpy(zero_copy_only=False)] = len(self.values) + 1 + np.arange(len(fresh))
        if len(fresh):
            self.values = pa.concat_arrays([self.values, fresh])
            self.counts = np.append(self.counts, np.zeros(len(fresh), dtype=np.int64))
        return places

    def order(self) -> Counts:
        """The values in canonical order, without those that no row has.

        A dictionary may list some: they are not of this table, and must not be published.
        """
        order: Counts = pc.sort_indices(self.values).to_numpy().astype(np.int64)
        return order[self.counts[1:][order] > 0]

    def result(self) -> ColumnProfile:
        order = self.order()
        missing = int(self.counts[0])
        values = self.values.take(pa.array(order))
        return ColumnProfile(self.name, values.type, values, self.counts[1:][order], missing, self.is_wide)


class _Pairs:
    """How often each public value meets each sensitive value; missing values are values here."""

    def __init__(self) -> None:
        self.table: Counts | None = np.zeros((1, 1), dtype=np.int64)

    def add(self, public: Counts | None, sensitive: Counts | None, pairs: Counts | None) -> None:
        if self.table is None or public is None or sensitive is None or pairs is None:
            self.table = None
            return
        height, width = (
            max(size, int(places.max()) + 1) for size, places in zip(self.table.shape, (public, sensitive), strict=True)
        )
        if height * width > MOST_PAIRS:
            self.table = None
            return
        if (height, width) != self.table.shape:
            grown = np.zeros((height, width), dtype=np.int64)
            grown[: self.table.shape[0], : self.table.shape[1]] = self.table
            self.table = grown
        np.add.at(self.table, np.ix_(public, sensitive), pairs)

    def ordered(self, order: Counts) -> Counts | None:
        """The pairs with the sensitive values in the given order."""
        if self.table is None:
            return None
        grown = np.zeros((self.table.shape[0], max(self.table.shape[1], int(order.max()) + 1)), dtype=np.int64)
        grown[:, : self.table.shape[1]] = self.table
        return grown[:, order]
