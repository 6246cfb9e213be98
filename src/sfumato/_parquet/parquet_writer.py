"""A file: groups of rows one after the other, and the footer that says where they are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Protocol

import pyarrow as pa

from sfumato._core.arrays import Codes
from sfumato._parquet.column_chunk import Chunk
from sfumato._parquet.dictionary_pages import make_dictionary_chunk, make_plain_chunk
from sfumato._parquet.footer import MAGIC, ChunkFields, FileFields, GroupFields
from sfumato._parquet.pyarrow_parts import (
    list_chunk_metadata,
    make_dictionary_page,
    make_pyarrow_chunk,
    read_schema_fields,
)
from sfumato._parquet.thrift_compact import (
    BINARY,
    STRUCT,
    Struct,
    TypedValue,
    encode_struct,
    make_list,
    make_long_number,
)

CREATED_BY = b"sfumato version 1"
"""Of how files are laid out; the bytes of a release do not change with the software."""


class FileColumn(Protocol):
    """A column of a file."""

    @property
    def name(self) -> str:
        """What it is called."""
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
        """The values that its codes number, which are listed in the file; None where it has no codes."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether its values, of a fixed width, are written as they are."""
        ...


@dataclass(frozen=True)
class EncodedRows:
    """Some rows of all columns."""

    rows: int
    chunks: tuple[Chunk, ...]


class Encoder:
    """From the columns of some rows to a group; several threads may use it."""

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
        """Codes of listed values, the missing one after the last; or the values themselves."""
        chunks = [self.encode_column(number, column) for number, column in enumerate(columns)]
        return EncodedRows(len(columns[0]), tuple(chunks))

    def encode_column(self, number: int, column: Codes | pa.Array) -> Chunk:
        """The rows of one column alone."""
        return self._chunks[number](column)


def _choose_chunk_encoder(column: FileColumn, field: pa.Field, metadata: Struct) -> partial[Chunk]:
    """How a column is written."""
    if column.dictionary_values is not None:
        page, size = make_dictionary_page(field, column.dictionary_values), len(column.dictionary_values)
        return partial(
            make_dictionary_chunk, dictionary=page, values=size, has_missing=column.has_missing, metadata=metadata
        )
    if column.is_plain:
        return partial(make_plain_chunk, has_missing=column.has_missing, metadata=metadata)
    return partial(make_pyarrow_chunk, field)


class FileWriter:
    """Puts groups one after the other."""

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
        """Write the footer; the digest of the whole file, as it was meant to be written."""
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
