"""Reads one or several Parquet files with the same columns, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.cell_values import simplify_schema
from sfumato._core.digests import FileMapper, compute_files_digest
from sfumato._core.object_store import PIECE_BYTES, Address, File, open_for_arrow
from sfumato._readers.compressed_files import make_unreadable_error
from sfumato._readers.reader import Opening, TableReader
from sfumato.errors import SourceError

READ_BYTES = 1 << 20
"""Column chunks are read in pieces of this size, so that a huge row group does not fill the memory."""
MOST_SWELLING, FEW_BYTES = 1000, 1 << 28
"""The largest ratio of a row group's unpacked size to its file size.

Contents below the second number are always read.
"""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a Parquet file."""

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
            with _open_parquet_file(path) as file:
                _check_swelling(path, file.metadata)
                schemas.append(simplify_schema(file.schema_arrow))
                sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
                groups += [RowGroup(path, number, size) for number, size in enumerate(sizes)]
        for path, schema in zip(paths, schemas, strict=True):
            if not schema.equals(schemas[0]):
                raise SourceError(
                    f"{path.name!r} has other columns or types than {paths[0].name!r}; make them the same.",
                    code="other-columns",
                    fields={"file": path.name, "first_file": paths[0].name},
                )
        return cls(tuple(paths), schemas[0], tuple(groups))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(group.rows for group in self.groups)

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Stream the files. Strings are read as dictionaries, which is twice as fast."""
        strings = [name for name in columns if pa.types.is_string(self.schema.field(name).type)]
        for path, groups in groupby(self.groups, lambda group: group.path):
            with _open_parquet_file(path, strings) as file:
                try:
                    # Row groups are read one at a time, because a reader of all row groups keeps the bytes of earlier
                    # groups.
                    for group in groups:
                        yield from file.iter_batches(batch_rows, row_groups=[group.number], columns=list(columns))
                except (pa.ArrowException, OSError, IndexError) as error:
                    raise _make_unreadable_error(
                        path, error, "is damaged, because it cannot be read to its end"
                    ) from error

    def iter_pieces(self, rows: int) -> Iterator[ParquetSource]:
        """Neighbouring row groups of one file."""
        for path, groups in groupby(self.groups, lambda group: group.path):
            piece_groups: list[RowGroup] = []
            for group in groups:
                if piece_groups and sum(waiting_group.rows for waiting_group in piece_groups) + group.rows > rows:
                    yield replace(self, paths=(path,), groups=tuple(piece_groups))
                    piece_groups = []
                piece_groups.append(group)
            yield replace(self, paths=(path,), groups=tuple(piece_groups))

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the files."""
        return compute_files_digest(self.paths, map_files, is_content=is_content)


def open_parquet(opening: Opening) -> ParquetSource:
    """Open Parquet files with the same columns."""
    return ParquetSource.open(opening.files)


def _open_parquet_file(path: File, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    size = PIECE_BYTES if isinstance(path, Address) else READ_BYTES
    try:
        return pq.ParquetFile(open_for_arrow(path), read_dictionary=list(dictionaries), buffer_size=size)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise _make_unreadable_error(
            path, error, "is not a complete Parquet file; check that it was copied completely"
        ) from error


def _check_swelling(path: File, metadata: pq.FileMetaData) -> None:
    """Refuse a file that would unpack to an absurd multiple of its size, because a row group is unpacked at once."""
    largest = max((metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)), default=0)
    if isinstance(path, Path) and largest > max(MOST_SWELLING * path.stat().st_size, FEW_BYTES):
        raise SourceError(
            f"{path.name!r} would unpack to {largest:,} bytes, which is too much for its size; write the file again.",
            code="unpacks-too-large",
            fields={"file": path.name, "bytes": largest},
        )


def _make_unreadable_error(path: File, error: Exception, description: str) -> SourceError:
    """Makes the error for a file. For a file in a store, it has the store's own explanation."""
    if isinstance(path, Address) and isinstance(error, OSError):
        return make_unreadable_error(path, error)
    return SourceError(f"{path.name!r} {description}.", code="damaged-file", fields={"file": path.name})


READER = TableReader(
    name="Parquet",
    example="people.parquet",
    open=open_parquet,
    endings=(".parquet", ".pq"),
    takes_several=True,
    reads_stores=True,
    beginnings=(b"PAR1",),
)
