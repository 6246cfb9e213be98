from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile

from bucket_cases import OCC_LIKE_500000, linear_caps
from bucket_oracles import Request, requests, seeded_requests, settings
from selection import examples
from sfumato.mechanisms._bucketization.buckets.bucket_problem import (
    NoBucketingError,
    NoCombination,
    NothingFits,
    Problem,
    pose,
)
from sfumato.mechanisms._bucketization.buckets.bucket_setting import is_valid
from sfumato.mechanisms._bucketization.buckets.cutting_planes import make_single_value_cuts
from sfumato.mechanisms._bucketization.buckets.least_loss import Search, find_least_maximum, find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.relaxation import Box, Point, prove_lower_bound, relax
from sfumato.mechanisms._bucketization.buckets.size_methods import choose


def _best(problem: Problem, request: Request) -> int | None:
    every = settings(problem.total, request.smallest, request.largest)
    return min((setting.loss for setting in every if is_valid(problem, setting)), default=None)


def _check(request: Request, problem: Problem) -> None:
    best = _best(problem, request)
    if best is None:
        with pytest.raises(NoBucketingError):
            find_optimal_setting(problem)
        return
    found = find_optimal_setting(problem)
    assert is_valid(problem, found.setting)
    assert (found.setting.loss, found.bound) == (best, best)


@pytest.mark.slow
def test_the_optimum_is_the_best_of_all_settings() -> None:
    for request, problem in seeded_requests(seed=12, number=250):
        _check(request, problem)


@pytest.mark.slow
@profile(max_examples=examples(60))
@given(request=requests())
def test_the_optimum_is_the_best_of_all_settings_of_any_table(request: Request) -> None:
    problem = request.posed()
    if problem is not None:
        _check(request, problem)


@pytest.mark.slow
def test_branch_and_bound_alone_finds_and_proves_the_optimum() -> None:
    for request, problem in seeded_requests(seed=13, number=60):
        best = _best(problem, request)
        relaxed = relax(problem) if len(problem.sizes) else None
        if best is not None and relaxed is not None:
            found = Search(problem, relaxed.cuts).run(relaxed.bound)
            assert found.buckets is not None
            assert int(((problem.sizes - 1) ** 2) @ found.buckets) == found.bound == best


@pytest.mark.slow
def test_any_prices_prove_a_bound() -> None:
    """Whatever a float solver says, the bound holds."""
    source = np.random.default_rng(14)
    for request, problem in seeded_requests(seed=14, number=100):
        best = _best(problem, request)
        if best is not None:
            cuts = make_single_value_cuts(problem)
            prices = source.uniform(0, 5, len(cuts.needs))
            point = Point(np.zeros(len(problem.sizes)), prices, float(source.uniform(-5, 5)))
            assert prove_lower_bound(problem, cuts, Box.of(problem), point) <= best


@pytest.mark.slow
def test_the_relaxation_never_exceeds_the_optimum() -> None:
    for request, problem in seeded_requests(seed=15, number=80):
        best = _best(problem, request)
        if best is not None:
            assert relax(problem).bound <= best


@pytest.mark.slow
def test_a_domain_of_3200_values_comes_within_a_thousandth_of_a_proven_bound() -> None:
    """Section 7.3.2 of the thesis: every value is split into 64 at random."""
    source = np.random.default_rng(1)
    counts = [int(part) for count in OCC_LIKE_500000 for part in source.multinomial(count, [1 / 64] * 64)]
    choice = choose(counts, linear_caps(counts, Fraction(8), Fraction(1, 50)), "optimal")
    assert choice.loss - choice.bound < choice.loss / 1000
    assert choice.assignment.records.sum(axis=1).tolist() == counts


def test_parity_has_no_culprit_and_a_remedy() -> None:
    with pytest.raises(NoBucketingError) as caught:
        choose([1, 1, 1], [Fraction(1, 2)] * 3, "optimal", smallest=2, largest=2)
    assert caught.value.reason == NoCombination(2, 3)
    assert "allow buckets of 3" in str(caught.value)


def test_a_lack_of_room_blames_values_and_has_a_remedy() -> None:
    counts = [16, 9, 5, 18, 27, 42]
    caps = [Fraction(cap) for cap in ("13/30", "1", "3/10", "1/5", "21/65", "23/30")]
    with pytest.raises(NoBucketingError) as caught:
        choose(counts, caps, "optimal", smallest=1, largest=5)
    assert isinstance(caught.value.reason, NothingFits)
    assert caught.value.reason.feasible == 7
    assert set(caught.value.places) <= set(range(6))


def test_no_usable_size_blames_all_values() -> None:
    with pytest.raises(NoBucketingError) as caught:
        choose([1, 1], [Fraction(1, 2)] * 2, "optimal", smallest=3, largest=5)
    assert caught.value.places == (0, 1)


@pytest.mark.slow
def test_the_smallest_maximum_is_where_feasibility_begins() -> None:
    checked = 0
    for request, problem in seeded_requests(seed=16, number=60):
        if _best(problem, request) is None:
            wider = [
                largest
                for largest in range(request.largest + 1, problem.total + 1)
                if _best(
                    pose(request.counts, request.caps, request.smallest, largest),
                    Request(request.counts, request.caps, request.smallest, largest),
                )
                is not None
            ]
            found = find_least_maximum(request.counts, request.caps, request.smallest, request.largest)
            assert found == (wider[0] if wider else None)
            checked += 1
    assert checked >= 5
