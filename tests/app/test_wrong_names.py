"""A request that names the wrong table, column or file says that first, whatever else it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from command_line import BOUND, people, run, succeed, write_csv
from refusals import refuses
from sfumato import Request, plan
from sfumato.errors import SfumatoError, SpecError

COMMANDS = ("plan", "compare", "publish")


@pytest.fixture
def table(desk: Path) -> str:
    write_csv(desk / "people.csv", people())
    return "people.csv"


def get_error(*arguments: str) -> dict[str, Any]:
    """The error of a command in JSON, with its facts."""
    outcome = run(*arguments, "--json")
    assert outcome.code == 2, outcome.err
    error = outcome.json["error"]
    return {**error, **error["fields"]}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "column", "argument"),
    [
        (["--sensitive", "diseas"], "diseas", "--sensitive"),
        (["--sensitive", "disease", "--drop", "agee"], "agee", "--drop"),
        (["--sensitive", "disease", "--text", "agee"], "agee", "--text"),
        (["--compound", "disease,agee"], "agee", "--compound"),
        (["--sensitive", "disease", "--ranges", "agee=0,20"], "agee", "--ranges"),
        (["--sensitive", "disease", "--domain", "diseas=none.txt"], "diseas", "--domain"),
        (["--sensitive", "disease", "--hierarchy", "diseas=none.csv"], "diseas", "--hierarchy"),
        (["--sensitive", "disease", "--person", "sex", "--one-row", "first:agee"], "agee", "--one-row"),
        (["--drop", "agee"], "agee", "--drop"),
    ],
)
def test_wrong_column_comes_before_what_is_missing(
    table: str, command: str, options: list[str], column: str, argument: str
) -> None:
    error = get_error(command, table, *options)
    assert (error["code"], error["column"]) == ("missing-column", column)
    nearest = {"diseas": "disease", "agee": "age"}[column]
    assert f"did you mean {nearest!r}?" in error["message"]
    assert error["message"].endswith(f"Correct {argument}.")


def test_wrong_column_names_its_argument_in_a_complete_request_too(table: str) -> None:
    error = get_error("plan", table, "--sensitive", "diseas", *BOUND)
    assert error["message"].endswith("Correct --sensitive.")


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_table_comes_before_wrong_columns(desk: Path, command: str) -> None:
    error = get_error(command, "nobody.csv", "--sensitive", "diseas", "--domain", "disease=none.txt")
    assert error["kind"] == "source"
    assert "'nobody.csv'" in error["message"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--domain", "--hierarchy"])
def test_wrong_file_comes_before_what_is_missing(table: str, command: str, option: str) -> None:
    error = get_error(command, table, "--sensitive", "disease", option, "disease=none.txt")
    assert (error["code"], error["file"], error["column"]) == ("missing-file", "none.txt", "disease")
    assert error["message"].endswith(f"correct {option} disease=none.txt.")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_missing_comes_last(table: str, command: str) -> None:
    error = get_error(command, table, "--sensitive", "disease")
    assert error["kind"] == "spec"
    assert "--prior and --posterior" in error["message"]


def test_place_of_the_release_is_asked_for_after_all_names(table: str) -> None:
    assert get_error("publish", table, "--sensitive", "disease", *BOUND)["code"] == "no-target"
    succeed("publish", table, "--sensitive", "disease", *BOUND, "--out", "release")


def write_request(folder: Path, content: str) -> str:
    path = folder / "requests" / "request.toml"
    path.parent.mkdir()
    path.write_text(content)
    return "requests/request.toml"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "facts", "key"),
    [
        (
            '[table]\npath = "../people.csv"\n[columns]\nsensitive = "diseas"\n',
            {"code": "missing-column", "column": "diseas"},
            "sensitive in [columns]",
        ),
        (
            'drop = "agee"\n[table]\npath = "../people.csv"\n[columns]\nsensitive = "disease"\n',
            {"code": "missing-column", "column": "agee"},
            "Correct drop.",
        ),
        (
            '[table]\npath = "people.csv"\n[columns]\nsensitive = "diseas"\n',
            {"code": "missing-table", "table": "requests/people.csv"},
            "path in [table]",
        ),
        (
            '[table]\npath = "../people.csv"\n[columns]\nsensitive = "disease"\n[domains]\ndisease = "none.txt"\n',
            {"code": "missing-file", "file": "requests/none.txt"},
            'disease = "requests/none.txt" in [domains]',
        ),
        (
            '[table]\npath = "../people.csv"\n[columns]\nsensitive = "disease"\nnulls = "perhaps"\n',
            {"code": "wrong-value", "key": "nulls", "section": "columns"},
            "'perhaps'",
        ),
        (
            '[table]\npath = "../people.csv"\n[columns]\nsensitive = "disease"\n',
            {"kind": "spec"},
            "prior and posterior",
        ),
    ],
)
def test_request_file_names_its_section_and_key(
    desk: Path, command: str, content: str, facts: dict[str, str], key: str
) -> None:
    error = get_error(command, write_request(desk, content))
    assert facts.items() <= error.items()
    assert key in error["message"]
    assert "--" not in error["message"]


@pytest.mark.usefixtures("table")
def test_request_file_in_python_names_the_column_first(desk: Path) -> None:
    path = write_request(desk, '[table]\npath = "../people.csv"\n[columns]\nsensitive = "diseas"\n')
    with refuses(SfumatoError, "missing-column", column="diseas", argument="sensitive"):
        Request.from_file(path)


@pytest.mark.usefixtures("table")
def test_request_without_a_bound_is_refused_for_that_alone(desk: Path) -> None:
    path = write_request(desk, '[table]\npath = "../people.csv"\n[columns]\nsensitive = "disease"\n')
    with pytest.raises(SpecError, match="prior"):
        plan(Request.from_file(path))
