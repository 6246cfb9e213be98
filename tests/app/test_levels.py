"""Records of several levels on the command line: planned, published, verified and asked about."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_line import OPEN_BOUND, people, succeed, write_csv
from protected_tables import refused
from sfumato import Release

CODES = ("J10", "J45", "J00", "F32", "F41", "I10", "I21")
BOUND = ("--prior", "1/10", "--posterior", "1/3")
ROLES = (
    "--sensitive",
    "code",
    "--hierarchy",
    "code=codes.csv",
    "--accept-disclosing",
    "age=made up",
    "--accept-disclosing",
    "sex=made up",
)
SHARED = ("--levels", "code=0.8,chapter=0.2")


@pytest.fixture
def table(desk: Path) -> Path:
    """A table of people with codes, and a file of their chapters beside it."""
    lines = ["code,chapter", *(f"{code},{code[0]}" for code in CODES)]
    (desk / "codes.csv").write_text("\n".join([*lines, ""]))
    values = [code for number, code in enumerate(CODES) for _ in range(2 * (1 + number % 3))]
    columns = people(1200, code=values)
    return write_csv(desk / "people.csv", {name: each for name, each in columns.items() if name != "disease"})


def test_plan_shows_the_error_of_each_level_against_the_shares(table: Path) -> None:
    shown = succeed("plan", table, *ROLES, *BOUND, *SHARED).words
    assert "Protecting 'code' with levels (any-prior)" in shown
    assert "share above" in shown
    assert "20% (this plan)" in shown
    plan = succeed("plan", table, *ROLES, *BOUND, *SHARED, "--json").json
    assert [(each["name"], each["share"], each["groups"]) for each in plan["levels"]] == [
        ("code", "4/5", 7),
        ("chapter", "1/5", 3),
    ]
    assert [each["above"] for each in plan["errors"]] == ["0/1", "1/10", "1/5", "3/10", "1/2"]
    assert plan["reason"] == "levels is chosen, because its options were given."
    assert {"uniform", "subset"} <= {each["mechanism"] for each in plan["alternatives"]}


def test_plan_shows_levels_beside_what_it_takes_where_there_is_a_hierarchy(table: Path) -> None:
    plan = succeed("plan", table, *ROLES, *BOUND, "--records", "--json").json
    assert plan["mechanism"] in {"uniform", "subset"}
    assert "levels" in {each["mechanism"] for each in plan["alternatives"]}


@pytest.mark.slow
def test_values_and_groups_are_counted_from_one_release(table: Path) -> None:
    succeed("publish", table, *ROLES, *OPEN_BOUND, *SHARED, "--out", "release")
    assert pq.read_schema("release/data.parquet").names == ["age", "sex", "code", "code_level"]
    assert set(pq.read_table("release/data.parquet").column("code_level").to_pylist()) == {"code", "chapter"}
    release = Release.open("release")
    assert "code_level" not in release.manifest.public_columns
    rows = succeed("query", "release", "SELECT code.chapter, COUNT(*) FROM release GROUP BY ALL", "--json").json["rows"]
    chapters = {row["chapter"]: row["n"] for row in rows}
    codes = {code: release.count(code).value for code in CODES}
    assert chapters == pytest.approx(
        {chapter: sum(codes[code] for code in CODES if code[0] == chapter) for chapter in "JFI"}, rel=1e-9
    )
    assert sum(codes.values()) == pytest.approx(1200, rel=1e-9)
    assert succeed("verify", "release", "--original", table).code == 0


def test_request_file_takes_shares_too(desk: Path, table: Path) -> None:
    (desk / "request.toml").write_text(
        '[table]\npath = "people.csv"\n[columns]\nsensitive = ["code"]\n'
        '[accept_disclosing]\nage = "made up"\nsex = "made up"\n'
        '[hierarchies]\ncode = "codes.csv"\n'
        '[protection]\nprior = 0.1\nposterior = "1/3"\nimportance = "code=1,chapter=3"\n'
    )
    plan = succeed("plan", "request.toml", "--json").json
    assert plan["mechanism"] == "levels"
    assert sum(Fraction(each["share"]) for each in plan["levels"]) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--levels", "code=0.8,chapter=0.3"),
            "the shares of the levels must add up to 1, but 'code=0.8,chapter=0.3' ",
        ),
        (
            ("--levels", "chapter=1"),
            "the level 'code' has no records, so its values cannot be counted; give this level a share.",
        ),
        (("--levels", "code=0.5,block=0.5"), "--levels: there is no level 'block'; the hierarchy has code, chapter."),
        (("--importance", "code"), "'code' is not a level with a number; write, for example, --importance code="),
        (
            (*SHARED, "--importance", "code=1"),
            "--levels sets the shares and --importance computes them; give only one of ",
        ),
        (
            (*SHARED, "--mechanism", "subset"),
            "options of 'levels' were given, but the mechanism is 'subset'; remove",
        ),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(
    desk: Path, table: Path, options: tuple[str, ...], sentence: str
) -> None:
    assert refused(desk, "publish", table, *ROLES, *BOUND, *options, "--out", "release").startswith(sentence)


def test_without_a_hierarchy_the_sentence_names_what_is_missing(desk: Path, table: Path) -> None:
    roles = [word for word in ROLES if word not in ("--hierarchy", "code=codes.csv")]
    for options in (SHARED, ("--mechanism", "levels")):
        sentence = refused(desk, "publish", table, *roles, *BOUND, *options, "--out", "release")
        assert sentence.endswith("the values have no groups. Declare them with --hierarchy COL=FILE.")
