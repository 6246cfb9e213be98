"""Releases of decoys: requested, published, verified, asked, edited by a stranger, and refused where they must be."""

from __future__ import annotations

import functools
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED
from command_line import TEST_KEY, complaint, content, run, succeed, write_csv, write_parquet
from protected_tables import DISEASES, FIRST, counts_file, patients, refused, write_domains
from sfumato import DecoyGroups, Release, Request, Schema, publish
from slow_counts import SlowRelease
from tampering import edit_design, failed, failed_alone, rewrite, with_cell, with_column

DATA = "data.parquet"
ROWS = 1200
THREES = ("--group-size", "3")


def numbered() -> dict[str, list[Any]]:
    """Twice the patients, with a number of their own, so that each record can be found again."""
    table = {name: [*values, *values] for name, values in patients().items()}
    return {"number": list(range(ROWS)), **table}


WAYS: Mapping[str, tuple[str, ...]] = {
    "mixed": (*THREES, "--drop", "drug"),
    "pairs": ("--group-size", "2", "--drop", "drug", "--mechanism", "decoys"),
    "random ties": (*THREES, "--as-published", "splu", "--drop", "drug"),
    "ties by place": (*THREES, "--as-published", "splu-ties-by-order", "--drop", "drug"),
    "merged": (*THREES, "--ratio-limit", "10", "--rare", "merge", "--drop", "drug"),
    "suppressed": (*THREES, "--ratio-limit", "10", "--rare", "suppress", "--drop", "drug"),
    "two columns": ("--group-size", "2", "--sensitive", "age", "--drop", "drug"),
}
every_way = pytest.mark.parametrize("way", WAYS)
few_ways = pytest.mark.parametrize("way", ["mixed", "random ties", "two columns"])


def publishing(table: Path | str, *options: str | Path, out: Path | str = "release") -> list[str | Path]:
    return ["publish", table, "--out", out, "--sensitive", "disease", "--keep", "number", *options]


