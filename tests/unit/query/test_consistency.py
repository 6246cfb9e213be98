"""Tables made consistent: the nearest one, proved to be so, and totals that cannot hold together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from refusals import refuses
from selection import examples
from sfumato._core.array_types import Counts, Floats
from sfumato._query.consistency import interior_point
from sfumato._query.consistency.consistent_tables import CALIBRATED, CONSISTENT, AnswerCells
from sfumato._query.consistency.known_totals import KnownTotals, read_totals
from sfumato._query.consistency.least_squares import calibrate
from sfumato._query.consistency.nonnegative_projection import make_consistent
from sfumato._query.consistency.sum_constraints import Family, SumConstraints
from sfumato._query.estimate import Estimate
from sfumato.errors import ErrorField, QueryError
from sfumato.mechanisms.estimator import Moments

# ----------------------------------------------------------------------------------------------------------- strategies


@dataclass(frozen=True)
class Puzzle:
    """Estimates with variances, and sums that at least the true table has."""

    truth: Floats
    values: Floats
    variances: Floats
    families: tuple[Family, ...]

    @property
    def matrix(self) -> Floats:
        return matrix_of(self.families, len(self.values))

    @property
    def totals(self) -> Floats:
        return np.concatenate([np.zeros(0), *(family.totals for family in self.families)])

    @property
    def scale(self) -> float:
        return 1 + float(max(np.abs(self.values).max(), self.truth.sum()))

    def permuted(self, order: Counts) -> Puzzle:
        families = tuple(family_of(each.labels[order], each.totals, each.title) for each in self.families)
        return Puzzle(self.truth[order], self.values[order], self.variances[order], families)


def family_of(labels: Sequence[int] | Counts, totals: Sequence[float] | Floats, words: str = "totals") -> Family:
    numbers, sums = np.asarray(labels, dtype=np.int64), np.asarray(totals, dtype=np.float64)
    return Family(numbers, sums, f"the {words}", lambda number: f"{words} {number}")


def matrix_of(families: Sequence[Family], size: int) -> Floats:
    """A row of zeros and ones for each sum, written out."""
    rows = [family.labels == number for family in families for number in range(len(family.totals))]
    return np.array(rows, dtype=np.float64).reshape(len(rows), size)


@st.composite
def labels_of(draw: st.DrawFn, size: int, least: int) -> Counts:
    """Numbers from `least` to 3, so that some sets are empty."""
    return np.array(draw(st.lists(st.integers(least, 3), min_size=size, max_size=size)), dtype=np.int64)


@st.composite
def puzzles(draw: st.DrawFn, most_cells: int = 8, most_families: int = 3) -> Puzzle:
    """A table with true counts, some of its cells exact, and one to three families of sums."""
    size = draw(st.integers(1, most_cells))

    def listed(numbers: st.SearchStrategy[float]) -> Floats:
        return np.array(draw(st.lists(numbers, min_size=size, max_size=size)), dtype=np.float64)

    truth = listed(st.integers(0, 5) | st.integers(0, 1000))
    variances = listed(st.sampled_from([0.0, 0.01, 1.0, 2.5, 40.0, 1e4]))
    noise = listed(st.floats(-4, 4).map(lambda number: round(number, 3)))
    number = draw(st.integers(1, most_families))
    labels = [draw(labels_of(size, 0 if place == 0 else -1)) for place in range(number)]
    families = [
        family_of(each, family_of(each, np.zeros(4)).add_up(truth), f"family {at}") for at, each in enumerate(labels)
    ]
    return Puzzle(truth, truth + noise * np.sqrt(variances), variances, tuple(families))


# ------------------------------------------------------------------------------------------------------ slow references


def nearest(puzzle: Puzzle) -> Floats:
    """The nearest table by trying every set of cells that may be zero."""
    free = puzzle.variances > 0
    best, found = np.inf, None
    for chosen in itertools.product([False, True], repeat=int(free.sum())):
        above = free.copy()
        above[free] = chosen
        table = np.where(free, 0.0, puzzle.values)
        rows, weights = puzzle.matrix[:, above], puzzle.variances[above]
        start = puzzle.values[above]
        lack = puzzle.totals - puzzle.matrix @ table - rows @ start
        multipliers, *_ = np.linalg.lstsq(rows * weights @ rows.T, lack, rcond=1e-11)
        table[above] = start + weights * (rows.T @ multipliers)
        is_table = (table >= -1e-9 * puzzle.scale).all()
        adds_up = np.abs(puzzle.matrix @ table - puzzle.totals).max() <= 1e-8 * puzzle.scale
        distance = float(((table - puzzle.values)[free] ** 2 / puzzle.variances[free]).sum())
        if is_table and adds_up and distance < best:
            best, found = distance, table
    assert found is not None
    return found


def optimality_gap(puzzle: Puzzle, table: Floats) -> float:
    """The least violation of the conditions of Karush, Kuhn and Tucker over all multipliers, by linear programming.

    The pull (x - value) / variance is the sum of the multipliers where x > 0, and at least that where x = 0.
    """
    free = puzzle.variances > 0
    pull = (table - puzzle.values)[free] / np.sqrt(puzzle.variances[free])
    rows = puzzle.matrix[:, free].T * np.sqrt(puzzle.variances[free])[:, np.newaxis]
    above = table[free] > 1e-7 * puzzle.scale
    lines = np.vstack([rows, -rows[above]])
    sides = np.concatenate([pull, -pull[above]])
    slack = -np.ones((len(sides), 1))
    size = rows.shape[1]
    bounds = [(None, None)] * size + [(0, None)]
    solved = linprog([0.0] * size + [1.0], np.hstack([lines, slack]), sides, bounds=bounds, method="highs")
    assert solved.fun is not None
    return float(solved.fun)


# ----------------------------------------------------------------------------------------------------------- properties


@given(puzzles())
def test_consistent_adds_up_and_has_no_negative_number(puzzle: Puzzle) -> None:
    table = make_consistent(puzzle.values, puzzle.variances, puzzle.families)
    assert (table >= 0).all()
    assert puzzle.matrix @ table == pytest.approx(puzzle.totals, rel=1e-8, abs=1e-8)


@given(puzzles())
def test_consistent_leaves_exact_cells(puzzle: Puzzle) -> None:
    table = make_consistent(puzzle.values, puzzle.variances, puzzle.families)
    exact = puzzle.variances == 0
    assert (table[exact] == puzzle.values[exact]).all()


@given(puzzles())
def test_consistent_satisfies_the_conditions_of_an_optimum(puzzle: Puzzle) -> None:
    table = make_consistent(puzzle.values, puzzle.variances, puzzle.families)
    assert optimality_gap(puzzle, table) <= 1e-5 * np.sqrt(puzzle.scale)


def test_a_table_that_is_not_nearest_fails_the_conditions() -> None:
    puzzle = Puzzle(np.ones(2), np.array([1.0, 1.0]), np.ones(2), (family_of([0, 0], [2.0]),))
    assert optimality_gap(puzzle, np.array([1.1, 0.9])) > 0.05
    assert optimality_gap(puzzle, np.array([2.0, 0.0])) > 0.5
    assert optimality_gap(puzzle, np.array([1.0, 1.0])) == 0


@settings(max_examples=examples(50))
@given(puzzles(most_cells=6))
def test_consistent_is_the_nearest_of_all_tables(puzzle: Puzzle) -> None:
    table = make_consistent(puzzle.values, puzzle.variances, puzzle.families)
    assert table == pytest.approx(nearest(puzzle), rel=1e-5, abs=1e-6 * puzzle.scale)


@pytest.mark.slow
@given(puzzles())
def test_the_table_from_inside_is_the_same(puzzle: Puzzle) -> None:
    # The way that is taken where steps by multipliers do not end; all cells may move, and no sum is zero.
    variances, truth = np.maximum(puzzle.variances, 1.0), puzzle.truth + 1
    families = [family_of(each.labels, family_of(each.labels, each.totals).add_up(truth)) for each in puzzle.families]
    expected = make_consistent(puzzle.values, variances, families)
    found = interior_point.find_nearest_table(puzzle.values, variances, SumConstraints(families, len(truth)))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4 * puzzle.scale)


@pytest.mark.slow
def test_sets_that_hardly_overlap_and_unlike_variances_are_solved() -> None:
    random = np.random.default_rng(5)
    for _ in range(20):
        size = int(random.integers(20, 80))
        truth = random.poisson(10, size).astype(np.float64) * (random.random(size) < 0.6)
        variances = 10 ** random.uniform(-3, 5, size)
        labels = [random.integers(0, size // 3, size) for _ in range(3)]
        families = [family_of(each, family_of(each, np.zeros(size // 3)).add_up(truth)) for each in labels]
        table = make_consistent(truth + random.normal(size=size) * np.sqrt(variances), variances, families)
        assert (table >= 0).all()
        for family in families:
            assert family.add_up(table) == pytest.approx(family.totals, rel=1e-8, abs=1e-8)


@given(puzzles())
def test_consistent_twice_is_consistent_once(puzzle: Puzzle) -> None:
    once = make_consistent(puzzle.values, puzzle.variances, puzzle.families)
    twice = make_consistent(once, puzzle.variances, puzzle.families)
    assert twice == pytest.approx(once, rel=1e-7, abs=1e-6)


@given(puzzles())
def test_a_table_that_is_consistent_stays(puzzle: Puzzle) -> None:
    for find in (CONSISTENT.find, CALIBRATED.find):
        assert find(puzzle.truth, puzzle.variances, puzzle.families) == pytest.approx(puzzle.truth, abs=1e-8)


@given(puzzles(), st.randoms(use_true_random=False))
def test_the_order_of_the_cells_does_not_matter(puzzle: Puzzle, random: object) -> None:
    order = np.argsort([random.random() for _ in puzzle.values])  # type: ignore[attr-defined]
    moved = puzzle.permuted(order)
    for find in (CONSISTENT.find, CALIBRATED.find):
        expected = find(puzzle.values, puzzle.variances, puzzle.families)[order]
        found = find(moved.values, moved.variances, moved.families)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6 * puzzle.scale)


@given(puzzles())
def test_calibrated_is_consistent_where_nothing_is_negative(puzzle: Puzzle) -> None:
    table = calibrate(puzzle.values, puzzle.variances, puzzle.families).values
    if (table >= 0).all():
        found = make_consistent(puzzle.values, puzzle.variances, puzzle.families)
        assert found == pytest.approx(table, rel=1e-6, abs=1e-6 * puzzle.scale)


def by_algebra(puzzle: Puzzle) -> Floats:
    """The matrix that takes the estimates to the calibrated table, but for known numbers."""
    rows = puzzle.matrix
    middle = np.linalg.pinv(rows * puzzle.variances @ rows.T, rcond=1e-11, hermitian=True)
    return (np.eye(len(rows.T)) - puzzle.variances[:, np.newaxis] * (rows.T @ middle @ rows)) * (puzzle.variances > 0)


@given(puzzles())
def test_calibrated_adds_up_and_is_the_textbook_combination(puzzle: Puzzle) -> None:
    found = calibrate(puzzle.values, puzzle.variances, puzzle.families)
    assert puzzle.matrix @ found.values == pytest.approx(puzzle.totals, rel=1e-8, abs=1e-8)
    matrix = by_algebra(puzzle)
    expected = puzzle.truth + matrix @ (puzzle.values - puzzle.truth)
    assert found.values == pytest.approx(expected, rel=1e-6, abs=1e-6 * puzzle.scale)
    for cell in range(len(puzzle.values)):
        assert found.compute_coefficients(cell) == pytest.approx(matrix[cell], rel=1e-5, abs=1e-5)
        error = np.sqrt(matrix[cell] ** 2 @ puzzle.variances)
        assert found.compute_uncorrelated_error(cell) == pytest.approx(error, rel=1e-4, abs=1e-4)


@given(puzzles(most_families=1))
def test_no_sum_only_clips(puzzle: Puzzle) -> None:
    table = make_consistent(puzzle.values, puzzle.variances, [])
    assert (table == np.maximum(puzzle.values, 0)).all()
    assert (calibrate(puzzle.values, puzzle.variances, []).values == puzzle.values).all()


# ------------------------------------------------------------------------------------------------------------- examples


def test_one_sum_in_numbers() -> None:
    # Clipping -4 leaves 7 + 5 + 0 = 12; the two others give back 2, by their variances 1 and 3.
    table = make_consistent(np.array([7.0, 5.0, -4.0]), np.array([1.0, 3.0, 2.0]), [family_of([0, 0, 0], [10.0])])
    assert table == pytest.approx([6.5, 3.5, 0.0])


def test_empty_groups_and_empty_tables() -> None:
    assert make_consistent(np.zeros(0), np.zeros(0), []).tolist() == []
    assert make_consistent(np.zeros(0), np.zeros(0), [family_of([], [])]).tolist() == []
    assert make_consistent(np.zeros(0), np.zeros(0), [family_of([], [0.0, 0.0])]).tolist() == []
    families = [family_of([0, 0, 2], [3.0, 0.0, 0.0]), family_of([0, 1, -1], [1.0, 2.0])]
    assert make_consistent(np.array([5.0, -1.0, 7.0]), np.ones(3), families) == pytest.approx([1, 2, 0])
    assert calibrate(np.array([5.0, -1.0, 7.0]), np.ones(3), families).values == pytest.approx([1, 2, 0])


@pytest.mark.slow
@pytest.mark.parametrize("groups", [10_000, 1_000, 316])
def test_large_tables_take_few_passes(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass adds up the cells of each set of a family; a large table costs as much as it takes of them: 90 to 120."""
    passes = 0

    def counted(family: Family, cells: Floats) -> Floats:
        nonlocal passes
        passes += 1
        return adding(family, cells)

    adding = Family.add_up
    monkeypatch.setattr(Family, "add_up", counted)
    values = 100_000 // groups
    random = np.random.default_rng(1)
    size = groups * values
    group, value = np.divmod(np.arange(size), values)
    truth = random.poisson(random.gamma(0.3, 5.0, size)).astype(np.float64)
    variances = random.exponential(20.0, size) + 1
    estimates = truth + random.normal(size=size) * np.sqrt(variances)
    families = [family_of(each, np.bincount(each, truth).astype(np.float64)) for each in (group, value)]
    table = make_consistent(estimates, variances, families)
    assert passes < 200
    assert (table >= 0).all()
    for family in families:
        assert family.add_up(table) == pytest.approx(family.totals, rel=1e-9)


