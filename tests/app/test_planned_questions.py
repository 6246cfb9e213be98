"""The option that asks your own questions before you publish."""

from __future__ import annotations

from pathlib import Path

from command_line import BOUND, fail, succeed

FLU = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"


def planning(table: Path, *options: str | Path) -> list[str | Path]:
    """The arguments of a command that plans a table of people."""
    return ["plan", table, "--sensitive", "disease", *BOUND, *options]


def test_questions_of_a_file_are_in_the_plan(table: Path) -> None:
    Path("questions.txt").write_text(f"-- the board asks\n{FLU};\nSELECT nothing FROM release\n")
    told = succeed(*planning(table, "--questions", "questions.txt", "--json")).json["questions"]
    assert [(answer["line"], answer["sql"]) for answer in told] == [(2, FLU), (3, "SELECT nothing FROM release")]
    (number,) = told[0]["rows"]
    assert (number["truth"], told[0]["why_not"]) == (24, None)
    assert number["relative_error"] == number["standard_error"] / 24
    assert (told[1]["rows"], "nothing" in told[1]["why_not"]) == ([], True)
    shown = succeed(*planning(table, "--questions", "questions.txt")).words
    assert "Question in line 3: " in shown
    assert "questions" not in succeed(*planning(table, "--json")).json


def test_questions_need_a_table_and_a_file(table: Path) -> None:
    Path("counts.csv").write_text("value,count\nflu,50\nHIV,50\n")
    Path("questions.sql").write_text(FLU)
    desk = table.parent
    assert "--questions" in fail(desk, "plan", "--counts", "counts.csv", *BOUND, "--questions", "questions.sql")
    fail(desk, *planning(table, "--questions", "none.sql"))
