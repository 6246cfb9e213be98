"""The query command: attached files, intervals that hold together, a time limit, and how numbers look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from command_line import complaint, run, succeed
from releases import people, published

SHARE = "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS share FROM release"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A release with every option at its default."""
    return published(people(), tmp_path / "release").folder


def answered(folder: Path, sql: str, *options: str) -> dict[str, Any]:
    """What a query answers to machines."""
    found: dict[str, Any] = succeed("query", folder, sql, *options, "--json").json
    return found


@pytest.mark.slow
def test_attached_file_can_be_joined(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text("code,part\nflu,lung\ncold,lung\nHIV,blood\n")
    sql = "SELECT part, COUNT(*) AS n FROM release JOIN parts ON code = disease GROUP BY part ORDER BY part"
    found = answered(folder, sql, "--attach", f"parts={tmp_path / 'parts.csv'}")
    assert found["columns"] == ["part", "n", "n_se", "n_low", "n_high"]
    lung = answered(folder, "SELECT COUNT(*) FROM release WHERE disease IN ('flu', 'cold')")["rows"][0]
    assert found["rows"][1] == {"part": "lung", **lung}


@pytest.mark.parametrize("text", ["parts", "=file.csv", "parts="])
def test_attachment_without_a_name_or_a_file_is_refused(folder: Path, text: str) -> None:
    outcome = run("query", folder, "SELECT COUNT(*) FROM release", "--attach", text)
    assert "attach" in complaint(outcome)


def test_intervals_hold_together_on_request(folder: Path) -> None:
    sql = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"
    alone, together = answered(folder, sql), answered(folder, sql, "--simultaneous")
    assert together["method"] == f"{alone['method']}; all intervals hold simultaneously (Bonferroni over 4 numbers)"
    assert together["level"] == alone["level"] == 0.95
    for one, other in zip(alone["rows"], together["rows"], strict=True):
        assert (one["n"], one["n_se"]) == (other["n"], other["n_se"])
        assert other["n_low"] <= one["n_low"] <= one["n_high"] <= other["n_high"]
        assert other["n_high"] - other["n_low"] > one["n_high"] - one["n_low"]


def test_question_is_stopped_when_its_time_is_over(folder: Path) -> None:
    outcome = run("query", folder, "SELECT COUNT(*) FROM release", "--timeout", "0")
    assert "longer than 0 seconds" in complaint(outcome)


@pytest.mark.slow
def test_share_is_shown_with_as_many_digits_as_its_error_deserves(folder: Path) -> None:
    row = answered(folder, SHARE)["rows"][0]
    digits = 2 if row["share_se"] >= 0.1 else 3
    shown = succeed("query", folder, SHARE).words
    value, error, low, high = (f"{row[f'share{part}']:.{digits}f}" for part in ("", "_se", "_low", "_high"))
    assert f"{value} ± {error} [{low}, {high}]" in shown


def test_note_of_a_choice_by_estimates_is_told_to_machines(folder: Path) -> None:
    sql = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease ORDER BY n DESC LIMIT 1"
    assert answered(folder, sql)["note"].startswith("rows were selected or ordered by an estimate")


def test_number_that_cannot_be_given_is_null_with_a_note(folder: Path) -> None:
    found = answered(folder, "SELECT AVG(age) AS a FROM release WHERE age > 200 AND disease = 'flu'")
    assert found["columns"] == ["a", "a_se", "a_low", "a_high", "a_note"]
    (row,) = found["rows"]
    assert [row[name] for name in found["columns"][:4]] == [None] * 4
    assert row["a_note"] == "no record satisfies the condition"