class Made:
    """A release that nobody changes, and the table it was made from."""

    def __init__(self, table: Path, folder: Path) -> None:
        self.table, self.folder = table, folder
        self.records: list[dict[str, Any]] = pq.read_table(folder / DATA).to_pylist()

    @property
    def slow(self) -> SlowRelease:
        """The release, counted slowly."""
        return SlowRelease(self.folder)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Releases of all ways, each made once."""
    folder = tmp_path_factory.mktemp("decoys")
    table = write_parquet(folder / "patients.parquet", numbered())

    @functools.cache
    def release(way: str) -> Made:
        succeed(*publishing(table, *WAYS[way], out=folder / way))
        return Made(table, folder / way)

    return release


@pytest.fixture
def made(releases: Callable[[str], Made], way: str) -> Made:
    return releases(way)


def shown(made: Made, name: str = "disease") -> Counter[Any]:
    return Counter(row[name] for row in made.records)


# ----------------------------------------------------------------------------------------------- published and verified


@every_way
def test_release_passes_with_and_without_its_original(made: Made) -> None:
    checks = succeed("verify", made.folder, "--original", made.table, "--json").json["checks"]
    assert [check["name"] for check in checks][-4:] == ["public columns", "order", "draws", "posteriors"]
    assert all(check["passed"] and check["detail"].endswith(".") for check in checks)
    assert succeed("verify", made.folder).err == ""
    (draws,) = (check["detail"] for check in checks if check["name"] == "draws")
    assert "1,200 records were matched with the original" in draws


@every_way
def test_a_release_has_no_weights_and_tells_no_groups_and_no_counts(made: Made) -> None:
    assert sorted(path.name for path in made.folder.iterdir()) == ["README.md", DATA, "datapackage.json"]
    design = Release.open(made.folder).manifest.design.to_json()
    assert sorted(design) in (["domain", "group_size", "groups"], ["domains", "group_size", "groups"])
    assert isinstance(design["groups"], str)
    assert set(made.records[0]) <= {"number", "sex", "age", "ward", "disease"}


@every_way
def test_public_columns_are_those_of_the_table_in_another_order(made: Made) -> None:
    public = [name for name in made.records[0] if name not in ("disease", "age")]
    original = numbered()
    before = list(zip(*(original[name] for name in public), strict=True))
    after = [tuple(row[name] for name in public) for row in made.records]
    assert sorted(before, key=repr) == sorted(after, key=repr)
    assert before != after


@pytest.mark.parametrize("way", ["mixed", "pairs", "random ties", "ties by place"])
def test_about_one_record_in_a_group_shows_its_own_value(made: Made, way: str) -> None:
    """Every value of a group with the same chance: 1200 records, within six standard deviations."""
    original, size = numbered()["disease"], 2 if way == "pairs" else 3
    kept = sum(row["disease"] == original[row["number"]] for row in made.records)
    assert abs(kept - ROWS / size) < 6 * np.sqrt(ROWS / size * (1 - 1 / size))
    for value, count in shown(made).items():
        assert abs(count - 2 * DISEASES[value]) < 6 * np.sqrt(2 * DISEASES[value])


@pytest.mark.slow
@every_way
def test_a_plan_file_repeats_the_release_byte_by_byte(desk: Path, way: str) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    for out in ("first", "second"):
        succeed(*publishing(table, *WAYS[way], "--plan-file", "plan.json", out=out))
    succeed(*publishing(table, *WAYS[way], out="third"))
    assert content(desk / "first") == content(desk / "second")
    assert (desk / "first" / DATA).read_bytes() != (desk / "third" / DATA).read_bytes()


def test_a_csv_file_is_published_as_its_parquet_twin(desk: Path) -> None:
    twins = [write_csv(desk / "patients.csv", numbered()), write_parquet(desk / "patients.parquet", numbered())]
    for number, table in enumerate(twins):
        succeed(*publishing(table, *WAYS["mixed"], "--unsafe-test-key", TEST_KEY, out=f"release {number}"))
    one, two = (pq.read_table(desk / f"release {number}" / DATA).to_pylist() for number in (0, 1))
    assert [row["disease"] for row in one] == [row["disease"] for row in two]


# --------------------------------------------------------------------------------------------------- info and questions


@every_way
def test_info_tells_what_is_promised_and_how_to_count(made: Made, way: str) -> None:
    told = succeed("info", made.folder, "--json").json
    size = 2 if way in ("pairs", "two columns") else 3
    assert told["mechanism"] == "decoys"
    assert f"at most 1/{size} " in told["statement"]["exact"]
    assert ("for each sensitive column alone" in " ".join(told["statement"]["details"])) == (way == "two columns")
    estimators = "inverse, fitted, closed"
    assert f"Estimators: {estimators}, shrunk" in succeed("info", made.folder).words


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fitted", "closed", "inverse", "shrunk", "paper"])
@pytest.mark.parametrize("way", ["mixed", "random ties"])
def test_every_method_answers_in_groups_as_under_conditions(made: Made, method: str) -> None:
    sql = "SELECT sex, disease, COUNT(*) AS n FROM release WHERE age < 50 GROUP BY sex, disease"
    asked = ("--as-published", "splu") if method == "paper" else ("--method", method)
    answered = succeed("query", made.folder, sql, *asked, "--json").json
    assert len(answered["rows"]) == 2 * len(DISEASES)
    release = Release.open(made.folder)
    for row in answered["rows"][::5]:
        alone = release.count(row["disease"], where=f"age < 50 AND sex = '{row['sex']}'", method=method)
        assert row["n"] == pytest.approx(alone.value)
        assert row["n_se"] == (None if alone.standard_error is None else pytest.approx(alone.standard_error))
        assert row["n_note"]
    assert (method in ("shrunk", "paper")) == ("biased" in answered["method"])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["mixed", "pairs", "merged", "suppressed", "two columns"])
def test_the_closed_form_is_that_of_its_definition(made: Made, way: str) -> None:
    release, slow = Release.open(made.folder), made.slow
    found = slow.counts(lambda row: row["sex"] == "F")
    for value in list(slow.domain)[::3]:
        asked = value if way == "two columns" else value[0]
        estimate = release.count(asked, where="sex = 'F'", method="closed")
        assert estimate.value == pytest.approx(float(found[value]), abs=1e-6)


@pytest.mark.slow
def test_the_default_is_what_the_groups_need(releases: Callable[[str], Made]) -> None:
    sql = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'F'"
    for way, method in {"mixed": "inverse", "random ties": "inverse", "ties by place": "inverse"}.items():
        default = succeed("query", releases(way).folder, sql, "--json").json
        assert default == succeed("query", releases(way).folder, sql, "--method", method, "--json").json


@few_ways
def test_a_value_alone_is_counted_by_how_often_it_is_published(made: Made, way: str) -> None:
    rows = Release.open(made.folder).sql("SELECT disease, COUNT(*) AS n FROM release GROUP BY disease").to_table()[1]
    size = 2 if way == "two columns" else 3
    for row in rows:
        published = shown(made)[row["disease"]]
        assert row["n"] == pytest.approx(published, abs=1e-6 * ROWS)
        if size * published < 0.6 * ROWS:  # of a value in most groups the error is not as exact
            assert row["n_se"] ** 2 >= 0.95 * published * (1 - 1 / size)


@every_way
def test_questions_about_public_columns_are_answered_exactly(made: Made) -> None:
    found = Release.open(made.folder).count(where="sex = 'F'")
    assert (found.value, found.standard_error) == (2 * patients()["sex"].count("F"), 0)


@few_ways
def test_a_condition_that_nobody_meets_finds_nobody(made: Made) -> None:
    sql = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND number < 0"
    assert "no record satisfies" in succeed("query", made.folder, sql).words
    (row,) = Release.open(made.folder).sql(sql).to_table()[1]
    assert (row["n"], row["n_low"], row["n_high"]) == (0, 0, 0)


def test_sets_of_values_and_their_complements_are_all_records(releases: Callable[[str], Made]) -> None:
    release = Release.open(releases("mixed").folder)
    rows = release.count(where="sex = 'F'").value
    for test in ("disease IN ('flu', 'gout')", "disease IS NULL", "disease LIKE 'm%'"):
        one, other = (release.count(where=f"sex = 'F' AND {each}") for each in (test, f"NOT coalesce({test}, false)"))
        assert one.value + other.value == pytest.approx(rows)


def test_large_counts_and_small_ones_are_told_apart(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    succeed(*publishing(table, *WAYS["pairs"], "--unsafe-test-key", TEST_KEY))
    release = Release.open(desk / "release")
    large = release.count("flu").note
    small = release.count("mumps", where="sex = 'F'").note
    assert large is not None
    assert small is not None
    assert large.startswith("the relative error is about")
    assert small.startswith("deliberately unreliable: the count is too small")


# ---------------------------------------------------------------------------------------------------------- two columns


@pytest.mark.slow
def test_each_of_two_columns_is_counted_as_if_it_were_alone(releases: Callable[[str], Made]) -> None:
    made = releases("two columns")
    release, slow = Release.open(made.folder), made.slow
    assert slow.names == ["disease", "age"]
    for value in ("flu", "HIV"):
        found = release.count(where=f"disease = '{value}' AND sex = 'F'", method="closed")
        rows = [row for row in slow.rows if row["sex"] == "F"]
        assert found.value == pytest.approx(float(sum(slow._added(row, 0, value) for row in rows)))
    for age in (30, 50):
        found = release.count(where=f"age = {age}")
        assert found.value == pytest.approx(shown(made, "age")[age])


def test_combinations_of_two_columns_are_said_to_tell_next_to_nothing(releases: Callable[[str], Made]) -> None:
    folder = releases("two columns").folder
    (row,) = Release.open(folder).sql("SELECT COUNT(*) n FROM release WHERE disease = 'HIV' AND age = 30").to_table()[1]
    assert row["n_note"].startswith(
        "deliberately unreliable: almost no joint information about these columns is published"
    )
    assert (row["n_low"], row["n_high"]) != (row["n"], row["n"])


def test_methods_for_one_column_are_refused_for_two(releases: Callable[[str], Made], desk: Path) -> None:
    sql = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'"
    sentence = refused(desk, "query", releases("two columns").folder, sql, "--method", "shrunk")
    assert sentence == "the method 'shrunk' is for one sensitive column; use fitted, closed or inverse."


@pytest.mark.slow
def test_two_columns_can_have_domains_of_their_own(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    (desk / "ages.txt").write_text("20\n30\n40\n50\n", encoding="utf-8")
    (desk / "diseases.txt").write_text("\n".join(["plague", *(each or "" for each in DISEASES)]), encoding="utf-8")
    domains = ("--domain", "age=ages.txt", "--domain", "disease=diseases.txt")
    outcome = succeed(*publishing(table, *WAYS["two columns"], *domains))
    assert not any("taken from the table" in notice for notice in outcome.notices)
    design = Release.open(desk / "release").manifest.design
    assert design.domains[1] == (20, 30, 40, 50)
    assert "plague" in design.domains[0]
    found = Release.open(desk / "release").count(where="disease = 'plague' AND sex = 'F'")
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.interval()[1] > 0
    assert failed(desk / "release", table) == []


def test_the_holder_is_told_that_ratios_of_two_columns_multiply(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    told = succeed("plan", table, "--sensitive", "disease", "--keep", "number", *WAYS["two columns"], "--json").json
    worst = [max(column["likelihood_ratio"].values()) for column in told["columns"]]
    least = [min(column["amplification"].values()) for column in told["columns"]]
    assert told["largest_joint_likelihood_ratio"] == pytest.approx(worst[0] * worst[1])
    assert told["least_joint_amplification"] == pytest.approx(least[0] * least[1])
    assert any("each sensitive column is protected on its own" in remark for remark in told["remarks"])


# --------------------------------------------------------------------------------------------------------------- README


def readme_query(folder: Path) -> str:
    text = (folder / "README.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"^    WITH .*?(?=\n\n)", text, re.DOTALL | re.MULTILINE)
    return str(query)


@pytest.mark.parametrize("way", ["mixed", "pairs", "random ties", "suppressed", "two columns"])
def test_the_query_of_the_readme_is_the_closed_form(made: Made, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, and with a condition in place of `true`; of two columns it counts the first."""
    monkeypatch.chdir(made.folder)
    release, query = Release.open(made.folder), readme_query(made.folder)
    is_first = "disease = 'Crohn''s'"
    for condition in ("true", "sex = 'F' AND ward IS NULL"):
        with duckdb.connect() as connection:
            (answer,) = connection.execute(query.replace("WHERE true)", f"WHERE {condition})")).fetchall()[0]
        expected = release.count(where=f"{is_first} AND {condition}", method="closed").value
        assert answer == pytest.approx(expected, abs=1e-6)
    assert FIRST in query.replace("''", "'")


