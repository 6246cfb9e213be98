from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from bucket_cases import CASES, Case
from bucket_oracles import seeded_requests
from papers.baselines.assignment_program import solve
from papers.baselines.two_size_programs import search_fully_pruned, search_loss_pruned, search_unpruned
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, is_valid
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes

PROGRAMS = [search_unpruned, search_loss_pruned, search_fully_pruned]
SMALL = [case for case in CASES if sum(case.counts) < 1000 and (case.two or case.optimum is not None)]


def posed(case: Case) -> Problem:
    return pose(case.counts, case.share_caps, *case.sizes)


def pairs_or_none(method: Callable[[Problem], Setting], problem: Problem) -> tuple[tuple[int, int], ...] | None:
    try:
        return method(problem).pairs
    except NoBucketingError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_finds_what_the_closed_form_finds(program: Callable[[Problem], Setting]) -> None:
    none = 0
    for _, problem in seeded_requests(seed=21, number=800):
        expected = pairs_or_none(find_best_two_sizes, problem)
        assert pairs_or_none(program, problem) == expected
        none += expected is None
    assert 0 < none < 600


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_program_finds_the_known_two_sizes(case: Case, program: Callable[[Problem], Setting]) -> None:
    assert pairs_or_none(program, posed(case)) == case.two


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edu-like-300000-theta-2", "occ-like-300000-theta-16", "occ-like-500000-theta-2"])
def test_bisection_finds_the_known_two_sizes_of_large_tables(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    assert search_fully_pruned(posed(case)).pairs == case.two


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("counts", "caps", "sizes", "pairs"),
    [
        ((1, 1), ("1", "1/2"), (1, 2), ((2, 1),)),  # all buckets of the largest size: lost by the printed start
        ((3, 3), ("1/2", "1/2"), (2, 2), ((2, 3),)),  # M = M': never tried by the printed loops
        ((4, 4, 4, 8, 8), ("2/7", "2/7", "2/7", "4/7", "4/7"), (2, 4), ((2, 6), (4, 4))),  # thesis, Example 10
    ],
)
def test_repairs_of_the_printed_programs(
    program: Callable[[Problem], Setting],
    counts: tuple[int, ...],
    caps: tuple[str, ...],
    sizes: tuple[int, int],
    pairs: tuple[tuple[int, int], ...],
) -> None:
    assert program(pose(counts, [Fraction(cap) for cap in caps], *sizes)).pairs == pairs


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_feasible_pair_is_said(program: Callable[[Problem], Setting]) -> None:
    """With caps near 1/2 no bucket of 5 can be filled, and 15 records are no sum of fours and sixes."""
    problem = pose((7, 8), (Fraction(1, 2), Fraction(8, 15)), 4, 6)
    assert problem.sizes.tolist() == [4, 6]
    with pytest.raises(NoBucketingError):
        program(problem)


@pytest.mark.slow
@pytest.mark.parametrize("whole_records", [True, False])
def test_assignment_program_agrees_with_the_optimum(whole_records: bool) -> None:
    solved = 0
    for _, problem in seeded_requests(seed=22, number=60):
        answer = solve(problem, seconds=10, whole_records=whole_records)
        assert answer.is_finished
        try:
            expected: int | None = find_optimal_setting(problem).setting.loss
        except NoBucketingError:
            expected = None
        assert answer.loss == expected
        if answer.setting is not None:
            assert is_valid(problem, answer.setting)
            solved += 1
    assert solved > 30


@pytest.mark.parametrize("case", [case for case in SMALL if len(case.counts) > 6], ids=lambda case: case.name)
def test_assignment_program_finds_the_known_optimum(case: Case) -> None:
    answer = solve(posed(case), seconds=10)
    assert (answer.loss, answer.is_finished) == (case.optimum, True)
    assert answer.gap == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_assignment_program_stops_at_its_limit() -> None:
    (case,) = (case for case in CASES if case.name == "occ-like-300000-theta-4")
    answer = solve(posed(case), seconds=0.5)
    assert not answer.is_finished
    assert answer.bound <= find_optimal_setting(posed(case)).setting.loss