# ------------------------------------------------------------------------------------------------------------ conflicts

RECORDS = family_of([0, 0, 1, 1], [30.0, 70.0], "records")


@pytest.mark.parametrize(
    ("variances", "families", "message"),
    [
        pytest.param(
            [1, 1, 1, 1],
            [RECORDS, family_of([0, 1, 0, 1], [40.0, 50.0], "known")],
            "the records add up to 100, but the known add up to 90, for the same cells",
            id="other sums",
        ),
        pytest.param(
            [1, 1, 1, 1],
            [RECORDS, family_of([-1, -1, 0, 1], [40.0, 50.5], "known")],
            "records 1 is 70, but the known add up to 90.5, for the same cells",
            id="one group",
        ),
        pytest.param(
            [1, 1, 1, 1],
            [RECORDS, family_of([0, -1, -1, -1], [31.0], "known")],
            "known 0 is 31, but records 0 is 30, for these cells and more",
            id="part above whole",
        ),
        pytest.param(
            [0, 1, 1, 1],
            [family_of([0, 0, -1, -1], [4.0], "known")],
            "known 0 is 4, but its exact cells alone add up to 10",
            id="exact above total",
        ),
        pytest.param(
            [0, 0, 1, 1],
            [family_of([0, 0, -1, -1], [44.0], "known")],
            "known 0 is 44, but its cells, which are exact or belong to a total of 0, add up to 30",
            id="exact below total",
        ),
        pytest.param(
            [1, 1, 1, 1], [family_of([0, 0, 0, 0], [5.0, 7.0], "known")], "known 1 is 7, but no remaining", id="no cell"
        ),
        pytest.param(
            [1, 1, 1, 1], [family_of([0, 0, 0, 0], [-5.0], "known")], "known 0 is -5, but no count is negative",
            id="negative",
        ),
    ],
)  # fmt: skip
def test_totals_in_conflict_are_named(variances: list[float], families: list[Family], message: str) -> None:
    values = np.array([10.0, 20.0, 30.0, 40.0])
    with pytest.raises(QueryError) as caught:
        make_consistent(values, np.array(variances, dtype=np.float64), families)
    assert message in str(caught.value)
    assert str(caught.value).endswith("; correct or remove one of the totals.")


