"""Finds the files that a name means: a file, a glob or a folder, here or in a store."""

from __future__ import annotations

import glob
from fnmatch import fnmatchcase
from pathlib import Path

from sfumato._core.object_store import Address, File
from sfumato._readers.compressed_files import find_ending
from sfumato._readers.reader_registry import describe_several, find_reader_of_file
from sfumato.errors import SourceError, explain_os_error


def find_files(path: str) -> list[File]:
    """The files of one kind that a name means, in order."""
    if not path:
        raise SourceError("the name of the table is empty; name a file, a quoted glob or a directory.")
    address = Address.of(path, SourceError) or Path(path).absolute()  # whoever reads it may work in another folder
    try:
        if address.is_file():
            return [address]
        is_folder = address.is_dir()
        files = _list_tables_in_folder(address) if is_folder else _match_glob(address)
    except OSError as error:
        raise SourceError(f"{path!r} cannot be read: {explain_os_error(error)}.") from error
    if is_folder and any("=" in part for file in files for part in file.relative_to(address).parts[:-1]):  # type: ignore[union-attr, arg-type]
        raise SourceError(
            f"{path!r} keeps a column in folder names (name=value), which is not read; write it as a column."
        )
    if not files:
        raise SourceError(
            f"{path!r} names no table: there is no such file, glob or directory of {describe_several()} files."
        )
    if len({reader.name if (reader := find_reader_of_file(file)) else None for file in files}) > 1:
        raise SourceError(f"{path!r} matches files of several types; name one type ('{path}/*.csv', for example).")
    return files


def _list_tables_in_folder(folder: File) -> list[File]:
    """The tables in a folder. A text may be a note, and what begins with . or _ is some program's own."""
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
    """The files that a glob means; in a store, one of names in one folder."""
    if isinstance(pattern, Address):
        return [file for file in pattern.parent.list_files(is_deep=False) if fnmatchcase(file.name, pattern.name)]
    return [path for path in map(Path, sorted(glob.glob(str(pattern)))) if path.is_file()]
