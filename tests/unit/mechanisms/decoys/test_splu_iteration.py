"""The paper's iteration: all tables at once as each by the printed formulas, with one sensitive column or several."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._records.tally import Tally
from sfumato.mechanisms._decoys import Design
from sfumato.mechanisms._decoys.decoy_estimators import METHODS
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from sfumato.mechanisms._decoys.splu_iteration import run_iteration

Record = tuple[int, ...]
"""Whether the condition selects it, and the place of what it shows in each column."""


def printed(shown: Sequence[float], group_sizes: Sequence[int], most_rounds: int = 4000) -> tuple[list[float], int]:
    """Section 5.2 as it stands: with the matrix M of x, x_i becomes x_i times the sum over j of M_ij y_j / (xM)_j."""
    states = list(itertools.product((0, 1), repeat=1 + len(group_sizes)))
    seen = np.array(shown, dtype=np.float64)
    held = seen
    for number in range(1, most_rounds + 1):
        matrix = np.eye(2)
        for column, size in enumerate(group_sizes, 1):
            share = sum(count for state, count in zip(states, held, strict=True) if state[column]) / sum(shown)
            matrix = np.kron(matrix, [[1 - share, share], [1 - 1 / size, 1 / size]])
        expected = held @ matrix
        after = held * (matrix[:, seen > 0] @ (seen[seen > 0] / expected[seen > 0]))
        is_still = all(abs(new - old) <= 0.01 * old for new, old in zip(after, held, strict=True))
        held = after
        if is_still:
            return held.tolist(), number
    return held.tolist(), most_rounds


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[int]], tuple[int, ...]]:
    columns = draw(st.integers(1, 3))
    line = st.lists(st.integers(0, 40), min_size=2 << columns, max_size=2 << columns).filter(any)
    sizes = st.tuples(*(st.integers(2, 9) for _ in range(columns)))
    return draw(st.lists(line, min_size=1, max_size=4)), draw(sizes)


@given(tables())
@settings(max_examples=examples(15))
def test_many_tables_are_iterated_as_each_by_the_printed_formulas(
    given: tuple[list[list[int]], tuple[int, ...]],
) -> None:
    shown, sizes = given
    found, rounds = run_iteration(np.array(shown, dtype=np.float64), sizes, most_rounds=60)
    for line, states, number in zip(shown, found, rounds, strict=True):
        expected, after = printed(line, sizes, most_rounds=60)
        assert states == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert number == after


SIZES = (3, 4)
GROUP_SIZE = 6  # the iteration stops soon
DESIGN = Design(((0, 1, 2), (0, 1, 2, 3)), GROUP_SIZE, GroupCreation.MIXED)


def _records(seed: int) -> list[Record]:
    """Columns that are mostly the same."""
    chance = np.random.default_rng(seed)
    selected, one = chance.random(120) < 0.4, chance.integers(0, 3, 120)
    other = np.where(chance.random(120) < 0.6, one, chance.integers(0, 4, 120))
    return list(zip(selected.tolist(), one.tolist(), other.tolist(), strict=True))


def _tally(records: Sequence[Record]) -> Tally:
    shown = Counter(one * SIZES[1] + other for _, one, other in records)
    return Tally.of_symbols(np.array([shown[place] for place in range(12)]))


def _held(records: Sequence[Record], value: dict[int, int]) -> float:
    """How many selected records hold a value in each of some columns, by the printed formulas."""
    shown = Counter(
        (bool(selected), *(values[column] == place for column, place in value.items())) for selected, *values in records
    )
    states = [shown[state] for state in itertools.product((False, True), repeat=1 + len(value))]
    return printed(states, (GROUP_SIZE,) * len(value))[0][-1]


def test_a_question_about_several_columns_is_iterated_over_all_of_them() -> None:
    lines = [[(selected and other != last, one, other) for selected, one, other in _records(1)] for last in (9, 1, 2)]
    whole = _tally(lines[0])
    selected = [_tally([record for record in line if record[0]]).counts[0] for line in lines]
    tally = Tally.of_symbols(np.array(selected)).attach_context(whole, None)
    wanted: list[npt.NDArray[np.int64]] = [np.array(places) for places in ([5], [0, 10], [8, 9, 10, 11], [1, 5, 9])]
    found = METHODS["paper"].count(DESIGN, tally, [*wanted, np.arange(12), np.arange(0)])
    for number, line in enumerate(lines):
        expected = [
            _held(line, {0: 1, 1: 1}),
            _held(line, {0: 0, 1: 0}) + _held(line, {0: 2, 1: 2}),
            _held(line, {0: 2}),  # a value of the first column, whatever the second one is
            _held(line, {1: 1}),
            float(tally.rows[number]),
            0.0,
        ]
        assert [moments.value[number] for moments in found] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert all(np.isnan(moments.base).all() for moments in found[:4])
