"""Profiles a table in the first pass: the values of columns with their counts, class sizes, and a record sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Counts, Numbers, RandomBits
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine, TablePiece
from sfumato._engines.shuffle import ORDER
from sfumato._profile.batch_preparation import Preparation
from sfumato._profile.combined_column_counts import count_and_hash_columns
from sfumato._profile.equivalence_classes import ClassSizeShares, ClassSizeSketch, HashCache
from sfumato._profile.piece_offsets import PieceCounts
from sfumato._profile.record_sample import SAMPLE_PURPOSE, Sampler
from sfumato._readers.sources import Source
from sfumato._records.column_codes import convert_to_arrow, encode_batch_values
from sfumato._request.schema import NullPolicy

MOST_VALUES = 1 << 20
"""A column with more distinct values is not counted value by value."""

MOST_BYTES = 1 << 28
"""A column with more bytes of distinct strings is not counted value by value, because they are kept in memory.
"""

LINE_BREAK = "[\r\n]"

MISSING: Counts = np.zeros(1, dtype=np.int64)
"""The position of the missing value, before all other values."""

FEW_RECORDS = 5
"""A value with fewer records than this nearly identifies a person."""


@dataclass(frozen=True)
class ColumnProfile:
    """The values of a column in canonical order, with their counts. Both are empty if there are too many values."""

    name: str
    type: pa.DataType
    values: pa.Array
    counts: Counts
    missing: int
    is_wide: bool
    max_length: int = 0
    """The number of characters of the longest string, even if there are too many values to list."""
    has_line_breaks: bool = False
    """Whether a string has a line break, even if there are too many values to list."""

    def count_nearly_unique(self, rows: int = 1) -> int:
        """The number of records that share their value with very few persons, who have up to `rows` rows each."""
        return int(self.counts[self.counts <= (FEW_RECORDS - 1) * rows].sum())

    def count_unique(self, rows: int = 1) -> int:
        """The number of records whose value may belong to one person, if a person has up to `rows` rows."""
        return int(self.counts[self.counts <= rows].sum())


@dataclass(frozen=True)
class Profile:
    """The result of the first pass."""

    rows: int
    columns: dict[str, ColumnProfile]
    sample_table: pa.Table
    """A sample of the records, or all of them if they are not many."""
    class_sizes: ClassSizeShares
    """The shares of the records by class size on the public columns."""
    class_sizes_before: ClassSizeShares | None
    """The same shares before columns were grouped into ranges, if any columns were."""
    dropped_rows: int = 0
    """The number of rows of the table that were dropped."""
    pieces: tuple[PieceCounts, ...] = ()
    """The counts of the sensitive values in each piece, in canonical order; the missing value is last."""
    raw_columns: Mapping[str, ColumnProfile] = field(default_factory=dict)
    """The columns with ranges, in their form before they were grouped."""
    class_size_counts: tuple[tuple[int, int], ...] = ()
    """The sizes of groups of people with equal public columns, each with the number of such groups."""


@dataclass(frozen=True)
class Counting:
    """The columns to count. The sensitive column may have parts, and public columns may have ranges."""

    schema: pa.Schema
    sensitive: str
    sensitive_parts: tuple[str, ...]
    binned_columns: tuple[str, ...]
    draws: Draws
    expected_rows: int | None = None
    """The number of records in the table, if known."""

    @cached_property
    def salts(self) -> dict[str, np.uint64]:
        """The salt of each public column's hashes."""
        public = [name for name in self.schema.names if name not in (self.sensitive, *self.sensitive_parts)]
        return dict(zip(public, self.draws.get_stream("alike").draw_bits(0, len(public)), strict=True))

    @cached_property
    def hash_caches(self) -> dict[str, HashCache]:
        """The hashes of each public column's values."""
        return {name: HashCache(salt) for name, salt in self.salts.items()}

    @cached_property
    def sampled_columns(self) -> list[str]:
        """The columns of the sampled records."""
        return [*self.salts, *(self.sensitive_parts or [self.sensitive])]


