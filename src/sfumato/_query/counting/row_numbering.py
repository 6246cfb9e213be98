"""Finds, for each record, the row of a small table that has the same values in some public columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Indices, Mask
from sfumato._records.column_codes import encode_batch_values, encode_values
from sfumato.errors import ReleaseFormatError


@dataclass(frozen=True, eq=False)
class RowNumbering:
    """Numbers records by the rows of a small table. It can be used as a reader of published values.

    A row is found column by column. Each beginning of a row has a number among the different beginnings.
    """

    names: Sequence[str]
    values: Sequence[pa.Array]
    """The distinct values of each column."""
    beginnings: Sequence[Indices]
    """For each column, the different beginnings up to this column, in rising order."""
    rows: Indices
    """The row of each whole beginning."""

    @classmethod
    def of(cls, table: pa.Table) -> RowNumbering:
        """Makes the numbering from the rows of a table. No row may occur twice."""
        numbers, values, beginnings = np.zeros(table.num_rows, dtype=np.int64), [], []
        for name in table.column_names:
            column = _get_array(table, name)
            values.append(encode_batch_values(column)[1])
            distinct, numbers = np.unique(_append(numbers, column, values[-1]), return_inverse=True)
            beginnings.append(distinct)
        rows = np.zeros(table.num_rows, dtype=np.int64)
        rows[numbers] = np.arange(table.num_rows)
        return cls(table.column_names, values, beginnings, rows)

    def number_table(self, table: pa.Table) -> Indices:
        """For each row of another table, the equal row of this table. -1 if there is no equal row."""
        numbers, is_known = self._number([_get_array(table, name) for name in self.names], table.num_rows)
        return np.where(is_known, numbers, -1)

    def __call__(self, batch: pa.RecordBatch) -> Codes:
        """The row of each record. Refuses records that the table does not have."""
        numbers, is_known = self._number([batch.column(name) for name in self.names], batch.num_rows)
        if not is_known.all():
            raise ReleaseFormatError(
                "a record is in no group of a table of counts; get the release again from its publisher.",
                code="inconsistent-counts",
            )
        return numbers

    def _number(self, columns: Sequence[pa.Array], rows: int) -> tuple[Indices, Mask]:
        numbers, is_known = np.zeros(rows, dtype=np.int64), np.full(rows, len(self.rows) > 0)
        if not len(self.rows):
            return numbers, is_known
        for column, values, beginnings in zip(columns, self.values, self.beginnings, strict=True):
            keys = _append(numbers, column, values)
            numbers = np.minimum(np.searchsorted(beginnings, keys), len(beginnings) - 1)
            is_known &= beginnings[numbers] == keys
        return self.rows[numbers], is_known


def _append(numbers: Indices, column: pa.Array, values: pa.Array) -> Indices:
    """Appends the value of a column to the numbers of beginnings."""
    keys: Indices = numbers * (len(values) + 2) + encode_values(column, values).astype(np.int64)
    return keys


def _get_array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
