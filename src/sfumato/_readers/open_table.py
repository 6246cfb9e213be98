"""Opens any table: finds its reader, and checks that the reader can read it."""

from __future__ import annotations

import glob
import mmap
import os
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from sfumato._core.object_store import Address, BufferFile, File
from sfumato._readers import tables_in_files
from sfumato._readers.compressed_files import find_ending
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable, Opening, TableReader
from sfumato._readers.reader_registry import (
    describe_endings,
    describe_several,
    find_reader_of_address,
    find_reader_of_beginning,
    find_reader_of_file,
    find_reader_of_object,
)
from sfumato._readers.sources import MarkedSource, RowProgress, Source, ignore_rows
from sfumato.errors import SourceError, explain_os_error

# Finds the files that a name stands for. A name is a file, a glob or a folder, local or in a store.


def find_files(path: str) -> list[File]:
    """The files that a name stands for, all of the same kind, in order."""
    if not path:
        raise SourceError(
            "the name of the table is empty; name a file, a quoted glob or a directory.", code="no-table-name"
        )
    address = (
        Address.of(path, SourceError) or Path(path).absolute()
    )  # a worker that reads the file may have another working directory
    try:
        if address.is_file():
            return [address]
        is_folder = address.is_dir()
        files = _list_tables_in_folder(address) if is_folder else _match_glob(address)
    except OSError as error:
        raise SourceError(
            f"{path!r} cannot be read: {explain_os_error(error)}.",
            code="unreadable-file",
            fields={"file": str(path), "reason": explain_os_error(error)},
        ) from error
    if is_folder and any("=" in part for file in files for part in file.relative_to(address).parts[:-1]):  # type: ignore[union-attr, arg-type]
        raise SourceError(
            f"{path!r} stores a column in folder names (name=value), which is not supported; write it as a column.",
            code="column-in-folder-names",
            fields={"file": path},
        )
    if not files:
        raise SourceError(
            f"{path!r} is not a table: there is no file, glob or directory of {describe_several()} files with this "
            "name.",
            code="missing-file",
            fields={"file": path},
        )
    if len({reader.name if (reader := find_reader_of_file(file)) else None for file in files}) > 1:
        raise SourceError(
            f"{path!r} matches files of several types; name one type ('{path}/*.csv', for example).",
            code="mixed-file-types",
            fields={"file": path},
        )
    return files


def _list_tables_in_folder(folder: File) -> list[File]:
    """The tables in a folder.

    Text files are left out because they may be notes; names that begin with . or _ belong to other programs.
    """
    files = folder.list_files() if isinstance(folder, Address) else sorted(Path(str(folder)).rglob("*"))
    table_files: list[File] = [
        file
        for file in files
        if _is_table_file(file)
        and not file.name.startswith((".", "_"))
        and (isinstance(file, Address) or file.is_file())
    ]
    return table_files


def _is_table_file(file: File) -> bool:
    """Whether a file in a folder is part of a table, by its name."""
    reader = find_reader_of_file(file)
    return reader is not None and reader.takes_several and find_ending(file) not in reader.explicit_endings


def _match_glob(pattern: File) -> list[File]:
    """The files that match a glob. In a store, a glob matches names in one folder."""
    if isinstance(pattern, Address):
        return [file for file in pattern.parent.list_files(is_deep=False) if fnmatchcase(file.name, pattern.name)]
    return [path for path in map(Path, sorted(glob.glob(str(pattern)))) if path.is_file()]


# ---------------------------------------------------------------------------------------------------------------------

# Reads standard input as a table. It is kept in a private file without a name, because a table is read more than once.

STANDARD_INPUT = "-"
"""The path that stands for standard input."""
NAME = "standard input"
GZIP, PACKED_CSV = b"\x1f\x8b", ".csv.gz"
"""Compressed input is taken for CSV."""
LONGEST_BEGINNING = 64


def read_standard_input(spool: Path) -> BufferFile:
    """The content of standard input, as a file whose name has the ending of its kind."""
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError(
            "- means standard input, but nothing is piped into this command; write, for example: cat patients.csv | "
            "sfumato ...",
            code="no-input",
        )
    content = spool_bytes(sys.stdin.buffer, spool)
    first = content[:LONGEST_BEGINNING].to_pybytes()
    suffix = PACKED_CSV if first.startswith(GZIP) else find_reader_of_beginning(first).endings[0]
    return BufferFile(NAME + suffix, content)


def spool_bytes(stream: BinaryIO, spool: Path) -> pa.Buffer:
    """The bytes of a stream, mapped from a file that is removed from its folder before the first byte is written.

    So the system deletes the file with its last user, even if this process is killed.
    """
    descriptor = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    spool.unlink()
    with open(descriptor, "r+b") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
        file.flush()
        if not file.tell():
            raise SourceError("standard input is empty, so there is no table to read.", code="no-input")
        return pa.py_buffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))


# ---------------------------------------------------------------------------------------------------------------------


def open_source(
    table: AnyTable, spool: Path, *, read: ReadOptions = DEFAULT_READ_OPTIONS, row_progress: RowProgress = ignore_rows
) -> Source:
    """Opens a path, a glob, a folder, an address, `-` for standard input, a frame, or an Arrow table or stream.

    If a table can be read only once, it is written to `spool` for the second pass. This is a private file without a
    name. A Spark frame is written to files in a folder with the name `spool`.
    """
    reader, opening = _find_reader(table, spool, read, row_progress)
    source = reader.open(opening)
    return MarkedSource(source, read.missing) if read.missing and not reader.marks_missing else source


def _find_reader(
    table: AnyTable, spool: Path, read: ReadOptions, row_progress: RowProgress
) -> tuple[TableReader, Opening]:
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
            f"{files[0].name!r} cannot be read as a table: name a file that ends in {describe_endings()}, or "
            "convert it.",
            code="wrong-ending",
            fields={"file": files[0].name},
        )
    opening = Opening(name, spool, read, row_progress, files, part)
    _check(reader, opening, path)
    return reader, opening


def _check(reader: TableReader, opening: Opening, path: str) -> None:
    """Refuse files that the reader cannot read."""
    first = opening.file
    if len(opening.files) > 1 and not reader.takes_several:
        raise SourceError(
            f"{path!r} matches several files, but only one file of this type can be read at a time; name one file.",
            code="several-files",
            fields={"file": path},
        )
    if opening.part is not None and not reader.part_kind:
        raise SourceError(
            f"{first.name!r} contains only one table; remove {tables_in_files.SEPARATOR + opening.part!r} after its "
            "name.",
            code="single-table",
            fields={"file": first.name},
        )
    if isinstance(first, Address) and not reader.reads_stores:
        raise SourceError(
            f"{first.name!r} is in a store, but a {reader.name} file cannot be read from a store; copy it to this "
            "machine first.",
            code="table-in-store",
            fields={"file": first.name, "format": reader.name},
        )
