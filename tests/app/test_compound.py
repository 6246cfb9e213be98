"""Several columns protected as one: what is published of them, how they are asked for, and what is refused."""

from __future__ import annotations

import datetime
import functools
import itertools
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from command_line import TEST_KEY, content, run, succeed, write_parquet
from protected_tables import BOUND, EXAMPLE, SMALL_DOMAIN, bounds_file, readme_count, refused, spread, write_domains
from refusals import refuses
from selection import examples
from sfumato import Release, Request, Schema, plan, publish
from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._verify.against_original import verify
from sfumato._verify.distributions.reference_distribution import ValueRetention
from sfumato._verify.prepublication_checks import check_parts, compute_part_posteriors
from sfumato.errors import InfeasibleError, QueryError, SchemaError
from sfumato.mechanisms._randomized_response import small_domain
from slow_counts import SlowRelease, Test, everything

ROLES = ("--compound", "disease,drug")
DOMAINS = {"disease": ["asthma", "flu", "it's"], "drug": ["none", "pill", "tea", "x / y"]}

WAYS: Mapping[str, tuple[str, ...]] = {
    "uniform": ("--mechanism", "uniform", *BOUND),
    "subset": ("--mechanism", "subset", *BOUND),
    "fine-grain": ("--mechanism", "fine-grain", "--tolerance", "3", "--objective", "aggregate"),
    "harmonic": ("--mechanism", "harmonic", "--tolerance", "3"),
    "small-domain": (
        *("--mechanism", "small-domain", "--prior", "1/5", "--posterior", "1/2"),
        *("--min-cell", "0", "--accept-marginal-prior=made up"),
    ),
}
"""Mechanisms for compounds. For small domains the prior is below the share of every part, so no part is protected."""


