"""Releases of buckets: requested, published, verified, asked, edited by a stranger, and refused where they must be."""

from __future__ import annotations

import functools
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import TEST_KEY, content, run, succeed, write_csv_rows, write_parquet
from protected_tables import DISEASES, FIRST, counts_file, patients, readme_count, refused, write_domains
from releases import edit_manifest
from sfumato import CountQuery, Histogram, LinearCap, Release, choose
from sfumato._core.random_draws import Draws
from sfumato._request.belief_bounds import PrivacySpec
from sfumato.mechanisms._bucketization import buckets
from tampering import failed, failed_alone, rewrite, with_cell, with_column

RECORDS, BUCKETS = "qit.parquet", "st.parquet"
PUBLIC = ["sex", "age", "ward"]
CAPS = {"flu": "1/2", "HIV": "1/5", "mumps": "1/20", "": "1/10", "cold": "0.5"}

Row = Mapping[str, Any]


def caps_file(folder: Path, caps: Mapping[str, str]) -> list[str]:
    """Write a file of caps; the options that name it."""
    write_csv_rows(folder / "caps.csv", [["value", "cap"], *caps.items()])
    return ["--caps", str(folder / "caps.csv")]


LINEAR = ("--cap-factor", "3/2", "--cap-offset", "1/20")
WAYS: Mapping[str, tuple[str, ...]] = {
    "caps": ("--caps", "caps.csv"),
    "linear caps": LINEAR,
    "equal caps": ("--cap-offset", "1/3"),
    "one size": (*LINEAR, "--as-published", "one-size-buckets", "--min-bucket", "2"),
    "two sizes": (*LINEAR, "--as-published", "two-size-buckets", "--min-bucket", "2"),
    "several sizes": (*LINEAR, "--as-published", "buckets", "--min-bucket", "2"),
    "least loss": (*LINEAR, "--sizes", "optimal"),
    "small buckets": (*LINEAR, "--sizes", "optimal", "--min-bucket", "10", "--max-bucket", "20"),
    "dealt in turn": (*LINEAR, "--max-bucket", "40", "--as-published", "buckets"),
    "diversity": ("--diversity", "3"),
}
every_way = pytest.mark.parametrize("way", WAYS)
few_ways = pytest.mark.parametrize("way", ["caps", "linear caps", "diversity"])


def publishing(table: Path | str, *options: str | Path, out: Path | str = "release") -> list[str | Path]:
    return ["publish", table, "--out", out, "--sensitive", "disease", "--drop", "drug", *options]


