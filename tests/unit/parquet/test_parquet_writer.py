"""Files that are packed here, as others read them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_files import VALUES, Column, codes_for, every_kind, listed_column, pages_of, values_of, write
from sfumato._engines import shuffle
from sfumato._parquet import page_encoding as dictionary_pages
from sfumato._parquet import parquet_writer
from sfumato._parquet.parquet_writer import CREATED_BY, Encoder, FileWriter, write_table
from sfumato._perturb import record_writer

Read = Callable[[Path], pa.Table]


def by_duckdb(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.read_parquet(str(path)).to_arrow_table()


def by_polars(path: Path) -> pa.Table:
    return pl.read_parquet(path).to_arrow()


def by_batches(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return pa.Table.from_batches(list(file.iter_batches(13)), schema=file.schema_arrow)


READERS: dict[str, Read] = {
    "pyarrow": pq.read_table,
    "in batches": by_batches,
    "duckdb": by_duckdb,
    "polars": by_polars,
}
READ_BY = pytest.mark.parametrize("reader", READERS)


def check(read: Read, path: Path, columns: Sequence[Column], groups: Sequence[Sequence[Any]]) -> None:
    """Whether all columns are read as they were written."""
    table = read(path)
    assert table.column_names == [column.name for column in columns]
    for place, column in enumerate(columns):
        expected = [value for rows in groups for value in values_of(column, rows[place])]
        assert table.column(place).to_pylist() == expected, column.name


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary_pages, "PAGE_ROWS", 16)


# -------------------------------------------------------------------------------------------------- read back by others


@READ_BY
@pytest.mark.parametrize("sizes", [(101, 64, 1), (16,), ()], ids=["odd", "one page", "no rows"])
@pytest.mark.usefixtures("small_pages")
def test_every_kind_of_column_is_read_back(reader: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    columns = every_kind(1)[0]
    groups = [every_kind(size)[1] for size in sizes]
    write(tmp_path / "file.parquet", columns, groups)
    check(READERS[reader], tmp_path / "file.parquet", columns, groups)


@READ_BY
@pytest.mark.parametrize("has_missing", [False, True], ids=["whole", "with gaps"])
@pytest.mark.parametrize("size", [1, 2, 3, 127, 128, 129, 255, 256, 257, 4095, 65_535, 65_536])
def test_lists_of_any_length_are_read_back(size: int, has_missing: bool, reader: str, tmp_path: Path) -> None:
    columns = [
        listed_column("text", pa.array([f"v{number}" for number in range(size)]), has_missing=has_missing),
        listed_column("number", pa.array(range(-3, size - 3)), has_missing=has_missing),
    ]
    rows = [codes_for(column, 1003) for column in columns]
    rows[0][-1] = size - 1
    write(tmp_path / "file.parquet", columns, [rows])
    check(READERS[reader], tmp_path / "file.parquet", columns, [rows])


@READ_BY
@pytest.mark.usefixtures("small_pages")
def test_pages_and_groups_without_any_value_are_read_back(reader: str, tmp_path: Path) -> None:
    columns = [
        listed_column("text", pa.array(["a", "b"]), has_missing=True),
        Column("truth", pa.bool_(), True, is_plain=True),
    ]
    codes = np.array([2] * 40 + [0, 1, 2] * 9, dtype=np.uint8)
    truths = [None] * 40 + [True, False, None] * 9
    none: list[Any] = [np.full(21, 2, dtype=np.uint8), pa.nulls(21, pa.bool_())]
    groups = [[codes, pa.array(truths)], none, none]
    write(tmp_path / "file.parquet", columns, groups)
    check(READERS[reader], tmp_path / "file.parquet", columns, groups)


def test_bytes_are_cut_where_they_always_were() -> None:
    """The same plan file gives the same bytes with every version, so that whoever has both can compare them.

    Small tables have one page and one group, whatever these numbers are, so that no release in the tests shows them.
    Who changes one changes the bytes of large releases: then the name of the writer has to be another too.
    """
    assert (CREATED_BY, shuffle.FILE_ROWS, record_writer.ROW_GROUP_ROWS) == (b"sfumato version 1", 2**24, 2**20)
    assert (dictionary_pages.PAGE_ROWS, dictionary_pages.PAGE_BYTES) == (2**17, 2**20)
    assert (parquet_writer.PAGE_BYTES, parquet_writer.MOST_DICTIONARY_BYTES) == (2**17, 2**26)


@READ_BY
def test_pages_of_the_usual_size_are_read_back(reader: str, tmp_path: Path) -> None:
    rows = dictionary_pages.PAGE_ROWS + 3
    columns = [
        listed_column("text", pa.array([f"v{number}" for number in range(50)])),
        listed_column("number", pa.array(range(300)), has_missing=True),
        Column("id", pa.int32(), False, is_plain=True),
        Column("set", pa.binary(7), False, is_plain=True),
    ]
    sets = np.random.default_rng(1).integers(0, 256, (rows, 7), dtype=np.uint8)
    data = [codes_for(columns[0], rows), codes_for(columns[1], rows), pa.array(range(rows), pa.int32())]
    data.append(pa.array([each.tobytes() for each in sets], pa.binary(7)))
    write(tmp_path / "file.parquet", columns, [data])
    table = READERS[reader](tmp_path / "file.parquet")
    for column, written in zip(columns, data, strict=True):
        values = (
            written if column.dictionary_values is None else column.dictionary_values.take(_with_gaps(column, written))
        )
        assert table.column(column.name).combine_chunks().cast(values.type).equals(values)


def _with_gaps(column: Column, codes: Any) -> pa.Array:
    return pa.array(
        codes, mask=codes == len(column.dictionary_values) if column.dictionary_values is not None else None
    )


@READ_BY
def test_values_are_found_by_their_lists(reader: str, tmp_path: Path) -> None:
    """Programs that look into the list of a group first, to leave it out, find what they would have found."""
    columns = [listed_column("x", pa.array(["a", "b", "never"])), Column("id", pa.int32(), False, is_plain=True)]
    groups = [[np.full(8, code, dtype=np.uint8), pa.array(range(8), pa.int32())] for code in (0, 1, 0)]
    write(path := tmp_path / "file.parquet", columns, groups)
    found = {
        "pyarrow": lambda value: pq.read_table(path, filters=[("x", "=", value)]).num_rows,
        "in batches": lambda value: sum(row == value for row in by_batches(path).column("x").to_pylist()),
        "duckdb": lambda value: by_duckdb(path).num_rows and _counted(path, value),
        "polars": lambda value: pl.scan_parquet(path).filter(pl.col("x") == value).collect().height,
    }[reader]
    assert [found(value) for value in ("a", "b", "never", "c")] == [16, 8, 0, 0]


def _counted(path: Path, value: str) -> int:
    with duckdb.connect() as connection:
        sql = "SELECT COUNT(*) FROM read_parquet(?) WHERE x = ?"
        return int(connection.execute(sql, [str(path), value]).fetchall()[0][0])


@pytest.mark.slow
@given(st.data())
def test_any_columns_are_read_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4, unique=True))
    columns = []
    for name in names:
        kind, values = VALUES[name]
        some = data.draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
        columns.append(listed_column(name, pa.array(some, kind), has_missing=data.draw(st.booleans())))
    sizes = data.draw(st.lists(st.integers(1, 70), max_size=3))
    groups = [[codes_for(column, size, size) for column in columns] for size in sizes]
    path = tmp_path_factory.mktemp("any") / "file.parquet"
    write(path, columns, groups)
    for read in READERS.values():
        check(read, path, columns, groups)


# ------------------------------------------------------------------------------------------------- what is in the bytes


def varint_at(data: bytes, place: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        found |= (data[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if not data[place - 1] & 0x80:
            return found, place


@pytest.mark.parametrize(
    ("values", "width"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (255, 8), (256, 8), (257, 9), (65_536, 16)]
)
@pytest.mark.parametrize("has_missing", [False, True], ids=["whole", "with gaps"])
@pytest.mark.usefixtures("small_pages")
def test_pages_hold_one_packed_run_of_a_width_that_follows_from_the_list(
    values: int, width: int, has_missing: bool, tmp_path: Path
) -> None:
    column = listed_column("x", pa.array(range(values)), has_missing=has_missing)
    same = np.zeros(40, dtype=np.uint32)  # what everybody else would tell by how often it is repeated
    write(tmp_path / "file.parquet", [column], [[same], [codes_for(column, 40)]])
    for lists, *data in pages_of(tmp_path / "file.parquet", "x"):
        assert not lists.is_data
        assert np.frombuffer(lists.data, dtype=np.int64).tolist() == list(range(values))
        assert [page.rows for page in data] == [16, 16, 8]
        for page in data:
            place, present = 0, page.rows
            if has_missing:
                size = int.from_bytes(page.data[:4], "little")
                groups, start = varint_at(page.data, 4)
                assert groups == -(-page.rows // 8) << 1 | 1  # the last bit says that numbers are packed
                bits = np.frombuffer(page.data[start : 4 + size], dtype=np.uint8)
                assert len(bits) == groups >> 1
                place, present = 4 + size, int(np.bitwise_count(bits).sum())
            assert page.data[place] == width
            if present:
                groups, start = varint_at(page.data, place + 1)
                assert groups == -(-present // 8) << 1 | 1
                assert len(page.data) - start == width * (groups >> 1)
            else:
                assert len(page.data) == place + 1


def test_file_says_nothing_but_its_columns(tmp_path: Path) -> None:
    columns, rows = every_kind(20)
    write(tmp_path / "file.parquet", columns, [rows, rows])
    metadata = pq.read_metadata(tmp_path / "file.parquet")
    assert metadata.metadata is None
    assert metadata.created_by == "sfumato version 1"
    for group in range(2):
        assert metadata.row_group(group).sorting_columns == ()
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            assert not chunk.is_stats_set
            assert not chunk.has_column_index
            assert not chunk.has_offset_index
            assert chunk.metadata is None
            assert chunk.compression == "ZSTD"
    assert b"parquet-cpp" not in (tmp_path / "file.parquet").read_bytes()


def test_sizes_are_those_of_the_pages(tmp_path: Path) -> None:
    columns, rows = every_kind(50)
    write(tmp_path / "file.parquet", columns, [rows, rows])
    metadata = pq.read_metadata(tmp_path / "file.parquet")
    ends = 4
    for group in range(2):
        told = metadata.row_group(group)
        chunks = [told.column(place) for place in range(metadata.num_columns)]
        for chunk in chunks:
            first = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            assert first == ends
            ends += chunk.total_compressed_size
        assert told.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
    assert ends == (tmp_path / "file.parquet").stat().st_size - metadata.serialized_size - 8


def test_wide_rows_make_short_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary_pages, "PAGE_BYTES", 1000)
    column = Column("set", pa.binary(50), False, is_plain=True)
    rows = pa.array([bytes([row] * 50) for row in range(40)], pa.binary(50))
    write(tmp_path / "file.parquet", [column], [[rows]])
    ((*found,),) = pages_of(tmp_path / "file.parquet", "set")
    assert [page.rows for page in found] == [16, 16, 8]
    check(pq.read_table, tmp_path / "file.parquet", [column], [[rows]])


def test_rows_that_are_slices_of_others_are_written_alike(tmp_path: Path) -> None:
    columns, rows = every_kind(64)
    sliced = [each[5:50] if isinstance(each, np.ndarray) else each.slice(5, 45) for each in rows]
    copied = [
        each.copy() if isinstance(each, np.ndarray) else pa.concat_arrays([pa.array(each.to_pylist(), each.type)])
        for each in sliced
    ]
    write(tmp_path / "sliced.parquet", columns, [sliced])
    write(tmp_path / "copied.parquet", columns, [copied])
    assert (tmp_path / "sliced.parquet").read_bytes() == (tmp_path / "copied.parquet").read_bytes()


@given(st.lists(st.booleans(), max_size=70), st.integers(0, 20), st.binary(min_size=1, max_size=1))
def test_truth_values_are_packed_whatever_is_beside_them(truths: list[bool], start: int, beside: bytes) -> None:
    """Of an array that is part of another, and whose last byte holds something else behind it."""
    bits = np.packbits(np.array([*[True] * start, *truths], dtype=bool), bitorder="little")
    if len(bits) and (start + len(truths)) % 8:
        bits[-1] |= beside[0] << (start + len(truths)) % 8 & 0xFF
    column = pa.BooleanArray.from_buffers(pa.bool_(), len(truths), [None, pa.py_buffer(bits)], offset=start)
    assert column.to_pylist() == truths
    assert (
        dictionary_pages._pack_truth_values(column)
        == np.packbits(np.array(truths, dtype=bool), bitorder="little").tobytes()
    )


@pytest.mark.slow
def test_threads_make_the_same_groups(tmp_path: Path) -> None:
    columns, _ = every_kind(1)
    groups = [every_kind(size)[1] for size in range(30, 60)]
    digest = write(tmp_path / "file.parquet", columns, groups)
    encoder = Encoder(columns)
    with ThreadPoolExecutor(4) as pool, (tmp_path / "other.parquet").open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        for group in pool.map(encoder, groups):
            writer.add(group)
        assert writer.finish() == digest
    assert hashlib.sha256((tmp_path / "other.parquet").read_bytes()).hexdigest() == digest


def test_table_is_written_in_one_group(tmp_path: Path) -> None:
    table = pa.table({"x": pa.chunked_array([["a"], ["b", None]]), "y": [1.5, 2.5, 3.5]})
    write_table(tmp_path / "file.parquet", table)
    assert pq.read_table(tmp_path / "file.parquet").equals(table)
    assert pq.read_metadata(tmp_path / "file.parquet").num_row_groups == 1
    write_table(tmp_path / "file.parquet", table.slice(0, 0))
    assert pq.read_table(tmp_path / "file.parquet").equals(table.slice(0, 0))