def two_columns() -> dict[str, list[Any]]:
    """Half of the combinations of the declared domains occur, each of them seldom, and their parts more often."""
    chance = random.Random(2)
    pairs = itertools.product(("asthma", "flu", "it's"), ("pill", "tea"))
    held = [pair for pair, count in zip(pairs, (130, 120, 110, 110, 125, 105), strict=True) for _ in range(count)]
    chance.shuffle(held)
    return {
        "sex": chance.choices("FM", k=700),
        "disease": [disease for disease, _ in held],
        "age": chance.choices((30, 40, None), k=700),
        "drug": [drug for _, drug in held],
    }


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Releases of all ways, each made once."""
    folder = tmp_path_factory.mktemp("compound")
    table = write_parquet(folder / "table.parquet", two_columns())
    domains = write_domains(folder, DOMAINS)

    @functools.cache
    def release(way: str) -> Path:
        succeed(*("publish", table, "--out", folder / way, *ROLES, *WAYS[way], *domains, "--unsafe-test-key", TEST_KEY))
        return folder / way

    return release


@pytest.fixture
def made(releases: Callable[[str], Path], way: str) -> Path:
    """The release of the way that a test is about."""
    return releases(way)


every_way = pytest.mark.parametrize("way", WAYS)


# -------------------------------------------------------------------------------------------------------- what is there


@every_way
def test_domain_has_all_combinations_of_the_declared_values(made: Path) -> None:
    slow = SlowRelease(made)
    assert slow.domain == list(itertools.product(*DOMAINS.values()))
    assert slow.ours["domain_declared"] is True


@every_way
def test_a_release_names_the_compound_and_took_no_combination_from_the_table(made: Path) -> None:
    found = succeed("info", made, "--json").json
    assert found["sensitive"] == "disease + drug"
    assert found["public"] == ["sex", "age"]
    assert not any("taken from the table" in detail for detail in found["statement"]["details"])
    assert "taken from the table" not in (made / "README.md").read_text(encoding="utf-8")


def test_declared_combinations_can_be_planned(desk: Path) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    succeed("plan", table, *ROLES, *BOUND, *write_domains(desk, DOMAINS))


@every_way
def test_release_of_a_compound_passes_beside_its_original(made: Path) -> None:
    found = verify(made, made.parent / "table.parquet")
    assert [check.name for check in found.checks if not check.has_passed] == ["fitness"]


@pytest.mark.parametrize(
    ("way", "columns"),
    [
        ("uniform", ["sex", "disease", "age", "drug"]),
        ("fine-grain", ["sex", "disease", "age", "drug"]),
        ("subset", ["sex", "disease + drug", "age"]),
        ("small-domain", ["sex", "disease", "age", "drug", "cell"]),
    ],
)
def test_columns_stand_where_they_stood(made: Path, columns: list[str]) -> None:
    slow = SlowRelease(made)
    assert list(slow.rows[0]) == columns
    assert "cell" not in columns or len({row["cell"] for row in slow.rows}) > 1


# ------------------------------------------------------------------------------------------------------------ questions


CONDITIONS: Mapping[str, tuple[Test, Test]] = {
    "disease = 'it''s'": (lambda each: each["disease"] == "it's", everything),
    "drug = 'tea' AND sex = 'F'": (lambda each: each["drug"] == "tea", lambda row: row["sex"] == "F"),
    "disease <> 'flu' AND drug = 'pill' AND age IS NULL": (
        lambda each: each["disease"] != "flu" and each["drug"] == "pill",
        lambda row: row["age"] is None,
    ),
    "(disease = 'flu' OR drug LIKE 'p%') AND age > 30": (
        lambda each: each["disease"] == "flu" or each["drug"].startswith("p"),
        lambda row: row["age"] is not None and row["age"] > 30,
    ),
}


@every_way
@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_column_can_be_asked_for(made: Path, condition: str) -> None:
    found = Release.open(made).count(where=condition)
    assert found.value == pytest.approx(float(SlowRelease(made).count(*CONDITIONS[condition])), abs=1e-6)


@every_way
@pytest.mark.parametrize("groups", [["drug"], ["sex", "drug", "disease"]], ids=str)
def test_each_column_can_be_grouped_by(made: Path, groups: list[str]) -> None:
    names = ", ".join(groups)
    rows = Release.open(made).sql(f"SELECT {names}, COUNT(*) FROM release WHERE disease <> 'flu' GROUP BY {names}").rows
    slow, expected = SlowRelease(made), dict[tuple[Any, ...], float]()
    for sex in ("F", "M"):
        for (disease, drug), count in slow.counts(lambda row, sex=sex: row["sex"] == sex).items():
            if disease != "flu":
                key = tuple({"sex": sex, "disease": disease, "drug": drug}[name] for name in groups)
                expected[key] = expected.get(key, 0.0) + float(count)
    assert {tuple(row[name] for name in groups): row["n"].value for row in rows} == pytest.approx(expected, abs=1e-6)


@every_way
def test_answers_for_machines_have_a_column_for_each_part(releases: Callable[[str], Path], way: str) -> None:
    sql = "SELECT disease AS d, drug, COUNT(*) AS how_many FROM release GROUP BY drug, disease"
    made = releases(way)
    found = succeed("query", made, sql, "--json").json
    assert found["columns"][:6] == ["d", "drug", "how_many", "how_many_se", "how_many_low", "how_many_high"]
    expected = {value: float(count) for value, count in SlowRelease(made).counts().items()}
    assert {(row["d"], row["drug"]): row["how_many"] for row in found["rows"]} == pytest.approx(expected, abs=1e-6)
    assert sum(expected.values()) == pytest.approx(700)


@every_way
def test_value_of_a_compound_is_a_tuple(made: Path) -> None:
    release = Release.open(made)
    expected = SlowRelease(made).counts()["it's", "tea"]
    assert release.count(("it's", "tea")).value == pytest.approx(float(expected), abs=1e-6)
    for value in ("it's", ("it's",)):
        with refuses(QueryError, "missing-parts", column="disease + drug"):
            release.count(value)
    with refuses(QueryError, "unknown-value", column="disease + drug"):
        release.count(("it's", "poison"))


@every_way
def test_compound_itself_is_no_column_to_ask_about(desk: Path, releases: Callable[[str], Path], way: str) -> None:
    sentence = refused(desk, "query", releases(way), 'SELECT COUNT(*) FROM release WHERE "disease + drug" = 1')
    assert (
        sentence
        == "the release has no column 'disease + drug'; did you mean 'disease'? It has 'sex', 'age', 'disease', 'drug'."
    )


@every_way
def test_query_in_the_readme_counts_a_combination(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    slow = SlowRelease(Path())
    places = [place for cell in slow.design.get("cells", []) for place in cell["places"]]
    example = slow.domain[min(places, default=0)]
    assert readme_count(Path()) == pytest.approx(float(slow.counts()[example]), abs=1e-6)


# -------------------------------------------------------------------------------------------------- columns of any kind


def three_columns() -> dict[str, list[Any]]:
    chance = random.Random(5)
    return {
        "sex": chance.choices("FM", k=600),
        "age": chance.choices((31, 45, 60, None), k=600),
        "day": chance.choices((datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)), k=600),
        "sick": chance.choices((True, False, None), k=600),
    }


@pytest.mark.slow
@pytest.mark.parametrize("way", ["uniform", "subset", "fine-grain"])
@pytest.mark.parametrize(
    "options",
    [[], ["--nulls", "drop"], ["--ranges", "age=0,50,100"]],
    ids=["missing values", "without missing values", "ranges"],
)
def test_compound_of_three_columns_of_other_types(desk: Path, way: str, options: list[str]) -> None:
    columns = three_columns()
    table = write_parquet(desk / "table.parquet", columns)
    listed = [name for name in ("age", "day", "sick") if f"{name}=0,50,100" not in options]
    dropped = [None] if "drop" in options else []
    domains = write_domains(desk, {name: [value for value in columns[name] if value not in dropped] for name in listed})
    succeed("publish", table, "--out", "release", "--compound", "age,day,sick", *WAYS[way], *options, *domains)
    assert succeed("verify", "release", "--original", table).err == ""
    slow = SlowRelease(desk / "release")
    assert all(None not in value for value in slow.domain) is ("drop" in options)
    rows = Release.open("release").sql("SELECT sick, age, day, COUNT(*) FROM release GROUP BY age, day, sick").rows
    expected = {value: float(count) for value, count in slow.counts().items()}
    found = {(row["age"], row["day"], row["sick"]): row["n"].value for row in rows}
    assert found == pytest.approx(expected, abs=1e-6)
    assert sum(expected.values()) == pytest.approx(len(slow.rows))


def test_compound_in_which_something_is_always_missing_can_be_published(desk: Path) -> None:
    columns = {"sex": ["F", "M", "M"] * 200, "a": ["x", "y", None, None] * 150, "b": [None, None, "u", "v"] * 150}
    table, domains = write_parquet(desk / "table.parquet", columns), write_domains(desk, columns)
    succeed("publish", table, "--out", "release", "--compound", "a,b", *BOUND, *domains)


@pytest.mark.parametrize(
    "columns",
    [
        {"a": ["x / y", "x", "z", "z"] * 150, "b": ["w", "y / w", "q", "r"] * 150},
        {"a": ["(missing)", None, "z", "z"] * 150, "b": ["w", "w", "q", "r"] * 150},
    ],
    ids=["slash", "missing"],
)
def test_combinations_that_look_alike_are_told_apart(desk: Path, columns: dict[str, list[Any]]) -> None:
    table = write_parquet(desk / "table.parquet", {"sex": ["F", "M"] * 300, **columns})
    domains = write_domains(desk, columns)
    succeed("publish", table, "--out", "release", "--compound", "a,b", *WAYS["fine-grain"], *domains)
    values = [sorted(dict.fromkeys(column), key=lambda value: value is None) for column in columns.values()]
    assert SlowRelease(desk / "release").domain == list(itertools.product(*values))


def test_compound_of_very_many_columns_is_refused(desk: Path) -> None:
    """Fourteen columns of thirty values make 4.8e20 combinations, of which thirty occur."""
    parts = {f"c{number}": [f"v{row % 30}" for row in range(600)] for number in range(14)}
    table = write_parquet(desk / "table.parquet", {"sex": ["F", "M", "M"] * 200, **parts})
    compound = ("--compound", ",".join(parts), *write_domains(desk, parts))
    outcome = run("publish", table, "--out", "release", *compound, *WAYS["uniform"], "--json")
    assert outcome.json["error"]["code"] == "too-many-combinations"
    assert outcome.json["error"]["fields"]["combinations"] == 30**14


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("domains", "undeclared"),
    [([], "disease"), (["drug"], "disease"), (["disease"], "drug")],
    ids=["none", "the second", "the first"],
)
@pytest.mark.parametrize("command", [["publish", "--out", "release"], ["plan"]], ids=lambda words: words[0])
def test_columns_without_declared_values_are_refused(
    desk: Path, command: list[str], domains: list[str], undeclared: str
) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    declared = write_domains(desk, {name: DOMAINS[name] for name in domains})
    before = content(desk)
    outcome = run(*command, table, *ROLES, *BOUND, *declared, "--json")
    assert outcome.code == 2
    assert outcome.json["error"]["code"] == "combinations-undeclared"
    assert outcome.json["error"]["fields"] == {"column": undeclared}
    assert content(desk) == before


def test_columns_without_declared_values_are_refused_by_the_library(desk: Path) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    schema = Schema.of(compound=["disease", "drug"], domains={"disease": DOMAINS["disease"]}, public="*")
    request = Request(table, schema=schema, spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED)
    for use in (plan, lambda request: publish(request, desk / "release")):
        with refuses(SchemaError, "combinations-undeclared", column="drug"):
            use(request)
    assert not (desk / "release").exists()


def test_ranges_declare_a_column_of_numbers(desk: Path) -> None:
    columns = {"sex": ["F", "M"] * 350, "age": [row % 90 for row in range(700)], "drug": two_columns()["drug"]}
    table = write_parquet(desk / "table.parquet", columns)
    domains = write_domains(desk, {"drug": DOMAINS["drug"]})
    asked = ("publish", table, "--out", "release", "--compound", "age,drug", *WAYS["uniform"], *domains)
    outcome = run(*asked, "--json")
    assert outcome.json["error"]["fields"] == {"column": "age"}
    succeed(*asked, "--ranges", "age=0,30,60,90")
    slow = SlowRelease(desk / "release")
    assert len({age for age, _ in slow.domain} - {None}) == 3
    assert {drug for _, drug in slow.domain} == set(DOMAINS["drug"])


def example_table(folder: Path) -> tuple[Path, list[str]]:
    """Example 1 of the small-domain paper ten times over, with a column that is true for its four rarest values.

    Also the options that declare both columns.
    """
    disease = spread(EXAMPLE, 10)
    flag = ["true" if value in ("x7", "x8", "x9", "x10") else "false" for value in disease]
    table = write_parquet(folder / "table.parquet", {"sex": ["F", "M"] * 210, "disease": disease, "rare": flag})
    return table, write_domains(folder, {"disease": disease, "rare": flag})


@pytest.mark.parametrize("more", [[], ["--accept-marginal-prior=made up"], ["--breach-limit", "1"]], ids=str)
def test_cells_that_give_a_single_column_away_are_refused(desk: Path, more: list[str]) -> None:
    """Four of the six values of the second cell are rare ones: 4/15 and the one that is kept make 13/15."""
    table, domains = example_table(desk)
    asked = [*SMALL_DOMAIN, *domains, "--as-published", "small-domain", "--plan-file", "plan.json", *more]
    sentence = refused(desk, "publish", table, "--out", "release", "--compound", "disease,rare", *asked)
    assert sentence == (
        "one value of column 'rare' alone could be inferred with a confidence of 13/15 (about 0.867), above 2/3. This "
        "mechanism protects combinations, but not the single columns. Choose --mechanism uniform or "
        "--mechanism subset, which cover every statement."
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", ["uniform", "subset"])
def test_mechanisms_for_every_statement_take_that_compound(desk: Path, way: str) -> None:
    table, domains = example_table(desk)
    succeed("publish", table, "--out", "release", "--compound", "disease,rare", *WAYS[way], *domains)
    assert succeed("verify", "release", "--original", table).err == ""


def test_column_is_checked_by_the_plan_itself() -> None:
    """A record is `rare` with 2/21 before, and with 13/15 after it was seen as one of the second cell's rare values."""
    domain = [(f"x{number}", number > 6) for number in range(1, 11)]
    bound, paper = BreachBound("1/3", "2/3"), small_domain.Options(small_domain.Merge.PAPER)
    options = {"small-domain": paper}
    chosen = choose(
        Histogram.of(domain, EXAMPLE), bound, Draws.unsafe_test_key(TEST_KEY), "small-domain", options=options
    )
    with refuses(InfeasibleError, "part-above-bound", column="rare", posterior="13/15", limit="2/3") as caught:
        check_parts(chosen, bound, ["disease", "rare"])
    assert caught.value.sentence_with_values.startswith("'True' of column 'rare' alone could ")
    rarer = BreachBound("1/11", "2/3")  # 2/21 is above 1/11: nothing is asked for that share
    check_parts(chosen, rarer, ["disease", "rare"])


