"""Records of several levels are drawn as their design says: the level by its coin, and the sets of each by theirs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._request.belief_bounds import BreachBound
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._subset_selection import levels
from statistical.support import (
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

RECORDS = 100_000
GROUPS = ("AABBCDEFG", "PPPPQQQQQ")
SIZE = len(GROUPS[0])
SHARES = "value=1/2,chapter=1/3,part=1/6"

Outcome = tuple[int, int]
"""A level, and the bits of a set as a number."""


@cache
def _plan() -> levels.Plan:
    paths = list(zip(range(SIZE), *GROUPS, strict=True))
    histogram = Histogram.of(range(SIZE), [1] * SIZE, (), Hierarchy.of(("value", "chapter", "part"), paths))
    return levels.plan(histogram, BreachBound("1/3", "1/2"), levels.Options(SHARES), keyed_draws(0))


@cache
def _law(original: int, factor: Fraction = Fraction(1), share: Fraction = Fraction(1)) -> dict[Outcome, Fraction]:
    """The chance of everything; another chance to hold the true group, or another share of the values, if wanted."""
    found = {}
    for number, level in enumerate(levels.make_design(_plan()).levels):
        size, members, hold = level.selection.size, level.selection.members, factor * level.selection.hold_probability
        own = share * level.share if not number else level.share * (1 - share / 2) * 2
        for chosen in combinations(range(size), members):
            is_held = level.groups[original] in chosen
            chance = hold / math.comb(size - 1, members - 1) if is_held else (1 - hold) / math.comb(size - 1, members)
            bits = sum(1 << place for place, group in enumerate(level.groups) if group in chosen)
            found[number, bits] = own * chance
    return found


@cache
def _numbers(original: int, key: int) -> npt.NDArray[np.int64]:
    """Which of all outcomes each record shows."""
    replaced = levels.perturb(
        _plan(), np.full(RECORDS, original), None, keyed_draws(key).narrow_to_column("disease"), 0
    )
    bits = np.unpackbits(np.asarray(replaced.values), axis=1, count=SIZE).astype(np.int64) @ (1 << np.arange(SIZE))
    codes, inverse = np.unique(np.asarray(replaced.cells).astype(np.int64) << SIZE | bits, return_inverse=True)
    numbers = {level << SIZE | held: number for number, (level, held) in enumerate(_law(original))}
    return np.array([numbers[code] for code in codes.tolist()])[inverse]


each_original = pytest.mark.parametrize("original", [0, 4, 7, SIZE - 1])


def test_the_plan_of_these_tests_has_sets_of_several_groups() -> None:
    assert [level.selection.members for level in levels.make_design(_plan()).levels] == [3, 2, 1]
    assert sum(_law(0).values()) == 1


@each_original
def test_levels_and_sets_follow_the_law_of_their_original(original: int) -> None:
    observed = counts_of(_numbers(original, original), len(_law(original)))
    assert_same_distribution(observed, list(_law(original).values()))


@each_original
@pytest.mark.parametrize("wrong", [Fraction(9, 10), Fraction(11, 10)], ids=["too rarely", "too often"])
def test_another_chance_to_hold_or_another_share_would_be_noticed(original: int, wrong: Fraction) -> None:
    observed = counts_of(_numbers(original, original), len(_law(original)))
    for law in (_law(original, wrong), _law(original, share=wrong)):
        assert_different(observed, list(law.values()))


def _by_level(original: int, key: int) -> npt.NDArray[np.int64]:
    found = np.array([level for level, _ in _law(original)])
    return np.asarray(found[_numbers(original, key)])


def test_levels_tell_nothing_of_the_value_and_neighbouring_rows_nothing_of_each_other() -> None:
    shares = [level.share for level in levels.make_design(_plan()).levels]
    for original in (0, SIZE - 1):
        drawn = _by_level(original, 32)
        assert_same_distribution(counts_of(drawn, 3), shares)
        pairs = joint_counts_of(drawn[:-1:2], drawn[1::2], 3)
        assert_same_distribution(pairs, product_law(shares, shares))


def test_levels_that_repeat_would_be_noticed() -> None:
    shares = [level.share for level in levels.make_design(_plan()).levels]
    drawn = _by_level(0, 32)[: RECORDS // 2]
    assert_different(joint_counts_of(drawn, drawn, 3), product_law(shares, shares))