def test_a_conflict_that_only_all_cells_together_show_is_named_and_small() -> None:
    # Of three groups of 10 records only the last may hold the first value, which 12 records shall have.
    group, value = np.divmod(np.arange(12), 4)
    variances = np.where((value == 0) & (group < 2), 0.0, 1.0)
    families = [family_of(group, [10.0] * 3, "records"), family_of(value, [12.0, 8.0, 5.0, 5.0], "known")]
    with refuses(QueryError, "totals-need-negative-numbers", totals=2) as refused:
        make_consistent(np.where(variances > 0, 3.0, 0.0), variances, families)
    assert str(refused.value).startswith("known 0 (12) and records 2 (10) ")
    assert calibrate(np.where(variances > 0, 3.0, 0.0), variances, families).values.min() < 0


def test_equations_that_contradict_each_other_are_named() -> None:
    # The exact cells split the table in two, and each half has two totals.
    values, variances = np.array([5.0, 0.0, 0.0, 5.0]), np.array([1.0, 0.0, 0.0, 1.0])
    families = [family_of([0, 0, 1, 1], [6.0, 4.0], "records"), family_of([0, 1, 0, 1], [4.0, 6.0], "known")]
    with refuses(QueryError, "conflicting-totals", totals=4):
        calibrate(values, variances, families)
    with refuses(QueryError, "totals-need-negative-numbers", totals=2):
        make_consistent(values, variances, families)


