"""What attackers learn who also know public columns: told to the holder, and a stop where the promise ends."""

from __future__ import annotations

import random
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED, give_reasons
from command_line import list_stops, succeed, write_parquet
from protected_tables import BOUND, EXAMPLE, SMALL_DOMAIN, WAYS, patients, spread
from selection import examples
from sfumato import publish
from sfumato._publish import publication_plan
from sfumato._publish.publication_plan import plan
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato._request.warnings import NoticeWarning
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._randomized_response import small_domain
from slow_beliefs import beliefs, right

Cells = Sequence[Mapping[Any, tuple[int, Fraction]]]
"""For each value of each cell, how many records of it are there, and their retention."""

Bounds = Mapping[Any, tuple[Fraction, Fraction]]
"""The prior and the posterior of each protected value."""

NUMBERED = tuple(zip("pqrstuvwxyzabc", (1, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53), strict=True))
"""Columns of which any two identify nearly every record."""

THIRDS = (Fraction(1, 3), Fraction(2, 3))

# ------------------------------------------------------------------------------------------------------- by brute force


def brute_exposure(cells: Cells, rows: Sequence[tuple[Any, Any]], bounds: Bounds) -> tuple[Fraction, Fraction]:
    """The worst belief and the share of breached records, group by group and symbol by symbol.

    A record of x is in a cell with the chance that the cell has of the records of x, and is shown there as y. Whoever
    knows its group gives x a chance in proportion to the records of the group that hold x.
    """
    totals = Counter[Any]()
    for cell in cells:
        totals.update({value: count for value, (count, _) in cell.items()})
    worst, breached = Fraction(0), Fraction(0)
    for group in {group for group, _ in rows}:
        held = Counter(value for each, value in rows if each == group)
        size = sum(held.values())
        limits = {value: high for value, (low, high) in bounds.items() if Fraction(held[value], size) <= low}
        for cell in cells:
            for shown in cell:
                joint = {
                    true: Fraction(held[true] * count, totals[true])
                    * ((true == shown) * retention + (1 - retention) / len(cell))
                    for true, (count, retention) in cell.items()
                }
                total = sum(joint.values())
                believed = {true: joint[true] / total for true in cell if true in limits and total}
                worst = max([worst, *believed.values()])
                breached += total * any(each > limits[true] for true, each in believed.items())
    return worst, breached / len(rows)


def cells_of(plan: Mapping[str, Any]) -> Cells:
    """The cells of a plan."""
    return [
        {
            value: (count, Fraction(cell["retention"]))
            for value, count in zip(cell["values"], cell["counts"], strict=True)
        }
        for cell in plan["cells"]
    ]


def rare(values: Sequence[Any], bound: tuple[Fraction, Fraction]) -> Bounds:
    """The bound of each value whose share of the table is within the prior."""
    return {value: bound for value, count in Counter(values).items() if Fraction(count, len(values)) <= bound[0]}


