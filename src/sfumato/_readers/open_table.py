"""Opens a table, whatever it is: finds its reader, checks what the reader takes, and hands the table over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato._core.object_store import Address
from sfumato._readers import tables_in_files
from sfumato._readers.file_kinds import find_files
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.reader_registry import (
    describe_endings,
    find_reader_of_address,
    find_reader_of_file,
    find_reader_of_object,
)
from sfumato._readers.sources import MarkedSource, RowProgress, Source, ignore_rows
from sfumato._readers.standard_input import STANDARD_INPUT, read_standard_input
from sfumato.errors import SourceError


def open_source(
    table: Any, spool: Path, *, read: ReadOptions = DEFAULT_READ_OPTIONS, row_progress: RowProgress = ignore_rows
) -> Source:
    """Opens a path, a glob, a folder, an address, `-` for standard input, a frame, or an Arrow table or stream.

    A table that can be read only once is written to `spool` for the second pass, a private file without a name; a frame
    of Spark to files in a folder of that name.
    """
    reader, opening = _find_reader(table, spool, read, row_progress)
    source = reader.open(opening)
    return MarkedSource(source, read.missing) if read.missing and not reader.marks_missing else source


def _find_reader(table: Any, spool: Path, read: ReadOptions, row_progress: RowProgress) -> tuple[TableReader, Opening]:
    if not isinstance(table, str | Path):
        return find_reader_of_object(table), Opening(table, spool, read, row_progress)
    name = str(table)
    if (reader := find_reader_of_address(name)) is not None:
        return reader, Opening(name, spool, read, row_progress)
    path, part = (name, None) if name == STANDARD_INPUT else tables_in_files.split_table_name(name)
    files = tuple([read_standard_input(spool)] if name == STANDARD_INPUT else find_files(path))
    reader = find_reader_of_file(files[0])
    if reader is None:
        raise SourceError(
            f"{files[0].name!r} is no table that can be read: name a file that ends in {describe_endings()}, "
            "or convert it."
        )
    opening = Opening(name, spool, read, row_progress, files, part)
    _check(reader, opening, path)
    return reader, opening


def _check(reader: TableReader, opening: Opening, path: str) -> None:
    """Refuse files that the reader does not take."""
    first = opening.file
    if len(opening.files) > 1 and not reader.takes_several:
        raise SourceError(f"{path!r} matches several files, of which one can be read at a time; name one.")
    if opening.part is not None and not reader.part_kind:
        raise SourceError(
            f"{first.name!r} is one table: leave out {tables_in_files.SEPARATOR + opening.part!r} behind its name."
        )
    if isinstance(first, Address) and not reader.reads_stores:
        raise SourceError(
            f"{first.name!r} is in a store, where a {reader.name} file cannot be opened; copy it here first."
        )
