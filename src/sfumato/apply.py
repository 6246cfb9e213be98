"""From a batch of the table to a batch of the release: prepare, encode, replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import CodedColumn, PublishedColumn, binned, dense
from sfumato.draws import Draws
from sfumato.mechanisms import AnyMechanism
from sfumato.schema import NullPolicy, Schema

ORDER = "order"
"""The column of a rewritten batch that says where a row goes: rows are published sorted by it."""


@dataclass(frozen=True)
class Preparation:
    """What happens to a batch before anything is counted.

    Values are put into bins, not-a-number becomes missing, and records without a sensitive value are left out on request.
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

    def __call__(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Rewrite one batch; `first_row` is the number of its first record in the table."""
        arrays: dict[str, Any] = {ORDER: self.draws.stream("order").words(first_row, batch.num_rows)}
        for column in self.columns:
            encoded = column.encode(batch.column(column.name))
            if column.name == self.sensitive:
                draws = self.draws.for_column(column.name)
                encoded = self.mechanism.replace(self.plan, encoded, None, draws, first_row)
            arrays[column.name] = encoded
        return pa.RecordBatch.from_pydict({name: pa.array(array) for name, array in arrays.items()})


def decode(columns: tuple[PublishedColumn, ...], rewritten: pa.Table) -> pa.Table:
    """Turn rewritten rows into the rows of the release."""
    arrays: Mapping[str, Any] = {
        column.name: column.decode(rewritten.column(column.name).to_numpy())
        if isinstance(column, CodedColumn)
        else rewritten.column(column.name)
        for column in columns
    }
    return pa.table(dict(arrays))
