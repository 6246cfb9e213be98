"""What footers say, of whoever wrote them: read, and refused where it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_files import every_kind, write
from sfumato._parquet.footer import (
    ChunkFields,
    FileFields,
    MetadataFields,
    count_column_values,
    get_field_value,
    has_extra_metadata,
    list_chunks,
    read_footer,
)
from sfumato._parquet.thrift_compact import (
    I32,
    STRUCT,
    ThriftError,
    encode_struct,
    make_list,
    make_long_number,
    make_number,
    read_struct,
)

SILENT: dict[str, Any] = {"write_statistics": False, "store_schema": False}


def table() -> pa.Table:
    return pa.table({"x": ["a", "b", "b"], "y": [[1, 2], [], [3]]})


@pytest.mark.parametrize(
    ("options", "is_telling"),
    [
        ({}, False),
        ({"write_statistics": True}, True),
        ({"write_statistics": ["x"]}, True),
        ({"store_schema": True}, True),
        ({"sorting_columns": [pq.SortingColumn(0)]}, True),
        ({"write_statistics": True, "write_page_index": True}, True),
        ({"bloom_filter_options": {"x": True}}, True),
        ({"compression": "none", "use_dictionary": False}, False),
    ],
    ids=["nothing", "statistics", "of one column", "schema", "order", "index of pages", "filter", "nothing otherwise"],
)
def test_what_a_file_tells_besides_its_rows_is_found(options: dict[str, Any], is_telling: bool, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "file.parquet", row_group_size=1, **{**SILENT, **options})
    assert has_extra_metadata(read_footer(tmp_path / "file.parquet")) is is_telling


@pytest.mark.parametrize("group", range(3))
def test_index_of_pages_is_found_where_nothing_else_tells(group: int, tmp_path: Path) -> None:
    """pyarrow writes none without statistics; others may."""
    pq.write_table(table().select(["x"]), tmp_path / "file.parquet", row_group_size=1, **SILENT)
    footer = read_footer(tmp_path / "file.parquet")
    assert not has_extra_metadata(footer)
    chunk, _ = list(list_chunks(footer))[group]
    chunk[ChunkFields.COLUMN_INDEX] = make_long_number(4)
    assert has_extra_metadata(read_struct(encode_struct(footer))[0])


def test_metadata_of_a_file_is_found(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "file.parquet", table().schema, **SILENT) as writer:
        writer.write_table(table())
        writer.add_key_value_metadata({"made": "here"})
    assert has_extra_metadata(read_footer(tmp_path / "file.parquet"))


def test_footer_says_what_pyarrow_says_of_it(tmp_path: Path) -> None:
    columns, rows = every_kind(20)
    write(tmp_path / "file.parquet", columns, [rows, rows])
    footer, told = read_footer(tmp_path / "file.parquet"), pq.read_metadata(tmp_path / "file.parquet")
    assert get_field_value(footer, FileFields.ROWS) == told.num_rows == 40
    found = [about for _, about in list_chunks(footer)]
    expected = [told.row_group(group).column(place) for group in range(2) for place in range(told.num_columns)]
    assert [get_field_value(each, MetadataFields.SIZE) for each in found] == [
        each.total_compressed_size for each in expected
    ]
    assert [get_field_value(each, MetadataFields.VALUES) for each in found] == [each.num_values for each in expected]
    assert not has_extra_metadata(footer)


def test_values_of_lists_are_counted_one_by_one(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "file.parquet", row_group_size=2)
    footer = read_footer(tmp_path / "file.parquet")
    assert [count_column_values(footer, name) for name in ("x", "y", "z")] == [
        3,
        4,
        0,
    ]  # an empty list takes a place too


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1PAR1", b"PAR1\0\0\0\0\0PAR2", b"PAR1" + (10**9).to_bytes(4, "little") + b"PAR1"],
    ids=["empty", "short", "without a footer", "another word", "longer than the file"],
)
def test_what_is_no_parquet_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(content)
    with pytest.raises(ThriftError):
        read_footer(tmp_path / "file.parquet")


@pytest.mark.parametrize(
    "footer",
    [
        {FileFields.GROUPS: make_number(1)},
        {FileFields.GROUPS: make_list(I32, [1])},
        {FileFields.GROUPS: make_list(STRUCT, [{1: make_list(STRUCT, [{2: make_number(0)}])}])},
        {FileFields.GROUPS: make_list(STRUCT, [{1: make_list(STRUCT, [{3: make_number(0)}])}])},
        {FileFields.METADATA: make_number(1), FileFields.GROUPS: make_list(STRUCT, [])},
    ],
    ids=["no list", "numbers", "lacks the metadata of a chunk", "a number about a chunk", "a number for metadata"],
)
def test_footer_that_says_what_cannot_be_is_refused(footer: dict[int, Any]) -> None:
    with pytest.raises(ThriftError):
        has_extra_metadata(footer)


@given(st.integers(0, 2**16), st.integers(0, 255))
def test_footer_with_a_wrong_byte_is_read_or_refused(place: int, byte: int) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table(), sink, compression="none")
    data = bytearray(sink.getvalue().to_pybytes())
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    footer[place % length] = byte
    try:
        found, _ = read_struct(bytes(footer))
        has_extra_metadata(found)
        count_column_values(found, "y")
        encode_struct(found)
    except ThriftError:
        pass
