"""Which files a name means, and what kind of tables they are: a file, a glob or a folder, here or in a store."""

from __future__ import annotations

import glob
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from sfumato.address import Address, File
from sfumato.apply.compressed import COMPRESSIONS, ending
from sfumato.apply.formats import arrow, duckdb_file, excel, json_lines
from sfumato.errors import SourceError, reason


class Kind(Enum):
    """The kinds of files that are read."""

    PARQUET = (".parquet", ".pq")
    CSV = (".csv", ".tsv", ".txt")
    ARROW = arrow.ENDINGS
    JSON = json_lines.ENDINGS
    EXCEL = excel.ENDINGS
    DUCKDB = duckdb_file.ENDINGS


IN_FOLDERS = (Kind.PARQUET, Kind.CSV, Kind.ARROW, Kind.JSON)
"""What a table may be in several files of."""
ENDINGS = ".parquet, .csv, .tsv (also .csv.gz), .arrow, .feather, .jsonl, .xlsx or .duckdb"
"""For people."""


def kind_of(file: File) -> Kind | None:
    """What kind of table a file is, by its name; only texts are unpacked."""
    found = next((kind for kind in Kind if ending(file) in kind.value), None)
    is_packed = file.suffix.lower() in COMPRESSIONS
    return None if is_packed and found not in (Kind.CSV, Kind.JSON) else found


def files_of(path: str) -> list[File]:
    """The files of one kind that a name means, in order."""
    if not path:
        raise SourceError("the name of the table is empty; name a file, a quoted glob or a directory.")
    given = Address.of(path, SourceError) or Path(path).absolute()  # whoever reads it may work in another folder
    try:
        if given.is_file():
            return [given]
        is_folder = given.is_dir()
        found = _below(given) if is_folder else _matching(given)
    except OSError as error:
        raise SourceError(f"{path!r} cannot be read: {reason(error)}.") from error
    if is_folder and any("=" in part for file in found for part in file.relative_to(given).parts[:-1]):  # type: ignore[union-attr, arg-type]
        raise SourceError(
            f"{path!r} keeps a column in folder names (name=value), which is not read; write it as a column."
        )
    if not found:
        raise SourceError(
            f"{path!r} names no table: there is no such file, glob or directory of Parquet, CSV, Arrow or JSON files."
        )
    if len(set(map(kind_of, found))) > 1:
        raise SourceError(f"{path!r} matches files of several types; name one type ('{path}/*.csv', for example).")
    return found


def _below(folder: File) -> list[File]:
    """The tables in a folder. A text may be a note, and what begins with . or _ is some program's own."""
    files = folder.below() if isinstance(folder, Address) else sorted(Path(str(folder)).rglob("*"))
    found: list[File] = [
        file
        for file in files
        if kind_of(file) in IN_FOLDERS
        and ending(file) not in (".txt", ".json")
        and not file.name.startswith((".", "_"))
        and (isinstance(file, Address) or file.is_file())
    ]
    return found


def _matching(pattern: File) -> list[File]:
    """The files that a glob means; in a store, one of names in one folder."""
    if isinstance(pattern, Address):
        return [each for each in pattern.parent.below(is_deep=False) if fnmatchcase(each.name, pattern.name)]
    return [path for path in map(Path, sorted(glob.glob(str(pattern)))) if path.is_file()]
