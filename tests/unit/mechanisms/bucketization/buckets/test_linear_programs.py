"""Linear programmes: numbers and prices, against worked examples and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from sfumato.mechanisms._bucketization.buckets.relaxation import Programme, solve_programme

UNBOUNDED = np.full(2, np.inf)


def test_the_cheapest_numbers_and_what_more_would_cost() -> None:
    """x + 2y is to be small, x + y at least 3, and x at most 2: x = 2, y = 1; one more costs 2."""
    rows = np.array([[1.0, 1.0], [1.0, 0.0]])
    sums = np.array([3.0, -np.inf]), np.array([np.inf, 2.0])
    found = solve_programme(Programme(np.array([1.0, 2.0]), (np.zeros(2), UNBOUNDED), rows, sums))
    assert found is not None
    assert found.numbers == pytest.approx([2, 1])
    assert found.prices == pytest.approx([2, -1])


def test_a_programme_that_nothing_meets_has_no_numbers() -> None:
    sums = np.array([3.0]), np.array([np.inf])
    assert solve_programme(Programme(np.ones(2), (np.zeros(2), np.ones(2)), np.ones((1, 2)), sums)) is None


@given(st.integers(0, 2**32))
def test_the_cost_is_that_of_scipy(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows, needs = chance.integers(0, 4, (4, 6)).astype(float), chance.integers(0, 9, 4).astype(float)
    costs, high = chance.integers(1, 9, 6).astype(float), chance.integers(1, 9, 6).astype(float)
    found = solve_programme(Programme(costs, (np.zeros(6), high), rows, (needs, np.full(4, np.inf))))
    expected = linprog(costs, -rows, -needs, bounds=list(zip(np.zeros(6), high, strict=True)))
    assert (found is None) == (expected.status == 2)
    if found is not None:
        assert costs @ found.numbers == pytest.approx(expected.fun)
        assert found.prices.min() >= -1e-9
