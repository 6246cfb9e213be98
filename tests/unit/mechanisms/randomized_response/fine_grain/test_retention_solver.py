from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from refusals import refuses
from selection import examples
from sfumato.errors import InternalError
from sfumato.mechanisms._randomized_response.fine_grain.amplification_order import (
    AmplificationOrder,
    Candidate,
    Direction,
)
from sfumato.mechanisms._randomized_response.fine_grain.retention_solver import (
    compute_record_utility,
    compute_total_variance,
    find_violation,
    solve,
    solve_aggregate,
)
from sfumato.mechanisms._randomized_response.fine_grain.shadow_prices import compute_shadow_prices

BOTH, UPWARD = Direction.BOTH, Direction.UPWARD

Row = tuple[list[Fraction], Fraction]
"""The coefficients of a constraint, and its right-hand side."""


class Case(NamedTuple):
    shares: str
    amplifications: str
    utility: str
    retentions: str
    utility_both: float


# Computed by an independent implementation: the linear program of the paper in exact rationals, and the corrected one
# (both directions) in floats.
CASES = {
    "example of the paper": Case("1/4 1/4 1/4 1/4", "3/2 3 19/2 18", "7/16", "0 1/3 1/3 1/3", 0.34375),
    "equal bounds": Case("1/5 1/5 1/5 1/5 1/5", "4 4 4 4 4", "1/2", "3/8 3/8 3/8 3/8 3/8", 0.5),
    "two values": Case("2/3 1/3", "5/2 7", "9/11", "9/11 3/11", 0.7142857142857142),
    "two values, one never kept": Case("9/10 1/10", "20 3/2", "13/20", "1/3 0", 0.65),
    "strict maximum with the largest bound": Case(
        "19/20 1/40 1/40", "30 3 4", "91/120", "2/3 0 1/6", 0.7583333333333331
    ),
    "strict maximum with the least bound": Case(
        "19/20 1/40 1/40", "3 30 40", "1277/1350", "29/30 0 1/45", 0.7555555555555554
    ),
    "one value without a bound": Case("1/2 3/10 1/5", "inf 4 2", "3/5", "1/2 1/2 0", 0.6),
    "two least bounds": Case("1/10 1/10 2/5 2/5", "3/2 3/2 9 12", "9/20", "0 0 1/3 1/3", 0.35),
    "one value with a bound": Case("1/2 1/4 1/4", "inf inf 3", "2/3", "2/3 2/3 0", 2 / 3),
    "skewed": Case("1/2 1/5 3/25 9/100 3/50 3/100", "12 9 7 5 4 3", "99/175", "4/7 4/7 2/5 8/35 1/7 2/35", 0.4825),
    "Zipf, 8 values": Case(
        "46/125 23/125 123/1000 23/250 37/500 61/1000 13/250 23/500",
        "158/33 204/79 877/377 227/102 463/213 939/439 237/112 477/227",
        "28246429591183885/93885812509323744",
        "625/1209 1125/31837 56375/3190551 4625/431613 12875/1802619 5875/1238419 125/39494 1375/640367",
        0.23391991480888694,
    ),
    "Zipf, 12 values": Case(
        "1611/5000 403/2500 537/5000 403/5000 161/2500 269/5000 23/500 201/5000 179/5000 161/5000 147/5000 67/2500",
        "10167/167 6291/1291 13389/3389 13791/3791 7017/2017 14193/4193 1431/431 14397/4397 14463/4463 14517/4517 "
        "14559/4559 7299/2299",
        "212004703261246822130385256410527580845/713322653611290263811778349581994089332",
        "5000/7299 560000/11517011 2015000/90699807 1345000/101458533 470000/53980971 225000/37405753 16000/3844951 "
        "335000/117676911 75000/39814423 45000/40296157 65000/122012517 0",
        0.22835258607070189,
    ),
    "bounds below and above m-1": Case(
        "1/6 1/6 1/6 1/6 1/6 1/6", "2 4 5 6 8 40", "29/66", "1/55 13/55 19/55 5/11 5/11 5/11", 0.3055555555555556
    ),
}

