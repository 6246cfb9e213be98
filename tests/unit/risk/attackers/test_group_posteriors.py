"""Who of a group has which value, against all ways to give the values away."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._risk.attackers import assignment_posteriors as module
from sfumato._risk.attackers.assignment_posteriors import (
    balance_weights,
    compute_assignment_chances,
    condition_on_groups,
)

SIZE = 4
PEOPLE = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, SIZE - 1), st.lists(st.integers(1, 9), min_size=SIZE, max_size=SIZE)),
    min_size=1,
    max_size=8,
)
"""For each person a group, a value, and what is believed of each value."""


def by_definition(groups: list[int], held: list[int], beliefs: list[list[int]]) -> list[list[Fraction]]:
    """Every way to give each group its values, weighed by how much all of it was believed."""
    found = [[Fraction(0)] * SIZE for _ in held]
    for group in set(groups):
        people = [person for person, own in enumerate(groups) if own == group]
        ways = list(permutations([held[person] for person in people]))
        weights = [
            Fraction(int(np.prod([beliefs[person][value] for person, value in zip(people, way, strict=True)])))
            for way in ways
        ]
        for way, weight in zip(ways, weights, strict=True):
            for person, value in zip(people, way, strict=True):
                found[person][value] += weight / sum(weights)
    return found


@settings(max_examples=examples(30))
@given(PEOPLE)
def test_beliefs_given_groups_are_those_of_all_ways(people: list[tuple[int, int, list[int]]]) -> None:
    groups, held, beliefs = (list(each) for each in zip(*people, strict=True))
    rows = np.array(beliefs, dtype=np.float64)
    found = condition_on_groups(rows / rows.sum(axis=1, keepdims=True), np.array(groups), np.array(held))
    expected = by_definition(groups, held, beliefs)
    assert found == pytest.approx(np.array(expected, dtype=np.float64))


def test_groups_of_decoys_tell_what_buckets_do_whatever_is_shown() -> None:
    """By every outcome: each of three people shows any value of the group with the same chance, whoever holds it."""
    beliefs, values = [[6, 3, 1, 0], [2, 5, 3, 0], [1, 1, 8, 0]], (0, 1, 2)
    expected = np.array(by_definition([0, 0, 0], list(values), beliefs), dtype=np.float64)
    for shown in product(values, repeat=3):
        joint = np.zeros((3, SIZE))
        for way in permutations(values):
            chance = np.prod([beliefs[person][value] for person, value in enumerate(way)])
            chance *= np.prod([1 / 3 for _ in shown])  # the law of decoys: a seat of the group, by an even draw
            for person, value in enumerate(way):
                joint[person, value] += chance
        assert joint / joint.sum(axis=1, keepdims=True) == pytest.approx(expected)
    rows = np.array(beliefs, dtype=np.float64) / 10
    assert condition_on_groups(rows, np.zeros(3, dtype=np.int64), np.array(values)) == pytest.approx(expected)


def test_groups_in_which_nobody_differs_have_the_shares_of_their_values() -> None:
    held = np.array([0, 0, 1, 2, 3, 3])
    found = condition_on_groups(np.full((6, SIZE), 0.25), np.array([0, 0, 0, 0, 1, 1]), held)
    assert found == pytest.approx(np.array([[0.5, 0.25, 0.25, 0]] * 4 + [[0, 0, 0, 1]] * 2))


@pytest.mark.slow
def test_larger_groups_are_balanced_and_near_to_the_exact_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(1).uniform(0.2, 1, (5, 8, 8))
    exact, near = compute_assignment_chances(weights), balance_weights(weights)
    assert near.sum(axis=1) == pytest.approx(np.ones((5, 8)))
    assert np.abs(exact - near).max() < 0.03
    assert np.abs(exact - weights / weights.sum(axis=2, keepdims=True)).max() > 0.05  # where nothing is balanced
    held, groups = np.arange(12) % SIZE, np.zeros(12, dtype=np.int64)
    beliefs = np.random.default_rng(2).dirichlet(np.ones(SIZE), 12)
    large = condition_on_groups(beliefs, groups, held)
    monkeypatch.setattr(module, "LARGEST_EXACT", 12)
    assert np.abs(large - condition_on_groups(beliefs, groups, held)).max() < 0.1
    assert large.sum(axis=0) == pytest.approx(np.full(SIZE, 3.0))
