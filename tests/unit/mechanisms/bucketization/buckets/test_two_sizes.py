from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bucket_oracles import seeded_requests, settings
from refusals import refuses
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, is_valid
from sfumato.mechanisms._bucketization.buckets.size_methods import find_best_size
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import split_top_down
from sfumato.mechanisms._bucketization.buckets.two_sizes import (
    Trades,
    count_fillable_buckets,
    find_best_two_sizes,
    list_pairs,
)


@pytest.mark.parametrize(
    ("total", "small", "large", "row"),
    [
        (28, 2, 4, Trades(14, 0, 2, 1, 7)),
        (28, 3, 5, Trades(6, 2, 5, 3, 1)),
        (28, 5, 7, Trades(0, 4, 7, 5, 0)),
        (1, 2, 3, None),
        (7, 3, 5, None),
        (300_000, 2, 4, Trades(150_000, 0, 2, 1, 75_000)),
        (29, 4, 6, None),
        (0, 2, 3, Trades(0, 0, 3, 2, 0)),
        (17, 1, 17, Trades(17, 0, 17, 1, 1)),
        (499_979, 49, 50, Trades(10_171, 32, 50, 49, 203)),
    ],
)
def test_pairs_that_hold_exactly_the_records(total: int, small: int, large: int, row: Trades | None) -> None:
    assert list_pairs(total, small, large) == row


def test_pairs_are_all_there_are() -> None:
    for total in range(40):
        for small in range(1, 7):
            for large in range(small + 1, 9):
                row = list_pairs(total, small, large)
                steps = range(row.steps + 1) if row else range(0)
                found = (
                    [(row.first - t * row.small_step, row.second + t * row.large_step) for t in steps] if row else []
                )
                every = [(a, b) for b in range(total + 1) for a in range(total + 1) if a * small + b * large == total]
                assert found == every


def test_fillable_is_where_filling_stops() -> None:
    """Lemma 5: if b buckets can be filled, so can fewer."""
    for _, problem in seeded_requests(seed=8, number=150):
        for column, size in enumerate(problem.sizes.tolist()):
            floors = problem.floors[:, column]
            can = [
                int(np.minimum(floors * b, problem.counts).sum()) >= size * b for b in range(problem.total // size + 2)
            ]
            assert can == sorted(can, reverse=True)
            assert count_fillable_buckets(problem)[column] == can.index(False) - 1


def _best(problem: Problem, found: list[Setting], most: int) -> int | None:
    losses = [setting.loss for setting in found if len(setting.pairs) <= most and is_valid(problem, setting)]
    return min(losses, default=None)


@pytest.mark.slow
def test_one_and_two_sizes_are_the_best_of_all() -> None:
    for request, problem in seeded_requests(seed=9, number=500):
        every = list(settings(problem.total, request.smallest, request.largest))
        for method, most in ((find_best_size, 1), (find_best_two_sizes, 2)):
            try:
                got: int | None = method(problem).loss
            except NoBucketingError:
                got = None
            assert got == _best(problem, every, most)


def test_top_down_is_valid_and_no_worse_than_two_sizes() -> None:
    tried = 0
    for _, problem in seeded_requests(seed=10, number=300):
        try:
            start = find_best_two_sizes(problem)
        except NoBucketingError:
            continue
        tried += 1
        setting = split_top_down(problem)
        assert is_valid(problem, setting)
        assert setting.loss <= start.loss
    assert tried > 200


def test_two_sizes_may_be_too_few() -> None:
    """A table of 9 records: only one bucket each of 2, 3 and 4."""
    problem = pose([1, 3, 5], [Fraction(1, 4), Fraction(7, 9), Fraction(2, 3)], 2, 4)
    for method in (find_best_two_sizes, split_top_down):
        with refuses(NoBucketingError, "too-few-bucket-sizes"):
            method(problem)


def test_all_buckets_of_the_largest_size_are_found() -> None:
    """The smallest table on which the thesis' Program 5.3 returns nothing (docs/errata.md)."""
    assert find_best_two_sizes(pose([1, 1], [Fraction(1), Fraction(1, 2)], 1, 2)).pairs == ((2, 1),)


def test_one_possible_size_is_tried() -> None:
    assert find_best_two_sizes(pose([3, 3], [Fraction(1, 2)] * 2, 2, 2)).pairs == ((2, 3),)