@given(puzzles(), st.data())
def test_totals_are_refused_only_if_no_table_has_them(puzzle: Puzzle, data: st.DataObject) -> None:
    totals = [
        data.draw(st.lists(st.integers(0, 6), min_size=len(family.totals), max_size=len(family.totals)))
        for family in puzzle.families
    ]
    families = [family_of(each.labels, own) for each, own in zip(puzzle.families, totals, strict=True)]
    values, variances = np.minimum(puzzle.truth, 3), puzzle.variances
    matrix, free = matrix_of(families, len(values)), variances > 0
    wanted = np.concatenate(totals) - matrix[:, ~free] @ values[~free]
    bounds = (0, None)
    costs = np.zeros(int(free.sum()))
    if free.any():
        has_table = linprog(costs, A_eq=matrix[:, free], b_eq=wanted, bounds=bounds, method="highs").status == 0
    else:
        has_table = not wanted.any()
    try:
        table = make_consistent(values, variances, families)
    except QueryError:
        assert not has_table
    else:
        assert has_table
        assert matrix @ table == pytest.approx(np.concatenate(totals), abs=1e-7)


@pytest.mark.parametrize(
    ("values", "variances"),
    [([np.nan], [1.0]), ([1.0], [np.inf]), ([1.0], [-1.0]), ([1.0, 2.0], [1.0]), ([-1.0], [0.0])],
    ids=["no number", "no variance", "negative variance", "lengths", "negative and exact"],
)
def test_what_is_no_table_is_refused(values: list[float], variances: list[float]) -> None:
    with pytest.raises(QueryError):
        make_consistent(np.array(values), np.array(variances), [])


