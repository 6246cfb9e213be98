"""Reconstruction against plain matrices: the same estimates, variances and iterations, written out in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._records.tally import Tally
from sfumato.mechanisms._randomized_response.inverse_estimation import (
    COMPOSITION_STEPS,
    compute_flat_variance,
    compute_inverse_rows,
    compute_inverse_variances,
    estimate_by_iteration,
    estimate_closed_form,
    estimate_entry_counts,
    estimate_least_squares,
    estimate_shares,
)
from sfumato.mechanisms._randomized_response.perturbation_operators import Cell, Operator
from single import Single, check_lines, singles

Floats = npt.NDArray[np.float64]


# ------------------------------------------------------------------------------------------------ plain matrices


def _matrix(operator: Operator) -> Floats:
    """matrix[original, published] over the entries; zero between cells."""
    same_cell = operator.cells[:, None] == operator.cells
    return np.asarray(same_cell * operator.swap[:, None] + np.diag(operator.retention))


def _map(operator: Operator, shares: Floats) -> Floats:
    """From the counts of values to the expected counts of entries: dealt to cells by the shares, then perturbed."""
    dealt = (operator.places[:, None] == np.arange(operator.domain_size)) * shares[:, None]
    return np.asarray(_matrix(operator).T @ dealt)


def _one_cell(retentions: Sequence[Fraction | float], places: Sequence[int] | None = None) -> Operator:
    size = len(retentions)
    cell = Cell(tuple(range(size) if places is None else places), tuple(map(Fraction, retentions)))
    return Operator([cell], size)


def _weights(operator: Operator, wanted: Sequence[int]) -> Floats:
    return compute_inverse_rows(operator, np.array(wanted, dtype=np.int64))


def _retentions(smallest: int = 2, largest: int = 6) -> st.SearchStrategy[list[Fraction]]:
    """Coins of different strength, none of which is tiny."""
    return st.lists(st.integers(2, 20).map(lambda part: Fraction(part, 20)), min_size=smallest, max_size=largest)


@st.composite
def _wanted(draw: st.DrawFn, size: int) -> list[int]:
    return sorted(draw(st.sets(st.integers(0, size - 1))))


# A value in one, two and three cells; the places of a cell are in no order.
CELLS = [
    Cell.from_retention((0, 1, 2), Fraction(1, 2)),
    Cell.from_retention((3, 0), Fraction(3, 5)),
    Cell.from_retention((4, 0, 3, 1), Fraction(2, 5)),
]
SHARES = np.array([4 / 10, 7 / 10, 1, 1 / 2, 5 / 10, 1, 1 / 10, 1 / 2, 3 / 10])
SEVERAL = Operator(CELLS, 5)


def _tally(counts: Sequence[int] | Floats, rows: int | None = None) -> Tally:
    """A tally of one line; of so many rows, where its counts are those that are expected."""
    tally = Tally.of_symbols(np.array(counts))
    return tally if rows is None else Tally(tally.counts, np.array([rows]))


def _closed(operator: Operator, tally: Tally, wanted: Sequence[npt.NDArray[np.int64]]) -> list[Single]:
    return singles(estimate_closed_form(operator, tally, wanted))


def _least_squares(
    operator: Operator, tally: Tally, shares: Floats, wanted: Sequence[npt.NDArray[np.int64]]
) -> list[Single]:
    return singles(estimate_least_squares(operator, tally, shares, wanted))


def _iterated(
    operator: Operator, counts: npt.ArrayLike, shares: Floats, most_steps: int, tolerance: float = 0.0
) -> Floats:
    """Iterative Bayes from one line of counts."""
    (found,) = estimate_by_iteration(operator, np.array([counts]), shares, most_steps, tolerance)
    return np.asarray(found)


# --------------------------------------------------------------------------------------------- the inverse of one cell


@given(_retentions(), st.data())
def test_inverse_rows_are_the_inverse_matrix(retentions: list[Fraction], data: st.DataObject) -> None:
    operator = _one_cell(retentions)
    wanted = data.draw(_wanted(len(retentions)))
    inverse = np.linalg.inv(_matrix(operator))
    assert _weights(operator, wanted) == pytest.approx(inverse[:, wanted].sum(axis=1), rel=1e-9, abs=1e-9)


@pytest.mark.slow
@given(_retentions(), st.data())
def test_inverse_rows_are_the_inverse_matrix_where_one_value_is_never_kept(
    retentions: list[Fraction], data: st.DataObject
) -> None:
    zero = data.draw(st.integers(0, len(retentions) - 1))
    retentions[zero] = Fraction(0)
    operator = _one_cell(retentions)
    wanted = data.draw(_wanted(len(retentions)))
    inverse = np.linalg.inv(_matrix(operator))
    assert _weights(operator, wanted) == pytest.approx(inverse[:, wanted].sum(axis=1), rel=1e-9, abs=1e-9)


def test_inverse_rows_are_the_limit_of_a_retention_that_vanishes() -> None:
    limit, near = (_one_cell([first, 0.5, 0.25]) for first in (0, 1e-9))
    for wanted in ([0], [1], [0, 2]):
        assert _weights(near, wanted) == pytest.approx(_weights(limit, wanted), rel=1e-6, abs=1e-6)


def test_inverse_rows_follow_the_places_of_the_cell() -> None:
    operator = _one_cell([0.5, 0.25, 0.75], places=[2, 0, 1])
    inverse = np.linalg.inv(_matrix(operator))
    assert _weights(operator, [2]) == pytest.approx(inverse[:, 0])
    assert _weights(operator, [0, 1]) == pytest.approx(inverse[:, 1:].sum(axis=1))


@given(_retentions())
def test_inverse_rows_of_all_values_count_rows(retentions: list[Fraction]) -> None:
    operator = _one_cell(retentions)
    assert _weights(operator, range(len(retentions))) == pytest.approx(np.ones(len(retentions)), rel=1e-9)


@given(_retentions(), st.booleans(), st.data())
def test_inverse_variances_agree_with_the_inverse_matrix(
    retentions: list[Fraction], has_zero: bool, data: st.DataObject
) -> None:
    """A record of z adds the weight of what it shows: its variance for each z, weighed by the shares of the others."""
    if has_zero:
        retentions[0] = Fraction(0)
    operator, size = _one_cell(retentions), len(retentions)
    shares = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any)), dtype=float)
    shares /= shares.sum()
    matrix = _matrix(operator)
    inverse = np.linalg.inv(matrix)
    spread = matrix @ inverse**2 - np.eye(size)  # spread[z, x]: the mean of the weight is 1 if z is x, and else 0
    own, other = compute_inverse_variances(operator, shares)
    assert own == pytest.approx(np.diag(spread), rel=1e-8, abs=1e-8)
    for value in range(size):
        rest = np.delete(shares, value)
        expected = np.delete(spread[:, value], value) @ rest / rest.sum() if rest.sum() > 0 else 0.0
        assert other[value] == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_inverse_variances_are_infinite_where_two_values_are_never_kept() -> None:
    own, other = compute_inverse_variances(_one_cell([0, 0, 0.5]), np.full(3, 1 / 3))
    assert np.isinf(own).all()
    assert np.isinf(other).all()


@given(_retentions(), st.data())
def test_different_coins_are_counted_without_bias(retentions: list[Fraction], data: st.DataObject) -> None:
    """What is expected of a release is reconstructed as the truth."""
    assume(len(set(retentions)) > 1)
    operator, size = _one_cell(retentions), len(retentions)
    truth = np.array(data.draw(st.lists(st.integers(0, 1000), min_size=size, max_size=size)))
    wanted = data.draw(_wanted(size))
    expected = truth @ _matrix(operator)
    (moments,) = _closed(operator, _tally(expected, int(truth.sum())), [np.array(wanted, dtype=np.int64)])
    assert moments.value == pytest.approx(truth[wanted].sum(), rel=1e-9, abs=1e-6)
    assert (moments.least, moments.most) in ((0, truth.sum()), (moments.value, moments.value))


def test_the_variance_under_different_coins_is_that_of_the_composition() -> None:
    """With the expected tally of many records, iterative Bayes finds the composition that the variance depends on."""
    operator = _one_cell([0.9, 0.6, 0.75, 0.8])
    truth, matrix = np.array([4000, 1000, 3000, 2000]), _matrix(operator)
    for wanted in ([0], [1], [1, 3], [0, 1, 2]):
        weights = np.linalg.inv(matrix)[:, wanted].sum(axis=1)
        exact = truth @ (matrix @ weights**2 - (matrix @ weights) ** 2)
        (moments,) = _closed(operator, _tally(truth @ matrix, 10_000), [np.array(wanted)])
        assert moments.variance_at(truth[wanted].sum()) == pytest.approx(exact, rel=1e-6)


# --------------------------------------------------------------------------------------------------- several flat cells


@pytest.mark.parametrize("wanted", [[0], [1], [2], [0, 1], [0, 3], [1, 2, 4], [0, 1, 2, 3]])
def test_closed_of_the_expected_tally_is_the_truth_however_the_records_are_spread(wanted: list[int]) -> None:
    """Sevens of records of each entry: a spread that has nothing to do with any shares."""
    held = 7.0 * np.array([3, 0, 1, 4, 2, 5, 0, 6, 2])
    tally = _tally(held @ _matrix(SEVERAL), int(held.sum()))
    (moments,) = _closed(SEVERAL, tally, [np.array(wanted)])
    assert moments.value == pytest.approx(held[np.isin(SEVERAL.places, wanted)].sum())


Record = tuple[int, int]
"""The cell of a record, and the number of its value in that cell."""


def _published(records: Sequence[Record], cells: Sequence[Cell]) -> Iterator[tuple[Fraction, list[Record]]]:
    """Everything that could be published of some records, with its exact chance."""
    choices = [range(len(cells[cell].places)) for cell, _ in records]
    for shown in product(*choices):
        chances = [
            (1 - cells[cell].retentions[0]) / len(cells[cell].places) + cells[cell].retentions[0] * (number == own)
            for (cell, own), number in zip(records, shown, strict=True)
        ]
        yield prod(chances), [(cell, number) for (cell, _), number in zip(records, shown, strict=True)]


def _entry(record: Record, cells: Sequence[Cell]) -> int:
    return sum(len(cell.places) for cell in cells[: record[0]]) + record[1]


def _brute_force(records: Sequence[Record], cells: Sequence[Cell], wanted: Sequence[int]) -> tuple[float, float]:
    """The mean and the variance of the estimate over everything that could be published."""
    operator = Operator(cells, 5)
    first = second = 0.0
    for chance, shown in _published(records, cells):
        counts = np.bincount([_entry(each, cells) for each in shown], minlength=len(operator.places))
        (moments,) = _closed(operator, _tally(counts), [np.array(wanted)])
        first += float(chance) * moments.value
        second += float(chance) * moments.value**2
    return first, second - first**2


@pytest.mark.parametrize("wanted", [[0], [3], [0, 3], [1, 4]])
def test_closed_is_right_on_average_over_everything_that_could_be_published(wanted: list[int]) -> None:
    records = [(0, 0), (0, 2), (1, 1), (1, 0), (1, 1), (2, 2)]
    truth = sum(CELLS[cell].places[number] in wanted for cell, number in records)
    mean, _ = _brute_force(records, CELLS, wanted)
    assert mean == pytest.approx(truth)


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        ([(0, 0), (0, 1), (1, 1), (1, 0)], [0]),
        ([(0, 1), (0, 1), (0, 2), (2, 3), (2, 3), (2, 0)], [1]),
        ([(1, 0), (1, 1), (2, 2), (2, 1)], [3]),
        ([(0, 0), (0, 1), (0, 2), (0, 2)], [0, 1]),
    ],
)
def test_the_variance_over_cells_is_exact_where_wanted_records_are_spread_as_all_rows(
    records: list[Record], wanted: list[int]
) -> None:
    truth = sum(CELLS[cell].places[number] in wanted for cell, number in records)
    counts = np.bincount([_entry(each, CELLS) for each in records], minlength=len(SEVERAL.places))
    (moments,) = _closed(SEVERAL, _tally(counts), [np.array(wanted)])
    assert moments.variance_at(truth) == pytest.approx(_brute_force(records, CELLS, wanted)[1])


def test_cells_of_which_every_value_is_wanted_are_counted_without_error() -> None:
    """The second cell has the values 0 and 3 only; the rows of others that show them are still estimated."""
    counts = [5, 2, 3, 8, 6, 1, 2, 2, 1]
    (moments,) = _closed(SEVERAL, _tally(counts), [np.array([0, 3])])
    assert moments.least == 14
    assert moments.most == 5 + 2 + 3 + 14 + 1 + 2 + 2 + 1
    (alone,) = _closed(SEVERAL, _tally([0, 0, 0, 8, 6, 0, 0, 0, 0]), [np.array([0, 3])])
    assert (alone.value, alone.variance_at(14), alone.least, alone.most) == (14, 0, 14, 14)


def test_a_value_of_no_cell_is_certainly_not_there() -> None:
    operator = Operator(CELLS[:1], 5)
    (moments,) = _closed(operator, _tally([5, 2, 3]), [np.array([4])])
    assert (moments.value, moments.variance_at(0), moments.most) == (0, 0, 0)


def test_closed_answers_every_set_by_itself() -> None:
    tally = _tally([5, 2, 3, 8, 6, 1, 2, 2, 1])
    sets = [np.array(places) for places in ([0], [1, 2], [4])]
    assert _closed(SEVERAL, tally, sets) == [_closed(SEVERAL, tally, [places])[0] for places in sets]


@given(st.fractions(Fraction(1, 20), 1), st.integers(1, 5), st.integers(2, 9), st.integers(0, 50), st.integers(0, 50))
def test_flat_variance_is_that_of_two_binomials(
    retention: Fraction, values: int, size: int, truth: int, others: int
) -> None:
    values = min(values, size)
    swap = (1 - retention) / size
    wanted, other = retention + values * swap, values * swap
    exact = (truth * wanted * (1 - wanted) + others * other * (1 - other)) / retention**2
    arrays = (np.array([float(each)]) for each in (retention, swap, truth + others))
    base, slope = compute_flat_variance(*arrays, values)
    assert base[0] + slope[0] * truth == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


# -------------------------------------------------------------------------------------------- generalised least squares

SETS = [np.array(places) for places in ([0], [1], [3], [4], [0, 3], [1, 2, 4], [0, 1, 2, 3, 4])]
TRUTH = np.array([4000, 1500, 2500, 3000, 1000])


def test_least_squares_of_the_expected_tally_is_the_truth() -> None:
    expected = _map(SEVERAL, SHARES) @ TRUTH
    found = _least_squares(SEVERAL, _tally(expected, int(TRUTH.sum())), SHARES, SETS)
    assert [each.value for each in found] == pytest.approx([TRUTH[places].sum() for places in SETS])


@given(st.lists(st.integers(0, 500), min_size=9, max_size=9).filter(lambda counts: sum(counts) > 100))
def test_least_squares_is_the_weighted_regression_on_the_expected_entries(counts: list[int]) -> None:
    """(A'VA)^-1 A'Vo with V the inverse of the expected counts, which iterative Bayes tells; with plain matrices."""
    held = _iterated(SEVERAL, np.array(counts), SHARES, COMPOSITION_STEPS)
    design = _map(SEVERAL, SHARES)
    expected = design @ held
    assume(expected.min() > 1e-3)
    covariance = np.linalg.inv(design.T @ (design / expected[:, None]))
    estimates = covariance @ design.T @ (np.array(counts) / expected)
    scale = sum(counts)
    for places, moments in zip(SETS, _least_squares(SEVERAL, _tally(counts), SHARES, SETS), strict=True):
        inside = np.isin(np.arange(5), places).astype(float)
        assert moments.value == pytest.approx(estimates[places].sum(), rel=1e-6, abs=1e-6 * scale)
        variance = max(0.0, inside @ covariance @ inside - held[places].sum())
        assert moments.variance_at(0) == pytest.approx(variance, rel=1e-5, abs=1e-6 * scale)
        assert moments.slope == 0


def test_the_variance_of_least_squares_is_that_of_records_that_each_show_one_entry() -> None:
    """Exactly: for a linear estimate Bo, the sum over records of the variance of the weight of what each shows."""
    design = _map(SEVERAL, SHARES)
    expected = design @ TRUTH
    estimator = np.linalg.inv(design.T @ (design / expected[:, None])) @ (design / expected[:, None]).T
    assert estimator @ design == pytest.approx(np.eye(5), abs=1e-9)
    for places, moments in zip(
        SETS, _least_squares(SEVERAL, _tally(expected, int(TRUTH.sum())), SHARES, SETS), strict=True
    ):
        weights = estimator[places].sum(axis=0)
        exact = TRUTH @ (design.T @ weights**2 - (design.T @ weights) ** 2)
        assert moments.variance_at(0) == pytest.approx(exact, rel=1e-3, abs=1e-6)


def test_least_squares_of_all_values_is_certain() -> None:
    (moments,) = _least_squares(SEVERAL, _tally([5, 2, 3, 8, 6, 1, 2, 2, 1]), SHARES, [np.arange(5)])
    assert moments.value == pytest.approx(30)
    assert moments.variance_at(30) == pytest.approx(0, abs=1e-6)


def test_least_squares_of_a_value_of_no_cell_is_zero() -> None:
    operator = Operator(CELLS[:1], 5)
    (moments,) = _least_squares(operator, _tally([50, 20, 30]), np.ones(3), [np.array([4])])
    assert (moments.value, moments.variance_at(0)) == (0, 0)


def test_least_squares_of_no_rows_is_zero() -> None:
    (moments,) = _least_squares(SEVERAL, _tally([0] * 9), SHARES, [np.array([0])])
    assert (moments.value, moments.variance_at(0), moments.most) == (0, 0, 0)


# ------------------------------------------------------------------------------------------------------ iterative Bayes


def _likelihood(operator: Operator, counts: Floats, shares: Floats, held: Floats) -> float:
    """The logarithm of the chance of the tally, but for a constant."""
    expected = _map(operator, shares) @ held
    seen = counts > 0
    return float(counts[seen] @ np.log(expected[seen]))


entry_tallies = st.lists(st.integers(0, 200), min_size=9, max_size=9).filter(any)


@given(entry_tallies, st.integers(1, 30))
def test_iteration_never_lowers_the_likelihood(counts: list[int], steps: int) -> None:
    shown = np.array(counts, dtype=float)
    before, after = (_iterated(SEVERAL, np.array(counts), SHARES, each) for each in (steps, steps + 1))
    low, high = (_likelihood(SEVERAL, shown, SHARES, held) for held in (before, after))
    assert high >= low - 1e-9 * abs(low)


@settings(max_examples=examples(40))
@given(entry_tallies)
def test_iteration_ends_where_the_likelihood_is_largest(counts: list[int]) -> None:
    """No move of a hundredth of the rows from one value to another gains."""
    found = _iterated(SEVERAL, np.array(counts), SHARES, 2000)
    shown = np.array(counts, dtype=float)
    best = _likelihood(SEVERAL, shown, SHARES, found)
    for source, target in product(range(5), repeat=2):
        moved = found.copy()
        amount = min(found[source], sum(counts) / 100)
        moved[source] -= amount
        moved[target] += amount
        expected = _map(SEVERAL, SHARES) @ moved
        if expected[shown > 0].min() > 0:
            assert _likelihood(SEVERAL, shown, SHARES, moved) <= best + 1e-3


def test_the_truth_is_a_fixed_point_of_its_expected_tally() -> None:
    """What iteration starts from, if that is true; and any truth once it is found."""
    even = np.full(5, 2400.0)
    assert _iterated(SEVERAL, _map(SEVERAL, SHARES) @ even, SHARES, 50) == pytest.approx(even)
    expected = _map(SEVERAL, SHARES) @ TRUTH
    found, later = (_iterated(SEVERAL, expected, SHARES, steps) for steps in (5000, 5050))
    assert found == pytest.approx(TRUTH, rel=1e-9)
    assert later == pytest.approx(found, rel=1e-12)


def test_iteration_finds_the_truth_in_its_expected_tally() -> None:
    expected = _map(SEVERAL, SHARES) @ TRUTH
    assert _iterated(SEVERAL, expected, SHARES, 2000) == pytest.approx(TRUTH, rel=1e-6)


@given(entry_tallies, st.integers(1, 20))
def test_iteration_keeps_the_number_of_rows_and_no_count_is_negative(counts: list[int], steps: int) -> None:
    found = _iterated(SEVERAL, np.array(counts), SHARES, steps)
    assert found.sum() == pytest.approx(sum(counts))
    assert (found >= 0).all()


def test_iteration_starts_even_and_stops_when_nothing_moves() -> None:
    operator = _one_cell([0.5, 0.5])
    counts, shares = np.array([6, 2]), np.ones(2)
    assert _iterated(operator, counts, shares, 0).tolist() == [4, 4]
    coarse = _iterated(operator, counts, shares, 1000, tolerance=0.5)
    assert coarse == pytest.approx(_iterated(operator, counts, shares, 1))
    fine = _iterated(operator, counts, shares, 1000, tolerance=1e-12)
    assert fine == pytest.approx([8, 0], abs=0.1)


def test_iteration_of_no_rows_is_zero() -> None:
    assert _iterated(SEVERAL, np.zeros(9, dtype=np.int64), SHARES, 10).tolist() == [0] * 5


def test_iteration_gives_nothing_to_a_value_of_no_cell() -> None:
    operator = Operator(CELLS[:1], 5)
    assert _iterated(operator, np.array([5, 2, 3]), np.ones(3), 5)[3:].tolist() == [0, 0]


LINES = np.array([[5, 2, 3, 8, 6, 1, 2, 2, 1], [0] * 9, [900, 0, 0, 0, 3, 0, 50, 2, 7], [1, 0, 0, 0, 0, 0, 0, 0, 0]])
"""What the records of several conditions show; one of them has none."""


@pytest.mark.parametrize(("steps", "tolerance"), [(0, 0.0), (7, 0.0), (1000, 0.0), (10_000, 1e-9), (10_000, 1e-2)])
def test_lines_are_iterated_each_for_itself_and_each_stops_when_it_does_not_move(steps: int, tolerance: float) -> None:
    together = estimate_by_iteration(SEVERAL, LINES, SHARES, steps, tolerance)
    alone = [_iterated(SEVERAL, line, SHARES, steps, tolerance) for line in LINES]
    assert together == pytest.approx(np.array(alone), rel=1e-9, abs=1e-9)


DIFFERENT = _one_cell([Fraction(1, 2)] * 8 + [Fraction(2, 3)])


@pytest.mark.parametrize(("operator", "shares"), [(SEVERAL, SHARES), (DIFFERENT, np.ones(9))], ids=["cells", "coins"])
def test_lines_are_counted_each_for_itself(operator: Operator, shares: Floats) -> None:
    sets = [np.array(places, dtype=np.int64) for places in ([0], [1, 2], [3, 4], [0, 1, 2, 3, 4], [])]
    check_lines(lambda tally: estimate_closed_form(operator, tally, sets), Tally.of_symbols(LINES))
    check_lines(lambda tally: estimate_least_squares(operator, tally, shares, sets), Tally.of_symbols(LINES))


# -------------------------------------------------------------------------------------------------------------- shares


def test_shares_are_those_of_the_counts_of_each_value() -> None:
    shares = estimate_shares(SEVERAL, np.array([4.0, 7, 5, 2, 5, 9, 1, 2, 3]))
    assert shares == pytest.approx(SHARES)


def test_shares_take_a_negative_count_for_none_and_are_even_where_nothing_is_known() -> None:
    """0 is in three cells, 1 and 3 in two, 2 and 4 in one."""
    shares = estimate_shares(SEVERAL, np.array([-3.0, 0, -1, 2, 5, 0, 0, -4, 0]))
    assert shares == pytest.approx([0, 1 / 2, 1, 1, 1, 1, 0, 0, 1 / 2])


@given(st.lists(st.floats(-100, 100), min_size=9, max_size=9))
def test_shares_of_a_value_sum_to_one(counts: list[float]) -> None:
    shares = estimate_shares(SEVERAL, np.array(counts))
    assert SEVERAL.sum_by_place(shares) == pytest.approx(np.ones(5))


def test_entry_counts_of_the_expected_tally_are_the_truth() -> None:
    held = 10.0 * np.array([3, 0, 1, 4, 2, 5, 0, 6, 2])
    expected = held @ _matrix(SEVERAL)
    assert estimate_entry_counts(SEVERAL, _tally(expected, int(held.sum()))) == pytest.approx(held)


def test_expected_entries_are_those_of_the_matrix() -> None:
    held = np.array([3.0, 0, 1, 4, 2, 5, 0, 6, 2])
    assert SEVERAL.compute_expected_counts(held) == pytest.approx(held @ _matrix(SEVERAL))
