"""Bets against a random order: they gain nothing on average where it is random, exactly, and much where it is not.

The chance of a false alarm is at most one in a million for every table, because a capital that is 1 on average is
seldom large (Markov); so what has to be tested is the average, and that is done over all orders. The twins have power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from sfumato._risk.lint.betting_tests import (
    FALSE_ALARMS,
    bin_codes,
    bound_chance,
    compute_drift_capital,
    compute_order_capital,
    compute_pairing_capital,
    compute_repeats_capital,
)

pytestmark = pytest.mark.statistical

MULTISETS = [(0, 0, 0, 1, 1, 2), (0, 1, 2, 3, 4), (0, 0, 0, 0, 0, 1), (3, 3, 3)]


@pytest.mark.parametrize("values", MULTISETS, ids=str)
@pytest.mark.light
def test_bets_on_all_orders_gain_nothing_on_average(values: Sequence[int]) -> None:
    size = max(values) + 1
    orders = [np.array(order, dtype=np.uint8) for order in sorted(set(permutations(values)))]
    for mean in (
        np.mean([math.exp(compute_repeats_capital(order, size)) for order in orders]),
        np.mean([math.exp(compute_drift_capital(order)) for order in orders]),
        np.mean([math.exp(compute_order_capital(order, size)) for order in orders]),
    ):
        assert mean == pytest.approx(1)


def test_bets_on_all_pairings_gain_nothing_on_average() -> None:
    """Two blocks to learn from, one of five rows and one of two to bet on."""
    one = np.array([0, 0, 1, 1, 0, 1, 2, 2, 1, 0, 1])
    other = np.array([0, 0, 1, 1, 0, 2, 2, 0, 1, 1, 0])
    blocks = np.array([0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3])
    capitals = []
    for five in permutations(range(2, 7)):
        for two in permutations((9, 10)):
            rows = [0, 1, *five, 7, 8, *two]
            capitals.append(math.exp(compute_pairing_capital(one, other[rows], blocks)))
    assert np.mean(capitals) == pytest.approx(1)
    assert max(capitals) > 1 > min(capitals)


def is_found(codes: np.ndarray) -> bool:  # type: ignore[type-arg]
    codes = np.unique(codes, return_inverse=True)[1]
    return bound_chance(compute_order_capital(codes, int(codes.max()) + 1), 1) < FALSE_ALARMS


@pytest.mark.parametrize("rows", [30, 300, 30_000])
@pytest.mark.parametrize("distinct", [2, 12, 30_000])
@pytest.mark.light
def test_sorted_and_nearly_sorted_rows_are_found_and_shuffled_ones_are_not(rows: int, distinct: int) -> None:
    draw = np.random.default_rng(rows + distinct)
    values = draw.integers(0, distinct, rows)
    rising = np.sort(values)
    assert not is_found(values)
    assert is_found(rising)
    assert is_found(rising[::-1])
    if rows >= 300:
        some = draw.choice(rows, rows // 5, replace=False)
        nearly = rising.copy()
        nearly[np.sort(some)] = rising[some]  # a fifth of the rows changed places
        assert is_found(nearly)
        assert is_found(np.concatenate([rising[: rows // 2], values[rows // 2 :]]))


def test_weak_drift_and_turns_are_found() -> None:
    """Ten thousand rows, of which one in ten knows where it stands; and values that take turns, in no rising order."""
    draw = np.random.default_rng(5)
    values = draw.random(10_000)
    drifting = np.where(draw.random(10_000) < 0.1, np.linspace(0, 1, 10_000), values)
    assert is_found(drifting)
    assert is_found(np.arange(200) % 4)
    assert not is_found(values)


def test_bins_hold_about_as_many_rows_each() -> None:
    bins = bin_codes(np.arange(1600), 1600)
    assert set(np.bincount(bins)) == {100}
    assert (np.diff(bins.astype(int)) >= 0).all()
