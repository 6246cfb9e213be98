"""A mechanism that src does not know goes all the way: one room, one law, two registry lines, and nothing else."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import toy_mechanism as toy
from accepted import ALL_ACCEPTED
from command_line import people, run, succeed, write_parquet
from refusals import refuses
from sfumato import BreachBound, CountQuery, Histogram, Release, Request, Schema, choose, plan, publish, verify
from sfumato._core.random_draws import Draws
from sfumato._report import make_question_page
from sfumato._verify.distributions import REFERENCE_DISTRIBUTIONS
from sfumato.errors import InternalError, MissingCapabilityError
from sfumato.mechanisms import REGISTRY, missing

BOUND = BreachBound("1/10", "1/2")
FLAGS = ("--prior", "1/10", "--posterior", "1/2")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, toy.NAME, toy.MECHANISM)
    monkeypatch.setitem(REFERENCE_DISTRIBUTIONS, toy.NAME, toy.LAW)


@pytest.fixture
def table(desk: Path) -> Path:
    return write_parquet(desk / "people.parquet", people(3000))


@pytest.fixture
def release(registered: None, table: Path) -> Release:
    request = Request(
        table,
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        mechanism=toy.NAME,
        options={toy.NAME: toy.Options(slack=10)},
        **ALL_ACCEPTED,
    )
    return publish(request, "release", plan_file="plan").release


@pytest.mark.usefixtures("registered")
def test_toy_is_planned_by_name_and_as_a_rival(table: Path) -> None:
    histogram = Histogram.of(["flu", "HIV", "cold"], [60, 30, 10])
    named = choose(histogram, BOUND, Draws.from_fresh_key(), toy.NAME)
    assert named.mechanism is toy.MECHANISM
    assert named.alternatives == ()
    best = choose(histogram, BOUND, Draws.from_fresh_key())
    assert toy.NAME in {each.mechanism.name for each in (best, *best.alternatives)}
    assert toy.NAME in {
        each.mechanism.name
        for each in plan(
            Request(table, schema=Schema.of("disease", public="*"), spec=BOUND, **ALL_ACCEPTED)
        ).choice.alternatives
    }
    unpickled = pickle.loads(pickle.dumps(named))
    assert unpickled.mechanism is toy.MECHANISM
    assert unpickled.plan == named.plan


def test_toy_is_asked_in_a_page_by_the_script_of_its_method(release: Release) -> None:
    page = make_question_page(release)
    assert page.twin.script.read_text(encoding="utf-8") in page.to_html()


def test_toy_is_published_verified_and_repeated(release: Release, table: Path) -> None:
    assert verify(release.path).has_passed
    found = verify(release.path, table)
    assert found.has_passed, found
    assert "draws" in {check.name for check in found.checks}
    request = Request(
        table,
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        mechanism=toy.NAME,
        options={toy.NAME: toy.Options(slack=10)},
        **ALL_ACCEPTED,
    )
    again = publish(request, "again", plan_file="plan").release
    assert (again.folder / "data.parquet").read_bytes() == (release.folder / "data.parquet").read_bytes()


def test_law_of_the_toy_notices_a_release_that_stays_too_often(
    registered: None, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def more(histogram: Histogram, spec: BreachBound, options: toy.Options, draws: Draws, /) -> toy.Plan:
        honest = toy.plan(histogram, spec, options, draws)
        return toy.Plan(honest.histogram, honest.bound, honest.stay + 1, honest.step)

    broken = replace(toy.MECHANISM, plan=more)
    monkeypatch.setitem(REGISTRY, toy.NAME, broken)
    with refuses(InternalError, "release-fails-check", check="guarantee"):
        publish(
            Request(table, schema=Schema.of("disease", public="*"), spec=BOUND, mechanism=toy.NAME, **ALL_ACCEPTED),
            "release",
        )
    assert not Path("release").exists()


def test_toy_is_questioned_one_by_one_and_many_at_once(release: Release) -> None:
    (row,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'F'").rows
    alone = release.count("flu", where="sex = 'F'")
    (together,) = release.count_many([CountQuery({"sex": "F"}, ["flu"])])
    assert row["n"] == alone == together
    assert alone.standard_error is not None
    low, high = alone.interval(0.999999)
    assert low <= 600 <= high
    answers = release.ask_many(["SELECT COUNT(*) FROM release WHERE disease = 'flu'", "SELECT AVG(age) FROM release"])
    assert not any(isinstance(each, Exception) for each in answers)


@pytest.mark.slow
def test_toy_has_its_place_in_every_command(release: Release, table: Path, desk: Path) -> None:
    assert run("publish", "--help").out.count("--toy-slack") == 1
    info = succeed("info", release.path, "--json").json
    assert (info["mechanism"], info["guarantee"]) == ("toy", "any-prior")
    assert "It stays with probability" in " ".join(info["statement"]["details"])
    assert succeed("verify", release.path, "--original", table).code == 0
    planned = succeed("plan", table, "--sensitive", "disease", *FLAGS, "--mechanism", "toy", "--json").json
    assert planned["mechanism"] == "toy"
    assert {"uniform", "subset"} <= {each["mechanism"] for each in planned["alternatives"]}
    succeed(
        "publish", table, "--sensitive", "disease", *FLAGS, "--mechanism", "toy", "--toy-slack", "5", "--out", "two"
    )
    questions = desk / "questions.csv"
    questions.write_text("sql\nSELECT COUNT(*) FROM release WHERE disease = 'flu'\nSELECT COUNT(*) FROM release\n")
    assert len(succeed("query", "two", "--batch", questions, "--json").json["results"]) == 2


def test_mechanism_without_a_verifier_is_not_published(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, toy.NAME, toy.MECHANISM)
    request = Request(table, schema=Schema.of("disease", public="*"), spec=BOUND, mechanism=toy.NAME, **ALL_ACCEPTED)
    with pytest.raises(MissingCapabilityError) as raised:
        publish(request, "release")
    assert (raised.value.mechanism, raised.value.capability) == (toy.NAME, "Verifier")
    assert not Path("release").exists()
    assert "would-be-refused" in {each.code for each in plan(request).notices}


TOY_MISSES = (
    "ErrorPrediction",
    "ReleaseErrorPrediction",
    "PlanExplanation",
    "AttackModel",
    "GroupRisk",
    "Comparability",
    "EstimationWeights",
    "BucketTable",
    "Coarsening",
    "SeveralColumns",
    "CrowdCounts",
    "CrowdAttackModel",
)


@pytest.mark.usefixtures("registered")
def test_core_alone_is_a_mechanism_and_all_else_is_listed_as_missing(table: Path) -> None:
    assert missing(toy.NAME) == TOY_MISSES
    told = plan(
        Request(table, schema=Schema.of("disease", public="*"), spec=BOUND, mechanism=toy.NAME, **ALL_ACCEPTED)
    ).notices
    lacking = [each.numbers["capability"] for each in told if each.code == "capability-missing"]
    assert lacking == ["ErrorPrediction", "PlanExplanation", "AttackModel"]


@pytest.mark.slow
def test_commands_say_which_capability_they_miss(release: Release, table: Path) -> None:
    audited = run("audit", release.path, "--original", table, "--out", "report.html", "--json")
    assert audited.code == 2
    error = audited.json["error"]
    assert (error["kind"], error["fields"]) == ("missing-capability", {"mechanism": "toy", "capability": "AttackModel"})
    assert not Path("report.html").exists()
    compared = succeed("compare", table, "--sensitive", "disease", *FLAGS, "--json").json
    (refused,) = (each for each in compared["mechanisms"] if each["mechanism"] == "toy")
    assert "Comparability" in str(refused)
    planned = succeed("plan", table, "--sensitive", "disease", *FLAGS, "--mechanism", "toy").words
    assert "ErrorPrediction" in planned


def test_page_of_a_mechanism_without_a_script_is_refused(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {name: replace(each, twin=None) for name, each in toy.MECHANISM.estimators.items()}
    monkeypatch.setitem(REGISTRY, toy.NAME, replace(toy.MECHANISM, estimators=silent))
    assert missing(toy.NAME) == (*TOY_MISSES, "PageTwin")
    with pytest.raises(MissingCapabilityError) as raised:
        make_question_page(Release.open(release.path))
    assert raised.value.capability == "PageTwin"


def test_release_of_an_unknown_mechanism_is_refused_by_its_name(desk: Path, table: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(REGISTRY, toy.NAME, toy.MECHANISM)
        patch.setitem(REFERENCE_DISTRIBUTIONS, toy.NAME, toy.LAW)
        publish(
            Request(table, schema=Schema.of("disease", public="*"), spec=BOUND, mechanism=toy.NAME, **ALL_ACCEPTED),
            "release",
        )
    assert "'toy', which this version does not know" in run("info", "release").err