def telling(rows: int = 420) -> dict[str, list[Any]]:
    """Example 1 of the paper, ten times over: `sex` tells something of the disease, and `coin` nothing."""
    chance = random.Random(3)
    disease = spread(EXAMPLE, rows // 42)
    return {
        "sex": [chance.choice("FFFM" if value in ("x1", "x7", "x9") else "FMMM") for value in disease],
        "coin": ["HT"[row % 2] for row in range(rows)],
        "disease": disease,
    }


def asking(table: Path, *options: str) -> list[str]:
    return [str(table), "--sensitive", "disease", *SMALL_DOMAIN, "--as-published", "small-domain", *options]


@pytest.fixture
def table(desk: Path) -> Path:
    return write_parquet(desk / "table.parquet", telling())


# ---------------------------------------------------------------------------------------------- what the holder is told


def numbered(values: Sequence[str]) -> list[int]:
    """The places of values among those that occur."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return [places[value] for value in values]


def test_beliefs_without_the_release_are_those_of_the_other_records(table: Path) -> None:
    plan = succeed("plan", *asking(table), "--json").json
    columns = telling()
    held = numbered(columns["disease"])
    assert [(each["who"], each["told"]) for each in plan["exposures"]] == [
        ("one column", ["sex"]),
        ("one column", ["coin"]),
        ("all columns", ["sex", "coin"]),
    ]
    for found in plan["exposures"][:2]:
        believed = beliefs(columns[found["told"][0]], held, 10)
        own = [row[value] for row, value in zip(believed, held, strict=True)]
        assert found["without"]["right"] == pytest.approx(right(believed, held))
        assert found["without"]["mean_belief"] == pytest.approx(sum(own) / 420)
        assert found["without"]["worst_belief"] == pytest.approx(max(own))
        assert found["without"]["above"] == pytest.approx(sum(each > 2 / 3 for each in own) / 420)
        assert (found["about"], found["records"]) == ("disease", 420)


@settings(max_examples=examples(15))
@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("uvwx")), min_size=12, max_size=50))
def test_exposures_of_any_small_table_are_those_of_bayes_rule(rows: list[tuple[str, str]]) -> None:
    """Without the release exactly; with it for all that a uniform release can show, because it is drawn anew."""
    groups, values = [group for group, _ in rows], [value for _, value in rows]
    assume(len(set(values)) > 1)
    held, size = numbered(values), len(set(values))
    schema = Schema.of("held", keep=["held", "group"], public="*")
    found = plan(
        Request(
            pa.table({"group": groups, "held": values}),
            schema=schema,
            spec=BreachBound("1/4", "1/2"),
            mechanism="uniform",
            **ALL_ACCEPTED,
        )
    )
    (exposure,) = found.exposures
    believed = beliefs(groups, held, size)
    assert exposure.without_release.success == pytest.approx(right(believed, held))
    assert exposure.with_release is not None
    retention = found.choice.plan.retention
    law = [[float((1 - retention) / size + retention * (x == y)) for y in range(size)] for x in range(size)]
    after = [
        [row[value] * law[value][shown] / sum(row[x] * law[x][shown] for x in range(size)) for shown in range(size)]
        for row, value in zip(believed, held, strict=True)
    ]
    least, most = sum(map(min, after)) / len(rows), sum(map(max, after)) / len(rows)
    assert least - 1e-9 <= exposure.with_release.mean_belief <= most + 1e-9
    assert min(max(map(min, after)), 1) - 1e-9 <= exposure.with_release.worst_belief <= max(map(max, after)) + 1e-9


@pytest.mark.parametrize(("way", "worst"), [("uniform", 8 / 13), ("subset as bits", 8 / 13), ("small-domain", 2 / 3)])
def test_column_that_tells_nothing_exposes_what_the_bound_allows_and_no_more(
    desk: Path, way: str, worst: float
) -> None:
    """Both halves of the table have the shares of the whole: whoever knows the half knows nothing new.

    Four times the odds lift the largest share, 2/7, to 8/13; cells are made to reach 2/3.
    """
    columns = {"half": ["a"] * 420 + ["b"] * 420, "disease": spread(EXAMPLE, 10) * 2}
    table = write_parquet(desk / "t.parquet", columns)
    (found,) = succeed("plan", table, "--sensitive", "disease", *WAYS[way], "--json").json["exposures"]
    assert found["without"]["right"] == pytest.approx(120 / 420)
    assert found["without"]["above"] == found["with_release"]["well_above"] == 0
    assert worst - 0.05 < found["with_release"]["worst_belief"] < worst + 0.01  # sets hold other values, too
    assert found["with_release"]["right"] > found["without"]["right"]


def test_machines_are_told_how_many_are_alone(desk: Path) -> None:
    columns = {"age": [*range(100), *range(100), *range(200, 220)], "disease": spread([11, 11], 10)}
    table = write_parquet(desk / "t.parquet", columns)
    asked = ["plan", table, "--sensitive", "disease", "--keep", "age", *BOUND, "--json"]
    whole = {"alone": 20 / 220, "below_5": 1.0, "below_11": 1.0, "is_exact": True}
    found = succeed(*asked).json["uniqueness"]
    assert found == {**whole, "before_bins": None, "alone_without": {"age": 0.0}, "records": 220}
    binned = succeed(*asked, "--ranges", "age=0,110,300").json["uniqueness"]
    assert binned["before_bins"] == whole
    assert (binned["alone"], binned["below_5"], binned["below_11"]) == (0, 0, 0)


def ward_patients(rows: int = 600) -> dict[str, list[Any]]:
    """Patients of whom many are unique by age, weight and ward."""
    chance = random.Random(3)
    return {
        "age": [chance.randrange(18, 98) for _ in range(rows)],
        "weight": [chance.randrange(45, 120) for _ in range(rows)],
        "ward": [chance.choice(["surgery", "medicine"]) for _ in range(rows)],
        "disease": [chance.choice("abcdefghijkl") for _ in range(rows)],
    }


def test_plan_proposes_recodings_that_have_the_promised_effect(desk: Path) -> None:
    """What is to be typed is accepted, and leaves the share that was promised."""
    asked = ["plan", write_parquet(desk / "t.parquet", ward_patients()), "--sensitive", "disease", *BOUND]
    found = succeed(*asked, "--json").json
    proposals = found["recodings"]
    assert proposals["records"] == 600
    assert {item["column"] for item in proposals["single"]} == {"age", "weight"}
    assert all(item["alone_before"] == found["uniqueness"]["alone"] for item in proposals["single"])
    for item in proposals["single"][:3]:
        after = succeed(*asked, *shlex.split(item["recommendation"]), "--json").json["uniqueness"]["alone"]
        assert after == item["alone_after"] < item["alone_before"]
    together = [word for item in proposals["combined"] for word in shlex.split(item["recommendation"])]
    last = succeed(*asked, *together, "--json").json
    assert last["uniqueness"]["alone"] == proposals["combined"][-1]["alone_after"]
    words = succeed(*asked).words
    assert "Single changes that make fewer records unique" in words
    assert "Drop more columns" not in words


def test_plan_proposes_nothing_where_hardly_anybody_is_unique(desk: Path) -> None:
    asked = ["plan", write_parquet(desk / "t.parquet", ward_patients()), "--sensitive", "disease", *BOUND]
    coarse = succeed(*asked, "--drop", "weight", "--ranges", "age=0,50,100", "--json").json
    assert (coarse["uniqueness"]["alone"], coarse["recodings"]) == (0, None)


def test_column_with_a_declared_domain_is_only_dropped(desk: Path) -> None:
    """A column has a domain or ranges, not both; where nothing helps, the plan says so."""
    asked = ["plan", write_parquet(desk / "t.parquet", ward_patients()), "--sensitive", "disease", *BOUND]
    (desk / "ages").write_text("".join(f"{age}\n" for age in range(18, 98)))
    found = succeed(
        *asked, "--domain", "age=ages", "--drop", "weight", "--drop", "ward", "--keep", "age", "--json"
    ).json
    assert found["recodings"] is None
    found = succeed(*asked, "--domain", "age=ages", "--json").json["recodings"]
    assert {item["kind"] for item in found["single"] if item["column"] == "age"} == {"drop"}
    rows = 300
    columns = {name: [f"{name}{(place * step) % rows // 2}" for place in range(rows)] for name, step in NUMBERED}
    table = write_parquet(desk / "many.parquet", {**columns, "disease": spread([25] * 12)})
    words = succeed("plan", table, "--sensitive", "disease", *BOUND).words
    assert "Drop more columns" in words


def test_proposals_do_not_follow_the_sensitive_column() -> None:
    columns, chance = ward_patients(), random.Random(4)
    found = []
    for _ in range(2):
        request = Request(
            pa.table(columns), schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/3"), **ALL_ACCEPTED
        )
        found.append(plan(request).recodings)
        columns["disease"] = chance.choices("abcd", k=600)
    assert found[0] is not None
    assert found[0].single
    assert found[0] == found[1]


def test_publishing_searches_no_recodings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It takes time, and whoever publishes has planned."""

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(publication_plan, "search_recodings", fail)
    request = Request(
        pa.table(ward_patients()),
        schema=Schema.of("disease", public="*"),
        spec=BreachBound("1/10", "1/3"),
        **ALL_ACCEPTED,
    )
    with pytest.raises(AssertionError):
        plan(request)
    with pytest.warns(NoticeWarning):
        assert publish(request, tmp_path / "release").uniqueness.after_bins.unique_share > 0.01


@settings(max_examples=examples(25))
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("uvwxyz")), min_size=12, max_size=60),
    minimum=st.sampled_from([0, 8, 20]),
)
def test_breaches_of_any_small_table_are_those_of_bayes_rule(rows: list[tuple[str, str]], minimum: int) -> None:
    source = pa.table({"group": [group for group, _ in rows], "held": [value for _, value in rows]})
    schema, bound = Schema.of("held", keep=["held", "group"], public="*"), BreachBound("1/4", "1/2")
    asked = {"breach_limit": Fraction(0), "accept_disclosing": give_reasons(("group",))}
    options = {"small-domain": small_domain.Options(min_cell=minimum)}
    try:
        found = plan(
            Request(
                source, schema=schema, spec=bound, mechanism="small-domain", options=options, **asked, **ALL_ACCEPTED
            )
        )
    except InfeasibleError:
        return
    bounds = rare([value for _, value in rows], (bound.prior, bound.posterior))
    worst, breached = brute_exposure(cells_of(found.choice.to_json()), rows, bounds)
    stops = [stop for stop in found.stops if stop.code == "bound-breached"]
    assert len(stops) == (breached > 0)
    for stop in stops:
        assert stop.numbers["share"] == pytest.approx(float(breached))
        assert stop.numbers["posterior"] == pytest.approx(float(worst))


