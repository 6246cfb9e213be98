"""Certain bounds by bits, against every bucket looked at by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._core.array_types import Codes, Counts, Places
from sfumato._records import certain_count_bounds as certain_bounds
from sfumato._records.bit_masks import BitWords, pack_bits
from sfumato._records.bucket_kinds import InMemoryTally, find_kinds
from sfumato._records.tally import Holdings, Tally

VALUES = 3
SETS = [[0], [1], [0, 2], [0, 1, 2]]


@dataclass(frozen=True)
class Records:
    """Records of buckets, and which of them each condition selects."""

    published_codes: Codes
    selected: npt.NDArray[np.bool_]
    asks: Sequence[Sequence[int]]

    def count_codes(self, codes: Codes, size: int) -> Counts:
        return np.array([np.bincount(codes[line], minlength=size) for line in self.selected])

    def iter_place_sets(self) -> Iterator[tuple[Places, Sequence[int]]]:
        for places in self.asks:
            yield np.array(places), range(len(self.selected))

    def iter_bits(self, index: Places, wheres: Sequence[int]) -> Iterator[tuple[Sequence[int], BitWords]]:
        for where in wheres:
            yield [where], pack_bits(np.append(self.selected[where], False)[index])[np.newaxis]

    def select(self, rows: Places, codes: Codes) -> Records:
        return Records(codes, self.selected[:, rows], self.asks)

    def count_condition(self, where: int, size: int) -> Counts:
        return np.bincount(self.published_codes[self.selected[where]], minlength=size)


@st.composite
def problems(draw: st.DrawFn) -> tuple[npt.NDArray[np.int64], Records]:
    """What up to some hundred buckets hold, in how many ways, and records that some conditions select."""
    row = st.lists(st.integers(0, 4), min_size=VALUES, max_size=VALUES).filter(any)
    kinds = draw(st.lists(row, min_size=1, max_size=5))
    seed, buckets = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 200))
    chance = np.random.default_rng(seed)
    matrix = np.array(kinds, dtype=np.int64)[chance.integers(len(kinds), size=buckets)]
    shown = chance.permutation(np.repeat(np.arange(buckets), matrix.sum(axis=1)))
    shares = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=4))
    selected = np.array([chance.random(len(shown)) < share for share in shares])
    return matrix, Records(shown, selected, draw(st.sampled_from([SETS, SETS[:1], []])))


@settings(max_examples=examples(30))
@given(problem=problems(), memory=st.sampled_from([1, 1 << 20]), most=st.sampled_from([1, 8]))
def test_bounds_are_those_of_every_bucket_by_itself(
    problem: tuple[npt.NDArray[np.int64], Records], memory: int, most: int
) -> None:
    matrix, records = problem
    buckets, places = np.nonzero(matrix)
    lines = buckets, places, matrix[buckets, places]
    kinds = find_kinds([lines], VALUES)
    assert kinds is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certain_bounds, "MEMORY_BYTES", memory)
        patch.setattr(certain_bounds, "MOST_MATCHES", most)
        tally = InMemoryTally.of(records, kinds)
        single = np.array(
            [np.bincount(records.published_codes[line], minlength=len(matrix)) for line in records.selected]
        )
        plain = Tally(single, single.sum(axis=1), None, Holdings(*lines, VALUES))
        some = np.arange(len(single))[::2]
        for wanted in map(np.array, SETS):
            for found, expected in zip(tally.find_bounds(wanted), plain.find_bounds(wanted), strict=True):
                assert found.tolist() == expected.tolist()
            for found, expected in zip(tally.take(some).find_bounds(wanted), plain.find_bounds(wanted), strict=True):
                assert found.tolist() == expected[some].tolist()


def test_bits_are_used_where_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.array([[1, 1, 1]] * 70)
    buckets, places = np.nonzero(matrix)
    kinds = find_kinds([(buckets, places, matrix[buckets, places])], VALUES)
    assert kinds is not None
    shown = np.repeat(np.arange(70), 3)
    tally = InMemoryTally.of(Records(shown, np.array([shown % 2 == 0]), [[1]]), kinds)
    monkeypatch.setattr(InMemoryTally, "count_in_buckets", None)  # what looks at buckets one by one
    least, most = tally.find_bounds(np.array([1]))
    assert (least.tolist(), most.tolist()) == ([35.0], [35.0])
