"""Reads files of SPSS (.sav, .zsav), Stata (.dta) and SAS (.sas7bdat, and .xpt for transport files).

- Value labels replace codes. A code without a label becomes text. If two codes have the same label, the code is written
after the label.
- Codes declared as missing are missing values: missing ranges in SPSS, .a to .z in Stata, .A to .Z in SAS. Blank
  strings are missing too.
- Numeric columns without decimals hold whole numbers. Dates stay dates, and times of day become text.
- Columns have their short names. Labels of variables are not read.

The files are read in another process (`statistics_worker`), because a damaged file can crash the process that reads it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.digests import compute_files_digest
from sfumato._core.json_types import Json
from sfumato._core.object_store import Address, BufferFile, File
from sfumato._readers import statistics_worker as worker
from sfumato._readers.read_options import UTF_8, ReadOptions
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato._readers.type_inference import TIME
from sfumato.errors import MissingExtraError, SchemaError, SourceError

EXTRA = "statistics"
DAY = 86_400
LARGEST_WHOLE = 1 << 53
"""Numbers are doubles, which are exact for whole numbers up to this limit."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The years 1 to 9999, in days since 1970."""
BATCH_ROWS = 1 << 16
BATCH_CELLS = 1 << 22
"""The number of values held in memory at once."""
Code = str | float
"""A value in a cell of a file, which may have a label."""
NUMBERED = re.compile(r"-?[0-9]+(\.[0-9]+)?")
WORKER_CODE = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {worker.__name__} import main; main()"


@dataclass(frozen=True)
class StatisticsPackage:
    """A statistics package, with its time units and the column formats that mean dates."""

    name: str
    origin: int
    """The package's day 0, in days since 1970."""
    date_formats: re.Pattern[str]
    moment_formats: re.Pattern[str]
    clock_formats: re.Pattern[str] | None = None
    units_per_day: int = 1
    """The length of a day in date columns."""
    units_per_second: float = 1.0
    """The length of a second in time columns."""


SPSS = StatisticsPackage(
    "SPSS",
    -141_428,
    re.compile(r"(DATE|ADATE|EDATE|JDATE|SDATE|MOYR|QYR|WKYR)\d"),
    re.compile(r"(DATETIME|YMDHMS)\d"),
    re.compile(r"(TIME|DTIME|MTIME)\d"),
    units_per_day=DAY,
)
STATA = StatisticsPackage("Stata", -3_653, re.compile(r"%-?t?d"), re.compile(r"%-?t[cC]"), units_per_second=1000.0)
SAS = StatisticsPackage(
    "SAS",
    -3_653,
    re.compile(
        r"(DATE|WEEKDAT[EX]|WORDDAT[EX]|MMDDYY[BCDNPS]?|DDMMYY[BCDNPS]?|YYMMDD[BCDNPS]?|MONYY|MMYY[CDNPS]?|YYMM[CDNPS]?|"
        r"YYMON|YYQR?[CDNPS]?|JULIAN|NLDATE|(IS|E|B)8601DA)([\d.]|$)"
    ),
    re.compile(r"(DATETIME|DATEAMPM|MDYAMPM|DTDATE|NLDATM|(IS|E|B)8601D[NTXZ])([\d.]|$)"),
    re.compile(r"(TIME|TIMEAMPM|TOD|HHMM|(IS|E|B)8601TM)([\d.]|$)"),
)


def open_spss(opening: Opening) -> MemorySource:
    """Open a file of SPSS."""
    return _open(opening, SPSS, "read_sav")


def open_stata(opening: Opening) -> MemorySource:
    """Open a file of Stata."""
    return _open(opening, STATA, worker.STATA)


def open_sas(opening: Opening) -> MemorySource:
    """Open a data set of SAS."""
    return _open(opening, SAS, "read_sas7bdat")


def open_sas_transport(opening: Opening) -> MemorySource:
    """Open a transport file of SAS."""
    return _open(opening, SAS, worker.TRANSPORT)