PEAKS = ["two values", "strict maximum with the least bound", "Zipf, 8 values"]
"""Here one value is kept more often than it could be if another one were kept as often."""

KINDS = {
    "corner": ([0, 1, 1], "inf 5 5"),
    "end of the curve": ([1, 0, 0], "inf 12 56"),
    "peak up to the least retention": ([1, 0, 0], "5/2 5/2 4"),
    "peak up to what it leaves": ([1, 2, 0], "3/2 3/2 20"),
    "peak with bound m-1": ([0, 1, 0], "2 2 3/2"),
    "peak above m-1 up to a higher bound": ([1, 0, 1], "4 5 6"),
    "peak above m-1 with a tied bound": ([1, 0, 1], "4 4 6"),
    "peak below m-1 up to a lower bound": ([1, 1, 0], "17/10 9/5 20"),
    "peak that is always kept": ([9, 1], "5 inf"),
    "no gain from a higher level": ([1, 2], "2 3"),
    "no gain from a peak": ([2, 1], "2 4"),
}
"""Where an optimum can be, upward; an example of each."""


def _exact(written: str) -> list[Fraction]:
    return [Fraction(number) for number in written.split()]


def _bounds(written: str) -> list[Fraction | None]:
    return [None if number == "inf" else Fraction(number) for number in written.split()]


@st.composite
def problems(draw: st.DrawFn, min_size: int = 2, max_size: int = 12) -> tuple[list[int], list[Fraction | None]]:
    """Counts and bounds: often tied, sometimes zero or missing, around m - 1, and dominated by one value at times."""
    size = draw(st.integers(min_size, max_size))
    simple = st.sampled_from([Fraction(3, 2), Fraction(2), Fraction(4), Fraction(9), Fraction(max(size - 1, 2))])
    fine = st.builds(lambda above, below: 1 + Fraction(above, below), st.integers(1, 60), st.integers(1, 12))
    bound = draw(st.sampled_from([simple, fine, simple | fine | st.none()]))
    bounds = draw(st.lists(bound, min_size=size, max_size=size).filter(any))
    counts = draw(st.lists(st.integers(0, 3) | st.integers(0, 40), min_size=size, max_size=size).filter(any))
    if draw(st.booleans()):
        counts[draw(st.integers(0, size - 1))] += draw(st.integers(1, 3)) * sum(counts)
    return counts, bounds


directions = st.sampled_from(list(Direction))
percents = st.integers(0, 100).map(lambda percent: Fraction(percent, 100))


def _pair_bound(bounds: Sequence[Fraction | None], value: int, other: int, direction: Direction) -> Fraction | None:
    given_bounds = [bounds[value], bounds[other]] if direction is BOTH else [bounds[value]]
    return min((bound for bound in given_bounds if bound is not None), default=None)


def _demands(bounds: Sequence[Fraction | None], direction: Direction) -> Iterator[tuple[int, int, Fraction]]:
    """Every constraint on two values."""
    for value, other in permutations(range(len(bounds)), 2):
        bound = _pair_bound(bounds, value, other, direction)
        if bound is not None:
            yield value, other, bound


def _rows(bounds: Sequence[Fraction | None], direction: Direction) -> list[Row]:
    """Every constraint, as the linear program states it, but for the signs."""
    size, rows = len(bounds), []
    for value, other, bound in _demands(bounds, direction):
        row = [Fraction(0)] * size
        row[value], row[other] = Fraction(size - 1), bound
        rows.append((row, bound - 1))
    return rows + [([Fraction(value == other) for other in range(size)], Fraction(1)) for value in range(size)]


def _utility(counts: Sequence[int], mean: Fraction) -> Fraction:
    return mean / sum(counts) * Fraction(len(counts) - 1, len(counts)) + Fraction(1, len(counts))