# ----------------------------------------------------------------------------------------------------- a plan before it


def test_the_plan_tells_how_much_is_given_away_and_how_much_is_blurred(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    asked = ("--sensitive", "disease", "--drop", "drug", "--keep", "number", *THREES)
    told = succeed("plan", table, *asked, "--json").json
    assert (told["mechanism"], told["guarantee"], told["group_size"]) == ("decoys", "decoys-only", 3)
    assert (told["creation"], told["groups"]) == ("mixed", 400)
    assert told["likelihood_ratio"]["mumps"] == pytest.approx((600 - 6) / (2 * 6))
    assert told["likelihood_ratio"]["(missing)"] == pytest.approx((600 - 24) / (2 * 24))
    assert told["amplification"]["flu"] == pytest.approx(3 * (1 - 0.28) / (1 - 3 * 0.28))
    assert told["accurate_count"] == 261
    assert list(told["likelihood_ratio"]) == list(told["amplification"])
    assert "flu" in succeed("plan", table, *asked).words


def test_the_plan_of_counts_alone_is_that_of_the_table(desk: Path) -> None:
    counts = counts_file(desk, {"" if value is None else value: 2 * count for value, count in DISEASES.items()})
    table = write_parquet(desk / "patients.parquet", numbered())
    asked = ("--sensitive", "disease", "--drop", "drug", "--keep", "number")
    by_table, by_counts = (
        succeed("plan", *each, *THREES, "--json").json for each in ((table, *asked), ("--counts", counts))
    )
    for part in ("group_size", "groups", "likelihood_ratio", "amplification", "accurate_count"):
        assert by_table[part] == by_counts[part]
    predicted = by_counts["predicted"]["relative_error"]
    assert by_table["predicted"]["relative_error"] == pytest.approx(predicted)


def test_a_value_in_every_group_has_no_amplification_in_json(desk: Path) -> None:
    told = succeed("plan", "--counts", counts_file(desk, {"a": 4, "b": 3, "c": 3, "d": 2}), *THREES, "--json").json
    assert told["amplification"]["a"] is None
    assert told["likelihood_ratio"]["a"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            {"a": 5, "b": 4, "c": 3, "d": 1},
            "one value belongs to 5 of 13 records, but groups of 3 allow at most",
        ),
        (
            {"a": 5, "b": 4, "c": 3, "d": 1},
            "use at most --group-size 2, or one bound (--prior with --posterior).",
        ),
        (
            {"a": 9, "b": 2, "c": 2},
            "so no group size works: use caps (--cap-factor",
        ),
    ],
)
def test_a_group_size_that_cannot_be_had_names_the_largest(desk: Path, counts: dict[str, int], words: str) -> None:
    rows = [value for value, count in counts.items() for _ in range(count)]
    table = write_parquet(desk / "table.parquet", {"sex": ["F"] * len(rows), "disease": rows})
    for command in (["publish", table, "--out", "release"], ["plan", table]):
        assert words in refused(desk, *command, "--sensitive", "disease", *THREES)


