"""From a batch of the table to a batch of the release: prepare, encode, replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import PublishedColumn, binned, dense
from sfumato.draws import Draws
from sfumato.mechanisms import AnyMechanism
from sfumato.schema import NullPolicy, Schema

Rows = dict[str, Any]
"""Rewritten rows: for each column its codes (numpy), or its values (Arrow) where they are not coded."""

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
            sensitive = dense(batch.column(self.schema.sensitive))
            batch = batch.filter(pc.invert(pc.is_null(sensitive, nan_is_null=True)))
        arrays = [self._column(name, batch.column(name)) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        bins = self.schema.bins.get(name)
        return binned(column, bins, name) if bins else column

    def types(self, source: pa.Schema) -> pa.Schema:
        """The types of the prepared columns."""
        return pa.schema(
            [(name, pa.string() if name in self.schema.bins else source.field(name).type) for name in self.columns]
        )


@dataclass(frozen=True)
class Rewrite:
    """Turns a prepared batch into codes to publish, with the sensitive column replaced and an order for each row.

    Row-local: what happens to a row depends on its own values, its number, the plan and the key.
    """

    columns: tuple[PublishedColumn, ...]
    sensitive: str
    mechanism: AnyMechanism
    plan: Any
    draws: Draws

    def __call__(self, batch: pa.RecordBatch, first_row: int) -> Rows:
        """Rewrite one batch; `first_row` is the number of its first record in the table."""
        rows: Rows = {ORDER: self.draws.stream("order").words(first_row, batch.num_rows)}
        for column in self.columns:
            encoded = column.encode(batch.column(column.name))
            if column.name == self.sensitive:
                draws = self.draws.for_column(column.name)
                encoded = self.mechanism.replace(self.plan, encoded, None, draws, first_row)
            rows[column.name] = encoded
        return rows


def published_schema(columns: tuple[PublishedColumn, ...]) -> pa.Schema:
    """The columns of a release; nullable only where a value may be missing."""
    return pa.schema([pa.field(column.name, column.written_type, nullable=column.has_missing) for column in columns])


def decode(columns: tuple[PublishedColumn, ...], rows: Rows) -> pa.Table:
    """Turn rewritten rows into the rows of the release."""
    arrays = [column.decode(rows[column.name]) for column in columns]
    return pa.Table.from_arrays(arrays, schema=published_schema(columns))