def _dot(left: Sequence[Fraction | int], right: Sequence[Fraction]) -> Fraction:
    return sum((first * second for first, second in zip(left, right, strict=True)), Fraction(0))


def _meets_demands(bounds: Sequence[Fraction | None], retentions: Sequence[Fraction], direction: Direction) -> bool:
    return all(
        (len(bounds) - 1) * retentions[value] + bound * retentions[other] <= bound - 1
        for value, other, bound in _demands(bounds, direction)
    )


def _is_feasible(bounds: Sequence[Fraction | None], retentions: Sequence[Fraction], direction: Direction) -> bool:
    return all(0 <= each <= 1 for each in retentions) and _meets_demands(bounds, retentions, direction)


def _uniform(bounds: Sequence[Fraction | None]) -> Fraction:
    least = min(bound for bound in bounds if bound is not None)
    return (least - 1) / (len(bounds) - 1 + least)


# ------------------------------------------------------------------------------------------------------ record utility


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_upward_optimum_of_known_cases(case: Case) -> None:
    shares = _exact(case.shares)
    retentions = solve(shares, _bounds(case.amplifications), UPWARD)
    assert compute_record_utility(shares, retentions) == Fraction(case.utility)
    assert list(retentions) == _exact(case.retentions)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_optimum_in_both_directions_of_known_cases(case: Case) -> None:
    shares = _exact(case.shares)
    retentions = solve(shares, _bounds(case.amplifications), BOTH)
    assert float(compute_record_utility(shares, retentions)) == pytest.approx(case.utility_both, abs=1e-9)


@pytest.mark.parametrize("name", PEAKS)
def test_peak_is_kept_more_often_than_its_corner(name: str) -> None:
    bounds = _bounds(CASES[name].amplifications)
    retentions = solve(_exact(CASES[name].shares), bounds, UPWARD)
    top = max(range(len(bounds)), key=retentions.__getitem__)
    bound = bounds[top]
    assert bound is not None
    assert retentions.count(retentions[top]) == 1
    assert retentions[top] > (bound - 1) / (len(bounds) - 1 + bound)