class Profiler:
    """Collects the profile batch by batch and piece by piece. The result does not depend on how rows are cut."""

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.rows_read = 0
        """The number of rows read, including dropped rows."""
        self.rows = 0
        schema, expected = counting.schema, counting.expected_rows
        self.counters = {name: _ValueCounter(name, schema.field(name).type) for name in schema.names}
        self.sampler = Sampler(pa.schema([schema.field(name) for name in counting.sampled_columns]), expected)
        self.sketch_after, self.sketch_before = ClassSizeSketch(expected), ClassSizeSketch(expected)
        self.raw_counters: dict[str, _ValueCounter] = {}
        """The values of columns with ranges before they are grouped."""
        self.pieces: list[PieceCounts] = []
        """The merged pieces. Their counts are in the order in which the values first appeared."""

    def add(self, prepared: pa.RecordBatch, raw: pa.RecordBatch, random_keys: RandomBits) -> None:
        """Count a batch. `raw` has the rows before preparation, and `random_keys` decide which rows are sampled."""
        value_hashes = self.counting.hash_caches
        coded = {name: encode_batch_values(prepared.column(name)) for name in self.counters}
        public = {
            name: (codes, value_hashes[name](values)) for name, (codes, values) in coded.items() if name in value_hashes
        }
        counts, hashes = count_and_hash_columns(public, len(random_keys))
        self.sketch_after.add(hashes)
        for name, counter in self.counters.items():
            codes, values = coded[name]
            counter.add(values, counts[name] if name in counts else np.bincount(codes, minlength=len(values) + 1))
        if binned := [name for name in self.counting.binned_columns if name in value_hashes]:
            raw_codes = {name: encode_batch_values(raw.column(name)) for name in binned}
            before = {name: (codes, value_hashes[name](values)) for name, (codes, values) in raw_codes.items()}
            self.sketch_before.add(count_and_hash_columns({**public, **before}, len(random_keys))[1])
        for name in (name for name in self.counting.binned_columns if name in self.counters):
            codes, values = encode_batch_values(raw.column(name))
            counter = self.raw_counters.setdefault(name, _ValueCounter(name, values.type))
            counter.add(values, np.bincount(codes, minlength=len(values) + 1))
        self.sampler.add(prepared.select(self.counting.sampled_columns), random_keys)
        self.rows += len(random_keys)

    def merge(self, other: Profiler) -> None:
        """Add the counts of the next piece, or of the next pieces."""
        self.rows_read += other.rows_read
        self.rows += other.rows
        places = {name: counter.merge(other.counters[name]) for name, counter in self.counters.items()}
        mine, theirs = (profiler.counters[self.counting.sensitive] for profiler in (self, other))
        where = np.roll(places[self.counting.sensitive], 1)
        for piece in other.pieces or [PieceCounts(other.rows, theirs.counts)]:
            piece_counts = np.zeros(len(mine.counts), dtype=np.min_scalar_type(piece.counts.max(initial=0)))
            piece_counts[where[: len(piece.counts)]] = piece.counts[: len(where)]
            self.pieces.append(PieceCounts(piece.rows, piece_counts))
        for name, counter in other.raw_counters.items():
            self.raw_counters.setdefault(name, _ValueCounter(name, counter.values.type)).merge(counter)
        self.sampler.merge(other.sampler)
        self.sketch_after.merge(other.sketch_after)
        self.sketch_before.merge(other.sketch_before)

    def build_profile(self, rows_each: int = 1) -> Profile:
        """The profile of all added rows, if persons have up to `rows_each` rows each."""
        columns = {name: entry.build_profile() for name, entry in self.counters.items()}
        has_bins = bool(set(self.counting.binned_columns) & set(self.counting.salts))
        before = self.sketch_before.compute_shares(self.rows, rows_each) if has_bins else None
        after = self.sketch_after.compute_shares(self.rows, rows_each)
        order = np.append(self.counters[self.counting.sensitive].sort_values() + 1, 0)
        pieces = tuple(
            PieceCounts(entry.rows, _pad_counts(entry.counts, len(order)).take(order)) for entry in self.pieces
        )
        raw_columns = {name: counter.build_profile() for name, counter in self.raw_counters.items()}
        dropped_rows = self.rows_read - self.rows
        sizes = self.sketch_after.list_class_sizes()
        sample = self.sampler.to_table()
        return Profile(self.rows, columns, sample, after, before, dropped_rows, pieces, raw_columns, sizes)


def _pad_counts(counts: Numbers, size: int) -> Numbers:
    return np.pad(counts, (0, max(size - len(counts), 0)))