# ---------------------------------------------------------------------------------------------------------- rare values


def merged_of(folder: Path) -> dict[str, Any]:
    return {name: (each.values, each.label) for name, each in Release.open(folder).manifest.merged_values.items()}


RARE = {"mumps", "measles", "asthma", None}
"""At a ratio of 10 a value needs 600 / (1 + 2 * 10) of 600 records, and each of these has fewer than 29."""


def test_rare_values_are_published_under_one_label(releases: Callable[[str], Made]) -> None:
    """The missing value is rare here, and is merged as the others are."""
    made = releases("merged")
    assert merged_of(made.folder) == {"disease": (frozenset(RARE), "(rare)")}
    assert set(shown(made)) == set(DISEASES) - RARE | {"(rare)"}
    rare = sum(2 * DISEASES[value] for value in RARE)
    assert abs(shown(made)["(rare)"] - rare) < 6 * np.sqrt(rare)


def test_rare_values_are_left_blank(releases: Callable[[str], Made]) -> None:
    made = releases("suppressed")
    assert merged_of(made.folder) == {"disease": (frozenset(RARE), None)}
    assert set(shown(made)) == set(DISEASES) - RARE | {None}


@pytest.mark.parametrize("rare", ["merge", "suppress"])
def test_no_value_is_above_the_ratio_limit_afterwards(desk: Path, rare: str) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    asked = ("--sensitive", "disease", "--drop", "drug", "--keep", "number", *THREES)
    kept = succeed("plan", table, *asked, "--ratio-limit", "10", "--json").json
    assert max(kept["likelihood_ratio"].values()) == pytest.approx(49.5)
    assert any("a likelihood ratio above 10" in remark for remark in kept["remarks"])
    told = succeed("plan", table, *asked, "--ratio-limit", "10", "--rare", rare, "--json")
    assert max(told.json["likelihood_ratio"].values()) <= 10
    assert any("4 rare values of 'disease' are published as" in notice for notice in told.notices)


