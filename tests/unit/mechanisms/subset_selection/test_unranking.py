"""Sets by their number: every set once, in the documented order, for all that a number of 64 bits can tell."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core import run_lookup as run_lengths
from sfumato.mechanisms._subset_selection import set_sampler
from sfumato.mechanisms._subset_selection.set_sampler import MOST_VALUES, TABLE_VALUES, number_sets


def _members(found: np.ndarray, values: int) -> list[frozenset[int]]:
    return [frozenset(place for place in range(values) if word >> (values - 1 - place) & 1) for word in found.tolist()]


def _by_hand(number: int, values: int, members: int, *, is_whole: bool = True) -> frozenset[int]:
    """The set of a number among all of so many members, from the documented order, one step at a time."""
    if values <= TABLE_VALUES and not is_whole:  # the whole is always halved
        listed = sorted(
            combinations(range(values), members), key=lambda each: sum(1 << (values - 1 - place) for place in each)
        )
        return frozenset(listed[number])
    left, right = (values + 1) // 2, values // 2
    for within in range(members + 1):
        size = math.comb(left, within) * math.comb(right, members - within)
        if number < size:
            first, second = divmod(number, math.comb(right, members - within))
            beside = _by_hand(second, right, members - within, is_whole=False)
            return _by_hand(first, left, within, is_whole=False) | {left + place for place in beside}
        number -= size
    raise AssertionError("there are not so many sets")


@pytest.mark.parametrize(
    ("values", "members"),
    [(1, 0), (1, 1), (2, 1), (3, 2), (7, 3), (13, 5), (14, 7), (15, 1), (20, 7), (27, 3), (63, 1)],
)
def test_every_set_of_a_size_has_one_number(values: int, members: int) -> None:
    found = number_sets(values, members).find_sets(np.arange(math.comb(values, members), dtype=np.uint64))
    assert len(np.unique(found)) == len(found)
    assert (np.bitwise_count(found) == members).all()
    assert int(found.max()) < 1 << values


@pytest.mark.parametrize(("values", "members"), [(6, 2), (16, 4), (30, 2)])
def test_sets_of_two_sizes_are_numbered_one_size_after_the_other(values: int, members: int) -> None:
    numbers = np.arange(math.comb(values + 1, members + 1), dtype=np.uint64)
    found = number_sets(values, members, members + 1).find_sets(numbers)
    fewer = math.comb(values, members)
    assert (found[:fewer] == number_sets(values, members).find_sets(numbers[:fewer])).all()
    assert (found[fewer:] == number_sets(values, members + 1).find_sets(numbers[: len(numbers) - fewer])).all()


@given(st.integers(1, MOST_VALUES), st.data())
def test_a_number_leads_to_the_set_of_the_documented_order(values: int, data: st.DataObject) -> None:
    members = data.draw(st.integers(0, values))
    most = math.comb(values, members) - 1
    numbers = [0, most, *data.draw(st.lists(st.integers(0, most), max_size=5))]
    found = number_sets(values, members).find_sets(np.array(numbers, dtype=np.uint64))
    assert _members(found, values) == [_by_hand(number, values, members) for number in numbers]


@pytest.mark.parametrize(("values", "members"), [(49, 14), (62, 31), (63, 31), (63, 32)])
def test_numbers_at_the_edge_of_every_split_lead_to_their_sets(values: int, members: int) -> None:
    left, right = (values + 1) // 2, values // 2
    sizes = [math.comb(left, within) * math.comb(right, members - within) for within in range(members + 1)]
    edges = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    numbers = sorted({min(max(edge + step, 0), edges[-1] - 1) for edge in edges for step in (-1, 0, 1)})
    found = number_sets(values, members).find_sets(np.array(numbers, dtype=np.uint64))
    assert _members(found, values) == [_by_hand(number, values, members) for number in numbers]


@pytest.mark.parametrize("bits", [1, 4])
def test_a_short_guide_leads_to_the_same_sets(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.linspace(0, math.comb(40, 20) - 1, 500).astype(np.uint64)
    expected = number_sets(40, 20).find_sets(numbers)
    monkeypatch.setattr(run_lengths, "MOST_BITS", bits)
    for function in (number_sets, set_sampler._number_all_sets):
        function.cache_clear()
    assert (number_sets(40, 20).find_sets(numbers) == expected).all()
    for function in (number_sets, set_sampler._number_all_sets):
        function.cache_clear()
