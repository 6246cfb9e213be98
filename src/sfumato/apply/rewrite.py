"""From a batch of the table to a batch of the release: encode and replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.apply.slots import Slots
from sfumato.arrays import Codes, Counts, Numbers, Words
from sfumato.draws import Draws
from sfumato.mechanisms.mechanism import AnyMechanism
from sfumato.request.histogram import margins
from sfumato.shown import Shown
from sfumato.shown.columns import PublishedColumn, Sensitive, TableColumn

Rows = dict[str, Any]
"""Rewritten rows: for each column its codes (numpy), or its values (Arrow) where they are not coded."""

ORDER = ""
"""The column of rewritten rows that says where a row goes: rows are published sorted by it. No column has this name."""


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
        rows: Rows = {ORDER: order_words(self.draws, first_row, batch.num_rows)}
        parts = {part.name for part in self.sensitive.parts}
        for column in self.columns:
            if column.name not in parts:
                rows[column.name] = column.encode(batch.column(column.name))
        codes = self.sensitive.encode(batch)
        slots = None if ranks_before is None else self._slots_of(codes, ranks_before)
        replaced = self.mechanism.replace(self.plan, codes, slots, self._draws, first_row)
        return {**rows, **self.shown.rows(replaced, self.sensitive.name, self.cell_name)}

    def count(self, batch: pa.RecordBatch) -> Counts | None:
        """How many records of a batch hold each value, if records have slots."""
        if not self.mechanism.uses_slots:
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
        return sum(len(each.counts) for each in self._slots) if self.mechanism.uses_slots else 0

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
            return [Slots(self._draws, self.mechanism.name, self.counts)]
        pairs = zip(self.sensitive.parts, margins(self.counts, self.sensitive.sizes), strict=True)
        return [Slots(self.draws.for_column(part.name), self.mechanism.name, counts.tolist()) for part, counts in pairs]

    @cached_property
    def shown(self) -> Shown:
        """What a record of the release will show."""
        return self.mechanism.shown(self.mechanism.design(self.plan))

    @cached_property
    def cell_name(self) -> str:
        """The name of the column of cells or buckets: one that no other column has, whatever the capitals."""
        taken, name = {column.name.lower() for column in self.columns}, self.shown.CELL
        while name in taken:
            name = f"{name}_"
        return name

    @cached_property
    def published(self) -> tuple[PublishedColumn, ...]:
        """The columns of the release: what is sensitive as it is shown, and the cells beside it."""
        return self.shown.published(self.columns, self.sensitive, self.cell_name)


def order_words(draws: Draws, first_row: int, rows: int) -> Words:
    """The words by which rows are published in rising order."""
    return draws.stream("order").words(first_row, rows)


def published_schema(columns: Sequence[PublishedColumn]) -> pa.Schema:
    """The columns of a release; nullable only where a value may be missing."""
    return pa.schema([pa.field(column.name, column.written_type, nullable=column.has_missing) for column in columns])


def decode(columns: Sequence[PublishedColumn], rows: Rows) -> pa.Table:
    """Turn rewritten rows into the rows of the release."""
    arrays = [column.decode(rows[column.source]) for column in columns]
    return pa.Table.from_arrays(arrays, schema=published_schema(columns))
