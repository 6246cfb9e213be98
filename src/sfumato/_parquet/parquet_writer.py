"""Writes a Parquet file: row groups one after the other, and then the footer with their positions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes
from sfumato._parquet.column_chunk import Chunk
from sfumato._parquet.footer import (
    MAGIC,
    ChunkFields,
    FileFields,
    GroupFields,
    MetadataFields,
    PageFields,
    get_field_value,
    list_chunks,
    parse_footer,
)
from sfumato._parquet.page_encoding import make_dictionary_chunk, make_plain_chunk
from sfumato._parquet.thrift_compact import (
    BINARY,
    STRUCT,
    Struct,
    TypedValue,
    encode_struct,
    make_list,
    make_long_number,
    read_struct,
)
from sfumato.errors import InternalError

# Uses the output of pyarrow: types, lists of values, and columns that are not encoded here.

PAGE_BYTES = 1 << 17
"""Pages that fit into the cache of a core are compressed 20% faster than pages of the usual size."""
MOST_DICTIONARY_BYTES = 1 << 26
"""The largest size of a dictionary in bytes; pyarrow would not write a larger one."""


def read_schema_fields(schema: pa.Schema) -> Struct:
    """The columns in the footer of a file."""
    footer = parse_footer(_write_single_group(schema.empty_table()))
    return {field: footer[field] for field in (FileFields.VERSION, FileFields.SCHEMA, FileFields.ORDERS)}


def list_chunk_metadata(schema: pa.Schema) -> list[Struct]:
    """The metadata of every column's chunks: type, name and compression."""
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
    kept_fields = (MetadataFields.TYPE, MetadataFields.PATH, MetadataFields.CODEC)
    return [
        {field_number: metadata[field_number] for field_number in kept_fields}
        for _, metadata in list_chunks(parse_footer(_write_single_group(nulls)))
    ]


def make_dictionary_page(field: pa.Field, values: pa.Array) -> bytes:
    """The dictionary page with the values, in order."""
    table = pa.Table.from_arrays([values], schema=pa.schema([field]))
    data = _write_single_group(table, dictionary_pagesize_limit=MOST_DICTIONARY_BYTES)
    ((_, metadata),) = list_chunks(parse_footer(data))
    page = data[
        get_field_value(metadata, MetadataFields.DICTIONARY) : get_field_value(metadata, MetadataFields.FIRST_PAGE)
    ]
    if get_field_value(get_field_value(read_struct(page)[0], PageFields.DICTIONARY), 1) != len(values):
        raise InternalError(
            f"the values of {field.name!r} cannot be listed. Please report this.",
            code="unlistable-values",
            fields={"column": field.name},
        )
    return page


def make_pyarrow_chunk(field: pa.Field, column: pa.Array) -> Chunk:
    """A column as pyarrow encodes it, without additional statistics."""
    table = pa.Table.from_arrays([column], schema=pa.schema([field.with_type(column.type)]))
    data = _write_single_group(table, data_page_size=PAGE_BYTES)
    ((_, metadata),) = list_chunks(parse_footer(data))
    first = get_field_value(metadata, MetadataFields.FIRST_PAGE)
    start = min(first, get_field_value(metadata, MetadataFields.DICTIONARY, first))
    dropped_fields = (MetadataFields.METADATA, MetadataFields.STATISTICS, MetadataFields.SIZES)
    kept_fields = {number: field_value for number, field_value in metadata.items() if number not in dropped_fields}
    return Chunk(data[start : start + get_field_value(metadata, MetadataFields.SIZE)], kept_fields).shift(-start)


def _write_single_group(table: pa.Table, **options: object) -> bytes:
    """A file of one row group, without additional metadata."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_statistics=False, store_schema=False, **options
    ) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


# ---------------------------------------------------------------------------------------------------------------------

# Writes a small table as a separate file, with pyarrow only.


@dataclass(frozen=True)
class _TableColumn:
    """A column of a table in memory."""

    name: str
    written_type: pa.DataType
    has_missing: bool

    dictionary_values = None
    is_plain = False


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as one row group. The file contains nothing but the rows."""
    encoder = Encoder([_TableColumn(field.name, field.type, field.nullable) for field in table.schema])
    with path.open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        if table.num_rows:
            writer.add(encoder([column.combine_chunks() for column in table.columns]))
        writer.finish()


