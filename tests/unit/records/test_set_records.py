"""Counting members of sets, as bits and as lists, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._records.set_records import SetEncoding, convert_bits_to_arrow
from sfumato.errors import ReleaseFormatError

Members = list[frozenset[int]]
"""The places of the members of each set."""


def _domain(size: int) -> pa.Array:
    return pa.array([f"value {place}" for place in range(size)])


def _bits(sets: Sequence[frozenset[int]], size: int) -> pa.Array:
    members = np.array([[place in each for place in range(size)] for each in sets], dtype=np.bool_)
    return convert_bits_to_arrow(np.packbits(members.reshape(len(sets), size), axis=1))


def _lists(sets: Sequence[frozenset[int]], domain: pa.Array) -> pa.Array:
    values = [[domain[place].as_py() for place in sorted(each, reverse=True)] for each in sets]
    return pa.array(values, type=pa.list_(domain.type))


def _column(sets: Sequence[frozenset[int]], size: int, *, as_list: bool) -> pa.Array:
    return _lists(sets, _domain(size)) if as_list else _bits(sets, size)


def _batch(groups: Sequence[int], column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(groups, type=pa.int64()), column], names=["group", "members"])


def _expected(groups: Sequence[int], sets: Sequence[frozenset[int]], count: int, size: int) -> list[list[int]]:
    return [
        [
            sum(place in each for number, each in zip(groups, sets, strict=True) if number == group)
            for place in range(size)
        ]
        for group in range(count)
    ]


def _counts(batches: Sequence[pa.RecordBatch], groups: int, size: int, *, as_list: bool) -> Any:
    """How many sets of each group hold each value; the sets themselves are counted beside."""
    sums, rows = SetEncoding(size, as_list).sum_members(batches, (groups, 1), _domain(size))
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    assert sums.shape == (groups, 1, size)
    expected = [numbers.count(group) for group in range(groups)] if groups > 1 else [len(numbers)]
    assert rows[:, 0].tolist() == expected
    return sums[:, 0]


both_forms = pytest.mark.parametrize("as_list", [False, True], ids=["bits", "list"])


@st.composite
def _tables(draw: st.DrawFn) -> tuple[int, int, list[int], Members]:
    """The size of the domain, the number of groups, and a group and a set for each row; some sizes fill bytes."""
    size = draw(st.sampled_from([1, 2, 7, 8, 9, 16, 17]))
    groups = draw(st.integers(1, 4))
    rows = draw(st.lists(st.tuples(st.integers(0, groups - 1), st.frozensets(st.integers(0, size - 1))), max_size=20))
    return size, groups, [group for group, _ in rows], [members for _, members in rows]


@both_forms
@given(_tables())
def test_members_are_counted_as_in_plain_python(as_list: bool, table: tuple[int, int, list[int], Members]) -> None:
    size, groups, numbers, sets = table
    batch = _batch(numbers, _column(sets, size, as_list=as_list))
    counts = _counts([batch], groups, size, as_list=as_list)
    assert counts.tolist() == _expected(numbers, sets, groups, size)


@both_forms
@given(_tables(), st.integers(0, 20))
def test_batches_are_added_up(as_list: bool, table: tuple[int, int, list[int], Members], cut: int) -> None:
    """Slices of a column: what stands before and after them does not count."""
    size, groups, numbers, sets = table
    batch = _batch(numbers, _column(sets, size, as_list=as_list))
    batches = [batch.slice(0, cut), batch.slice(cut)]
    counts = _counts(batches, groups, size, as_list=as_list)
    assert counts.tolist() == _expected(numbers, sets, groups, size)


@both_forms
@given(_tables(), st.data())
def test_weights_are_added_up_over_the_sets_that_hold_a_value(
    as_list: bool, table: tuple[int, int, list[int], Members], data: st.DataObject
) -> None:
    size, groups, numbers, sets = table
    weights = [data.draw(st.integers(-8, 8)) / 4 for _ in numbers]
    batch = _batch(numbers, _column(sets, size, as_list=as_list))
    batch = batch.append_column("weight", pa.array(weights, type=pa.float64()))
    sums, rows = SetEncoding(size, as_list).sum_members([batch], (groups, 2), _domain(size))
    assert sums[:, 0].tolist() == _expected(numbers, sets, groups, size)
    for group in range(groups):
        mine = [(each, weight) for number, each, weight in zip(numbers, sets, weights, strict=True) if number == group]
        assert rows[group].tolist() == [len(mine), sum(weight for _, weight in mine)]
        expected = [sum(weight for each, weight in mine if place in each) for place in range(size)]
        assert sums[group, 1].tolist() == expected


@both_forms
def test_a_slice_counts_its_own_rows_only(as_list: bool) -> None:
    sets = [frozenset(each) for each in ({0}, {1, 8}, {2, 8}, {3})]
    batch = _batch([0, 1, 0, 1], _column(sets, 9, as_list=as_list)).slice(1, 2)
    counts = _counts([batch], 2, 9, as_list=as_list)
    assert counts.tolist() == [[0, 0, 1, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0, 0, 1]]


@both_forms
def test_the_first_value_is_the_highest_bit_of_the_first_byte(as_list: bool) -> None:
    column = (
        _lists([frozenset({0}), frozenset({8})], _domain(9))
        if as_list
        else convert_bits_to_arrow(np.array([[0b1000_0000, 0], [0, 0b1000_0000]], dtype=np.uint8))
    )
    found = SetEncoding(9, as_list).decode_column(column, _domain(9))
    assert found.tolist() == [[1, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 1]]


@both_forms
def test_a_group_without_rows_counts_nothing(as_list: bool) -> None:
    batch = _batch([2, 0], _column([frozenset({0, 1}), frozenset({1})], 3, as_list=as_list))
    counts = _counts([batch], 4, 3, as_list=as_list)
    assert counts.tolist() == [[0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]]


@both_forms
@pytest.mark.parametrize("groups", [1, 3])
def test_no_rows_count_nothing(as_list: bool, groups: int) -> None:
    empty = _batch([], _column([], 3, as_list=as_list))
    for batches in ([], [empty]):
        counts = _counts(batches, groups, 3, as_list=as_list)
        assert counts.tolist() == [[0, 0, 0]] * groups


def test_counts_of_many_rows_do_not_overflow_a_byte() -> None:
    batch = _batch([0, 1] * 500, _bits([frozenset({0, 1}), frozenset({1})] * 500, 2))
    assert _counts([batch], 2, 2, as_list=False).tolist() == [[500, 500], [0, 500]]
    assert _counts([batch, batch], 1, 2, as_list=False).tolist() == [[1000, 2000]]


@pytest.mark.parametrize(
    "values", [[1, 5, 9], [1.5, 0.0, -2.0], ["a", "", "ä"], ["a", "b", None], [True, False, None]], ids=str
)
def test_members_of_every_type_are_found_in_the_domain(values: list[Any]) -> None:
    """A missing value can be a value of the domain, and then a member."""
    domain = pa.array(values)
    column = pa.array([values[:2], values[2:], [], values], type=pa.list_(domain.type))
    found = SetEncoding(3, True).decode_column(column, domain)
    assert found.tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1]]


def test_a_member_twice_is_one_member() -> None:
    column = pa.array([["value 1", "value 1"]])
    assert SetEncoding(2, True).decode_column(column, _domain(2)).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("column", "as_list"),
    [
        (pa.array([["value 0", "somebody"]]), True),
        (pa.array([["value 0", None]]), True),
        (pa.array([[1, 2]]), True),
        (pa.array([b"ab", b"a"]), False),
        (pa.array([b"abc"], type=pa.binary(3)), False),
        (pa.array([["value 0"], None]), True),
        (pa.array([b"a", None], type=pa.binary(1)), False),
        (pa.array([b"a"], type=pa.binary(1)), True),
        (pa.array([["value 0"]]), False),
    ],
    ids=[
        "unknown member",
        "missing member",
        "another type",
        "another length",
        "too long",
        "missing list",
        "missing bits",
        "bits for lists",
        "lists for bits",
    ],
)
def test_sets_that_are_not_of_the_domain_are_refused(column: pa.Array, as_list: bool) -> None:
    with refuses(ReleaseFormatError, "set-outside-domain"):
        SetEncoding(2, as_list).decode_column(column, _domain(2))


@both_forms
@pytest.mark.parametrize("size", [1, 64, 130])
def test_no_sets_have_no_sizes(as_list: bool, size: int) -> None:
    batch = pa.RecordBatch.from_arrays([_column([], size, as_list=as_list)], names=["members"])
    found, has_stray = SetEncoding(size, as_list).count_members(batch, _domain(size))
    assert (found.tolist(), has_stray) == ([], False)


@both_forms
@given(st.data(), st.sampled_from([1, 7, 8, 9, 63, 64, 65, 128, 130]))
def test_sizes_of_sets_are_counted_in_domains_of_any_size(as_list: bool, data: st.DataObject, size: int) -> None:
    sets = data.draw(st.lists(st.frozensets(st.integers(0, size - 1)), max_size=10))
    batch = pa.RecordBatch.from_arrays([_column(sets, size, as_list=as_list)], names=["members"])
    found, has_stray = SetEncoding(size, as_list).count_members(batch, _domain(size))
    assert found.tolist() == [len(each) for each in sets]
    assert not has_stray
