"""Releases of every mechanism: published, verified, asked, and counted again by somebody who knows nothing of us."""

from __future__ import annotations

import datetime
import functools
import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import TEST_KEY, run, succeed, write_csv, write_csv_rows, write_parquet
from protected_tables import (
    BOUND,
    DISEASES,
    FIRST,
    SMALL_DOMAIN,
    WAYS,
    bounds_file,
    counts_file,
    patients,
    readme_count,
    refused,
)
from sfumato import Release
from slow_counts import SlowRelease, Test, everything

PUBLIC = ["sex", "age", "ward"]
GROUPED = "SELECT disease, COUNT(*) FROM release GROUP BY disease"
every_way = pytest.mark.parametrize("way", WAYS)
every_form = pytest.mark.parametrize(
    "way", ["uniform", "subset as bits", "subset as lists", "small-domain", "fine-grain"]
)
cells_only = pytest.mark.parametrize("way", ["small-domain", "small-domain with shares"])


@dataclass(frozen=True)
class Made:
    """A release that nobody changes, and the table it was made from."""

    table: Path
    folder: Path
    said: dict[str, Any]

    @functools.cached_property
    def slow(self) -> SlowRelease:
        return SlowRelease(self.folder)

    def __call__(self, sql: str, method: str | None = None) -> list[dict[str, Any]]:
        """The rows of an answer."""
        return Release.open(self.folder).sql(sql, method=method).to_table()[1]


