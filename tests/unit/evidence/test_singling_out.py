from __future__ import annotations

import itertools
from collections import Counter

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from sfumato._evidence.singling_out import SIZES, measure_singling_out
from sfumato._risk.attackers.record_linkage import encode_shared_values

NAMES = ("a", "b", "c", "d")


def alone_with(rows: list[tuple[int, ...]], places: tuple[int, ...]) -> float:
    counts = Counter(tuple(row[place] for place in places) for row in rows)
    return sum(number for number in counts.values() if number == 1) / len(rows)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=40))
def test_shares_and_sets_are_those_of_counting_by_hand(rows: list[tuple[int, ...]]) -> None:
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(NAMES)})
    found = measure_singling_out(NAMES, table, None)
    counts = Counter(rows)
    for size, share in found.after_bins:
        assert share == pytest.approx(sum(each for each in counts.values() if each <= size) / len(rows))
    assert found.smallest_class == min(counts.values())
    expected = {
        tuple(NAMES[place] for place in places): alone_with(rows, places)
        for number in (1, 2, 3)
        for places in itertools.combinations(range(4), number)
    }
    assert found.tried_count == len(expected)
    assert dict(found.column_sets) == pytest.approx({names: share for names, share in expected.items() if share})
    assert [share for _, share in found.column_sets] == sorted((share for _, share in found.column_sets), reverse=True)


def test_columns_before_bins_are_compared_too() -> None:
    table = pa.table({"age": ["young", "young", "old", "old"]})
    ages = dict(zip(["age"], encode_shared_values(["age"], [pa.table({"age": [1, 2, 80, 81]})])[0], strict=True))
    found = measure_singling_out(["age"], table, ages)
    assert found.before_bins is not None
    assert dict(found.after_bins)[1] == 0
    assert dict(found.before_bins)[1] == 1


def test_without_public_columns_all_are_alike() -> None:
    found = measure_singling_out([], pa.table({"disease": ["flu"] * 300}), None)
    assert found.smallest_class == 300
    assert dict(found.after_bins) == {size: float(size >= 300) for size in SIZES}
    assert found.column_sets == ()


def test_of_many_columns_those_of_most_values_are_tried() -> None:
    table = pa.table({f"c{number}": [row % (number + 1) for row in range(50)] for number in range(12)})
    found = measure_singling_out(table.column_names, table, None)
    assert found.untried_columns == ("c0", "c1", "c2", "c3")
    assert found.tried_count == 8 + 28 + 56
