"""Mechanisms and verifiers of other distributions: found by their entry points, refused one by one."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import sfumato
import toy_mechanism as toy
from command_line import BOUND, Outcome, people, run_apart, write_parquet
from refusals import refuses
from sfumato._planning.mechanism_choice import choose
from sfumato._request.belief_bounds import BreachBound
from sfumato._verify.distributions import REFERENCE_DISTRIBUTIONS
from sfumato.errors import SpecError
from sfumato.mechanisms import (
    MECHANISM_GROUP,
    REGISTRY,
    VERIFIER_GROUP,
    Mechanism,
    Registry,
    missing,
    register,
)
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform

TESTS = Path(toy.__file__).parent
SOURCE = Path(sfumato.__file__).parent.parent
BOTH = {MECHANISM_GROUP: {"toy": "toy_mechanism:MECHANISM"}, VERIFIER_GROUP: {"toy": "toy_mechanism:LAW"}}
Groups = dict[str, dict[str, str]]


def installed(folder: Path, groups: Groups, name: str = "sfumato-toy") -> Path:
    """A distribution with these entry points, as an installer leaves it behind."""
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items()) for group, each in groups.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return folder


def with_plugins(folder: Path, *arguments: str | Path) -> Outcome:
    """Run a command in a process in which the distributions of a folder are installed."""
    return run_apart(*arguments, PYTHONPATH=os.pathsep.join(map(str, (folder, TESTS, SOURCE))))


@pytest.fixture
def table(desk: Path) -> Path:
    return write_parquet(desk / "people.parquet", people(3000))


@contextmanager
def found_in(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@pytest.mark.slow
def test_plugin_is_published_queried_and_verified_from_the_command_line(desk: Path, table: Path) -> None:
    folder = installed(desk / "site", BOTH)
    publishing = ("publish", table, "--sensitive", "disease", *BOUND, "--out", "release")
    made = with_plugins(folder, *publishing, "--mechanism", "toy", "--toy-slack", "5", "--plan-file", "plan")
    assert made.code == 0, made.err
    query = "SELECT COUNT(*) FROM release WHERE disease = 'flu'"
    (row,) = with_plugins(folder, "query", "release", query, "--json").json["rows"]
    assert row["n_low"] < row["n"] < row["n_high"]
    verified = with_plugins(folder, "verify", "release", "--original", table, "--json")
    assert verified.code == 0, verified.err
    assert all(each["passed"] for each in verified.json["checks"])
    unknown = run_apart("query", "release", query)  # where the plug-in is not installed
    assert (unknown.code, "'toy'" in unknown.err, "plug-in" in unknown.err) == (2, True, True)


@pytest.mark.slow
def test_plugin_without_a_verifier_is_planned_and_not_published(desk: Path, table: Path) -> None:
    folder = installed(desk / "site", {MECHANISM_GROUP: BOTH[MECHANISM_GROUP]})
    asked = (table, "--sensitive", "disease", *BOUND, "--mechanism", "toy", "--json")
    made = with_plugins(folder, "publish", *asked, "--out", "release")
    assert made.code == 2
    assert (made.json["error"]["kind"], made.json["error"]["fields"]["capability"]) == (
        "missing-capability",
        "Verifier",
    )
    assert not Path("release").exists()
    assert with_plugins(folder, "plan", *asked).code == 0


@pytest.mark.slow
def test_release_is_not_verified_where_its_verifier_is_not_installed(desk: Path, table: Path) -> None:
    both = installed(desk / "both", BOTH)
    asked = ("--sensitive", "disease", *BOUND, "--mechanism", "toy")
    assert with_plugins(both, "publish", table, *asked, "--out", "release").code == 0
    lacking = with_plugins(installed(desk / "one", {MECHANISM_GROUP: BOTH[MECHANISM_GROUP]}), "verify", "release")
    assert lacking.code == 2
    assert VERIFIER_GROUP in lacking.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("broken", "no_such_module_at_all:MECHANISM"),
        ("uniform", "toy_mechanism:MECHANISM"),
        ("toys", "toy_mechanism:MECHANISM"),
        ("law", "toy_mechanism:LAW"),
    ],
    ids=["cannot be imported", "takes a name of ours", "has another name", "is no mechanism"],
)
def test_broken_plugin_is_named_and_leaves_the_others_alone(desk: Path, table: Path, name: str, value: str) -> None:
    folder = installed(desk / "site", {MECHANISM_GROUP: {name: value}}, "some-plugin")
    planned = with_plugins(folder, "plan", table, "--sensitive", "disease", *BOUND, "--json")
    assert planned.code == 0, planned.err
    (said,) = [line for line in planned.notices if "some-plugin" in line]
    assert repr(name) in said
    assert "Traceback" not in planned.err
    if name != "uniform":
        asked = with_plugins(folder, "plan", table, "--sensitive", "disease", *BOUND, "--mechanism", name)
        assert asked.code == 2
        assert "some-plugin" in asked.err.splitlines()[-1]


def test_plugins_are_loaded_when_the_registry_is_first_asked(desk: Path) -> None:
    with found_in(installed(desk / "site", BOTH)):
        registry: Registry[Mechanism] = Registry(MECHANISM_GROUP, Mechanism, {"uniform": uniform.MECHANISM})
        assert list(registry) == ["uniform", "toy"]
        assert (registry["toy"], registry.added_names, registry.broken_plugins) == (toy.MECHANISM, {"toy"}, ())


def test_two_plugins_of_one_name_are_one_and_a_refusal(desk: Path) -> None:
    folder = installed(installed(desk / "site", BOTH, "first"), {MECHANISM_GROUP: BOTH[MECHANISM_GROUP]}, "second")
    with found_in(folder):
        registry: Registry[Mechanism] = Registry(MECHANISM_GROUP, Mechanism, {})
        assert list(registry) == ["toy"]
        (broken,) = registry.broken_plugins
        assert (broken.name, broken.distribution in {"first", "second"}) == ("toy", True)


@pytest.fixture
def registered() -> Iterator[None]:
    register(toy.MECHANISM)
    REFERENCE_DISTRIBUTIONS.register(toy.NAME, toy.LAW)
    yield
    for registry in (REGISTRY, REFERENCE_DISTRIBUTIONS):
        del registry[toy.NAME]


@pytest.mark.usefixtures("registered")
def test_registered_mechanism_is_taken_by_name_only() -> None:
    counts, bound = {"flu": 60, "HIV": 30, "cold": 10}, BreachBound("1/10", "1/2")
    assert choose(counts, bound, mechanism="toy").mechanism is toy.MECHANISM
    alone = choose(counts, bound, rivals=True)
    assert alone.mechanism.name != "toy"
    assert "toy" in {each.mechanism.name for each in alone.alternatives}
    assert not choose(counts, bound).reason.count("toy")
    with refuses(SpecError, "mechanism-not-chosen-automatically", mechanism="toy"):
        choose(counts, bound, options={"toy": toy.Options()})
    assert pickle.loads(pickle.dumps(toy.MECHANISM)) is toy.MECHANISM
    assert "ErrorPrediction" in missing("toy")


@pytest.mark.usefixtures("registered")
def test_name_that_is_taken_and_what_is_no_mechanism_are_refused() -> None:
    for mechanism in (toy.MECHANISM, replace(toy.MECHANISM, name="uniform")):
        with refuses(SpecError, "name-taken", name=mechanism.name):
            register(mechanism)
    with refuses(SpecError, "not-registrable", expected="Mechanism"):
        register(toy)  # type: ignore[arg-type]


def test_name_is_free_again_after_it_was_given_up(registered: None) -> None:
    del REGISTRY[toy.NAME]
    assert toy.NAME not in REGISTRY.added_names
    register(toy.MECHANISM)
