"""Orders that tell something, against all orders that there could be."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from sfumato._risk.attackers import row_order_attack
from sfumato._risk.attackers.row_order_attack import (
    LARGEST_SCORE,
    OrderTest,
    compare_group_lists,
    compare_neighbours,
    compare_order,
    compare_places,
)

SHOWN = np.array([0, 0, 0, 1, 1, 2])


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order_attack, "LEAST_RECORDS", 2)


def over_all_orders(look: Callable[[np.ndarray], OrderTest], things: np.ndarray) -> list[float]:
    return [look(np.array(each)).score for each in permutations(things.tolist())]


LOOKS: dict[str, tuple[Callable[[np.ndarray], OrderTest], np.ndarray]] = {
    "neighbours": (lambda each: compare_neighbours("x", each), SHOWN),
    "same places": (lambda each: compare_places("x", [each], [SHOWN]), SHOWN),
    "same order": (lambda each: compare_order("x", [each], [np.arange(6)]), np.arange(6)),
    "one group": (
        lambda each: compare_group_lists("x", np.zeros(6, dtype=int), each, np.zeros(6, dtype=int), SHOWN),
        SHOWN,
    ),
}


@pytest.mark.parametrize("name", LOOKS)
def test_scores_have_mean_zero_and_variance_one_over_all_orders(name: str) -> None:
    """The exact moments: every one of the 720 orders."""
    scores = over_all_orders(*LOOKS[name])
    assert np.mean(scores) == pytest.approx(0, abs=1e-12)
    assert np.var(scores) == pytest.approx(1)


def test_groups_are_looked_at_each_for_itself() -> None:
    """Two groups, of two values each: over the four orders of their records the moments are exact."""
    groups, lines, values = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    scores = [
        compare_group_lists("x", groups, np.array([first[0], second[0], first[1], second[1]]), lines, values).score
        for first in permutations((0, 1))
        for second in permutations((1, 2))
    ]
    assert np.mean(scores) == pytest.approx(0)
    assert np.var(scores) == pytest.approx(1)
    assert max(scores) == pytest.approx(2 / math.sqrt(2))


def test_limit_is_passed_by_chance_once_in_a_million_looks() -> None:
    assert 2 * stats.norm.sf(LARGEST_SCORE) == pytest.approx(1e-6)


def test_nothing_is_told_by_tables_of_other_people_or_of_one_kind() -> None:
    assert compare_places("x", [np.arange(3)], [np.arange(4)]) == OrderTest("x", 0.0, 0)
    assert compare_places("x", [], []) == OrderTest("x", 0.0, 0)
    assert compare_neighbours("x", np.zeros(50, dtype=int)).score == 0


def test_few_records_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order_attack, "LEAST_RECORDS", 7)
    assert [look(things).score for look, things in LOOKS.values()] == [0.0] * len(LOOKS)
