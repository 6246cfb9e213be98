"""Buckets that hold the same are alike: kinds against plain Python, and every estimate against single buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._records.bucket_kinds import BucketKinds, BucketLines, find_kinds
from sfumato._records.tally import Holdings, Tally
from sfumato.mechanisms._bucketization.buckets.bucket_estimation import METHODS
from sfumato.mechanisms.estimator import Moments, SumPiece

Matrix = npt.NDArray[np.int64]
"""How many records of each value (column) each bucket (row) holds."""

VALUES = 4


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Up to a dozen buckets of up to four kinds, none of them empty."""
    row = st.lists(st.integers(0, 3), min_size=VALUES, max_size=VALUES).filter(any)
    kinds = draw(st.lists(row, min_size=1, max_size=4))
    return np.array(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12)), dtype=np.int64)


def lines_of(matrix: Matrix) -> BucketLines:
    """A line for each bucket and value that meet, in order."""
    buckets, places = np.nonzero(matrix)
    return buckets, places, matrix[buckets, places]


def kinds_in(matrix: Matrix) -> BucketKinds:
    found = find_kinds([lines_of(matrix)], VALUES)
    assert found is not None
    return found


# ---------------------------------------------------------------------------------------------------------------- kinds


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(matrix=matrices(), cuts=st.lists(st.integers(0, 48), max_size=4))
def test_kinds_are_the_different_contents_however_the_lines_are_cut(matrix: Matrix, cuts: list[int]) -> None:
    parts = zip(*(np.split(each, sorted(cuts)) for each in lines_of(matrix)), strict=True)
    found = find_kinds(parts, VALUES)
    assert found is not None
    held = np.zeros((len(found.sizes), VALUES), dtype=np.int64)
    held[found.buckets, found.places] = found.counts
    assert (held[found.kind_of] == matrix).all()
    assert len(held) == len({tuple(row) for row in matrix.tolist()})
    assert found.repeats.tolist() == [int((matrix == row).all(axis=1).sum()) for row in held]
    assert (found.value_counts == matrix.sum(axis=0)).all()
    apart = found.single_holdings
    assert sorted(zip(apart.buckets.tolist(), apart.places.tolist(), apart.counts.tolist(), strict=True)) == sorted(
        zip(*(each.tolist() for each in lines_of(matrix[found.order])), strict=True)
    )


@pytest.mark.parametrize(
    "lines",
    [
        ([0, 0, 1], [1, 0, 0], [1, 1, 1]),
        ([0, 0, 1], [1, 1, 0], [1, 1, 1]),
        ([1, 0], [0, 0], [1, 1]),
        ([1, 2], [0, 0], [1, 1]),
        ([0, 2], [0, 0], [1, 1]),
        ([0, 1, 0], [0, 0, 1], [1, 1, 1]),
    ],
    ids=["values out of order", "a value twice", "buckets out of order", "no first", "one left out", "torn apart"],
)
@pytest.mark.parametrize("size", [1, 3])
def test_lines_in_another_order_are_not_taken_for_kinds(lines: Sequence[list[int]], size: int) -> None:
    whole = [np.array(each) for each in lines]
    parts = [[each[start : start + size] for each in whole] for start in range(0, 3, size)]
    assert find_kinds(parts, VALUES) is None


# ------------------------------------------------------------------------------------------- kinds and single buckets


def both(matrix: Matrix, counts: npt.NDArray[np.float64] | Matrix) -> tuple[Tally, Tally]:
    """A tally beside its kinds, and one beside single buckets."""
    tally = Tally.of_symbols(counts)
    return tally.attach_context(None, kinds_in(matrix)), tally.attach_context(None, Holdings(*lines_of(matrix), VALUES))


def check_same(found: Moments, expected: Moments) -> None:
    """An error that is not known is not compared: whether a sum is certain may hang on the last digit of a product."""
    for name in ("value", "base", "slope", "most", "least"):
        one, other = (np.nan_to_num(getattr(each, name), posinf=np.inf, neginf=-np.inf) for each in (found, expected))
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), name
    assert found.notes == expected.notes


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(matrix=matrices(), data=st.data())
@pytest.mark.parametrize("method", METHODS)
def test_counts_by_kinds_are_those_by_single_buckets(method: str, matrix: Matrix, data: st.DataObject) -> None:
    chosen = [[data.draw(st.integers(0, size)) for size in matrix.sum(axis=1).tolist()] for _ in range(3)]
    wanted = [np.array([place]) for place in range(VALUES)] + [np.array([0, 2]), np.arange(VALUES)]
    by_kind, single = both(matrix, np.array(chosen))
    for one, other in ((by_kind, single), (by_kind.take(np.array([2, 0])), single.take(np.array([2, 0])))):
        found, expected = (METHODS[method].count(None, tally, wanted) for tally in (one, other))
        for each, reference in zip(found, expected, strict=True):
            check_same(each, reference)


def numbers(least: int) -> st.SearchStrategy[float]:
    return st.integers(least, 24).map(lambda number: number / 8)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(matrix=matrices(), data=st.data(), has_bounds=st.booleans())
@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.total])
def test_sums_by_kinds_are_those_by_single_buckets(
    method: str, matrix: Matrix, data: st.DataObject, has_bounds: bool
) -> None:
    """Two pieces, the second of which is the sum of three tallies; records count as much as their z."""
    total = METHODS[method].total
    assert total is not None
    least = 0 if has_bounds else -24
    tallies = []
    for _ in range(4):
        first = np.array([data.draw(numbers(least)) for _ in matrix])
        tallies.append([both(matrix, first), both(matrix, first**2)])
    thetas = [np.array(data.draw(st.lists(numbers(-24), min_size=VALUES, max_size=VALUES))) for _ in range(2)]
    moments = []
    for way in range(2):
        one, *others = ([powers[way] for powers in each] for each in tallies)
        sums = [Tally.combine([(each[power], 0.5) for each in others]) for power in range(2)]
        pieces = [SumPiece(theta, *powers, has_bounds) for theta, powers in zip(thetas, (one, sums), strict=True)]
        moments.append([total(None, pieces), total(None, pieces[:1]), total(None, pieces[1:])])
    for found, expected in zip(*moments, strict=True):
        check_same(found, expected)


def test_a_sum_of_tallies_counts_what_its_parts_count() -> None:
    matrix = np.array([[1, 2, 0, 0], [0, 1, 1, 0], [1, 2, 0, 0]])
    parts = [both(matrix, np.array(counts))[0] for counts in ([1, 0, 2], [0, 2, 1])]
    found = Tally.combine([(parts[0], 2.0), (parts[1], -1.0)])
    assert found.rows.tolist() == [3.0]
    sizes, marked, selected = found.count_in_buckets(np.array([0]))
    assert (sizes.tolist(), marked.tolist(), selected.tolist()) == ([3, 3], [1, 1], [[2, 3]])
    assert replace(found, parts=()).counts.tolist() == [[5.0, -2.0]]
    assert Tally.combine([(parts[0], 1)]) is parts[0]
