"""Stops of `publish`: what they find of a careless table, and ways out that work as they are printed."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import BOUND, complaint, list_stops, people, publishing, run, write_csv
from sfumato._commands.request_draft import quote_toml
from sfumato.cli.option_group import split_list
from situations import REASON

ROWS = 1200
DISEASES = ["flu", "HIV", "cold", "asthma", "gout", "lyme", "acne", "polio", "mumps", "rabies", "zika", "scurvy"]
OTHER_NAMES = ["alpha", "bravo", "charlie", "delta", "echo", "fox", "golf", "hotel", "india", "juliet", "kilo", "lima"]
ODD_NAMES = ["a=b", "a,b", "a*", 'a"b', "a'b", "a`b", "a\nb", "diag nosis\t2", "$HOME", "a\\b"]

CHANCE = random.Random(11)
HELD = [CHANCE.randrange(len(DISEASES)) for _ in range(ROWS)]
OTHER = [CHANCE.randrange(len(DISEASES)) for _ in range(ROWS)]


def write_people(**columns: Sequence[Any]) -> Path:
    """People whose public columns do not disclose the disease, besides these columns."""
    table = {
        "sex": [CHANCE.choice("FM") for _ in range(ROWS)],
        "region": [CHANCE.choice(["north", "south"]) for _ in range(ROWS)],
        "disease": [DISEASES[held] for held in HELD],
    }
    return write_csv(Path("people.csv"), {**table, **columns})


def find_stops(*options: str) -> dict[str, list[str]]:
    """The columns of each stop of a careless command, by its code."""
    found: dict[str, list[str]] = {}
    for stop in list_stops(*publishing("people.csv", *options)):
        found.setdefault(stop["code"], []).extend(stop["columns"])
    return found


@pytest.mark.parametrize(
    "column",
    [
        [int(held == 1) for held in HELD],
        ["yes" if held == 1 else "no" for held in HELD],
        ["true" if held == 1 else "false" for held in HELD],
        ["yes" if held == 1 and row % 2 else "no" for row, held in enumerate(HELD)],
        [100 + held for held in HELD],
        [OTHER_NAMES[held] for held in HELD],
        [OTHER_NAMES[held if row % 3 else OTHER[row]] for row, held in enumerate(HELD)],
    ],
    ids=["0/1 for one value", "yes/no", "true/false", "half of one value", "numbers", "other names", "two thirds"],
)
@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_column_that_gives_values_away_under_another_name_is_stopped(column: Sequence[Any]) -> None:
    write_people(q17=column)
    assert find_stops() == {"column-discloses": ["q17"]}
    assert find_stops("--drop", "region", "--mechanism", "uniform") == {"column-discloses": ["q17"]}


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_column_that_says_nothing_is_not_stopped() -> None:
    write_people(q17=[OTHER_NAMES[other] for other in OTHER], q18=["yes" if other == 1 else "no" for other in OTHER])
    outcome = run(*publishing("people.csv"))
    assert outcome.code == 0, outcome.err


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_weaker_guarantees_stop_at_a_column_for_one_value_too() -> None:
    write_people(q17=["yes" if held == 1 else "no" for held in HELD])
    asked = ("publish", "people.csv", "--out", "release", "--sensitive", "disease", "--mechanism", "anatomy")
    stops = list_stops(*asked, "--diversity", "4")
    assert [stop["columns"] for stop in stops if stop["code"] == "column-discloses"] == [["q17"]]


@pytest.mark.slow
@pytest.mark.parametrize("column", [[OTHER_NAMES[held] for held in HELD], [int(held == 1) for held in HELD]])
@pytest.mark.usefixtures("desk")
def test_column_that_gives_one_column_of_a_compound_away_is_stopped(column: Sequence[Any]) -> None:
    write_people(q17=column)
    for name, values in (("disease", DISEASES), ("region", ["north", "south"])):
        Path(f"{name}.txt").write_text("\n".join(values))
    domains = ("--domain", "disease=disease.txt", "--domain", "region=region.txt")
    stops = list_stops("publish", "people.csv", "--compound", "disease,region", *domains, *BOUND, "--out", "release")
    assert [(stop["code"], stop["columns"]) for stop in stops] == [("column-discloses", ["q17"])]


@pytest.mark.usefixtures("desk")
def test_acceptance_of_all_columns_at_once_is_refused() -> None:
    write_people()
    outcome = run(*publishing("people.csv", "--accept-disclosing", "*=fine", "--json"))
    complaint(outcome)
    assert outcome.json["error"]["code"] == "accepts-every-column"


@pytest.mark.parametrize("option", ["--accept-unique", "--accept-uncovered", "--accept-exposure"])
@pytest.mark.usefixtures("desk")
def test_placeholder_is_no_reason(option: str) -> None:
    write_people()
    outcome = run(*publishing("people.csv", option, "REASON", "--json"))
    complaint(outcome)
    assert outcome.json["error"]["code"] == "reason-missing"


@pytest.mark.usefixtures("desk")
def test_column_with_two_roles_beside_a_request_file_is_refused() -> None:
    write_people()
    Path("request.toml").write_text('path = "people.csv"\nsensitive = "disease"\npublic = ["sex", "region"]\n')
    asked = ("publish", "request.toml", *BOUND, "--out", "release")
    outcome = run(*asked, "--drop", "sex", "--public", "sex", "--json")
    complaint(outcome)
    assert outcome.json["error"]["code"] == "two-roles"
    assert run(*asked, "--drop", "sex").code == 0, "alone, it overrides the file"


# -------------------------------------------------------------------------------------------------- ways out as typed


def type_way_out(stop: dict[str, Any], option: str) -> list[str]:
    """The arguments that a way out tells to type, as bash reads them, with a reason."""
    (way,) = (way for way in stop["ways_out"] if f" {option} " in way)
    arguments = shlex.split(read_escapes(way.partition(": ")[2].removesuffix(".")))
    assert set(arguments[::2]) == {option}
    return [argument.replace("REASON", REASON) for argument in arguments]


def read_escapes(text: str) -> str:
    """A line in which quotes of bash for what cannot be printed are ordinary quotes."""
    return re.sub(
        r"\$'((?:[^'\\]|\\.)*)'",
        lambda match: shlex.quote(match[1].encode().decode("unicode_escape")),
        text,
    )


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--drop", "--public"])
@pytest.mark.usefixtures("desk")
def test_ways_out_of_columns_without_a_role_work_as_printed(option: str) -> None:
    write_people(**{name: [other % 2 for other in OTHER] for name in ODD_NAMES})
    asked = [*publishing("people.csv", "--public", "sex", "--public", "region", "--json")]
    outcome = run(*asked, is_decided=False)
    (stop,) = outcome.json["error"]["stops"]
    assert stop["columns"] == ODD_NAMES
    typed = type_way_out(stop, option)
    assert [name for text in typed[1::2] for name in split_list(text)] == ODD_NAMES
    outcome = run(*asked, *typed)
    codes = {found["code"] for found in outcome.json.get("error", {}).get("stops", ())}
    assert codes <= {"looks-sensitive"}, outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--drop", "--accept-disclosing"])
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.usefixtures("desk")
def test_ways_out_of_a_sensitive_column_work_as_printed(name: str, option: str) -> None:
    write_people(**{name: [DISEASES[other] for other in OTHER]})
    stops = list_stops(*publishing("people.csv"))
    assert [(stop["code"], stop["columns"]) for stop in stops] == [("looks-sensitive", [name])]
    outcome = run(*publishing("people.csv"), *type_way_out(stops[0], option))
    assert outcome.code == 0, outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.usefixtures("desk")
def test_decisions_about_an_odd_name_work_in_a_request_file(name: str) -> None:
    write_people(**{name: [DISEASES[other] for other in OTHER]})
    key, text = quote_toml(name), 'path = "people.csv"\nsensitive = "disease"\nprior = "1/10"\nposterior = "1/2"\n'
    text += f'out = "release"\npublic = ["sex", "region", {key}]\n[accept_disclosing]\n{key} = "{REASON}"\n'
    Path("request.toml").write_text(text, encoding="utf-8")
    outcome = run("publish", "request.toml", "--accept-unique", REASON, is_decided=False)
    assert outcome.code == 0, outcome.err
    accepted = json.loads(Path("release/datapackage.json").read_text())["sfumato"]["accepted"]
    assert accepted["disclosing"] == [{"column": name, "reason": REASON}]


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_stop_for_sixty_columns_stays_readable_and_a_program_reads_all_of_them() -> None:
    names = [f"{word}_{number}" for number in range(12) for word in ("diag", "income", "town", "shop", "river")]
    write_csv(Path("people.csv"), people(60, **{name: ["a", "b", "c"] for name in names}))
    asked = publishing("people.csv", "--json")
    outcome = run(*asked, is_decided=False)
    (stop,) = outcome.json["error"]["stops"]
    assert set(stop["columns"]) == {"age", "sex", *names}
    assert_readable(stop, outcome.err)
    assert "sfumato init" in stop["ways_out"][0]
    dropped = run(*asked, "--public", "town_1", *type_way_out(stop, "--drop")[-2:], is_decided=False)
    codes = {found["code"] for found in dropped.json.get("error", {}).get("stops", ())}
    assert "columns-undecided" not in codes
    stops = run(*asked).json["error"]["stops"]
    (stop,) = (stop for stop in stops if stop["code"] == "looks-sensitive")
    assert len(stop["columns"]) == 24
    assert_readable(stop, "")


def assert_readable(stop: dict[str, Any], printed: str) -> None:
    """Looks whether a stop names a few columns and no more."""
    for text in (stop["sentence"], *stop["ways_out"]):
        assert len(text) < 400
        assert len(re.findall(r"(?:diag|income|town|shop|river)_\d", text)) <= 10
    assert all(len(line) < 500 for line in printed.splitlines())
