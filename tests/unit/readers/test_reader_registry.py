"""The registry of readers: who reads which table, and that nobody else is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from refusals import refuses
from sfumato._core.object_store import Address
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import ReadOptions
from sfumato._readers.reader_registry import (
    READERS,
    find_reader_of_address,
    find_reader_of_beginning,
    find_reader_of_file,
    find_reader_of_object,
)
from sfumato.errors import SchemaError, SourceError


def test_every_reader_is_recognised_in_some_way() -> None:
    for name, reader in READERS.items():
        assert reader.name == name
        assert reader.endings or reader.address_pattern or reader.is_own, name


def test_endings_and_beginnings_belong_to_one_reader_each() -> None:
    for belonging in ("endings", "beginnings"):
        marks = [mark for reader in READERS.values() for mark in getattr(reader, belonging)]
        assert len(marks) == len(set(marks)), belonging


def test_only_readers_of_files_have_what_files_have() -> None:
    for reader in READERS.values():
        assert set(reader.explicit_endings) <= set(reader.endings)
        if not reader.endings:
            assert not any((reader.takes_several, reader.part_kind, reader.reads_stores, reader.beginnings)), (
                reader.name
            )
        assert not all((reader.part_kind, reader.takes_several)), reader.name


@pytest.mark.parametrize("name", READERS)
def test_file_with_an_ending_belongs_to_its_reader(name: str) -> None:
    for ending in READERS[name].endings:
        assert find_reader_of_file(Path(f"x{ending.upper()}")) is READERS[name]
        packed = find_reader_of_file(Path(f"x{ending}.gz"))
        assert packed is (READERS[name] if READERS[name].reads_compressed else None)


@pytest.mark.parametrize("name", READERS)
def test_beginning_belongs_to_its_reader(name: str) -> None:
    for mark in READERS[name].beginnings:
        assert find_reader_of_beginning(mark + b"\x00 rest") is READERS[name]


def test_local_file_asks_nobody_but_the_reader_of_its_ending(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are told apart by their form alone; what opens tables of servers and tests objects is not called."""

    def never(*given: Any) -> Any:
        raise AssertionError(given)

    (desk / "people.csv").write_text("x,y\n1,2\n")
    for name, reader in list(READERS.items()):
        if name != "CSV":
            guarded = replace(reader, open=never, hide_secrets=never, is_own=never if reader.is_own else None)
            monkeypatch.setitem(READERS, name, guarded)
    assert open_source(desk / "people.csv", desk / "spool").rows == 1


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("postgresql://me@host/base::people", "PostgreSQL"),
        ("postgres:/host/base::people", "PostgreSQL"),  # as a Path writes it
        ("spark:people", "Spark"),
        ("people.csv", None),
        ("my-spark:people.csv", None),
        ("s3://bucket/postgresql:x.csv", None),
        ("folder/postgresql://x", None),
    ],
)
def test_address_belongs_to_its_reader(name: str, reader: str | None) -> None:
    found = find_reader_of_address(name)
    assert (None if found is None else found.name) == reader


def test_object_belongs_to_the_first_reader_that_knows_it() -> None:
    table = pa.table({"x": [1]})
    found = [find_reader_of_object(each).name for each in (table, table.to_pandas(), table.to_reader())]
    assert found == ["Arrow table", "pandas", "Arrow stream"]
    with refuses(SourceError, "unknown-table-type", type="int"):
        find_reader_of_object(3)


def test_files_in_stores_are_for_readers_that_take_them(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Address, "is_file", lambda self: True)
    with refuses(SourceError, "table-in-store", file="a.duckdb", format="DuckDB"):
        open_source("s3://bucket/a.duckdb::people", desk / "spool")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"encoding": "utf-99"}, SourceError),
        ({"decimal": ";"}, SourceError),
        ({"missing": "NA"}, SchemaError),
        ({"text": "zip"}, SchemaError),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ReadOptions(**given)


def test_options_are_values() -> None:
    assert ReadOptions(text=["a"], missing=["?"]) == ReadOptions(("a",), "utf-8", ("?",), ".")  # type: ignore[arg-type]
    assert len({ReadOptions(), ReadOptions(decimal=","), ReadOptions()}) == 2
