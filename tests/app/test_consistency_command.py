"""The query command with --consistent and --totals: one more column, in the table and for machines."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from command_line import complaint, run, succeed
from releases import people, published
from sfumato._query.consistency.consistent_tables import CALIBRATED, CONSISTENT

SQL = "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease"
COLUMNS = ["sex", "disease", "n", "n_se", "n_low", "n_high"]


@pytest.fixture
def folder(desk: Path) -> Path:
    """A release in a working directory with known totals."""
    (desk / "known.csv").write_text("disease,total\nflu,26\nHIV,11\n")
    (desk / "women.csv").write_text("sex,disease,total\nF,cold,5\n")
    return published(people(), desk / "release", mechanism="uniform").folder


def answered(folder: Path, sql: str, *options: str) -> dict[str, Any]:
    """What a query answers to machines."""
    found: dict[str, Any] = succeed("query", folder, sql, *options, "--json").json
    return found


def added(found: dict[str, Any], column: str, **values: str) -> float:
    """What the rows with given values add up to."""
    rows = [row for row in found["rows"] if all(row[name] == value for name, value in values.items())]
    return float(sum(row[column] for row in rows))


def test_consistent_numbers_are_told_to_machines(folder: Path) -> None:
    found = answered(folder, SQL, "--consistent")
    assert found["columns"] == [*COLUMNS, "n_consistent"]
    assert found["adjustment"] == CONSISTENT.description
    assert [added(found, "n_consistent", sex=sex) for sex in "FM"] == pytest.approx([30, 30])
    assert min(row["n_consistent"] for row in found["rows"]) >= 0


def test_plain_answer_has_no_adjustment(folder: Path) -> None:
    found = answered(folder, SQL)
    assert found["columns"] == COLUMNS
    assert "adjustment" not in found


@pytest.mark.parametrize(
    ("options", "column", "words"),
    [([], "n_calibrated", CALIBRATED.description), (["--consistent"], "n_consistent", CONSISTENT.description)],
)
def test_totals_hold(folder: Path, options: list[str], column: str, words: str) -> None:
    found = answered(folder, SQL, "--totals", "known.csv", "--totals", "women.csv", *options)
    assert found["columns"] == [*COLUMNS, column]
    assert found["adjustment"] == words
    assert [added(found, column, disease=name) for name in ("flu", "HIV")] == pytest.approx([26, 11])
    assert added(found, column, sex="F", disease="cold") == pytest.approx(5)
    assert added(found, column, sex="M") == pytest.approx(30)


def test_table_shows_the_column_and_how_it_was_made(folder: Path) -> None:
    shown = succeed("query", folder, SQL, "--consistent").words
    assert "n_consistent ┃" in shown
    assert f"n_consistent: {CONSISTENT.description}" in shown


def test_exact_answer_says_that_nothing_was_done(folder: Path) -> None:
    sql = "SELECT sex, COUNT(*) FROM release GROUP BY sex"
    found = answered(folder, sql, "--consistent")
    assert found["note"] == "every number is exact, so nothing was made consistent or calibrated."
    assert found["columns"] == ["sex", "n", "n_se", "n_low", "n_high"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'SELECT AVG(age) FROM release WHERE disease = $$flu$$' --consistent", "only COUNT(*) can be made consistent"),
        (f"'{SQL}' --totals nowhere.csv", "'nowhere.csv' cannot be read"),
        (f"'{SQL}' --totals wrong.csv", "the numbers of records add up to 60, but the totals in 'wrong.csv' "),
        ("--batch many.csv --consistent", "--consistent and --totals apply to one question"),
        ("--batch many.csv --totals known.csv", "--consistent and --totals apply to one question"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(folder: Path, arguments: str, words: str) -> None:
    (folder.parent / "wrong.csv").write_text("disease,total\nflu,99\nHIV,0\ncold,0\nasthma,0\n")
    (folder.parent / "many.csv").write_text('sql\n"SELECT COUNT(*) FROM release"\n')
    given = [word.replace("$$", "'") for word in shlex.split(arguments)]
    assert words in complaint(run("query", folder, *given))
