"""Records of a release are matched with the people of its original by the key, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, REASON
from refusals import refuses
from releases import SENSITIVE, WAYS, accepting, list_domains
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.release import Release
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.schema import Schema
from sfumato._risk.attackers import release_matching
from sfumato._risk.attackers.attack_scenarios import attack_with_frequencies
from sfumato._risk.attackers.attack_setup import make_draws
from sfumato._risk.attackers.release_attacks import audit
from sfumato._risk.attackers.release_matching import MatchedRelease, match_by_key, match_by_likelihood, read_original
from sfumato.errors import ReleaseFormatError, SpecError
from sfumato.mechanisms import REGISTRY

DISEASES = ("asthma", "cold", "flu", "gout")
ROWS = 80


def people(**columns: Any) -> pa.Table:
    """Everybody has a street of his own, and one of four diseases."""
    chance = np.random.default_rng(5)
    held = chance.choice(4, ROWS, p=[0.3, 0.3, 0.2, 0.2])
    return pa.table(
        {"street": chance.permutation(ROWS), SENSITIVE: [DISEASES[each] for each in held], **columns},
    )


def make(table: pa.Table, folder: Path, mechanism: str, schema: Schema | None = None, **asked: Any) -> Path:
    asked = {**WAYS[mechanism].request(mechanism), "accept_exposure": REASON, **asked}
    schema = WAYS[mechanism].schema(schema or Schema.of(SENSITIVE, keep=["street"], public="*"), table)
    out = folder / "release"
    request = Request(table, schema=schema, **asked, **accepting(table, schema), **ALL_ACCEPTED)
    publish(request, out, plan_file=folder / "plan", on_notice=lambda notice: None)
    return out


def found(folder: Path, table: Any) -> MatchedRelease:
    opened = Release.open(folder / "release")
    return match_by_key(opened, read_original(opened, table, folder / "plan"), folder / "plan")


@pytest.mark.parametrize("mechanism", list(REGISTRY))
def test_records_are_those_of_the_people_who_live_in_their_street(tmp_path: Path, mechanism: str) -> None:
    table = people()
    make(table, tmp_path, mechanism)
    release = found(tmp_path, table)
    assert [DISEASES[place] for place in release.true_codes] == table.column(SENSITIVE).to_pylist()
    opened = Release.open(tmp_path / "release")
    streets = release_matching.pq.read_table(opened.folder / opened.manifest.data_file).column("street").to_numpy()
    assert (table.column("street").to_numpy()[release.order] == streets).all()
    (scene,) = release.make_setups(seed=1)
    assert attack_with_frequencies(scene).records == ROWS
    assert (scene.groups is None) == (release.holdings is None)


def test_key_of_another_release_and_other_tables_are_refused(tmp_path: Path) -> None:
    table = people()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        make(table, tmp_path / name, "uniform")
    opened = Release.open(tmp_path / "one" / "release")
    whole = read_original(opened, table)
    for wrong, plan in ((whole, "other"), (whole.slice(1), "one"), (whole.take(pa.array(range(ROWS))[::-1]), "one")):
        with refuses(ReleaseFormatError, "order-not-of-plan-file"):
            match_by_key(opened, wrong, tmp_path / plan / "plan")
    with refuses(ReleaseFormatError, "order-not-of-plan-file"):
        audit(tmp_path / "one" / "release", table, tmp_path / "other" / "plan")
    other = people(disease=["malaria"] * ROWS)
    with refuses(ReleaseFormatError, "not-the-original"):
        match_by_key(opened, read_original(opened, other), tmp_path / "one" / "plan")


def test_rows_that_were_left_out_and_ranges_are_as_in_the_release(tmp_path: Path) -> None:
    """Every tenth has no disease and is left out; ages are ranges; one row of each person is published."""
    disease = [None if row % 10 == 0 else DISEASES[row % 4] for row in range(ROWS)]
    table = people(disease=disease, age=np.arange(ROWS), person=np.arange(ROWS) // 2)
    schema = Schema.of(
        SENSITIVE,
        person="person",
        one_row="random",
        nulls="drop",
        keep=["street"],
        ranges={"age": [0, 40, 99]},
        public="*",
    )
    make(table, tmp_path, "uniform", schema)
    release = found(tmp_path, table)
    kept = dict(zip(table.column("street").to_pylist(), disease, strict=True))
    opened = Release.open(tmp_path / "release")
    streets = release_matching.pq.read_table(opened.folder / opened.manifest.data_file).column("street").to_pylist()
    assert [DISEASES[release.true_codes[person]] for person in release.order] == [kept[each] for each in streets]
    assert set(release.columns) == {"street", "age"}
    with refuses(SpecError, "missing-plan-file"):
        read_original(opened, table)


def test_columns_that_are_protected_each_for_itself_are_scenes_of_their_own(tmp_path: Path) -> None:
    drugs = [("none", "some", "much")[row % 3] for row in range(ROWS)]
    table = people(drug=drugs)
    make(table, tmp_path, "decoys", Schema.of([SENSITIVE, "drug"], keep=["street"], public="*"), spec=DecoyGroups(2))
    one, other = found(tmp_path, table).make_setups(DecoyGroups(2), seed=1)
    assert (one.target.name, other.target.name) == (SENSITIVE, "drug")
    assert [DISEASES[place] for place in one.target.true_codes] == table.column(SENSITIVE).to_pylist()
    assert [("much", "none", "some")[place] for place in other.target.true_codes] == drugs
    assert other.target.limits.tolist() == [1 / 2] * 3
    assert other.compute_likelihoods(np.arange(5)).shape == (5, 3)


def test_combinations_are_told_by_all_their_parts(tmp_path: Path) -> None:
    table = people(drug=[("none", None)[row % 2] for row in range(ROWS)])
    domains = list_domains(table, [SENSITIVE, "drug"])
    schema = Schema.of(compound=[SENSITIVE, "drug"], keep=["street"], public="*", domains=domains)
    make(table, tmp_path, "uniform", schema, spec=BreachBound("1/5", "1/2"))
    release = found(tmp_path, table)
    held = [release.manifest.domain[place] for place in release.true_codes]
    assert held == list(zip(*(table.column(name).to_pylist() for name in (SENSITIVE, "drug")), strict=True))


def test_of_many_people_those_are_looked_at_who_come_first_in_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is likely for them is still told by all of them."""
    table = people()
    make(table, tmp_path, "anatomy")
    release = found(tmp_path, table)
    (whole,) = release.make_setups(seed=1)
    monkeypatch.setattr(release_matching, "MOST_RECORDS", 30)
    (scene,) = release.make_setups(seed=1)
    people_seen = np.sort(release.order[:30])
    assert scene.groups is None
    assert (scene.target.true_codes == release.true_codes[people_seen]).all()
    assert scene.compute_likelihoods(np.arange(30)) == pytest.approx(whole.compute_likelihoods(people_seen))
    assert scene.compute_likelihoods(np.arange(30)).sum(axis=1) == pytest.approx(
        [
            (
                1
                / np.bincount(release.true_codes)[
                    release.true_codes[release.published_codes == release.published_codes[each]]
                ]
            ).sum()
            for each in people_seen
        ]
    )


