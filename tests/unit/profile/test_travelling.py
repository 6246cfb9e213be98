"""What travels to workers is what they need, and no more."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from sfumato._engines.shuffle import Bundle, Layout, bundle_rows, concatenate_rows
from sfumato._readers.sources import MemorySource

ROWS = 10_000


def test_piece_of_a_table_in_memory_travels_alone() -> None:
    table = pa.table(
        {"name": [f"name {row}" for row in range(ROWS)], "town": pa.array(["Aix"] * ROWS).dictionary_encode()}
    )
    whole = MemorySource(table)
    pieces = list(whole.iter_pieces(100))
    assert len(pickle.dumps(pieces[3])) < len(pickle.dumps(whole)) / 20
    arrived = [pickle.loads(pickle.dumps(piece)) for piece in pieces]
    assert pa.concat_tables(each.table for each in arrived).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("files", [1, 7])
def test_bundle_travels_with_its_own_rows_alone(files: int) -> None:
    words = np.random.default_rng(1).integers(0, 2**64, ROWS, dtype=np.uint64)
    codes = (words % 200).astype(np.uint8)
    raw = pa.array([None if row % 9 == 0 else f"name {row}" for row in range(ROWS)])
    bundles = list(bundle_rows(Layout(files, 3), {"": words, "age": codes, "name": raw}))
    sent = [pickle.dumps(bundle) for bundle in bundles]
    assert sum(map(len, sent)) < 40 * ROWS
    for bundle, arrived in zip(bundles, map(pickle.loads, sent), strict=True):
        assert arrived.file == bundle.file
        assert (arrived.offsets == bundle.offsets).all()
        assert list(arrived.rows) == list(bundle.rows)
        assert {name: column.dtype for name, column in arrived.rows.items() if name != "name"} == {
            "": np.dtype(np.uint64),
            "age": np.dtype(np.uint8),
        }
        assert arrived.rows["name"].equals(bundle.rows["name"])
        assert (arrived.rows[""] == bundle.rows[""]).all()
    assert len(concatenate_rows([each.rows for each in bundles])[""]) == ROWS


def test_bundle_without_rows_travels() -> None:
    empty = Bundle(
        2, {"": np.zeros(0, dtype=np.uint64), "name": pa.array([], pa.string())}, np.zeros(4, dtype=np.int64)
    )
    arrived = pickle.loads(pickle.dumps(empty))
    assert (arrived.file, len(arrived.rows[""]), arrived.offsets.tolist()) == (2, 0, [0, 0, 0, 0])
