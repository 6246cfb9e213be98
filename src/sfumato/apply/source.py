"""Where a table comes from: Parquet or CSV, here or in a store, pandas, Spark, or anything that speaks Arrow streams.

A source can be read twice, in the same order, in batches of any size. Columns arrive in a few plain types (see
`sfumato.values.plain_type`), strings preferably as dictionaries.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.address import PIECE_BYTES, Address, File, readable
from sfumato.apply.csv import POINT, CsvSource
from sfumato.apply.files import ENDINGS, Kind, files_of, kind_of
from sfumato.apply.formats import arrow, duckdb_file, excel, inside, json_lines
from sfumato.apply.formats.postgres import PostgresTable
from sfumato.apply.spark_frames import is_frame, spooled
from sfumato.apply.standard_input import MARK, standard_input
from sfumato.errors import SchemaError, SourceError, reason
from sfumato.request.digest import Each, files_digest
from sfumato.request.values import plain_schema, plain_type

SPOOL_ROWS = 65_536
READ_BYTES = 1 << 20
"""Column chunks are read in pieces, so that a file of one huge row group does not fill the memory."""
MOST_SWELLING, FEW_BYTES = 1000, 1 << 28
"""How many times larger than its file the content of a row group may be; what is no larger than this does no harm."""


Told = Callable[[int], None]
"""Called with how many rows were read so far, while a table is read that can be read only once."""


def nobody(rows: int) -> None:
    """Tell nobody."""


class Source(Protocol):
    """A table that can be read more than once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        ...

    @property
    def rows(self) -> int | None:
        """The number of rows, where it is known without reading them."""
        ...

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns."""
        ...

    def pieces(self, rows: int) -> Iterator[Self]:
        """The same rows as smaller tables, one after the other: of about so many rows, where they can be cut so."""
        ...

    def fingerprint(self, each: Each = map, *, is_content: bool = True) -> str:
        """A digest of the rows that are published; two equal digests mean the same table.

        Of a file with several tables in it, the digest is that of one table. `each` may read several files at once.

        Where only a change need be noticed, and not the same table be known elsewhere, a store may say that it is still
        the same, and nothing is read.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a Parquet file that are read together."""

    path: File
    number: int
    rows: int


@dataclass(frozen=True)
class ParquetSource:
    """One or several Parquet files with the same columns, read in the order of their names."""

    paths: tuple[File, ...]
    schema: pa.Schema
    groups: tuple[RowGroup, ...]

    @classmethod
    def open(cls, paths: Sequence[File]) -> ParquetSource:
        """Read the footers, and refuse files whose columns differ."""
        schemas, groups = [], []
        for path in paths:
            with _parquet(path) as file:
                _check_swelling(path, file.metadata)
                schemas.append(plain_schema(file.schema_arrow))
                sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
                groups += [RowGroup(path, number, size) for number, size in enumerate(sizes)]
        for path, schema in zip(paths, schemas, strict=True):
            if not schema.equals(schemas[0]):
                raise SourceError(f"{path.name!r} has other columns or types than {paths[0].name!r}; they must agree.")
        return cls(tuple(paths), schemas[0], tuple(groups))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(group.rows for group in self.groups)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Stream the files; strings come as dictionaries, which is twice as fast."""
        strings = [name for name in columns if pa.types.is_string(self.schema.field(name).type)]
        for path, groups in groupby(self.groups, lambda group: group.path):
            with _parquet(path, strings) as file:
                try:
                    # Group by group: a reader of all row groups holds on to the bytes of those it has passed.
                    for group in groups:
                        yield from file.iter_batches(batch_rows, row_groups=[group.number], columns=list(columns))
                except (pa.ArrowException, OSError, IndexError) as error:
                    raise _unreadable(path, error, "is damaged: it cannot be read to its end") from error

    def pieces(self, rows: int) -> Iterator[ParquetSource]:
        """Neighbouring row groups of one file."""
        for path, groups in groupby(self.groups, lambda group: group.path):
            waiting: list[RowGroup] = []
            for group in groups:
                if waiting and sum(each.rows for each in waiting) + group.rows > rows:
                    yield replace(self, paths=(path,), groups=tuple(waiting))
                    waiting = []
                waiting.append(group)
            yield replace(self, paths=(path,), groups=tuple(waiting))

    def fingerprint(self, each: Each = map, *, is_content: bool = True) -> str:
        """The digest of the files."""
        return files_digest(self.paths, each, is_content=is_content)


def _parquet(path: File, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    size = PIECE_BYTES if isinstance(path, Address) else READ_BYTES
    try:
        return pq.ParquetFile(readable(path), read_dictionary=list(dictionaries), buffer_size=size)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise _unreadable(path, error, "is not a whole Parquet file; check that it was copied completely") from error


def _check_swelling(path: File, metadata: pq.FileMetaData) -> None:
    """Refuse a file on the disk that would be unpacked to absurdly more than it is; a row group is so all at once."""
    largest = max((metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)), default=0)
    if isinstance(path, Path) and largest > max(MOST_SWELLING * path.stat().st_size, FEW_BYTES):
        raise SourceError(f"{path.name!r} would swell to {largest:,} bytes, which is absurd; write it anew.")


