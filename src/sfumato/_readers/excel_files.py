"""Spreadsheets: one sheet of an .xlsx file, whose first row names the columns.

Read by calamine, which hands over every cell as it is. A reader that guesses the type of a column from its first rows
would make missing values of what comes later. A column that has any text is one of texts, as in a CSV file of it.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sfumato._core.object_store import File
from sfumato._readers import tables_in_files
from sfumato._readers.cell_types import ColumnKind
from sfumato._readers.optional_packages import import_optional
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato._readers.workbook_size import check_workbook
from sfumato.errors import SchemaError, SourceError

LARGEST_WHOLE = 1 << 53
"""Numbers of a spreadsheet are doubles, which are whole up to here."""


def open_excel(opening: Opening) -> MemorySource:
    """Read one sheet. It is known again by its rows, not by the file: another sheet of the file is another table."""
    return MemorySource(read_sheet(opening.file, opening.part, opening.read_options.text, opening.read_options.missing))


def read_sheet(file: File, part: str | None, text: Sequence[str] = (), missing: Iterable[str] = ()) -> pa.Table:
    """The rows of a sheet; those without any value are none."""
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
            f"{file.name!r} cannot be read as an Excel file; check that it is whole, and has no password."
        ) from error
    if not rows:
        raise SchemaError(f"the sheet {sheet!r} is empty: its first row must name the columns.")
    names, markers = _check_names(rows[0], sheet), {"", *missing}
    cells = ([_convert_cell(value, markers) for value in row] for row in rows[1:])
    filled_rows = [row for row in cells if any(value is not None for value in row)]
    arrays = []
    for number, name in enumerate(names):
        values, kind = [row[number] for row in filled_rows], ColumnKind(is_text=name in text)
        kind.add(values)
        arrays.append(kind.to_array(values))
    return pa.table(arrays, names=names)


def _check_names(cells: Sequence[Any], sheet: str) -> list[str]:
    names = [value if isinstance(value, str) else str(_convert_cell(value, ())) for value in cells]
    if not all(name.strip() for name in names):
        raise SchemaError(f"a column of the sheet {sheet!r} has no name: its first row must name all columns.")
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"the table has two columns named {repeated!r}; rename one of them.")
    return names


def _convert_cell(value: Any, markers: Iterable[str]) -> Any:
    """A cell as a value: whole numbers as such, and times of day as texts."""
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
