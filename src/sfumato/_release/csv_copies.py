"""CSV copies of the tables of a release, for programs that do not read Parquet.

A copy has the same content as its Parquet file. It is made from that file alone. To check a copy, it is made again. So
every value has one spelling that does not depend on libraries: numbers as Python prints them, dates by ISO 8601, and
lists and sets as JSON. Missing values are empty, and empty strings are in quotes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato._core.cell_values import Value, to_json
from sfumato._records import Naming, RecordEncoding

BATCH_ROWS = 1 << 16


def write_copy(sources: tuple[Path, ...], target: Path, encoding: RecordEncoding, naming: Naming) -> None:
    """Write the rows of one or several Parquet files with the same columns as one CSV file."""
    with target.open("wb") as sink:
        _write(sources, sink, encoding, naming)


def compute_copy_digest(sources: tuple[Path, ...], encoding: RecordEncoding, naming: Naming) -> str:
    """The SHA-256 that the copy of these files must have."""
    sink = _DigestSink()
    _write(sources, sink, encoding, naming)
    return sink.digest.hexdigest()


def _write(sources: tuple[Path, ...], sink: BinaryIO | _DigestSink, encoding: RecordEncoding, naming: Naming) -> None:
    names = pq.read_schema(sources[0]).names
    sink.write(_format_lines([pa.array([name]) for name in names]))
    for batch in _read_batches(sources):
        readable_batch = encoding.make_readable(batch, naming)
        sink.write(_format_lines([convert_to_texts(readable_batch.column(name)) for name in names]))


def _format_lines(columns: Sequence[pa.Array]) -> bytes:
    """The CSV lines of some rows.

    Strings are quoted if they are empty or need quotes. Missing values are empty fields.
    """
    quoted = [_quote_texts(column) for column in columns]
    # Most readers would skip an empty line.
    empty_cell = '""' if len(columns) == 1 else ""
    lines = pc.binary_join_element_wise(*quoted, ",", null_handling="replace", null_replacement=empty_cell)
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _quote_texts(texts: pa.Array) -> pa.Array:
    inside = pc.replace_substring(texts, '"', '""')
    in_quotes = pc.binary_join_element_wise('"', inside, '"', "")
    return pc.if_else(pc.match_substring_regex(texts, '[",\r\n]|^$'), in_quotes, texts)


def _read_batches(sources: tuple[Path, ...]) -> Iterator[pa.RecordBatch]:
    for path in sources:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(BATCH_ROWS)


def convert_to_texts(column: pa.Array) -> pa.Array:
    """The values of a column as strings. Each distinct value is formatted once."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_list(kind):
        return _convert_lists_to_texts(column)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    encoded = column.dictionary_encode()
    texts = pa.array([_format_value(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    json_value = to_json(value)
    return repr(json_value) if isinstance(json_value, float) else str(json_value)


def _convert_lists_to_texts(column: pa.Array) -> pa.Array:
    """Lists as JSON. Each distinct member is formatted once."""
    encoded = column.flatten().dictionary_encode()
    members = encoded.dictionary.to_pylist()
    texts = pa.array([json.dumps(to_json(value), ensure_ascii=False) for value in members], pa.string())
    spelled_members = pa.ListArray.from_arrays(_compute_offsets(column), texts.take(encoded.indices))
    return pc.binary_join_element_wise("[", pc.binary_join(spelled_members, ", "), "]", "")


def _compute_offsets(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


class _DigestSink:
    """A file object that computes the digest of the bytes written to it and does not store them."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.digest.update(data)
