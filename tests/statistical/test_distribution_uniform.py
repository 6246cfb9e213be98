"""Uniform perturbation does what its design says: the law of each original value, and nothing tied to anything else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._core.random_draws import Draws
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
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
SIZE = 5
BOUND = BreachBound("1/3", "2/3")
# With five values this needs 2^62 + 1 outcomes, so that a quarter of all words is rejected and drawn anew.
REJECTING = BreachBound("1/2", Fraction(2**61 - 3, 2**61 + 2**59 - 2))

Published = npt.NDArray[np.int32]


def _plan(bound: BreachBound = BOUND, size: int = SIZE) -> uniform.Plan:
    return uniform.plan(Histogram.of(range(size), [1] * size), bound, uniform.NoOptions(), keyed_draws(0))


def _law(plan: uniform.Plan, original: int, factor: Fraction = Fraction(1)) -> list[Fraction]:
    """The law of an original value, with the retention multiplied by a factor."""
    size = plan.histogram.domain_size
    retention = factor * plan.retention
    return [(1 - retention) / size + retention * (value == original) for value in range(size)]


def _published(plan: uniform.Plan, original: int, draws: Draws, first_row: int = 0) -> Published:
    codes = np.full(RECORDS, original, dtype=np.int32)
    return uniform.perturb(plan, codes, None, draws.narrow_to_column("disease"), first_row).values


@pytest.mark.parametrize("original", range(SIZE))
@pytest.mark.parametrize("bound", [BOUND, BreachBound("1/10", "9/10")], ids=["odds times 4", "odds times 81"])
def test_published_values_follow_the_law_of_their_original(bound: BreachBound, original: int) -> None:
    plan = _plan(bound)
    observed = counts_of(_published(plan, original, keyed_draws(original)), SIZE)
    assert_same_distribution(observed, _law(plan, original))


def test_published_values_follow_their_law_where_many_words_are_rejected() -> None:
    plan = _plan(REJECTING)
    assert plan.outcome_count == 2**62 + 1
    published = uniform.perturb(plan, np.full(100_000, SIZE - 1, dtype=np.int32), None, keyed_draws(10), 0).values
    assert_same_distribution(counts_of(published, SIZE), _law(plan, SIZE - 1))


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["too little kept", "too much kept"])
@pytest.mark.parametrize("original", range(SIZE))
def test_another_retention_would_be_noticed(original: int, factor: Fraction) -> None:
    plan = _plan()
    observed = counts_of(_published(plan, original, keyed_draws(original)), SIZE)
    assert_different(observed, _law(plan, original, factor))


def test_a_last_value_that_is_never_published_would_be_noticed() -> None:
    published = _published(_plan(), 0, keyed_draws(0))
    shifted = np.where(published == SIZE - 1, SIZE - 2, published)
    assert_different(counts_of(shifted, SIZE), _law(_plan(), 0))


@pytest.mark.parametrize("first", [0, 1], ids=["within a block", "across blocks"])
def test_neighbouring_rows_are_independent(first: int) -> None:
    plan = _plan()
    published = _published(plan, 1, keyed_draws(11))
    one, other = published[first:-1:2], published[first + 1 :: 2]
    law = product_law(_law(plan, 1), _law(plan, 1))
    assert_same_distribution(joint_counts_of(one, other[: len(one)], SIZE), law)


def test_a_tenth_of_repeated_neighbours_would_be_noticed() -> None:
    plan = _plan()
    published = _published(plan, 1, keyed_draws(11))
    one, other = published[::2], published[1::2].copy()
    other[::10] = one[::10]
    assert_different(joint_counts_of(one, other, SIZE), product_law(_law(plan, 1), _law(plan, 1)))


def test_columns_are_independent() -> None:
    plan, draws, codes = _plan(), keyed_draws(12), np.full(RECORDS, 2, dtype=np.int32)
    one, other = (
        uniform.perturb(plan, codes, None, draws.narrow_to_column(name), 0).values for name in ("disease", "income")
    )
    law = product_law(_law(plan, 2), _law(plan, 2))
    assert_same_distribution(joint_counts_of(one, other, SIZE), law)
    assert_different(joint_counts_of(one, one, SIZE), law)


def test_keys_are_independent() -> None:
    plan = _plan()
    one, other = (_published(plan, 2, keyed_draws(number)) for number in (13, 14))
    assert_same_distribution(joint_counts_of(one, other, SIZE), product_law(_law(plan, 2), _law(plan, 2)))


def test_coins_are_independent_of_other_purposes() -> None:
    plan, draws = _plan(), keyed_draws(15)
    published = _published(plan, 3, draws)
    order = draws.narrow_to_column("disease").get_stream("order").draw_integers(0, RECORDS, SIZE)
    law = product_law(_law(plan, 3), [Fraction(1, SIZE)] * SIZE)
    assert_same_distribution(joint_counts_of(published, order, SIZE), law)


@pytest.mark.parametrize("rows", [1009, 65_536])
def test_the_law_holds_whatever_the_batch_size(rows: int) -> None:
    plan, draws, codes = _plan(), keyed_draws(16), np.full(RECORDS, 4, dtype=np.int32)
    parts = [uniform.perturb(plan, codes[row : row + rows], None, draws, row).values for row in range(0, RECORDS, rows)]
    published = np.concatenate(parts)
    assert np.array_equal(published, uniform.perturb(plan, codes, None, draws, 0).values)
    assert_same_distribution(counts_of(published, SIZE), _law(plan, 4))
