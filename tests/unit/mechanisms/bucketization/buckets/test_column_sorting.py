"""Columns are sorted by comparing whole rows, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.mechanisms._bucketization.buckets import record_assignment
from sfumato.mechanisms._bucketization.buckets.record_assignment import list_exchanges, sort_columns


@pytest.mark.parametrize("size", range(1, 17))
def test_exchanges_sort_all_columns_of_zeros_and_ones(size: int) -> None:
    """What sorts all of these sorts everything (Knuth 1973, theorem Z of section 5.3.4)."""
    rows = (np.arange(1 << size) >> np.arange(size)[:, None] & 1).astype(np.uint8)
    expected = np.sort(rows, axis=0)
    for upper, lower in list_exchanges(size):
        assert upper < lower
        rows[[upper, lower]] = np.minimum(rows[upper], rows[lower]), np.maximum(rows[upper], rows[lower])
    assert (rows == expected).all()


@pytest.mark.parametrize("few", [0, 1 << 30], ids=["rows", "columns"])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_columns_of_any_length_are_sorted_in_their_place(kind: type, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_assignment, "FEW", few)
    for size in (1, 2, 3, 17, 31, 33, 50, 64, 77):
        rows = np.random.default_rng(size).integers(0, np.iinfo(kind).max + 1, (size, 200)).astype(kind)
        expected = np.sort(rows, axis=0)
        sort_columns(rows)
        assert (rows == expected).all()