@pytest.mark.parametrize(("labels", "totals"), [([1], [1.0]), ([-2], [1.0]), ([0], [np.nan])])
def test_sums_that_do_not_fit_are_refused(labels: list[int], totals: list[float]) -> None:
    with pytest.raises(QueryError):
        family_of(labels, totals)


# ------------------------------------------------------------------------------------------------ answers and CSV files


def estimate(value: float, variance: float = 4.0) -> Estimate:
    return Estimate.of(Moments.of(value, variance, 0.0, 1000), "made up", "none")


def cells(*numbers: Estimate) -> AnswerCells:
    """Women and men with and without flu; the question leaves out all other diagnoses."""
    keys = [("F", "flu"), ("F", None), None, ("M", "flu"), ("M", None), None]
    groups = [("F",)] * 3 + [("M",)] * 3
    return AnswerCells(("sex", "diagnosis"), keys, numbers, ("sex",), groups, {("F",): 50, ("M",): 40})


PLAIN = tuple(map(estimate, [20.0, -6.0, 39.0, 10.0, 10.0, 20.0]))


def written(folder: Path, text: str) -> Path:
    path = folder / "totals.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_cells_of_a_group_add_up_to_its_records() -> None:
    found = cells(*PLAIN).adjust(CONSISTENT)
    # -6 becomes 0, and the 9 that are too many are taken from the other two alike; the men add up already.
    assert found == pytest.approx([15.5, 0, 34.5, 10, 10, 20])
    assert cells(*PLAIN).adjust(CALIBRATED) == pytest.approx([19, -7, 38, 10, 10, 20])


