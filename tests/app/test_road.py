"""From a raw table to a sound release by the messages alone: every step is the way out that the one before it named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import Outcome, complaint, run, succeed
from sfumato._commands.demo import DIAGNOSES
from sfumato._request.warnings import NOTICE_CODES

ROWS = 3000
START = ("publish", "stays.csv", "--out", "release", "--sensitive", "diagnosis")
CODE_BOOK = "codes.txt"
RANGES = (
    *("--ranges", "age=18,60,100", "--ranges", "admitted=2023-01-01,2024-01-01,2025-01-01", "--ranges", "days=1,8,100"),
    *("--drop", "weight", "--drop", "left_for"),
)


@dataclass(frozen=True)
class Step:
    """What a refusal says, the words in which it names a way out, and the options that take it."""

    says: str
    names: str
    options: tuple[str, ...]


REFUSALS = (
    Step("no protection was chosen", "--prior 1/10 --posterior 1/3", ("--prior", "1/10", "--posterior", "1/3")),
    Step("'stay_id' is nearly unique", "--identifier stay_id", ("--identifier", "stay_id")),
    Step("'patient_nbr' is nearly unique", "--person patient_nbr", ("--person", "patient_nbr")),
    Step("persons have several rows", "--one-row first:COL", ("--one-row", "first:admitted")),
    Step("'postcode' is nearly unique", "--identifier postcode", ("--identifier", "postcode")),
    Step("guesses of 'diagnosis' from 'icd' are correct for 100.0%", "--drop icd", ("--drop", "icd")),
)
NOTICES = (
    Step("rows-chosen", "(--plan-file)", ("--plan-file", "plan.json")),
    Step("missing-marks", "(--missing '?')", ("--missing", "?")),
    Step("domain-observed", "(--domain diagnosis=FILE)", ("--domain", f"diagnosis={CODE_BOOK}")),
    Step("records-alone", "wider ranges (--ranges), or drop columns (--drop)", RANGES),
)
SOUND = {"rows-chosen", "mechanism-chosen", "frequent-values", "one-valued-groups"}
"""Rows are chosen, some diagnoses are frequent, and a few people are in small groups with one diagnosis."""
UNSOUND = [code for code in NOTICE_CODES if code not in SOUND]
"""What a release should not have that is called sound."""


@pytest.fixture
def raw(desk: Path) -> Path:
    """The raw table, and a list of the diagnoses that is not taken from it."""
    succeed("demo", "--raw", "stays.csv", "--rows", str(ROWS))
    (desk / CODE_BOOK).write_text("\n".join(["", *DIAGNOSES]) + "\n")
    return desk


def told(outcome: Outcome, code: str) -> str:
    """The sentence of a notice."""
    return str(next(each["sentence"] for each in outcome.json["notices"] if each["code"] == code))


@pytest.mark.slow
def test_refusals_lead_from_a_raw_table_to_a_sound_release(raw: Path) -> None:
    command: tuple[str, ...] = START
    for step in REFUSALS:
        refused = run(*command)
        assert complaint(refused)
        assert step.says in refused.err
        assert step.names in refused.err
        assert not Path("release").exists()
        command = (*command, *step.options)
    outcome = succeed(*command, "--json")
    for step in NOTICES:
        assert step.names in told(outcome, step.says)
        command = (*command, *step.options)
    found = succeed(*command, "--force", "--fail-on", ",".join(UNSOUND), "--json").json
    assert found["counted"] == "people"
    assert found["persons"]["one_row"] == "first:admitted"
    verified = succeed("verify", "release", "--original", "stays.csv", "--plan-file", "plan.json", "--json").json
    assert verified["passed"]
    assert "icd" not in found["public"]
    assert 0 < found["rows"] < ROWS


@pytest.mark.slow
def test_the_other_way_out_for_several_rows_is_sound_too(raw: Path) -> None:
    command = [*START, *(option for step in REFUSALS if "--one-row" not in step.options for option in step.options)]
    sentence = complaint(run(*command))
    assert "--rows-per-person K, and --surplus drop" in sentence
    command += ["--rows-per-person", "2"]
    sentence = complaint(run(*command))
    assert re.search(r"\d+ of [\d,]+ persons have more than 2 rows", sentence)
    found = succeed(*command, "--surplus", "drop", "--plan-file", "plan.json", "--json").json
    assert (found["counted"], found["design"]["rows_per_person"]) == ("rows", 2)
    assert found["persons"] == {"most": 2, "surplus": "drop", "one_row": None, "left_out": ROWS - found["rows"]}
    assert succeed("verify", "release", "--original", "stays.csv", "--plan-file", "plan.json", "--json").json["passed"]


@pytest.mark.slow
def test_identifier_instead_of_person_is_no_way_around(raw: Path) -> None:
    wrong = [*START, *REFUSALS[0].options, *REFUSALS[1].options, "--identifier", "patient_nbr"]
    sentence = complaint(run(*wrong))
    assert sentence.startswith("identifier 'patient_nbr' repeats (")
    assert "--person patient_nbr" in sentence
    assert "(--drop patient_nbr)" in sentence


@pytest.mark.slow
def test_request_file_leads_there_with_three_decisions(raw: Path) -> None:
    shown = succeed("init", "stays.csv", "--sensitive", "diagnosis")
    assert "then run: sfumato plan request.toml" in shown.out
    text = Path("request.toml").read_text()
    for guess in ('"stay_id"', '"icd"', 'person = "patient_nbr"', '# one_row = "first:admitted"', 'missing = ["?"]'):
        assert guess in text
    decided = text.replace('# one_row = "first:admitted"', 'one_row = "first:admitted"')
    assert 'prior = "1/10"' in text.splitlines()
    decided = decided.replace('# posterior = "1/3"', 'posterior = "1/3"')
    Path("request.toml").write_text(decided)
    succeed("plan", "request.toml")
    found = succeed("publish", "request.toml", "--out", "release", "--plan-file", "plan.json", "--json").json
    assert {"icd", "postcode", "stay_id", "patient_nbr"}.isdisjoint(found["public"])
    assert succeed("verify", "release", "--original", "stays.csv", "--plan-file", "plan.json", "--json").json["passed"]


def test_table_to_practise_on_replaces_nothing(desk: Path) -> None:
    Path("stays.csv").write_text("mine")
    assert "cannot be written to 'stays.csv'" in complaint(run("demo", "--raw", "stays.csv"))
    assert Path("stays.csv").read_text() == "mine"
    assert "give one of the two" in complaint(run("demo", "--raw", "other.csv", "--out", "folder"))


@pytest.mark.slow
def test_command_line_decides_again_what_the_file_had_decided(raw: Path) -> None:
    """Which rows of a person are published, and what a column is for, are one decision each, in whichever option."""
    succeed("init", "stays.csv", "--sensitive", "diagnosis")
    text = Path("request.toml").read_text().replace('# one_row = "random"', 'one_row = "random"')
    Path("request.toml").write_text(text)
    bound = ("--prior", "1/10", "--posterior", "1/3")
    several = succeed("plan", "request.toml", *bound, "--rows-per-person", "3", "--surplus", "drop", "--json").json
    assert "shared-bound" in [each["code"] for each in several["notices"]]
    # `icd` is in the file's list of what is dropped.
    sentence = complaint(run("plan", "request.toml", *bound, "--sensitive", "icd", "--person", "sex"))
    assert "cannot be both" not in sentence


@pytest.mark.slow
def test_coarser_form_of_the_sensitive_column_is_told_and_left_out_by_init(raw: Path) -> None:
    options = [option for step in REFUSALS[:5] for option in step.options]
    command = ("plan", "stays.csv", "--sensitive", "icd", *options, "--missing", "?", "--json")
    (notice,) = (each for each in succeed(*command).json["notices"] if each["code"] == "coarser-column")
    assert notice["column"] == "diagnosis"
    succeed("init", "stays.csv", "--sensitive", "icd")
    assert '"diagnosis",' in Path("request.toml").read_text().split("drop = [")[1].split("]")[0]