@st.composite
def cells(draw: st.DrawFn) -> list[ValueRetention]:
    """A cell of combinations of two columns with one retention, or one for each; drawn evenly, or by some law."""
    values = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=2, max_size=7, unique=True))
    one = draw(st.fractions(0, Fraction(9, 10), max_denominator=20))
    retentions = draw(st.sampled_from([st.just(one), st.fractions(0, Fraction(9, 10), max_denominator=20)]))
    weights = draw(st.lists(st.integers(0, 5), min_size=len(values), max_size=len(values)))
    drawn = [Fraction(each, sum(weights)) for each in weights] if any(weights) else [None] * len(values)
    return [
        ValueRetention(value, draw(st.integers(1, 20)), draw(retentions), each)
        for value, each in zip(values, drawn, strict=True)
    ]


NEVER_SHOWN = ValueRetention(("b", 0), 1, Fraction(0), Fraction(0))


@settings(max_examples=examples(60))
@example([ValueRetention(("a", 0), 1, Fraction(1, 10), Fraction(1)), NEVER_SHOWN])
@given(cells())
def test_posterior_of_a_column_is_that_of_bayes_rule(cell: list[ValueRetention]) -> None:
    brute: dict[Any, Fraction] = {}
    for seen in cell:
        drawn = Fraction(1, len(cell)) if seen.draw_chance is None else seen.draw_chance
        chances = [entry.count * ((entry is seen) * entry.retention + (1 - entry.retention) * drawn) for entry in cell]
        if not any(chances):  # it is never shown
            continue
        for part in {entry.value[0] for entry in cell}:  # type: ignore[index]
            mine = sum(each for each, entry in zip(chances, cell, strict=True) if entry.value[0] == part)  # type: ignore[index]
            brute[part] = max(brute.get(part, Fraction(0)), Fraction(mine) / sum(chances))
    assert dict(compute_part_posteriors(cell, 0)) == brute


