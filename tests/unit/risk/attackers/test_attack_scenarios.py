"""Named attackers on tables of known numbers, against closed forms and by every outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from enumeration import replaced_by
from refusals import refuses
from releases import WAYS
from sfumato._core.array_types import Codes
from sfumato._core.random_draws import Draws
from sfumato._figures.attack_success import AttackSuccess
from sfumato._figures.success_by_known_others import KnownOthersCurve
from sfumato._planning.mechanism_choice import choose
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._publish.publication_plan import attack_plan
from sfumato._publish.request import Request
from sfumato._records import PerturbedRecords
from sfumato._records.column_codes import CodedColumn, SensitiveColumns
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato._request.schema import Schema
from sfumato._risk.attackers.attack_scenarios import (
    attack_with_all_columns,
    attack_with_frequencies,
    attack_with_known_others,
    attack_with_own_belief,
    attack_with_release_alone,
    attack_with_two_releases,
    attack_with_worst_column,
    measure_by_known_share,
    run_attack_scenarios,
)
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.attack_target import make_targets
from sfumato._risk.attackers.belief_calibration import learn_all_columns
from sfumato.errors import SpecError
from sfumato.mechanisms import REGISTRY

VALUES = ("a", "b", "c", "d")
COUNTS = (400, 600, 700, 300)
SENSITIVE = SensitiveColumns.of_column(CodedColumn("disease", pa.array(VALUES), False))


def table() -> Sample:
    """Two thousand people in no order: one column tells half of them, one a third, and one nothing."""
    chance = np.random.default_rng(4)
    held = chance.permutation(np.repeat(np.arange(4), COUNTS))
    noise = chance.integers(0, 4, (2, len(held)))
    columns = {
        "half": np.where(chance.random(len(held)) < 0.5, held, noise[0]),
        "third": np.where(chance.random(len(held)) < 0.3, held, noise[1]),
        "nothing": chance.integers(0, 5, len(held)),
    }
    return Sample(columns, held, len(held))


def chosen_by(mechanism: str) -> ChosenMechanism:
    way = WAYS[mechanism]
    draws = Draws.unsafe_test_key("5c" * 32)
    groups = Hierarchy.of(("own", "kind"), [(value, "ab" if value in "ab" else "others") for value in VALUES])
    histogram = Histogram.of(VALUES, COUNTS, hierarchy=groups if way.has_groups else None)
    histogram = replace(histogram, is_declared=way.has_domain)
    return choose(histogram, way.spec, draws, mechanism, options={mechanism: way.options})


def scene_of(mechanism: str, seed: int = 1, sample: Sample | None = None) -> AttackSetup:
    sample, chosen = sample or table(), chosen_by(mechanism)
    found = make_targets(sample, SENSITIVE, WAYS[mechanism].spec.resolve(chosen.histogram))
    (scene,) = make_planned_setups(chosen, sample, SENSITIVE, found, seed)
    return scene


every_mechanism = pytest.mark.parametrize("mechanism", list(REGISTRY))


@pytest.mark.slow
@every_mechanism
def test_every_attacker_is_tried_those_who_know_least_first(mechanism: str) -> None:
    scene = scene_of(mechanism)
    found = run_attack_scenarios(scene, scene_of(mechanism, 2))
    has_counts = REGISTRY[mechanism].crowd_counts is not None
    assert [each.scenario for each in found if each.scenario != "all others"] == [
        "frequencies",
        "one column",
        "all columns",
        "others",
        "two releases",
        "release alone",
    ]
    assert ("all others" in {each.scenario for each in found}) == has_counts
    found = tuple(each for each in found if each.scenario != "all others")
    for each in found:
        assert each.with_release is not None
        assert (each.seed, each.protected_column) == (1, "disease")
        low, high = each.with_release.interval
        assert low <= each.with_release.success <= high
    shown = [AttackSuccess.of(each, mechanism) for each in found]
    assert [each.knowledge for each in shown] == [
        "the frequencies of values",
        *found[1].known_columns,
        "all 3 public columns",
        "all 3 public columns and the values of 20% of the other people",
        "all 3 public columns and a second release",
        "only the release",
    ]
    assert [each.control is None for each in shown] == [True] * 5 + [False]


@every_mechanism
def test_who_has_a_release_is_right_at_least_as_often_and_as_often_as_expected(mechanism: str) -> None:
    """But for five standard deviations of chance: F and P believe what is so."""
    scene = scene_of(mechanism)
    for attack in (attack_with_frequencies(scene), attack_with_all_columns(scene)):
        assert attack.with_release is not None
        # How much alike people are tied is a guess, so beliefs from counts are not as often right as expected.
        assert abs(attack.with_release.surprise) < 5 or scene.crowds is not None
        assert attack.with_release.success >= attack.without_release.success - 5 * attack.with_release.deviation


@pytest.mark.slow
def test_same_seed_gives_the_same_attacks() -> None:
    once, again = (run_attack_scenarios(scene_of("buckets", 7)) for _ in range(2))
    assert [each.to_json() for each in once] == [each.to_json() for each in again]
    with refuses(SpecError, "seed-out-of-range"):
        make_draws(-1)


def test_without_a_seed_draws_are_secret_and_said_to_be() -> None:
    scene = scene_of("uniform")
    assert replace(scene, seed=None).seed is None
    assert make_draws(None) != make_draws(None)
    assert "seed" not in attack_with_frequencies(replace(scene, seed=None)).to_json()


@pytest.mark.slow
def test_request_is_attacked_before_anything_is_published() -> None:
    held = table().sensitive
    people = pa.table({**table().columns, "disease": [VALUES[each] for each in held]})
    request = Request(
        people,
        schema=Schema.of("disease", public="*"),
        spec=BreachBound("1/5", "1/3"),
        mechanism="subset",
        **ALL_ACCEPTED,
    )
    once, again = (attack_plan(request, second=True, known_share=0.5, seed=3) for _ in range(2))
    assert [each.to_json() for each in once] == [each.to_json() for each in again]
    assert [each.scenario for each in once][-2:] == ["two releases", "release alone"]
    assert once[3].label.endswith("the values of 50% of the other people")
    assert [each.seed for each in attack_plan(request)] == [None] * 5


# ------------------------------------------------------------------------------------------------ closed forms, exactly


@pytest.mark.parametrize("retention", [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)], ids=str)
def test_frequencies_beside_uniform_are_right_as_the_closed_form_says(retention: Fraction) -> None:
    """Sum over y of max over x of f(x) P(y|x), where each value is shown exactly as often as expected."""
    counts = (16, 32, 64, 16)
    odds = (retention + (1 - retention) / 4) / ((1 - retention) / 4)
    spec = BreachBound("1/2", odds / (1 + odds))
    chosen = choose(Histogram.of(VALUES, counts), spec, Draws.unsafe_test_key("5c" * 32), "uniform")
    law = [[(1 - retention) / 4 + retention * (x == y) for y in range(4)] for x in range(4)]
    pairs = [(x, y) for x in range(4) for y in range(4) for _ in range(int(counts[x] * law[x][y]))]
    held, seen = (np.array(each) for each in zip(*pairs, strict=True))
    (target,) = make_targets(Sample({}, held, len(held)), SENSITIVE, spec)
    scene = AttackSetup(
        target,
        lambda rows: chosen.mechanism.attack_model.compute_likelihoods(chosen.plan, PerturbedRecords(seen[rows]))[0],
        np.arange(128),
    )
    found = attack_with_frequencies(scene)
    expected = sum(max(Fraction(counts[x], 128) * law[x][y] for x in range(4)) for y in range(4))
    assert found.with_release is not None
    assert found.with_release.success == pytest.approx(float(expected))
    assert found.with_release.expected_success == pytest.approx(float(expected), abs=2e-3)  # shares are smoothed
    assert found.without_release.success == 1 / 2


def tiny(mechanism: str, held: Sequence[int]) -> tuple[ChosenMechanism, Sample]:
    """A plan for a few records, who all have a column of their own."""
    counts = np.bincount(held, minlength=3).tolist()
    way = WAYS[mechanism]
    chosen = choose(
        Histogram.of(VALUES[:3], counts),
        way.spec,
        Draws.unsafe_test_key("5c" * 32),
        mechanism,
        options={mechanism: way.options},
    )
    return chosen, Sample({"column": np.arange(len(held)) % 2}, np.array(held), len(held))


@pytest.mark.parametrize("mechanism", ["uniform", "subset", "harmonic", "fine-grain"])
def test_posterior_under_any_belief_is_that_of_all_tables_and_draws(mechanism: str) -> None:
    """By every assignment of values to three people, weighed by a belief and by the law of what all of them show."""
    chosen, sample = tiny(mechanism, [0, 1, 2, 0, 1, 2] * 2)
    prior = {"a": 3.0, "b": 1.0, "c": 2.0}
    shown = np.array([0, 2, 1])
    things: list[Any] = [0, 1, 2]
    if mechanism == "subset":
        things = [frozenset(each) for each in combinations(range(3), chosen.design.subset_size)]
    law = chosen.mechanism.attack_model.compute_likelihoods(chosen.plan, replaced_by(things, 3))[
        0
    ]  # law[thing shown, original]
    weights = np.zeros((3, 3))
    for values in product(range(3), repeat=3):
        chance = np.prod([prior["abc"[x]] * law[y, x] for x, y in zip(values, shown, strict=True)])
        weights[np.arange(3), values] += chance
    sensitive = SensitiveColumns.of_column(CodedColumn("disease", pa.array(VALUES[:3]), False))
    (target,) = make_targets(sample, sensitive, WAYS[mechanism].spec.resolve(chosen.histogram))
    scene = AttackSetup(target, lambda rows: law[shown[rows]], np.arange(3))
    beliefs = np.tile(np.array(list(prior.values())) / 6, (3, 1))
    assert scene.update_beliefs(beliefs, np.arange(3)) == pytest.approx(weights / weights.sum(axis=1, keepdims=True))
    found = attack_with_own_belief(scene, prior, "abc")
    assert found.without_release.success == pytest.approx(1 / 3)  # everybody is believed to have the first value


@pytest.mark.parametrize(
    ("prior", "code"),
    [
        ({"e": 1.0}, "value-outside-domain"),
        ({"a": -1.0}, "belief-without-shares"),
        ({}, "belief-without-shares"),
        ({"a": np.nan}, "belief-without-shares"),
    ],
)
def test_belief_that_is_none_is_refused(prior: dict[str, float], code: str) -> None:
    with refuses(SpecError, code):
        attack_with_own_belief(scene_of("uniform"), prior, VALUES)


def test_belief_is_read_from_a_file(tmp_path: Path) -> None:
    """Parts of any whole, exactly written; values that are not named are not believed."""
    scene, path = scene_of("uniform"), tmp_path / "prior.csv"
    path.write_text("value,share\na,1/3\nc,2/3\n", encoding="utf-8")
    found = attack_with_own_belief(scene, path, VALUES)
    assert found.to_json() == attack_with_own_belief(scene, {"a": 1, "c": 2}, VALUES).to_json()
    assert found.without_release.success == COUNTS[2] / sum(COUNTS)
    assert (found.scenario, found.knowledge) == ("own belief", "your own belief")


# ---------------------------------------------------------------------------------------------------------- one by one


def test_what_columns_tell_is_worked_out_once_for_all_releases_of_the_same_people() -> None:
    """It has nothing to do with what is published; each attacker is as right as one who works it out again."""
    one, other = scene_of("uniform"), scene_of("subset")
    again = replace(other, target=one.target)
    found, alone = attack_with_all_columns(one), [attack_with_all_columns(again), attack_with_all_columns(other)]
    assert len(one.target.belief_cache) == 1
    assert alone[0] == alone[1]
    assert found.without_release == alone[1].without_release


def test_worst_column_is_the_one_with_most_right_guesses() -> None:
    scene = scene_of("subset")
    assert attack_with_worst_column(scene).known_columns == ("half",)
    assert attack_with_worst_column(replace(scene, compute_likelihoods=lambda rows: None)).known_columns == ("half",)
    with refuses(SpecError, "no-public-column"):
        attack_with_worst_column(replace(scene, target=replace(scene.target, columns={})))


def test_equally_likely_values_are_guessed_by_chance_and_not_against_the_truth() -> None:
    """Pairs of buckets, and a column that tells half of the people: 0.5 + 0.5 * (1 - what cancels out).

    A value is told with 5/8 and each other one with 1/8. Of two people of a bucket the column speaks for the truth,
    against it or not at all with 5/8, 1/8 and 2/8; both together for it in 45/64, not at all in 14/64. Where each
    record is left out by itself, these 14/64 are guessed wrong, and not half of them.
    """
    found = attack_with_worst_column(scene_of("anatomy"))
    assert found.known_columns == ("half",)
    assert found.with_release is not None
    assert found.with_release.success == pytest.approx(45 / 64 + 7 / 64, abs=0.04)
    assert found.with_release.success > 45 / 64 + 0.03


@pytest.mark.parametrize("mechanism", ["uniform", "subset", "decoys", "harmonic"])
def test_others_change_nothing_where_records_show_something_for_themselves(mechanism: str) -> None:
    scene = scene_of(mechanism)
    assert attack_with_known_others(scene, 0.0).with_release == attack_with_all_columns(scene).with_release


def test_who_knows_others_of_a_bucket_is_left_with_its_other_values() -> None:
    """Two people of a bucket: where one is known, so is the other; else they are even."""
    sample = replace(table(), columns={"nothing": np.zeros(2000, dtype=np.int64)})
    scene = scene_of("anatomy", 3, sample)
    for share in (0.0, 0.4, 0.8):
        found = attack_with_known_others(scene, share)
        assert found.with_release is not None
        assert found.with_release.success == pytest.approx(share + (1 - share) / 2, abs=0.06)
        assert found.label == f"nothing and the values of {share:.0%} of the other people"
    with refuses(SpecError, "share-out-of-range", given=1.0):
        attack_with_known_others(scene, 1.0)
    curve = KnownOthersCurve("anatomy", measure_by_known_share(scene, (0.0, 0.4)))
    assert curve.known_points == [
        (share, attack_with_known_others(scene, share).with_release.success) for share in (0.0, 0.4)
    ]


def test_second_release_multiplies_odds_and_must_be_of_the_same_people() -> None:
    scene, again = scene_of("uniform", 1), scene_of("uniform", 2)
    found = attack_with_two_releases(scene, again)
    assert found.with_release is not None
    rows, believing = scene.rows, learn_all_columns(scene.target, scene.rows)
    weighed = believing(rows) * scene.compute_likelihoods(rows) * again.compute_likelihoods(rows)
    right = weighed.argmax(axis=1) == scene.target.true_codes[rows]
    assert found.with_release.success == pytest.approx(right.mean())
    assert abs(found.with_release.surprise) < 5
    with refuses(SpecError, "releases-of-other-people"):
        attack_with_two_releases(
            scene, replace(again, target=replace(again.target, true_codes=scene.target.true_codes[::-1]))
        )


def test_same_draws_twice_are_no_second_release() -> None:
    """Whoever takes them for two is far more often wrong than expected: that is how a key that is used twice shows."""
    scene = scene_of("uniform")
    assert attack_with_two_releases(scene, scene).with_release.surprise < -5


def test_law_that_is_not_known_tells_nothing() -> None:
    scene = replace(scene_of("uniform"), compute_likelihoods=lambda rows: None)
    assert [each.with_release for each in run_attack_scenarios(scene, scene)] == [None] * 6


@pytest.mark.parametrize("mechanism", ["uniform", "anatomy", "buckets", "decoys", "small-domain"])
def test_release_alone_teaches_how_columns_go_with_values(mechanism: str) -> None:
    """The control is about the same as what columns tell of strangers: 0.5 + 0.5/4 of the people by the first one."""
    found = attack_with_release_alone(scene_of(mechanism))
    assert found.control is not None
    assert found.with_release is not None
    assert found.with_release.success > found.without_release.success
    blind = max(COUNTS) / sum(COUNTS)
    assert blind - 0.1 < found.control.success < 0.75


def test_release_alone_teaches_nothing_about_strangers_where_columns_tell_nothing() -> None:
    chance = np.random.default_rng(8)
    held = table().sensitive
    sample = Sample({name: chance.integers(0, 4, len(held)) for name in "xyz"}, held, len(held))
    found = attack_with_release_alone(scene_of("anatomy", 1, sample))
    assert found.control is not None
    assert found.with_release is not None
    assert found.control.success < max(COUNTS) / sum(COUNTS) + 0.05
    assert found.with_release.success == pytest.approx(1 / 2, abs=0.06)


def test_few_public_columns_are_enough_for_nobody() -> None:
    sample = replace(table(), columns={})
    assert [each.scenario for each in run_attack_scenarios(scene_of("uniform", 1, sample))] == ["frequencies"]


def test_of_many_people_whole_groups_are_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato._risk.attackers import attack_target  # noqa: PLC0415 - its numbers are made small here

    monkeypatch.setattr(attack_target, "MOST_BELIEFS", 400)
    monkeypatch.setattr(attack_target, "LEAST_RECORDS", 50)
    scene = scene_of("anatomy")
    assert scene.groups is not None
    inside: Codes = scene.groups[scene.rows]
    assert 90 <= len(scene.rows) <= 100
    assert (np.bincount(scene.groups)[np.unique(inside)] == np.unique(inside, return_counts=True)[1]).all()
    assert len(scene_of("uniform").rows) == 100
