"""Small domain randomization does what its design says: who goes to which cell, and what is published there."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sfumato._core.random_draws import LARGEST_TABLE
from sfumato._perturb.perturbation import Slots
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import small_domain
from statistical.support import (
    ALPHA,
    Counts,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

Numbers = npt.NDArray[np.int64]

# The table of the paper's examples, 12,000 times: the first values have too many records for a permutation in a table.
COUNTS = tuple(12_000 * count for count in (12, 8, 6, 5, 4, 3, 1, 1, 1, 1))
ENTRIES = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (3, 1), (3, 3), (5, 2), (5, 3), (9, 3)]
"""Some values with their cells: the first and the last, in one cell and in several."""


def _plan(counts: tuple[int, ...], bound: BreachBound) -> small_domain.Plan:
    histogram = Histogram.of(range(len(counts)), counts)
    return small_domain.plan(histogram, bound, small_domain.Options(min_cell=0), keyed_draws(0))


PLAN = _plan(COUNTS, BreachBound("1/3", "2/3"))


class Released(NamedTuple):
    """What became of the records of a sorted table."""

    codes: Numbers
    cells: Numbers
    values: Numbers

    def shown(self, value: int, cell: int) -> Numbers:
        """What is published of the records of one value in one cell."""
        return self.values[(self.codes == value) & (self.cells == cell)]


@cache
def _released(key: int) -> Released:
    """The table, sorted by value: the rank of a record among those of its value is its place in the file."""
    codes = np.repeat(np.arange(len(COUNTS), dtype=np.uint8), COUNTS)
    draws = keyed_draws(key).narrow_to_column("disease")
    slots = Slots(draws, small_domain.NAME, COUNTS)(codes, np.zeros(len(COUNTS), dtype=np.int64))
    replaced = small_domain.perturb(PLAN, codes, slots, draws, 0)
    assert replaced.cells is not None
    return Released(codes.astype(np.int64), replaced.cells.astype(np.int64), replaced.values.astype(np.int64))


def _law(value: int, cell: int, factor: Fraction = Fraction(1)) -> list[Fraction]:
    """Kept, or drawn from the values of the cell; with the retention multiplied by a factor."""
    published = PLAN.design.cells[cell]
    retention = factor * published.retention
    swap = (1 - retention) / len(published.places)
    return [swap * (each in published.places) + retention * (each == value) for each in range(len(COUNTS))]


def test_the_plan_of_these_tests_has_cells_that_share_values() -> None:
    held = [tuple(count // 12_000 for count in cell.counts) for cell in PLAN.cells]
    assert held == [
        (6, 6, 6, 0, 0, 0, 0, 0, 0, 0),
        (4, 0, 0, 4, 4, 0, 0, 0, 0, 0),
        (2, 2, 0, 0, 0, 2, 0, 0, 0, 0),
        (0, 0, 0, 1, 0, 1, 1, 1, 1, 1),
    ]
    assert COUNTS[2] > LARGEST_TABLE > COUNTS[3]


# ------------------------------------------------------------------------------------------------- what is published


def test_cells_have_exactly_the_records_that_were_planned() -> None:
    released = _released(1)
    joint = np.bincount(released.cells * len(COUNTS) + released.codes, minlength=len(PLAN.cells) * len(COUNTS))
    assert joint.reshape(len(PLAN.cells), -1).tolist() == [list(cell.counts) for cell in PLAN.cells]


def test_nothing_is_published_outside_its_cell() -> None:
    released = _released(1)
    for number, cell in enumerate(PLAN.design.cells):
        assert set(released.values[released.cells == number].tolist()) == set(cell.places)


@pytest.mark.parametrize(("value", "cell"), ENTRIES)
def test_published_values_follow_the_law_of_their_cell(value: int, cell: int) -> None:
    assert_same_distribution(counts_of(_released(1).shown(value, cell), len(COUNTS)), _law(value, cell))


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["too little kept", "too much kept"])
@pytest.mark.parametrize(("value", "cell"), ENTRIES)
def test_another_retention_would_be_noticed(value: int, cell: int, factor: Fraction) -> None:
    assert_different(counts_of(_released(1).shown(value, cell), len(COUNTS)), _law(value, cell, factor))


def test_the_coin_of_another_cell_would_be_noticed() -> None:
    """The third cell keeps 1/2 and the fourth 3/5 of their records."""
    wrong = Fraction(3, 5) / PLAN.design.cells[2].retention
    assert_different(counts_of(_released(1).shown(5, 2), len(COUNTS)), _law(5, 2, wrong))


@pytest.mark.parametrize("step", [1, 2], ids=["neighbours", "next but one"])
def test_records_of_one_entry_are_independent(step: int) -> None:
    shown = _released(2).shown(2, 0)  # all of one cell, so that neighbours are neighbours in the file
    law = product_law(_law(2, 0)[:3], _law(2, 0)[:3])
    one, other = shown[: -step : 2 * step], shown[step :: 2 * step]
    assert_same_distribution(joint_counts_of(one, other[: len(one)], 3), law)
    assert_different(joint_counts_of(one, one, 3), law)


def test_coins_are_independent_of_the_slots() -> None:
    """The first and the last slots of a run are published by the same law."""
    codes = np.full(COUNTS[2], 2, dtype=np.uint8)
    draws = keyed_draws(3).narrow_to_column("disease")
    before = np.zeros(len(COUNTS), dtype=np.int64)
    slots = Slots(draws, small_domain.NAME, COUNTS)(codes, before)
    values = small_domain.perturb(PLAN, codes, slots, draws, 0).values.astype(np.int64)
    quarters = slots.astype(np.int64) * 4 // COUNTS[2]
    law = product_law([Fraction(1, 4)] * 4, [*_law(2, 0)[:3], Fraction(0)])
    assert_same_distribution(joint_counts_of(quarters, values, 4), law)


# --------------------------------------------------------------------------------------- who goes to which cell, by key

SMALL = (6, 6, 4, 2)
SMALL_PLAN = _plan(SMALL, BreachBound("2/5", "2/3"))
KEYS = 2000


@cache
def _cells_by_key() -> npt.NDArray[np.int8]:
    """The cell of every record of a small table, under many keys."""
    codes = np.repeat(np.arange(len(SMALL)), SMALL)
    before = np.zeros(len(SMALL), dtype=np.int64)
    found = []
    for key in range(KEYS):
        slots = Slots(keyed_draws(key), small_domain.NAME, SMALL)(codes, before)
        found.append(SMALL_PLAN.layout.find_cells(codes, slots))
    return np.array(found, dtype=np.int8)


def _in_file(value: int) -> slice:
    """Where the records of a value are."""
    start = sum(SMALL[:value])
    return slice(start, start + SMALL[value])


def _chosen(cells: npt.NDArray[np.int8], members: int) -> Counts:
    """How often the records of the second cell are each of all possible choices."""
    ranks = cells.shape[1]
    possible = {
        sum(1 << rank for rank in each): number for number, each in enumerate(combinations(range(ranks), members))
    }
    masks = (cells == 1) @ (1 << np.arange(ranks))
    return counts_of(np.array([possible[mask] for mask in masks.tolist()]), len(possible))


def test_the_small_plan_splits_its_first_values() -> None:
    assert [cell.counts for cell in SMALL_PLAN.cells] == [(4, 4, 4, 0), (2, 2, 0, 2)]


def test_cells_have_their_planned_records_under_every_key() -> None:
    for value, in_second in enumerate(SMALL_PLAN.cells[1].counts):
        assert ((_cells_by_key()[:, _in_file(value)] == 1).sum(axis=1) == in_second).all()


@pytest.mark.parametrize("value", [0, 1])
def test_any_records_of_a_value_go_to_a_cell_with_equal_chance(value: int) -> None:
    """Two of the six go to the second cell: all 15 choices, wherever in the file they stand."""
    assert_same_distribution(_chosen(_cells_by_key()[:, _in_file(value)], 2), [1 / 15] * 15)


@pytest.mark.parametrize("rank", range(6))
def test_the_cell_of_a_record_does_not_depend_on_its_rank(rank: int) -> None:
    for value in (0, 1):
        cells = _cells_by_key()[:, _in_file(value)][:, rank]
        assert_same_distribution(counts_of(cells, 2), [Fraction(2, 3), Fraction(1, 3)])


def test_a_rotation_instead_of_a_permutation_would_be_noticed() -> None:
    """Every rank is as likely to go to the cell, but always together with its neighbour."""
    shifts = keyed_draws(5).get_stream("shifts").draw_integers(0, KEYS, 6).astype(np.int64)
    cells = ((np.arange(6) + shifts[:, None]) % 6 < 2).astype(np.int8)
    for rank in range(6):
        assert_same_distribution(counts_of(cells[:, rank], 2), [2 / 3, 1 / 3])
    assert_different(_chosen(cells, 2), [1 / 15] * 15)


def test_the_cells_of_two_values_are_independent() -> None:
    first, second = (_cells_by_key()[:, _in_file(value)][:, 0] for value in (0, 1))
    law = product_law([2 / 3, 1 / 3], [2 / 3, 1 / 3])
    assert_same_distribution(joint_counts_of(first, second, 2), law)
    assert_different(joint_counts_of(first, first, 2), law)


# ---------------------------------------------------------------------------------- who goes to which cell, in one file


def _order_p_value(cells: Numbers) -> float:
    """Whether the cells of the records of a value have to do with the part of the file they stand in."""
    parts = np.arange(len(cells)) * 20 // len(cells)
    table = np.zeros((20, int(cells.max()) + 1), dtype=np.int64)
    np.add.at(table, (parts, cells), 1)
    return float(stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue)


@pytest.mark.parametrize("value", [0, 3, 5], ids=["computed permutation", "written out, unequal cells", "written out"])
def test_cells_are_spread_evenly_over_the_file(value: int) -> None:
    released = _released(1)
    assert _order_p_value(released.cells[released.codes == value]) >= ALPHA


def test_cells_in_the_order_of_the_file_would_be_noticed() -> None:
    codes = np.zeros(COUNTS[0], dtype=np.uint8)
    cells = PLAN.layout.find_cells(codes, np.arange(COUNTS[0], dtype=np.uint64))
    assert _order_p_value(cells) < ALPHA


def test_one_in_fifty_records_out_of_order_would_be_noticed() -> None:
    cells = _released(1).cells[: COUNTS[0]].copy()
    cells[: COUNTS[0] // 50] = 0
    assert _order_p_value(cells) < ALPHA
