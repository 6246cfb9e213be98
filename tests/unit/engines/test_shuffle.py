"""Rows on their way to files: how they are cut into parts, and what spills comes back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato._engines.shuffle import (
    FILE_ROWS,
    LARGEST_PART,
    ORDER,
    PART_ROWS,
    Layout,
    PartStore,
    bundle_rows,
    concatenate_rows,
)

ROWS = 5_000


@pytest.mark.parametrize(
    ("rows", "files", "parts"),
    [
        (0, 1, 1),
        (1, 1, 1),
        (PART_ROWS, 1, 1),
        (PART_ROWS + 1, 1, 2),
        (FILE_ROWS, 1, 128),
        (FILE_ROWS + 1, 2, 65),
        (100_000_000, 6, 42),
        (1_000_000_000, 60, 32),
    ],
)
def test_parts_of_many_rows_are_larger_but_not_too_large(rows: int, files: int, parts: int) -> None:
    assert Layout.of(rows) == Layout(files, parts)
    assert rows <= files * parts * LARGEST_PART


@pytest.mark.parametrize("budget", [0, 50_000, 1 << 30], ids=["all spill", "some spill", "none spill"])
def test_rows_that_spilled_come_back_in_the_order_of_their_words(budget: int, tmp_path: Path) -> None:
    layout, chance = Layout(1, 7), np.random.default_rng(1)
    pieces = [
        {
            ORDER: chance.integers(0, 2**64, ROWS, dtype=np.uint64),
            "age": chance.integers(0, 200, ROWS).astype(np.uint8),
            "name": pa.array([None if row % 9 == 0 else f"name {number} {row}" for row in range(ROWS)]),
        }
        for number in range(5)
    ]
    with PartStore(layout, tmp_path, budget) as gathered:
        for piece in pieces:
            for bundle in bundle_rows(layout, piece):
                gathered.add(bundle)
        found = concatenate_rows([gathered.read_sorted(part) for part in range(layout.parts)])
    whole = concatenate_rows(pieces)
    order = np.argsort(whole[ORDER])
    assert (found["age"] == whole["age"][order]).all()
    assert found["name"].equals(whole["name"].take(pa.array(order)))


def test_numbers_of_another_type_do_not_spill(tmp_path: Path) -> None:
    """They would come back as other numbers."""
    layout, words = Layout(1, 2), np.arange(10, dtype=np.uint64)
    first, second = (
        next(bundle_rows(layout, {ORDER: words, "age": np.ones(10, dtype=kind)})) for kind in (np.uint8, np.uint16)
    )
    with PartStore(layout, tmp_path, 0) as gathered:
        gathered.add(first)
        with pytest.raises(TypeError, match="Cannot cast"):
            gathered.add(second)