def test_audit_is_written_for_machines(tmp_path: Path) -> None:
    table = people()
    release = make(table, tmp_path, "buckets")
    written = audit(release, table, tmp_path / "plan", population=table, seed=4).to_json()
    assert written["mechanism"] == "buckets"
    assert written["attacks"][0]["who"] == "frequencies"
    assert {each["seed"] for each in written["attacks"]} == {4}
    assert written["linked"]["in_population"]["alone"] == 1
    assert len(written["order"]) == 4


# ------------------------------------------------------------------------------------------------------ without a key

SINGLE = [name for name in REGISTRY if name not in {"buckets", "anatomy"}]
"""Mechanisms that do not publish what a group holds."""


def crowded(rows: int) -> pa.Table:
    """Two crowds of people who are alike."""
    chance = np.random.default_rng(6)
    held = chance.choice(4, rows, p=[0.3, 0.3, 0.2, 0.2])
    return pa.table({"street": np.arange(rows) % 2, SENSITIVE: [DISEASES[each] for each in held]})


@pytest.mark.parametrize("mechanism", SINGLE)
def test_people_who_are_alone_are_matched_without_a_key(tmp_path: Path, mechanism: str) -> None:
    table = people()
    make(table, tmp_path, mechanism)
    opened = Release.open(tmp_path / "release")
    by_key, by_law = found(tmp_path, table), match_by_likelihood(opened, read_original(opened, table), make_draws(1))
    assert by_law is not None
    assert by_law.is_unique is not None
    assert by_law.is_unique.all()
    assert (by_law.order == by_key.order).all()
    assert (by_law.published_codes == by_key.published_codes).all()
    assert (by_law.true_codes == by_key.true_codes).all()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [name for name in SINGLE if REGISTRY[name].crowd_counts is None])
def test_people_who_are_alike_are_guessed_as_often_without_a_key(tmp_path: Path, mechanism: str) -> None:
    """Both shares have a standard deviation of at most 0.5/sqrt(n): they differ by 5 of them once in a million times.

    An arbitrary order is the twin: whoever sees its records is right as often as whoever sees none.
    """
    rows = 6000
    table = crowded(rows)
    telling = {"spec": BreachBound("1/5", "1/2")} if mechanism == "subset" else {}  # else it would tell next to nothing
    make(table, tmp_path, mechanism, Schema.of(SENSITIVE, public="*"), **telling)
    opened = Release.open(tmp_path / "release")
    by_law = match_by_likelihood(opened, read_original(opened, table), make_draws(1))
    assert by_law is not None
    assert by_law.is_unique is not None
    assert not by_law.is_unique.any()
    far, rights = 5 * 0.5 * (2 / rows) ** 0.5, []
    chance = np.random.default_rng(3)
    street, held = table["street"].to_numpy(), found(tmp_path, table).true_codes
    assert (by_law.true_codes == held).all()
    arbitrary = np.empty_like(by_law.published_codes)
    for each in (0, 1):
        arbitrary[street == each] = chance.permutation(by_law.published_codes[street == each])
    for matching in (found(tmp_path, table), by_law, replace(by_law, published_codes=arbitrary)):
        (scene,) = matching.make_setups(seed=1)
        seen = attack_with_frequencies(scene).with_release
        assert seen is not None
        rights.append(seen.success)
    assert abs(rights[0] - rights[1]) < far
    assert rights[0] - rights[2] > far


@pytest.mark.parametrize("mechanism", ["buckets", "anatomy"])
def test_groups_whose_contents_are_published_are_not_matched_without_a_key(tmp_path: Path, mechanism: str) -> None:
    make(people(), tmp_path, mechanism)
    opened = Release.open(tmp_path / "release")
    assert match_by_likelihood(opened, read_original(opened, people()), make_draws(1)) is None


def test_of_very_many_records_whole_crowds_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = crowded(90)
    make(table, tmp_path, "uniform", Schema.of(SENSITIVE, public="*"))
    monkeypatch.setattr(release_matching, "MOST_RECORDS", 60)
    opened = Release.open(tmp_path / "release")
    taken = match_by_likelihood(opened, read_original(opened, table), make_draws(2))
    assert taken is not None
    assert len(taken.true_codes) == len(taken.published_codes) == len(taken.order) == 45
    assert len(set(taken.columns["street"].tolist())) == 1
