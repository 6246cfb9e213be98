"""The first pass counts every value once, however the rows were cut into batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.apply import profile
from sfumato.apply.profile import Profile, Profiler
from strategies import batch_splits

PUBLIC = {
    pa.string(): st.text("abé", max_size=2),
    pa.int16(): st.integers(-2, 2),
    pa.float64(): st.sampled_from([0.5, -1.0, math.nan]),
    pa.bool_(): st.booleans(),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    """A public and a sensitive column, each plain or as a dictionary, with missing values."""
    kind = draw(st.sampled_from(list(PUBLIC)))
    rows = draw(st.lists(st.tuples(st.none() | PUBLIC[kind], st.none() | st.sampled_from("xyz")), max_size=40))
    arrays = [pa.array([row[0] for row in rows], type=kind), pa.array([row[1] for row in rows], type=pa.string())]
    encoded = [array.dictionary_encode() if draw(st.booleans()) else array for array in arrays]
    return pa.RecordBatch.from_arrays(encoded, names=["public", "sensitive"])


def profiled(table: pa.RecordBatch, cuts: Sequence[range]) -> Profile:
    plain = {
        name: getattr(column.type, "value_type", column.type)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
    profiler = Profiler(pa.schema(list(plain.items())), "sensitive", ["sensitive"])
    for cut in cuts:
        profiler.add(profiler.count(table.slice(cut.start, len(cut))))
    return profiler.result()


def values(table: pa.RecordBatch, name: str) -> list[Any]:
    """The values of a column; what is no number is missing."""
    return [
        None if isinstance(value, float) and math.isnan(value) else value for value in table.column(name).to_pylist()
    ]


def counted(found: Profile, name: str) -> Counter[Any]:
    column = found.columns[name]
    pairs = zip([*column.values.to_pylist(), None], [*column.counts.tolist(), column.missing], strict=True)
    return Counter({value: count for value, count in pairs if count or value is not None})


@given(st.data(), tables())
def test_counts_are_those_of_a_counter(data: st.DataObject, table: pa.RecordBatch) -> None:
    found = profiled(table, data.draw(batch_splits(table.num_rows)))
    assert found.rows == table.num_rows
    for name in ("public", "sensitive"):
        assert counted(found, name) == Counter(values(table, name))
        alone = [value for value, count in Counter(values(table, name)).items() if count == 1 and value is not None]
        assert found.columns[name].alone == len(alone)


@given(st.data(), tables())
def test_profile_does_not_depend_on_how_rows_were_cut(data: st.DataObject, table: pa.RecordBatch) -> None:
    whole = profiled(table, [range(table.num_rows)])
    cut = profiled(table, data.draw(batch_splits(table.num_rows)))
    for one, other in zip(cut.associations, whole.associations, strict=True):
        assert one.column == other.column
        assert np.array_equal(one.pairs, other.pairs)
    for name in ("public", "sensitive"):
        found, expected = cut.columns[name], whole.columns[name]
        assert found.values.equals(expected.values)
        assert found.counts.tolist() == expected.counts.tolist()
        assert (found.missing, found.is_wide, found.type) == (expected.missing, expected.is_wide, expected.type)


@given(tables())
def test_values_are_in_their_canonical_order(table: pa.RecordBatch) -> None:
    for column in profiled(table, [range(table.num_rows)]).columns.values():
        assert column.values.to_pylist() == sorted(column.values.to_pylist())


@given(st.data(), tables())
def test_association_counts_how_often_values_meet(data: st.DataObject, table: pa.RecordBatch) -> None:
    met = Counter(zip(values(table, "public"), values(table, "sensitive"), strict=True))
    (found,) = profiled(table, data.draw(batch_splits(table.num_rows))).associations
    assert found.column == "public"
    # The order of the rows is that of first appearance; what they count does not depend on it.
    assert found.pairs is not None
    assert sorted(found.pairs[found.pairs > 0].tolist()) == sorted(met.values())
    for axis, place in ((1, 0), (0, 1)):
        margin: Counter[Any] = Counter()
        for pair, count in met.items():
            margin[pair[place]] += count
        totals = found.pairs.sum(axis=axis)
        assert sorted(totals[totals > 0].tolist()) == sorted(margin.values())


@given(st.data(), tables())
def test_association_has_the_sensitive_values_in_the_order_of_their_profile(
    data: st.DataObject, table: pa.RecordBatch
) -> None:
    found = profiled(table, data.draw(batch_splits(table.num_rows)))
    column = found.columns["sensitive"]
    assert found.associations[0].pairs is not None
    assert found.associations[0].pairs.sum(axis=0).tolist() == [*column.counts.tolist(), column.missing]


@given(tables())
def test_values_that_only_a_dictionary_lists_are_not_found(table: pa.RecordBatch) -> None:
    columns = [column.dictionary_encode() for column in table.columns]
    part = pa.RecordBatch.from_arrays(columns, names=table.schema.names).slice(0, table.num_rows // 2)
    found = profiled(part, [range(part.num_rows)])
    for name in ("public", "sensitive"):
        assert counted(found, name) == Counter(values(part, name))


def numbers(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"public": [*range(rows - 1), None], "sensitive": ["x", "y"] * (rows // 2)})


CUTS = {
    "whole": [range(100)],
    "halves": [range(50), range(50, 100)],
    "rows": [range(row, row + 1) for row in range(100)],
}


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_column_of_too_many_values_is_wide_and_still_counts_missing_ones(
    cuts: list[range], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "MOST_VALUES", 20)
    found = profiled(numbers(100), cuts)
    column = found.columns["public"]
    assert (column.is_wide, column.missing, len(column.values), column.alone) == (True, 1, 0, 0)
    assert counted(found, "sensitive") == Counter(x=50, y=50)
    assert found.associations[0].pairs is None


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_pairs_beyond_the_limit_are_reported_as_not_checked(cuts: list[range], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "MOST_PAIRS", 100)
    found = profiled(numbers(100), cuts)
    assert found.associations[0].pairs is None
    assert len(found.columns["public"].values) == 99
    assert np.all(found.columns["public"].counts == 1)
