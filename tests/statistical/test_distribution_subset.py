"""Subset selection draws what its design says: all sets that hold the true value equally often, and all that do not."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from statistical.support import (
    ALPHA,
    LARGEST_SCORE,
    Counts,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

RECORDS = 200_000
ODDS_TIMES_2 = BreachBound("1/3", "1/2")
SIZE, MEMBERS = 10, 3  # the last two values are in a second byte
LARGE_SIZE, LARGE_MEMBERS = 50, 16

Members = npt.NDArray[np.uint8]
"""A row for each set: one where it holds a value of the domain."""


@cache
def _plan(size: int = SIZE, bound: BreachBound = ODDS_TIMES_2) -> subset.Plan:
    return subset.plan(Histogram.of(range(size), [1] * size), bound, subset.Options(), keyed_draws(0))


@cache
def _sets(plan: subset.Plan, original: int, key: int) -> Members:
    codes = np.full(RECORDS, original, dtype=np.uint8)
    bits = subset.perturb(plan, codes, None, keyed_draws(key).narrow_to_column("disease"), 0).values
    return np.unpackbits(bits, axis=1, count=plan.histogram.domain_size)


@cache
def _all_sets(size: int, members: int) -> list[tuple[int, ...]]:
    return list(combinations(range(size), members))


def _numbers(sets: Members, members: int) -> npt.NDArray[np.int64]:
    """Which of all possible sets each row is."""
    size = sets.shape[1]
    numbers = {sum(1 << place for place in each): number for number, each in enumerate(_all_sets(size, members))}
    masks, inverse = np.unique(sets @ (1 << np.arange(size)), return_inverse=True)
    return np.array([numbers[mask] for mask in masks.tolist()])[inverse]


def _law(plan: subset.Plan, original: int, factor: Fraction = Fraction(1)) -> list[Fraction]:
    """The chance of every set: those that hold the original share `hold`, and the others share the rest."""
    size, members = plan.histogram.domain_size, plan.subset_size
    hold = factor * subset.make_design(plan).hold_probability
    inside = hold / math.comb(size - 1, members - 1)
    outside = (1 - hold) / math.comb(size - 1, members)
    return [inside if original in each else outside for each in _all_sets(size, members)]


def test_the_plans_of_these_tests_have_sets_of_several_values() -> None:
    assert _plan().subset_size == MEMBERS
    assert _plan(LARGE_SIZE).subset_size == LARGE_MEMBERS


@pytest.mark.parametrize("original", range(SIZE))
def test_every_set_has_as_many_members_as_the_design_says(original: int) -> None:
    sets = _sets(_plan(), original, original)
    assert (sets.sum(axis=1) == MEMBERS).all()


@pytest.mark.parametrize("original", range(SIZE))
def test_sets_follow_the_law_of_their_original(original: int) -> None:
    """All 120 sets: those that hold the value are equally likely among themselves, and so are the others."""
    observed = counts_of(_numbers(_sets(_plan(), original, original), MEMBERS), math.comb(SIZE, MEMBERS))
    assert_same_distribution(observed, _law(_plan(), original))


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["held too rarely", "held too often"])
@pytest.mark.parametrize("original", range(SIZE))
def test_another_chance_to_hold_would_be_noticed(original: int, factor: Fraction) -> None:
    observed = counts_of(_numbers(_sets(_plan(), original, original), MEMBERS), math.comb(SIZE, MEMBERS))
    assert_different(observed, _law(_plan(), original, factor))


@pytest.mark.parametrize("is_held", [True, False], ids=["own value held", "own value left out"])
@pytest.mark.parametrize("original", [0, 4, SIZE - 1])
def test_the_other_members_are_any_with_equal_chance(original: int, is_held: bool) -> None:
    """Floyd's algorithm, given whether the set holds its own value."""
    sets = _sets(_plan(), original, original)
    others = np.delete(sets, original, axis=1)[sets[:, original] == is_held]
    members = MEMBERS - is_held
    possible = math.comb(SIZE - 1, members)
    assert_same_distribution(counts_of(_numbers(others, members), possible), [1 / possible] * possible)