class _ValueCounter:
    """Counts the values of one column.

    The missing value is first, and the others follow in the order of their appearance.
    """

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name = name
        self.values = pa.array([], type=kind)
        self.counts: Counts = np.zeros(1, dtype=np.int64)
        self.is_wide = False
        self.text_bytes = self.max_length = 0
        self.has_line_breaks = False
        self._last_places: tuple[pa.Array, Counts] | None = None
        """The values that were added last, and their positions, which never change.

        Most batches list the same values again.
        """

    def add(self, values: pa.Array, counts: Counts) -> Counts:
        """Add distinct values with their counts, last the missing value's; returns their positions.

        If there are too many values, returns only the position of the missing value. A dictionary may list values that
        no row has. Such values are not in the table, and must not be published.
        """
        if not counts[:-1].all():
            values, counts = values.filter(convert_to_arrow(counts[:-1] > 0)), counts[np.append(counts[:-1] > 0, True)]
        places = MISSING if self.is_wide else np.append(self._find_places(values), 0)
        if self.is_wide:  # the line above may have found too many values
            self._inspect_texts(values)
            self._last_places = None
            self.counts[0] += counts[-1]
            return MISSING
        self.counts[places] += counts
        return places

    def merge(self, other: _ValueCounter) -> Counts:
        """Add the counts of another counter; returns the positions of its values, with the missing value last."""
        if other.is_wide:
            self._widen()
            self.max_length = max(self.max_length, other.max_length)
            self.has_line_breaks |= other.has_line_breaks
        return self.add(other.values, np.roll(other.counts, -1))

    def _widen(self) -> None:
        """Stop counting values, because there are too many."""
        self._inspect_texts(self.values)
        self.is_wide = True
        self.values, self.counts = self.values[:0], self.counts[:1]

    def _inspect_texts(self, values: pa.Array) -> None:
        """Record the facts that may forbid publishing the strings, before the strings are dropped."""
        if pa.types.is_string(values.type) and len(values):
            self.max_length = max(self.max_length, pc.max(pc.utf8_length(values)).as_py())
            self.has_line_breaks |= pc.any(pc.match_substring_regex(values, LINE_BREAK)).as_py()

    def _find_places(self, values: pa.Array) -> Counts:
        """The positions of distinct values; new values get the next positions."""
        if self._last_places is None or not values.equals(self._last_places[0]):
            self._last_places = values, self._add_places(values)
        return self._last_places[1]

    def _add_places(self, values: pa.Array) -> Counts:
        value_places = pc.index_in(values, self.values) if len(self.values) else pa.nulls(len(values), pa.int32())
        is_new = value_places.is_null()
        fresh = values.filter(is_new)
        places: Counts = value_places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        places[is_new.to_numpy(zero_copy_only=False)] = len(self.values) + 1 + np.arange(len(fresh))
        self.text_bytes += _count_text_bytes(fresh)
        if len(self.values) + len(fresh) > MOST_VALUES or self.text_bytes > MOST_BYTES:
            self._widen()
        elif len(fresh):
            self.values = pa.concat_arrays([self.values, fresh])
            self.counts = np.append(self.counts, np.zeros(len(fresh), dtype=np.int64))
        return places

    def sort_values(self) -> Counts:
        """Sort the values into canonical order."""
        order: Counts = pc.sort_indices(self.values).to_numpy().astype(np.int64)
        return order

    def build_profile(self) -> ColumnProfile:
        self._inspect_texts(self.values)
        order = self.sort_values()
        missing = int(self.counts[0])
        values = self.values.take(convert_to_arrow(order))
        return ColumnProfile(
            self.name,
            values.type,
            values,
            self.counts[1:][order],
            missing,
            self.is_wide,
            self.max_length,
            self.has_line_breaks,
        )


def _count_text_bytes(values: pa.Array) -> int:
    """The number of bytes of strings; other values are short."""
    return (pc.sum(pc.binary_length(values)).as_py() or 0) if pa.types.is_string(values.type) else 0


# ----------------------------------------------------------------------------------------------------- the whole table


def profile_table(engine: Engine, source: Source, preparation: Preparation, draws: Draws) -> Profile:
    """Make the first pass, which counts the prepared rows of a table."""
    schema, types = preparation.schema, preparation.derive_types(source.schema)
    parts = tuple(name for name in schema.sensitive_columns if name != schema.sensitive_name)
    expected = None if schema.nulls is NullPolicy.DROP else source.rows
    counting = Counting(types, schema.sensitive_name, parts, tuple(schema.ranges), draws, expected)
    whole = Profiler(counting)
    for piece in engine.map_items(
        partial(_profile_piece, counting, preparation), engine.split_source(source, preparation.columns)
    ):
        whole.merge(piece)
        engine.progress("counting", whole.rows_read, source.rows)
    return whole.build_profile(schema.person_rows.max_rows)


def _profile_piece(counting: Counting, preparation: Preparation, piece: TablePiece) -> Profiler:
    """Count one piece separately."""
    profiler, stream = Profiler(counting), counting.draws.get_stream(SAMPLE_PURPOSE)
    for batch, first in piece.read_batches(preparation.columns):
        # Random keys follow from row numbers before any row is dropped, so no other piece has to be read.
        random_keys = convert_to_arrow(stream.draw_bits(first, batch.num_rows))
        kept_batch = preparation.filter_rows(batch.append_column(ORDER, random_keys))
        prepared = preparation.append_compound(preparation.prepare_rows(kept_batch))
        profiler.add(prepared, kept_batch, kept_batch.column(ORDER).to_numpy())
        profiler.rows_read += batch.num_rows
    return profiler