def test_known_totals_count_only_what_the_question_asks_for(tmp_path: Path) -> None:
    known = read_totals(written(tmp_path, "diagnosis,total\nflu,33\n,12\n"))
    found = cells(*PLAIN).adjust(CONSISTENT, [known])
    assert (found >= 0).all()
    assert [found[:3].sum(), found[3:].sum()] == pytest.approx([50, 40])
    assert [found[0] + found[3], found[1] + found[4]] == pytest.approx([33, 12])
    linear = cells(*PLAIN).adjust(CALIBRATED, [known])
    assert [linear[0] + linear[3], linear[1] + linear[4]] == pytest.approx([33, 12])
    assert linear[1] < 0


def test_several_files_of_totals_hold_together(tmp_path: Path) -> None:
    (tmp_path / "cell").mkdir()
    one = read_totals(written(tmp_path, "total,diagnosis\n33,flu\n"))
    other = read_totals(written(tmp_path / "cell", "sex,diagnosis,total\nF,flu,21.5\n"))
    found = cells(*PLAIN).adjust(CONSISTENT, [one, other])
    assert found[[0, 3]] == pytest.approx([21.5, 11.5])


def test_a_total_of_all_rows(tmp_path: Path) -> None:
    known = read_totals(written(tmp_path, "total\n45\n"))
    found = cells(*PLAIN).adjust(CONSISTENT, [known])
    assert found[[0, 1, 3, 4]].sum() == pytest.approx(45)


def test_exact_estimates_stay_and_estimates_without_variance_move() -> None:
    numbers = (Estimate.exact(20), estimate(-6.0, 0.0), *PLAIN[2:])
    assert cells(*numbers).adjust(CONSISTENT)[:3] == pytest.approx([20, 0, 30])


