from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile

from bucket_oracles import Request, can_be_filled, requests, seeded_requests, settings
from selection import examples
from sfumato.errors import InternalError
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, assign, find_blocking_set, is_valid
from sfumato.mechanisms._bucketization.buckets.max_flow import find_largest_flow

SIXTH = [Fraction(1, 6)] * 10


def _lacks_room(problem: Problem, setting: Setting, places: tuple[int, ...]) -> bool:
    """The cut condition fails for these values, worked out by hand."""
    rows = problem.floors[list(places)].sum(axis=0)
    room = int((setting.to_vector(problem) * np.minimum(problem.sizes, rows)).sum())
    return int(problem.counts[list(places)].sum()) > room


def _agree(request: Request, problem: Problem) -> None:
    for setting in settings(sum(request.counts), request.smallest, request.largest):
        assert is_valid(problem, setting) == can_be_filled(request, setting)


@profile(max_examples=examples(60))
@given(request=requests())
def test_validity_is_what_filling_buckets_in_every_way_says(request: Request) -> None:
    problem = request.posed()
    if problem is not None:
        _agree(request, problem)


@pytest.mark.slow
def test_validity_is_what_brute_force_says_on_seeded_tables() -> None:
    for request, problem in seeded_requests(seed=5, number=150):
        if problem.total <= 11:
            _agree(request, problem)


@pytest.mark.slow
def test_blocking_sets_lack_room() -> None:
    blocked = 0
    for request, problem in seeded_requests(seed=6, number=90):
        sizes = problem.sizes.tolist()
        for setting in settings(problem.total, request.smallest, request.largest):
            if all(size in sizes for size, _ in setting) and not is_valid(problem, setting):
                blocked += 1
                assert _lacks_room(problem, setting, find_blocking_set(problem, setting))
    assert blocked > 500


@pytest.mark.slow
def test_assignments_keep_counts_sizes_and_caps() -> None:
    for request, problem in seeded_requests(seed=7, number=90):
        for setting in settings(problem.total, request.smallest, request.largest):
            if is_valid(problem, setting):
                sizes, buckets = zip(*setting, strict=True)
                records = assign(problem, setting).records
                floors = [[int(cap * size) for size in sizes] for cap in request.caps]
                assert records.sum(axis=1).tolist() == list(request.counts)
                assert records.sum(axis=0).tolist() == [size * count for size, count in setting]
                assert (records >= 0).all()
                assert (records <= np.array(floors) * np.array(buckets)).all()


@pytest.mark.parametrize(
    ("counts", "caps", "setting", "blocking"),
    [
        ([5] * 10 + [20], [*SIXTH, Fraction(1)], [(4, 5), (5, 4), (6, 5)], tuple(range(10))),
        (
            [1, 1, 2, 4],
            [Fraction(2, 5), Fraction(1, 3), Fraction(1), Fraction(4, 5)],
            [(1, 1), (2, 2), (3, 1)],
            (0, 1, 3),
        ),
    ],
    ids=["thesis example 12", "smallest counterexample to Theorem 1 for three sizes"],
)
def test_three_sizes_need_more_than_the_conditions_of_two(
    counts: list[int], caps: list[Fraction], setting: list[tuple[int, int]], blocking: tuple[int, ...]
) -> None:
    problem = pose(counts, caps, 1, setting[-1][0])
    assert find_blocking_set(problem, Setting.of(setting)) == blocking


def test_assign_refuses_a_setting_that_does_not_fit() -> None:
    problem = pose([1, 1, 2, 4], [Fraction(2, 5), Fraction(1, 3), Fraction(1), Fraction(4, 5)], 1, 3)
    with pytest.raises(InternalError):
        assign(problem, Setting.of([(1, 1), (2, 2), (3, 1)]))


def test_loss_and_information_loss() -> None:
    setting = Setting.of([(6, 2), (2, 5), (3, 4), (2, 1), (9, 0)])
    assert setting.pairs == ((2, 6), (3, 4), (6, 2))
    assert (setting.record_count, setting.loss) == (36, 72)
    assert setting.information_loss == pytest.approx(0.24243661069253059, abs=1e-15)
    assert Setting.of([(1, 1)]).information_loss == 0
    assert Setting.of([(36, 1)]).information_loss == 1


def test_information_loss_lies_between_nothing_and_one_bucket() -> None:
    """Lemma 2 of the thesis."""
    for setting in settings(12, 1, 12):
        assert 0 <= setting.information_loss <= 1


def test_the_flow_of_a_large_problem_is_largest() -> None:
    source = np.random.default_rng(11)
    for _ in range(20):
        lanes = source.integers(0, 9, (40, 6)) * source.integers(0, 2, (40, 6))
        supplies, drains = source.integers(0, 20, 40), source.integers(0, 150, 6)
        flow = find_largest_flow(supplies, lanes, drains)
        assert (flow.amounts >= 0).all()
        assert (flow.amounts <= lanes).all()
        assert (flow.amounts.sum(axis=1) <= supplies).all()
        assert (flow.amounts.sum(axis=0) <= drains).all()
        cut = supplies[~flow.is_stuck].sum() + np.minimum(lanes[flow.is_stuck].sum(axis=0), drains).sum()
        assert flow.amounts.sum() == (cut if flow.is_stuck.any() else supplies.sum())
