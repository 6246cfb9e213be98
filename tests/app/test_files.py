"""Files that people have: packed, piped, with decimal commas; a release is the same whatever the table came in."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from accepted import OPTIONS
from command_line import BOUND, SCRIPT, TEST_KEY, fail, people, publishing, run, succeed, write_csv, write_parquet
from sfumato._records import DATA_FILE


def piped(content: bytes, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """A command of its own process, with something in its standard input."""
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, input=content, capture_output=True, check=False)


def data(release: Path) -> bytes:
    return (release / DATA_FILE).read_bytes()


def keyed(table: str | Path, out: str | Path, *more: str) -> tuple[str | Path, ...]:
    return ("publish", table, "--sensitive", "disease", *BOUND, "--unsafe-test-key", TEST_KEY, "--out", out, *more)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl"])
def test_standard_input_is_a_table(kind: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people()
    content = write_csv(desk / "people.csv", table).read_bytes()
    if kind == "csv.gz":
        content = gzip.compress(content)
    elif kind == "parquet":
        content = write_parquet(desk / "people.parquet", table).read_bytes()
    elif kind == "jsonl":
        rows = zip(*table.values(), strict=True)
        content = "".join(json.dumps(dict(zip(table, row, strict=True))) + "\n" for row in rows).encode()
    kept = ("--plan-file", "private.plan")

    def given(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    succeed(*keyed("people.csv", "from-file"))
    given(content)
    succeed(*keyed("-", "from-pipe"))
    assert data(desk / "from-pipe") == data(desk / "from-file")
    for out in ("kept", "again"):
        given(content)
        succeed(*keyed("-", out, *kept))
        assert data(desk / out) == data(desk / "kept")
    given(content[:-1] if kind == "jsonl" else content + b"\n")
    fail(desk, *keyed("-", "other", *kept))


@pytest.mark.slow
def test_plan_file_of_a_file_knows_the_same_bytes_from_a_pipe(desk: Path) -> None:
    content = write_csv(desk / "people.csv", people()).read_bytes()
    succeed(*publishing("people.csv", "--plan-file", "private.plan", out="from-file"))
    assert piped(content, *publishing("-", "--plan-file", "private.plan", *OPTIONS, out="from-pipe")).returncode == 0
    assert data(desk / "from-pipe") == data(desk / "from-file")


def test_empty_pipe_is_refused(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert fail(desk, *keyed("-", "release")) == "standard input is empty, so there is no table to read."


def test_request_file_cannot_name_a_pipe(desk: Path) -> None:
    assert "standard input has no name" in fail(desk, "init", "-")


def test_packed_file_that_was_cut_off_is_refused(desk: Path) -> None:
    content = gzip.compress(write_csv(desk / "people.csv", people()).read_bytes())
    (desk / "people.csv.gz").write_bytes(content[:-9])
    assert "'people.csv.gz' is damaged" in fail(desk, *publishing("people.csv.gz", out=desk / "release"))
    (desk / "people.csv.gz").write_bytes(b"no gzip")
    assert "'people.csv.gz' is damaged" in fail(desk, *publishing("people.csv.gz", out=desk / "release"))


def test_packed_file_of_another_kind_is_refused(desk: Path) -> None:
    (desk / "people.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    assert "cannot be read as a table" in fail(desk, *publishing("people.parquet.gz", out=desk / "release"))


# --------------------------------------------------------------------------------------------------------------- commas


@pytest.fixture
def commas(desk: Path) -> Path:
    """A table as a German spreadsheet saves it."""
    weights = [f"{50 + row % 40},{row % 10}" for row in range(200)]
    return write_csv(desk / "people.csv", {**people(200), "weight": weights}, delimiter=";")


@pytest.mark.slow
def test_decimal_comma_is_read_where_it_is_said(commas: Path) -> None:
    binned = ("--ranges", "weight=50,60.5,70,90", "--decimal", ",")
    succeed(*publishing(commas, *binned, out=commas.parent / "release"))
    asked = "SELECT COUNT(*) FROM release WHERE weight = '[50,60.5)'"
    answer = succeed("query", "release", asked, "--json").json
    below = sum(50 + row % 40 + row % 10 / 10 < 60.5 for row in range(200))
    assert str(below) in str(answer), answer
    succeed("verify", "release", "--original", commas, "--decimal", ",")
    assert run("verify", "release", "--original", commas).code != 0


def test_decimal_comma_is_noticed(commas: Path) -> None:
    found = succeed(*publishing(commas, "--accept-disclosing", "weight=made up", out=commas.parent / "release"))
    (said,) = [line for line in found.notices if "decimal comma" in line]
    assert "'weight' looks like numbers with a decimal comma" in said
    assert "(--decimal ,)" in said


def test_nearly_unique_commas_are_told_apart_from_names(desk: Path) -> None:
    weights = [f"{50 + row},{row % 10}" for row in range(200)]
    table = write_csv(desk / "people.csv", {**people(200), "weight": weights}, delimiter=";")
    said = fail(desk, *publishing(table, out=desk / "release"))
    assert "looks like numbers with a decimal comma" in said
    assert "(--decimal ,)" in said


def test_init_writes_the_decimal_comma(commas: Path) -> None:
    succeed("init", commas, "--sensitive", "disease")
    written = (commas.parent / "request.toml").read_text()
    assert 'decimal = ","' in written
    assert "weight" in written.partition("[ranges]")[2]


def test_plan_file_knows_another_decimal_mark(commas: Path) -> None:
    kept = ("--plan-file", "private.plan", "--drop", "weight")
    succeed(*publishing(commas, *kept, out=commas.parent / "one"))
    assert "plan file" in fail(commas.parent, *publishing(commas, *kept, "--decimal", ",", out=commas.parent / "two"))


def test_unknown_decimal_mark_is_refused(commas: Path) -> None:
    assert "use a point or a comma" in fail(
        commas.parent, *publishing(commas, "--decimal", "·", out=commas.parent / "release")
    )
