"""The first pass over a table: what its columns hold and how often, how many records are alike, and some records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.apply.alike import Alike, Combinations, combined_hashes, hashed, raw_words
from sfumato.apply.sample import Sampler
from sfumato.arrays import Codes, Counts, Words
from sfumato.draws import Draws
from sfumato.shown.columns import local_codes

MOST_VALUES = 1 << 20
"""A column of more values than this is not counted value by value."""

UNNUMBERED = 1 << 40
"""From here on values are numbered that are not counted: beyond all that are."""

FEW_RECORDS = 5
"""A value of fewer records than this is nearly an identifier."""


@dataclass(frozen=True)
class ColumnProfile:
    """The values of a column in canonical order with their counts; no values where there are too many."""

    name: str
    type: pa.DataType
    values: pa.Array
    counts: Counts
    missing: int
    is_wide: bool

    def nearly_alone(self, rows: int = 1) -> int:
        """How many records share their value with those of very few others, if a person has up to so many rows."""
        return int(self.counts[self.counts <= (FEW_RECORDS - 1) * rows].sum())

    def alone(self, rows: int = 1) -> int:
        """How many records have a value that may be of one person alone, if a person has up to so many rows."""
        return int(self.counts[self.counts <= rows].sum())


@dataclass(frozen=True)
class Profile:
    """What the first pass learned."""

    rows: int
    columns: dict[str, ColumnProfile]
    records: pa.Table
    """Some records, or all of them if they are not many."""
    alike: Alike
    """How many records are alone with their public columns."""
    alike_before: Alike | None
    """The same before columns were put into bins, if any were."""


@dataclass(frozen=True)
class BatchCounts:
    """One column of one batch: its codes, its distinct values and their counts; the missing value comes last."""

    codes: Codes
    values: pa.Array
    counts: Counts


@dataclass(frozen=True)
class Counted:
    """One batch, counted on its own."""

    columns: dict[str, BatchCounts]
    raw: dict[str, tuple[Codes, Words]]
    """The public columns that have bins as they were before: the codes of the rows, and a word for each value."""
    records: tuple[pa.RecordBatch, Words]


class Profiler:
    """Collects the profile batch by batch; the result does not depend on how the rows were cut into batches."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is counted, and how
        self,
        schema: pa.Schema,
        sensitive: str,
        parts: Sequence[str],
        binned: Sequence[str],
        draws: Draws,
        expected: int | None = None,
    ) -> None:
        """Count all columns; what is sensitive may be made of parts, and some public columns have bins."""
        self.rows = 0
        self.unnumbered = UNNUMBERED
        self.sensitive = sensitive
        self.counters = {name: _Counter(name, schema.field(name).type) for name in schema.names}
        self.public = [name for name in schema.names if name not in (sensitive, *parts)]
        self.binned = [name for name in self.public if name in binned]
        self.kept = [*self.public, *(parts or [sensitive])]
        self.salts = dict(zip(self.public, draws.stream("alike").words(0, len(self.public)), strict=True))
        self.sampler = Sampler(draws, pa.schema([schema.field(name) for name in self.kept]), expected)
        self.after, self.before = Combinations(expected), Combinations(expected)

    def count(self, prepared: pa.RecordBatch, raw: pa.RecordBatch, first_row: int) -> Counted:
        """Count one batch on its own; touches nothing, so that batches can be counted side by side.

        `raw` has the same rows before they were prepared.
        """
        counted = {}
        for name in self.counters:
            codes, values = local_codes(prepared.column(name))
            counted[name] = BatchCounts(codes, values, np.bincount(codes, minlength=len(values) + 1))
        before = {name: raw_words(raw.column(name), self.salts[name]) for name in self.binned}
        return Counted(counted, before, self.sampler.take(prepared.select(self.kept), first_row))

    def add(self, counted: Counted) -> None:
        """Add the counts of one batch."""
        rows = len(counted.columns[self.sensitive].codes)
        self.rows += rows
        self.sampler.add(counted.records)
        words = {}
        for name, counter in self.counters.items():
            each = counted.columns[name]
            places = counter.add(each)
            if places is None:  # of too many values: those of another batch are taken for other ones
                places = self.unnumbered + np.arange(len(each.counts))
                self.unnumbered += len(each.counts)
            if name in self.salts:
                words[name] = each.codes, hashed(places, self.salts[name])
        self.after.add(combined_hashes(list(words.values()), rows))
        if self.binned:
            self.before.add(combined_hashes(list({**words, **counted.raw}.values()), rows))

    def result(self, rows_each: int = 1) -> Profile:
        """The profile of all rows added; persons have up to so many rows each."""
        columns = {name: each.result() for name, each in self.counters.items()}
        before = self.before.result(self.rows, rows_each) if self.binned else None
        after = self.after.result(self.rows, rows_each)
        return Profile(self.rows, columns, self.sampler.result(), after, before)


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
