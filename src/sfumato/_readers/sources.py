"""Defines tables that can be read more than once.

They are the protocol, a table in memory, and a table with markers of missing values.

A source can be read several times in the same order, in batches of any size. Columns have a few plain types (see
`sfumato._core.cell_values.simplify_type`), and strings are preferably dictionaries.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import simplify_schema, simplify_type
from sfumato._core.digests import FileMapper, compute_files_digest
from sfumato._core.object_store import File
from sfumato.errors import SchemaError, SourceError

SPOOL_ROWS = 65_536

RowProgress = Callable[[int], None]
"""A function that is called with the number of rows read so far.

The function is called only for a table that can be read only once.
"""


def ignore_rows(rows: int) -> None:
    """Ignore the number of rows."""


class ArrowStream(Protocol):
    """Any object that yields its rows as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Source(Protocol):
    """A table that can be read more than once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        ...

    @property
    def rows(self) -> int | None:
        """The number of rows, if known without reading them."""
        ...

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns."""
        ...

    def iter_pieces(self, rows: int) -> Iterator[Self]:
        """The same rows as smaller tables of about `rows` rows each, if the table can be cut."""
        ...

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """A digest of the published rows. Equal digests mean the same table.

        For a file with several tables, the digest covers one table. `map_files` may read several files at once.

        If `is_content` is false, only changes must be detected. Then a store may confirm that its files are the same,
        and nothing is read.
        """
        ...


@dataclass(frozen=True)
class MemorySource:
    """An Arrow table in memory, or mapped from a spool file."""

    table: pa.Table
    digest: str | None = None
    """The digest of the original files, if there are any. It does not depend on how a version of Arrow reads them."""

    @classmethod
    def from_pandas(cls, frame: Any) -> MemorySource:
        """Copy a pandas frame. The index of the frame does not become a column."""
        names = [str(name) for name in frame.columns]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise SchemaError(
                f"the table has two columns named {repeated!r}; rename one of them.",
                code="repeated-column",
                fields={"column": repeated},
            )
        try:
            table = pa.Table.from_pandas(frame.set_axis(names, axis=1), preserve_index=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            # The last argument of Arrow's error has the column. The first argument has the value, which must stay
            # secret.
            column_reasons = [str(part) for part in error.args if "column" in str(part)]
            reason = column_reasons[0].splitlines()[0] if column_reasons else type(error).__name__
            raise SourceError(
                f"the pandas frame has a column with mixed or oversized values ({reason}); convert this column to "
                "text first.",
                code="mixed-types",
            ) from None
        return cls(table.replace_schema_metadata(None))

    @classmethod
    def from_stream(cls, stream: ArrowStream, spool: Path, row_progress: RowProgress = ignore_rows) -> MemorySource:
        """Keep a stream that can be read only once. Errors do not repeat its values."""
        try:
            return cls.spool_stream(stream, spool, row_progress)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:  # this is an error of the disk, not of the stream
                raise
            raise SourceError(
                f"the Arrow stream cannot be read: {type(error).__name__}.",
                code="unreadable-stream",
                fields={"reason": type(error).__name__},
            ) from None

    @classmethod
    def spool_stream(cls, stream: ArrowStream, spool: Path, row_progress: RowProgress = ignore_rows) -> MemorySource:
        """Write a stream that can be read only once to a private file, and map the file. Reports the number of rows.

        The file is removed from its folder before the first value is written. So the system deletes it with its last
        user, even if this process is killed.
        """
        descriptor = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        spool.unlink()
        with open(descriptor, "r+b") as file:
            reader = pa.RecordBatchReader.from_stream(stream)
            with pa.ipc.new_stream(file, reader.schema) as writer:
                rows = 0
                for batch in reader:
                    writer.write_batch(batch)
                    row_progress(rows := rows + batch.num_rows)
            file.flush()
            mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        return cls(pa.ipc.open_stream(pa.py_buffer(mapped)).read_all())

    def attach_digest(self, files: Sequence[File], before: str) -> MemorySource:
        """The same table with the digest of the original files. Refuses files that have changed meanwhile."""
        if compute_files_digest(files) != before:
            raise SourceError(
                "the table changed while it was read; publish it again when no program writes to it.",
                code="table-changed",
            )
        return replace(self, digest=before)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the rows of this piece. Arrow's own pickle of a slice would contain the whole table."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table.unify_dictionaries())
        return _restore_source, (sink.getvalue().to_pybytes(), self.digest)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        return simplify_schema(self.table.schema)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Slices of the table."""
        yield from map(replace_views, self.table.select(list(columns)).to_batches(batch_rows))

    def iter_pieces(self, rows: int) -> Iterator[MemorySource]:
        """Slices of the table."""
        for first in range(0, self.rows, rows):
            yield MemorySource(self.table.slice(first, rows))

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the table's Arrow stream.

        Batches have equal sizes, so the digest does not depend on the table's chunks.
        """
        if self.digest is not None:
            return self.digest
        sink = _HashSink()
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), self.table.schema) as writer:
            for first in range(0, self.rows, SPOOL_ROWS):
                part = self.table.slice(first, SPOOL_ROWS).unify_dictionaries().combine_chunks()
                writer.write_table(_zero_missing_values(part))
        return sink.digest.hexdigest()