def publishing(table: Path, out: Path | str, way: str, *options: str) -> list[str]:
    return ["publish", str(table), "--out", str(out), "--sensitive", "disease", *WAYS[way], "--drop", "drug", *options]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Releases of all ways, each made once, when it is first asked for."""
    folder = tmp_path_factory.mktemp("mechanisms")
    table = write_parquet(folder / "patients.parquet", patients())

    @functools.cache
    def release(way: str) -> Made:
        out = folder / way
        return Made(table, out, succeed(*publishing(table, out, way, "--unsafe-test-key", TEST_KEY, "--json")).json)

    return release


@pytest.fixture
def made(releases: Callable[[str], Made], way: str) -> Made:
    """The release of the way that a test is about."""
    return releases(way)


def failed_checks(folder: Path, *options: str | Path) -> list[str]:
    found = json.loads(run("verify", folder, *options, "--json").out)
    return [check["name"] for check in found["checks"] if not check["passed"]]


def by_value(slow: SlowRelease, is_counted: Test = everything) -> dict[Any, float]:
    """The slow count of each value of a single column."""
    return {value: float(count) for (value,), count in slow.counts(is_counted).items()}


# ----------------------------------------------------------------------------------------------- published and verified


@pytest.mark.slow
@every_way
def test_release_of_a_known_key_fails_the_check_of_its_key_alone(made: Made) -> None:
    assert failed_checks(made.folder) == ["fitness"]
    assert failed_checks(made.folder, "--original", made.table) == ["fitness"]


@pytest.mark.slow
@every_way
def test_release_of_a_secret_key_passes_with_and_without_its_original(desk: Path, way: str) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    assert succeed(*publishing(table, "release", way, "--json")).json["fit_to_publish"]
    checks = succeed("verify", "release", "--original", table, "--json").json["checks"]
    assert [check["name"] for check in checks][-4:] == ["public columns", "order", "draws", "posteriors"]
    assert all(check["passed"] and check["detail"].endswith(".") for check in checks)
    assert succeed("verify", "release").err == ""


@every_way
def test_release_has_the_people_of_the_table_in_another_order(made: Made) -> None:
    original, slow = patients(), made.slow
    assert slow.public == PUBLIC
    before = list(zip(*(original[name] for name in PUBLIC), strict=True))
    after = [tuple(row[name] for name in PUBLIC) for row in slow.rows]
    assert Counter(before) == Counter(after)
    assert before != after


@every_way
def test_release_says_what_it_is_and_promises(made: Made, way: str) -> None:
    found = succeed("info", made.folder, "--json").json
    assert made.said == {**found, **{name: made.said[name] for name in ("path", "notices", "exposures", "uniqueness")}}
    mechanism = way.partition(" ")[0]
    assert (found["mechanism"], found["rows"], found["sensitive"]) == (mechanism, 600, "disease")
    own = {"small-domain": "marginal-prior", "fine-grain": "single-values", "harmonic": "single-values"}
    assert found["guarantee"] == own.get(mechanism, "any-prior")
    methods = {
        "uniform": ["closed", "shrunk"],
        "subset": ["closed", "shrunk"],
        "fine-grain": ["closed"],
        "small-domain": ["closed", "gls"],
    }
    assert found["methods"] == methods.get(mechanism, ["closed"])
    words = succeed("info", made.folder).words
    assert " ".join(found["statement"]["exact"].split()) in words
    assert "UNFIT TO PUBLISH" in words


@pytest.mark.slow
@pytest.mark.parametrize("way", ["subset as lists", "small-domain", "fine-grain"])
def test_release_in_one_file_answers_the_same(desk: Path, made: Made, way: str) -> None:
    succeed(*publishing(made.table, "release.zip", way, "--unsafe-test-key", TEST_KEY))
    rows = succeed("query", desk / "release.zip", GROUPED, "--json").json["rows"]
    assert rows == succeed("query", made.folder, GROUPED, "--json").json["rows"]
    assert failed_checks(desk / "release.zip", "--original", made.table) == ["fitness"]


# --------------------------------------------------------------------------------------------------------------- counts


CONDITIONS: Mapping[str, tuple[Test, Test]] = {
    "disease = 'Crohn''s' AND sex = 'F'": (lambda each: each["disease"] == "Crohn's", lambda row: row["sex"] == "F"),
    "disease IN ('flu', 'the \"blues\"', 'HIV') AND age > 30": (
        lambda each: each["disease"] in ("flu", 'the "blues"', "HIV"),
        lambda row: row["age"] > 30,
    ),
    "disease IS NULL AND ward IS NULL": (lambda each: each["disease"] is None, lambda row: row["ward"] is None),
    "NOT (disease = 'flu' OR disease LIKE '%m%') AND (ward <> 'north' OR age = 30)": (
        lambda each: each["disease"] not in (None, "flu", "asthma", "measles", "mumps"),
        lambda row: row["ward"] == "south" or row["age"] == 30,
    ),
    "disease = 'HIV' AND age = 99": (lambda each: each["disease"] == "HIV", lambda row: False),
}


@every_way
@pytest.mark.parametrize("condition", CONDITIONS)
def test_count_is_the_unbiased_one(made: Made, condition: str) -> None:
    (row,) = made(f"SELECT COUNT(*) FROM release WHERE {condition}")
    assert row["n"] == pytest.approx(float(made.slow.count(*CONDITIONS[condition])), abs=1e-6)
    assert row["n_low"] <= row["n_high"]
    assert (row["n_se"] > 0) == ("99" not in condition)


@every_way
@pytest.mark.parametrize("groups", [["ward", "disease"], ["disease", "sex", "ward"], ["ward"]], ids=str)
def test_counts_by_group_are_the_unbiased_ones(made: Made, groups: list[str]) -> None:
    names = ", ".join(groups)
    rows = made(f"SELECT {names}, COUNT(*) FROM release WHERE age < 50 GROUP BY {names}")
    public = [name for name in groups if name != "disease"]
    keys = {tuple(row[name] for name in public) for row in made.slow.rows}
    expected = {}
    for key in keys:
        wanted = dict(zip(public, key, strict=True))
        counts = by_value(
            made.slow, lambda row, wanted=wanted: row["age"] < 50 and all(row[name] == wanted[name] for name in wanted)
        )
        for disease, count in counts.items() if "disease" in groups else [(None, sum(counts.values()))]:
            expected[tuple(wanted.get(name, disease) for name in groups)] = count
    assert {tuple(row[name] for name in groups): row["n"] for row in rows} == pytest.approx(expected, abs=1e-6)
    assert len(rows) == len(expected)


@every_way
def test_values_of_a_release_add_up_to_its_rows(made: Made) -> None:
    release = Release.open(made.folder)
    found = {row["disease"]: row["n"].value for row in release.sql(GROUPED).rows}
    assert found == pytest.approx(by_value(made.slow), abs=1e-6)
    assert sum(found.values()) == pytest.approx(600)
    assert release.count().value == 600
    assert release.count(None).value == pytest.approx(found[None])
    assert release.count(where="disease = 'flu'").value == pytest.approx(found["flu"])


@every_way
def test_answer_for_machines_names_its_method(made: Made) -> None:
    found = succeed("query", made.folder, GROUPED, "--json", "--level", "0.9").json
    assert found["columns"][:5] == ["disease", "n", "n_se", "n_low", "n_high"]
    notes = {row.get("n_note") for row in found["rows"] if row["n"] < 0}
    assert notes <= {"below zero by chance"}
    assert (found["method"], found["level"]) == ("unbiased count, with an exact or a score confidence interval", 0.9)
    assert found["assumption"].startswith("none")
    assert {row["disease"]: row["n"] for row in found["rows"]} == pytest.approx(by_value(made.slow), abs=1e-6)


# --------------------------------------------------------------------------------------------------------------- readme


@every_way
def test_query_in_the_readme_of_a_release_counts_as_the_release_does(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.folder)
    assert readme_count(Path()) == pytest.approx(Release.open(Path()).count(FIRST).value, abs=1e-6)


@every_way
def test_command_in_the_readme_of_a_release_counts_the_same(made: Made) -> None:
    text = (made.folder / "README.md").read_text(encoding="utf-8")
    (line,) = [each for each in text.splitlines() if each.startswith("    sfumato query ")]
    program, command, place, sql = shlex.split(line)
    assert (program, command, place) == ("sfumato", "query", "THIS_DIRECTORY")
    (row,) = made(sql)
    assert row["n"] == pytest.approx(by_value(made.slow)[FIRST])


@every_way
def test_readme_of_a_release_holds_its_promise(made: Made) -> None:
    text = (made.folder / "README.md").read_text(encoding="utf-8")
    assert made.said["statement"]["exact"] in text
    assert f"mechanism `{made.said['mechanism']}`" in text
    assert "UNFIT TO PUBLISH" in text


@every_form
@pytest.mark.parametrize("name", ["order", "value", "cell", "with space", "x.y", 'a "b"'])
def test_query_in_the_readme_works_whatever_the_column_is_called(
    desk: Path, monkeypatch: pytest.MonkeyPatch, way: str, name: str
) -> None:
    table = write_parquet(desk / "t.parquet", {"sex": patients()["sex"], name: patients()["disease"]})
    succeed("publish", table, "--out", "release", "--sensitive", name, *WAYS[way])
    monkeypatch.chdir(desk / "release")
    assert readme_count(Path()) == pytest.approx(by_value(SlowRelease(Path()))[FIRST], abs=1e-6)


@pytest.mark.parametrize("name", ["value", "order", "with space"])
def test_command_in_the_readme_works_whatever_the_column_is_called(desk: Path, name: str) -> None:
    table = write_parquet(desk / "t.parquet", {"sex": patients()["sex"], name: patients()["disease"]})
    succeed("publish", table, "--out", "release", "--sensitive", name, *WAYS["uniform"])
    text = (desk / "release/README.md").read_text(encoding="utf-8")
    (line,) = [each for each in text.splitlines() if each.startswith("    sfumato query ")]
    assert succeed("query", "release", *shlex.split(line)[3:])


VALUES_OF_TYPE: Mapping[str, list[Any]] = {
    "integer": [7, -3, 2**40, 5, 11],
    "number": [0.5, -1.25, 1e22, 7.0, 11.0],
    "date": [datetime.date(2024, 1, day) for day in range(1, 6)],
    "datetime": [datetime.datetime(2024, 1, day, 12, 30) for day in range(1, 6)],
    "boolean": [True, False, None],
    "string": ["it's", 'a "b"', "", "\\", "x,y"],
}


@every_form
@pytest.mark.parametrize(
    "kind",
    list(VALUES_OF_TYPE),
)
def test_query_in_the_readme_works_whatever_the_type(
    desk: Path, monkeypatch: pytest.MonkeyPatch, kind: str, way: str
) -> None:
    values = VALUES_OF_TYPE[kind]
    held = [value for value in values for _ in range(900 // len(values))]
    table = write_parquet(desk / "t.parquet", {"sex": ["F", "M", "M"] * 300, "disease": held})
    asked = ("--tolerance", "5/2") if way == "fine-grain" else WAYS[way]
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *asked)
    monkeypatch.chdir(desk / "release")
    slow = SlowRelease(Path())
    example = next(value for (value,) in slow.domain if value is not None)
    assert readme_count(Path()) == pytest.approx(by_value(slow)[example], abs=1e-6)


# -------------------------------------------------------------------------------------------------------------- methods


@every_way
def test_default_method_is_the_closed_form(made: Made) -> None:
    assert made(GROUPED, "closed") == made(GROUPED)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fine-grain", "fine-grain for counts", "small-domain"])
def test_iterative_bayes_tells_that_it_is_biased_and_has_no_error(made: Made, way: str) -> None:
    asked = ("--as-published", way.removesuffix(" for counts"), "--method", "em")
    assert "biased" in succeed("query", made.folder, GROUPED, *asked).words
    rows = succeed("query", made.folder, GROUPED, *asked, "--json").json["rows"]
    assert all(row["n"] >= 0 for row in rows)
    assert all(row["n_se"] is row["n_low"] is row["n_high"] is None for row in rows)
    assert all(row["n_note"].startswith("biased, with unknown error") for row in rows)
    assert sum(row["n"] for row in rows) == pytest.approx(600)


WOMEN: list[tuple[str, Test]] = [("", everything), (" WHERE sex = 'F'", lambda row: row["sex"] == "F")]


@pytest.mark.parametrize("way", ["small-domain", "small-domain with shares", "uniform"])
@pytest.mark.parametrize(("where", "is_counted"), WOMEN, ids=["all", "some"])
def test_iterative_bayes_is_what_its_steps_lead_to(made: Made, where: str, is_counted: Test) -> None:
    rows = made(f"SELECT disease, COUNT(*) FROM release{where} GROUP BY disease", "em")
    expected = zip(made.slow.domain, made.slow.iterated(is_counted), strict=True)
    assert {row["disease"]: row["n"] for row in rows} == pytest.approx(
        {value: held for (value,), held in expected}, abs=1e-3
    )


@cells_only
@pytest.mark.parametrize(("where", "is_counted"), WOMEN, ids=["all", "some"])
def test_generalised_least_squares_weigh_all_cells(made: Made, where: str, is_counted: Test) -> None:
    rows = made(f"SELECT disease, COUNT(*) FROM release{where} GROUP BY disease", "gls")
    expected = zip(made.slow.domain, made.slow.least_squares(is_counted), strict=True)
    assert {row["disease"]: row["n"] for row in rows} == pytest.approx(
        {value: held for (value,), held in expected}, abs=1e-4
    )


@cells_only
def test_answer_over_all_cells_names_its_assumption(made: Made) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
    found = succeed("query", made.folder, sql, "--method", "gls", "--json").json
    assert found["method"] == "generalised least squares over all sub-tables, with a normal confidence interval"
    assert found["assumption"].startswith(
        "the records of a value that a condition selects are distributed over the sub-tables"
    )
    (row,) = found["rows"]
    assert row["n_note"].startswith("slightly biased")
    if all("counts" in cell for cell in SlowRelease(made.folder).design["cells"]):
        assert row["n_se"] > 0
        assert row["n_low"] <= row["n"] <= row["n_high"]
    else:
        assert (row["n_se"], row["n_low"], row["n_high"]) == (None, None, None)


@every_way
def test_method_that_a_release_does_not_have_is_refused_with_those_it_has(desk: Path, made: Made) -> None:
    methods = made.said["methods"]
    method = next(each for each in ("gls", "em", "magic") if each not in methods)
    sentence = refused(desk, "query", made.folder, GROUPED, "--method", method)
    assert sentence == (f"the method {method!r} is unknown for {made.said['mechanism']!r}; use {', '.join(methods)}.")


# ------------------------------------------------------------------------------------------------------- cells and sets


@cells_only
def test_counts_of_the_cells_are_published_only_where_they_were_asked_for(made: Made, way: str) -> None:
    design = made.said["design"]
    placed = Counter[Any]()
    for cell in design["cells"]:
        assert cell.keys() == {"places", "prior", "retention"} | ({"counts"} if "shares" in way else set())
        for place, count in zip(cell["places"], cell.get("counts", [0] * len(cell["places"])), strict=True):
            placed[design["domain"][place]] += count
    assert placed == (DISEASES if "shares" in way else dict.fromkeys(DISEASES, 0))


@cells_only
def test_rows_of_each_cell_are_as_many_as_were_planned(desk: Path, made: Made) -> None:
    file = counts_file(desk, {name or "": DISEASES[name] for name in made.said["design"]["domain"]})
    plan = succeed("plan", "--counts", file, *SMALL_DOMAIN, "--min-cell", "50", "--json").json
    rows = Counter(row["cell"] for row in made.slow.rows)
    assert len(rows) > 2
    assert sorted(rows.values()) == sorted(sum(cell["counts"]) for cell in plan["cells"])


def test_sets_have_one_size_and_hold_the_same_in_both_forms(releases: Callable[[str], Made]) -> None:
    bits, lists = (releases(f"subset as {form}") for form in ("bits", "lists"))
    members = [bits.slow.members(row) for row in bits.slow.rows]
    assert members == [lists.slow.members(row) for row in lists.slow.rows]
    assert {len(each) for each in members} == {bits.said["design"]["subset_size"]}


@pytest.mark.parametrize("way", ["uniform", "subset as bits", "fine-grain"])
def test_column_named_cell_stays_where_there_are_no_cells(desk: Path, way: str) -> None:
    table = write_parquet(desk / "patients.parquet", {**patients(), "cell": ["a", "b"] * 300})
    succeed(*publishing(table, "release", way))
    assert SlowRelease(desk / "release").public == [*PUBLIC, "cell"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cell", "CELL"])
def test_column_named_cell_gives_the_cells_another_name(desk: Path, name: str) -> None:
    table = write_parquet(desk / "patients.parquet", {**patients(), name: ["a", "b"] * 300})
    succeed(*publishing(table, "release", "small-domain"))
    slow = SlowRelease(desk / "release")
    assert slow.ours["cell_column"] == "cell_"
    assert slow.public == [*PUBLIC, name]
    assert Counter(row[name] for row in slow.rows) == {"a": 300, "b": 300}
    assert succeed("verify", "release", "--original", table).err == ""
    found = Release.open("release").count("flu", where=f"{name} = 'a'").value
    assert found == pytest.approx(by_value(slow, lambda row: row[name] == "a")["flu"])


@every_way
def test_cells_are_no_column_to_ask_about(desk: Path, made: Made) -> None:
    sentence = refused(desk, "query", made.folder, "SELECT cell, COUNT(*) FROM release GROUP BY cell")
    assert sentence == "the release has no column 'cell'; it has 'sex', 'age', 'ward', 'disease'."


# ----------------------------------------------------------------------------------------------------------- fine-grain


AMPLIFICATIONS = {"x1": ("2/5", "1/2"), "x2": ("1/4", "1/2"), "x3": ("2/21", "1/2"), "x4": ("1/19", "1/2")}
TIED = {**AMPLIFICATIONS, "x3": ("2/5", "1/2")}
"""Two values have the least amplification, so neither is ever kept."""


def bounded(desk: Path, bounds: Mapping[str, tuple[str, str]], *options: str) -> list[str | Path]:
    """The arguments that publish four values as frequent as each other under these bounds."""
    table = write_csv(desk / "t.csv", {"sex": ["F", "M"] * 400, "disease": [f"x{row % 4 + 1}" for row in range(800)]})
    file = bounds_file(desk, bounds)
    return [
        "publish",
        table,
        "--out",
        "release",
        "--sensitive",
        "disease",
        "--bounds",
        file,
        "--mechanism",
        "fine-grain",
        *options,
    ]


def test_values_that_nobody_could_tell_apart_are_refused(desk: Path) -> None:
    assert refused(desk, *bounded(desk, TIED)) == (
        "2 values would never be kept, so the counts of these values could not be distinguished; choose "
        "--objective aggregate, or relax a bound."
    )


def test_values_that_nobody_could_tell_apart_can_still_be_planned(desk: Path) -> None:
    file = counts_file(desk, dict.fromkeys(TIED, 200))
    outcome = succeed("plan", "--counts", file, "--bounds", bounds_file(desk, TIED), "--mechanism", "fine-grain")
    assert "counts cannot be estimated" in outcome.words
    assert any("never kept under the bounds" in notice and "'x1', 'x3'" in notice for notice in outcome.notices)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["upward", "both"])
def test_objective_for_counts_tells_all_values_apart(desk: Path, direction: str) -> None:
    succeed(*bounded(desk, TIED, "--objective", "aggregate", "--direction", direction))
    assert succeed("verify", "release", "--original", "t.csv").err == ""
    slow = SlowRelease(desk / "release")
    assert slow.design["direction"] == direction
    rows = succeed("query", "release", GROUPED, "--json").json["rows"]
    assert {row["disease"]: row["n"] for row in rows} == pytest.approx(by_value(slow))


def test_value_that_is_never_kept_is_what_the_others_leave(desk: Path) -> None:
    succeed(*bounded(desk, AMPLIFICATIONS))
    slow = SlowRelease(desk / "release")
    assert slow.design["retentions"] == ["0", "1/3", "1/3", "1/3"]
    rows = succeed("query", "release", GROUPED, "--json").json["rows"]
    assert {row["disease"]: row["n"] for row in rows} == pytest.approx(by_value(slow))
    assert sum(row["n"] for row in rows) == pytest.approx(800)


def test_both_directions_are_promised_and_verified(desk: Path) -> None:
    succeed(*bounded(desk, AMPLIFICATIONS, "--direction", "both", "--objective", "aggregate"))
    promise = succeed("info", "release", "--json").json["statement"]["exact"]
    assert "at least the second number stays at least the first" in promise
    checks = {each["name"]: each["detail"] for each in succeed("verify", "release", "--json").json["checks"]}
    assert checks["guarantee"] == (
        "for 4 values with a bound, no belief can go above the bound's posterior or below its prior."
    )


@pytest.mark.parametrize(
    ("values", "bounds", "priors"),
    [
        ([1, 2, 3, 4], {"1": ("1/4", "1/2"), "3": ("1/5", "1/2")}, ["1/4", None, "1/5", None]),
        (["a", "b", None, "c"], {"": ("1/4", "1/2"), "a": ("1/5", "1/2")}, ["1/5", None, None, "1/4"]),
        (
            [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)],
            {"2024-01-02": ("1/4", "1/2")},
            [None, "1/4", None, None],
        ),
    ],
    ids=["integers", "missing", "dates"],
)
def test_values_that_are_no_text_are_named_in_bounds_by_their_text(
    desk: Path, values: list[Any], bounds: dict[str, tuple[str, str]], priors: list[str | None]
) -> None:
    table = write_parquet(desk / "t.parquet", {"sex": ["F", "M", "M"] * 200, "disease": values * 150})
    file = bounds_file(desk, bounds)
    succeed("publish", table, "--out", "release", "--sensitive", "disease", "--bounds", file)
    assert SlowRelease(desk / "release").design["priors"] == priors


# ---------------------------------------------------------------------------------------------------- values nobody has


def declared(desk: Path, asked: tuple[str, ...]) -> list[str | Path]:
    """The arguments that publish a table whose declared domain begins with a value that nobody has."""
    table = write_parquet(desk / "patients.parquet", patients())
    write_csv_rows(desk / "domain.csv", [[value or ""] for value in ("absent", *DISEASES)])
    roles = ["--sensitive", "disease", "--drop", "drug", "--domain", "disease=domain.csv"]
    return ["publish", table, "--out", "release", *roles, *asked]


@pytest.mark.slow
@every_way
def test_value_that_nobody_has_is_counted_and_verified_as_the_others_are(desk: Path, way: str) -> None:
    succeed(*declared(desk, WAYS[way]))
    slow = SlowRelease(desk / "release")
    assert slow.domain[0] == ("absent",)
    rows = succeed("query", "release", GROUPED, "--json").json["rows"]
    assert {row["disease"]: row["n"] for row in rows} == pytest.approx(by_value(slow), abs=1e-6)
    assert succeed("verify", "release", "--original", "patients.parquet").err == ""


@pytest.mark.slow
def test_single_cell_without_a_value_that_nobody_has_passes_beside_its_original(desk: Path) -> None:
    succeed(*declared(desk, (*SMALL_DOMAIN, "--accept-marginal-prior=made up")))
    (cell,) = SlowRelease(desk / "release").design["cells"]
    assert 0 not in cell["places"]
    assert succeed("verify", "release", "--original", "patients.parquet").err == ""


@pytest.mark.parametrize("way", list(WAYS))
def test_query_in_the_readme_counts_a_value_that_a_record_can_show(
    desk: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The first value of the domain is one that nobody has: no cell has it, so small-domain counts another one."""
    succeed(*declared(desk, WAYS[way]))
    monkeypatch.chdir(desk / "release")
    slow = SlowRelease(Path())
    expected = by_value(slow)
    text = Path("README.md").read_text(encoding="utf-8")
    (example,) = [value for value in expected if f"w.value = '{value}'" in text]
    assert (example == "absent") == (slow.ours["mechanism"] != "small-domain")
    assert readme_count(Path()) == pytest.approx(expected[example], abs=1e-6)


def test_table_of_frequent_values_only_is_published_by_the_mechanisms_for_any_prior(desk: Path) -> None:
    table = write_csv(desk / "t.csv", {"sex": ["F", "M"] * 300, "disease": ["flu", "flu", "cold"] * 200})
    outcome = succeed("publish", table, "--out", "release", "--sensitive", "disease", "--prior", "1/10", *BOUND[2:])
    assert any(
        notice.startswith("warning: the limit of 2/3 on an attacker's confidence covers 0% of records")
        for notice in outcome.notices
    )
