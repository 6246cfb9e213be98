"""Draws a random sample of records, where all records would take too long: those with the smallest random keys.

The sample depends on the secret key and the record numbers, not on how the rows are cut into batches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, RandomBits
from sfumato._records.column_codes import (
    RawColumn,
    SensitiveColumns,
    TableColumn,
    convert_to_arrow,
    encode_batch_values,
)

MOST_RECORDS = 200_000
SAFETY_DEVIATIONS = 8
"""Extra records to take, in standard deviations of the sample size, so that enough remain."""
SAMPLE_PURPOSE = "sample"


@dataclass(frozen=True)
class Sample:
    """The codes of the public and sensitive columns of some records, in no particular order. Secret."""

    columns: Mapping[str, Codes]
    sensitive: Codes
    """Positions in the domain."""
    total: int
    """The number of records in the table."""

    @property
    def records(self) -> int:
        """The number of records in the sample."""
        return len(self.sensitive)

    @property
    def is_whole(self) -> bool:
        """Whether these are all the records of the table."""
        return self.records == self.total


class Sampler:
    """Collects the records with the smallest random keys."""

    def __init__(self, schema: pa.Schema, expected: int | None = None) -> None:
        """If the total number of records is known, hardly more records are taken than will be kept."""
        self.schema = schema
        self.capacity = MOST_RECORDS
        self.key_limit: np.uint64 | None = None
        """Records with random keys of at least this are not in the sample."""
        if expected is not None and expected > 2 * self.capacity:
            enough = self.capacity + SAFETY_DEVIATIONS * math.isqrt(self.capacity)
            self.key_limit = np.uint64(enough * (1 << 64) // expected)
        self.batches: list[tuple[pa.RecordBatch, RandomBits]] = []

    def add(self, batch: pa.RecordBatch, random_keys: RandomBits) -> None:
        """Take the records of a batch that may be in the sample.

        Drop earlier records that can no longer be in the sample.
        """
        if self.key_limit is not None:
            chosen = np.flatnonzero(random_keys < self.key_limit)
            if len(chosen) < len(random_keys):
                batch, random_keys = batch.take(convert_to_arrow(chosen)), random_keys[chosen]
        columns = list(map(_normalize_dictionary, batch.columns))
        self.batches.append((pa.RecordBatch.from_arrays(columns, names=batch.schema.names), random_keys))
        if sum(len(batch_keys) for _, batch_keys in self.batches) > 2 * self.capacity:
            self._prune()

    def merge(self, other: Sampler) -> None:
        """Add what another sampler collected."""
        for batch, random_keys in other.batches:
            self.add(batch, random_keys)

    def to_table(self) -> pa.Table:
        """The records, in the order of their random keys."""
        if not any(len(random_keys) for _, random_keys in self.batches):
            return self.schema.empty_table()
        self._prune()
        ((batch, random_keys),) = self.batches
        return pa.Table.from_batches([batch]).take(convert_to_arrow(np.argsort(random_keys, kind="stable")))

    def _prune(self) -> None:
        random_keys = np.concatenate([batch_keys for _, batch_keys in self.batches])
        table = pa.Table.from_batches([batch for batch, _ in self.batches]).unify_dictionaries().combine_chunks()
        if len(random_keys) > self.capacity:
            chosen = np.argpartition(random_keys, self.capacity - 1)[: self.capacity]
            table, random_keys = table.take(convert_to_arrow(chosen)).combine_chunks(), random_keys[chosen]
            self.key_limit = random_keys.max()
        (batch,) = table.to_batches()
        self.batches = [(batch, random_keys)]


def encode_sample(records: pa.Table, columns: Sequence[TableColumn], sensitive: SensitiveColumns, total: int) -> Sample:
    """The records as codes. A column that has too many values for codes of the whole table is encoded here."""
    parts = {part.name for part in sensitive.parts}
    arrays = {name: records.column(name).combine_chunks() for name in records.column_names}
    codes_by_column = {}
    for column in columns:
        if column.name not in parts:
            array = _combine_chunks(arrays[column.name])
            codes_by_column[column.name] = (
                encode_batch_values(array)[0] if isinstance(column, RawColumn) else column.encode(array)
            )
    return Sample(codes_by_column, sensitive.encode({name: _combine_chunks(arrays[name]) for name in parts}), total)


def _normalize_dictionary(column: pa.Array) -> pa.Array:
    """A column whose dictionary Arrow can unify with others: 32-bit codes, and no missing entry."""
    if not pa.types.is_dictionary(column.type):
        return column
    indices, values = column.indices, column.dictionary
    if values.null_count:
        codes, values = encode_batch_values(column)
        indices = pa.array(codes, mask=codes == len(values))
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values.cast(column.type.value_type))


def _combine_chunks(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array from any number of chunks."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return pa.concat_arrays(array.unify_dictionaries().chunks) if array.num_chunks else pa.array([], array.type)
