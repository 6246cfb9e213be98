"""Arguments in sentences of the library, and the keys of a request file that stand in their place."""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import Outcome, people, run, write_csv
from sfumato._publish.request_file import COLUMN_SECTIONS, COMMAND_KEYS, REQUEST_KEYS, RequestFile
from sfumato.cli.file_keys import USUAL_SECTIONS, name_keys

FILE = Path("request.toml")
REQUEST = """
nulls = "drop"
[table]
path = "people.csv"
[protection]
sensitive = "disease"
prior = "1/10"
posterior = "1/3"
"""


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("person=", "person in [columns]"),
        ("drop=['age', 'a,b']", 'drop = ["age", "a,b"] in [columns]'),
        ("compound=['a', 'b']", 'compound = ["a", "b"] in [columns]'),
        ("sensitive='COL'", 'add "COL" to sensitive in [protection]'),
        ("nulls='drop'", 'nulls = "drop"'),
        ("rows_per_person=3", "rows_per_person = 3 in [columns]"),
        ("rows_per_person=K", "rows_per_person = K in [columns]"),
        ("ranges=", "[ranges]"),
        ("ranges={'age': [0, 20]}", "age = [0, 20] in [ranges]"),
        ("ranges={'home town': ...}", '"home town" = ... in [ranges]'),
        ("ranges={'a': [0, 1], 'b': [2, 3]}", "the line a = [0, 1] and the line b = [2, 3] in [ranges]"),
        (
            "accept_disclosing={'a': 'REASON', 'b': 'REASON', 'c': 'REASON'}",
            'the line a = "REASON", the line b = "REASON" and the line c = "REASON" in [accept_disclosing]',
        ),
        ("publish_at={'code': 'chapter'}", 'code = "chapter" in [publish_at]'),
        ("domains={'code': Path('codes.txt')}", 'code = "codes.txt" in [domains]'),
        ("hierarchies={'code': Path('FILE')}", 'code = "FILE" in [hierarchies]'),
        ("force=True", "force = true in [output]"),
        ("form='bits'", 'subset_form = "bits" in [protection]'),
        ("master='local[2]'", 'spark_master = "local[2]" in [output]'),
        ("spec=BreachBound('1/10', '1/3')", 'the line prior = "1/10" and the line posterior = "1/3" in [protection]'),
        ("spec=BreachBound(...)", "prior with posterior in [protection]"),
        ("spec=Diversity(3)", "diversity = 3 in [protection]"),
        ("spec=Nothing(3)", "spec = Nothing(3) in [protection]"),
        ("attach={'a': Path('b')}", "--attach a=b"),
    ],
)
def test_argument_is_a_key(argument: str, key: str) -> None:
    file = RequestFile(FILE, sections={"sensitive": "protection", "nulls": ""})
    assert name_keys(f"Leave it out (`{argument}`), or not.", file) == f"Leave it out ({key}), or not."


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("drop=['age']", 'add "age" to drop in [columns]'),
        ("drop=['age', 'sex']", 'add "age", "sex" to drop in [columns], and remove "sex" from public'),
        ("identifier=['sex']", 'identifier = ["sex"] in [columns], and remove "sex" from public'),
        ("keep=['sex']", 'add "sex" to keep'),
        ("keep=['ward']", 'keep = ["ward"]'),
        ("text=['sex']", 'text = ["sex"] in [table]'),
        ("person='sex'", 'person = "sex" in [columns]'),
        ("ranges={'age': [0, 9]}", "age = [0, 9] in place of its present line in [ranges]"),
        ("ranges={'stay': [0, 9]}", "stay = [0, 9] in [ranges]"),
        ("domains={'age': Path('ages.txt')}", 'age = "ages.txt" in [domains]'),
        ("drop=", "drop in [columns]"),
    ],
)
def test_key_that_the_file_has_is_changed_and_not_written_twice(argument: str, key: str) -> None:
    settings = {
        "drop": ["name"],
        "public": ["sex"],
        "keep": ["ward"],
        "ranges": ["age=0,20"],
        "domain": ["age=ages.txt"],
    }
    settings["person"] = ["number"]
    places = {"drop": "columns", "public": "columns", "keep": "", "person": "columns"}
    assert name_keys(f"Leave out: `{argument}`.", RequestFile(FILE, settings, places)) == f"Leave out: {key}."


