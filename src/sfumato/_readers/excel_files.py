"""Reads one sheet of an .xlsx workbook. The first row of the sheet names the columns.

The module uses calamine, which returns every cell unchanged. A reader that guesses the type of a column from its first
rows would lose later values of other types. A column with any text becomes a column of text, as in a CSV file of the
sheet.
"""

from __future__ import annotations

import datetime
import io
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO
from xml.parsers import expat

import pyarrow as pa

from sfumato._core.object_store import File
from sfumato._readers import tables_in_files
from sfumato._readers.cell_types import ColumnKind
from sfumato._readers.column_names import LOOK_AHEAD, check_names_differ, find_name_row, is_title
from sfumato._readers.optional_packages import import_optional
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato.errors import SchemaError, SourceError

# Check how large an .xlsx workbook is before a reader allocates memory for it. A reader allocates the whole rectangle
# up to the farthest cell of a sheet, so one cell in the last corner needs a terabyte. A small archive may also unpack
# to any size. The declared sizes of an archive are not trusted. So the archive is unpacked once, one piece at a time,
# and the cells of every sheet are checked.

MOST_CELLS = 30_000_000
"""The largest product of rows and columns of a sheet, up to its farthest nonempty cell."""
LARGEST_CONTENT = 1 << 30
"""The largest unpacked size of a workbook in bytes."""
PIECE = 1 << 20

SHEET = b"sheetData"
"""The name of the element that every part with cells has."""
WORKBOOK = "xl/workbook.xml"
OTHER_FORMATS = ("content.xml", "xl/workbook.bin")
"""With these parts a reader would take a workbook for another format."""
REFERENCE = re.compile(r"([A-Za-z]{1,8})([0-9]{1,12})")


class _UnknownContentsError(Exception):
    """A part of the workbook cannot be checked, so the workbook is not read."""


