"""Numbers of P. Wang, "Multiple-sized Bucketization For Privacy Protection" (thesis, Simon Fraser University, 2014).

Where an example is misprinted, the docstring says so and the test has the corrected number. The ground truth of the
cases comes from an independent reference implementation.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from bucket_cases import CASES, Case, linear_caps
from papers import EXPERIMENTS, Conditions, Outcome, Verdict
from papers.multiple_sized_bucketization.printed_problems import (
    EXAMPLE_5,
    EXAMPLE_8,
    EXAMPLE_10,
    EXAMPLE_13,
    are_within_caps,
    compare_counts_and_caps,
)
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, is_valid
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.size_methods import choose
from sfumato.mechanisms._bucketization.buckets.two_size_splitting import split_top_down
from sfumato.mechanisms._bucketization.buckets.two_sizes import count_fillable_buckets, find_best_two_sizes

SOLVABLE = [case for case in CASES if case.optimum is not None]
BLOCKED = [case for case in CASES if case.optimum is None]


def _posed(counts: tuple[int, ...], factor: str, offset: str, sizes: tuple[int, int]) -> Problem:
    return pose(counts, linear_caps(counts, Fraction(factor), Fraction(offset)), *sizes)


def _problem(case: Case) -> Problem:
    return pose(case.counts, case.share_caps, *case.sizes)


@pytest.mark.parametrize("case", SOLVABLE, ids=lambda case: case.name)
def test_the_optimum_of_a_case_is_found_and_proven(case: Case) -> None:
    found = find_optimal_setting(_problem(case))
    assert (found.setting.loss, found.bound) == (case.optimum, case.optimum)
    assert is_valid(_problem(case), found.setting)


@pytest.mark.parametrize("case", SOLVABLE, ids=lambda case: case.name)
def test_the_optima_of_the_reference_are_valid(case: Case) -> None:
    for pairs in case.optima:
        assert is_valid(_problem(case), Setting.of(pairs))


@pytest.mark.parametrize("case", SOLVABLE, ids=lambda case: case.name)
def test_two_sizes_and_top_down_of_a_case(case: Case) -> None:
    for method, expected in ((find_best_two_sizes, case.two), (split_top_down, case.top_down)):
        if expected is None:
            with pytest.raises(NoBucketingError):
                method(_problem(case))
        else:
            assert method(_problem(case)).pairs == expected


@pytest.mark.parametrize("case", BLOCKED, ids=lambda case: case.name)
def test_an_impossible_case_names_the_culprit_or_the_size_that_would_do(case: Case) -> None:
    with pytest.raises(NoBucketingError) as caught:
        choose(case.counts, case.share_caps, "optimal", smallest=case.sizes[0], largest=case.sizes[1])
    if case.blame is not None:
        assert caught.value.places == (case.blame,)
        assert "'culprit'" in caught.value.name_values(["'culprit'"] * len(case.counts)).sentence_with_values
    if case.least_largest is not None:
        assert f"allow buckets of {case.least_largest}" in str(caught.value)


# The examples and tables are experiments (`python -m papers buckets`); here stand the numbers that they must find.


def found(name: str) -> Outcome:
    (experiment,) = (each for each in EXPERIMENTS if each.name == f"buckets/{name}")
    return experiment.run(Conditions(is_quick=True))


def test_example_5_optimum() -> None:
    """Example 5 and Table 3.4. Misprint: the table leaves out x7, so its loss of 70 is for 32 of 36 records."""
    assert [row[1:4] for row in found("ex5").rows] == [
        ("6 of 2, 4 of 3, 2 of 6", 72, 36),
        ("8 of 3, 2 of 6", 82, 36),
        ("6 of 6", 150, 36),
    ]
    assert [row[1] - row[2] for row in found("table3-4").rows] == [0, 0, 0, 0, 0, 0, 4, 0, 0]
    for largest in (6, 12):
        assert find_optimal_setting(_posed(EXAMPLE_5.counts, "3", "0.02", (2, largest))).setting.loss == 72


@pytest.mark.parametrize("name", ["table3-3", "table4-1", "table4-2", "table5-1", "table5-2", "table5-3", "table6-1"])
def test_table_is_as_printed(name: str) -> None:
    assert found(name).verdict is Verdict.AGREES


def test_a_table_that_is_not_as_printed_is_told() -> None:
    wrong = compare_counts_and_caps(EXAMPLE_5, ("0.056", "0.11", "0.19"), ("0.187", "0.353", "0.613"))
    assert (wrong.verdict, wrong.sentence) == (Verdict.DIFFERS, "1 of the 6 shares and caps are not as printed.")
    assert not are_within_caps([(1, 1, 2, 3, 4, 5)], EXAMPLE_5.caps)


def test_example_6_round_robin() -> None:
    """Example 6, Tables 4.1 and 4.2: values x9 to x1 dealt to six buckets. Misprint: f_1 is 0.0556, not 0.005556."""
    assert [row[1] for row in found("ex6").rows] == [pytest.approx(1 / 18), pytest.approx(1 / 6 + 0.02), 6, 6]
    assert [row[1] for row in found("table4-2").rows] == [
        "x9 x9 x8 x6 x5 x3",
        "x9 x8 x8 x6 x5 x3",
        *["x9 x8 x7 x6 x4 x2"] * 2,
        *["x9 x8 x7 x5 x4 x1"] * 2,
    ]


def test_example_7_validity_of_one_size() -> None:
    """Example 7: o_i <= c_i(S) * b; printed with "<"."""
    outcome = found("ex7")
    assert outcome.verdict is Verdict.AGREES
    assert [row[3] for row in outcome.rows] == [6, 12, 18, 0, 9, 18]


def test_example_8_two_sizes() -> None:
    """Example 8: 9 buckets of 4 and one of 14, loss 250, is the best of two sizes; of all sizes, 216."""
    outcome = found("ex8")
    assert outcome.verdict is Verdict.AGREES
    assert "with a loss of 250 it is the best of two sizes up to 14, and 7 of 4, 2 of 5, 1 of 12 lose 216" in (
        outcome.sentence
    )
    assert [row[3] for row in found("table5-2").rows][8:] == ["2 + 4", "4 + 2", "6 + 0", "6 + 0", "9 + 0", "9 + 0"]


def test_example_9_pairs() -> None:
    """Example 9: 28 records. Misprint: for sizes 3 and 5 it starts at (1, 5); the row is (6, 2), (1, 5)."""
    first, second = found("ex9").rows
    assert first[1] == first[2]
    assert second[1:] == ("(6, 2) (1, 5)", "(1, 5)")


def test_examples_10_and_11_conditions() -> None:
    """Examples 10 and 11, sizes 2 and 4: FC1 holds from (8, 3), FC2 everywhere; all conditions from (6, 4), loss 42."""
    assert [row[1].split(")")[0] + ")" for row in found("ex10").rows] == ["(8, 3)", "(14, 0)"]
    assert "is 6 of 2, 4 of 4, with a loss of 42." in found("ex10").sentence
    assert [row[1] for row in found("ex11").rows] == ["none", "(6, 4) (4, 5) (2, 6) (0, 7)"]
    problem = _posed(EXAMPLE_10.counts, "2", "0", (2, 4))
    assert count_fillable_buckets(problem).tolist() == [8, 7]
    pairs = [(14 - 2 * t, t) for t in range(8)]
    valid = [pair for pair in pairs if is_valid(problem, Setting.of([(2, pair[0]), (4, pair[1])]))]
    assert valid == [(6, 4), (4, 5), (2, 6), (0, 7)]


def test_example_12_three_sizes_need_the_general_condition() -> None:
    """Example 12: 5 of 4, 4 of 5, 5 of 6 with caps of 1/6. Misprint: u_{11,3} is 30, not 20; the conclusion stands."""
    outcome = found("ex12")
    assert [row[1] for row in outcome.rows] == ["0, 0, 5", "20, 20, 30", "yes", "no"]
    assert "x1 to x10 block each other" in outcome.sentence


def test_example_13_top_down() -> None:
    """Example 13. Misprints: the first round loses 148, not 132, and B3 must be 2 buckets of 6.

    Top-down ends at 98 with records moved in the order of the values (118 with another); the optimum is 91.
    """
    rows = found("ex13").rows
    assert [row[1:3] for row in rows[:2]] == [("3 of 5, 4 of 6", 148), ("5 of 2, 3 of 4, 1 of 5, 2 of 6", 98)]
    assert [row[5:] for row in rows] == [(148, "yes"), (102, "no"), (95, "no")]
    problem = _posed(EXAMPLE_13.counts, "3", "0.02", (2, 6))
    assert find_optimal_setting(problem).setting.pairs == ((2, 7), (4, 2), (5, 1), (6, 2))


@pytest.mark.slow
def test_figure_6_1_top_down_depends_on_the_order_of_the_values() -> None:
    """In 3,000 random orders 125 was the end of 86%; here of 300."""
    shares = {row[0]: row[2] for row in found("fig6-1").rows}
    assert set(shares) == {98, 111, 118, 125}
    assert 0.7 < shares[125] < 0.95


@pytest.mark.parametrize(
    ("counts", "factor", "sizes", "conditions"),
    [
        (EXAMPLE_8.counts, ("2", "0.05"), ((4, 9), (14, 1)), (True, True, True)),
        (EXAMPLE_10.counts, ("2", "0"), ((2, 14), (4, 0)), (False, False, True)),
        (EXAMPLE_10.counts, ("2", "0"), ((2, 8), (4, 3)), (False, True, True)),
        (EXAMPLE_10.counts, ("2", "0"), ((2, 6), (4, 4)), (True, True, True)),
        (EXAMPLE_10.counts, ("2", "0"), ((2, 0), (4, 7)), (True, True, True)),
        (EXAMPLE_13.counts, ("3", "0.02"), ((5, 3), (6, 4)), (True, True, True)),
        (EXAMPLE_5.counts, ("3", "0.02"), ((3, 8), (6, 2)), (True, True, True)),
        (EXAMPLE_5.counts, ("3", "0.02"), ((5, 0), (6, 6)), (True, True, True)),
    ],
)
def test_theorem_1_conditions(
    counts: tuple[int, ...],
    factor: tuple[str, str],
    sizes: tuple[tuple[int, int], tuple[int, int]],
    conditions: tuple[bool, bool, bool],
) -> None:
    """Theorem 1: a setting of two sizes is valid if and only if PC, FC1 and FC2 hold."""
    (small, first), (large, second) = sizes
    problem = _posed(counts, *factor, (2, large))
    low, high = (problem.sizes.tolist().index(size) for size in (small, large))
    room = problem.floors[:, low] * first + problem.floors[:, high] * second
    found = (
        bool((room >= problem.counts).all()),
        first <= count_fillable_buckets(problem)[low],
        second <= count_fillable_buckets(problem)[high],
    )
    assert found == conditions
    assert is_valid(problem, Setting.of(sizes)) == all(conditions)