@given(problems(), directions)
def test_optimum_agrees_with_the_full_linear_program(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    rows = _rows(bounds, direction)
    matrix = np.array([[float(number) for number in row] for row, _ in rows])
    limits = np.array([float(limit) for _, limit in rows])
    found = linprog(
        -np.array(counts) / sum(counts),
        A_ub=matrix,
        b_ub=limits,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.fun is not None
    size = len(counts)
    expected = (1 - found.fun * (size - 1)) / size
    assert float(compute_record_utility(counts, solve(counts, bounds, direction))) == pytest.approx(expected, rel=1e-9)


def _best_vertex(counts: Sequence[int], rows: Sequence[Row]) -> Fraction:
    """The maximum of counts · p, over all points where as many constraints as there are values hold with equality."""
    size = len(counts)
    signs = [([-Fraction(value == other) for other in range(size)], Fraction(0)) for value in range(size)]
    everything = [*rows, *signs]
    points = (_intersection(chosen) for chosen in combinations(everything, size))
    feasible = [point for point in points if point and all(_dot(row, point) <= limit for row, limit in everything)]
    return max(_dot(counts, point) for point in feasible)


def _intersection(rows: Sequence[Row]) -> list[Fraction] | None:
    """Gauss and Jordan, in rationals; None if the rows do not meet in one point."""
    size, table = len(rows), [[*row, limit] for row, limit in rows]
    for column in range(size):
        pivot = next((place for place in range(column, size) if table[place][column]), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        table[column] = [number / table[column][column] for number in table[column]]
        for place in set(range(size)) - {column}:
            factor = table[place][column]
            table[place] = [a - factor * b for a, b in zip(table[place], table[column], strict=True)]
    return [row[-1] for row in table]


@settings(max_examples=examples(40))
@given(problems(max_size=3), directions)
def test_optimum_is_exactly_the_best_vertex(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    expected = _utility(counts, _best_vertex(counts, _rows(bounds, direction)))
    assert compute_record_utility(counts, solve(counts, bounds, direction)) == expected


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(("counts", "written"), KINDS.values(), ids=KINDS)
def test_optimum_of_every_kind_is_exactly_the_best_vertex(
    counts: list[int], written: str, direction: Direction
) -> None:
    bounds = _bounds(written)
    expected = _utility(counts, _best_vertex(counts, _rows(bounds, direction)))
    assert compute_record_utility(counts, solve(counts, bounds, direction)) == expected


@pytest.mark.parametrize("difference", [-1, 0, 1])
@pytest.mark.parametrize("direction", Direction)
def test_optimum_is_exact_where_the_slopes_differ_by_less_than_any_float(direction: Direction, difference: int) -> None:
    """With shares 1 and 2, the first bound 2 makes a higher level worth nothing; far below 2**-160 it must decide."""
    counts, bounds = [1, 2], [2 + Fraction(difference, 2**300), Fraction(3)]
    expected = _utility(counts, _best_vertex(counts, _rows(bounds, direction)))
    assert compute_record_utility(counts, solve(counts, bounds, direction)) == expected


@settings(max_examples=examples(50))
@given(problems(), directions)
def test_optimum_meets_every_demand(problem: tuple[list[int], list[Fraction | None]], direction: Direction) -> None:
    counts, bounds = problem
    assert _is_feasible(bounds, solve(counts, bounds, direction), direction)


@settings(max_examples=examples(50))
@given(problems(), directions)
def test_optimum_is_never_worse_than_uniform_perturbation(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    uniform = [_uniform(bounds)] * len(counts)
    assert find_violation(bounds, uniform, direction) is None
    assert compute_record_utility(counts, solve(counts, bounds, direction)) >= compute_record_utility(counts, uniform)


@settings(max_examples=examples(50))
@given(problems(), directions, st.lists(percents, min_size=12, max_size=12))
def test_lowering_retentions_breaks_no_demand(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction, factors: list[Fraction]
) -> None:
    counts, bounds = problem
    retentions = solve(counts, bounds, direction)
    lowered = [retention * factor for retention, factor in zip(retentions, factors, strict=False)]
    assert _is_feasible(bounds, lowered, direction)


@settings(max_examples=examples(50))
@given(problems(), directions, st.randoms(use_true_random=False))
def test_optimum_does_not_depend_on_the_order_of_values(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction, shuffler: random.Random
) -> None:
    counts, bounds = problem
    order = list(range(len(counts)))
    shuffler.shuffle(order)
    shuffled = solve([counts[place] for place in order], [bounds[place] for place in order], direction)
    assert compute_record_utility([counts[place] for place in order], shuffled) == compute_record_utility(
        counts, solve(counts, bounds, direction)
    )


@settings(max_examples=examples(50))
@given(problems(), directions)
def test_counts_and_shares_have_the_same_optimum(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    shares = [Fraction(count, sum(counts)) for count in counts]
    assert solve(shares, bounds, direction) == solve(counts, bounds, direction)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(problems())
def test_both_directions_cost_utility(problem: tuple[list[int], list[Fraction | None]]) -> None:
    counts, bounds = problem
    upward, both = (compute_record_utility(counts, solve(counts, bounds, direction)) for direction in (UPWARD, BOTH))
    assert both <= upward


@pytest.mark.parametrize("direction", Direction)
def test_value_that_nobody_holds_gives_way_to_the_others(direction: Direction) -> None:
    """The least bound belongs to a value without records: it is never kept, and the others as often as it allows."""
    assert solve([0, 1, 1], [Fraction(3, 2), Fraction(9), Fraction(9)], direction)[0] == 0


def test_peak_beside_values_without_a_bound_may_always_be_kept() -> None:
    """Only one demand, p_1 + 5 p_2 <= 4: the first value is kept for certain, the other with coin 3/5."""
    assert solve([9, 1], [Fraction(5), None], UPWARD) == (Fraction(1), Fraction(3, 5))


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("bounds", [[None, None], [Fraction(2)], []], ids=["no bound", "one value", "no value"])
def test_nothing_to_solve_is_our_mistake(bounds: list[Fraction | None], direction: Direction) -> None:
    with refuses(InternalError, "nothing-to-solve"):
        solve([1] * len(bounds), bounds, direction)


@pytest.mark.parametrize(
    ("retentions", "utility"), [("0 0 0", "1/3"), ("1 1 1", "1"), ("1 0 0", "2/3"), ("1/2 1/4 0", "13/24")]
)
def test_record_utility_counts_the_redrawn_that_hit_the_truth(retentions: str, utility: str) -> None:
    assert compute_record_utility([2, 1, 1], _exact(retentions)) == Fraction(utility)


# --------------------------------------------------------------------------------------------------------- feasibility


@given(problems(), directions, st.lists(percents, min_size=12, max_size=12))
def test_violation_agrees_with_every_single_constraint(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction, anything: list[Fraction]
) -> None:
    _, bounds = problem
    retentions = anything[: len(bounds)]
    found = find_violation(bounds, retentions, direction)
    assert (found is None) == _meets_demands(bounds, retentions, direction)
    if found is not None:
        bound = _pair_bound(bounds, *found, direction)
        assert bound is not None
        assert (len(bounds) - 1) * retentions[found[0]] + bound * retentions[found[1]] > bound - 1


@settings(max_examples=examples(50))
@given(problems(), directions, st.integers(0, 11))
def test_violation_is_found_just_beyond_the_boundary(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction, place: int
) -> None:
    counts, bounds = problem
    raised = [retention * (1 - Fraction(1, 10**30)) for retention in solve(counts, bounds, direction)]
    raised[place % len(raised)] *= 1 + Fraction(2, 10**30)
    assert (find_violation(bounds, raised, direction) is None) == _meets_demands(bounds, raised, direction)


# ------------------------------------------------------------------------------------------------------- shadow prices


@settings(max_examples=examples(150))
@given(problems(max_size=6), directions)
@example(([1, 1, 1], [Fraction(2)] * 3), UPWARD)  # raising one of three tied bounds gains nothing
@example(([9, 1, 1], [Fraction(4)] * 3), UPWARD)  # a tied bound above m - 1 hinders a peak
@example(([4, 1, 1, 1, 1], [Fraction(2)] * 5), UPWARD)  # and so does one below m - 1
@example(([1, 2], [Fraction(2), Fraction(3)]), UPWARD)  # a whole interval of levels is optimal
@example(([1, 2], [Fraction(2), Fraction(3)]), BOTH)
@example(([3, 2, 2], [Fraction(3, 2), Fraction(9), Fraction(9)]), BOTH)  # and its upper end gains most
@example(([2, 1], [Fraction(2), Fraction(4)]), BOTH)  # an optimal peak that gains nothing
@example(([1, 5, 5], [Fraction(3, 2), Fraction(9), None]), UPWARD)  # the least retention is 0
@example(([1, 1, 9, 9], [Fraction(3, 2), Fraction(3, 2), Fraction(9), Fraction(9)]), UPWARD)  # two are
@example(([9, 1], [Fraction(5), None]), UPWARD)  # the peak is kept for certain
def test_shadow_price_is_the_gain_of_a_slightly_larger_bound(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    retentions = solve(counts, bounds, direction)
    utility, step = compute_record_utility(counts, retentions), Fraction(1, 10**12)
    prices = compute_shadow_prices(counts, bounds, retentions, direction)
    for value, bound in enumerate(bounds):
        if bound is None:
            assert prices[value] == 0
            continue
        relaxed = [*bounds[:value], bound + step, *bounds[value + 1 :]]
        gain = (compute_record_utility(counts, solve(counts, relaxed, direction)) - utility) / step
        assert prices[value] == pytest.approx(float(gain), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("direction", "price"), [(UPWARD, 1 / 12), (BOTH, 3 / 16)])
def test_shadow_prices_of_the_paper_name_the_value_that_hinders(direction: Direction, price: float) -> None:
    """Only the bound of SARS is tight. In both directions, the other three quarters keep (γ - 1) / 3: 3/4 * 1/3 * 3/4.

    Upward, at M = 1/3 its line (γ - 1 - γM) / 3 rises by 2/9. Kept itself, it gains a quarter of that. To let M rise by
    4/9 instead gains twice as much: two quarters rise so, and HIV falls by as much. Of 1/9, record utility gets 3/4.
    """
    shares, bounds = _exact(CASES["example of the paper"].shares), _bounds(CASES["example of the paper"].amplifications)
    retentions = solve(shares, bounds, direction)
    assert compute_shadow_prices(shares, bounds, retentions, direction) == pytest.approx([price, 0, 0, 0])


@pytest.mark.parametrize("direction", Direction)
def test_shadow_prices_take_retentions_that_were_rounded_down(direction: Direction) -> None:
    counts, bounds = [5, 2, 1], _bounds("12 5 3")
    retentions = solve(counts, bounds, direction)
    rounded = [Fraction(math.floor(retention * 1000), 1000) for retention in retentions]
    prices = compute_shadow_prices(counts, bounds, retentions, direction)
    assert compute_shadow_prices(counts, bounds, rounded, direction) == prices


def test_shadow_prices_of_other_retentions_are_our_mistake() -> None:
    with refuses(InternalError, "retentions-not-optimal"):
        compute_shadow_prices([1, 1], _bounds("2 3"), [Fraction(1), Fraction(1)], UPWARD)


# ---------------------------------------------------------------------------------------------------- aggregate utility


def _variance_by_inversion(counts: Sequence[int], retentions: Sequence[Fraction]) -> float:
    """The definition: sum over x and j of W_xj² E[o_j], less the shares, with W from numpy."""
    kept, shares = np.array([float(each) for each in retentions]), np.array(counts) / sum(counts)
    operator = np.diag(kept) + (1 - kept) / len(counts)  # operator[published, original]
    weights = np.linalg.inv(operator)
    return float((weights**2 @ (operator @ shares) - shares).sum())


positive = st.integers(5, 100).map(lambda percent: Fraction(percent, 100))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(0, 20), positive), min_size=2, max_size=7), st.integers(1, 9))
def test_total_variance_agrees_with_the_inverse_matrix(drawn: list[tuple[int, Fraction]], more: int) -> None:
    counts, retentions = [more + count for count, _ in drawn], [retention for _, retention in drawn]
    assert compute_total_variance(counts, retentions) == pytest.approx(
        _variance_by_inversion(counts, retentions), rel=1e-8
    )


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(0, 20), positive), min_size=2, max_size=7), st.integers(1, 9), st.integers(0, 6))
def test_total_variance_with_one_value_that_is_never_kept(
    drawn: list[tuple[int, Fraction]], more: int, place: int
) -> None:
    counts, retentions = [more + count for count, _ in drawn], [retention for _, retention in drawn]
    retentions[place % len(drawn)] = Fraction(0)
    assert compute_total_variance(counts, retentions) == pytest.approx(
        _variance_by_inversion(counts, retentions), rel=1e-8
    )


def test_total_variance_of_a_rarely_kept_value_is_near_that_of_one_never_kept() -> None:
    """The inverse of a retention of 10**-12 must not swallow those of the others."""
    never = compute_total_variance([1, 2, 3], _exact("0 1/2 1/3"))
    assert compute_total_variance([1, 2, 3], [Fraction(1, 10**12), Fraction(1, 2), Fraction(1, 3)]) == pytest.approx(
        never
    )


def test_total_variance_is_infinite_if_two_values_are_never_kept() -> None:
    assert math.isinf(compute_total_variance([1, 1, 1], _exact("0 1/2 0")))


def test_total_variance_of_a_table_published_as_it_is() -> None:
    assert compute_total_variance([1, 2, 3], _exact("1 1 1")) == 0


@settings(max_examples=examples(40))
@given(problems(), directions)
def test_aggregate_keeps_every_value_and_meets_every_demand(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    retentions = solve_aggregate(counts, bounds, direction)
    assert min(retentions) > 0 or (len(counts) == 2 and max(retentions) > 0)  # of two values, one tells both
    assert find_violation(bounds, retentions, direction) is None


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(problems(), directions)
def test_aggregate_is_never_worse_than_uniform_perturbation(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    uniform = compute_total_variance(counts, [_uniform(bounds)] * len(counts))
    assert compute_total_variance(counts, solve_aggregate(counts, bounds, direction)) <= uniform


@pytest.mark.parametrize("direction", Direction)
def test_aggregate_is_uniform_under_equal_bounds(direction: Direction) -> None:
    bounds = _bounds("4 4 4 4 4")
    assert solve_aggregate([5, 4, 3, 2, 1], bounds, direction) == (Fraction(3, 8),) * 5


@pytest.mark.parametrize(("direction", "most"), [(UPWARD, 0.6), (BOTH, 0.999)])
def test_aggregate_gains_where_the_bounds_differ(direction: Direction, most: float) -> None:
    case = CASES["skewed"]
    shares, bounds = _exact(case.shares), _bounds(case.amplifications)
    found = compute_total_variance(shares, solve_aggregate(shares, bounds, direction))
    assert found < most * compute_total_variance(shares, [_uniform(bounds)] * len(shares))


def _best_on_a_grid(counts: Sequence[int], bounds: Sequence[Fraction | None], direction: Direction) -> float:
    """The least variance of feasible retentions, all but one of them on a grid, by their demands and in floats."""
    size = len(counts)
    steps = np.linspace(0, 1, 201 if size == 2 else 61)
    limits = [math.inf if each is None else float(each) for each in bounds]
    grid = np.stack(np.meshgrid(*[steps] * (size - 1), indexing="ij")).reshape(size - 1, -1)
    kept = np.vstack([grid, np.ones(grid.shape[1])])  # the last as large as its demands and those of the others allow
    for one, other in permutations(range(size), 2):
        bound = min(limits[one], limits[other]) if direction is BOTH else limits[one]
        if math.isinf(bound):
            continue
        if one == size - 1:
            kept[-1] = np.minimum(kept[-1], (bound - 1 - bound * kept[other]) / (size - 1))
        elif other == size - 1:
            kept[-1] = np.minimum(kept[-1], (bound - 1 - (size - 1) * kept[one]) / bound)
        else:
            kept[-1] = np.where((size - 1) * kept[one] + bound * kept[other] <= bound - 1, kept[-1], -1.0)
    kept = kept[:, (kept[-1] >= 0) & ((kept > 1e-6).sum(axis=0) >= size - 1)]
    return min(compute_total_variance(counts, [Fraction(each) for each in column]) for column in kept.T.tolist())


def test_aggregate_of_two_values_has_tight_demands_and_not_equal_retentions() -> None:
    """Equal retentions of 0.535 have more than three times the error."""
    counts, bounds = [49_755, 6_103], _bounds("3301/1001 2092/17")
    kept = solve_aggregate(counts, bounds, UPWARD)
    assert [round(float(each), 3) for each in kept] == [0.989, 0.397]
    for one, other in ((0, 1), (1, 0)):
        bound = bounds[one]
        assert bound is not None
        assert kept[one] + bound * kept[other] == bound - 1
    assert math.sqrt(compute_total_variance(counts, _exact("0.535 0.535")) / compute_total_variance(counts, kept)) > 3.2
    assert compute_total_variance(counts, kept) < compute_total_variance(counts, _exact("0.985 0.398"))


@settings(max_examples=examples(25))
@given(problems(2, 2), directions)
@example(([9, 1], [Fraction(3, 2), Fraction(40)]), UPWARD)
@example(([1, 9], [None, Fraction(3, 2)]), UPWARD)
@example(([1, 9], [None, Fraction(9)]), BOTH)
def test_no_retentions_of_two_values_on_a_grid_are_better(
    problem: tuple[list[int], list[Fraction | None]], direction: Direction
) -> None:
    counts, bounds = problem
    found = compute_total_variance(counts, solve_aggregate(counts, bounds, direction))
    assert found <= _best_on_a_grid(counts, bounds, direction) * 1.001 + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "bounds", "gain"),
    [([7, 1, 3], "9 20 20", 1.4), ([5, 3, 2], "4 3 2", 1.0)],
    ids=["at a peak", "on the curve"],
)
def test_no_retentions_of_three_values_on_a_grid_are_better(counts: list[int], bounds: str, gain: float) -> None:
    limits = _bounds(bounds)
    found = compute_total_variance(counts, solve_aggregate(counts, limits, UPWARD))
    assert found <= _best_on_a_grid(counts, limits, UPWARD) * 1.001
    ladder = AmplificationOrder.of(counts, limits, UPWARD)
    curve = [
        ladder.compute_retentions(Candidate(ladder.highest_level * Fraction(part, 1000))) for part in range(1, 1000)
    ]
    kept = [each for each in curve if min(each) > 0 and find_violation(limits, each, UPWARD) is None]
    assert min(compute_total_variance(counts, each) for each in kept) >= found * gain


# ------------------------------------------------------------------------------------------------------- large domains

LARGE = 15_000


def _large_problem() -> tuple[list[int], list[Fraction | None]]:
    """As many different bounds as values, and a few values without one."""
    numbers = random.Random(15)
    counts = [numbers.randrange(1, 10**6) for _ in range(LARGE)]
    bounds = [1 + Fraction(numbers.randrange(10**8, 10**10), numbers.randrange(10**8, 10**9)) for _ in range(LARGE)]
    return counts, [None, None, *bounds[2:]]


@pytest.mark.slow
@pytest.mark.parametrize("direction", Direction)
def test_large_domains_are_solved(direction: Direction) -> None:
    """No other level has a higher utility, by an evaluation in floats that shares nothing with the solver."""
    counts, bounds = _large_problem()
    retentions = solve(counts, bounds, direction)
    assert find_violation(bounds, retentions, direction) is None
    assert min(retentions) >= 0
    best = _best_of_many_levels(counts, bounds, direction)
    assert best * (1 - 1e-12) <= float(compute_record_utility(counts, retentions)) <= best * (1 + 1e-4)


def _best_of_many_levels(counts: Sequence[int], bounds: Sequence[Fraction | None], direction: Direction) -> float:
    size = len(counts)
    bound = np.array([1e300 if each is None else float(each) for each in bounds])
    shares = np.array(counts) / sum(counts)

    def utility(level: float) -> float:
        kept = np.minimum(level, (bound * (1 - level) - 1) / (size - 1))
        kept = np.minimum(kept, 1 - (1 + (size - 1) * level) / bound) if direction is BOTH else kept
        kept = np.where(kept < level, kept, level)
        return float((shares * kept).sum() * (size - 1) / size + 1 / size) if kept.min() >= 0 else 0.0

    least = bound.min()
    end = (least - 1) / (max(least, size - 1) if direction is BOTH else least)
    return max(utility(level) for level in np.linspace(0, end, 200))


@pytest.mark.slow
def test_large_domains_have_prices_and_aggregates() -> None:
    counts, bounds = _large_problem()
    prices = compute_shadow_prices(counts, bounds, solve(counts, bounds, UPWARD), UPWARD)
    assert prices[:2] == (0, 0)
    assert max(prices) > 0
    assert find_violation(bounds, solve_aggregate(counts, bounds, UPWARD), UPWARD) is None