# ------------------------------------------------------------------------------------------------------------- the stop


def brute_breach(table: Path, column: str) -> tuple[Fraction, Fraction]:
    """The worst belief, and the share of breached records, by the cells of the plan."""
    plan, columns = succeed("plan", *asking(table), "--json").json, telling()
    assert len(plan["cells"]) > 1
    rows = list(zip(columns[column], columns["disease"], strict=True))
    return brute_exposure(cells_of(plan), rows, rare(columns["disease"], THIRDS))


def test_publishing_stops_where_a_public_column_breaches_too_many(desk: Path, table: Path) -> None:
    asked = asking(table, "--plan-file", "plan.json")
    worst, breached = brute_breach(table, "sex")
    (stop,) = list_stops("publish", "--out", "release", *asked)
    assert (stop["code"], stop["column"]) == ("bound-breached", "sex")
    assert stop["numbers"] == {
        "share": pytest.approx(float(breached)),
        "posterior": pytest.approx(float(worst)),
        "limit": "1/100",
    }
    assert not (desk / "release").exists()
    assert not (desk / "plan.json").exists()
    assert list(desk.glob(".sfumato-*")) == []


def test_stop_leaves_an_existing_release_as_it_is(desk: Path, table: Path) -> None:
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *BOUND)
    assert list_stops("publish", "--out", "release", "--force", *asking(table))
    assert succeed("info", "release", "--json").json["mechanism"] != "small-domain"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["--accept-marginal-prior=made up"], ["--breach-limit", "1"], ["--drop", "sex", "--drop", "coin"]],
    ids=["accepted", "a higher limit", "without the columns"],
)
def test_publishing_goes_on_where_the_holder_has_decided(desk: Path, options: list[str]) -> None:
    columns = {name: values * 2 for name, values in telling().items()}
    table = write_parquet(desk / "table.parquet", {**columns, "half": ["a"] * 420 + ["b"] * 420})
    assert list_stops("publish", "--out", "release", *asking(table))
    found = succeed("publish", "--out", "release", *asking(table, *options), "--json").json
    assert found["mechanism"] == "small-domain"
    known = [each["told"] for each in found["exposures"] if each["who"] == "one column"]
    assert known == [[name] for name in found["public"]]
    assert succeed("verify", "release", "--original", table).err == ""


