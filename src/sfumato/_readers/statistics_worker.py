"""Reads a file of SPSS, Stata or SAS in a separate process, and writes its rows to standard output as Arrow.

The library that reads these files is written in C, and a damaged file can crash its process. So the library runs in
this separate process, which passes on only rows of doubles, strings and missing values. Names, formats and labels are
in the metadata of the stream. The exit code gives the result of a run.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sfumato._core.json_types import Json, JsonView
from sfumato._core.object_store import Address, File, open_for_arrow

DAMAGED, OTHER_ENCODING, NOT_INSTALLED, NOT_READABLE, SEVERAL = 3, 4, 5, 6, 7
"""The exit codes of failed runs."""
METADATA_KEY = b"sfumato.statistics"
TRANSPORT, STATA = "read_xport", "read_dta"
STATA_START, STATA_END = b"<stata_dta>", b"</stata_dta>"
MEMBER = b"HEADER RECORD*******MEMB"
"""The header that begins each data set of a SAS transport file."""
RECORD_BYTES = 80
PIECE_RECORDS = 1 << 14


class SeveralTablesError(Exception):
    """The file contains several data sets."""


EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (SeveralTablesError, SEVERAL),
    (UnicodeError, OTHER_ENCODING),
    (BrokenPipeError, DAMAGED),  # the reading process has stopped
    (OSError, NOT_READABLE),
)


def run(request: JsonView, content: bytes | None = None) -> int:
    """Read the file of a request, or its content, and return the exit code."""
    try:
        import pyreadstat  # noqa: PLC0415 - an optional library, which only this process loads
    except ImportError:
        return NOT_INSTALLED
    try:
        _write(_Table(pyreadstat, request, content))
    except Exception as error:  # the message of the library may repeat content of the file
        codes = (code for kind, code in EXIT_CODES if isinstance(error, kind))
        return next(codes, OTHER_ENCODING if "encoding" in str(error) else DAMAGED)
    return 0


class _Table:
    """The content of a file, as read by the library."""

    def __init__(self, library: Any, request: JsonView, content: bytes | None) -> None:
        self.read_function = getattr(library, request["function"])
        self.options: Json = {"output_format": "dict", "encoding": request["encoding"]}
        self.batch_cells: int = request["cells"]
        self.content = content
        self.file: File = Address(*request["address"]) if "address" in request else Path(request.get("path", ""))
        with self._open() as file:  # errors of the file system are more precise than the library's
            if request["function"] == TRANSPORT:
                _check_members(file)
            if request["function"] == STATA:
                _check_end(file)
        # The library returns codes that are declared as missing only on request. SAS transport files declare none.
        extra_options = {} if request["function"] == TRANSPORT else {"user_missing": True}
        self.metadata = self._read(metadataonly=True, **extra_options)[1]

    def _open(self) -> Any:
        if self.content is not None:
            return io.BytesIO(self.content)
        return open_for_arrow(self.file) if isinstance(self.file, Address) else Path(str(self.file)).open("rb")

    def _read(self, **options: object) -> tuple[Mapping[str, Sequence[Any]], Any]:
        is_named = self.content is None and isinstance(self.file, Path)
        values, metadata = self.read_function(str(self.file) if is_named else self._open(), **self.options, **options)
        return values, metadata

    @property
    def schema(self) -> pa.Schema:
        kinds = self.metadata.readstat_variable_types
        is_text = [str(kinds[name]).startswith("string") for name in self.metadata.column_names]
        fields = [
            pa.field(name, pa.string() if text else pa.float64())
            for name, text in zip(self.metadata.column_names, is_text, strict=True)
        ]
        metadata = {
            "formats": [self.metadata.original_variable_types.get(name) for name in self.metadata.column_names],
            "labels": {
                name: list(value_labels.items()) for name, value_labels in self.metadata.variable_value_labels.items()
            },
            "missing": dict(getattr(self.metadata, "missing_ranges", None) or {}),
        }
        return pa.schema(fields, metadata={METADATA_KEY: json.dumps(metadata, default=str).encode()})

    def read_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        size = max(1, self.batch_cells // max(1, len(schema)))
        declared_rows, first = self.metadata.number_rows, 0
        while declared_rows is None or first < declared_rows:
            values, _ = self._read(row_offset=first, row_limit=size, disable_datetime_conversion=True)
            columns = [pa.array(values[field.name], field.type, from_pandas=True) for field in schema]
            rows = len(columns[0]) if columns else 0
            if rows:
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
            first += rows
            if rows < size:
                break
        if declared_rows is not None and first < declared_rows:
            raise EOFError


def _check_end(file: BinaryIO) -> None:
    """Refuse a truncated Stata file. Labels come last, so the library would read such a file without labels."""
    if file.read(len(STATA_START)) == STATA_START:
        file.seek(-len(STATA_END), io.SEEK_END)
        if file.read() != STATA_END:
            raise EOFError


def _check_members(file: BinaryIO) -> None:
    """Refuse a truncated transport file, and one with several data sets, of which the library reads only the first."""
    members = 0
    while piece := file.read(RECORD_BYTES * PIECE_RECORDS):
        members += sum(piece.startswith(MEMBER, place) for place in range(0, len(piece), RECORD_BYTES))
        if len(piece) % RECORD_BYTES:
            raise EOFError
    if members > 1:
        raise SeveralTablesError


def _write(table: _Table) -> None:
    schema = table.schema
    with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
        for batch in table.read_batches(schema):
            writer.write_batch(batch)
    sys.stdout.buffer.flush()


def main() -> None:
    """Read the request from the first line of standard input, and the content of the file from the rest."""
    _disable_core_dumps()
    request = json.loads(sys.stdin.buffer.readline())
    sys.exit(run(request, sys.stdin.buffer.read() if request["has_content"] else None))


def _disable_core_dumps() -> None:
    """Disable core dumps, because after a crash they would contain values of the table."""
    try:
        import resource  # noqa: PLC0415 - not available on every system
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
