"""Requests of a careless data steward, which an honest look at the table stops or warns about."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import complaint, list_stops, people, publishing, run, succeed, write_csv

ROWS = 240


@pytest.fixture
def table(desk: Path) -> Path:
    notes = [f"call back tel {number} about the bill" for number in range(ROWS // 2)]
    return write_csv(desk / "people.csv", people(ROWS, note=notes, patient=range(1000, 1000 + ROWS // 2)))


def refuse(table: Path, *options: str) -> tuple[str, dict[str, object]]:
    """The code and the fields of the error with which a command stops."""
    outcome = run("publish", table, "--out", "release", "--prior", "1/10", "--posterior", "1/2", *options, "--json")
    assert complaint(outcome)
    assert not Path("release").exists()
    error = outcome.json["error"]
    return error["code"], error["fields"]


def test_free_text_is_not_protected_by_listing_it(table: Path) -> None:
    code, fields = refuse(table, "--sensitive", "note", "--drop", "patient,disease")
    assert (code, fields["column"]) == ("free-text-undeclared", "note")


def test_statement_that_each_row_is_a_person_is_compared_with_a_dropped_number(table: Path) -> None:
    asked = ("--sensitive", "disease", "--drop", "note,patient")
    code, fields = refuse(table, *asked, "--each-row-is-a-person")
    assert (code, fields["column"], fields["repeated"]) == ("stated-persons-repeat", "patient", ROWS // 2)
    succeed("publish", table, "--out", "release", "--prior", "1/10", "--posterior", "1/2", *asked)


def test_bound_that_protects_little_is_a_warning(table: Path) -> None:
    asked = ("plan", table, "--sensitive", "disease", "--drop", "note,patient", "--prior", "1/10", "--json")
    warned = [notice["code"] for notice in succeed(*asked, "--posterior", "0.99").json["notices"]]
    assert "weak-bound" in warned
    assert "weak-bound" not in [notice["code"] for notice in succeed(*asked, "--posterior", "2/3").json["notices"]]


@pytest.mark.parametrize("reason", ["", " ", "x", "public"])
def test_reason_of_less_than_two_words_is_refused(table: Path, reason: str) -> None:
    asked = ("--sensitive", "disease", "--drop", "note,patient", f"--accept-disclosing=age={reason}")
    code, fields = refuse(table, *asked)
    assert (code, fields["argument"]) == ("reason-missing", "accept_disclosing")


def test_columns_dropped_by_a_star_do_not_hide_another_error(table: Path) -> None:
    code, _ = refuse(table, "--sensitive", "disease", "--drop", "*", "--mechanism", "nothing")
    assert code != "missing-column"


def test_missing_values_alone_do_not_count_as_covered(desk: Path) -> None:
    """Of 60 people 3 have no value; all others have one that is more frequent than the prior."""
    table = write_csv(desk / "people.csv", people(60, disease=["yes", "no", "no"] * 19 + [None] * 3))
    options = ("--public", "age,sex", "--accept-unique", "made up")
    assert "values-uncovered" in [stop["code"] for stop in list_stops(*publishing(table, *options), is_decided=False)]