def test_limit_is_the_largest_share_that_goes_on(desk: Path, table: Path) -> None:
    _, breached = brute_breach(table, "sex")
    below = breached * Fraction(999, 1000)
    assert list_stops("publish", "--out", "release", *asking(table, "--breach-limit", str(below)))
    succeed("publish", "--out", "release", *asking(table, "--breach-limit", str(breached * Fraction(1001, 1000))))


def test_limit_of_nothing_is_met_by_a_column_that_tells_nothing(desk: Path) -> None:
    columns = {"half": ["a"] * 420 + ["b"] * 420, "disease": spread(EXAMPLE, 10) * 2}
    table = write_parquet(desk / "t.parquet", columns)
    succeed("publish", "--out", "release", *asking(table, "--breach-limit", "0"))


def test_automatic_choice_for_the_marginal_prior_stops_too(desk: Path) -> None:
    chance = random.Random(4)
    disease = [f"v{row % 40:02d}" for row in range(4000)]
    columns = {"sex": [chance.choice("FM" if value < "v20" else "M") for value in disease], "disease": disease}
    table = write_parquet(desk / "t.parquet", columns)
    asked = ["publish", table, "--out", "release", "--sensitive", "disease", "--prior", "1/10", "--posterior", "1/2"]
    (stop,) = list_stops(*asked, "--guarantee", "marginal-prior")
    assert (stop["code"], stop["column"]) == ("bound-breached", "sex")
    succeed(*asked)


