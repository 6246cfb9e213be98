"""What an attacker learns who also knows a public column: told to the holder, and a stop where the promise ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import succeed, write_parquet
from protected_tables import BOUND, EXAMPLE, SMALL_DOMAIN, WAYS, patients, refused, spread
from selection import examples
from sfumato.errors import InfeasibleError
from sfumato.mechanisms import small_domain
from sfumato.outlook import Request, plan_table
from sfumato.request.schema import Schema
from sfumato.request.spec import BreachBound, Tolerance

Cells = Sequence[Mapping[Any, tuple[int, Fraction]]]
"""For each value of each cell, how many records of it are there, and their retention."""

Bounds = Mapping[Any, tuple[Fraction, Fraction]]
"""The prior and the posterior of each protected value."""

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
    """The cells of a plan; fine-grain has one of all values."""
    if plan["mechanism"] == "fine-grain":
        kept = [Fraction(plan["retention"][value]) for value in plan["values"]]
        return [dict(zip(plan["values"], zip(plan["counts"], kept, strict=True), strict=True))]
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
    return [str(table), "--sensitive", "disease", *SMALL_DOMAIN, "--merge", "paper", *options]


@pytest.fixture
def table(desk: Path) -> Path:
    return write_parquet(desk / "table.parquet", telling())


def test_exposures_of_cells_are_those_of_bayes_rule(table: Path) -> None:
    plan = succeed("plan", *asking(table), "--json").json
    assert len(plan["cells"]) > 1
    columns = telling()
    assert [each["column"] for each in plan["exposures"]] == ["sex", "coin"]
    for found in plan["exposures"]:
        rows = list(zip(columns[found["column"]], columns["disease"], strict=True))
        worst, breached = brute_exposure(cells_of(plan), rows, rare(columns["disease"], THIRDS))
        assert found["worst_posterior"] == pytest.approx(float(worst))
        assert found["breached"] == pytest.approx(float(breached))
    assert plan["exposures"][0]["breached"] > 0.01


def test_column_that_tells_nothing_exposes_what_the_bound_allows_and_no_more(desk: Path) -> None:
    """Both halves of the table have the shares of the whole: whoever knows the half knows nothing new."""
    columns = {"half": ["a"] * 420 + ["b"] * 420, "disease": spread(EXAMPLE, 10) * 2}
    (found,) = succeed("plan", *asking(write_parquet(desk / "t.parquet", columns)), "--json").json["exposures"]
    assert found["breached"] == 0
    assert found["worst_posterior"] == pytest.approx(2 / 3)


@settings(max_examples=examples(25))
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("uvwxyz")), min_size=12, max_size=60),
    minimum=st.sampled_from([0, 8, 20]),
)
def test_exposures_of_any_small_table_are_those_of_bayes_rule(rows: list[tuple[str, str]], minimum: int) -> None:
    source = pa.table({"group": [group for group, _ in rows], "held": [value for _, value in rows]})
    options = {"small-domain": small_domain.Options(min_cell=minimum)}
    schema, bound = Schema.of("held", keep=["held", "group"]), BreachBound("1/4", "1/2")
    try:
        found = plan_table(Request(source, schema, bound, "small-domain", options=options))
    except InfeasibleError:
        return
    bounds = rare([value for _, value in rows], (bound.prior, bound.posterior))
    worst, breached = brute_exposure(cells_of(found.chosen.to_json()), rows, bounds)
    (exposure,) = found.exposures
    assert exposure.worst == pytest.approx(float(worst))
    assert exposure.breached == pytest.approx(float(breached))


# ------------------------------------------------------------------------------------------------------------- the stop


def test_publishing_stops_where_a_public_column_breaches_too_many(desk: Path, table: Path) -> None:
    asked = asking(table, "--plan-file", "plan.json")
    (sex, _) = succeed("plan", *asking(table), "--json").json["exposures"]
    sentence = refused(desk, "publish", "--out", "release", *asked)
    assert sentence == (
        f"whoever knows a person's 'sex' would breach the bound for {sex['breached']:.1%} of the records (up to a "
        f"chance of {sex['worst_posterior']:.2f}), and the limit is 1.00%: the promise of this mechanism covers the "
        "marginal prior only; choose --mechanism subset or uniform, which hold for every prior, drop or coarsen the "
        "column, raise --breach-limit, or go on with --accept-marginal-prior."
    )
    assert not (desk / "release").exists()
    assert not (desk / "plan.json").exists()
    assert list(desk.glob(".sfumato-*")) == []


def test_stop_leaves_an_existing_release_as_it_is(desk: Path, table: Path) -> None:
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *BOUND)
    refused(desk, "publish", "--out", "release", "--force", *asking(table))
    assert succeed("info", "release", "--json").json["mechanism"] != "small-domain"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["--accept-marginal-prior"], ["--breach-limit", "1"], ["--drop", "sex", "--drop", "coin"]],
    ids=["accepted", "a higher limit", "without the columns"],
)
def test_publishing_goes_on_where_the_holder_has_decided(desk: Path, options: list[str]) -> None:
    columns = {name: values * 2 for name, values in telling().items()}
    table = write_parquet(desk / "table.parquet", {**columns, "half": ["a"] * 420 + ["b"] * 420})
    refused(desk, "publish", "--out", "release", *asking(table))
    found = succeed("publish", "--out", "release", *asking(table, *options), "--json").json
    assert found["mechanism"] == "small-domain"
    assert [each["column"] for each in found["exposures"]] == found["public"]
    assert succeed("verify", "release", "--original", table).err == ""


def test_limit_is_the_largest_share_that_goes_on(desk: Path, table: Path) -> None:
    found = succeed("plan", *asking(table), "--json").json["exposures"]
    breached = Fraction(max(each["breached"] for each in found))
    below = breached * Fraction(999, 1000)
    refused(desk, "publish", "--out", "release", *asking(table, "--breach-limit", str(below)))
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
    sentence = refused(desk, *asked, "--guarantee", "marginal-prior")
    assert sentence.startswith("whoever knows a person's 'sex' would breach the bound for ")
    succeed(*asked)


def test_exposures_are_shown_to_the_holder_and_not_published(desk: Path, table: Path) -> None:
    outcome = succeed("publish", "--out", "release", *asking(table, "--accept-marginal-prior"))
    assert "if an attacker also knows a person's value of one public column (private, not published)" in outcome.words
    assert "sex" in outcome.words
    for file in ("README.md", "datapackage.json"):
        text = (desk / "release" / file).read_text(encoding="utf-8")
        assert "breached" not in text
        assert "exposure" not in text


# --------------------------------------------------------------------------------------------- mechanisms for any prior


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith("small-domain")])
def test_mechanisms_for_any_prior_never_stop_and_never_breach(desk: Path, way: str) -> None:
    """`ward` tells the disease outright, which is said in a notice and is no fault of the mechanism."""
    columns = patients()
    columns["ward"] = [disease or "none" for disease in columns["disease"]]
    table = write_parquet(desk / "table.parquet", columns)
    asked = ["--sensitive", "disease", "--drop", "drug", *WAYS[way]]
    outcome = succeed("publish", table, "--out", "release", *asked, "--breach-limit", "0", "--json")
    exposures = {each["column"]: each for each in outcome.json["exposures"]}
    assert exposures.keys() == {"sex", "age", "ward"}
    assert all(each["breached"] == 0 for each in exposures.values())
    assert all(0 <= each["worst_posterior"] <= 1 for each in exposures.values())
    assert any("'ward' nearly tells 'disease'" in notice for notice in outcome.notices)


@settings(max_examples=examples(15))
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("uvwxyz")), min_size=12, max_size=60),
    way=st.sampled_from(["uniform", "subset", "fine-grain"]),
)
def test_worst_belief_under_any_prior_is_within_the_bound(rows: list[tuple[str, str]], way: str) -> None:
    if len({value for _, value in rows}) == 1:
        return
    source = pa.table({"group": [group for group, _ in rows], "held": [value for _, value in rows]})
    schema = Schema.of("held", keep=["held", "group"])
    bound = BreachBound("1/4", "1/2")
    spec = Tolerance("2") if way == "fine-grain" else bound
    (exposure,) = plan_table(Request(source, schema, spec, way)).exposures
    assert exposure.breached == 0
    assert exposure.worst is not None
    assert way == "fine-grain" or exposure.worst <= 1 / 2 + 1e-9


def test_uniform_exposure_is_that_of_bayes_rule(table: Path) -> None:
    plan = succeed("plan", table, "--sensitive", "disease", "--mechanism", "uniform", *BOUND, "--json").json
    columns = telling()
    for found in plan["exposures"]:
        rows = list(zip(columns[found["column"]], columns["disease"], strict=True))
        worst, breached = brute_exposure(cells_of(plan), rows, dict.fromkeys(columns["disease"], THIRDS))
        assert found["worst_posterior"] == pytest.approx(float(worst))
        assert breached == 0


def test_fine_grain_exposure_is_that_of_bayes_rule(table: Path) -> None:
    """A tolerance of 2 lets a belief rise from a share to twice that; of 420 records shares are cut into 42 steps."""
    plan = succeed("plan", table, "--sensitive", "disease", "--tolerance", "2", "--json").json
    columns = telling()
    steps = ((value, 42 * count // 420) for value, count in Counter(columns["disease"]).items())
    shares = {value: Fraction(step, 42) if step else Fraction(1, 10**9) for value, step in steps}
    for found in plan["exposures"]:
        rows = list(zip(columns[found["column"]], columns["disease"], strict=True))
        bounds = {value: (share, 2 * share) for value, share in shares.items() if 2 * share < 1}
        worst, breached = brute_exposure(cells_of(plan), rows, bounds)
        assert found["worst_posterior"] == pytest.approx(float(worst))
        assert breached == 0


def test_subset_exposure_is_that_of_the_worst_set(table: Path) -> None:
    """Beside a value stand those of its group that are rarest: c g / (g (c + beside) + rest)."""
    plan = succeed("plan", table, "--sensitive", "disease", "--mechanism", "subset", *BOUND, "--json").json
    columns, size, factor = telling(), plan["subset_size"], Fraction(plan["amplification"])
    for found in plan["exposures"]:
        worst = Fraction(0)
        for group in set(columns[found["column"]]):
            mine = zip(columns[found["column"]], columns["disease"], strict=True)
            held = Counter(value for each, value in mine if each == group)
            counts = {value: held[value] for value in plan["values"]}
            total = sum(counts.values())
            for value, count in counts.items():
                if 3 * count <= total:
                    others = sorted(counts[other] for other in counts if other != value)
                    inside = count + sum(others[: size - 1])
                    worst = max(worst, count * factor / (inside * factor + total - inside))
        assert found["worst_posterior"] == pytest.approx(float(worst))


def test_publishing_stops_at_a_column_that_is_too_wide_to_be_checked(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.apply.profile.MOST_PAIRS", 10)
    table = write_parquet(desk / "table.parquet", telling())
    options = ("--sensitive", "disease", "--mechanism", "small-domain", *BOUND)
    sentence = refused(desk, "publish", table, "--out", "release", *options)
    assert "has too many values to tell how many records it would breach" in sentence
    assert "--breach-limit" not in sentence
    succeed("publish", table, "--out", "release", *options, "--accept-marginal-prior")