# ---------------------------------------------------------------------------------------------------------------------

CREATED_BY = b"sfumato version 1"
"""The version of the file layout.

It is constant, so that the bytes of a release do not change with the software version.
"""


class FileColumn(Protocol):
    """A column of a file."""

    @property
    def name(self) -> str:
        """The name of the column."""
        ...

    @property
    def written_type(self) -> pa.DataType:
        """The type of its values."""
        ...

    @property
    def has_missing(self) -> bool:
        """Whether a value may be missing."""
        ...

    @property
    def dictionary_values(self) -> pa.Array | None:
        """The values of the column's codes, which the file lists. None if the column has no codes."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether the column's values have a fixed width and are written without encoding."""
        ...


@dataclass(frozen=True)
class EncodedRows:
    """Some rows of all columns."""

    rows: int
    chunks: tuple[Chunk, ...]


class Encoder:
    """Encodes the columns of some rows as a row group. Several threads may call it."""

    def __init__(self, columns: Sequence[FileColumn]) -> None:
        schema = pa.schema(
            [
                pa.field(column_parts.name, column_parts.written_type, nullable=column_parts.has_missing)
                for column_parts in columns
            ]
        )
        self.schema = read_schema_fields(schema)
        self._chunks = [
            _choose_chunk_encoder(*column_parts)
            for column_parts in zip(columns, schema, list_chunk_metadata(schema), strict=True)
        ]

    def __call__(self, columns: Sequence[Codes | pa.Array]) -> EncodedRows:
        """Encodes columns, given as values or as codes of listed values with the missing value last."""
        chunks = [self.encode_column(number, column) for number, column in enumerate(columns)]
        return EncodedRows(len(columns[0]), tuple(chunks))

    def encode_column(self, number: int, column: Codes | pa.Array) -> Chunk:
        """Encodes the rows of one column."""
        return self._chunks[number](column)


def _choose_chunk_encoder(column: FileColumn, field: pa.Field, metadata: Struct) -> partial[Chunk]:
    """The encoder for a column."""
    if column.dictionary_values is not None:
        page, size = make_dictionary_page(field, column.dictionary_values), len(column.dictionary_values)
        return partial(
            make_dictionary_chunk, dictionary=page, values=size, has_missing=column.has_missing, metadata=metadata
        )
    if column.is_plain:
        return partial(make_plain_chunk, has_missing=column.has_missing, metadata=metadata)
    return partial(make_pyarrow_chunk, field)


class FileWriter:
    """Writes row groups one after the other."""

    def __init__(self, sink: BinaryIO, schema: Struct) -> None:
        self.sink, self.schema = sink, schema
        self.place = self.rows = 0
        self.groups: list[Struct] = []
        self._digest = hashlib.sha256()
        self._write(MAGIC)

    def add(self, group: EncodedRows) -> None:
        """Write the next group."""
        start, chunks = self.place, []
        for chunk in group.chunks:
            metadata = TypedValue(STRUCT, chunk.shift(self.place).metadata)
            chunks.append({ChunkFields.START: make_long_number(0), ChunkFields.METADATA: metadata})
            self._write(chunk.data)
        group_fields: Struct = {
            GroupFields.CHUNKS: make_list(STRUCT, chunks),
            GroupFields.PLAIN_SIZE: make_long_number(sum(chunk.plain_size for chunk in group.chunks)),
            GroupFields.ROWS: make_long_number(group.rows),
            GroupFields.START: make_long_number(start),
            GroupFields.SIZE: make_long_number(self.place - start),
        }
        self.groups.append(group_fields)
        self.rows += group.rows

    def finish(self) -> str:
        """Write the footer; returns the digest of the whole file."""
        footer = encode_struct(
            {
                **self.schema,
                FileFields.ROWS: make_long_number(self.rows),
                FileFields.GROUPS: make_list(STRUCT, self.groups),
                FileFields.CREATED_BY: TypedValue(BINARY, CREATED_BY),
            }
        )
        self._write(footer + len(footer).to_bytes(4, "little") + MAGIC)
        return self._digest.hexdigest()

    def _write(self, data: bytes) -> None:
        self.sink.write(data)
        self._digest.update(data)
        self.place += len(data)