def test_exposures_are_shown_to_the_holder_and_not_published(desk: Path, table: Path) -> None:
    outcome = succeed("publish", "--out", "release", *asking(table, "--accept-marginal-prior=made up"))
    assert "What an attacker infers from public columns (private, not published)" in outcome.words
    assert "are unique on the public columns" in outcome.words
    for knows in ("sex", "coin", "all 2 columns"):
        assert re.search(rf"│ {knows} +│ [0-9.]+% → [0-9.]+% │", outcome.out)
    for file in ("README.md", "datapackage.json"):
        text = (desk / "release" / file).read_text(encoding="utf-8").lower()
        for word in ("breached", "exposures", "uniqueness", "mean_belief", "right_low", "alone with"):
            assert word not in text


@pytest.mark.slow
def test_of_a_wide_table_the_columns_that_tell_most_are_shown(desk: Path) -> None:
    """What tells something must not drown among fifty columns that tell nothing."""
    chance, rows = random.Random(5), 600
    disease = [chance.choice(["flu", "flu", "cold", "gout", "HIV"]) for _ in range(rows)]
    columns = {f"c{number:02d}": [chance.choice("ab") for _ in range(rows)] for number in range(50)}
    columns["c37"] = [value[0] if chance.random() < 0.4 else "f" for value in disease]
    table = write_parquet(desk / "t.parquet", {**columns, "disease": disease})
    asked = ["plan", table, "--sensitive", "disease", "--prior", "1/3", "--posterior", "3/4"]
    outcome = succeed(*asked)
    told = re.findall(r"│ (c\d\d) +│ [0-9.]+% → [0-9.]+% +│", outcome.out)
    assert len(told) == 12
    assert "c37" in told
    assert "│ all 50 " in outcome.out
    assert "38 further columns disclose no more" in outcome.words
    assert len(succeed(*asked, "--json").json["exposures"]) == 51
    (stop,) = list_stops("publish", *asked[1:], "--out", "release")
    assert (stop["code"], stop["columns"]) == ("column-discloses", ["c37"]), "whoever has a letter has that disease"
    succeed("publish", *asked[1:], "--out", "release", "-q", "--accept-disclosing", "c37=made up")
    shown = succeed("info", "release").words
    assert "11 further columns (query: DESCRIBE release)" in shown
    assert len(succeed("query", "release", "DESCRIBE release", "--json").json["rows"]) == 51


# --------------------------------------------------------------------------------------------- mechanisms for any prior


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith("small-domain")])
def test_mechanisms_for_any_prior_stop_at_what_tells_outright_and_at_nothing_else(desk: Path, way: str) -> None:
    """`chapter` tells the disease outright, which is no fault of the mechanism; `drug` goes with it."""
    columns = patients()
    columns["chapter"] = [disease or "none" for disease in columns["disease"]]
    table = write_parquet(desk / "table.parquet", columns)
    asked = [
        "publish",
        table,
        "--out",
        "release",
        "--sensitive",
        "disease",
        *WAYS[way],
        "--breach-limit",
        "0",
        "--accept-disclosing=drug=made up",
    ]
    found = {stop["code"]: stop["columns"] for stop in list_stops(*asked)}
    assert found == {"looks-sensitive": ["chapter"], "column-discloses": ["chapter"]}
    outcome = succeed(*asked, "--json", "--accept-disclosing", "chapter=made up")
    known = {each["told"][0]: each for each in outcome.json["exposures"] if each["who"] == "one column"}
    assert known.keys() == {"sex", "age", "ward", "drug", "chapter"}
    assert known["chapter"]["without"]["right"] > 0.95
    if not way.startswith(
        ("fine-grain", "harmonic")
    ):  # which promises nothing beyond three times a share that may be tiny
        assert known["sex"]["without"]["above"] == known["sex"]["with_release"]["well_above"] == 0
    assert any("guesses of 'disease' from 'chapter'" in notice for notice in outcome.notices)
