"""The second opinion on records of several levels: what is wrong with a release is noticed."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from command_line import run
from releases import edit_manifest, known_key
from sfumato import BreachBound, Hierarchy, Release, Request, Schema, publish
from sfumato._records import DATA_FILE
from sfumato._release.manifest import WEIGHTS
from sfumato._verify.distributions import find_distribution
from sfumato._verify.distributions.levels_verifier import REFERENCE_DISTRIBUTION, read_distributions
from sfumato.mechanisms._subset_selection import levels
from tampering import Design, edit_design, failed, failed_alone, rewrite, with_cell, with_column

PATHS = [
    (f"{part}{block}{code}", f"{part}{block}", part)
    for part, block, codes in (("A", 0, 3), ("A", 1, 1), ("B", 0, 2), ("B", 1, 4))
    for code in range(codes)
]
HIERARCHY = Hierarchy.of(("code", "block", "part"), PATHS)
WAYS = {
    "two levels": "code=1/2,block=1/2",
    "three levels": "code=1/2,block=1/4,part=1/4",
}
every_way = pytest.mark.parametrize("way", WAYS)
ROWS = 4000


def original(rows: int = ROWS) -> pa.Table:
    """Every record has a number of its own, so that it can be found again; the fourth value is frequent."""
    codes = [PATHS[3 if number % 3 == 0 else number * 7 % 10][0] for number in range(rows)]
    return pa.table({"number": range(rows), "sex": ["FM"[number // 5 % 2] for number in range(rows)], "code": codes})


def request_for(table: pa.Table, way: str, **more: Any) -> Request:
    schema = Schema.of("code", keep=["number"], hierarchies={"code": HIERARCHY}, **more, public="*")
    options = {"levels": levels.Options(WAYS[way])}
    telling = ("number",)
    return Request(
        table,
        schema=schema,
        spec=BreachBound("1/3", "2/3"),
        options=options,
        accept_disclosing=give_reasons(telling),
        **ALL_ACCEPTED,
    )


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Releases that nobody changes, each made once."""
    place = tmp_path_factory.mktemp("levels")

    @functools.cache
    def release(way: str) -> Path:
        made = publish(request_for(original(), way), place / way, on_notice=lambda notice: None)
        assert made.release.manifest.mechanism_name == "levels"
        return made.release.folder

    return release


@pytest.fixture
def folder(releases: Callable[[str], Path], way: str, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(releases(way), tmp_path / "release"))


two_levels = pytest.mark.parametrize("way", ["two levels"])


@pytest.mark.slow
@every_way
def test_a_release_as_it_was_is_right(folder: Path) -> None:
    rewrite(folder, DATA_FILE, lambda table: table)
    rewrite(folder, WEIGHTS, lambda table: table)
    assert failed(folder, original()) == []


# -------------------------------------------------------------------------------------------------------------- promise


@every_way
@pytest.mark.parametrize("level", [0, 1])
def test_a_chance_above_the_promise_is_noticed(folder: Path, level: int) -> None:
    def change(design: Design) -> None:
        mine = design["levels"][level]
        mine["hold_probability"] = str(Fraction(mine["hold_probability"]) + Fraction(1, 10**9))

    edit_design(folder, change)
    assert "guarantee" in failed_alone(folder)


def test_the_promise_is_that_of_every_pair_of_values_and_everything_shown(releases: Callable[[str], Path]) -> None:
    """All outcomes of the published law, by its definition."""
    design = Release.open(releases("three levels")).manifest.design.to_json()
    worst = Fraction(0)
    for number, law in enumerate(read_distributions(design)):
        mine, size = design["levels"][number], law.sets.domain_size
        sets = list(combinations(range(size), mine["subset_size"]))
        hold = Fraction(mine["hold_probability"])
        holding = [sum(group in each for each in sets) for group in range(size)]
        chances = {
            (group, each): Fraction(mine["share"])
            * (hold / holding[group] if group in each else (1 - hold) / (len(sets) - holding[group]))
            for group in range(size)
            for each in sets
        }
        assert sum(chances.values()) == size * Fraction(mine["share"])
        worst = max(
            worst, *(max(chances[g, s] for g in range(size)) / min(chances[g, s] for g in range(size)) for s in sets)
        )
    assert worst == BreachBound("1/3", "2/3").amplification
    assert worst == max(law.sets.amplification for law in read_distributions(design))


