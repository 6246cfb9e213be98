"""What pyarrow writes, to be taken apart: types, lists of values, and columns that nobody packs here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._parquet.column_chunk import Chunk
from sfumato._parquet.footer import FileFields, MetadataFields, PageFields, get_field_value, list_chunks, parse_footer
from sfumato._parquet.thrift_compact import Struct, read_struct
from sfumato.errors import InternalError

PAGE_BYTES = 1 << 17
"""Pages that stay in the cache of a core are compressed a fifth faster than those of the usual size."""
MOST_DICTIONARY_BYTES = 1 << 26
"""Bytes; beyond them pyarrow would list no values."""


def read_schema_fields(schema: pa.Schema) -> Struct:
    """What the footer of a file says of its columns."""
    footer = parse_footer(_write_single_group(schema.empty_table()))
    return {field: footer[field] for field in (FileFields.VERSION, FileFields.SCHEMA, FileFields.ORDERS)}


def list_chunk_metadata(schema: pa.Schema) -> list[Struct]:
    """What is said about every chunk of each column: its type, its name, and how it is compressed."""
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
    kept_fields = (MetadataFields.TYPE, MetadataFields.PATH, MetadataFields.CODEC)
    return [
        {field_number: metadata[field_number] for field_number in kept_fields}
        for _, metadata in list_chunks(parse_footer(_write_single_group(nulls)))
    ]


def make_dictionary_page(field: pa.Field, values: pa.Array) -> bytes:
    """The page that lists values, in their order."""
    table = pa.Table.from_arrays([values], schema=pa.schema([field]))
    data = _write_single_group(table, dictionary_pagesize_limit=MOST_DICTIONARY_BYTES)
    ((_, metadata),) = list_chunks(parse_footer(data))
    page = data[
        get_field_value(metadata, MetadataFields.DICTIONARY) : get_field_value(metadata, MetadataFields.FIRST_PAGE)
    ]
    if get_field_value(get_field_value(read_struct(page)[0], PageFields.DICTIONARY), 1) != len(values):
        raise InternalError(f"the values of {field.name!r} cannot be listed. Please report this.")
    return page


def make_pyarrow_chunk(field: pa.Field, column: pa.Array) -> Chunk:
    """A column as pyarrow writes it, without what it tells besides."""
    table = pa.Table.from_arrays([column], schema=pa.schema([field.with_type(column.type)]))
    data = _write_single_group(table, data_page_size=PAGE_BYTES)
    ((_, metadata),) = list_chunks(parse_footer(data))
    first = get_field_value(metadata, MetadataFields.FIRST_PAGE)
    start = min(first, get_field_value(metadata, MetadataFields.DICTIONARY, first))
    dropped_fields = (MetadataFields.METADATA, MetadataFields.STATISTICS, MetadataFields.SIZES)
    kept_fields = {number: field_value for number, field_value in metadata.items() if number not in dropped_fields}
    return Chunk(data[start : start + get_field_value(metadata, MetadataFields.SIZE)], kept_fields).shift(-start)


def _write_single_group(table: pa.Table, **options: Any) -> bytes:
    """A file of one group, which says nothing but its columns."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_statistics=False, store_schema=False, **options
    ) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
