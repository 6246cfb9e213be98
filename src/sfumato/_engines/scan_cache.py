"""What the first reading of a table saw, kept for the second one, so that its files are decoded once.

Columns that come as dictionaries are kept as codes in the narrowest type, the others as they are; in memory up to a
budget, and then in a file without a name. Where a row would take too much of it, nothing is kept, and the table is read
again. What is kept is secret: it is the table.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa

from sfumato._core.digests import FileMapper
from sfumato._readers.sources import Source
from sfumato._records.column_codes import convert_to_arrow, find_smallest_type
from sfumato.errors import SourceError

MOST_ROW_BYTES = 24
"""If rows take more than this, it is not slower to decode them again than to write them down."""

MOST_LISTED_SHARE = 4
"""The values that dictionaries list may take one of so many parts of the budget, for they stay in memory."""

LEAST_LISTED = 1 << 20
"""They may have so many bytes anyway."""


@dataclass
class KeptSource:
    """A table whose batches are kept while it is read through for the first time, and given back the next time."""

    table: Source
    folder: Path
    budget: int
    """Bytes; what does not fit goes to the disk."""
    _readings: dict[tuple[tuple[str, ...], int], KeptBatches] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        return self.table.schema

    @property
    def rows(self) -> int | None:
        """The number of rows, where it is known without reading them."""
        return self.table.rows

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns, read again."""
        return self.table.batches(columns, batch_rows)

    def pieces(self, rows: int) -> Iterator[Any]:
        """The pieces of the table itself, which may travel and are not kept."""
        return self.table.pieces(rows)

    def fingerprint(self, each: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the table itself."""
        return self.table.fingerprint(each, is_content=is_content)

    def held(self, columns: Sequence[str], batch_rows: int) -> Iterator[HeldBatch]:
        """The same batches, one by one: those that were kept, or else new ones, which are kept as they are used."""
        reading_key = tuple(columns), batch_rows
        earlier_reading = self._readings.pop(reading_key, None)
        if earlier_reading is not None and earlier_reading.is_whole:
            yield from (HeldBatch(earlier_reading, number, rows) for number, rows in enumerate(earlier_reading.sizes))
            return
        reading = self._readings[reading_key] = KeptBatches(self.folder, self.budget)
        for batch in self.table.batches(columns, batch_rows):
            reading.sizes.append(batch.num_rows)
            yield HeldBatch(reading, len(reading.sizes) - 1, batch.num_rows, batch)
        reading.is_read = True


class KeptBatches:
    """The batches of one reading, as codes; they may be put and got by several threads."""

    def __init__(self, folder: Path, budget: int) -> None:
        self.folder, self.budget = folder, budget
        self.sizes: list[int] = []
        """How many rows each batch has that was read; it is put later, when it is used."""
        self.is_read = False
        self.is_given_up = False
        self._lock = Lock()
        self._file: Any = None
        self._held_bytes = self._listed_bytes = 0
        self._batches: dict[int, _Coded] = {}
        self._last: list[pa.Array | None] = []

    @property
    def is_whole(self) -> bool:
        """Whether every batch was read and put."""
        return self.is_read and not self.is_given_up and len(self._batches) == len(self.sizes)

    def put(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep a batch, and give it back with codes as narrow as they are kept; give up where rows take too much."""
        if self.is_given_up:
            return batch
        codes = pa.RecordBatch.from_arrays(list(map(_extract_codes, batch.columns)), names=batch.schema.names)
        with self._lock:
            listed = self._listed(batch)
            limit = max(self.budget // MOST_LISTED_SHARE, LEAST_LISTED)
            if codes.nbytes > MOST_ROW_BYTES * batch.num_rows or self._listed_bytes > limit:
                self.is_given_up = True
                self._batches.clear()
            if not self.is_given_up:
                self._batches[number] = _Coded(codes.schema, listed, self._stored(codes))
        return _restore_batch(codes, listed)

    def got(self, number: int) -> pa.RecordBatch:
        """A batch that was put, as it was given back; once, so that there is room for what is made of it."""
        coded_batch = self._batches.pop(number)
        codes = coded_batch.codes
        if isinstance(codes, tuple):
            first, size = codes
            data = pa.py_buffer(os.pread(self._file.fileno(), size, first))
            codes = pa.ipc.read_record_batch(data, coded_batch.schema)
        return _restore_batch(codes, coded_batch.listed)

    def _stored(self, codes: pa.RecordBatch) -> pa.RecordBatch | tuple[int, int]:
        """The codes themselves, or where they are in the file."""
        if self._held_bytes + codes.nbytes <= self.budget:
            self._held_bytes += codes.nbytes
            return codes
        if self._file is None:
            # Without a name from the beginning: it is gone with its last user, even one that is killed.
            self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed with the last use of this
            finalize(self, self._file.close)
        first = self._file.tell()
        written = self._file.write(codes.serialize())
        self._file.flush()
        return first, written

    def _listed(self, batch: pa.RecordBatch) -> list[pa.Array | None]:
        """The values of the dictionaries: neighbours mostly have the same, which are then kept once."""
        dictionaries: list[pa.Array | None] = []
        for place, column in enumerate(batch.columns):
            values = column.dictionary if pa.types.is_dictionary(column.type) else None
            last = self._last[place] if place < len(self._last) else None
            if values is not None and last is not None and values.equals(last):
                values = last
            elif values is not None:
                self._listed_bytes += values.nbytes
            dictionaries.append(values)
        self._last = dictionaries
        return dictionaries


@dataclass(frozen=True)
class _Coded:
    """One batch as codes, and what dictionaries list."""

    schema: pa.Schema
    """Of the codes."""
    listed: list[pa.Array | None]
    codes: pa.RecordBatch | tuple[int, int]
    """The codes themselves, or where they are in the file."""


@dataclass(frozen=True)
class HeldBatch:
    """One batch of a reading: one that was just read, to be kept by the thread that uses it, or one that was kept."""

    reading: KeptBatches
    number: int
    rows: int
    new: pa.RecordBatch | None = None

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The one batch."""
        yield self.reading.got(self.number) if self.new is None else self.reading.put(self.number, self.new)


def _extract_codes(column: pa.Array) -> pa.Array:
    """What is kept of a column: the codes of a dictionary, or the values."""
    if not pa.types.is_dictionary(column.type):
        return column
    kind, indices = find_smallest_type(len(column.dictionary)), column.indices
    if indices.null_count:
        return indices.cast(pa.from_numpy_dtype(kind))
    codes = indices.to_numpy()
    if codes.max(initial=0) > np.iinfo(kind).max or codes.min(initial=0) < 0:
        raise SourceError("a column has codes beyond its dictionary; write the table anew.")
    return convert_to_arrow(codes.astype(kind))


def _restore_batch(codes: pa.RecordBatch, listed: Sequence[pa.Array | None]) -> pa.RecordBatch:
    """The batch of some codes and of what its dictionaries list."""
    columns = [
        # Their codes came from a dictionary, and need not be checked again.
        column if values is None else pa.DictionaryArray.from_arrays(column, values, safe=False)
        for column, values in zip(codes.columns, listed, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=codes.schema.names)
