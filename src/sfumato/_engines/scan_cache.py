"""Caches a table during its first reading for the second reading, so that its files are decoded only once.

Dictionary columns are stored as codes in the narrowest type, and other columns unchanged. The cache is in memory up to
a budget, and beyond this in a file without a name. If rows are too large, nothing is cached, and the table is read
again. The cache is as secret as the table.
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
"""Larger rows are not cached, because decoding them again is as fast as writing them to disk."""

DICTIONARY_SHARE = 4
"""The values of dictionaries stay in memory, and may take the budget divided by this number."""

LEAST_DICTIONARY_BYTES = 1 << 20
"""The number of bytes that dictionaries may always take."""


@dataclass
class CachedSource:
    """A table whose batches are cached during the first reading, and come from the cache in the second reading."""

    source: Source
    folder: Path
    budget: int
    """The memory in bytes; larger data spills to disk."""
    _caches: dict[tuple[tuple[str, ...], int], BatchCache] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        return self.source.schema

    @property
    def rows(self) -> int | None:
        """The number of rows, if known without reading them."""
        return self.source.rows

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns, read again."""
        return self.source.read_batches(columns, batch_rows)

    def iter_pieces(self, rows: int) -> Iterator[Any]:
        """The pieces of the underlying table. They may be sent to other processes and are not cached."""
        return self.source.iter_pieces(rows)

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the underlying table."""
        return self.source.compute_fingerprint(map_files, is_content=is_content)

    def read_cached(self, columns: Sequence[str], batch_rows: int) -> Iterator[CachedBatch]:
        """The same batches one by one, from the cache or new. New batches are cached when they are used."""
        cache_key = tuple(columns), batch_rows
        earlier_cache = self._caches.pop(cache_key, None)
        if earlier_cache is not None and earlier_cache.is_whole:
            yield from (CachedBatch(earlier_cache, number, rows) for number, rows in enumerate(earlier_cache.sizes))
            return
        cache = self._caches[cache_key] = BatchCache(self.folder, self.budget)
        for batch in self.source.read_batches(columns, batch_rows):
            cache.sizes.append(batch.num_rows)
            yield CachedBatch(cache, len(cache.sizes) - 1, batch.num_rows, batch)
        cache.is_read = True


class BatchCache:
    """The batches of one reading, as codes. Several threads may use it."""

    def __init__(self, folder: Path, budget: int) -> None:
        self.folder, self.budget = folder, budget
        self.sizes: list[int] = []
        """The number of rows of each batch that was read. The batch itself is stored later, when it is used."""
        self.is_read = False
        self.is_given_up = False
        self._lock = Lock()
        self._file: Any = None
        self._memory_bytes = self._dictionary_bytes = 0
        self._batches: dict[int, _CodedBatch] = {}
        self._last_dictionaries: list[pa.Array | None] = []

    @property
    def is_whole(self) -> bool:
        """Whether every batch was read and stored."""
        return self.is_read and not self.is_given_up and len(self._batches) == len(self.sizes)

    def put(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Store a batch, and return it with the narrowest codes. Stop caching if rows are too large."""
        if self.is_given_up:
            return batch
        codes = pa.RecordBatch.from_arrays(list(map(_extract_codes, batch.columns)), names=batch.schema.names)
        with self._lock:
            dictionaries = self._share_dictionaries(batch)
            limit = max(self.budget // DICTIONARY_SHARE, LEAST_DICTIONARY_BYTES)
            if codes.nbytes > MOST_ROW_BYTES * batch.num_rows or self._dictionary_bytes > limit:
                self.is_given_up = True
                self._batches.clear()
            if not self.is_given_up:
                self._batches[number] = _CodedBatch(codes.schema, dictionaries, self._store(codes))
        return _restore_batch(codes, dictionaries)

    def pop(self, number: int) -> pa.RecordBatch:
        """Returns a stored batch as `put` returned it. This works only once, to free memory for the results."""
        coded_batch = self._batches.pop(number)
        codes = coded_batch.codes
        if isinstance(codes, tuple):
            first, size = codes
            data = pa.py_buffer(os.pread(self._file.fileno(), size, first))
            codes = pa.ipc.read_record_batch(data, coded_batch.schema)
        return _restore_batch(codes, coded_batch.dictionaries)

    def _store(self, codes: pa.RecordBatch) -> pa.RecordBatch | tuple[int, int]:
        """The codes, or their position in the file."""
        if self._memory_bytes + codes.nbytes <= self.budget:
            self._memory_bytes += codes.nbytes
            return codes
        if self._file is None:
            # The file has no name from the beginning, so it disappears with its last user, even if this process is
            # killed.
            self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed when the cache is no longer used
            finalize(self, self._file.close)
        first = self._file.tell()
        size = self._file.write(codes.serialize())
        self._file.flush()
        return first, size

    def _share_dictionaries(self, batch: pa.RecordBatch) -> list[pa.Array | None]:
        """The dictionaries' values. Neighbouring batches mostly have the same values, which are then stored once."""
        dictionaries: list[pa.Array | None] = []
        for place, column in enumerate(batch.columns):
            values = column.dictionary if pa.types.is_dictionary(column.type) else None
            last = self._last_dictionaries[place] if place < len(self._last_dictionaries) else None
            if values is not None and last is not None and values.equals(last):
                values = last
            elif values is not None:
                self._dictionary_bytes += values.nbytes
            dictionaries.append(values)
        self._last_dictionaries = dictionaries
        return dictionaries


@dataclass(frozen=True)
class _CodedBatch:
    """One batch as codes, with the values of its dictionaries."""

    schema: pa.Schema
    """The schema of the codes."""
    dictionaries: list[pa.Array | None]
    codes: pa.RecordBatch | tuple[int, int]
    """The codes, or their position in the file."""


@dataclass(frozen=True)
class CachedBatch:
    """One batch of a reading. It comes from the cache, or is new and cached by the thread that uses it."""

    cache: BatchCache
    number: int
    rows: int
    new_batch: pa.RecordBatch | None = None

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The one batch."""
        yield self.cache.pop(self.number) if self.new_batch is None else self.cache.put(self.number, self.new_batch)


def _extract_codes(column: pa.Array) -> pa.Array:
    """The cached form of a column, which is the codes of a dictionary or the values."""
    if not pa.types.is_dictionary(column.type):
        return column
    kind, indices = find_smallest_type(len(column.dictionary)), column.indices
    if indices.null_count:
        return indices.cast(pa.from_numpy_dtype(kind))
    codes = indices.to_numpy()
    if codes.max(initial=0) > np.iinfo(kind).max or codes.min(initial=0) < 0:
        raise SourceError("a column has codes beyond its dictionary; write the table again.", code="invalid-dictionary")
    return convert_to_arrow(codes.astype(kind))


def _restore_batch(codes: pa.RecordBatch, dictionaries: Sequence[pa.Array | None]) -> pa.RecordBatch:
    """Makes the batch from some codes and the values of their dictionaries."""
    columns = [
        # The codes came from a dictionary, and need not be checked again.
        column if values is None else pa.DictionaryArray.from_arrays(column, values, safe=False)
        for column, values in zip(codes.columns, dictionaries, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=codes.schema.names)
