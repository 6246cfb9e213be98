"""What is counted and hashed together is what each column has by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._profile import combined_column_counts as joint_counts
from sfumato._profile.combined_column_counts import count_and_hash_columns
from sfumato._profile.equivalence_classes import hash_numbers

SIZES = (3, 1, 70, 5, 300, 2, 2)
SALTS = hash_numbers(np.arange(len(SIZES)), np.uint64(1))


@pytest.fixture(params=[(1, 4), (7, 64), (1000, 1 << 12)], ids=["one by one", "small tables", "as usual"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are looked at together, and numbers that have a table."""
    monkeypatch.setattr(joint_counts, "BLOCK_ROWS", request.param[0])
    monkeypatch.setattr(joint_counts, "MOST_NUMBERS", request.param[1])


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32], ids=str)
def test_columns_are_counted_and_hashed_as_each_by_itself(kind: type) -> None:
    chance = np.random.default_rng(2)
    codes = [chance.integers(0, min(size, np.iinfo(kind).max), 500).astype(kind) for size in SIZES]
    words = [hash_numbers(np.arange(size), salt) for size, salt in zip(SIZES, SALTS, strict=True)]
    columns = {str(number): each for number, each in enumerate(zip(codes, words, strict=True))}
    counts, sums = count_and_hash_columns(columns, 500)
    for number, size in enumerate(SIZES):
        expected = Counter(codes[number].tolist())
        assert counts[str(number)].tolist() == [expected[code] for code in range(size)]
    rows = zip(*(each.take(held).tolist() for held, each in zip(codes, words, strict=True)), strict=True)
    assert sums.tolist() == [sum(row) % 2**64 for row in rows]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=30))
def test_two_columns_of_any_rows(rows: list[tuple[int, int]]) -> None:
    one, two = (np.array([row[place] for row in rows], dtype=np.uint8) for place in range(2))
    words = hash_numbers(np.arange(7), np.uint64(5))
    counts, sums = count_and_hash_columns({"one": (one, words[:3]), "two": (two, words[3:])}, len(rows))
    assert counts["one"].tolist() == [one.tolist().count(code) for code in range(3)]
    assert counts["two"].tolist() == [two.tolist().count(code) for code in range(4)]
    assert sums.tolist() == (words.take(one) + words.take(two + 3)).tolist()


def test_no_columns_have_no_words() -> None:
    counts, sums = count_and_hash_columns({}, 3)
    assert counts == {}
    assert sums.tolist() == [0, 0, 0]
