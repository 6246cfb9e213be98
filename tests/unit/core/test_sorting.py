"""Words in rising order: the oracle is a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sfumato._core.radix_sort import find_sorted_positions

# Words that differ only in their lowest bits, or not at all, are what the fast way cannot tell apart.
NEIGHBOURS = st.builds(
    lambda word, more: (word + more) % 2**64, st.sampled_from([0, 2**63, 2**64 - 8]), st.integers(0, 9)
)


@given(st.lists(st.integers(0, 2**64 - 1) | NEIGHBOURS, max_size=60))
@example([])
@example([2**64 - 1])
@example([5, 5])
@example([1, 0])
@example([2**64 - 1, 0, 2**64 - 1, 0])
@example([7, 6, 5, 4, 3, 2, 1, 0])
@example([2**63 + 1, 2**63])
def test_positions_are_those_of_a_stable_sort(words: list[int]) -> None:
    positions = find_sorted_positions(np.array(words, dtype=np.uint64))
    assert positions.tolist() == sorted(range(len(words)), key=words.__getitem__)


@given(st.integers(0, 2**32), st.integers(2, 3000))
def test_positions_of_random_words_are_those_of_a_stable_sort(seed: int, rows: int) -> None:
    words = np.random.default_rng(seed).integers(0, 2**64, rows, dtype=np.uint64)
    assert (find_sorted_positions(words) == np.argsort(words, kind="stable")).all()


@given(st.integers(0, 2**32), st.integers(2, 500), st.integers(1, 12))
def test_positions_of_words_with_many_ties_are_those_of_a_stable_sort(seed: int, rows: int, bits: int) -> None:
    words = np.random.default_rng(seed).integers(0, 2**bits, rows, dtype=np.uint64) << np.uint64(64 - bits)
    assert (find_sorted_positions(words) == np.argsort(words, kind="stable")).all()


def test_positions_leave_the_words_as_they_are() -> None:
    words = np.array([3, 1, 2], dtype=np.uint64)
    find_sorted_positions(words)
    assert words.tolist() == [3, 1, 2]


@pytest.mark.parametrize("bits", [64, 30, 3])
def test_many_words_are_put_in_order(bits: int) -> None:
    words = np.random.default_rng(bits).integers(0, 2**bits - 1, 600_000, dtype=np.uint64)
    assert (find_sorted_positions(words) == np.argsort(words, kind="stable")).all()
