"""Runs of a row of places: every place is found in its run, whatever the lengths and the size of the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core import run_lookup as runs
from sfumato._core.run_lookup import Runs

lengths = st.lists(st.integers(0, 40), min_size=1, max_size=60).filter(any)


def _found(given_lengths: list[int]) -> list[int]:
    row = Runs(np.array(given_lengths))
    places = np.arange(sum(given_lengths), dtype=row.type)
    return row.run_numbers[row.find(places)].tolist()


@given(lengths)
def test_every_place_is_found_in_its_run(lengths: list[int]) -> None:
    assert _found(lengths) == np.repeat(np.arange(len(lengths)), lengths).tolist()


@pytest.mark.parametrize("bits", [1, 3, 6])
def test_a_small_table_leads_to_the_same_runs(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then most places are left behind by the table, and searched for."""
    monkeypatch.setattr(runs, "MOST_BITS", bits)
    row = [0, 5, 1, 1, 0, 0, 100, 3, 0, 1, 1, 1, 70, 0]
    assert _found(row) == np.repeat(np.arange(len(row)), row).tolist()


def test_a_row_of_more_places_than_32_bits_has_wide_places() -> None:
    row = Runs(np.array([2**32, 0, 2**33, 1]))
    places = np.array([0, 2**32 - 1, 2**32, 2**33 + 2**32 - 1, 2**33 + 2**32], dtype=row.type)
    assert row.run_numbers[row.find(places)].tolist() == [0, 0, 2, 2, 3]
