"""What is kept of a first reading is what a second one would have read, wherever it lies."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases import people, published
from sfumato import LocalEngine
from sfumato._engines import scan_cache
from sfumato._engines.scan_cache import CachedSource
from sfumato._readers.open_table import open_source
from sfumato._readers.sources import MemorySource, Source
from sfumato.errors import SourceError

ROWS = 50
ROOM = 1 << 20


class Counted:
    """A table that counts how often it is read."""

    def __init__(self, table: Source) -> None:
        self.table, self.readings = table, 0
        self.schema, self.rows = table.schema, table.rows

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        self.readings += 1
        return self.table.read_batches(columns, batch_rows)

    def pieces(self, rows: int) -> Iterator[Any]:
        return self.table.iter_pieces(rows)

    def fingerprint(self, each: Any = map, *, is_content: bool = True) -> str:
        return self.table.compute_fingerprint(each, is_content=is_content)


def of_every_type(rows: int = ROWS) -> pa.Table:
    texts = pa.array(["b", "a", None, "c"] * rows)[:rows]
    return pa.table(
        {
            "texts": texts,
            "listed": texts.dictionary_encode(),
            "narrow": pa.DictionaryArray.from_arrays(pa.array([1, None, 0] * rows, pa.int8())[:rows], ["x", "y"]),
            "many": pa.array([f"value {row % 300}" for row in range(rows)]).dictionary_encode(),
            "numbers": pa.array([row % 7 if row % 5 else None for row in range(rows)], pa.int16()),
            "shares": pa.array([[0.0, -0.0, float("nan"), None][row % 4] for row in range(rows)]),
            "truths": pa.array([row % 2 == 0 for row in range(rows)]),
            "days": pa.array([datetime.date(2024, 1, 1 + row % 28) for row in range(rows)]),
        }
    )


def read(source: CachedSource, columns: Sequence[str], batch_rows: int) -> list[pa.RecordBatch]:
    """All batches, as an engine reads them; those that are used last first."""
    held = list(source.read_cached(columns, batch_rows))
    used = {batch.number: list(batch.read_batches(columns, batch_rows)) for batch in reversed(held)}
    assert [sum(each.num_rows for each in used[batch.number]) for batch in held] == [batch.rows for batch in held]
    return [each for batch in held for each in used[batch.number]]


def of_values(schema: pa.Schema) -> list[tuple[str, bool, pa.DataType]]:
    """The names of columns, whether they are listed, and the types of their values."""
    found = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        is_listed = pa.types.is_dictionary(kind)
        found.append((name, is_listed, kind.value_type if is_listed else kind))
    return found


def are_same(some: Sequence[pa.RecordBatch], others: Sequence[pa.RecordBatch]) -> bool:
    """Whether batches have the same columns, types and values, however wide codes are; not-a-number is itself."""
    return len(some) == len(others) and all(
        of_values(one.schema) == of_values(other.schema) and repr(one.to_pydict()) == repr(other.to_pydict())
        for one, other in zip(some, others, strict=True)
    )


@pytest.mark.parametrize("budget", [0, 300, ROOM], ids=["in a file", "partly in a file", "in memory"])
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_every_second_reading_gets_the_batches_of_the_one_before_and_reads_nothing(
    batch_rows: int, budget: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_cache, "MOST_ROW_BYTES", 1000)
    table = Counted(MemorySource(of_every_type()))
    source, columns = CachedSource(table, tmp_path, budget), of_every_type().column_names
    expected = list(table.read_batches(columns, batch_rows))
    readings = [read(source, columns, batch_rows) for _ in range(2)]
    assert all(are_same(each, expected) for each in readings)
    assert table.readings == 2  # this test's own, and the first one
    again = [read(source, columns, batch_rows) for _ in range(2)]
    assert all(are_same(each, expected) for each in again)
    assert table.readings == 3  # what was given back is kept no longer
    assert not list(tmp_path.iterdir())


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), max_size=40),
    st.integers(1, 50),
    st.sampled_from([0, ROOM]),
)
def test_any_column_comes_back_as_it_was(
    tmp_path_factory: Any, values: list[Any], batch_rows: int, budget: int
) -> None:
    plain = pa.array(values, pa.int64())
    table = pa.table({"plain": plain, "listed": plain.dictionary_encode()})
    source = CachedSource(MemorySource(table), tmp_path_factory.getbasetemp(), budget)
    first = read(source, ["listed", "plain"], batch_rows)
    assert are_same(read(source, ["listed", "plain"], batch_rows), first)


def test_codes_come_as_narrow_as_they_are_kept_from_the_first_reading_on(tmp_path: Path) -> None:
    source = CachedSource(MemorySource(of_every_type(1000)), tmp_path, ROOM)
    for _ in range(2):
        (batch,) = read(source, ["listed", "narrow", "many"], 1000)
        assert [each.index_type for each in batch.schema.types] == [pa.uint8(), pa.uint8(), pa.uint16()]


@pytest.mark.parametrize("codes", [[0, 257], [0, -255], [None, 257]], ids=str)
def test_codes_beyond_their_dictionary_are_refused(codes: list[int | None], tmp_path: Path) -> None:
    """They would be other values if they were cut off."""
    wrong = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(["a", "b"]), safe=False)
    (batch,) = CachedSource(MemorySource(pa.table({"column": wrong})), tmp_path, ROOM).read_cached(["column"], 10)
    with pytest.raises((SourceError, pa.ArrowInvalid)):
        next(batch.read_batches(["column"], 10))


def test_other_columns_or_batches_are_read_by_themselves(tmp_path: Path) -> None:
    table = Counted(MemorySource(of_every_type()))
    source = CachedSource(table, tmp_path, ROOM)
    for columns, rows in ((["listed"], 7), (["numbers"], 7), (["listed"], 8), (["listed"], 7), (["numbers"], 7)):
        assert are_same(read(source, columns, rows), list(table.table.read_batches(columns, rows)))
    assert table.readings == 3


def test_reading_that_was_not_finished_or_not_used_is_done_again(tmp_path: Path) -> None:
    table = Counted(MemorySource(of_every_type()))
    source, columns = CachedSource(table, tmp_path, ROOM), ["listed", "numbers"]
    next(source.read_cached(columns, 7))
    held = list(source.read_cached(columns, 7))  # read to its end, and used but for one batch
    for batch in held[1:]:
        list(batch.read_batches(columns, 7))
    assert are_same(read(source, columns, 7), list(table.table.read_batches(columns, 7)))
    assert table.readings == 3


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a long text that would take much room"] * ROWS),
        pa.array([f"{row:0600d}" for row in range(ROWS)]).dictionary_encode(),
    ],
    ids=["long rows", "long dictionaries"],
)
def test_what_takes_too_much_is_not_kept(column: pa.Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_cache, "LEAST_DICTIONARY_BYTES", 1000)
    table = Counted(MemorySource(pa.table({"column": column, "listed": of_every_type()["listed"]})))
    source, columns = CachedSource(table, tmp_path, 0), ["listed", "column"]
    expected = list(table.table.read_batches(columns, 7))
    assert are_same(read(source, columns, 7), expected)
    assert are_same(read(source, columns, 7), expected)
    assert table.readings == 2
    assert not list(tmp_path.iterdir())


def test_publishing_reads_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(people(90), tmp_path / "people.parquet", row_group_size=13)
    source = type(open_source(tmp_path / "people.parquet", tmp_path / "spool"))
    readings, batches = [], source.read_batches
    monkeypatch.setattr(source, "read_batches", lambda *given: (readings.append(given), batches(*given))[1])
    published(tmp_path / "people.parquet", tmp_path / "release", engine=LocalEngine(7, 2, 0))
    assert len(readings) == 1


@pytest.mark.parametrize("room", [10**6, 3000], ids=["all are kept", "given up midway"])
def test_batches_of_few_and_of_many_values_are_published_together(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their codes are narrow in some batches and wide in others."""
    monkeypatch.setattr(scan_cache, "LEAST_DICTIONARY_BYTES", room)
    rows, given = 900, people(900)
    words = pa.array([f"word {row % (100 if row < 300 else 290)}" for row in range(rows)])
    pq.write_table(given.append_column("word", words), tmp_path / "people.parquet", row_group_size=300)
    release = published(tmp_path / "people.parquet", tmp_path / "release", engine=LocalEngine(300, 2, 0))
    shown = pq.read_table(release.folder / "data.parquet").column("word")
    assert sorted(shown.to_pylist()) == sorted(words.to_pylist())