def _unreadable(path: File, error: Exception, said: str) -> SourceError:
    """What to say of a file; what a store answers says more than that nothing came."""
    if isinstance(path, Address) and isinstance(error, OSError):
        said = f"cannot be read: {reason(error)}"
    return SourceError(f"{path.name!r} {said}.")


@dataclass(frozen=True)
class MemorySource:
    """An Arrow table in memory, or mapped from a spool file."""

    table: pa.Table
    digest: str | None = None
    """That of the files it was read from, where it was read from some: they need not be the same to Arrow for ever."""

    @classmethod
    def of_pandas(cls, frame: Any) -> MemorySource:
        """Copy a pandas frame; its index is no column."""
        names = [str(name) for name in frame.columns]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise SchemaError(f"the table has two columns named {repeated!r}; rename one of them.")
        try:
            table = pa.Table.from_pandas(frame.set_axis(names, axis=1), preserve_index=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            # Arrow names the column in its last argument; the offending value in the first must not be repeated.
            named = [str(part) for part in error.args if "column" in str(part)]
            said = named[0].splitlines()[0] if named else type(error).__name__
            raise SourceError(
                f"the pandas frame holds a column of mixed or oversized values ({said}); convert it to text first."
            ) from None
        return cls(table.replace_schema_metadata(None))

    @classmethod
    def spooled(cls, stream: Any, spool: Path, told: Told = nobody) -> MemorySource:
        """Keep a stream that can be read only once, and say in our words what is wrong with it."""
        try:
            return cls.kept(stream, spool, told)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:  # of the disk, and not of the stream
                raise
            raise SourceError(f"the Arrow stream cannot be read: {type(error).__name__}.") from None

    @classmethod
    def kept(cls, stream: Any, spool: Path, told: Told = nobody) -> MemorySource:
        """Write a stream that can be read only once to a private file, and map that; somebody is told of the rows.

        The file has no name any more before the first value is in it, so that the system removes it with its last user,
        even one that is killed.
        """
        descriptor = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        spool.unlink()
        with open(descriptor, "r+b") as file:
            reader = pa.RecordBatchReader.from_stream(stream)
            with pa.ipc.new_stream(file, reader.schema) as writer:
                rows = 0
                for batch in reader:
                    writer.write_batch(batch)
                    told(rows := rows + batch.num_rows)
            file.flush()
            mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        return cls(pa.ipc.open_stream(pa.py_buffer(mapped)).read_all())

    def __reduce__(self) -> tuple[Any, ...]:
        """A piece travels by itself: of a slice, pickle would send all that it is a slice of."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table.unify_dictionaries())
        return _arrived, (sink.getvalue().to_pybytes(), self.digest)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        return plain_schema(self.table.schema)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Slices of the table."""
        yield from map(arrow.without_views, self.table.select(list(columns)).to_batches(batch_rows))

    def pieces(self, rows: int) -> Iterator[MemorySource]:
        """Slices of the table."""
        for first in range(0, self.rows, rows):
            yield MemorySource(self.table.slice(first, rows))

    def fingerprint(self, each: Each = map, *, is_content: bool = True) -> str:
        """The digest of the table's Arrow stream, cut in equal batches whatever its own chunks are."""
        if self.digest is not None:
            return self.digest
        sink = _HashSink()
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), self.table.schema) as writer:
            for first in range(0, self.rows, SPOOL_ROWS):
                part = self.table.slice(first, SPOOL_ROWS).unify_dictionaries().combine_chunks()
                writer.write_table(_with_nothing_beneath(part))
        return sink.digest.hexdigest()


def _with_nothing_beneath(table: pa.Table) -> pa.Table:
    """The same values, with zeros where they are missing: what other libraries leave there differs from run to run."""
    rows = pa.array(range(table.num_rows), pa.int64())
    for place, column in enumerate(table.columns):
        if column.null_count and pa.types.is_primitive(column.type):
            table = table.set_column(place, table.field(place), column.take(rows))
    return table


def _arrived(stream: bytes, digest: str | None) -> MemorySource:
    return MemorySource(pa.ipc.open_stream(stream).read_all(), digest)