def _open(opening: Opening, package: StatisticsPackage, function: str) -> MemorySource:
    """Read the worker's rows twice: once to infer the type of each column, once to convert them."""
    before = compute_files_digest(opening.files)
    with _read_rows(opening.file, package, function, opening.read_options) as rows:
        raw = MemorySource.spool_stream(
            rows, opening.spool.with_name(f"{opening.spool.name}-raw"), opening.row_progress
        )
    columns = _make_columns(raw.table, package, opening.read_options)
    schema = pa.schema([(column.name, column.type) for column in columns])
    converted = (
        pa.RecordBatch.from_arrays(
            [column.convert(batch.column(place)) for place, column in enumerate(columns)], schema=schema
        )
        for batch in raw.table.to_batches(BATCH_ROWS)
    )
    return opening.keep(pa.RecordBatchReader.from_batches(schema, converted)).attach_digest(opening.files, before)


# ---------------------------------------------------------------------------------------------------------- the worker


@contextmanager
def _read_rows(
    file: File, package: StatisticsPackage, function: str, read: ReadOptions
) -> Iterator[pa.RecordBatchReader]:
    """The rows of a file from the worker. If the worker fails or crashes, the error explains it in one sentence."""
    content = file.content if isinstance(file, BufferFile) else None
    location: Json = {"address": [file.scheme, file.key]} if isinstance(file, Address) else {}
    if content is None and not location:
        location = {"path": str(file)}
    encoding = None if read.encoding.lower().replace("_", "-") in (UTF_8, "utf8") else read.encoding
    command = [sys.executable, "-I", "-c", WORKER_CODE, json.dumps(sys.path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    failure = None
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        with child.stdin:
            request = {
                "function": function,
                "encoding": encoding,
                "cells": BATCH_CELLS,
                "has_content": content is not None,
            }
            child.stdin.write(json.dumps({**request, **location}).encode() + b"\n")
            if content is not None:
                child.stdin.write(memoryview(content))
        with pa.ipc.open_stream(child.stdout) as rows:
            yield rows
    except (pa.ArrowException, BrokenPipeError) as error:
        failure = error
    except OSError as error:
        if error.errno is not None:  # this is an error of the disk, not of the stream
            raise
        failure = error
    finally:
        if failure is None and sys.exc_info()[0] is not None:
            child.kill()
        if child.stdout is not None:
            child.stdout.close()
        code = child.wait()
    if code or failure is not None:
        raise _make_failure_error(file, package, code)


def _make_failure_error(file: File, package: StatisticsPackage, code: int) -> SourceError | MissingExtraError:
    if code == worker.NOT_INSTALLED:
        return MissingExtraError(
            f"a file of {package.name} needs an additional library; install it with: pip install 'sfumato[{EXTRA}]'.",
            code="missing-package",
            fields={"extra": EXTRA},
        )
    if code == worker.OTHER_ENCODING:
        return SourceError(
            f"the strings of {file.name!r} are not in the encoding that the file declares; name the right encoding, "
            "such as `encoding='cp1252'`.",
            code="other-encoding",
            fields={"file": file.name},
        )
    if code == worker.NOT_READABLE:
        return SourceError(
            f"{file.name!r} cannot be read; check that it exists, and that you have permission to read it.",
            code="unreadable-file",
            fields={"file": file.name},
        )
    if code == worker.SEVERAL:
        return SourceError(
            f"{file.name!r} contains several data sets; write each data set into a separate file.",
            code="several-tables",
            fields={"file": file.name},
        )
    return SourceError(
        f"{file.name!r} cannot be read as a file of {package.name}; check that it is complete, and has no password.",
        code="damaged-file",
        fields={"file": file.name},
    )


# --------------------------------------------------------------------------------------------------------- the columns


@dataclass(frozen=True)
class _TypedColumn:
    """A column in its published type."""

    name: str
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array] = field(repr=False)


def _make_columns(table: pa.Table, package: StatisticsPackage, read: ReadOptions) -> list[_TypedColumn]:
    names = table.column_names
    if not names:
        raise SchemaError("the table has no columns, so there is nothing to publish.", code="table-without-columns")
    if repeated := next((name for name, times in Counter(names).items() if times > 1), None):
        raise SchemaError(
            f"the table has two columns named {repeated!r}; rename one of them.",
            code="repeated-column",
            fields={"column": repeated},
        )
    metadata = json.loads(table.schema.metadata[worker.METADATA_KEY])
    typed_columns = []
    for name, column_format in zip(names, metadata["formats"], strict=True):
        values = table.column(name)
        # In a column of numbers, a letter is a code for a missing value.
        is_code = (int, float) if pa.types.is_floating(values.type) else str
        labels = {code: label for code, label in metadata["labels"].get(name, ()) if isinstance(code, is_code)}
        labels = _select_value_labels(labels, metadata["missing"].get(name, ()))
        typed_columns.append(
            _make_column(name, values, package, str(column_format or ""), labels, is_text=name in read.text)
        )
    return typed_columns


def _make_column(  # noqa: PLR0913 - a column and its metadata in the file
    name: str,
    values: pa.ChunkedArray,
    package: StatisticsPackage,
    column_format: str,
    labels: Mapping[Code, str],
    *,
    is_text: bool,
) -> _TypedColumn:
    is_number = pa.types.is_floating(values.type)
    if is_number and (package.date_formats.match(column_format) or package.moment_formats.match(column_format)):
        return _make_date_column(name, values, package, is_day=package.date_formats.match(column_format) is not None)
    if is_number and package.clock_formats is not None and package.clock_formats.match(column_format):
        return _TypedColumn(name, pa.string(), _convert_each_value(_format_clock))
    if labels:
        return _TypedColumn(name, pa.string(), _convert_each_value(_make_label_writer(values, labels)))
    if not is_number:
        return _TypedColumn(name, pa.string(), _strip_blanks)
    if is_text:
        return _TypedColumn(name, pa.string(), _convert_each_value(_format_value))
    kind = pa.int64() if _is_whole(values) else pa.float64()
    return _TypedColumn(name, kind, lambda column: column.cast(kind))


def _make_date_column(name: str, values: pa.ChunkedArray, package: StatisticsPackage, *, is_day: bool) -> _TypedColumn:
    """A column of days, or of times."""

    def to_days(column: pa.Array) -> pa.Array:
        return pc.add(pc.floor(pc.divide(column, float(package.units_per_day))), float(package.origin))

    def to_microseconds(column: pa.Array) -> pa.Array:
        seconds = pc.add(pc.divide(column, package.units_per_second), float(package.origin * DAY))
        return pc.round(pc.multiply(seconds, 1e6))

    for chunk in values.chunks:
        day_numbers = to_days(chunk) if is_day else pc.divide(to_microseconds(chunk), 1e6 * DAY)
        ends = pc.min_max(day_numbers)
        if ends["min"].is_valid and not FIRST_DAY <= ends["min"].as_py() <= ends["max"].as_py() < LAST_DAY + 1:
            raise SourceError(
                f"column {name!r} has dates outside the years 1 to 9999; correct these dates in the file.",
                code="dates-out-of-range",
                fields={"column": name},
            )
    if is_day:
        return _TypedColumn(name, pa.date32(), lambda column: to_days(column).cast(pa.int32()).cast(pa.date32()))
    return _TypedColumn(name, TIME, lambda column: to_microseconds(column).cast(pa.int64()).cast(TIME))


def _is_whole(values: pa.ChunkedArray) -> bool:
    for chunk in values.chunks:
        numbers = chunk.drop_null().to_numpy(zero_copy_only=False)
        if not (np.all(np.abs(numbers) <= LARGEST_WHOLE) and np.all(numbers == np.floor(numbers))):
            return False
    return True


def _convert_each_value(write: Callable[[Any], str | None]) -> Callable[[pa.Array], pa.Array]:
    """Converts each distinct value to text once."""

    def convert(column: pa.Array) -> pa.Array:
        codes = column.dictionary_encode()
        texts = [None if value is None else write(value) for value in codes.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(codes.indices)

    return convert


def _strip_blanks(column: pa.Array) -> pa.Array:
    """Strings without trailing blanks. Blank strings are missing values."""
    texts = pc.utf8_rtrim(column, " ")
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _format_value(value: Code) -> str | None:
    """A value as text. Codes that are whole numbers are written without decimals."""
    if isinstance(value, str):
        return value.rstrip(" ") or None
    return str(int(value)) if float(value).is_integer() and abs(value) <= LARGEST_WHOLE else repr(value)


def _format_clock(seconds: float) -> str:
    """A time of day, or a duration."""
    whole = int(abs(seconds))
    minutes, second = divmod(whole, 60)
    written = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    rest = abs(seconds) - whole
    return ("-" if seconds < 0 else "") + written + (f"{rest:.6f}"[1:].rstrip("0") if rest >= 1e-6 else "")  # noqa: PLR2004


# ---------------------------------------------------------------------------------------------------------- the labels


def _select_value_labels(labels: Mapping[Code, object], missing: Sequence[object]) -> dict[Code, str]:
    """The labels of codes. Blank labels and labels of codes that are declared as missing are removed."""
    return {
        code: text
        for code, label in labels.items()
        if (text := str(label).strip()) and not _is_declared_missing(code, missing)
    }


def _is_declared_missing(code: Any, missing: Sequence[Any]) -> bool:
    for declaration in missing:
        low, high = (
            (declaration["lo"], declaration["hi"]) if isinstance(declaration, Mapping) else (declaration, declaration)
        )
        try:
            if low <= code <= high:
                return True
        except TypeError:  # a string cannot be compared with a number
            continue
    return False


def _make_label_writer(values: pa.ChunkedArray, labels: Mapping[Code, str]) -> Callable[[Code], str | None]:
    """Returns a function that writes the label of a code, followed by the code if two codes share a label.

    Codes also share a label if a code without a label is equal to the label of another code.
    """
    is_number = pa.types.is_floating(values.type)
    labels_by_code = {_format_value(code): text for code, text in labels.items()}
    shared_labels = {text for text, times in Counter(labels_by_code.values()).items() if times > 1}
    codelike_labels = [
        text
        for text in labels_by_code.values()
        if text not in labels_by_code and (not is_number or NUMBERED.fullmatch(text))
    ]
    if codelike_labels:
        codes = pa.array(list(map(float, codelike_labels)) if is_number else codelike_labels, values.type)
        present_codes = {str(_format_value(code)) for code in pc.unique(_select_codes(values, codes)).to_pylist()}
        shared_labels |= present_codes & set(codelike_labels)

    def write(value: Code) -> str | None:
        code = _format_value(value)
        if code is None or code not in labels_by_code:
            return code
        return f"{labels_by_code[code]} [{code}]" if labels_by_code[code] in shared_labels else labels_by_code[code]

    return write


def _select_codes(values: pa.ChunkedArray, codes: pa.Array) -> pa.ChunkedArray:
    texts = values if pa.types.is_floating(values.type) else pc.utf8_rtrim(values, " ")
    return texts.filter(pc.is_in(texts, codes))


SPSS_READER = TableReader(
    name="SPSS",
    example="people.sav",
    open=open_spss,
    endings=(".sav", ".zsav"),
    reads_stores=True,
    beginnings=(b"$FL2", b"$FL3"),
    extra=EXTRA,
)
STATA_READER = TableReader(
    name="Stata",
    example="people.dta",
    open=open_stata,
    endings=(".dta",),
    reads_stores=True,
    beginnings=(worker.STATA_START,),
    extra=EXTRA,
)
SAS_READER = TableReader(
    name="SAS",
    example="people.sas7bdat",
    open=open_sas,
    endings=(".sas7bdat",),
    reads_stores=True,
    beginnings=(bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011"),),
    extra=EXTRA,
)
SAS_TRANSPORT_READER = TableReader(
    name="SAS transport",
    example="people.xpt",
    open=open_sas_transport,
    endings=(".xpt",),
    reads_stores=True,
    beginnings=(b"HEADER RECORD*******LIB",),
    extra=EXTRA,
)
