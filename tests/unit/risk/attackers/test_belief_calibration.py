"""Beliefs are trusted as far as they were right of others, and keep their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.belief_calibration import calibrate_beliefs, pool_steps

PEOPLE = 4000
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=9).filter(
    lambda steps: any(size for size, _ in steps)
)


def drawn(power: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True chances of three values, values by these chances, and beliefs that are too sure, or not sure enough."""
    chance = np.random.default_rng(3)
    chances = chance.dirichlet(np.ones(3), PEOPLE)
    held = (chances.cumsum(axis=1) < chance.random((PEOPLE, 1))).sum(axis=1)
    beliefs = chances**power
    return chances, held, beliefs / beliefs.sum(axis=1, keepdims=True)


def off(beliefs: np.ndarray, held: np.ndarray) -> float:
    """How far what is expected to be right is from what is."""
    return float(beliefs.max(axis=1).mean() - (beliefs.argmax(axis=1) == held).mean())


@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_beliefs_come_to_be_as_right_as_they_are_strong(power: float) -> None:
    """Within 3%, which is four standard errors; without it those that are distorted are off by more than 8%."""
    _, held, beliefs = drawn(power)
    target = Target("y", held, np.ones(3), {})
    trusted = calibrate_beliefs(target, lambda rows: beliefs[rows].copy(), np.arange(PEOPLE))(np.arange(PEOPLE))
    assert abs(off(trusted, held)) < 0.03
    assert (abs(off(beliefs, held)) > 0.08) == (power != 1)
    assert trusted.sum(axis=1) == pytest.approx(np.ones(PEOPLE))
    assert (trusted.argmax(axis=1) == beliefs.argmax(axis=1)).all()


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=9).filter(
        lambda x: any(n for n, _ in x)
    )
)
def test_pools_are_the_nearest_rising_line(steps: list[tuple[int, int]]) -> None:
    """By definition: at each step the largest, over where a stretch begins, of the least, over its end, of its mean."""
    sizes, right = (np.array(each, dtype=np.float64) for each in zip(*steps, strict=True))
    right = np.where(sizes > 0, right, 0.0)
    many, sums = pool_steps(sizes, right)
    assert (np.diff(sums / many) > 0).all()
    kept, own = sizes[sizes > 0], right[sizes > 0]
    number = len(kept)
    expected = [
        max(min(own[i : j + 1].sum() / kept[i : j + 1].sum() for j in range(at, number)) for i in range(at + 1))
        for at in range(number)
    ]
    ends = np.cumsum(many)
    found = (sums / many)[np.searchsorted(ends, np.cumsum(kept))]
    assert found == pytest.approx(np.array(expected))


def test_half_without_anybody_changes_nothing() -> None:
    target = Target("y", np.array([0]), np.ones(2), {})
    beliefs = np.array([[0.3, 0.7]])
    assert calibrate_beliefs(target, lambda rows: beliefs[rows], np.array([0]))(np.array([0])).tolist() == [[0.3, 0.7]]
