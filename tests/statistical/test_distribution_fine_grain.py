"""Fine-grain perturbation does what its design says: each original value by its own coin."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import fine_grain
from sfumato.mechanisms._randomized_response.fine_grain import MOST_DENOMINATOR, Objective, Options
from statistical.support import (
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

RECORDS = 200_000
MANY = 1_000_000
"""For coins that keep one record in twenty, a tenth of which is hard to see."""

Published = npt.NDArray[np.int64]


def _plan(counts: tuple[int, ...], limits: str, options: Options = Options()) -> fine_grain.Plan:  # noqa: B008 - frozen
    """A plan with the given amplifications, one for each value; `-` where there is none."""
    bounds = {
        value: BreachBound("1/2", Fraction(limit) / (1 + Fraction(limit)))
        for value, limit in enumerate(limits.split())
        if limit != "-"
    }
    spec = BreachBoundPerValue(bounds)
    return fine_grain.plan(Histogram.of(range(len(counts)), counts), spec, options, keyed_draws(0))


SKEWED = _plan((50, 20, 12, 9, 6, 3), "12 9 7 5 4 3")
PAPER = _plan((1, 1, 1, 1), "3/2 3 19/2 18")
WITH_ONE_FREE = _plan((5, 3, 2), "- 4 2")
# The retentions of this one have a common denominator that is too large to draw with: they are rounded down.
FINE = _plan((368, 184, 123, 92, 74, 61, 52, 46), "158/33 204/79 877/377 227/102 463/213 939/439 237/112 477/227")
AGGREGATE = _plan((50, 20, 12, 9, 6, 3), "12 9 7 5 4 3", Options(objective=Objective.AGGREGATE))
PLANS = {"skewed": SKEWED, "paper": PAPER, "one free": WITH_ONE_FREE, "fine": FINE, "aggregate": AGGREGATE}

every_value = pytest.mark.parametrize(
    ("plan", "original"),
    [(plan, value) for plan in PLANS.values() for value in range(len(plan.keep_numerators))],
    ids=[f"{name}-{value}" for name, plan in PLANS.items() for value in range(len(plan.keep_numerators))],
)


def _law(plan: fine_grain.Plan, original: int, factor: Fraction = Fraction(1)) -> list[Fraction]:
    """The law of an original value, with its retention multiplied by a factor."""
    size = len(plan.keep_numerators)
    retention = factor * plan.design.retentions[original]
    return [(1 - retention) / size + retention * (value == original) for value in range(size)]


@cache
def _published(number: int, original: int, records: int, key: int) -> Published:
    codes = np.full(records, original, dtype=np.uint8)
    draws = keyed_draws(key).narrow_to_column("disease")
    return fine_grain.perturb([*PLANS.values()][number], codes, None, draws, 0).values.astype(np.int64)


def _shown(plan: fine_grain.Plan, original: int, records: int = RECORDS) -> Published:
    return _published([*PLANS.values()].index(plan), original, records, original)


def test_the_plans_of_these_tests_have_coins_of_many_kinds() -> None:
    assert [str(each) for each in SKEWED.retentions] == ["4/7", "4/7", "2/5", "8/35", "1/7", "2/35"]
    assert [str(each) for each in PAPER.retentions] == ["0", "1/3", "1/3", "1/3"]
    assert [str(each) for each in WITH_ONE_FREE.retentions] == ["1/2", "1/2", "0"]
    assert FINE.denominator == MOST_DENOMINATOR
    assert all(AGGREGATE.keep_numerators)


@every_value
def test_published_values_follow_the_law_of_their_original(plan: fine_grain.Plan, original: int) -> None:
    assert_same_distribution(counts_of(_shown(plan, original), len(plan.keep_numerators)), _law(plan, original))


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["too little kept", "too much kept"])
@pytest.mark.parametrize("original", range(6))
def test_another_retention_would_be_noticed(original: int, factor: Fraction) -> None:
    records = MANY if SKEWED.retentions[original] < Fraction(1, 5) else RECORDS
    assert_different(counts_of(_shown(SKEWED, original, records), 6), _law(SKEWED, original, factor))


def test_a_coin_of_one_in_fifty_would_be_noticed_for_a_value_that_is_never_kept() -> None:
    observed = counts_of(_shown(PAPER, 0), 4)
    assert_same_distribution(observed, [Fraction(1, 4)] * 4)
    law = [Fraction(49, 200)] * 4
    law[0] += Fraction(1, 50)
    assert_different(observed, law)


def test_the_coin_of_another_value_would_be_noticed() -> None:
    factor = SKEWED.retentions[2] / SKEWED.retentions[3]
    assert_different(counts_of(_shown(SKEWED, 3), 6), _law(SKEWED, 3, factor))


def test_a_last_value_that_is_never_published_would_be_noticed() -> None:
    shown = _shown(SKEWED, 0)
    shifted = np.where(shown == 5, 4, shown)
    assert_different(counts_of(shifted, 6), _law(SKEWED, 0))


def test_values_that_are_mixed_in_a_batch_follow_their_own_laws() -> None:
    codes = (np.arange(6 * RECORDS) % 6).astype(np.uint8)
    rows = 65_537
    draws = keyed_draws(20)
    parts = [
        fine_grain.perturb(SKEWED, codes[row : row + rows], None, draws, row).values
        for row in range(0, len(codes), rows)
    ]
    shown = np.concatenate(parts).astype(np.int64)
    for original in range(6):
        assert_same_distribution(counts_of(shown[codes == original], 6), _law(SKEWED, original))


@pytest.mark.parametrize("first", [0, 1], ids=["within a block", "across blocks"])
def test_neighbouring_rows_with_different_coins_are_independent(first: int) -> None:
    codes = np.tile(np.array([1, 4], dtype=np.uint8), RECORDS)
    shown = fine_grain.perturb(SKEWED, codes, None, keyed_draws(21), 0).values.astype(np.int64)
    one, other = shown[first:-1:2], shown[first + 1 :: 2]
    originals = (1, 4) if first == 0 else (4, 1)
    law = product_law(*(_law(SKEWED, original) for original in originals))
    assert_same_distribution(joint_counts_of(one, other[: len(one)], 6), law)
    mixed = np.where(np.arange(len(one)) % 20 == 0, one, other[: len(one)])
    assert_different(joint_counts_of(one, mixed, 6), law)


def test_columns_are_independent() -> None:
    codes, draws = np.full(RECORDS, 2, dtype=np.uint8), keyed_draws(22)
    one, other = (
        fine_grain.perturb(SKEWED, codes, None, draws.narrow_to_column(name), 0).values.astype(np.int64)
        for name in ("disease", "income")
    )
    law = product_law(_law(SKEWED, 2), _law(SKEWED, 2))
    assert_same_distribution(joint_counts_of(one, other, 6), law)
    assert_different(joint_counts_of(one, one, 6), law)
