"""The report about a release: how it is asked for, what it refuses, and what it leaves behind."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from command_line import complaint, fail, people, publishing, run, succeed, write_csv
from releases import edit_manifest
from sfumato._risk.attackers import release_attacks
from sfumato._risk.attackers.self_test import SelfTest

pytestmark = pytest.mark.slow
QUESTIONS = {"sql": ["SELECT COUNT(*) FROM release WHERE disease = 'flu'", "SELECT nothing FROM release"]}


@pytest.fixture
def filed(desk: Path) -> tuple[str, ...]:
    """How to ask for a report about a release with its key; both lie on the desk."""
    write_csv(desk / "people.csv", people())
    succeed(*publishing(desk / "people.csv", out=desk / "own"), "--plan-file", "plan.json")
    return ("audit", "own", "--original", "people.csv", "--plan-file", "plan.json")


def test_report_is_a_private_page_and_json(desk: Path, filed: tuple[str, ...]) -> None:
    (desk / "context.toml").write_text("[decision]\nname = 'Ada'\nreview_by = 2027-01-01\n", encoding="utf-8")
    write_csv(desk / "questions.csv", QUESTIONS)
    (desk / "about.toml").write_text("title = 'Stays of 2025'\n[columns]\nage = 'Age in years'\n", encoding="utf-8")
    asked = (*filed, "--context", "context.toml", "--questions", "questions.csv", "--seed", "3")
    asked += ("--describe", "about.toml")
    outcome = succeed(*asked, "--out", "report.html")
    assert "intervals cover the truth" in outcome.words
    assert outcome.out.endswith("written to report.html (private)\n")
    page = desk / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text(encoding="utf-8")
    assert "PRIVATE: Evidence about a release" in text
    assert "Whether this is enough is up to Ada." in text
    assert "2027-01-01" in text
    assert "sfumato audit own --original people.csv" in text
    told = succeed(*asked, "--json").json
    assert told["format"] == 1
    assert told["context"]["decision"]["name"] == "Ada"
    assert told["description"]["title"] == "Stays of 2025"
    assert all(words in text for words in ("Stays of 2025", "Age in years", "--describe about.toml"))
    assert [len(each["rows"]) for each in told["questions"]] == [1, 0]
    assert told == succeed(*asked, "--json").json  # the seed repeats it
    assert succeed(*asked, "--out", "report.html", "--force", "--quiet").out == ""


def test_report_works_without_the_key(desk: Path, filed: tuple[str, ...]) -> None:
    told = succeed(*filed[:4], "--json").json
    assert told["audit"]["matched_by"] == "public columns and reference distribution"
    assert told["audit"]["attacks"]


def test_report_is_refused_before_anything_takes_long(desk: Path, filed: tuple[str, ...]) -> None:
    assert "name a file for the report" in fail(desk, *filed)
    assert "would lie in a release" in fail(desk, *filed, "--out", desk / "own" / "report.html")
    assert "ends in .html" in fail(desk, *filed, "--out", "report.pdf")
    assert "name that release with --second" in fail(desk, *filed, "--out", "r.html", "--second-plan-file", "plan.json")
    assert "must end in .csv, .jsonl, .sql" in fail(desk, *filed, "--out", "r.html", "--questions", "people.xls")
    (desk / "context.toml").write_text("[decision]\nverdict = 'fine'\n", encoding="utf-8")
    said = fail(desk, *filed, "--out", "r.html", "--context", "context.toml")
    assert said.startswith("'verdict' is not a key of [decision]; use one of: purpose")
    assert "--original" in fail(desk, "audit", "own", "--out", "r.html")


def test_table_that_has_changed_leaves_no_report(desk: Path, filed: tuple[str, ...]) -> None:
    table = people()
    write_csv(desk / "people.csv", {**table, "age": [99, *table["age"][1:]]})
    assert "or the table has changed since. Name the table" in fail(desk, *filed, "--out", "report.html")


def test_release_that_fails_a_check_is_reported_and_ends_with_1(desk: Path, filed: tuple[str, ...]) -> None:
    edit_manifest(desk / "own", lambda written: written["sfumato"].update(fit_to_publish=False))
    outcome = run(*filed, "--out", "report.html", "--quiet")
    assert "fails the check 'fitness'" in complaint(outcome, 1)
    text = (desk / "report.html").read_text(encoding="utf-8")
    assert "The request is not met." in text
    assert "drawn with a test key" in text


def test_missed_self_test_is_reported_and_ends_with_1(
    desk: Path, filed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = SelfTest("rows in the order of the table", 0.0, "")
    monkeypatch.setattr(release_attacks, "make_unshuffled_tests", lambda names, table: [missed])
    outcome = run(*filed, "--out", "report.html", "--quiet")
    assert "the audit fails its own 'self-test'" in complaint(outcome, 1)
    assert "The request is not met." in (desk / "report.html").read_text(encoding="utf-8")