class Made:
    """A release that nobody changes, and the table it was made from."""

    def __init__(self, table: Path, folder: Path) -> None:
        self.table, self.folder = table, folder
        self.records: list[Row] = pq.read_table(folder / RECORDS).to_pylist()
        self.lines: list[Row] = pq.read_table(folder / BUCKETS).to_pylist()
        self.sizes = Counter(row["bucket"] for row in self.records)

    def uniform(self, value: Any, is_counted: Callable[[Row], bool] = lambda row: True) -> float:
        """The plain estimate from its definition: a record counts for its bucket's share of the value."""
        held: Counter[int] = Counter()
        for line in self.lines:
            held[line["bucket"]] += line["count"] * (line["disease"] == value)
        rows = [row["bucket"] for row in self.records if is_counted(row)]
        return float(sum(Fraction(held[bucket], self.sizes[bucket]) for bucket in rows))


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Releases of all ways, each made once."""
    folder = tmp_path_factory.mktemp("buckets")
    table = write_parquet(folder / "patients.parquet", patients())
    caps_file(folder, CAPS)

    @functools.cache
    def release(way: str) -> Made:
        options = [str(folder / each) if each == "caps.csv" else each for each in WAYS[way]]
        succeed(*publishing(table, *options, out=folder / way))
        return Made(table, folder / way)

    return release


@pytest.fixture
def made(releases: Callable[[str], Made], way: str) -> Made:
    return releases(way)


# ---------------------------------------------------------------------------------------------- published and verified


@pytest.mark.slow
@every_way
def test_release_passes_with_and_without_its_original(made: Made) -> None:
    checks = succeed("verify", made.folder, "--original", made.table, "--json").json["checks"]
    assert [check["name"] for check in checks][-4:] == ["public columns", "order", "draws", "posteriors"]
    assert all(check["passed"] and check["detail"].endswith(".") for check in checks)
    assert succeed("verify", made.folder).err == ""


@every_way
def test_public_columns_are_those_of_the_table_in_another_order(made: Made) -> None:
    original = patients()
    before = list(zip(*(original[name] for name in PUBLIC), strict=True))
    after = [tuple(row[name] for name in PUBLIC) for row in made.records]
    assert list(made.records[0]) == [*PUBLIC, "bucket"]
    assert Counter(before) == Counter(after)
    assert before != after


@every_way
def test_buckets_have_as_many_values_as_records_and_together_those_of_the_table(made: Made) -> None:
    assert list(made.lines[0]) == ["bucket", "disease", "count"]
    held: Counter[int] = Counter()
    values: Counter[Any] = Counter()
    for line in made.lines:
        held[line["bucket"]] += line["count"]
        values[line["disease"]] += line["count"]
    assert held == made.sizes
    assert values == Counter(DISEASES)
    assert sorted(made.sizes) == list(range(len(made.sizes)))


def caps_of(way: str) -> Callable[[Any], Fraction]:
    if way == "caps":
        return lambda value: Fraction(CAPS.get(value or "", "1"))
    if way in ("diversity", "equal caps"):
        return lambda value: Fraction(1, 3)
    return lambda value: Fraction(3, 2) * Fraction(DISEASES[value], 600) + Fraction(1, 20)


@every_way
def test_no_value_is_above_its_cap_in_any_bucket(made: Made, way: str) -> None:
    cap = caps_of(way)
    assert all(line["count"] <= cap(line["disease"]) * made.sizes[line["bucket"]] for line in made.lines)


@pytest.mark.slow
def test_sizes_are_within_what_was_asked_for(releases: Callable[[str], Made]) -> None:
    sizes = {way: set(releases(way).sizes.values()) for way in WAYS}
    assert len(sizes["one size"]) == 1
    assert len(sizes["two sizes"]) <= 2
    assert sizes["small buckets"] <= set(range(10, 21))
    assert sizes["dealt in turn"] <= set(range(2, 41))
    assert min(sizes["diversity"]) >= 3
    assert all(line["count"] == 1 for line in releases("diversity").lines)


@pytest.mark.slow
def test_the_optimum_costs_no_more_than_the_heuristics(releases: Callable[[str], Made]) -> None:
    loss = {way: sum((size - 1) ** 2 for size in releases(way).sizes.values()) for way in WAYS}
    assert loss["least loss"] <= loss["several sizes"] <= loss["one size"]
    assert loss["least loss"] <= loss["two sizes"] <= loss["one size"]
    assert loss["least loss"] <= loss["linear caps"]


@few_ways
def test_lines_stand_in_the_order_of_buckets_and_of_the_domain(made: Made) -> None:
    domain = list(Release.open(made.folder).manifest.domain)
    keys = [(line["bucket"], domain.index(line["disease"])) for line in made.lines]
    assert keys == sorted(set(keys))


@pytest.mark.slow
@few_ways
def test_a_plan_file_repeats_the_release_byte_by_byte(desk: Path, way: str) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    caps_file(desk, CAPS)
    for out in ("first", "second"):
        succeed(*publishing(table, *WAYS[way], "--plan-file", "plan.json", out=out))
    succeed(*publishing(table, *WAYS[way], out="third"))
    assert content(desk / "first") == content(desk / "second")
    assert (desk / "first" / RECORDS).read_bytes() != (desk / "third" / RECORDS).read_bytes()


# --------------------------------------------------------------------------------------------------- info and questions


@pytest.mark.slow
@pytest.mark.parametrize("out", ["release", "release.zip"])
def test_a_release_of_buckets_is_replaced_by_force(desk: Path, out: str) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    for _ in range(2):
        succeed(*publishing(table, "--diversity", "2", "--force", out=out))
    assert {path.name for path in desk.iterdir()} == {table.name, out}


@few_ways
def test_info_tells_what_is_promised_and_how_to_count(made: Made, way: str) -> None:
    told = succeed("info", made.folder, "--json").json
    assert told["mechanism"] == ("anatomy" if way == "diversity" else "buckets")
    assert "bucket" in told["statement"]["exact"]
    assert "the largest share of a bucket" in told["statement"]["exact"]
    shown = succeed("info", made.folder).words
    assert "Estimators: inverse, shrunk, uniform" in shown
    assert ("not protected" in shown) == (way == "caps")


@every_way
def test_counts_of_values_alone_are_exact(made: Made) -> None:
    for method in ("inverse", "uniform"):
        rows = Release.open(made.folder).sql(
            "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease", method=method
        )
        found = {row["disease"]: (row["n_low"], row["n_high"]) for row in rows.to_table()[1]}
        assert found == {value: (count, count) for value, count in DISEASES.items()}


@few_ways
def test_the_plain_estimate_is_that_of_its_definition(made: Made) -> None:
    release = Release.open(made.folder)
    for value in (FIRST, None, "mumps"):
        found = release.count(value, where="sex = 'F' AND age < 50", method="uniform")
        assert found.value == pytest.approx(made.uniform(value, lambda row: row["sex"] == "F" and row["age"] < 50))
        missing = release.count(value, where="ward IS NULL", method="uniform")
        assert missing.value == pytest.approx(made.uniform(value, lambda row: row["ward"] is None))


@pytest.mark.slow
@few_ways
def test_groups_are_counted_as_conditions_are(made: Made) -> None:
    release = Release.open(made.folder)
    sql = "SELECT ward, disease, COUNT(*) AS n FROM release WHERE sex = 'M' GROUP BY ward, disease"
    for method in ("inverse", "uniform"):
        rows = release.sql(sql, method=method).to_table()[1]
        assert len(rows) == 3 * len(DISEASES)
        for row in rows[::7]:
            ward = "IS NULL" if row["ward"] is None else f"= '{row['ward']}'"
            alone = release.count(row["disease"], where=f"sex = 'M' AND ward {ward}", method=method)
            assert row["n"] == pytest.approx(alone.value)
            assert row["n_se"] == pytest.approx(alone.standard_error)


@few_ways
def test_questions_about_public_columns_are_answered_exactly(made: Made) -> None:
    found = Release.open(made.folder).count(where="sex = 'F'")
    assert (found.value, found.standard_error) == (patients()["sex"].count("F"), 0)


@few_ways
def test_a_condition_that_nobody_meets_finds_nobody(made: Made) -> None:
    outcome = succeed("query", made.folder, "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND age = 1")
    assert "no record satisfies" in outcome.words
    assert Release.open(made.folder).count("flu", where="age = 1").interval() == (0, 0)


@pytest.mark.slow
@few_ways
def test_command_line_counts_by_both_methods(made: Made) -> None:
    sql = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'F'"
    for method in ("inverse", "uniform"):
        told = succeed("query", made.folder, sql, "--method", method, "--json").json
        assert told["rows"][0]["n"] == pytest.approx(
            Release.open(made.folder).count("flu", where="sex = 'F'", method=method).value
        )
    sentence = refused(made.folder, "query", made.folder, sql, "--method", "closed")
    assert sentence.startswith("the method 'closed' is unknown for ")
    assert sentence.endswith("; use inverse, shrunk, uniform.")


@every_way
def test_the_query_of_the_readme_counts_like_the_plain_estimate(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.folder)
    expected = Release.open(made.folder).count(FIRST, method="uniform").value
    assert readme_count(made.folder) == pytest.approx(expected) == pytest.approx(DISEASES[FIRST])


def test_the_query_of_the_readme_counts_a_value_that_nobody_has(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    write_csv_rows(desk / "domain.csv", [["Addison's"], *([each or ""] for each in DISEASES)])
    succeed(*publishing(table, "--diversity", "3", "--domain", "disease=domain.csv"))
    assert Release.open("release").count("Addison's").interval() == (0, 0)
    monkeypatch.chdir(desk / "release")
    assert readme_count(desk / "release") == 0


# ----------------------------------------------------------------------------------------------------------------- plan

EXAMPLE = (2, 2, 2, 4, 4, 4, 4, 7, 7)
"""The counts of Example 5 of the thesis."""


def test_plan_of_the_thesis_example_costs_72(desk: Path) -> None:
    """Page of Example 5: caps 3 f + 0.02, buckets of 2 to 6. Two sizes cost 82, and one 150."""
    counts = counts_file(desk, {f"x{number}": count for number, count in enumerate(EXAMPLE, 1)})
    asked = ("plan", "--counts", counts, "--cap-factor", "3", "--cap-offset", "0.02", "--min-bucket", "2")
    losses = {}
    works = {"one": "one-size-buckets", "two": "two-size-buckets", "multi": "buckets"}
    ways = {sizes: ("--as-published", work) for sizes, work in works.items()}
    for sizes, way in {**ways, "optimal": ("--sizes", "optimal")}.items():
        told = succeed(*asked, "--max-bucket", "6", *way, "--json").json
        losses[sizes] = told["loss"]
        assert told["loss"] == sum(each["count"] * (each["size"] - 1) ** 2 for each in told["buckets"])
        assert told["lower_bound"] <= 72
        assert told["information_loss"] == pytest.approx(told["loss"] ** 0.5 / 35)
        held = Counter[str]()
        for each in told["buckets"]:
            assert set(each) == {"size", "count", "values"}
            assert sum(each["values"].values()) == each["size"] * each["count"]
            held.update(each["values"])
        assert held == {f"x{number}": count for number, count in enumerate(EXAMPLE, 1)}
    assert losses["optimal"] == told["lower_bound"] == 72
    assert (losses["one"], losses["two"]) == (150, 82)
    assert 72 <= losses["multi"] <= 150


def test_plan_shows_buckets_and_loss(desk: Path) -> None:
    counts = counts_file(desk, {f"x{number}": count for number, count in enumerate(EXAMPLE, 1)})
    asked = ("plan", "--counts", counts, "--cap-factor", "3", "--cap-offset", "0.02", "--max-bucket", "6")
    shown = succeed(*asked, "--sizes", "optimal").words
    assert "12 buckets of 2, 3, 6 records; loss 72 (the smallest possible)" in shown
    assert "compared sizes" not in shown


def test_plan_shows_the_ways_that_were_compared(desk: Path) -> None:
    """The first is taken, and the library gives the same by its options; that of least loss is beside it."""
    counts = counts_file(desk, {f"x{number}": count for number, count in enumerate(EXAMPLE, 1)})
    asked = ("plan", "--counts", counts, "--cap-factor", "3", "--cap-offset", "0.02", "--max-bucket", "6")
    told = succeed(*asked, "--json").json
    ways = told["ways"]
    first = ways[0]
    assert next(each for each in ways if each["sizes"] == "optimal")["loss"] == told["lower_bound"] == 72
    assert first["loss"] == told["loss"]
    assert {each["dealing"] for each in ways} == {"mixed"}
    assert first["buckets"] == [[each["size"], each["count"]] for each in told["buckets"]]
    by_name = {"buckets": buckets.Options(buckets.Sizes(first["sizes"]), first["min_bucket"], 6)}
    histogram = Histogram.read(counts)
    chosen = choose(histogram, LinearCap(3, "0.02"), Draws.unsafe_test_key("07" * 32), options=by_name)
    assert [list(pair) for pair in chosen.plan.choice.assignment.setting] == first["buckets"]
    shown = succeed(*asked).words
    assert "chosen to reduce the errors of counts" in shown
    assert "Compared bucket sizes, ordered by error. The sizes in the first line are used" in shown


def test_caps_of_a_file_stand_for_the_values_that_it_names(desk: Path) -> None:
    counts = counts_file(desk, {"flu": 50, "cold": 30, "HIV": 20})
    both = succeed("plan", "--counts", counts, *caps_file(desk, {"HIV": "1/4"}), "--cap-factor", "2", "--json").json
    assert both["caps"] == {"flu": "1/1", "cold": "3/5", "HIV": "1/4"}
    assert "1/4 to 1" in both["scope"]


def test_plan_of_a_table_is_what_is_published(releases: Callable[[str], Made]) -> None:
    made = releases("linear caps")
    told = succeed("plan", made.table, "--sensitive", "disease", "--drop", "drug", *LINEAR, "--json").json
    assert Counter(made.sizes.values()) == {each["size"]: each["count"] for each in told["buckets"]}
    assert told["guarantee"] == "bucket-only"
    assert [each["told"] for each in told["exposures"]] == [*([name] for name in PUBLIC), PUBLIC]


# -------------------------------------------------------------------------------------------------- published in clear


def in_the_clear(made: Made) -> int:
    """How many records are in buckets of one value."""
    return sum(line["count"] for line in made.lines if line["count"] == made.sizes[line["bucket"]])


@pytest.mark.slow
@pytest.mark.parametrize("smallest", ["1", "2"])
def test_values_in_the_clear_are_told_loudly(desk: Path, smallest: str) -> None:
    """A cap of 1 lets a value be alone in its bucket, and so published as it is: nobody must overlook that."""
    table = write_parquet(desk / "patients.parquet", patients())
    outcome = succeed(*publishing(table, *caps_file(desk, {"flu": "1/2"}), "--min-bucket", smallest))
    made = Made(table, desk / "release")
    assert in_the_clear(made) > 0
    assert (1 in made.sizes.values()) == (smallest == "1")
    (loud,) = (notice for notice in outcome.notices if "IN THE CLEAR" in notice)
    assert f"{in_the_clear(made):,} records" in loud
    assert any("not protected" in notice and "'HIV'" in notice for notice in outcome.notices)
    assert "a bucket may contain nothing else" in succeed("info", "release").words
    succeed("verify", "release", "--original", table)


@pytest.mark.slow
@few_ways
def test_nothing_is_in_the_clear_where_every_value_has_a_cap(made: Made, way: str) -> None:
    told = succeed("plan", made.table, "--sensitive", "disease", "--drop", "drug", *LINEAR)
    assert not any("CLEAR" in notice for notice in told.notices)
    assert way == "caps" or in_the_clear(made) == 0


# ------------------------------------------------------------------------------------------------------------ tampering


@pytest.fixture
def folder(releases: Callable[[str], Made], way: str, tmp_path: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(releases(way).folder, tmp_path / "release"))


def swapped(values: Sequence[Any], one: int, other: int) -> list[Any]:
    changed = list(values)
    changed[one], changed[other] = changed[other], changed[one]
    return changed


def with_lines(table: pa.Table, change: Callable[[list[dict[str, Any]]], Any]) -> pa.Table:
    lines = table.to_pylist()
    return pa.Table.from_pylist(change(lines) or lines, schema=table.schema)


@few_ways
def test_rewriting_a_release_as_it_was_is_not_noticed(folder: Path, made: Made) -> None:
    for name in (RECORDS, BUCKETS):
        rewrite(folder, name, lambda table: table)
    assert failed(folder, made.table) == []


@few_ways
@pytest.mark.parametrize("name", [RECORDS, BUCKETS])
def test_a_changed_file_is_noticed_by_its_digest(folder: Path, name: str) -> None:
    table = pq.read_table(folder / name)
    pq.write_table(table.slice(1), folder / name)
    assert failed_alone(folder) == ["files"]


@few_ways
def test_a_record_in_another_bucket_is_noticed(folder: Path) -> None:
    buckets = pq.read_table(folder / RECORDS).column("bucket").to_pylist()
    rewrite(folder, RECORDS, lambda table: with_cell(table, "bucket", 0, (buckets[0] + 1) % (max(buckets) + 1)))
    assert failed_alone(folder) == ["domain"]


@few_ways
def test_a_changed_count_is_noticed(folder: Path) -> None:
    rewrite(folder, BUCKETS, lambda table: with_cell(table, "count", 0, table.column("count")[0].as_py() + 1))
    assert failed_alone(folder) == ["domain"]


@few_ways
@pytest.mark.parametrize("count", [0, -1])
def test_a_count_that_is_none_is_noticed(folder: Path, count: int) -> None:
    rewrite(folder, BUCKETS, lambda table: with_cell(table, "count", 3, count))
    assert failed_alone(folder) == ["domain"]


@few_ways
def test_a_value_above_its_cap_is_noticed(folder: Path, way: str) -> None:
    """A bucket gives all its values up for one of them: sizes agree, and still the cap is broken."""

    def one_value(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        capped = next(line for line in lines if line["disease"] in ("HIV", "flu"))
        mine = [line for line in lines if line["bucket"] == capped["bucket"]]
        capped["count"] = sum(line["count"] for line in mine)
        return [line for line in lines if line is capped or line["bucket"] != capped["bucket"]]

    rewrite(folder, BUCKETS, lambda table: with_lines(table, one_value))
    (check,) = (each for each in succeed_not(folder) if not each["passed"])
    assert check["name"] == "domain"
    assert ("has a value twice" if way == "diversity" else "above the value's cap") in check["detail"]


def succeed_not(folder: Path) -> list[dict[str, Any]]:
    """The checks of a release that must fail one."""
    outcome = run("verify", folder, "--json")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    checks: list[dict[str, Any]] = outcome.json["checks"]
    return checks


@few_ways
@pytest.mark.parametrize("number", [-1, 10**6, 2**62], ids=["below", "above", "huge"])
def test_bucket_ids_out_of_range_are_noticed(folder: Path, number: int) -> None:
    rewrite(folder, RECORDS, lambda table: with_cell(_wide(table), "bucket", 0, number))
    assert failed_alone(folder) == ["domain"]


@few_ways
@pytest.mark.parametrize("number", [-1, 10**6, 2**62], ids=["below", "above", "huge"])
def test_bucket_ids_of_lines_out_of_range_are_noticed(folder: Path, number: int) -> None:
    rewrite(folder, BUCKETS, lambda table: with_cell(_wide(table), "bucket", 0, number))
    assert failed_alone(folder) == ["domain"]


def _wide(table: pa.Table) -> pa.Table:
    """Numbers of 64 bits, so that any id can be written."""
    fields = [
        pa.field(each.name, pa.int64(), each.nullable) if each.name == "bucket" else each for each in table.schema
    ]
    return table.cast(pa.schema(fields))


@few_ways
def test_lines_out_of_order_are_noticed(folder: Path) -> None:
    """The order of lines could say whose value comes first."""
    rewrite(folder, BUCKETS, lambda table: with_lines(table, lambda lines: swapped(lines, 0, 1)))
    assert failed_alone(folder) == ["domain"]


@few_ways
def test_lines_out_of_order_are_counted_all_the_same(folder: Path, made: Made) -> None:
    """Only an audit minds: whoever got the tables from elsewhere still gets right answers."""
    rewrite(folder, BUCKETS, lambda table: with_lines(table, lambda lines: lines[::-1]))
    query = [CountQuery({"sex": "F"}, ["flu"])]
    before, after = (Release.open(each) for each in (made.folder, folder))
    assert after.count("flu", where="sex = 'F'").moments == before.count("flu", where="sex = 'F'").moments
    assert after.count_many(query).value == pytest.approx(before.count_many(query).value)


@few_ways
def test_a_line_that_comes_twice_is_noticed(folder: Path) -> None:
    rewrite(folder, BUCKETS, lambda table: with_lines(table, lambda lines: [lines[0], *lines]))
    assert failed_alone(folder) == ["domain"]


@few_ways
def test_a_line_that_is_left_out_is_noticed(folder: Path) -> None:
    rewrite(folder, BUCKETS, lambda table: table.slice(1))
    assert failed_alone(folder) == ["domain"]


@few_ways
def test_a_value_outside_the_domain_is_noticed(folder: Path) -> None:
    rewrite(folder, BUCKETS, lambda table: with_cell(table, "disease", 0, "plague"))
    assert failed_alone(folder) == ["domain"]


@few_ways
def test_caps_that_promise_nothing_are_noticed(folder: Path) -> None:
    def lift(written: dict[str, Any]) -> None:
        design = written["sfumato"]["design"]
        design["caps"] = ["1"] * len(design["caps"])

    edit_manifest(folder, lift)
    assert failed_alone(folder) == ["guarantee"]


@few_ways
def test_lower_caps_than_the_buckets_keep_are_noticed(folder: Path, way: str) -> None:
    def lower(written: dict[str, Any]) -> None:
        written["sfumato"]["design"]["caps"][0] = "1/1000"

    edit_manifest(folder, lower)
    assert failed_alone(folder) == (["domain", "guarantee"] if way == "diversity" else ["domain"])


@pytest.mark.slow
@few_ways
def test_another_original_is_noticed(folder: Path, desk: Path) -> None:
    other = patients()
    place = other["disease"].index("mumps")
    other["disease"][place] = "measles"
    assert "draws" in failed(folder, write_parquet(desk / "other.parquet", other))
    other = patients()
    other["sex"][0] = "M" if other["sex"][0] == "F" else "F"
    assert failed(folder, write_parquet(desk / "other.parquet", other)) == ["public columns"]


@few_ways
def test_values_that_changed_buckets_within_the_caps_are_the_holders_own_business(folder: Path, made: Made) -> None:
    """Two buckets of a size that trade all their values: nobody can tell, because who has what is not published."""
    sizes = made.sizes
    size = Counter(sizes.values()).most_common(1)[0][0]
    one, other = [bucket for bucket in sorted(sizes) if sizes[bucket] == size][:2]
    trade = {one: other, other: one}

    def traded(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        new = [{**line, "bucket": trade.get(line["bucket"], line["bucket"])} for line in lines]
        return sorted(new, key=lambda line: line["bucket"])

    rewrite(folder, BUCKETS, lambda table: with_lines(table, traded))
    assert failed(folder, made.table) == []


def with_any(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """The table with a number of 64 bits, or none, in the first row of a column."""

    def change(table: pa.Table) -> pa.Table:
        fields = [pa.field(each.name, pa.int64() if each.name == name else each.type) for each in table.schema]
        return with_cell(table.cast(pa.schema(fields)), name, 0, value)

    return change


STRANGE: Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]] = {
    "line of a huge bucket": (BUCKETS, with_any("bucket", 2**62)),
    "line of a large bucket": (BUCKETS, with_any("bucket", 10**6)),
    "line of a bucket below 0": (BUCKETS, with_any("bucket", -1)),
    "line of no bucket": (BUCKETS, with_any("bucket", None)),
    "no count": (BUCKETS, with_any("count", None)),
    "count below 0": (BUCKETS, with_any("count", -5)),
    "unknown value": (BUCKETS, lambda table: with_cell(table, "disease", 0, "plague")),
    "no lines": (BUCKETS, lambda table: table.slice(0, 0)),
    "few lines": (BUCKETS, lambda table: table.slice(0, 30)),
    "record in a huge bucket": (RECORDS, with_any("bucket", 2**62)),
    "record in a large bucket": (RECORDS, with_any("bucket", 10**6)),
    "record in a bucket below 0": (RECORDS, with_any("bucket", -1)),
    "record in no bucket": (RECORDS, with_any("bucket", None)),
    "no records": (RECORDS, lambda table: table.slice(0, 0)),
}
"""What somebody can write into the two tables so that they do not fit together."""


@pytest.mark.parametrize("way", ["diversity"])
@pytest.mark.parametrize("kind", STRANGE)
def test_tables_that_do_not_fit_together_are_refused_in_one_sentence(folder: Path, made: Made, kind: str) -> None:
    rewrite(folder, *STRANGE[kind])
    sql = "SELECT COUNT(*) FROM release WHERE disease = 'flu' AND sex = 'F'"
    assert failed_alone(folder) == ["domain"]
    for method in ("inverse", "uniform"):
        refused(folder, "query", folder, sql, "--method", method)


# ----------------------------------------------------------------------------------------------------- orders that tell


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A release of so many people that the order of buckets can be judged."""
    folder = tmp_path_factory.mktemp("large")
    table = write_parquet(folder / "patients.parquet", {name: values * 10 for name, values in patients().items()})
    succeed(*publishing(table, "--diversity", "3", out=folder / "release"))
    return Made(table, folder / "release")


