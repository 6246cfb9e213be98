"""Sums of z * theta[true value] in buckets: all deals of the records of each value, and all pairings in a bucket."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._records.tally import Holdings, Tally
from sfumato.errors import InternalError
from sfumato.mechanisms._bucketization.buckets.bucket_estimation import INVERSE, METHODS, UNIFORM, RandomDeal
from sfumato.mechanisms.estimator import Method, SumPiece
from single import Single, counted

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.int64]
"""How many records of each value (column) each bucket (row) holds."""

SMALL: Matrix = np.array([[2, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=np.int64)
"""8 records in 3 buckets, from which 3 values can be told apart: 3! * 3! * 2! deals."""

TOGETHER: Matrix = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 2]], dtype=np.int64)
"""The first two values always meet each other: nothing tells them apart."""

PIECES = 2


@dataclass(frozen=True)
class Record:
    """A record of a table: its value, its z, and its piece (the last one is not asked for)."""

    value: int
    factor: float
    piece: int


def holdings_of(matrix: Matrix) -> Holdings:
    """The lines of a table of buckets."""
    buckets, places = np.nonzero(matrix)
    return Holdings(buckets, places, matrix[buckets, places], matrix.shape[1])


def tally_of(counts: Matrix | Floats, holdings: Holdings) -> Tally:
    """What is counted in buckets."""
    return Tally.of_symbols(counts).attach_context(None, holdings)


def total_of(method: Method[Any]) -> Callable[[Sequence[SumPiece]], Single]:
    """How a method sums."""
    total = method.total
    assert total is not None
    return lambda pieces: Single.of(total(None, pieces))


_inverse, _uniform = total_of(INVERSE), total_of(UNIFORM)


def pieces_of(
    holdings: Holdings,
    thetas: Sequence[Floats],
    records: Sequence[Record],
    buckets: Sequence[int],
    *,
    is_positive: bool,
) -> list[SumPiece]:
    """What is seen where the records lie in these buckets."""
    found = []
    for number, theta in enumerate(thetas):
        tallies = []
        for power in (1, 2):
            counts = np.zeros(len(holdings.sizes))
            for record, bucket in zip(records, buckets, strict=True):
                counts[bucket] += record.factor**power if record.piece == number else 0
            tallies.append(tally_of(counts, holdings))
        found.append(SumPiece(theta, *tallies, is_positive))
    return found


def truth_of(thetas: Sequence[Floats], records: Sequence[Record]) -> float:
    return sum(each.factor * float(thetas[each.piece][each.value]) for each in records if each.piece < len(thetas))


def deals(matrix: Matrix) -> Iterator[list[int]]:
    """Every way to deal the records, ordered by value, to the places of their value."""
    places = [np.repeat(np.arange(len(matrix)), column).tolist() for column in matrix.T]
    for each in itertools.product(*map(itertools.permutations, places)):
        yield [bucket for some in each for bucket in some]


def pairings(matrix: Matrix) -> Iterator[list[int]]:
    """Every way to pair the values of each bucket with its records, which are ordered by bucket."""
    values = [np.repeat(np.arange(matrix.shape[1]), row).tolist() for row in matrix]
    for each in itertools.product(*({*itertools.permutations(some)} for some in values)):
        yield [value for some in each for value in some]


def numbers() -> st.SearchStrategy[float]:
    return st.integers(-40, 40).map(lambda number: number / 8)


@st.composite
def questions(draw: st.DrawFn, factors: st.SearchStrategy[float]) -> tuple[list[Floats], list[Record]]:
    """Thetas for the pieces, and the records of SMALL, ordered by value."""
    thetas = [np.array(draw(st.lists(numbers(), min_size=3, max_size=3))) for _ in range(PIECES)]
    values = np.repeat(np.arange(3), SMALL.sum(axis=0)).tolist()
    return thetas, [Record(value, draw(factors), draw(st.integers(0, PIECES))) for value in values]


# ------------------------------------------------------------------------------------------------------------- one deal


@settings(max_examples=examples(50))
@given(data=st.data())
def test_a_deal_has_the_variance_of_all_its_permutations(data: st.DataObject) -> None:
    """Two groups, of 3 and 4 records; a line of the second stands for two places."""
    groups, counts, sizes = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 1, 2, 1, 1]), np.array([3, 4])
    drawn = [np.array(data.draw(st.lists(numbers(), min_size=6, max_size=6))) for _ in range(PIECES)]
    centred = [each - (np.bincount(groups, weights=counts * each) / sizes)[groups] for each in drawn]
    records = [
        Record(group, data.draw(numbers()), data.draw(st.integers(0, PIECES))) for group in (0, 0, 0, 1, 1, 1, 1)
    ]
    deal = RandomDeal(groups, counts, sizes)
    for number, each in enumerate(centred):
        first, second = (
            np.array(
                [sum(r.factor**power for r in records if (r.value, r.piece) == (group, number)) for group in (0, 1)]
            )
            for power in (1, 2)
        )
        deal.add(each, first / sizes, second / sizes)
    for group, found in enumerate(deal.compute_variances()):
        mine = [record for record in records if record.value == group]
        lines = np.repeat(np.flatnonzero(groups == group), counts[groups == group]).tolist()
        sums = [
            sum(r.factor * centred[r.piece][line] for r, line in zip(mine, order, strict=True) if r.piece < PIECES)
            for order in itertools.permutations(lines)
        ]
        assert found == pytest.approx(np.var(sums), rel=1e-9, abs=1e-9)


# -------------------------------------------------------------------------------------------------------------- inverse


@settings(max_examples=examples(25))
@given(questions(numbers()))
def test_the_inverse_is_right_on_average_over_all_deals(question: tuple[list[Floats], list[Record]]) -> None:
    thetas, records = question
    holdings, truth = holdings_of(SMALL), truth_of(*question)
    values = []
    for buckets in deals(SMALL):
        found = _inverse(pieces_of(holdings, thetas, records, buckets, is_positive=False))
        assert found.least - 1e-9 <= truth <= found.most + 1e-9
        values.append(found.value)
    assert np.mean(values) == pytest.approx(truth, abs=1e-8)


@pytest.mark.slow
def test_the_inverse_scatters_as_much_as_it_says() -> None:
    """Three pieces with thetas of their own, and factors that go with the values; over deals at random."""
    matrix, times = np.tile(SMALL, (40, 1)), 800
    chance = np.random.default_rng(5)
    values = np.repeat(np.arange(3), matrix.sum(axis=0))
    places = [np.repeat(np.arange(len(matrix)), column) for column in matrix.T]
    factors, parts = chance.normal(2.0 * values, 1), chance.integers(0, 3, size=len(values))
    thetas = np.array([[1, -2, 4], [0, 1, 1], [3, 3, -1]], dtype=np.float64)
    holdings, estimates, claimed = holdings_of(matrix), [], []
    for _ in range(times):
        buckets = np.concatenate([chance.permutation(each) for each in places])
        found = _inverse([_piece(holdings, thetas, buckets, factors, parts, number) for number in range(3)])
        estimates.append(found.value)
        claimed.append(found.base)
    truth = float((thetas[parts, values] * factors).sum())
    assert abs(np.mean(estimates) - truth) < 5 * np.std(estimates) / math.sqrt(times)
    assert 0.85 < np.mean(claimed) / np.var(estimates) < 1.2


def _piece(  # noqa: PLR0913, PLR0917 - the records, and which of them
    holdings: Holdings, thetas: Floats, buckets: Matrix, factors: Floats, parts: Matrix, number: int
) -> SumPiece:
    weights = np.where(parts == number, factors, 0)
    first, second = (np.bincount(buckets, weights**power, len(holdings.sizes)) for power in (1, 2))
    first, second = (tally_of(each, holdings) for each in (first, second))
    return SumPiece(thetas[number], first, second)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(25))
@given(question=questions(numbers()))
def test_a_piece_in_two_parts_is_the_piece(method: str, question: tuple[list[Floats], list[Record]]) -> None:
    (theta, _), records = question
    buckets, holdings = next(deals(SMALL)), holdings_of(SMALL)
    total = total_of(METHODS[method])
    asked = [replace(each, piece=0) if each.piece < PIECES else each for each in records]
    one = total(pieces_of(holdings, [theta], asked, buckets, is_positive=False))
    two = total(pieces_of(holdings, [theta, theta], records, buckets, is_positive=False))
    told = zip(_numbers(one), _numbers(two), strict=False)  # rounding may leave a hair of an error where there is none
    assert all(other == pytest.approx(each, rel=1e-9, abs=1e-9) for each, other in told)


def test_a_sum_that_the_buckets_do_not_tell_has_the_certain_bounds_as_interval() -> None:
    holdings = holdings_of(TOGETHER)
    tally = tally_of(np.array([1, 2, 2]), holdings)
    found = _inverse([SumPiece(np.array([5.0, 1.0, 1.0]), tally, tally)])
    assert found.value == _uniform([SumPiece(np.array([5.0, 1.0, 1.0]), tally, tally)]).value
    assert (found.least, found.most) == (5, 25)
    assert found.estimate().interval() == (5, 25)


def test_a_sum_that_does_not_tell_apart_what_always_meets_is_told() -> None:
    holdings = holdings_of(TOGETHER)
    counts = TOGETHER[:, 2].astype(np.float64)
    tally = tally_of(counts, holdings)
    found = _inverse([SumPiece(np.array([5.0, 5.0, 2.0]), tally, tally)])
    assert found.value == pytest.approx(2 * counts.sum())


# -------------------------------------------------------------------------------------------------------------- uniform


@settings(max_examples=examples(25))
@given(data=st.data())
def test_uniform_has_the_moments_and_holds_the_bounds_of_all_pairings(data: st.DataObject) -> None:
    is_positive = data.draw(st.booleans())
    factors = st.integers(0, 9).map(float) if is_positive else numbers()
    thetas, _ = data.draw(questions(numbers()))
    buckets = np.repeat(np.arange(3), SMALL.sum(axis=1)).tolist()
    unpaired = [Record(0, data.draw(factors), data.draw(st.integers(0, PIECES))) for _ in buckets]
    found = _uniform(pieces_of(holdings_of(SMALL), thetas, unpaired, buckets, is_positive=is_positive))
    truths = [
        truth_of(thetas, [Record(value, each.factor, each.piece) for value, each in zip(paired, unpaired, strict=True)])
        for paired in pairings(SMALL)
    ]
    assert found.value == pytest.approx(np.mean(truths), abs=1e-9)
    assert found.base == pytest.approx(np.var(truths), rel=1e-9, abs=1e-9)
    assert found.least - 1e-9 <= min(truths)
    assert max(truths) <= found.most + 1e-9


# --------------------------------------------------------------------------------------------------------------- counts


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wanted", [[0], [1], [2], [0, 2], [0, 1, 2]], ids=str)
def test_a_total_of_zeros_and_ones_is_the_count(method: str, wanted: list[int]) -> None:
    holdings, theta = holdings_of(SMALL), np.zeros(3)
    theta[wanted] = 1
    total = total_of(METHODS[method])
    for selected in itertools.product(range(4), range(3), range(4)):
        tally = tally_of(np.array(selected), holdings)
        found = total([SumPiece(theta, tally, tally)])
        (count,) = counted(METHODS[method], None, tally, wanted)
        told = zip(_numbers(found), _numbers(count), strict=False)  # the error of shrunk only where there is none
        is_certain = count.least == count.most and method == "shrunk"  # what a count notices, and a sum of numbers not
        assert is_certain or all(one == pytest.approx(other, rel=1e-9, abs=1e-9) for one, other in told)
        assert found.least <= count.least + 1e-9
        assert count.most <= found.most + 1e-9


def _numbers(moments: Single) -> list[float]:
    """The value, and its variance where that is told."""
    return [moments.value] if moments.base is None else [moments.value, moments.base]


@pytest.mark.parametrize("method", METHODS)
def test_a_total_over_nothing_is_zero(method: str) -> None:
    total = total_of(METHODS[method])
    found = total([])
    assert (found.value, found.base, found.least, found.most) == (0, 0, 0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_total_without_what_the_buckets_hold_is_our_mistake(method: str) -> None:
    total, tally = METHODS[method].total, Tally.of_symbols(np.array([1, 2]))
    assert total is not None
    with pytest.raises(InternalError):
        total(None, [SumPiece(np.ones(2), tally, tally)])
