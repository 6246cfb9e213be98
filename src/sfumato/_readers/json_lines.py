"""Reads JSON lines, with one object on each line. The keys of the objects are the columns.

A file is read twice, because its last line may decide the type of a column. If the strings of a column are ISO dates in
every line, the column has dates, as in CSV. If a line lacks a key, the value is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfumato._core.digests import compute_files_digest
from sfumato._core.json_types import Json
from sfumato._core.object_store import File
from sfumato._readers.cell_types import ColumnKind
from sfumato._readers.compressed_files import make_unreadable_error, open_text
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato.errors import SchemaError, SourceError

BLOCK_LINES = 1 << 14
BLOCK_SIZE = 1 << 25
"""The number of characters that are parsed together, plus at most one line."""
LONGEST_LINE = 1 << 24
MOST_COLUMNS = 10_000

Row = Json


@dataclass(frozen=True)
class JsonLines:
    """One or several files of JSON lines."""

    paths: tuple[File, ...]
    encoding: str = "utf-8"
    missing: frozenset[str] = frozenset()

    def open_stream(self, text: Sequence[str], row_progress: Callable[[int], None]) -> pa.RecordBatchReader:
        """The rows of all files, in types that fit all rows. Calls `row_progress` with the number of parsed rows."""
        columns: dict[str, ColumnKind] = {}
        rows_read = 0
        for path, rows in self._read_blocks():
            row_progress(rows_read := rows_read + len(rows))
            for name in {name: None for row in rows for name in row}:
                kind = columns.setdefault(name, ColumnKind(is_text=name in text))
                kind.add(self._extract_column(path, name, rows))
            if len(columns) > MOST_COLUMNS:
                raise SchemaError(
                    f"{path.name!r} has more than {MOST_COLUMNS:,} different keys, and a table can have at most this "
                    "number of columns.",
                    code="too-many-columns",
                    fields={"file": path.name, "limit": MOST_COLUMNS},
                )
        for name, kind in columns.items():
            if kind.is_mixed and not kind.is_text:
                raise SourceError(
                    f"{name!r} holds values of several types, such as strings and numbers; read it as text "
                    f"(`text={[name]!r}`), or name the strings that mark a missing value (`missing=`).",
                    code="mixed-types",
                    fields={"column": name},
                )
        if not columns:
            raise SchemaError("the table is empty: there is nothing to publish.", code="empty-table")
        schema = pa.schema([(name, kind.type) for name, kind in columns.items()])
        return pa.RecordBatchReader.from_batches(schema, self._read_batches(columns, schema))

    def _read_batches(self, columns: dict[str, ColumnKind], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for path, rows in self._read_blocks():
            arrays = [kind.to_array(self._extract_column(path, name, rows)) for name, kind in columns.items()]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _extract_column(self, path: File, name: str, rows: list[Row]) -> list[object]:
        values = [row.get(name) for row in rows]
        if not {dict, list}.isdisjoint(map(type, values)):
            raise SourceError(
                f"{name!r} in {path.name!r} has lists or objects as values; write a separate key for each of their "
                "parts.",
                code="nested-values",
                fields={"column": name, "file": path.name},
            )
        if not self.missing:
            return values
        return [None if type(value) is str and value in self.missing else value for value in values]

    def _read_blocks(self) -> Iterator[tuple[File, list[Row]]]:
        for path in self.paths:
            block: list[Row] = []
            size = 0
            for length, row in self._parse_rows(path):
                block.append(row)
                size += length
                if len(block) == BLOCK_LINES or size >= BLOCK_SIZE:
                    yield path, block
                    block, size = [], 0
            if block:
                yield path, block

    def _parse_rows(self, path: File) -> Iterator[tuple[int, Row]]:
        """Each row, and the length of its line."""
        number = 0
        try:
            with open_text(path, self.encoding) as file:
                while line := file.readline(LONGEST_LINE):
                    number += 1
                    if len(line) == LONGEST_LINE:
                        raise ValueError
                    if line.strip("\ufeff \t\r\n"):
                        row = DECODER.decode(line.lstrip("\ufeff"))
                        if not isinstance(row, dict):
                            raise ValueError
                        yield len(line), row
        except UnicodeError:
            raise SourceError(
                f"{path.name!r} is not {self.encoding} text; name its encoding (`encoding=`).",
                code="other-encoding",
                fields={"file": path.name, "encoding": self.encoding},
            ) from None
        except (ValueError, RecursionError):  # the message of the decoder may repeat the line
            raise SourceError(
                f"line {number} of {path.name!r} is not a JSON object: JSON lines have one object on each line, "
                'such as {"age": 40, "sex": "F"}.',
                code="invalid-line",
                fields={"file": path.name, "line": number},
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise make_unreadable_error(path, error) from error


def open_json_lines(opening: Opening) -> MemorySource:
    """Read the lines into a private file. The digest is that of the original files."""
    before = compute_files_digest(opening.files)
    lines = JsonLines(opening.files, opening.read_options.encoding, frozenset(opening.read_options.missing))
    source = opening.keep(lines.open_stream(opening.read_options.text, opening.row_progress))
    return source.attach_digest(opening.files, before)


def _refuse_constant(constant: str) -> None:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""One decoder for all lines, because making a decoder takes longer than reading a line."""


READER = TableReader(
    name="JSON lines",
    example="people.jsonl",
    open=open_json_lines,
    endings=(".jsonl", ".ndjson", ".json"),
    explicit_endings=(".json",),
    takes_several=True,
    reads_stores=True,
    reads_compressed=True,
    beginnings=(b"{",),
)
