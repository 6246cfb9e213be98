"""Leaving out records of frequent values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.baselines.suppression import compute_kept_counts, select_remaining
from refusals import refuses
from sfumato.errors import InfeasibleError, SpecError

tables = st.lists(st.integers(0, 30), min_size=2, max_size=8).filter(any)


def is_eligible(counts: list[int] | tuple[int, ...], diversity: int) -> bool:
    return max(counts) * diversity <= sum(counts)


@given(tables, st.integers(2, 5))
def test_the_fewest_records_are_left_out(counts: list[int], diversity: int) -> None:
    """Cutting at one record more would be one too many; and cutting at one height is the least there is."""
    if sum(count > 0 for count in counts) < diversity:
        with pytest.raises(InfeasibleError):
            compute_kept_counts(counts, diversity)
        return
    kept = compute_kept_counts(counts, diversity)
    assert is_eligible(kept, diversity)
    if is_eligible(counts, diversity):
        assert kept == tuple(counts)
    else:
        higher = [min(count, max(kept) + 1) for count in counts]
        assert not is_eligible(higher, diversity)


def test_who_stays_is_random_and_nobody_of_a_rare_value_goes() -> None:
    codes = np.repeat(np.arange(4), [60, 20, 10, 10])
    stays = select_remaining(codes, 3, np.random.default_rng(1))
    assert np.bincount(codes[stays]).tolist() == [20, 20, 10, 10]
    other = select_remaining(codes, 3, np.random.default_rng(2))
    assert not np.array_equal(stays, other)


def test_a_diversity_is_a_number_of_values() -> None:
    with refuses(SpecError, "diversity-out-of-range", given=0):
        compute_kept_counts([1, 2], 0)
