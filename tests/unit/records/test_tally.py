from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from sfumato._query.intervals import compute_standard_errors
from sfumato._records.tally import Holdings, Tally, look_up_numbers, make_group_key
from sfumato.mechanisms.estimator import Moments


def test_tally_of_symbols_counts_its_rows() -> None:
    assert Tally.of_symbols(np.array([3, 0, 4])).rows.tolist() == [7]
    assert Tally.of_symbols(np.array([[3, 0, 4], [1, 1, 0]])).rows.tolist() == [7, 2]


def test_a_tally_of_one_has_one_line_and_the_rows_it_is_given() -> None:
    tally = Tally.of_one(np.array([3, 0, 4]), 5)
    assert (len(tally), tally.counts.tolist(), tally.rows.tolist()) == (1, [[3, 0, 4]], [5])


def test_lines_are_taken_with_all_that_is_beside_them() -> None:
    whole = Tally.of_symbols(np.array([9, 9]))
    holdings = Holdings(np.array([0, 1]), np.array([0, 1]), np.array([9, 9]), 2)
    tally = Tally.of_symbols(np.array([[1, 2], [3, 4], [5, 6]])).attach_context(whole, holdings)
    taken = tally.take(np.array([2, 0]))
    assert (taken.counts.tolist(), taken.rows.tolist()) == ([[5, 6], [1, 2]], [11, 3])
    assert taken.release_tally is whole
    assert taken.holdings is holdings


def test_only_the_buckets_that_hold_a_wanted_value_are_looked_at() -> None:
    """Three buckets of 3, 2 and 4 records; the second holds neither of the wanted values."""
    lines = np.array([[0, 0, 2], [0, 1, 1], [1, 1, 2], [2, 2, 1], [2, 1, 3]])
    holdings = Holdings(*lines.T, 3)
    tally = Tally.of_symbols(np.array([[1, 2, 3], [0, 1, 4]])).attach_context(None, holdings)
    sizes, marked, selected = tally.count_in_buckets(np.array([0, 2]))
    assert (sizes.tolist(), marked.tolist()) == ([3, 4], [2, 1])
    assert selected.tolist() == [[1, 3], [0, 4]]


def error_at(value: float, base: float | None, slope: float) -> float:
    """The standard error of an estimate between 0 and 10."""
    (error,) = compute_standard_errors(Moments.of(value, base, slope, 10)).tolist()
    return float(error)


def test_variance_is_linear_in_the_count() -> None:
    assert error_at(4.0, 2.0, 0.5) ** 2 == pytest.approx(4.0)


def test_variance_is_that_of_the_nearest_possible_count() -> None:
    assert error_at(-3.0, 2.0, 0.5) ** 2 == pytest.approx(2.0)
    assert error_at(99.0, 2.0, 0.5) ** 2 == pytest.approx(7.0)


def test_variance_is_never_below_zero() -> None:
    assert error_at(10.0, 1.0, -0.5) == 0.0


def test_variance_that_is_not_known_stays_unknown() -> None:
    assert math.isnan(error_at(3.0, None, 0.0))


# -------------------------------------------------------------------------------------------------------------- moments


def test_moments_of_one_number_have_one_line() -> None:
    moments = Moments.of(5.0, None, 0.5, 10, 1, "beware", is_own_note=True)
    assert len(moments) == 1
    assert math.isnan(moments.base[0])
    numbers = (moments.value, moments.slope, moments.most, moments.least)
    assert [line.tolist() for line in numbers] == [[5.0], [0.5], [10.0], [1.0]]
    assert (moments.note, moments.is_own_note) == ("beware", True)
    assert Moments.of(5.0, 1.0, 0.0, 10).note is None


def test_joined_moments_keep_their_order_and_their_notes() -> None:
    one, other = Moments.of(1.0, 2.0, 0.0, 10), Moments.of(3.0, 4.0, 0.5, 20, 2, "beware")
    both = Moments.concatenate([one, Moments.exact(np.array([7.0])), other])
    assert both.value.tolist() == [1, 7, 3]
    assert (both.most.tolist(), both.least.tolist()) == ([10, 7, 20], [0, 7, 2])
    assert list(both.all_notes) == [None, None, "beware"]
    assert both.take(np.array([2])).note == "beware"
    assert both.take(np.array([0])).note is None
    assert len(Moments.concatenate([])) == 0
    assert not Moments.concatenate([one, one]).notes


def test_what_has_no_error_and_one_possible_value_is_certain() -> None:
    numbers = [Moments.exact(np.array([3.0])), Moments.of(3.0, 0.0, 0.0, 10), Moments.of(3.0, None, 0.0, 3, 3)]
    assert Moments.concatenate(numbers).is_certain.tolist() == [True, False, False]


# ------------------------------------------------------------------------------------------------------------ numbering


@pytest.mark.parametrize("width", [1, 2])
def test_rows_have_the_numbers_of_their_values(width: int) -> None:
    """Missing values and numbers that are none have numbers of their own; a dictionary may have been made before."""
    floats, texts = [1.5, None, math.nan, 1.5, math.nan, 0.0], ["a", "b", "a", "a", "a", None]
    columns = [pa.array(floats), pa.array(texts).dictionary_encode()][:width]
    rows = [make_group_key(row) for row in zip(*(floats, texts)[:width], strict=True)]
    known = {key: number for number, key in enumerate(dict.fromkeys(rows))}
    assert look_up_numbers(columns, known).tolist() == [known[row] for row in rows]


def test_a_missing_value_that_has_no_number_is_told() -> None:
    assert look_up_numbers([pa.array(["a", None])], {("a",): 0}).tolist() == [0, -1]
    with pytest.raises(KeyError):
        look_up_numbers([pa.array(["a", "b"])], {("a",): 0})
