"""The first pass counts every value once, however the rows were cut into batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core.random_draws import Draws
from sfumato._profile import table_profile
from sfumato._profile.record_sample import SAMPLE_PURPOSE
from sfumato._profile.table_profile import Counting, Profile, Profiler
from strategies import batch_splits

DRAWS = Draws.unsafe_test_key("5f" * 32)
NAMES = ("public", "sensitive")
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
    counting = Counting(pa.schema(list(plain.items())), "sensitive", (), (), DRAWS)
    return merged([counted_piece(counting, table, [cut]) for cut in cuts], counting).build_profile()


def counted_piece(counting: Counting, table: pa.RecordBatch, cuts: Sequence[range]) -> Profiler:
    """One piece, of several batches."""
    piece = Profiler(counting)
    for cut in cuts:
        batch = table.slice(cut.start, len(cut))
        piece.add(batch, batch, DRAWS.get_stream(SAMPLE_PURPOSE).draw_bits(cut.start, len(cut)))
    return piece


def merged(pieces: Sequence[Profiler], counting: Counting) -> Profiler:
    """All pieces in their order."""
    whole = Profiler(counting)
    for piece in pieces:
        whole.merge(piece)
    return whole


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
        assert found.columns[name].count_unique() == len(alone)


@given(st.data(), tables())
def test_profile_does_not_depend_on_how_rows_were_cut(data: st.DataObject, table: pa.RecordBatch) -> None:
    whole = profiled(table, [range(table.num_rows)])
    cut = profiled(table, data.draw(batch_splits(table.num_rows)))
    assert str(cut.sample_table.to_pylist()) == str(
        whole.sample_table.to_pylist()
    )  # what is no number is not equal to itself
    assert cut.class_sizes == whole.class_sizes
    for name in ("public", "sensitive"):
        found, expected = cut.columns[name], whole.columns[name]
        assert found.values.equals(expected.values)
        assert found.counts.tolist() == expected.counts.tolist()
        assert (found.missing, found.is_wide, found.type) == (expected.missing, expected.is_wide, expected.type)


@given(st.data(), tables())
def test_pieces_of_several_batches_give_the_same_profile_and_their_counts_add_up(
    data: st.DataObject, table: pa.RecordBatch
) -> None:
    """However the pieces are put together: one by one, or some of them before the others."""
    cuts = data.draw(batch_splits(table.num_rows))
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(cuts)), st.integers(0, len(cuts)))))
    kinds = [
        (name, getattr(table.schema.field(name).type, "value_type", table.schema.field(name).type)) for name in NAMES
    ]
    counting = Counting(pa.schema(kinds), "sensitive", (), (), DRAWS)
    pieces = [part for part in (cuts[:first], *([cut] for cut in cuts[first:last]), cuts[last:]) if part]
    counts = [counted_piece(counting, table, part) for part in pieces]
    middle = data.draw(st.integers(0, len(counts) - 1))
    found = merged([*counts[:middle], merged(counts[middle:], counting)], counting).build_profile()
    whole = profiled(table, [range(table.num_rows)])
    assert found.class_sizes == whole.class_sizes
    assert str(found.sample_table.to_pylist()) == str(whole.sample_table.to_pylist())
    for name in NAMES:
        assert counted(found, name) == counted(whole, name)
    for part, piece in zip(pieces, found.pieces, strict=True):
        rows = [row for cut in part for row in cut]
        held = Counter(values(table, "sensitive")[row] for row in rows)
        assert piece.rows == len(rows)
        assert piece.counts.tolist() == [
            held[value] for value in (*found.columns["sensitive"].values.to_pylist(), None)
        ]


@given(tables())
def test_values_are_in_their_canonical_order(table: pa.RecordBatch) -> None:
    for column in profiled(table, [range(table.num_rows)]).columns.values():
        assert column.values.to_pylist() == sorted(column.values.to_pylist())


@given(st.data(), tables())
def test_alike_are_those_with_the_same_public_value(data: st.DataObject, table: pa.RecordBatch) -> None:
    found = profiled(table, data.draw(batch_splits(table.num_rows))).class_sizes
    counts = Counter(values(table, "public")).values()
    expected = [sum(count for count in counts if count < few) / max(table.num_rows, 1) for few in (2, 5, 11)]
    assert [found.unique_share, found.below_5, found.below_11] == pytest.approx(expected)
    assert found.is_exact


@given(st.data(), tables())
def test_all_records_are_kept_where_they_are_few(data: st.DataObject, table: pa.RecordBatch) -> None:
    kept = profiled(table, data.draw(batch_splits(table.num_rows))).sample_table.combine_chunks()
    pairs = [
        Counter(zip(*(map(str, values(each, name)) for name in ("public", "sensitive")), strict=True))
        for each in (kept, table)
    ]
    assert pairs[0] == pairs[1]


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
    monkeypatch.setattr(table_profile, "MOST_VALUES", 20)
    found = profiled(numbers(100), cuts)
    column = found.columns["public"]
    assert (column.is_wide, column.missing, len(column.values), column.count_unique()) == (True, 1, 0, 0)
    assert counted(found, "sensitive") == Counter(x=50, y=50)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("row", [0, 50, 99])
@pytest.mark.parametrize(("limit", "most"), [("MOST_VALUES", 20), ("MOST_BYTES", 150)])
def test_what_may_forbid_texts_is_remembered_where_they_are_not(
    cuts: list[range], row: int, limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_profile, limit, most)
    texts = [f"{number:03}" for number in range(100)]
    for odd, expected in (("ordinary", (8, False)), ("a\nb" * 9, (27, True))):
        texts[row] = odd
        table = pa.RecordBatch.from_pydict({"public": texts, "sensitive": ["x", "y"] * 50})
        column = profiled(table, cuts).columns["public"]
        assert (column.is_wide, len(column.values)) == (True, 0)
        assert (column.max_length, column.has_line_breaks) == expected


def test_texts_that_a_dictionary_lists_and_no_row_has_forbid_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_profile, "MOST_VALUES", 20)
    listed = pa.DictionaryArray.from_arrays(pa.array(range(100)), pa.array([*map(str, range(100)), "a\nb" * 99]))
    table = pa.RecordBatch.from_arrays([listed, pa.array(["x", "y"] * 50)], names=["public", "sensitive"])
    column = profiled(table, [range(100)]).columns["public"]
    assert (column.is_wide, column.max_length, column.has_line_breaks) == (True, 2, False)