@two_levels
@pytest.mark.parametrize(
    "change",
    [
        lambda hierarchy: hierarchy.update(levels=["code", "chapter", "part"]),
        lambda hierarchy: hierarchy.update(levels=["value", "block", "part"]),
        lambda hierarchy: hierarchy["paths"][0].__setitem__(1, hierarchy["paths"][3][1]),
    ],
    ids=["name of a level", "name of the values", "group"],
)
def test_hierarchy_that_is_not_the_design_s_is_noticed(folder: Path, change: Callable[[Any], Any]) -> None:
    """Questions are asked by the hierarchy, and records are drawn by the design."""
    edit_manifest(folder, lambda written: change(written["sfumato"]["hierarchies"]["code"]))
    assert failed(folder) == ["domain"]


@two_levels
@pytest.mark.parametrize(
    "change",
    [
        lambda design: design["levels"][1].update(share="1/3"),
        lambda design: design["levels"][1].update(says=["1/2", "1/3"]),
        lambda design: design["levels"][1].update(says=["1"]),
        lambda design: design["levels"][1]["groups"].pop(),
        lambda design: design["levels"][1]["groups"].__setitem__(0, 9),
        lambda design: design["levels"][1].update(subset_size=0),
        lambda design: design["levels"][0].update(hold_probability="1"),
        lambda design: design["levels"].append({**design["levels"][1], "says": ["0", "1", "0"]}),
        lambda design: design.update(levels=[]),
    ],
)
def test_design_that_is_none_is_refused(folder: Path, change: Callable[[Design], Any]) -> None:
    edit_design(folder, change)
    outcome = run("verify", folder)
    assert outcome.code != 0
    assert outcome.err.startswith("error: ")


# --------------------------------------------------------------------------------------------------------------- domain


@two_levels
@pytest.mark.parametrize(
    ("level", "held"),
    [
        ("block", b"\xc0\x00"),
        ("block", b"\xf0\x00"),
        ("code", b"\x00\x00"),
        ("code", b"\xff\xc0"),
        ("code", b"\x80\x01"),
        ("part", b"\xf0\x00"),
    ],
    ids=["half a group", "too many groups", "no value", "all values", "a bit of no value", "another level"],
)
def test_a_set_that_no_record_of_its_level_shows_is_noticed(folder: Path, level: str, held: bytes) -> None:
    def change(table: pa.Table) -> pa.Table:
        row = table.column("code_level").to_pylist().index("block" if level == "block" else "code")
        plain = table.set_column(3, table.schema.field(3), table.column(3))
        return with_cell(with_cell(plain, "code", row, held), "code_level", row, level)

    rewrite(folder, DATA_FILE, change)
    assert failed(folder) == ["domain"]


