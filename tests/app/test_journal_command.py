"""The command that shows a journal of publications, and the option that writes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import BOUND, publishing, run, succeed
from sfumato import read_journal

WIDTH = 80


@pytest.fixture
def journal(table: Path) -> Path:
    """A journal of two publications."""
    for name in ("one", "two"):
        succeed(*publishing(table, out=name), "--journal", "journal.jsonl")
    return table.parent / "journal.jsonl"


def test_journal_is_shown_as_a_table_of_eighty_columns(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    lines = succeed("journal", journal).out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("- ")) <= WIDTH  # items stay one line, to be searched
    assert [line for line in lines if "│" in line and "one" in line and "published" in line]
    assert [line for line in lines if "│" in line and "two" in line and "published" in line]
    assert read_journal(journal).head in "".join(lines)


def test_head_is_printed_when_a_table_is_published(table: Path) -> None:
    outcome = succeed(*publishing(table), "--journal", "journal.jsonl")
    assert read_journal("journal.jsonl").head in outcome.out
    told = succeed(*publishing(table, out="two"), "--journal", "journal.jsonl", "--json").json
    assert told["journal_head"] == read_journal("journal.jsonl").head


def test_json_has_every_publication_and_the_head(journal: Path) -> None:
    told = succeed("journal", journal, "--json").json
    assert (told["is_intact"], told["bad_line"], told["problem"], told["lines"]) == (True, None, None, 4)
    assert told["head"] == read_journal(journal).head
    assert [(entry["publication"], entry["target"], entry["outcome"]) for entry in told["publications"]] == [
        (1, "one", "published"),
        (2, "two", "published"),
    ]


def test_broken_chain_ends_with_code_1_and_names_the_line(journal: Path) -> None:
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines[:2], lines[2].replace('"subset"', '"unform"').replace("20", "21", 1), lines[3]]))
    outcome = run("journal", journal)
    assert outcome.code == 1
    assert outcome.err.startswith("error: line 3 ")
    told = run("journal", journal, "--json")
    assert (told.code, told.json["is_intact"], told.json["bad_line"]) == (1, False, 3)
    assert [entry["target"] for entry in told.json["publications"]] == ["one"]


def test_noted_head_is_compared(journal: Path) -> None:
    head = read_journal(journal).head
    succeed("journal", journal, "--head", head)
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:2]))
    assert run("journal", journal).code == 0
    assert run("journal", journal, "--head", head).code == 1
    assert run("journal", journal, "--head", "short").code == 2
    assert run("journal", "none").code == 2


def test_damaged_journal_stops_publish(journal: Path) -> None:
    journal.write_text(journal.read_text()[1:])
    outcome = run(*publishing(Path("people.csv"), out="three"), "--journal", journal)
    assert outcome.code == 2
    assert "line 1 of the journal" in outcome.err
    assert not Path("three").exists()


def test_request_file_names_the_journal_beside_it(table: Path) -> None:
    bound = dict(zip(BOUND[::2], BOUND[1::2], strict=True))
    Path("there").mkdir()
    Path("there/request.toml").write_text(
        f'path = "../{table.name}"\nsensitive = "disease"\n'
        f'prior = "{bound["--prior"]}"\nposterior = "{bound["--posterior"]}"\njournal = "journal.jsonl"\n'
    )
    succeed("publish", "there/request.toml", "--out", "release")
    assert len(read_journal("there/journal.jsonl").entries) == 1