def renumbered(folder: Path, numbers: Mapping[int, int]) -> None:
    """Give the buckets other ids, in both tables alike."""
    rewrite(
        folder,
        RECORDS,
        lambda table: with_column(table, "bucket", [numbers[each] for each in table.column("bucket").to_pylist()]),
    )

    def lines(before: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(({**line, "bucket": numbers[line["bucket"]]} for line in before), key=lambda line: line["bucket"])

    rewrite(folder, BUCKETS, lambda table: with_lines(table, lines))


@pytest.mark.slow
def test_random_ids_of_buckets_pass(large: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(large.folder, tmp_path / "release"))
    numbers = list(range(len(large.sizes)))
    random.Random(3).shuffle(numbers)
    renumbered(folder, dict(enumerate(numbers)))
    assert failed(folder, large.table) == []


@pytest.mark.slow
def test_ids_of_buckets_in_an_order_that_tells_are_noticed(large: Made, tmp_path: Path) -> None:
    """Ids in the order in which the buckets were made go with whatever the table was sorted by."""
    folder = Path(shutil.copytree(large.folder, tmp_path / "release"))
    ages: Counter[int] = Counter()
    for row in large.records:
        ages[row["bucket"]] += row["age"]
    order = sorted(sorted(large.sizes), key=lambda bucket: ages[bucket] / large.sizes[bucket])
    renumbered(folder, {bucket: number for number, bucket in enumerate(order)})
    assert failed_alone(folder) == []
    assert failed(folder, large.table) == ["draws"]


@pytest.mark.slow
def test_records_in_the_order_of_the_original_are_noticed(large: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(large.folder, tmp_path / "release"))
    places: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(large.records):
        places.setdefault(tuple(row[name] for name in PUBLIC), []).append(number)
    original = pq.read_table(large.table).select(PUBLIC).to_pylist()
    order = [places[tuple(row.values())].pop() for row in original]
    rewrite(folder, RECORDS, lambda table: table.take(pa.array(order)))
    assert failed(folder, large.table) == ["order"]


# ----------------------------------------------------------------------------------------------------------- odd tables


@pytest.mark.slow
def test_several_columns_are_refused_because_caps_of_combinations_do_not_cover_them(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    asked = ["publish", table, "--out", "release", "--compound", "disease,drug"]
    for options in (["--diversity", "4"], ["--cap-factor", "2", "--cap-offset", "1/20"]):
        assert "do not protect the single columns" in refused(desk, *asked, *options)


@pytest.mark.slow
def test_several_columns_would_be_published_and_counted_as_one(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables and the counts of a compound, with the refusal out of the way."""
    monkeypatch.setattr(PrivacySpec, "find_part_limit", lambda *arguments: None)
    table = write_parquet(desk / "patients.parquet", patients())
    domains = write_domains(desk, {name: patients()[name] for name in ("disease", "drug")})
    succeed("publish", table, "--out", "release", "--compound", "disease,drug", *domains, "--diversity", "4")
    succeed("verify", "release", "--original", table)
    assert pq.read_schema(desk / "release" / RECORDS).names == [*PUBLIC, "bucket"]
    assert pq.read_schema(desk / "release" / BUCKETS).names == ["bucket", "disease", "drug", "count"]
    release, original = Release.open(desk / "release"), patients()
    pairs = Counter(zip(original["disease"], original["drug"], strict=True))
    assert release.count(("flu", "tea")).interval() == (pairs["flu", "tea"],) * 2
    rows = release.sql("SELECT drug, COUNT(*) AS n FROM release GROUP BY drug").to_table()[1]
    assert {row["drug"]: round(row["n"]) for row in rows} == Counter(original["drug"])
    monkeypatch.chdir(desk / "release")
    value = next(each for each in release.manifest.domain if isinstance(each, tuple) and None not in each)
    assert readme_count(desk / "release") == pytest.approx(release.count(value, method="uniform").value)


@pytest.mark.slow
def test_columns_may_have_the_names_of_ours(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = patients()
    names = {"sex": "bucket", "age": "g0", "ward": "place", "disease": "count"}
    table = write_parquet(desk / "odd.parquet", {names[name]: original[name] for name in names})
    succeed("publish", table, "--out", "release", "--sensitive", "count", "--diversity", "3")
    succeed("verify", "release", "--original", table)
    release = Release.open(desk / "release")
    assert pq.read_schema(desk / "release" / RECORDS).names == ["bucket", "g0", "place", "bucket_"]
    assert pq.read_schema(desk / "release" / BUCKETS).names == ["bucket_", "count", "count_"]
    assert release.count("flu").interval() == (DISEASES["flu"],) * 2
    women = release.count("flu", where="bucket = 'F'", method="uniform").value
    rows = release.sql(
        "SELECT bucket, COUNT(*) AS n FROM release WHERE count = 'flu' GROUP BY bucket", method="uniform"
    )
    assert {row["bucket"]: row["n"] for row in rows.to_table()[1]}["F"] == pytest.approx(women)
    assert 0 < women < DISEASES["flu"]
    grouped = release.sql("SELECT g0, COUNT(*) AS n FROM release WHERE bucket = 'F' GROUP BY g0").to_table()[1]
    assert sum(row["n"] for row in grouped) == original["sex"].count("F")
    monkeypatch.chdir(desk / "release")
    assert readme_count(desk / "release") == pytest.approx(DISEASES[FIRST])


@pytest.mark.parametrize("name", ["size", "sizes", "marked", "Marked", "qit", "st"])
def test_the_query_of_the_readme_bears_any_public_column(
    desk: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    original = patients()
    table = write_parquet(desk / "odd.parquet", {name: original["age"], "disease": original["disease"]})
    succeed("publish", table, "--out", "release", "--sensitive", "disease", "--diversity", "3")
    monkeypatch.chdir(desk / "release")
    assert readme_count(desk / "release") == pytest.approx(DISEASES[FIRST])


@pytest.mark.slow
def test_missing_values_are_a_value_or_are_left_out(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    succeed(*publishing(table, "--diversity", "3", "--nulls", "drop"))
    succeed("verify", "release", "--original", table)
    made = Made(table, desk / "release")
    assert len(made.records) == 600 - 24
    assert all(line["disease"] is not None for line in made.lines)
    succeed(*publishing(table, "--diversity", "3", out="with"))
    assert Release.open("with").count(None).interval() == (24, 24)


@pytest.mark.slow
def test_numbers_and_dates_can_be_protected(desk: Path) -> None:
    original = patients()
    table = write_parquet(desk / "patients.parquet", {"sex": original["sex"] * 2, "age": [*range(30, 40)] * 120})
    succeed("publish", table, "--out", "release", "--sensitive", "age", "--diversity", "5")
    succeed("verify", "release", "--original", table)
    assert Release.open("release").count(30).interval() == (120, 120)


@pytest.mark.slow
def test_a_zip_holds_the_same_release(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    for out in ("release", "release.zip"):
        succeed(*publishing(table, "--diversity", "3", "--unsafe-test-key", TEST_KEY, out=out))
    folder, packed = Release.open("release"), Release.open("release.zip")
    assert content(folder.folder) == content(packed.folder)
    sql = "SELECT sex, disease, COUNT(*) AS n FROM release GROUP BY sex, disease"
    assert folder.sql(sql).to_table() == packed.sql(sql).to_table()
    del packed


@pytest.mark.slow
def test_texts_that_look_alike_stay_apart(desk: Path) -> None:
    odd = ["", " ", "a, b", "'", '"', "NULL", "null", "é", "e\u0301"]
    table = write_parquet(desk / "odd.parquet", {"sex": ["F", "M"] * 90, "disease": odd * 20})
    succeed("publish", table, "--out", "release", "--sensitive", "disease", "--diversity", "4")
    succeed("verify", "release", "--original", table)
    release = Release.open("release")
    assert all(release.count(value).interval() == (20, 20) for value in odd)


# -------------------------------------------------------------------------------------------------------------- refused

BAD: Mapping[str, tuple[Mapping[str, str] | None, tuple[str, ...], str]] = {
    "cap 0": ({"flu": "0"}, (), "the cap of 'flu' is 0 and must be above 0 and at most 1."),
    "cap below 0": ({"flu": "-1/2"}, (), "the cap of 'flu' is -1/2 and must be above 0 and at most 1."),
    "cap above 1": ({"flu": "3/2"}, (), "the cap of 'flu' is 3/2 and must be above 0 and at most 1."),
    "no number": ({"flu": "x"}, (), "'x': write a number such as"),
    "unknown value": ({"flu": "1/2", "plague": "1/2"}, (), "a value that is not in the domain: 'plague'"),
    "no caps": ({}, (), "names no value; write a line for each value to protect."),
    "caps of 1": (
        {"flu": "1"},
        (),
        "every value that occurs has the cap 1, so nothing would be protected; lower a cap.",
    ),
    "too frequent": (
        {"flu": "1/4"},
        (),
        "one value has a share of 7/25, above its cap 1/4, so no bucketization exists",
    ),
    "too small": ({"mumps": "1/60"}, (), "one value has the cap 1/60 and fits into no bucket of fewer than 60 records"),
    "diversity 1": (None, ("--diversity", "1"), "the diversity is 1 and must be at least 2"),
    "diversity below 0": (None, ("--diversity", "-3"), "the diversity is -3 and must be at least 2"),
    "half a diversity": (None, ("--diversity", "2.5"), "invalid value for '--diversity'"),
    "too diverse": (None, ("--diversity", "4"), "one value has a share of 7/25 of the records"),
    "negative factor": (None, ("--cap-factor", "-1"), "the cap factor -1 and offset 0 must not be negative"),
    "no factor": (None, ("--cap-factor", "0"), "nor both 0. A cap is factor * share + offset."),
    "factor below 1": (None, ("--cap-factor", "1/2"), "has a share of 19/200, above its cap 19/400"),
    "words": (None, ("--cap-factor", "much"), "the cap factor is 'much': write a number such as"),
    "two kinds": (None, ("--cap-factor", "2", "--diversity", "3"), "two kinds of request were given"),
    "three kinds": ({"flu": "1/2"}, ("--prior", "1/9", "--diversity", "3"), "two kinds of request were given"),
    "other mechanism": (None, ("--diversity", "3", "--mechanism", "buckets"), "'buckets' needs caps"),
    "no diversity": (
        None,
        ("--cap-factor", "2", "--mechanism", "anatomy"),
        "'anatomy' needs a diversity (--diversity)",
    ),
    "unknown sizes": (
        None,
        ("--cap-factor", "2", "--sizes", "three"),
        "'three' is not one of 'auto', 'optimal'",
    ),
    "no bucket": (None, ("--cap-factor", "2", "--min-bucket", "0"), "invalid value for '--min-bucket'"),
    "sizes of anatomy": (None, ("--diversity", "3", "--sizes", "optimal"), "options of 'buckets' were given"),
    "another guarantee": (None, ("--diversity", "3", "--guarantee", "any-prior"), "no mechanism meets this request"),
}


@pytest.mark.parametrize(("caps", "options", "sentence"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused_in_one_sentence(
    desk: Path, caps: Mapping[str, str] | None, options: tuple[str, ...], sentence: str
) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    asked = [*(caps_file(desk, caps) if caps is not None else []), *options]
    assert sentence in refused(desk, *publishing(table, *asked))
    assert sentence in refused(desk, "plan", table, "--sensitive", "disease", "--drop", "drug", *asked)


def test_files_of_caps_are_read_with_care(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    (desk / "wrong.csv").write_text("value,most\nflu,1/2\n", encoding="utf-8")
    (desk / "twice.csv").write_text("value,cap\nflu,1/2\nflu,1/3\n", encoding="utf-8")
    assert "must have the columns value, cap" in refused(desk, *publishing(table, "--caps", "wrong.csv"))
    assert "two lines for 'flu'" in refused(desk, *publishing(table, "--caps", "twice.csv"))
    assert "'none.csv' cannot be read" in refused(desk, *publishing(table, "--caps", "none.csv"))


def test_a_refusal_names_the_smallest_buckets_that_work(desk: Path) -> None:
    """What it says is true: with that maximum there are buckets, and with one less there are not."""
    counts = counts_file(desk, {"a": 5, "b": 4, "c": 3, "d": 2})
    caps = caps_file(desk, {"a": "5/14", "b": "2/5", "c": "1/2", "d": "1/3"})
    asked = ["plan", "--counts", counts, *caps]
    sentence = refused(desk, *asked, "--max-bucket", "4")
    (needed,) = re.findall(r"allow buckets of (?:at least )?(\d+)", sentence)
    succeed(*asked, "--max-bucket", needed)
    refused(desk, *asked, "--max-bucket", str(int(needed) - 1))


@pytest.mark.slow
@pytest.mark.parametrize(("work", "request_of"), [("anatomy", ("--diversity", "3")), ("buckets", LINEAR)])
def test_buckets_that_are_dealt_in_turn_are_verified(desk: Path, work: str, request_of: tuple[str, ...]) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    succeed(*publishing(table, *request_of, "--as-published", work))
    succeed("verify", "release", "--original", table)


def test_a_smallest_bucket_above_the_largest_is_refused_as_such(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", patients())
    sentence = refused(desk, *publishing(table, "--cap-offset", "1/3", "--min-bucket", "9", "--max-bucket", "5"))
    assert "9" in sentence
    assert "5" in sentence