@pytest.mark.parametrize("rare", ["merge", "suppress"])
def test_rare_values_of_a_declared_domain_go_with_those_that_nobody_has(desk: Path, rare: str) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    known = ["plague", "scurvy", *(value or "" for value in DISEASES)]
    (desk / "diseases.txt").write_text("\n".join(known) + "\n", encoding="utf-8")
    options = (*THREES, "--drop", "drug", "--ratio-limit", "10", "--rare", rare)
    succeed(*publishing(table, *options, "--domain", "disease=diseases.txt"))
    label = "(rare)" if rare == "merge" else None
    assert merged_of(desk / "release") == {"disease": (frozenset({*RARE, "plague", "scurvy"}), label)}
    assert set(Release.open(desk / "release").manifest.domain) == set(DISEASES) - RARE | {label}
    assert failed(desk / "release", table) == []


def test_a_label_that_is_a_value_already_is_not_used_again(desk: Path) -> None:
    values = ["flu"] * 40 + ["cold"] * 40 + ["gout"] * 40 + ["(rare)"] * 40 + ["mumps"] * 2
    table = write_parquet(desk / "table.parquet", {"number": list(range(162)), "disease": values})
    succeed(*publishing(table, *THREES, "--ratio-limit", "10", "--rare", "merge"))
    ((_, label),) = merged_of(desk / "release").values()
    assert label == "(rare)_"


