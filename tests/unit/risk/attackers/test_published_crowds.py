"""The counts of crowds as attackers use them: what is drawn before publishing, and what knowing others adds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._records.column_codes import CodedColumn, SensitiveColumns
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers import published_crowds
from sfumato._risk.attackers.attack_scenarios import attack_with_all_others, attack_with_two_releases
from sfumato._risk.attackers.attack_setup import AttackSetup, make_planned_setups
from sfumato._risk.attackers.attack_target import make_targets
from sfumato._risk.attackers.planned_exposure import run_planned_attacks
from sfumato._risk.attackers.publication_gates import find_exposure_stop
from sfumato._risk.attackers.published_crowds import (
    OUTSIDE,
    UNUSED,
    count_one_valued,
    count_planned_one_valued,
    draw_planned_crowds,
)
from sfumato._risk.attackers.release_attacks import compute_odds_factor
from sfumato.errors import MissingCapabilityError

VALUES = ("a", "b", "c")
BOUND = BreachBound("1/10", "1/3")
DRAWS = Draws.unsafe_test_key("5d" * 32)
SENSITIVE = SensitiveColumns.of_column(CodedColumn("disease", pa.array(VALUES), False))


def make_sample(classes: list[int], codes: list[int]) -> Sample:
    return Sample({"street": np.array(classes)}, np.array(codes), len(codes))


def choose_counts(codes: np.ndarray) -> ChosenMechanism:
    histogram = Histogram.of(VALUES, np.bincount(codes, minlength=3).tolist())
    return choose(replace(histogram, is_declared=True), BOUND, DRAWS, "noisy-counts")


def make_setup(sample: Sample, seed: int = 1) -> AttackSetup:
    chosen = choose_counts(sample.sensitive)
    (setup,) = make_planned_setups(chosen, sample, SENSITIVE, make_targets(sample, SENSITIVE, BOUND), seed)
    return setup


SAMPLE = make_sample([0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 3], [0, 1, 2, 0, 1, 1, 1, 1, 2, 2, 0, 1])


def test_alike_people_are_in_a_crowd_and_people_alone_are_not() -> None:
    setup = make_setup(SAMPLE)
    assert setup.crowds is not None
    assert setup.crowds.numbers.tolist() == [0, 0, 0, OUTSIDE, 1, 1, 1, 1, 2, 2, 2, 2]
    assert setup.crowds.true_counts.tolist() == [[1, 1, 1], [0, 4, 0], [1, 1, 2]]
    assert setup.crowds.people.tolist() == [3, 4, 4]
    assert setup.is_counted(np.array([2, 3])).tolist() == [True, False]
    second = make_setup(SAMPLE, 2)
    assert second.crowds is not None
    assert (setup.crowds.noisy != second.crowds.noisy).any()


def test_people_in_small_crowds_with_one_value_are_counted() -> None:
    assert count_planned_one_valued(choose_counts(SAMPLE.sensitive), SAMPLE) == 4
    setup = make_setup(SAMPLE)
    assert setup.crowds is not None
    assert count_one_valued(setup.crowds.true_counts) == 4
    assert count_one_valued(np.array([[11, 0], [10, 0], [9, 1]])) == 10
    assert count_planned_one_valued(choose_counts(SAMPLE.sensitive), replace(SAMPLE, total=13)) is None
    subset = choose(Histogram.of(VALUES, [4, 4, 4]), BOUND, DRAWS, "subset")
    assert count_planned_one_valued(subset, SAMPLE) is None


def test_of_too_many_crowds_those_of_attacked_records_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_crowds, "MOST_COUNTS", 6)
    crowds = draw_planned_crowds(choose_counts(SAMPLE.sensitive), SAMPLE, 3, 2, DRAWS)
    assert crowds is not None
    assert crowds.numbers[:4].tolist() == [0, 0, 0, OUTSIDE]
    assert sorted({int(number) for number in crowds.numbers}) == [UNUSED, OUTSIDE, 0, 1]
    assert len(crowds.noisy) == 2


def test_known_people_are_counted_in_their_crowd() -> None:
    setup = make_setup(SAMPLE)
    assert setup.crowds is not None
    is_known = np.arange(12) % 2 == 0
    assert setup.crowds.count_known(setup.target.true_codes, is_known).tolist() == [[1, 0, 1], [0, 2, 0], [1, 0, 1]]


def test_who_knows_all_others_learns_as_much_as_the_bound_allows() -> None:
    """The odds of two values change by exactly the amplification, up or down."""
    chance = np.random.default_rng(1)
    sample = make_sample(np.repeat(np.arange(300), 4).tolist(), chance.integers(0, 3, 1200).tolist())
    setup = make_setup(sample)
    assert compute_odds_factor(setup) == pytest.approx(float(Fraction(9, 2)))
    crowds, rows = setup.crowds, setup.rows
    assert crowds is not None
    beliefs = np.full((len(rows), 3), 1 / 3)
    before, after = next(crowds.iter_with_others(beliefs, setup.target.true_codes, rows))
    assert before == pytest.approx(beliefs)
    odds = after / after.min(axis=1, keepdims=True)
    assert set(np.unique(odds.round(9))) == {1.0, 4.5}
    attack = attack_with_all_others(setup)
    assert attack.with_release is not None
    assert attack.with_release.success > attack.without_release.success + 0.1
    assert attack.knowledge == "street and the values of all other people"


def test_second_release_without_counts_adds_its_records() -> None:
    """A second release by subset, in which everybody has a record, of people who are counted in the first one."""
    chance = np.random.default_rng(2)
    sample = make_sample(np.repeat(np.arange(100), 12).tolist(), chance.integers(0, 3, 1200).tolist())
    counts = make_setup(sample)
    chosen = choose(Histogram.of(VALUES, np.bincount(sample.sensitive).tolist()), BOUND, DRAWS, "subset")
    (records,) = make_planned_setups(chosen, sample, SENSITIVE, make_targets(sample, SENSITIVE, BOUND), 3)
    for first, second in ((counts, records), (records, counts)):
        attack = attack_with_two_releases(first, second)
        assert attack.with_release is not None
        assert (
            attack.with_release.success > 0.55
        )  # records alone reach about 4.5/6.5 for a known record of two in three


def test_counts_without_a_known_distribution_are_never_attacked_as_if_all_had_records() -> None:
    chosen = choose_counts(SAMPLE.sensitive)
    for missing in ("attack_model", "crowd_attack_model"):
        mechanism = replace(chosen.mechanism, guarantee=Guarantee.BUCKET_ONLY, **{missing: None})
        silent = replace(chosen, mechanism=mechanism)
        targets = make_targets(SAMPLE, SENSITIVE, BOUND)
        attacks = run_planned_attacks(silent, SAMPLE, SENSITIVE, targets, DRAWS)
        assert all(attack.with_release is None and attack.unlinked is None for attack in attacks)
        with pytest.raises(MissingCapabilityError):
            find_exposure_stop(attacks, mechanism)
