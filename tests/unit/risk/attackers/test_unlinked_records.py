"""What records of alike people tell about one of them, against all values that these people could have."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sfumato._core.array_types import Floats
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.unlinked_attack import UnlinkedPeople, attack_unlinked_people
from sfumato._risk.attackers.unlinked_records import CONCENTRATIONS, ClassRecords

SIZE = 4


def compute_exact(likelihoods: Floats, beliefs: Floats, concentration: float) -> Floats:
    """The probability of each value for one person, over all values of all people."""
    people, total = len(likelihoods), np.zeros(SIZE)
    for values in itertools.product(range(SIZE), repeat=people):
        counts = np.bincount(values, minlength=SIZE)
        if math.isinf(concentration):
            prior = math.prod(beliefs[value] for value in values)
        else:
            prior = math.prod(
                math.gamma(concentration * share + count) / math.gamma(concentration * share)
                for share, count in zip(beliefs, counts, strict=True)
            )
        total += prior * math.prod(likelihoods[np.arange(people), list(values)]) * counts / people
    return total / total.sum()


@pytest.mark.parametrize("concentration", CONCENTRATIONS)
def test_posteriors_are_close_to_the_exact_ones(concentration: float) -> None:
    """Exact for one person and for independent people."""
    chance, errors = np.random.default_rng(0), []
    for people in (1, 2, 3, 5):
        for _ in range(12):
            beliefs = chance.dirichlet(np.ones(SIZE) * 2)
            likelihoods = np.where(chance.random((people, SIZE)) < 0.4, 4.5, 1.0)
            found = ClassRecords(likelihoods, np.array([people])).compute_posteriors(beliefs[np.newaxis], concentration)
            exact = compute_exact(likelihoods, beliefs, concentration)
            errors.append(np.abs(found[0] - exact).max())
            if people == 1 or math.isinf(concentration):
                assert found[0] == pytest.approx(exact)
    assert np.mean(errors) < 0.005
    assert np.max(errors) < 0.03


def test_classes_are_independent_of_each_other() -> None:
    chance = np.random.default_rng(1)
    likelihoods, beliefs = chance.random((6, SIZE)) + 0.1, chance.dirichlet(np.ones(SIZE), 3)
    together = ClassRecords(likelihoods, np.array([3, 1, 2])).compute_posteriors(beliefs, 10.0)
    for number, part in enumerate((slice(0, 3), slice(3, 4), slice(4, 6))):
        size = np.array([part.stop - part.start])
        alone = ClassRecords(likelihoods[part], size).compute_posteriors(beliefs[number : number + 1], 10.0)
        assert together[number] == pytest.approx(alone[0])


def target_of(classes: np.ndarray, codes: np.ndarray) -> Target:
    return Target("disease", codes, np.full(SIZE, 0.5), {"street": classes})


def test_people_who_are_unique_are_attacked_as_if_their_record_were_known() -> None:
    chance = np.random.default_rng(2)
    codes = chance.integers(0, SIZE, 400)
    target = target_of(np.arange(400), codes)
    likelihoods = np.where(chance.random((400, SIZE)) < 0.4, 4.5, 1.0)
    beliefs = target.learn(()).compute_beliefs
    found = attack_unlinked_people(target, beliefs, lambda rows: likelihoods[rows], None)
    assert found is not None
    setup = AttackSetup(target, lambda rows: likelihoods[rows], np.arange(400))
    people = UnlinkedPeople.choose(target)
    assert people is not None
    rows = people.first_people
    posteriors = setup.update_beliefs(beliefs(rows), rows)
    assert posteriors is not None
    assert found.records == 400
    assert found.with_release.mean_belief == pytest.approx(posteriors[np.arange(400), codes[rows]].mean())


def test_whose_record_it_is_matters_in_a_class() -> None:
    """Records that disclose everything tell of each of many alike people only how frequent the values are."""
    chance = np.random.default_rng(3)
    codes = chance.integers(0, SIZE, 400)
    target = target_of(np.arange(400) // 100, codes)
    likelihoods = np.eye(SIZE)[codes] + 1e-9
    found = attack_unlinked_people(target, target.learn(()).compute_beliefs, lambda rows: likelihoods[rows], None)
    assert found is not None
    assert found.without_release.success < found.with_release.success < 0.45
    assert found.to_json()["records"] == found.records


def test_classes_of_all_sizes_are_attacked_and_records_of_large_ones_stand_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sfumato._risk.attackers import unlinked_attack  # noqa: PLC0415 - its limits are changed

    monkeypatch.setattr(unlinked_attack, "MOST_CELLS", SIZE * 80)
    monkeypatch.setattr(unlinked_attack, "LEAST_RECORDS", 80)
    classes = np.repeat(np.arange(60), [1] * 40 + [5] * 19 + [200])
    target = target_of(classes, np.arange(len(classes)) % SIZE)
    people = UnlinkedPeople.choose(target)
    assert people is not None
    assert people.sizes.max() <= 10
    assert 60 <= people.sizes.sum() <= 120
    assert len(people.records) == people.sizes.sum()
    starts = np.cumsum(people.sizes) - people.sizes
    assert (classes[people.records[starts]] == classes[people.first_people]).all()


def test_unknown_distribution_has_no_number() -> None:
    target = target_of(np.arange(8) // 2, np.arange(8) % SIZE)
    assert attack_unlinked_people(target, target.learn(()).compute_beliefs, lambda rows: None, None) is None
