"""Files that are far larger than they look, or than they need to be: refused before memory is taken."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import complaint, fail, people, publishing, run_apart, write_csv
from refusals import refuses
from sfumato._core.small_text_files import read_toml
from sfumato._readers import parquet_files
from sfumato.errors import SpecError

LARGE = 300 << 20


def hole(path: Path, size: int, beginning: bytes = b"value\n") -> Path:
    """A file that takes no room on the disk, and all of its size in memory."""
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(size)
    return path


@pytest.mark.slow
def test_line_longer_than_memory_is_refused(desk: Path) -> None:
    hole(desk / "people.csv", 3 << 30, b"age,sex,disease\n")
    sentence = complaint(run_apart(*publishing("people.csv"), most_memory=3 << 30))
    assert sentence.startswith("'people.csv' cannot be read as a CSV file")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "people.csv", "--sensitive", "disease", "--prior", "1/10", "--posterior", "1/2", "--domain"),
        ("plan", "people.csv", "--sensitive", "disease", "--prior", "1/10", "--posterior", "1/2", "--hierarchy"),
        ("plan", "people.csv", "--sensitive", "disease", "--bounds"),
        ("plan", "--prior", "1/10", "--posterior", "1/2", "--counts"),
    ],
    ids=lambda given: given[-1],
)
def test_small_file_that_is_large_is_refused(desk: Path, arguments: tuple[str, ...]) -> None:
    write_csv(desk / "people.csv", people())
    hole(desk / "list.csv", LARGE)
    name = "disease=list.csv" if arguments[-1] in ("--domain", "--hierarchy") else "list.csv"
    assert complaint(run_apart(*arguments, name)).endswith(
        "'list.csv' is larger than 256 MiB, which is too large for a file of this kind; name another one."
    )


def test_request_file_that_is_large_is_refused(desk: Path) -> None:
    hole(desk / "request.toml", 2 << 20, b"")
    assert "is larger than 1 MiB" in fail(desk, "plan", "request.toml")


@pytest.mark.parametrize(
    "written",
    [
        ".".join(["a"] * 3000) + " = 1",
        f"[{'.'.join(['a'] * 3000)}]",
        f"x = {{{' . '.join(['a', chr(34) * 2] * 999)} = 1}}",
    ],
    ids=["key", "section", "inline"],
)
def test_key_of_thousands_of_parts_is_refused(tmp_path: Path, written: str) -> None:
    """The time that they take grows with their square: 200,000 take a minute, and gigabytes."""
    (tmp_path / "request.toml").write_text(written)
    with refuses(SpecError, "toml-value-too-large", file=str(tmp_path / "request.toml")):
        read_toml(tmp_path / "request.toml", "the file")


def test_many_decimals_in_a_line_are_no_key(tmp_path: Path) -> None:
    (tmp_path / "request.toml").write_text(f"\ufeffedges = [{', '.join(['0.5'] * 500)}] # {'.' * 500}\n", "utf-8")
    assert read_toml(tmp_path / "request.toml", "the file") == {"edges": [0.5] * 500}


@pytest.mark.slow
def test_parquet_that_swells_absurdly_is_refused(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "FEW_BYTES", 1 << 20)
    table = pa.table({**people(3), "note": ["a" * (20 << 20)] * 3})
    pq.write_table(table, desk / "people.parquet", compression="zstd", use_dictionary=False)
    for arguments in (publishing("people.parquet"), ["lint", "people.parquet"]):
        assert "'people.parquet' would unpack to" in fail(desk, *arguments)


def test_table_of_many_columns_names_some_of_them(desk: Path) -> None:
    write_csv(desk / "people.csv", {f"column {number}": [1, 2] for number in range(60)})
    sentence = fail(desk, *publishing("people.csv"))
    assert "'column 49' and 10 more." in sentence
    assert "'column 50'" not in sentence