def test_neighbours_in_one_section_name_it_once() -> None:
    sentence = name_keys("Give `prior=` and `posterior=`, or `drop=['a']`.", RequestFile(FILE))
    assert sentence == 'Give prior and posterior in [protection], or drop = ["a"] in [columns].'


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        ("`prior='1/10'` `posterior='1/3'`", 'prior = "1/10" and the line posterior = "1/3" in [protection]'),
        ("`drop=['a']` `ranges={'b': [0, 1]}`", 'drop = ["a"] in [columns] and b = [0, 1] in [ranges]'),
    ],
)
def test_keys_side_by_side_are_lines_of_their_own(arguments: str, keys: str) -> None:
    assert name_keys(f"Give {arguments}.", RequestFile(FILE)) == f"Give {keys}."


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_any_name_can_be_pasted_into_the_file(names: list[str]) -> None:
    *_, line = name_keys(f"column {names[0]!r} is unique; leave it out: `drop={names!r}`", RequestFile(FILE)).partition(
        "it out: "
    )
    assert tomllib.loads(line.removesuffix(" in [columns]")) == {"drop": names}


@given(st.text())
def test_no_sentence_breaks_anything(text: str) -> None:
    name_keys(text, RequestFile(FILE))
    for name in ("drop", "ranges", "spec"):
        name_keys(f"`{name}={text}`", RequestFile(FILE))


def test_usual_sections_are_of_keys() -> None:
    keys = {*REQUEST_KEYS, *COMMAND_KEYS, *COLUMN_SECTIONS}
    assert {key for keys_of_section in USUAL_SECTIONS.values() for key in keys_of_section} <= keys


def list_stops(outcome: Outcome) -> list[Any]:
    """The decisions that a plan leaves open."""
    return [notice for notice in outcome.json["notices"] if notice["grade"] == "stop"]


def write_request(desk: Path, text: str = REQUEST, **columns: object) -> str:
    write_csv(desk / "people.csv", people(**columns))  # type: ignore[arg-type]
    (desk / "request.toml").write_text(text)
    return "request.toml"


@pytest.mark.parametrize("options", [[], ["--prior", "1/9"]], ids=["file", "file and options"])
def test_error_names_keys_of_the_file(desk: Path, options: list[str]) -> None:
    outcome = run("plan", write_request(desk, number=range(60)), *options, "--json")
    for message in (outcome.err, json.loads(outcome.out)["error"]["message"]):
        assert 'person = "number"' in " ".join(message.split())
        assert "--person" not in message
        assert "person='number'" not in message


def test_decision_about_many_columns_does_not_propose_another_request_file(desk: Path) -> None:
    others = {f"{letter}_code": ["a", "b", "c"] for letter in "abcdefghijk"}
    text = REQUEST.replace("[protection]", '[columns]\npublic = ["age", "sex"]\n[protection]')
    outcome = run("plan", write_request(desk, text, **others), "--json", is_decided=False)
    (stop,) = (stop for stop in list_stops(outcome) if stop["code"] == "columns-undecided")
    assert stop["numbers"] == {"columns": 11}
    assert "[columns]" in stop["ways_out"][0]
    assert "init" not in " ".join(stop["ways_out"])


@pytest.mark.slow
def test_changes_of_the_file_work_as_printed(desk: Path) -> None:
    lists = '[columns]\npublic = [\n"age", "sex", "copy", "twin"\n]\ndrop = ["name"]\n'
    reasons = "[protection]\naccept_unique = 'invented people'\naccept_uncovered = 'invented people'\n"
    text = REQUEST.replace("[protection]\n", lists + reasons)
    path = Path(write_request(desk, text, name=["n"] * 60, copy=people()["disease"], twin=people()["disease"]))
    looks_sensitive, discloses = list_stops(run("plan", path, "--json", is_decided=False))
    assert looks_sensitive["ways_out"] == discloses["ways_out"]
    drop, accept = discloses["ways_out"]
    assert drop == 'Leave out: add "copy", "twin" to drop in [columns], and remove "copy", "twin" from public.'
    lines = re.findall(r'the line (\w+ = "REASON")', accept)
    changed = text.replace('"name"', '"name", "copy", "twin"').replace(', "copy", "twin"\n]', "\n]")
    accepted = "\n".join([text, "[accept_disclosing]", *lines]).replace("REASON", "They are invented.")
    for content in (changed, accepted):
        path.write_text(content)
        assert list_stops(run("plan", path, "--json", is_decided=False)) == []


def test_notice_and_page_name_keys_of_the_file(desk: Path) -> None:
    outcome = run("plan", write_request(desk), "--json", "--report", "plan.html")
    key = 'disease = "FILE" in [domains]'
    assert key in " ".join(outcome.err.split())
    assert key in {n["code"]: n["sentence"] for n in json.loads(outcome.out)["notices"]}["domain-observed"]
    page = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", "", (desk / "plan.html").read_text())))
    assert key in page
    assert "--domain" not in page
    assert key in " ".join(run("plan", "request.toml").out.split())


def test_command_after_a_request_file_names_options_again(desk: Path) -> None:
    run("plan", write_request(desk))
    outcome = run("plan", "people.csv", "--sensitive", "disease", "--prior", "1/10", "--posterior", "1/3")
    assert "--domain disease=FILE" in " ".join(outcome.out.split())
