"""The commands that look at any table: what they print, what they leave unsaid, and how they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import fail, people, publishing, run, succeed, write_csv, write_parquet
from sfumato._risk.lint.findings import FINDINGS, NOTES
from sfumato._risk.privacy_models.measure_table import MODELS
from sfumato._terminal_safe import UNPRINTABLE

VERDICT = re.compile("anonymous|anonymi[sz]ed|(is|are) safe|harmless|no risk", flags=re.IGNORECASE)
HOSTILE = "ward\x1b]0;owned\x07\u2066[red]"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_measures_are_printed_with_their_meaning_and_no_verdict(table: Path) -> None:
    outcome = succeed("measure", table, "--public", "sex", "--public", "age", "--sensitive", "disease")
    for model in MODELS:
        assert model.name.strip() in outcome.words
        assert f"Limitation: {model.limitation}" in outcome.words
    assert "smallest class 15 records" in outcome.words
    assert not VERDICT.search(outcome.words)
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_measures_are_told_to_machines(table: Path) -> None:
    told = succeed("measure", table, "--public", "age", "--sensitive", "disease", "--json").json
    (disease,) = told["sensitive"]
    assert (told["rows"], told["groups"], told["k_anonymity"], told["alone"]) == (60, 4, 15, 0)
    assert (disease["column"], disease["distinct_diversity"], disease["ordered_distance"]) == ("disease", 4, None)
    assert {each["value"]: each["cap"] for each in disease["caps"]}["flu"] == pytest.approx(2 / 5)
    assert {each["key"] for each in told["meanings"]} <= set(disease)


def test_infinite_numbers_are_told_as_such(desk: Path) -> None:
    write_csv(desk / "table.csv", {"q": ["x", "x", "y"], "s": ["a", "b", "a"]})
    assert "infinite" in succeed("measure", "table.csv", "--public", "q", "--sensitive", "s").words
    told = succeed("measure", "table.csv", "--public", "q", "--sensitive", "s", "--json").json
    assert told["sensitive"][0]["disclosure"] == "INF"


def test_other_sensitive_columns_may_be_known(desk: Path) -> None:
    write_csv(desk / "table.csv", {"q": list("xxxx"), "s": list("aabb"), "t": list("cdcd")})
    options = ["measure", "table.csv", "--public", "q", "--sensitive", "s", "--sensitive", "t", "--json"]
    alone, known = (succeed(*options, *more).json["sensitive"] for more in ([], ["--others-known"]))
    assert [each["k_anonymity"] for each in alone] == [4, 4]
    assert [each["k_anonymity"] for each in known] == [2, 2]


def test_lint_ends_with_one_where_something_is_found(desk: Path) -> None:
    write_csv(desk / "table.csv", {**people(), "Unnamed: 0": list(range(60))})
    outcome = run("lint", "table.csv")
    assert (outcome.code, outcome.err) == (1, "")
    assert "index-column: " in outcome.words
    assert "Remedy: drop it" in outcome.words
    told = run("lint", "table.csv", "--json")
    assert told.code == 1
    first = told.json["findings"][0]
    assert set(first) == {"code", "severity", "sentence", "remedy", "column", "file", "numbers"}
    assert told.json["tables"] == {"table.csv": 60}


@pytest.mark.slow
def test_lint_of_a_release_ends_with_zero_also_if_it_is_packed(table: Path, release: Path) -> None:
    outcome = succeed("lint", release)
    assert "no finding and no note" in outcome.words
    assert not VERDICT.search(outcome.words)
    succeed(*publishing(table, out="packed.zip"))
    assert succeed("lint", "packed.zip", "--json").json["findings"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["measure", "none.csv", "--public", "age"],
        ["measure", "people.csv"],
        ["measure", "people.csv", "--public", "nothing\x1b[1m"],
        ["lint", "none.csv"],
        ["lint", "."],
        ["lint", "broken.parquet"],
        ["lint", "people.csv", "--encoding", "none"],
    ],
    ids=" ".join,
)
@pytest.mark.light
def test_bad_input_is_one_sentence(desk: Path, table: Path, arguments: list[str]) -> None:
    table.rename(desk / "people.csv") if arguments[1] != "." else table.unlink()
    if arguments[1] == "broken.parquet":
        (desk / "broken.parquet").write_bytes(b"PAR1 and no more")
    fail(desk, *arguments)


def test_hostile_names_and_values_do_not_steer(desk: Path) -> None:
    columns = {**people(), HOSTILE: [f"\x1b[2J{row}" for row in range(60)]}
    write_parquet(desk / "table.parquet", columns)
    for command in (["lint", "table.parquet"], ["measure", "table.parquet", "--public", "age", "--sensitive", HOSTILE]):
        for more in ([], ["--json"]):
            outcome = run(*command, *more)
            assert "ward" in outcome.out
            assert not UNPRINTABLE.search(outcome.out.replace("\n", "")), command


def test_reference_names_every_code_and_number() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert [code for code in (*FINDINGS, *NOTES) if f"`{code}`" not in text] == []
    assert [model.key for model in MODELS if f"`{model.key}`" not in text] == []