def test_members_that_give_way_to_their_neighbour_would_be_noticed() -> None:
    """The mistake beside Floyd's algorithm: on a collision the next value up, so that neighbours meet too often."""
    stream = keyed_draws(1)
    first, second = (
        stream.get_stream(name).draw_integers(0, RECORDS, SIZE).astype(np.int64) for name in ("one", "two")
    )
    second = np.where(first == second, (second + 1) % SIZE, second)
    sets = np.zeros((RECORDS, SIZE), dtype=np.uint8)
    sets[np.arange(RECORDS), first] = sets[np.arange(RECORDS), second] = 1
    possible = math.comb(SIZE, 2)
    assert_different(counts_of(_numbers(sets, 2), possible), [1 / possible] * possible)


def test_a_last_value_that_no_set_holds_would_be_noticed() -> None:
    sets = _sets(_plan(), 0, 0).copy()
    moved = (sets[:, -1] == 1) & (sets[:, -2] == 0)
    sets[moved, -2:] = [1, 0]
    observed = counts_of(_numbers(sets, MEMBERS), math.comb(SIZE, MEMBERS))
    assert_different(observed, _law(_plan(), 0))


# ---------------------------------------------------------------------------- a domain with too many sets to count each


def _scores(hits: Counts, chance: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
    """By how many standard deviations each of several numbers of hits is off."""
    return np.asarray((hits - RECORDS * chance) / np.sqrt(RECORDS * chance * (1 - np.asarray(chance))))


def _fit(scores: npt.NDArray[np.float64]) -> bool:
    """Whether no score is too large; that one is happens with probability ALPHA, shared between them."""
    return bool(np.abs(scores).max() <= NormalDist().inv_cdf(1 - ALPHA / 2 / len(scores)))


def _inclusion(plan: subset.Plan, original: int, factor: float = 1) -> npt.NDArray[np.float64]:
    size, hold = plan.histogram.domain_size, factor * float(subset.make_design(plan).hold_probability)
    chances = np.full(size, (plan.subset_size - hold) / (size - 1))
    chances[original] = hold
    return chances


large = pytest.mark.parametrize("original", [0, 23, LARGE_SIZE - 1])


@large
def test_every_value_is_held_as_often_as_the_design_says(original: int) -> None:
    """The last value as often as the first."""
    plan = _plan(LARGE_SIZE)
    hits = _sets(plan, original, original).sum(axis=0, dtype=np.int64)
    assert _fit(_scores(hits, _inclusion(plan, original)))


@large
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_another_chance_would_be_noticed_in_a_large_domain(original: int, factor: float) -> None:
    """In the own value: each of the others changes too little to tell."""
    plan = _plan(LARGE_SIZE)
    hits = _sets(plan, original, original).sum(axis=0, dtype=np.int64)
    scores = _scores(hits, _inclusion(plan, original, factor))
    assert abs(scores[original]) > LARGEST_SCORE


def _pairs(sets: Members) -> Counts:
    """How many sets hold both of two values, for all pairs."""
    held = sets.astype(np.float32)
    return (held.T @ held).astype(np.int64)[np.triu_indices(sets.shape[1], 1)]


def _pair_law(plan: subset.Plan, original: int) -> npt.NDArray[np.float64]:
    """A set with its own value has d - 1 of the m - 1 others, and each pair of others by two draws without return."""
    size, members, hold = plan.histogram.domain_size, plan.subset_size, float(subset.make_design(plan).hold_probability)
    mixed = hold * (members - 1) * (members - 2) + (1 - hold) * members * (members - 1)
    law = np.full((size, size), mixed / ((size - 1) * (size - 2)))
    law[original] = law[:, original] = hold * (members - 1) / (size - 1)
    return np.asarray(law[np.triu_indices(size, 1)])


@large
def test_every_pair_of_values_is_held_as_often_as_the_design_says(original: int) -> None:
    plan = _plan(LARGE_SIZE)
    assert _fit(_scores(_pairs(_sets(plan, original, original)), _pair_law(plan, original)))


def test_sets_of_neighbouring_values_would_be_noticed_by_their_pairs() -> None:
    """Each value is held as often as it should be, but always beside the same others."""
    plan = _plan(LARGE_SIZE)
    starts = keyed_draws(2).get_stream("starts").draw_integers(0, RECORDS, LARGE_SIZE).astype(np.int64)
    windows = (starts[:, None] + np.arange(LARGE_MEMBERS)) % LARGE_SIZE
    sets = np.zeros((RECORDS, LARGE_SIZE), dtype=np.uint8)
    np.put_along_axis(sets, windows, 1, axis=1)
    share = LARGE_MEMBERS / LARGE_SIZE
    assert _fit(_scores(sets.sum(axis=0, dtype=np.int64), share))
    assert not _fit(_scores(_pairs(sets), _pair_law(plan, 0)))


# --------------------------------------------------------------------------------- one value, rows, columns and batches


def test_sets_of_one_value_are_uniform_perturbation() -> None:
    bound = BreachBound("1/2", "5/7")
    plan, size = _plan(6, bound), 6
    assert plan.subset_size == 1
    design = uniform.make_design(uniform.plan(plan.histogram, bound, uniform.NoOptions(), keyed_draws(0)))
    for original in (0, size - 1):
        law = [design.swap_probability + design.retention * (value == original) for value in range(size)]
        assert_same_distribution(counts_of(_sets(plan, original, 30).argmax(axis=1), size), law)


def test_two_values_are_both_reached() -> None:
    plan = _plan(2, BreachBound("1/2", "3/4"))
    for original in (0, 1):
        shown = _sets(plan, original, 31).argmax(axis=1)
        assert_same_distribution(counts_of(shown == original, 2), [Fraction(1, 4), Fraction(3, 4)])


FEW, FEW_BOUND = 5, BreachBound("1/2", "3/5")


@pytest.mark.parametrize("first", [0, 1], ids=["within a block", "across blocks"])
def test_neighbouring_rows_are_independent(first: int) -> None:
    plan = _plan(FEW, FEW_BOUND)
    numbers, possible = _numbers(_sets(plan, 1, 32), plan.subset_size), math.comb(FEW, plan.subset_size)
    one, other = numbers[first:-1:2], numbers[first + 1 :: 2]
    law = product_law(_law(plan, 1), _law(plan, 1))
    assert_same_distribution(joint_counts_of(one, other[: len(one)], possible), law)
    assert_different(joint_counts_of(one, one, possible), law)


def test_columns_and_keys_are_independent() -> None:
    plan, codes = _plan(FEW, FEW_BOUND), np.full(RECORDS, 2, dtype=np.uint8)
    possible, law = math.comb(FEW, plan.subset_size), product_law(_law(plan, 2), _law(plan, 2))

    def drawn(key: int, column: str) -> npt.NDArray[np.int64]:
        bits = subset.perturb(plan, codes, None, keyed_draws(key).narrow_to_column(column), 0).values
        return _numbers(np.unpackbits(bits, axis=1, count=FEW), plan.subset_size)

    for other in (drawn(33, "income"), drawn(34, "disease")):
        assert_same_distribution(joint_counts_of(drawn(33, "disease"), other, possible), law)


def test_the_law_holds_for_mixed_values_in_small_batches() -> None:
    plan, rows = _plan(FEW, FEW_BOUND), 1009
    codes = (np.arange(RECORDS) % FEW).astype(np.uint8)
    starts = range(0, RECORDS, rows)
    parts = [subset.perturb(plan, codes[row : row + rows], None, keyed_draws(35), row).values for row in starts]
    sets = np.unpackbits(np.concatenate(parts), axis=1, count=FEW)
    for original in range(FEW):
        numbers = _numbers(sets[codes == original], plan.subset_size)
        observed = counts_of(numbers, math.comb(FEW, plan.subset_size))
        assert_same_distribution(observed, _law(plan, original))