def test_values_are_found_however_they_are_spelt() -> None:
    keys = [(2.0, True), (3.5, False), (None, True)]
    lines: dict[tuple[str, ...], float] = {("2", "true"): 1.0, ("3.5", "FALSE"): 2.0, ("", "true"): 3.0}
    known = KnownTotals(("age", "smokes"), lines, "a test")
    assert known.make_family(("smokes", "age"), [(key[1], key[0]) for key in keys]).labels.tolist() == [0, 1, 2]


def test_a_method_without_error_is_refused() -> None:
    with refuses(QueryError, "method-without-errors", operation="weights"):
        cells(Estimate.of(Moments.of(1.0, None, 0.0, 9), "made up", "none"), *PLAIN[1:]).adjust(CONSISTENT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("diagnosis,total\nflu,33\n,12\nmeasles,3\n", "the total of diagnosis = 'measles' has no row in the answer"),
        ("age,total\n3,33\n", "has the column 'age', but the answer is not grouped by this column; it is grouped by"),
        ("diagnosis,total\nflu,95\n", "the numbers of records add up to 90"),
        ("sex,diagnosis,total\nF,flu,51\n", "the number of records with sex = 'F' is 50"),
    ],
    ids=["unknown value", "unknown column", "above all", "above group"],
)
def test_totals_that_do_not_fit_the_answer_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        cells(*PLAIN).adjust(CONSISTENT, [read_totals(written(tmp_path, text))])
    assert message in str(caught.value)


def test_a_total_of_zero_needs_no_row(tmp_path: Path) -> None:
    known = read_totals(written(tmp_path, "diagnosis,total\nmeasles,0\n"))
    assert cells(*PLAIN).adjust(CONSISTENT, [known]) == pytest.approx(cells(*PLAIN).adjust(CONSISTENT))


@pytest.mark.parametrize(
    ("text", "code", "facts"),
    [
        ("", "invalid-totals-header", {}),
        ("sex,number\nF,3\n", "invalid-totals-header", {}),
        ("sex,sex,total\nF,F,3\n", "invalid-totals-header", {}),
        ("sex,total\n", "no-totals", {}),
        ("sex,total\nF,3\nF,4\n", "repeated-total", {"line": 3}),
        ("sex,total\nF,many\n", "invalid-total", {"line": 2}),
        ("sex,total\nF,-1\n", "invalid-total", {"line": 2}),
        ("sex,total\nF,nan\n", "invalid-total", {"line": 2}),
        ("sex,total\nF,1,234\n", "wrong-number-of-fields", {"line": 2, "fields": 3, "columns": 2}),
    ],
)
def test_bad_files_of_totals_are_refused(tmp_path: Path, text: str, code: str, facts: dict[str, ErrorField]) -> None:
    with refuses(QueryError, code, **facts):
        read_totals(written(tmp_path, text))


def test_files_of_totals_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with refuses(QueryError, "unreadable-file", reason="No such file or directory"):
        read_totals(tmp_path / "none.csv")
    path = tmp_path / "latin.csv"
    path.write_bytes("sex,total\nfé,3\n".encode("latin-1"))
    with refuses(QueryError, "other-encoding"):
        read_totals(path)


def test_adjustments_name_their_column_and_what_they_do() -> None:
    assert CONSISTENT.name_column("n") == "n_consistent"
    assert CALIBRATED.name_column("n") == "n_calibrated"
    assert "biased where negative estimates are set to 0" in CONSISTENT.description
    assert "unbiased if the known totals are right" in CALIBRATED.description


def test_a_total_above_all_records_is_refused_where_other_cells_are_free(tmp_path: Path) -> None:
    with refuses(QueryError, "total-above-records", total=95.0, records=90.0):
        cells(*PLAIN).adjust(CALIBRATED, [read_totals(written(tmp_path, "diagnosis,total\nflu,95\n"))])