class _HashSink:
    """A file that keeps only the digest of what is written to it."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class MarkedSource:
    """A table in which some texts stand for a missing value, in every column of texts."""

    table: Source
    missing: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns, with plain types."""
        return self.table.schema

    @property
    def rows(self) -> int | None:
        """The number of rows, where it is known without reading them."""
        return self.table.rows

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns."""
        for batch in self.table.batches(columns, batch_rows):
            yield pa.RecordBatch.from_arrays(list(map(self._unmarked, batch.columns)), names=batch.schema.names)

    def pieces(self, rows: int) -> Iterator[MarkedSource]:
        """The pieces of the table, in which the same texts stand for a missing value."""
        for piece in self.table.pieces(rows):
            yield MarkedSource(piece, self.missing)

    def fingerprint(self, each: Each = map, *, is_content: bool = True) -> str:
        """The digest of the table itself."""
        return self.table.fingerprint(each, is_content=is_content)

    def _unmarked(self, column: pa.Array) -> pa.Array:
        if not pa.types.is_string(plain_type(column.type)):
            return column
        if pa.types.is_dictionary(column.type):
            return pa.DictionaryArray.from_arrays(column.indices, self._unmarked(column.dictionary))
        texts = column.cast(pa.string())
        return pc.if_else(pc.is_in(texts, pa.array(self.missing)), pa.scalar(None, pa.string()), texts)


@dataclass(frozen=True)
class Reading:
    """How texts are read, in files that have nothing else."""

    text: tuple[str, ...] = ()
    """Columns that stay texts, whatever they look like."""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value."""
    decimal: str = POINT
    told: Told = nobody


def open_source(  # noqa: PLR0913 - a table, and how it is read
    table: Any,
    spool: Path,
    *,
    text: Sequence[str] = (),
    encoding: str = "utf-8",
    missing: Sequence[str] = (),
    decimal: str = POINT,
    told: Told = nobody,
) -> Source:
    """Open a path, a glob, a directory, an address in a store, a frame, an Arrow table or an Arrow stream; `-` too.

    What can be read only once is written to `spool` for the second pass, a private file without a name; a frame of
    Spark to files in a folder of that name.
    """
    source = _opened(table, spool, Reading(tuple(text), encoding, tuple(missing), decimal, told))
    return MarkedSource(source, tuple(missing)) if missing and not isinstance(source, CsvSource) else source


def _opened(table: Any, spool: Path, how: Reading) -> Source:
    if is_frame(table):
        return ParquetSource.open(spooled(table, spool))
    if isinstance(table, str | Path):
        return _named(str(table), spool, how)
    if isinstance(table, pa.Table):
        return MemorySource(table)
    # Before the stream protocol, which pandas speaks too: its index is no column of the table.
    library = type(table).__module__.split(".")[0]
    if library == "pandas":
        return MemorySource.of_pandas(table)
    if library == "polars" and hasattr(table, "collect"):
        return MemorySource.spooled(_collected(table), spool, how.told)
    if hasattr(table, "__arrow_c_stream__"):
        return MemorySource.spooled(table, spool, how.told)
    raise SourceError(
        f"a table of type {type(table).__name__!r} cannot be read; give a path, a pandas or Spark frame, or an object "
        "with an Arrow stream (pyarrow, polars, DuckDB)."
    )


def _collected(lazy: Any) -> Any:
    """What a lazy frame of polars gives, computed once."""
    try:
        return lazy.collect()
    except Exception as error:  # its errors have no common class but this, and may repeat values
        raise SourceError(f"polars cannot compute the lazy frame ({type(error).__name__}); collect it first.") from None


def _named(name: str, spool: Path, how: Reading) -> Source:
    if name == MARK:
        return _of_files([standard_input(spool)], spool, how)
    if (asked := PostgresTable.of(name)) is not None:
        with asked.rows() as rows:
            return MemorySource.kept(rows, spool, how.told)
    path, part = inside.split(name)
    files = files_of(path)
    if (kind := kind_of(files[0])) in (Kind.EXCEL, Kind.DUCKDB):
        if len(files) > 1:
            raise SourceError(f"{path!r} matches several files, of which one can be read at a time; name one.")
        if kind is Kind.DUCKDB:
            with duckdb_file.rows_of(files[0], part) as rows:
                return MemorySource.spooled(rows, spool, how.told)
        # Known again by the rows of the sheet, not by the file: another sheet of it is another table.
        return MemorySource(excel.read_sheet(files[0], part, how.text, how.missing))
    if part is not None:
        raise SourceError(f"{files[0].name!r} is one table: leave out {inside.MARK + part!r} behind its name.")
    return _of_files(files, spool, how)


def _of_files(files: Sequence[File], spool: Path, how: Reading) -> Source:
    match kind_of(files[0]):
        case Kind.CSV:
            return CsvSource.open(files, text=how.text, encoding=how.encoding, missing=how.missing, decimal=how.decimal)
        case Kind.PARQUET:
            return ParquetSource.open(files)
        case Kind.ARROW:
            return arrow.ArrowSource.open(files)
        case Kind.JSON:
            before = files_digest(files)
            lines = json_lines.JsonLines(tuple(files), how.encoding, frozenset(how.missing))
            read = MemorySource.spooled(lines.stream(how.text, how.told), spool, how.told)
            if files_digest(files) != before:
                raise SourceError("the table changed while it was read; publish it again when nobody writes to it.")
            return replace(read, digest=before)
        case _:
            raise SourceError(
                f"{files[0].name!r} is no table that can be read: name a file that ends in {ENDINGS}, or convert it."
            )
