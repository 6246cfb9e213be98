"""What a release teaches by itself, on tables in which it is known."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato._records.tally import Holdings
from sfumato._risk.attackers.guesses_from_release import (
    CandidateBeliefs,
    learn_best_round,
    learn_by_rounds,
    learn_from_buckets,
    predict_others,
)

PEOPLE, SIZE = 3000, 3
CHANCE = np.random.default_rng(6)
HELD = CHANCE.choice(SIZE, PEOPLE, p=[0.5, 0.3, 0.2])
COLUMN = np.where(CHANCE.random(PEOPLE) < 0.7, HELD, CHANCE.integers(0, SIZE, PEOPLE))
NOISE = CHANCE.integers(0, 4, PEOPLE)


def shown(kept: float) -> np.ndarray:
    """How likely everybody shows what he does, who keeps his value by a coin or shows any; the same each time."""
    chance = np.random.default_rng(7)
    seen = np.where(chance.random(PEOPLE) < kept, HELD, chance.integers(0, SIZE, PEOPLE))
    return np.where(seen[:, np.newaxis] == np.arange(SIZE), kept + (1 - kept) / SIZE, (1 - kept) / SIZE)


def test_first_round_learns_the_shares_and_later_ones_the_columns() -> None:
    rounds = list(learn_by_rounds(shown(0.5), [COLUMN, NOISE], 6))
    assert len(rounds) == 7
    assert rounds[0].value_beliefs.mean(axis=0) == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    right = [(each.guesses == HELD).mean() for each in rounds]
    assert right[-1] > right[0] + 0.05


def test_shares_are_learned_as_from_each_record_by_itself() -> None:
    """Records that show the same are counted as one so many times; said record by record, it comes to the same."""
    likely = shown(0.5)
    shares = np.full(SIZE, 1 / SIZE)
    for _ in range(200):
        weights = likely * shares
        shares = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    first = next(learn_by_rounds(likely, [COLUMN], 0)).weights
    expected = likely * shares
    assert first == pytest.approx(expected / expected.sum(axis=1, keepdims=True), abs=1e-12)


def test_what_was_learned_is_taught_about_strangers() -> None:
    """The column is right for 0.7 + 0.3/3 of them."""
    found = learn_best_round(shown(0.5), [COLUMN, NOISE], 8)
    general = predict_others(found, [COLUMN, NOISE], [COLUMN, NOISE])
    assert general.sum(axis=1) == pytest.approx(np.ones(PEOPLE))
    assert (general.argmax(axis=1) == HELD).mean() == pytest.approx(0.8, abs=0.05)


def test_learning_stops_before_it_learns_noise() -> None:
    """By a column that tells nothing, of a release that hardly does."""
    likely = shown(0.05)
    chance = np.random.default_rng(8)
    columns = [chance.integers(0, 50, PEOPLE) for _ in range(4)]
    best = learn_best_round(likely, columns, 8)
    last = list(learn_by_rounds(likely, columns, 8))[-1]
    assert best.weights.max(axis=1).mean() < last.weights.max(axis=1).mean()


def test_value_of_a_column_that_was_not_met_is_possible() -> None:
    found = CandidateBeliefs(np.tile(np.arange(2), (4, 1)), np.full((4, 2), 0.5), 2)
    general = predict_others(found, [np.array([0, 0, 1, 1])], [np.array([5])])
    assert general == pytest.approx(np.array([[0.5, 0.5]]))


def test_beliefs_by_value_leave_out_what_is_no_candidate() -> None:
    holdings = Holdings(np.array([0, 0, 1]), np.array([2, 0, 1]), np.array([1, 1, 1]), domain_size=3)
    found = learn_from_buckets(np.array([0, 0, 1]), holdings, [np.array([0, 1, 0])], 3)
    assert found.value_beliefs.sum(axis=1) == pytest.approx(np.ones(3))
    assert found.value_beliefs[2].tolist() == [0, 1, 0]
    assert found.value_beliefs[:2, 1].tolist() == [0, 0]