@pytest.mark.slow
def test_numbers_are_suppressed_but_not_merged(desk: Path) -> None:
    values = [1] * 40 + [2] * 40 + [3] * 40 + [4] * 40 + [5] * 2
    table = write_parquet(desk / "table.parquet", {"number": list(range(162)), "disease": values})
    options = (*THREES, "--ratio-limit", "10")
    sentence = refused(desk, *publishing(table, *options, "--rare", "merge"))
    assert sentence.endswith("because they are not text; suppress them (--rare suppress).")
    succeed(*publishing(table, *options, "--rare", "suppress"))
    published = set(pq.read_table(desk / "release" / DATA).column("disease").to_pylist())
    assert None in published
    assert 5 not in published
    assert failed(desk / "release", table) == []


@pytest.mark.slow
def test_rare_values_of_each_of_two_columns_are_merged(desk: Path) -> None:
    columns = {"number": list(range(164)), "disease": ["flu", "cold", "gout", "HIV"] * 41}
    columns["drug"] = ["pill"] * 54 + ["tea"] * 54 + ["none"] * 50 + ["arsenic"] * 6
    columns["disease"][0], columns["disease"][1] = "mumps", "plague"
    table = write_parquet(desk / "table.parquet", columns)
    options = ("--sensitive", "drug", "--group-size", "2", "--ratio-limit", "20", "--rare", "merge")
    succeed(*publishing(table, *options))
    merged = merged_of(desk / "release")
    assert {"mumps", "plague"} < merged["disease"][0]
    assert "arsenic" in merged["drug"][0]
    assert failed(desk / "release", table) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rare", "merge"), "for example --ratio-limit 100."),
        (("--ratio-limit", "1"), "the ratio limit is 1, but it must be above 1"),
        (("--ratio-limit", "many"), "many"),
        (("--rare", "burn", "--ratio-limit", "9"), "burn"),
    ],
)
def test_options_of_decoys_that_make_no_sense_are_refused(desk: Path, options: tuple[str, ...], words: str) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    assert words in refused(desk, *publishing(table, *THREES, "--drop", "drug", *options))


# ----------------------------------------------------------------------------------------------------- refused requests


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--group-size", "1"), "the group size is 1 and must be at least 2. A group of one record has no decoys."),
        (("--group-size", "0"), "the group size is 0"),
        ((*THREES, "--diversity", "2"), "two kinds of request were given: --diversity, and --group-size."),
        ((*THREES, "--prior", "1/3", "--posterior", "2/3"), "two kinds of request were given: --prior with"),
        ((*THREES, "--mechanism", "uniform"), "the mechanism 'uniform' needs one bound"),
        (("--diversity", "2", "--mechanism", "decoys"), "--group-size"),
        ((*THREES, "--sizes", "optimal"), "options of 'buckets' were given"),
        (("--sensitive", "age", "--diversity", "2"), "name exactly one sensitive column; 2 were named."),
        (
            ("--sensitive", "age", "--prior", "1/3", "--posterior", "2/3"),
            "to protect each separately, use decoys",
        ),
    ],
)
def test_requests_that_do_not_fit_together_are_refused(desk: Path, options: tuple[str, ...], words: str) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    assert words in refused(desk, *publishing(table, "--drop", "drug", *options))


@pytest.mark.parametrize("command", [["publish", "--out", "release"], ["plan"]], ids=lambda words: words[0])
@pytest.mark.parametrize("is_declared", [False, True])
def test_a_compound_of_decoys_is_refused_with_what_to_do_instead(
    desk: Path, command: list[str], is_declared: bool
) -> None:
    """Before domains are asked for: they would not help."""
    table = write_parquet(desk / "patients.parquet", numbered())
    domains = write_domains(desk, {name: numbered()[name] for name in ("disease", "drug")}) if is_declared else []
    outcome = run(*command, table, "--compound", "disease,drug", *domains, "--group-size", "2", "--json")
    assert outcome.code != 0
    assert outcome.json["error"]["code"] == "columns-not-protected"
    assert "--sensitive" in complaint(outcome, outcome.code)


def test_the_library_publishes_what_the_command_line_does(desk: Path) -> None:
    table = write_parquet(desk / "patients.parquet", numbered())
    succeed(*publishing(table, *WAYS["two columns"], "--unsafe-test-key", TEST_KEY))
    schema = Schema.of(["disease", "age"], keep=["number"], drop=["drug"], public="*")
    publish(
        Request(table, schema=schema, spec=DecoyGroups(2), **ALL_ACCEPTED), desk / "other", unsafe_test_key=TEST_KEY
    )
    assert (desk / "other" / DATA).read_bytes() == (desk / "release" / DATA).read_bytes()


