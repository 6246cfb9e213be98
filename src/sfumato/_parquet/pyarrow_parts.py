"""What pyarrow writes, to be taken apart: types, lists of values, and columns that nobody packs here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._parquet.column_chunk import Chunk
from sfumato._parquet.footer import AboutFields, FileFields, PageFields, chunks_of, footer_of, value_of
from sfumato._parquet.thrift_compact import Struct, read
from sfumato.errors import InternalError

PAGE_BYTES = 1 << 17
"""Pages that stay in the cache of a core are compressed a fifth faster than those of the usual size."""
MOST_LISTED = 1 << 26
"""Bytes; beyond them pyarrow would list no values."""


def schema_of(schema: pa.Schema) -> Struct:
    """What the footer of a file says of its columns."""
    footer = footer_of(_file(schema.empty_table()))
    return {field: footer[field] for field in (FileFields.VERSION, FileFields.SCHEMA, FileFields.ORDERS)}


def abouts_of(schema: pa.Schema) -> list[Struct]:
    """What is said about every chunk of each column: its type, its name, and how it is compressed."""
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
    told = (AboutFields.TYPE, AboutFields.PATH, AboutFields.CODEC)
    return [{each: about[each] for each in told} for _, about in chunks_of(footer_of(_file(nulls)))]


def dictionary_of(field: pa.Field, values: pa.Array) -> bytes:
    """The page that lists values, in their order."""
    table = pa.Table.from_arrays([values], schema=pa.schema([field]))
    data = _file(table, dictionary_pagesize_limit=MOST_LISTED)
    ((_, about),) = chunks_of(footer_of(data))
    page = data[value_of(about, AboutFields.DICTIONARY) : value_of(about, AboutFields.FIRST_PAGE)]
    if value_of(value_of(read(page)[0], PageFields.LISTED), 1) != len(values):
        raise InternalError(f"the values of {field.name!r} cannot be listed. Please report this.")
    return page


def chunk_of(field: pa.Field, column: pa.Array) -> Chunk:
    """A column as pyarrow writes it, without what it tells besides."""
    table = pa.Table.from_arrays([column], schema=pa.schema([field.with_type(column.type)]))
    data = _file(table, data_page_size=PAGE_BYTES)
    ((_, about),) = chunks_of(footer_of(data))
    first = value_of(about, AboutFields.FIRST_PAGE)
    start = min(first, value_of(about, AboutFields.DICTIONARY, first))
    told = (AboutFields.METADATA, AboutFields.STATISTICS, AboutFields.SIZES)
    kept = {number: each for number, each in about.items() if number not in told}
    return Chunk(data[start : start + value_of(about, AboutFields.SIZE)], kept).moved(-start)


def _file(table: pa.Table, **options: Any) -> bytes:
    """A file of one group, which says nothing but its columns."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_statistics=False, store_schema=False, **options
    ) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
