"""Check how large an .xlsx workbook is before a reader takes memory for it.

A reader takes memory for the whole rectangle up to the farthest cell of a sheet, so that one cell in the last corner
asks for a terabyte; and a small archive may unpack to any size. What an archive says of its sizes is not believed: it
is unpacked once, a piece at a time, and the cells of every sheet are looked at.
"""

from __future__ import annotations

import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO
from xml.parsers import expat

from sfumato.errors import SourceError

MOST_CELLS = 30_000_000
"""Rows times columns of a sheet, up to its farthest cell that holds something."""
LARGEST_CONTENT = 1 << 30
"""Bytes of all parts of a workbook, unpacked."""
PIECE = 1 << 20

SHEET = b"sheetData"
"""Every part with cells has an element of this name."""
WORKBOOK = "xl/workbook.xml"
OTHER_FORMATS = ("content.xml", "xl/workbook.bin")
"""Parts by which a reader takes a workbook for one of another kind."""
REFERENCE = re.compile(r"([A-Za-z]{1,8})([0-9]{1,12})")


class _UnknownContentsError(Exception):
    """A part cannot be judged, so that the workbook is not read."""


def check_workbook(name: str, content: IO[bytes]) -> None:
    """Refuse a workbook that is too large, and a file that is no .xlsx workbook."""
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
    ) as error:  # fmt: skip - RuntimeError is a password, NotImplementedError another way to pack
        raise SourceError(
            f"{name!r} cannot be read as an Excel file; check that it is whole, is an .xlsx workbook, and has no "
            "password."
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
                    f"{name!r} unpacks to more than {LARGEST_CONTENT >> 20:,} MB; publish it as a CSV or Parquet file."
                )
            has_cells = has_cells or SHEET in end + piece
            end = piece[-len(SHEET) :]
        if has_cells and (cells := _count_cells(_unpack(archive, info))) > MOST_CELLS:
            raise SourceError(
                f"a sheet of {name!r} reaches over {cells:,} cells, and at most {MOST_CELLS:,} are read; delete what "
                "stands far from the table, or publish it as a CSV or Parquet file."
            )


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    info.file_size = sys.maxsize  # as much as there is, not as much as is said
    with archive.open(info) as part:
        while piece := part.read(PIECE):
            yield piece


def _count_cells(pieces: Iterator[bytes]) -> int:
    """Count the cells of the rectangle from the first cell to the farthest one that holds something."""
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
        raise _UnknownContentsError  # what is declared there is read by some readers only

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = handle_start, refuse
    for piece in pieces:
        parser.Parse(piece)
    parser.Parse(b"", True)
    return last_row * last_column


def _parse_reference(reference: str) -> tuple[int, int]:
    """The row and the column of a cell like B7, from 1 on."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise _UnknownContentsError
    column = 0
    for letter in match[1].upper():
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(match[2]), column
