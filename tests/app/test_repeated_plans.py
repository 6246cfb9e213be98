"""Plans repeat: the same request shows the same numbers, and a plan file shows those of its release."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED
from command_line import run, succeed
from releases import known_key
from sfumato import BreachBound, Request, Schema, compare, plan, publish
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Rewrite
from sfumato._publish import publication
from sfumato._publish.publication_plan import plan_counts
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers import planned_exposure
from sfumato.errors import ReleaseFormatError

PERSONS, ROWS_EACH = 150, 3


def visits(seed: int = 1) -> pa.Table:
    """Each person has several rows on the same day, so chance decides which is the first."""
    chance = random.Random(seed)
    rows = PERSONS * ROWS_EACH
    return pa.table(
        {
            "person": [row // ROWS_EACH for row in range(rows)],
            "day": [1] * rows,
            "ward": chance.choices([f"ward {number}" for number in range(40)], k=rows),
            "sex": chance.choices("FM", k=rows),
            "disease": chance.choices(["flu", "cold", "HIV", "gout"], k=rows),
        }
    )


def asking(table: Any) -> Request:
    schema = Schema.of("disease", person="person", drop=["day"], one_row="first:day", public="*")
    return Request(table, schema=schema, spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED)


def describe(planned: Any) -> tuple[Any, ...]:
    """All numbers that depend on which rows are published, or on what is drawn for them."""
    notices = [(notice.code, notice.numbers) for notice in planned.notices if notice.code != "key-not-kept"]
    return planned.uniqueness, planned.exposures, notices


def test_same_request_gives_the_same_plan() -> None:
    first, again = (plan(asking(visits())) for _ in range(2))
    assert describe(first) == describe(again)
    assert first.column_predictions == again.column_predictions


def test_ties_differ_by_key_so_a_plan_could_differ(tmp_path: Path) -> None:
    """The twin of the tests here: another key chooses other rows of a person."""
    kept = [tmp_path / f"{number}.plan" for number in range(2)]
    for file in kept:
        publish(asking(visits()), tmp_path / file.stem, plan_file=file)
    one, other = (plan(asking(visits()), plan_file=file) for file in kept)
    assert one.uniqueness != other.uniqueness
    assert one.exposures != other.exposures


def test_plan_with_a_plan_file_is_that_of_its_release(tmp_path: Path) -> None:
    kept = tmp_path / "private.plan"
    published = publish(asking(visits()), tmp_path / "release", plan_file=kept)
    content = kept.read_bytes()
    planned = plan(asking(visits()), plan_file=kept)
    assert (planned.uniqueness, planned.exposures) == (published.uniqueness, published.exposures)
    assert describe(plan(asking(visits()))) != describe(planned)
    assert kept.read_bytes() == content


def test_plan_file_that_does_not_exist_yet_is_not_made(tmp_path: Path) -> None:
    kept = tmp_path / "private.plan"
    assert describe(plan(asking(visits()), plan_file=kept)) == describe(plan(asking(visits())))
    kept.touch(mode=0o600)  # a publication that was killed leaves it empty
    assert describe(plan(asking(visits()), plan_file=kept)) == describe(plan(asking(visits())))
    assert kept.read_bytes() == b""


def test_plan_refuses_a_plan_file_that_publish_refuses(tmp_path: Path) -> None:
    kept = tmp_path / "private.plan"
    publish(asking(visits()), tmp_path / "release", plan_file=kept)
    other_request = Request(
        visits(),
        schema=Schema.of("disease", person="person", one_row="random", public="*"),
        spec=BreachBound("1/10", "1/2"),
        **ALL_ACCEPTED,
    )
    for request in (asking(visits(seed=2)), other_request):
        with pytest.raises(ReleaseFormatError) as planning:
            plan(request, plan_file=kept)
        with pytest.raises(ReleaseFormatError) as publishing:
            publish(request, tmp_path / "other", plan_file=kept)
        assert str(planning.value) == str(publishing.value)


@pytest.mark.slow
def test_comparison_repeats_and_is_of_the_rows_of_the_plan(tmp_path: Path) -> None:
    kept = tmp_path / "private.plan"
    publish(asking(visits()), tmp_path / "release", plan_file=kept)

    def measure(**options: Any) -> list[Any]:
        compared = compare(asking(visits()), **options)
        return [(contender.mechanism.name, dict(contender.attacks)) for contender in compared.contenders]

    assert measure() == measure()
    assert measure() != measure(plan_file=kept)
    assert measure(plan_file=kept) == measure(plan_file=kept)
    assert measure() != measure(seed=1)


def test_plan_of_counts_repeats() -> None:
    histogram = Histogram.of(["flu", "cold", "HIV", "gout"], [500, 300, 150, 50])
    for mechanism in ("auto", "small-domain"):
        one, other = (plan_counts(histogram, BreachBound("1/10", "1/2"), mechanism).choice for _ in range(2))
        assert one.digest == other.digest


# ------------------------------------------------------------------------------------------------------- command line


@pytest.fixture
def table(desk: Path) -> Path:
    pq.write_table(visits(), desk / "visits.parquet")
    return desk / "visits.parquet"


OPTIONS = ("--sensitive", "disease", "--person", "person", "--drop", "day", "--one-row", "first:day")
BOUND = ("--prior", "1/10", "--posterior", "1/2")


def read_plan(*arguments: Any) -> Mapping[str, Any]:
    document: Mapping[str, Any] = succeed("plan", *arguments, "--json").json
    return document


def test_commands_plan_the_same_and_with_a_plan_file_what_they_publish(desk: Path, table: Path) -> None:
    asked = (table, *OPTIONS, *BOUND)
    published = succeed("publish", *asked, "--out", "release", "--plan-file", "private.plan", "--json").json
    fresh, planned = read_plan(*asked), read_plan(*asked, "--plan-file", "private.plan")
    assert fresh == read_plan(*asked)
    assert planned["uniqueness"] == published["uniqueness"]
    assert planned["exposures"] == published["exposures"] != fresh["exposures"]


def test_plan_takes_the_plan_file_of_a_request_file(desk: Path, table: Path) -> None:
    asked = (table, *OPTIONS, *BOUND)
    succeed("publish", *asked, "--out", "release", "--plan-file", "private.plan")
    (desk / "request.toml").write_text(
        '[table]\npath = "visits.parquet"\nsensitive = ["disease"]\nperson = "person"\ndrop = ["day"]\n'
        'one_row = "first:day"\n[protection]\nprior = "1/10"\nposterior = "1/2"\n[output]\nplan_file = "private.plan"\n'
    )
    assert read_plan("request.toml")["exposures"] == read_plan(*asked, "--plan-file", "private.plan")["exposures"]


def test_plan_command_refuses_the_plan_file_of_another_table(desk: Path, table: Path) -> None:
    asked = (*OPTIONS, *BOUND, "--plan-file", "private.plan")
    succeed("publish", table, *asked, "--out", "release")
    pq.write_table(visits(seed=2), desk / "other.parquet")
    outcome = run("plan", desk / "other.parquet", *asked, "--json")
    assert outcome.json["error"]["kind"] == "release-format"


# ------------------------------------------------------------------------------------------------------------ attacks


def test_repeated_release_shows_the_same_attacks(tmp_path: Path) -> None:
    kept = tmp_path / "private.plan"
    first, again = (publish(asking(visits()), tmp_path / name, plan_file=kept).exposures for name in ("one", "two"))
    other = publish(asking(visits()), tmp_path / "three", plan_file=tmp_path / "other.plan").exposures
    assert first == again != other
    assert any(attack.with_release is not None for attack in first)


def test_attacks_share_no_draw_with_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subkeys: dict[bytes, set[bytes]] = {}
    derive = Draws._derive_subkey

    def record(self: Draws, purpose: str) -> bytes:
        subkey = derive(self, purpose)
        subkeys.setdefault(self.key, set()).add(subkey)
        return subkey

    keys: dict[str, bytes] = {}
    draw = planned_exposure.draw_published_values

    def draw_for_attacks(chosen: Any, sensitive: Any, codes: Any, draws: Draws) -> Any:
        keys["attacks"] = draws.key
        return draw(chosen, sensitive, codes, draws)

    def make_rewrite(*arguments: Any) -> Rewrite:
        rewrite = Rewrite(*arguments)
        keys["release"] = rewrite.draws.key
        return rewrite

    monkeypatch.setattr(Draws, "_derive_subkey", record)
    monkeypatch.setattr(planned_exposure, "draw_published_values", draw_for_attacks)
    monkeypatch.setattr(publication, "Rewrite", make_rewrite)
    publish(asking(visits()), tmp_path / "release", unsafe_test_key=known_key(1))
    assert subkeys[keys["attacks"]]
    assert subkeys[keys["release"]]
    assert subkeys[keys["attacks"]].isdisjoint(subkeys[keys["release"]])


def test_planning_key_marks_what_it_draws_as_unfit_to_publish() -> None:
    draws = Draws.for_planning()
    assert draws.is_test
    assert draws.separate("attacks").is_test
    assert draws.bind_to_table("table").is_test
    assert draws == Draws.for_planning() != Draws.unsafe_test_key(draws.separate("attacks").key.hex())