# ------------------------------------------------------------------------------------------------- edited by a stranger


@pytest.fixture
def edited(made: Made, tmp_path: Path) -> Path:
    """A copy of the release, for a stranger to edit."""
    return Path(shutil.copytree(made.folder, tmp_path / "edited"))


def truths(table: Path) -> dict[int, dict[str, Any]]:
    return {row["number"]: row for row in pq.read_table(table).to_pylist()}


one_and_two = pytest.mark.parametrize("way", ["mixed", "random ties", "two columns"])


@one_and_two
def test_true_values_in_the_place_of_decoys_are_noticed(made: Made, edited: Path) -> None:
    """They are in the domain and as frequent as they should be: only the original tells."""
    original = truths(made.table)

    def true(table: Any) -> Any:
        return with_column(table, "disease", [original[each]["disease"] for each in table.column("number").to_pylist()])

    rewrite(edited, DATA, true)
    assert failed(edited) == []
    assert failed(edited, made.table) == ["draws"]


def test_true_values_of_the_second_column_are_noticed(releases: Callable[[str], Made], tmp_path: Path) -> None:
    made = releases("two columns")
    edited = Path(shutil.copytree(made.folder, tmp_path / "edited"))
    original = truths(made.table)

    def true(table: Any) -> Any:
        return with_column(table, "age", [original[each]["age"] for each in table.column("number").to_pylist()])

    rewrite(edited, DATA, true)
    assert failed(edited, made.table) == ["draws"]


@one_and_two
def test_values_that_are_shuffled_among_the_records_are_noticed(made: Made, edited: Path) -> None:
    def shuffled(table: Any) -> Any:
        values = table.column("disease").to_pylist()
        random.Random(1).shuffle(values)
        return with_column(table, "disease", values)

    rewrite(edited, DATA, shuffled)
    assert failed(edited) == []
    assert failed(edited, made.table) == ["draws"]


@one_and_two
def test_two_values_that_are_swapped_are_noticed(made: Made, edited: Path) -> None:
    swap = {"flu": "gout", "gout": "flu"}

    def swapped(table: Any) -> Any:
        return with_column(table, "disease", [swap.get(each, each) for each in table.column("disease").to_pylist()])

    rewrite(edited, DATA, swapped)
    assert failed(edited, made.table) == ["draws"]


@pytest.mark.parametrize("way", ["mixed"])
def test_a_value_that_is_published_far_too_often_is_noticed_without_the_original(made: Made, edited: Path) -> None:
    rewrite(edited, DATA, lambda table: with_column(table, "disease", ["flu"] * 700 + ["cold"] * 500))
    assert "guarantee" in failed(edited)


@pytest.mark.parametrize("way", ["mixed", "two columns"])
def test_a_value_outside_the_domain_is_noticed(made: Made, edited: Path) -> None:
    rewrite(edited, DATA, lambda table: with_cell(table, "disease", 3, "plague"))
    assert failed_alone(edited) == ["domain"]


@pytest.mark.parametrize("way", ["mixed"])
def test_larger_groups_than_there_were_are_noticed(made: Made, edited: Path) -> None:
    """With groups of nine no value could have been as frequent."""
    edit_design(edited, lambda design: design.update(group_size=9))
    assert failed(edited) == ["guarantee"]
    assert {"guarantee", "draws", "posteriors"} <= set(failed(edited, made.table))


@pytest.mark.parametrize("way", ["mixed"])
@pytest.mark.parametrize(
    "change",
    [{"group_size": 1}, {"group_size": 11}, {"groups": "magic"}, {"groups": None}, {"domain": ["flu", "flu", "cold"]}],
    ids=str,
)
def test_a_design_that_no_plan_made_is_refused(made: Made, edited: Path, desk: Path, change: dict[str, Any]) -> None:
    edit_design(edited, lambda design: design.update(change))
    refused(desk, "query", edited, "SELECT COUNT(*) FROM release WHERE disease = 'flu'")
    assert run("verify", edited).code != 0


def test_the_wrong_original_is_noticed(releases: Callable[[str], Made], desk: Path) -> None:
    columns = numbered()
    columns["disease"] = [value or "flu" for value in reversed(columns["disease"])]
    other = write_parquet(desk / "other.parquet", columns)
    assert "draws" in failed(releases("mixed").folder, other)