def test_bounds_for_combinations_are_refused(desk: Path) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    bounds, domains = bounds_file(desk, {"flu / tea": ("1/5", "1/2")}), write_domains(desk, DOMAINS)
    sentence = refused(desk, "publish", table, "--out", "release", *ROLES, *domains, "--bounds", bounds)
    assert sentence == (
        "bounds for combinations do not protect the single columns. Use a tolerance "
        "(--tolerance), or one bound (--prior with --posterior), which covers every statement."
    )


def test_lists_of_combinations_are_refused(desk: Path) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    options = (*WAYS["subset"], *write_domains(desk, DOMAINS), "--subset-form", "list")
    sentence = refused(desk, "publish", table, "--out", "release", *ROLES, *options)
    assert sentence == "sets of several columns are written as bits; remove --subset-form list."


@pytest.mark.slow
def test_a_nearly_unique_column_is_refused_and_can_be_confirmed(desk: Path) -> None:
    columns = {"sex": ["F", "M"] * 100, "a": [f"x{row}" for row in range(200)], "b": list(range(5)) * 40}
    table = write_parquet(desk / "table.parquet", columns)
    domains = write_domains(desk, {name: columns[name] for name in "ab"})
    asked = ["publish", table, "--out", "release", "--compound", "a,b", *BOUND, *domains]
    outcome = run(*asked, "--json")
    assert outcome.json["error"]["code"] == "sensitive-identifier"
    assert outcome.json["error"]["fields"]["column"] == "a"
    succeed(*asked, "--keep", "a")


