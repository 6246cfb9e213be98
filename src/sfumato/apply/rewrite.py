"""From a batch of the table to a batch of the release: prepare, encode, replace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.apply.slots import Slots
from sfumato.draws import Draws, Numbers
from sfumato.mechanisms import AnyMechanism
from sfumato.request.schema import NullPolicy, Schema
from sfumato.shown.columns import (
    CodedColumn,
    NumberColumn,
    PartColumn,
    PublishedColumn,
    Sensitive,
    SetColumn,
    TableColumn,
    binned,
    combined,
    dense,
    merged,
    packed,
    smallest_type,
)
from sfumato.shown.tally import Buckets, Codes, Counts, Members, Observation, Symbols, margins

Rows = dict[str, Any]
"""Rewritten rows: for each column its codes (numpy), or its values (Arrow) where they are not coded."""

CELL, BUCKET = "cell", "bucket"
"""The usual names of the columns that say where a record is."""

ORDER = ""
"""The column of rewritten rows that says where a row goes: rows are published sorted by it. No column has this name."""


@dataclass(frozen=True)
class Preparation:
    """What happens to a batch before anything is counted.

    Values are put into bins, not-a-number becomes missing, and records without a sensitive value may be left out.
    """

    schema: Schema
    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Prepare one batch."""
        if self.schema.nulls is NullPolicy.DROP:
            for name in self.schema.sensitive_columns:
                is_missing = pc.is_null(dense(batch.column(name)), nan_is_null=True)
                batch = batch.filter(pc.invert(is_missing))
        arrays = [self._column(name, batch.column(name)) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def with_compound(self, prepared: pa.RecordBatch) -> pa.RecordBatch:
        """Add the combinations of several sensitive columns to a prepared batch, so that they can be counted."""
        together = self.schema.together
        if not together:
            return prepared
        return prepared.append_column(self.schema.sensitive, combined([prepared.column(name) for name in together]))

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        bins = self.schema.bins.get(name)
        if bins:
            column = binned(column, bins, name)
        rare = self.schema.merged.get(name)
        return merged(column, rare.values, rare.label) if rare else column

    def types(self, source: pa.Schema) -> pa.Schema:
        """The types of the prepared columns, and of their combinations."""
        fields = [(name, pa.string() if name in self.schema.bins else source.field(name).type) for name in self.columns]
        return pa.schema([*fields, *([(self.schema.sensitive, pa.string())] if self.schema.together else [])])


@dataclass(frozen=True)
class Rewrite:
    """Turns a prepared batch into codes to publish, with what is sensitive replaced and an order for each row.

    Row-local: what happens to a row depends on its own values, its number, its rank among the rows of the same value,
    the plan and the key.
    """

    columns: tuple[TableColumn, ...]
    sensitive: Sensitive
    mechanism: AnyMechanism
    plan: Any
    counts: tuple[int, ...]
    draws: Draws

    def __call__(self, batch: pa.RecordBatch, first_row: int, ranks_before: Counts | None = None) -> Rows:
        """Rewrite one batch; `first_row` is the number of its first record in the table.

        `ranks_before` says how many records of each value there are before it; needed where records have slots.
        """
        rows: Rows = {ORDER: self.draws.stream("order").words(first_row, batch.num_rows)}
        parts = {part.name for part in self.sensitive.parts}
        for column in self.columns:
            if column.name not in parts:
                rows[column.name] = column.encode(batch.column(column.name))
        codes = self.sensitive.encode(batch)
        slots = None if ranks_before is None else self._slots_of(codes, ranks_before)
        replaced = self.mechanism.replace(self.plan, codes, slots, self._draws, first_row)
        if replaced.values is not None:
            is_set = replaced.values.ndim > 1
            rows[self.sensitive.name] = packed(replaced.values) if is_set else replaced.values
        if replaced.cells is not None:
            rows[self.cell_name] = replaced.cells
        return rows

    def count(self, batch: pa.RecordBatch) -> Counts | None:
        """How many records of a batch hold each value, if records have slots."""
        if not self.mechanism.USES_SLOTS:
            return None
        ranked = self.sensitive.ranked(self.sensitive.encode(batch))
        return np.concatenate(
            [np.bincount(codes, minlength=len(each.counts)) for codes, each in zip(ranked, self._slots, strict=True)]
        )

    @property
    def _draws(self) -> Draws:
        return self.draws.for_column(self.sensitive.name)

    @property
    def ranked_values(self) -> int:
        """By how many values records are ranked, over all columns that are protected for themselves."""
        return sum(len(each.counts) for each in self._slots) if self.mechanism.USES_SLOTS else 0

    def _slots_of(self, codes: Codes, ranks_before: Counts) -> Numbers:
        """The slot of each record; a row for each column, where several are protected each for itself."""
        ends = np.cumsum([len(each.counts) for each in self._slots])
        ranks = np.split(ranks_before, ends[:-1])
        ranked = self.sensitive.ranked(codes)
        found = [each(held, before) for each, held, before in zip(self._slots, ranked, ranks, strict=True)]
        return np.stack(found) if self.sensitive.is_independent else found[0]

    @cached_property
    def _slots(self) -> list[Slots]:
        if not self.sensitive.is_independent:
            return [Slots(self._draws, self.mechanism.NAME, self.counts)]
        pairs = zip(self.sensitive.parts, margins(self.counts, self.sensitive.sizes), strict=True)
        return [Slots(self.draws.for_column(part.name), self.mechanism.NAME, counts.tolist()) for part, counts in pairs]

    @property
    def observation(self) -> Observation:
        """What a record of the release will show."""
        return self.mechanism.observe(self.mechanism.design(self.plan))

    @cached_property
    def cell_name(self) -> str:
        """The name of the column of cells: one that no other column has."""
        base = BUCKET if isinstance(self.observation, Buckets) else CELL
        return cell_name([column.name for column in self.columns], base)

    @cached_property
    def published(self) -> tuple[PublishedColumn, ...]:
        """The columns of the release: what is sensitive as it is shown, and the cells beside it."""
        return published_columns(self.columns, self.sensitive, self.observation, self.cell_name)


def cell_name(columns: Sequence[str], name: str = CELL) -> str:
    """The name of the column of cells or buckets: one that no other column has, whatever the capitals."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"{name}_"
    return name


def published_columns(
    columns: Sequence[TableColumn], sensitive: Sensitive, observation: Observation, cells: str
) -> tuple[PublishedColumn, ...]:
    """The columns of a release, in the order of the table, and the cells after them."""
    parts = [part.name for part in sensitive.parts]
    published: list[PublishedColumn] = []
    for column in columns:
        if column.name not in parts:
            published.append(column)
        elif isinstance(observation, Buckets):
            continue
        elif isinstance(observation, Members):
            if column.name == parts[0]:
                published.append(SetColumn(sensitive, observation.as_list))
        elif len(parts) > 1:
            published.append(PartColumn(sensitive, parts.index(column.name)))
        else:
            published.append(column)
    if isinstance(observation, Symbols) and observation.cells is not None:
        numbers = pa.array(np.arange(int(observation.cells.max()) + 1, dtype=np.int32))
        published.append(CodedColumn(cells, numbers, False))
    if isinstance(observation, Buckets):
        published.append(NumberColumn(cells))
    return tuple(published)


@dataclass(frozen=True)
class SideTable:
    """The table of buckets beside the records: bucket, value and count, in the order of the bucket ids.

    Ids are random, and the values of a bucket stand in the order of the domain, so the order tells nothing.
    """

    sensitive: Sensitive
    bucket: str
    count: str
    rows: Callable[[int], Iterator[tuple[Numbers, Numbers, Numbers]]]
    """Batches of about so many bucket ids, places and counts, in order."""

    @property
    def published(self) -> tuple[PublishedColumn, ...]:
        """The columns of the table."""
        parts = self.sensitive.parts
        values = [PartColumn(self.sensitive, number) for number in range(len(parts))] if len(parts) > 1 else [parts[0]]
        return (NumberColumn(self.bucket), *values, NumberColumn(self.count))

    def batches(self, batch_rows: int) -> Iterator[Rows]:
        """The rows in order, in batches of about so many."""
        kind = smallest_type(len(self.sensitive.numbers))
        for buckets, places, counts in self.rows(batch_rows):
            yield {self.bucket: buckets, self.sensitive.name: places.astype(kind), self.count: counts}


def published_schema(columns: Sequence[PublishedColumn]) -> pa.Schema:
    """The columns of a release; nullable only where a value may be missing."""
    return pa.schema([pa.field(column.name, column.written_type, nullable=column.has_missing) for column in columns])


def decode(columns: Sequence[PublishedColumn], rows: Rows) -> pa.Table:
    """Turn rewritten rows into the rows of the release."""
    arrays = [column.decode(rows[column.source]) for column in columns]
    return pa.Table.from_arrays(arrays, schema=published_schema(columns))
