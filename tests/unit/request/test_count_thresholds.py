"""Group sizes from thresholds: the smallest that make small counts unreliable enough, by sums over every outcome."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato import DecoyGroups, Histogram, InfeasibleError, SpecError
from sfumato._request.count_accuracy_request import CountThresholds
from sfumato._request.requirement_kinds import make_requirement
from sfumato.errors import ErrorField


def off(count: int, group_size: int, part: Fraction) -> Fraction:
    """The chance that a published count errs by more than a part of it, outcome by outcome."""
    seats, once = count * group_size, Fraction(1, group_size)
    chances = (
        math.comb(seats, shown) * once**shown * (1 - once) ** (seats - shown)
        for shown in range(seats + 1)
        if abs(shown - count) > part * count
    )
    return sum(chances, Fraction(0))


@pytest.mark.parametrize(
    ("small", "chance", "size"), [(10, "0.2139", 5), (10, "0.115", 2), (3, "0.6102", 9), (6, "0.4290", 10)], ids=str
)
def test_group_sizes_are_those_of_the_table_of_chances(small: int, chance: str, size: int) -> None:
    """The least chances of counts up to so many, off by more than 3/10: .2139 in groups of 5, .1153 of 2, and so on."""
    assert CountThresholds("3/10", small, chance).group_size == size


@given(
    small=st.integers(1, 6),
    part=st.fractions(Fraction(1, 10), Fraction(9, 10), max_denominator=10),
    chance=st.fractions(Fraction(1, 20), Fraction(1, 2), max_denominator=20),
)
def test_no_smaller_groups_meet_the_chance(small: int, part: Fraction, chance: Fraction) -> None:
    try:
        size = CountThresholds(part, small, chance).group_size
    except InfeasibleError:
        assert min(off(count, 12, part) for count in range(1, small + 1)) < chance
        return
    if size <= 12:
        assert min(off(count, size, part) for count in range(1, small + 1)) >= chance
        for less in range(2, size):
            assert min(off(count, less, part) for count in range(1, small + 1)) < chance


def test_large_counts_stay_accurate_or_it_is_said_from_which_on_they_are() -> None:
    counted = Histogram.of("abc", [5, 5, 5])
    both = CountThresholds("3/10", 10, "1/5", 1000, "1/20")
    assert both.resolve(counted) == DecoyGroups(5)
    with refuses(InfeasibleError, "thresholds-conflict", group_size=5) as caught:
        CountThresholds("3/10", 10, "1/5", 11, "1/20").resolve(counted)
    from_count = caught.value.fields["accurate_count"]
    assert isinstance(from_count, int)
    assert off(from_count, 5, Fraction(3, 10)) <= Fraction(1, 20) < off(from_count - 1, 5, Fraction(3, 10))
    assert CountThresholds("3/10", 10, "1/5", from_count, "1/20").group_size == 5


@pytest.mark.parametrize(
    ("given", "code", "fields"),
    [
        ({"off_by": "3/10"}, "incomplete-thresholds", {"lacking": "`small_count=` and `small_chance=`"}),
        ({"off_by": "0", "small_count": 5, "small_chance": "1/5"}, "error-out-of-range", {"given": "0"}),
        (
            {"off_by": "1/3", "small_count": 0, "small_chance": "1/5"},
            "count-out-of-range",
            {"argument": "small_count", "given": 0, "largest": 20},
        ),
        ({"off_by": "1/3", "small_count": 5, "small_chance": "1"}, "chance-out-of-range", {"given": "1"}),
        (
            {"off_by": "1/3", "small_count": 5, "small_chance": "1/5", "large_count": 9},
            "incomplete-thresholds",
            {"lacking": "`large_chance=`"},
        ),
        (
            {"off_by": "1/3", "small_count": 5, "small_chance": "1/5", "large_count": 5, "large_chance": "1/9"},
            "large-count-not-above-small",
            {"given": 5, "small_count": 5},
        ),
        ({"off_by": "1/3", "group_size": 3}, "two-requirements", {"first": "DecoyGroups", "second": "CountThresholds"}),
    ],
    ids=str,
)
def test_mistakes_are_refused(given: dict[str, Any], code: str, fields: dict[str, ErrorField]) -> None:
    with refuses(SpecError, code, **fields):
        make_requirement(given)


def test_chance_that_no_group_reaches_is_refused() -> None:
    with refuses(InfeasibleError, "thresholds-unreachable", small_count=10, largest_group=100):
        CountThresholds("3/10", 10, "9/10").resolve(Histogram.of("ab", [1, 1]))