def test_combinations_of_one_person_each_can_be_published(desk: Path) -> None:
    """The release lists all combinations of the declared values, so it does not show which ones occur."""
    columns = {"sex": ["F", "M"] * 100, "a": list(range(20)) * 10, "b": [row // 20 for row in range(200)]}
    table = write_parquet(desk / "table.parquet", columns)
    domains = write_domains(desk, {"a": range(21), "b": range(10)})
    succeed("publish", table, "--out", "release", "--compound", "a,b", *BOUND, *domains)
    assert len(SlowRelease(desk / "release").domain) == 21 * 10


@pytest.mark.parametrize(
    ("compound", "words"),
    [
        ("disease", "a compound needs at least two different columns, such as disease,drug."),
        ("disease,disease", "a compound needs at least two different columns, such as disease,drug."),
        ("disease,nothing", "the table has no column 'nothing'; it has 'sex', 'disease', 'age', 'drug'."),
        ("disease,", "the table has no column ''; it has 'sex', 'disease', 'age', 'drug'."),
        ("", "the table has no column ''; it has 'sex', 'disease', 'age', 'drug'."),
        (
            "sex,disease,age,drug",
            "there would be no public column to publish beside the sensitive column; keep at least one public column.",
        ),
    ],
)
def test_compound_that_is_none_is_refused(desk: Path, compound: str, words: str) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    for command in (["publish", table, "--out", "release"], ["plan", table]):
        assert refused(desk, *command, "--compound", compound, *BOUND).startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sensitive", "disease"], "--sensitive and --compound were both given; name all columns to protect in"),
        (["--drop", "drug"], "column 'drug' cannot be both sensitive and dropped; give it one role."),
        (["--identifier", "disease"], "column 'disease' cannot be both sensitive and identifier; give it one role."),
    ],
)
def test_column_of_a_compound_has_no_other_role(desk: Path, options: list[str], words: str) -> None:
    table = write_parquet(desk / "table.parquet", two_columns())
    assert refused(desk, "publish", table, "--out", "release", *ROLES, *BOUND, *options).startswith(words)


@pytest.mark.parametrize(
    "name",
    [
        "disease + drug",
        "Disease + Drug",
    ],
)
def test_column_named_as_the_compound_is_refused(desk: Path, name: str) -> None:
    table = write_parquet(desk / "table.parquet", {**two_columns(), name: ["a", "b"] * 350})
    sentence = refused(desk, "publish", table, "--out", "release", *ROLES, *WAYS["subset"])
    assert sentence == (
        "the table has a column 'disease + drug', which is the joint name of the sensitive columns; rename it."
    )


def test_name_of_a_column_with_a_comma_is_quoted_in_a_compound(desk: Path) -> None:
    columns = two_columns()
    table = write_parquet(
        desk / "table.parquet", {"sex": columns["sex"], "a,b": columns["disease"], "c": columns["drug"]}
    )
    domains = write_domains(desk, {"a,b": DOMAINS["disease"], "c": DOMAINS["drug"]})
    succeed("publish", table, "--out", "release", "--compound", '"a,b",c', *BOUND, *domains)
    assert SlowRelease(desk / "release").names == ["a,b", "c"]
