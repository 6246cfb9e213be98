"""Records that stand for the table where all of them would take too long: as many as have the smallest keyed words.

Which records they are depends on the key and on their numbers, and not on how the rows are cut into batches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Codes, Words
from sfumato._records.column_codes import RawColumn, Sensitive, TableColumn, in_arrow, local_codes

MOST_RECORDS = 200_000
SURELY = 8
"""By so many standard deviations more records are taken than will be kept, so that enough of them are."""
PURPOSE = "sample"


@dataclass(frozen=True)
class Sample:
    """Some records, in no order: the codes of their public columns, and of what is sensitive. Secret."""

    columns: Mapping[str, Codes]
    sensitive: Codes
    """Places in the domain."""
    total: int
    """How many records there are in the table."""

    @property
    def records(self) -> int:
        """How many records there are here."""
        return len(self.sensitive)

    @property
    def is_whole(self) -> bool:
        """Whether these are all the records of the table."""
        return self.records == self.total


class Sampler:
    """Collects the records with the smallest words."""

    def __init__(self, schema: pa.Schema, expected: int | None = None) -> None:
        """Where it is known how many records come, hardly more of them are taken than will be kept."""
        self.schema = schema
        self.most = MOST_RECORDS
        self.below: np.uint64 | None = None
        """Records with words from here on are not among the smallest."""
        if expected is not None and expected > 2 * self.most:
            enough = self.most + SURELY * math.isqrt(self.most)
            self.below = np.uint64(enough * (1 << 64) // expected)
        self.taken: list[tuple[pa.RecordBatch, Words]] = []

    def add(self, batch: pa.RecordBatch, words: Words) -> None:
        """Take the records of a batch that may be among the smallest, and let go of those that are not any more."""
        if self.below is not None:
            chosen = np.flatnonzero(words < self.below)
            if len(chosen) < len(words):
                batch, words = batch.take(in_arrow(chosen)), words[chosen]
        columns = list(map(_unifiable, batch.columns))
        self.taken.append((pa.RecordBatch.from_arrays(columns, names=batch.schema.names), words))
        if sum(len(each) for _, each in self.taken) > 2 * self.most:
            self._prune()

    def merge(self, other: Sampler) -> None:
        """Add what was collected elsewhere."""
        for batch, words in other.taken:
            self.add(batch, words)

    def result(self) -> pa.Table:
        """The records, in the order of their words."""
        if not any(len(words) for _, words in self.taken):
            return self.schema.empty_table()
        self._prune()
        ((batch, words),) = self.taken
        return pa.Table.from_batches([batch]).take(in_arrow(np.argsort(words, kind="stable")))

    def _prune(self) -> None:
        words = np.concatenate([each for _, each in self.taken])
        table = pa.Table.from_batches([batch for batch, _ in self.taken]).unify_dictionaries().combine_chunks()
        if len(words) > self.most:
            chosen = np.argpartition(words, self.most - 1)[: self.most]
            table, words = table.take(in_arrow(chosen)).combine_chunks(), words[chosen]
            self.below = words.max()
        (batch,) = table.to_batches()
        self.taken = [(batch, words)]


def coded(records: pa.Table, columns: Sequence[TableColumn], sensitive: Sensitive, total: int) -> Sample:
    """The records as codes; a column of too many values to be numbered in the table is numbered here."""
    parts = {part.name for part in sensitive.parts}
    arrays = {name: records.column(name).combine_chunks() for name in records.column_names}
    found = {}
    for column in columns:
        if column.name not in parts:
            array = _whole(arrays[column.name])
            found[column.name] = local_codes(array)[0] if isinstance(column, RawColumn) else column.encode(array)
    return Sample(found, sensitive.encode({name: _whole(arrays[name]) for name in parts}), total)


def _unifiable(column: pa.Array) -> pa.Array:
    """A column whose dictionary Arrow can unify with another one: codes of one width, and no missing entry."""
    if not pa.types.is_dictionary(column.type):
        return column
    indices, values = column.indices, column.dictionary
    if values.null_count:
        codes, values = local_codes(column)
        indices = pa.array(codes, mask=codes == len(values))
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values.cast(column.type.value_type))


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, however many pieces there were."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return pa.concat_arrays(array.unify_dictionaries().chunks) if array.num_chunks else pa.array([], array.type)