@pytest.mark.slow
@two_levels
def test_a_release_that_shows_half_a_group_answers_nothing(folder: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        row = table.column("code_level").to_pylist().index("block")
        return with_cell(table, "code", row, b"\xc0\x00")

    rewrite(folder, DATA_FILE, change)
    for sql in ("SELECT COUNT(*) FROM release WHERE code = 'A00'", "SELECT sex, AVG(code = 'A00') FROM release"):
        assert run("query", folder, sql).code != 0


# -------------------------------------------------------------------------------------------------------------- weights


@every_way
@pytest.mark.parametrize("name", ["if_equal", "otherwise", "per_sibling"])
def test_another_weight_is_noticed(folder: Path, name: str) -> None:
    rewrite(folder, WEIGHTS, lambda table: with_cell(table, name, 0, table.column(name)[0].as_py() + 1e-6))
    assert failed(folder) == ["weights"]


@every_way
@pytest.mark.parametrize(
    ("name", "value"), [("level", "part"), ("value", "B13"), ("place", 5), ("siblings", b"\xff\xc0")]
)
def test_a_weight_of_something_else_is_noticed(folder: Path, name: str, value: Any) -> None:
    rewrite(folder, WEIGHTS, lambda table: with_cell(table, name, 0, value))
    assert failed(folder) == ["weights"]


@pytest.mark.slow
@every_way
def test_weights_by_plain_sql_are_the_counts_of_the_release(releases: Callable[[str], Path], way: str) -> None:
    """The query of the README, for every value; groups are sums, and all values are the rows."""
    folder = releases(way)
    release, lines = Release.open(folder), (folder / "README.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("    SELECT COALESCE"))
    sql = " ".join(lines[start : start + 3])
    sql = sql.replace("'data.parquet'", f"'{folder / DATA_FILE}'").replace("'weights.parquet'", f"'{folder / WEIGHTS}'")
    assert "w.value = 'A00'" in sql
    found = {path[0]: duckdb.sql(sql.replace("'A00'", f"'{path[0]}'")).fetchall()[0][0] for path in PATHS}
    for value, count in found.items():
        assert count == pytest.approx(release.count(value).value, abs=1e-6)
    assert sum(found.values()) == pytest.approx(ROWS, abs=1e-6)
    block = [path[0] for path in PATHS if path[1] == "B1"]
    asked = release.count(where=f"code IN ({', '.join(map(repr, block))})")
    assert sum(found[value] for value in block) == pytest.approx(asked.value, abs=1e-6)


# ---------------------------------------------------------------------------------------------------------------- draws


@pytest.mark.slow
@two_levels
@pytest.mark.parametrize("wrong", ["levels by the value", "all at one level", "own group always held"])
def test_records_that_were_not_drawn_as_the_design_says_are_noticed(folder: Path, wrong: str) -> None:
    true = {row["number"]: row["code"] for row in original().to_pylist()}
    places = {path[0]: place for place, path in enumerate(PATHS)}
    group = HIERARCHY.list_group_places(1)

    def change(table: pa.Table) -> pa.Table:
        held, named = table.column("code").to_pylist(), table.column("code_level").to_pylist()
        numbers = table.column("number").to_pylist()
        for row, number in enumerate(numbers):
            place = places[true[number]]
            if wrong == "own group always held":
                if named[row] == "block":
                    held[row] = np.packbits([each == group[place] for each in group]).tobytes()
                continue
            is_code = place == 3 if wrong == "levels by the value" else False
            if is_code == (named[row] == "code"):
                continue
            other = next(at for at, name in enumerate(named) if name == ("code" if is_code else "block") and at != row)
            held[row], named[row] = held[other], named[other]
        return with_column(with_column(table, "code", held), "code_level", named)

    rewrite(folder, DATA_FILE, change)
    assert failed(folder, original()) == ["draws"]


def test_the_law_is_registered() -> None:
    assert find_distribution("levels") is REFERENCE_DISTRIBUTION


# ----------------------------------------------------------------------------------------------------- names of columns


@pytest.mark.slow
def test_the_column_of_levels_makes_way_for_one_of_its_name(tmp_path: Path) -> None:
    table = original(400).append_column("Code_Level", pa.array(["x", "y"] * 200))
    made = publish(request_for(table, "two levels"), tmp_path / "release", unsafe_test_key=known_key(1))
    assert made.release.manifest.cell_column == "code_level_"
    assert failed(made.release.folder, table) == ["fitness"]
    parts = [made.release.count("A00", where=f'"Code_Level" = {value}').value for value in ("'x'", "'y'")]
    assert sum(parts) == pytest.approx(made.release.count("A00").value)