def check_workbook(name: str, content: IO[bytes]) -> None:
    """Refuse a workbook that is too large, and a file that is not an .xlsx workbook."""
    try:
        with zipfile.ZipFile(content) as archive:
            names = {info.filename.replace("\\", "/").lower() for info in archive.infolist()}
            if WORKBOOK not in names or names.intersection(OTHER_FORMATS):
                raise _UnknownContentsError
            _check_parts(name, archive)
    except SourceError:
        raise
    except (
        _UnknownContentsError,
        zipfile.BadZipFile,
        zlib.error,
        expat.ExpatError,
        EOFError,
        NotImplementedError,
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # fmt: skip - RuntimeError means a password, NotImplementedError an unknown compression
        raise SourceError(
            f"{name!r} cannot be read as an Excel file; check that it is complete, is an .xlsx workbook, and has "
            "no password.",
            code="damaged-file",
            fields={"file": name},
        ) from error
    finally:
        content.seek(0)


def _check_parts(name: str, archive: zipfile.ZipFile) -> None:
    total = 0
    for info in archive.infolist():
        has_cells, end = False, b""
        for piece in _unpack(archive, info):
            total += len(piece)
            if total > LARGEST_CONTENT:
                raise SourceError(
                    f"{name!r} unpacks to more than {LARGEST_CONTENT >> 20:,} MB; export it as a CSV or Parquet file.",
                    code="unpacks-too-large",
                    fields={"file": name, "limit": LARGEST_CONTENT},
                )
            has_cells = has_cells or SHEET in end + piece
            end = piece[-len(SHEET) :]
        if has_cells and (cells := _count_cells(_unpack(archive, info))) > MOST_CELLS:
            raise SourceError(
                f"a sheet of {name!r} spans {cells:,} cells, but at most {MOST_CELLS:,} can be read; delete the "
                "cells far from the table, or export the sheet as a CSV or Parquet file.",
                code="too-many-cells",
                fields={"file": name, "cells": cells, "limit": MOST_CELLS},
            )


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    info.file_size = sys.maxsize  # the actual size, not the declared size
    with archive.open(info) as part:
        while piece := part.read(PIECE):
            yield piece


def _count_cells(pieces: Iterator[bytes]) -> int:
    """Count the cells of the rectangle from the first cell to the farthest nonempty one."""
    row = column = last_row = last_column = 0
    is_in_cell = False

    def handle_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, last_row, last_column, is_in_cell
        kind = name.rpartition(":")[2]
        if kind == "row":
            row, column, is_in_cell = int(attributes.get("r", row + 1)), 0, False
        elif kind == "c":
            column, is_in_cell = column + 1, True
            if "r" in attributes:
                row, column = _parse_reference(attributes["r"])
        elif is_in_cell:
            last_row, last_column = max(last_row, row), max(last_column, column)

    def refuse(*_: object) -> None:
        raise _UnknownContentsError  # only some readers accept declarations there

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = handle_start, refuse
    for piece in pieces:
        parser.Parse(piece)
    parser.Parse(b"", True)
    return last_row * last_column


def _parse_reference(reference: str) -> tuple[int, int]:
    """The row and the column of a cell like B7, counted from 1."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise _UnknownContentsError
    column = 0
    for letter in match[1].upper():
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(match[2]), column


# ---------------------------------------------------------------------------------------------------------------------

LARGEST_WHOLE = 1 << 53
"""Numbers in a spreadsheet are doubles, which are exact for whole numbers up to this limit."""


def open_excel(opening: Opening) -> MemorySource:
    """Read one sheet. The fingerprint depends on its rows only, because other sheets of the file are other tables."""
    return MemorySource(read_sheet(opening.file, opening.part, opening.read_options.text, opening.read_options.missing))


def read_sheet(file: File, part: str | None, text: Sequence[str] = (), missing: Iterable[str] = ()) -> pa.Table:
    """The rows of a sheet, without empty rows."""
    calamine = import_optional("python_calamine", "excel", "an Excel file")
    with file.open("rb") as stream:
        content = io.BytesIO(stream.read())
    check_workbook(file.name, content)
    try:
        book = calamine.CalamineWorkbook.from_filelike(content)
        sheet_names = [
            sheet_metadata.name
            for sheet_metadata in book.sheets_metadata
            if sheet_metadata.typ == calamine.SheetTypeEnum.WorkSheet
        ]
        sheet = tables_in_files.choose_table(file.name, part, sheet_names, "sheet")
        rows = book.get_sheet_by_name(sheet).to_python(skip_empty_area=False)
    except (calamine.CalamineError, calamine.PasswordError, calamine.ZipError, calamine.XmlError, OSError) as error:
        raise SourceError(
            f"{file.name!r} cannot be read as an Excel file; check that it is complete, and has no password.",
            code="damaged-file",
            fields={"file": file.name},
        ) from error
    if not rows:
        raise SchemaError(
            f"the sheet {sheet!r} is empty, but its first row must name the columns.",
            code="empty-sheet",
            fields={"sheet": sheet},
        )
    first_rows = [["" if value is None else str(value) for value in row] for row in rows[:LOOK_AHEAD]]
    if is_title(first_rows[0]) and (place := find_name_row(first_rows)) is not None:
        raise SchemaError(
            f"the first row of the sheet {sheet!r} does not name the columns, but row {place + 1} seems to; remove the "
            "rows above it.",
            code="title-above-header",
            fields={"sheet": sheet, "row": place + 1},
        )
    names, markers = _check_names(rows[0], sheet), {"", *missing}
    cells = ([_convert_cell(value, markers) for value in row] for row in rows[1:])
    filled_rows = [row for row in cells if any(value is not None for value in row)]
    arrays = []
    for number, name in enumerate(names):
        values, kind = [row[number] for row in filled_rows], ColumnKind(is_text=name in text)
        kind.add(values)
        arrays.append(kind.to_array(values))
    return pa.table(arrays, names=names)


def _check_names(cells: Sequence[object], sheet: str) -> list[str]:
    names = [value if isinstance(value, str) else str(_convert_cell(value, ())) for value in cells]
    if not all(name.strip() for name in names):
        raise SchemaError(
            f"a column of the sheet {sheet!r} has no name; the first row must name all columns.",
            code="column-without-name",
            fields={"sheet": sheet},
        )
    check_names_differ(names)
    return names


def _convert_cell(value: object, markers: Iterable[str]) -> object:
    """The value of a cell. Whole numbers become integers, and times of day become strings."""
    if isinstance(value, str):
        return None if value in markers else value
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_WHOLE:
        return int(value)
    return str(value) if isinstance(value, datetime.time | datetime.timedelta) else value


READER = TableReader(
    name="Excel",
    example="book.xlsx::SHEET",
    open=open_excel,
    endings=(".xlsx", ".xlsm"),
    part_kind="sheet",
    reads_stores=True,
    extra="excel",
)
