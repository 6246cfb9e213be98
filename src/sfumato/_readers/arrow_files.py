"""Reads Arrow files (also called Feather files) and Arrow streams of any size, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sfumato._core.cell_values import simplify_schema
from sfumato._core.digests import FileMapper, compute_files_digest
from sfumato._core.object_store import File, open_for_arrow
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import replace_views
from sfumato.errors import SourceError

FILE_MARK, STREAM_MARK, OLD_MARK = b"ARROW1", b"\xff\xff\xff\xff", b"FEA1"


@dataclass(frozen=True)
class ArrowSource:
    """One or several Arrow files with the same columns, read in the order of their names."""

    paths: tuple[File, ...]
    schema: pa.Schema
    file_rows: tuple[int, ...] = ()
    """The number of rows of each file. It is found by reading the batches."""

    @classmethod
    def open(cls, paths: Sequence[File]) -> ArrowSource:
        """Read the columns of the files, and refuse files whose columns differ."""
        schemas, sizes = [], []
        for path in paths:
            with _open_reader(path) as reader:
                schemas.append(simplify_schema(reader.schema))
                sizes.append(sum(batch.num_rows for batch in _iter_batches(reader)))
            if not schemas[-1].equals(schemas[0]):
                raise SourceError(
                    f"{path.name!r} has other columns or types than {paths[0].name!r}; make them the same.",
                    code="other-columns",
                    fields={"file": path.name, "first_file": paths[0].name},
                )
        return cls(tuple(paths), schemas[0], tuple(sizes))

    @property
    def rows(self) -> int:
        """The number of rows. It is needed to choose rows of persons and to number pieces."""
        return sum(self.file_rows)

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The batches of the files. Large batches are cut."""
        for path in self.paths:
            with _open_reader(path) as reader:
                for batch in _iter_batches(reader):
                    plain_batch = replace_views(batch.select(list(columns)))
                    for first in range(0, plain_batch.num_rows, batch_rows):
                        yield plain_batch.slice(first, batch_rows)

    def iter_pieces(self, rows: int) -> Iterator[ArrowSource]:
        """One piece for each file."""
        for path, size in zip(self.paths, self.file_rows, strict=True):
            yield replace(self, paths=(path,), file_rows=(size,))

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the files."""
        return compute_files_digest(self.paths, map_files, is_content=is_content)


def open_arrow(opening: Opening) -> ArrowSource:
    """Open Arrow files with the same columns."""
    return ArrowSource.open(opening.files)


@contextmanager
def _open_reader(path: File) -> Iterator[pa.RecordBatchReader | pa.RecordBatchFileReader]:
    """Returns the reader of a file or a stream, chosen by the first bytes."""
    try:
        # The file is not mapped into memory, because this program would crash if another program truncated the file.
        with pa.OSFile(str(path)) if isinstance(path, Path) else open_for_arrow(path) as file:
            mark = file.read(len(FILE_MARK))
            if mark.startswith(OLD_MARK):
                raise SourceError(
                    f"{path.name!r} is in version 1 of Feather, which is not supported; write it again with a newer "
                    "program.",
                    code="older-format",
                    fields={"file": path.name},
                )
            file.seek(0)
            with pa.ipc.open_file(file) if mark == FILE_MARK else pa.ipc.open_stream(file) as reader:
                yield reader
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{path.name!r} is not a complete Arrow file; check that it was copied completely.",
            code="damaged-file",
            fields={"file": path.name},
        ) from error


def _iter_batches(reader: pa.RecordBatchReader | pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        yield from reader


READER = TableReader(
    name="Arrow",
    example="people.arrow",
    open=open_arrow,
    endings=(".arrow", ".feather", ".ipc"),
    takes_several=True,
    reads_stores=True,
    beginnings=(FILE_MARK, STREAM_MARK),
)