def _zero_missing_values(table: pa.Table) -> pa.Table:
    """The same values, with zeros in the memory of missing values, because its content may differ from run to run."""
    rows = pa.array(range(table.num_rows), pa.int64())
    for place, column in enumerate(table.columns):
        if column.null_count and pa.types.is_primitive(column.type):
            table = table.set_column(place, table.field(place), column.take(rows))
    return table


def _restore_source(stream: bytes, digest: str | None) -> MemorySource:
    return MemorySource(pa.ipc.open_stream(stream).read_all(), digest)


class _HashSink:
    """A file object that computes the digest of the bytes written to it and does not store them."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing, because no data is buffered."""

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class MarkedSource:
    """A table in which some strings mark a missing value.

    In a column of numbers, the equal numbers mark a missing value.
    """

    source: Source
    missing: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        return self.source.schema

    @property
    def rows(self) -> int | None:
        """The number of rows, if known without reading them."""
        return self.source.rows

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns."""
        for batch in self.source.read_batches(columns, batch_rows):
            yield pa.RecordBatch.from_arrays(list(map(self._replace_markers, batch.columns)), names=batch.schema.names)

    def iter_pieces(self, rows: int) -> Iterator[MarkedSource]:
        """The pieces of the table, with the same markers."""
        for piece in self.source.iter_pieces(rows):
            yield MarkedSource(piece, self.missing)

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the underlying table."""
        return self.source.compute_fingerprint(map_files, is_content=is_content)

    def _replace_markers(self, column: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            return pa.DictionaryArray.from_arrays(column.indices, self._replace_markers(column.dictionary))
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            numbers = _list_numbers(self.missing, column.type)
            return pc.if_else(pc.is_in(column, numbers), pa.scalar(None, column.type), column) if numbers else column
        if not pa.types.is_string(simplify_type(column.type)):
            return column
        texts = column.cast(pa.string())
        return pc.if_else(pc.is_in(texts, pa.array(self.missing)), pa.scalar(None, pa.string()), texts)


def _list_numbers(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    """The markers that are numbers, in the type of a column."""
    numbers = []
    for text in texts:
        with contextlib.suppress(pa.ArrowException):
            numbers.append(pa.scalar(text).cast(kind).as_py())
    return pa.array(numbers, kind)


def replace_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts string views to strings. Polars writes such views, and Arrow cannot select rows of them."""
    kinds = [_replace_view_type(kind) for kind in batch.schema.types]
    return batch.cast(pa.schema(list(zip(batch.schema.names, kinds, strict=True))))


def _replace_view_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _replace_view_type(kind.value_type))
    return pa.string() if pa.types.is_string_view(kind) else kind
