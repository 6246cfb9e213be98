"""Codes number the values of a column in their canonical order, and bins hold exactly what lies between their edges."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.cell_values import simplify_type
from sfumato._profile.batch_preparation import merge_values
from sfumato._profile.ranges import assign_bins
from sfumato._records.column_codes import (
    CodedColumn,
    RawColumn,
    decode_dictionary,
    encode_batch_values,
    encode_values,
    find_smallest_type,
)
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import MergedValues
from sfumato.errors import SchemaError, SourceError

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text("abé☕", max_size=2)),
    "large text": (pa.large_string(), st.text("abé☕", max_size=2)),
    "whole": (pa.int8(), st.integers(-3, 3)),
    "number": (pa.float64(), st.sampled_from([0.5, -1.0, 2.25, 1e300])),
    "truth": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(datetime.date(2024, 1, 1), datetime.date(2024, 1, 5))),
}


@st.composite
def arrays(draw: st.DrawFn, *, missing: bool = True) -> pa.Array:
    """A column of any plain type, as it is or as a dictionary, perhaps with a missing value inside the dictionary."""
    kind, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    chosen = draw(st.lists(st.one_of(st.none(), values) if missing else values, max_size=20))
    column = pa.array(chosen, type=kind)
    return draw(st.sampled_from([column, column.dictionary_encode(), column.dictionary_encode("encode")]))


@given(arrays())
def test_local_codes_point_at_the_values(column: pa.Array) -> None:
    codes, values = encode_batch_values(column)
    known = [*values.to_pylist(), None]
    assert [known[code] for code in codes] == column.to_pylist()
    assert all(code == len(values) for code, value in zip(codes, column.to_pylist(), strict=True) if value is None)


def test_dictionary_from_elsewhere_has_each_value_once_and_none_for_what_is_missing() -> None:
    listed = pa.array([float("nan"), 1.5, None, 1.5, 0.0, -0.0])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4, 5, None]), listed)
    codes, values = encode_batch_values(column)
    assert values.to_pylist() == [1.5, 0.0]
    assert codes.tolist() == [2, 0, 2, 0, 1, 1, 2]


@pytest.mark.slow
@given(arrays().filter(len))
def test_coded_column_gives_back_what_it_encoded(column: pa.Array) -> None:
    found = {value for value in column.to_pylist() if value is not None}
    coded = CodedColumn("x", pa.array(sorted(found), type=decode_dictionary(column).type), None in column.to_pylist())
    codes = coded.encode(column)
    assert codes.dtype == coded.code_type
    assert [coded.domain[code] for code in codes] == column.to_pylist()
    decoded = coded.decode(codes)
    assert decoded.to_pylist() == column.to_pylist()
    assert simplify_type(decoded.type) == coded.written_type


def test_coded_column_of_no_rows_is_empty() -> None:
    coded = CodedColumn("x", pa.array(["a", "b"]), has_missing=False)
    assert coded.decode(coded.encode(pa.array([], type=pa.string()))).to_pylist() == []


def test_values_listed_but_not_used_are_no_change_of_the_table() -> None:
    coded = CodedColumn("x", pa.array(["a", "b"]), has_missing=False)
    column = pa.DictionaryArray.from_arrays(pa.array([2, 1]), pa.array(["z", "a", "b"]))
    assert coded.encode(column).tolist() == [1, 0]


def test_decoded_dictionary_holds_only_values_that_occur_in_canonical_order() -> None:
    coded = CodedColumn("x", pa.array(["a", "b", "c", "d"]), has_missing=True)
    decoded = coded.decode(np.array([3, 1, 4, 3], dtype=np.uint8))
    assert decoded.to_pylist() == ["d", "b", None, "d"]
    assert decoded.dictionary.to_pylist() == ["b", "d"]


@pytest.mark.parametrize(
    ("column", "has_missing"),
    [(["a", "z"], True), (["a", None], False)],
    ids=["unknown value", "unexpected missing value"],
)
def test_value_not_seen_before_means_that_the_table_changed(column: Sequence[Any], has_missing: bool) -> None:
    coded = CodedColumn("x", pa.array(["a", "b"]), has_missing)
    with refuses(SourceError, "table-changed", column="x"):
        coded.encode(pa.array(column, type=pa.string()))


@pytest.mark.parametrize(("largest", "kind"), [(0, "u1"), (255, "u1"), (256, "u2"), (65_536, "u4"), (2**32, "u8")])
def test_codes_have_the_narrowest_type(largest: int, kind: str) -> None:
    assert find_smallest_type(largest) == np.dtype(kind)


@pytest.mark.parametrize("size", [254, 255, 256])
def test_code_type_has_room_for_the_unknown_value(size: int) -> None:
    coded = CodedColumn("x", pa.array(range(size)), has_missing=True)
    assert np.iinfo(coded.code_type).max >= size + 1
    assert coded.encode(pa.array([size - 1, None])).tolist() == [size - 1, size]
    with pytest.raises(SourceError):
        coded.encode(pa.array([size]))


@given(arrays())
def test_raw_column_carries_the_values_along(column: pa.Array) -> None:
    raw = RawColumn("x", decode_dictionary(column).type, has_missing=True)
    assert raw.to_file_values(raw.encode(column)).to_pylist() == column.to_pylist()
    carried = raw.encode(column).type  # of a whole group there may be more text than a plain string holds
    assert carried == (pa.large_string() if raw.written_type == pa.string() else raw.written_type)


# ----------------------------------------------------------------------------------------------------------------- bins


def slow_bin(value: Any, bins: Ranges) -> str | None:
    """The definition: `[a,b)` for all bins but the last, which is closed; None for the missing value."""
    pairs = list(itertools.pairwise(bins.parsed_edges))
    for label, (low, high), is_last in zip(bins.labels, pairs, [*[False] * (len(pairs) - 1), True], strict=True):
        if low <= value < high or (is_last and value == high):
            return label
    raise LookupError


def assert_binned(column: pa.Array, bins: Ranges, values: Sequence[Any]) -> None:
    """Compare with the definition; a column with any value outside is refused as a whole, with their number."""
    outside = 0
    expected = []
    for value in values:
        try:
            expected.append(None if value is None else slow_bin(value, bins))
        except LookupError:
            outside += 1
    for each in (column, column.dictionary_encode()):
        if outside:
            with refuses(SchemaError, "value-outside-ranges", column="x", values=outside):
                assign_bins(each, bins, "x")
        else:
            found = assign_bins(each, bins, "x")
            assert found.to_pylist() == expected
            assert found.dictionary.to_pylist() == list(bins.labels)


def edges(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[str]]:
    rising = st.lists(values, min_size=2, max_size=6, unique=True).map(sorted)
    return rising.map(lambda chosen: [str(edge) for edge in chosen])


near = st.integers(-12, 12)
halves = near.map(lambda number: number / 2)


@given(edges(st.one_of(near, halves)), st.lists(st.one_of(st.none(), near)))
@example(["-inf", "0.5", "inf"], [0, 1, None])
@example(["0.2", "0.8", "5"], [1, 5])
@example(["0.2", "0.8"], [0])
@example(["0", "0.5"], [1])
@example(["0", "300"], [127])
@example(["-1", "127", "300"], [127, 126])
@example(["0", "9" * 30], [5])
def test_whole_numbers_are_in_the_bins_that_hold_them(written: list[str], values: list[int | None]) -> None:
    for kind in (pa.int8(), pa.int64()):
        assert_binned(pa.array(values, type=kind), Ranges(tuple(written)), values)


LARGE = [2**63 - 1, 2**63 - 2, 2**53 + 1, 2**53, 0, -(2**63), 1 - 2**63]


@given(edges(st.sampled_from([*LARGE, 2**63, 2**64, 0.5])), st.lists(st.sampled_from(LARGE), min_size=1))
def test_large_whole_numbers_are_compared_exactly(written: list[str], values: list[int]) -> None:
    assert_binned(pa.array(values, type=pa.int64()), Ranges(tuple(written)), values)


@given(st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 2, 2**64 - 1]), min_size=1))
def test_unsigned_numbers_are_compared_exactly(values: list[int]) -> None:
    bins = Ranges(("-1", "1", str(2**64 - 1), str(2**65)))
    assert_binned(pa.array(values, type=pa.uint64()), bins, values)


@given(edges(st.one_of(near, halves)), st.lists(st.one_of(st.none(), halves)))
@example(["0", "1"], [float("inf")])
@example(["-inf", "inf"], [float("inf"), float("-inf"), 0.0])
def test_numbers_are_in_the_bins_that_hold_them(written: list[str], values: list[float | None]) -> None:
    assert_binned(pa.array(values, type=pa.float64()), Ranges(tuple(written)), values)


def test_single_precision_numbers_are_compared_as_what_they_are() -> None:
    column = pa.array([0.1, 0.7], type=pa.float32())
    assert_binned(column, Ranges(("0", "0.1", "0.7", "1")), column.to_pylist())
    assert_binned(column[:1], Ranges(("0", "0.1")), column[:1].to_pylist())  # a little above one tenth: outside


def test_not_a_number_is_in_no_bin_and_not_outside() -> None:
    assert assign_bins(pa.array([float("nan"), 0.5]), Ranges(("0", "1")), "x").to_pylist() == [None, "[0,1]"]


@given(st.lists(st.one_of(st.none(), st.integers(-12, 12).map(lambda tenths: Decimal(tenths) / 10))))
@example([Decimal("0.3"), Decimal("0.1")])
def test_decimals_are_compared_exactly(values: list[Decimal | None]) -> None:
    # 0.3 as a float is below three tenths, so floats would put it outside.
    bins = Ranges(("-1.2", "0.1", "0.3", "1.2"))
    places = [None if value is None else min(sum(value >= Decimal(edge) for edge in bins.edges), 3) for value in values]
    expected = [None if place is None else bins.labels[place - 1] for place in places]
    assert assign_bins(pa.array(values, type=pa.decimal128(4, 2)), bins, "x").to_pylist() == expected


DAYS = st.dates(datetime.date(2023, 12, 28), datetime.date(2024, 1, 4))
MOMENTS = st.datetimes(datetime.datetime(2023, 12, 31, 23), datetime.datetime(2024, 1, 1, 1))


@given(edges(DAYS), st.lists(st.one_of(st.none(), DAYS)))
@example(["0001-01-01", "9999-12-31"], [datetime.date.max, datetime.date.min])
def test_dates_are_in_the_bins_that_hold_them(written: list[str], values: list[datetime.date | None]) -> None:
    for kind in (pa.date32(), pa.date64()):
        assert_binned(pa.array(values, type=kind), Ranges(tuple(written)), values)


@given(edges(MOMENTS.map(lambda moment: moment.isoformat())), st.lists(st.one_of(st.none(), MOMENTS)))
def test_times_are_in_the_bins_that_hold_them(written: list[str], values: list[datetime.datetime | None]) -> None:
    for unit in ("us", "ns"):
        assert_binned(pa.array(values, type=pa.timestamp(unit)), Ranges(tuple(written)), values)


@given(edges(MOMENTS.map(lambda moment: moment.isoformat())), st.lists(MOMENTS))
def test_coarse_times_are_compared_with_finer_edges(written: list[str], values: list[datetime.datetime]) -> None:
    whole = [value.replace(microsecond=0) for value in values]
    assert_binned(pa.array(whole, type=pa.timestamp("s")), Ranges(tuple(written)), whole)


def test_dates_are_edges_of_times_and_times_of_dates() -> None:
    noon = datetime.datetime(2024, 1, 1, 12)
    bins = Ranges(("2024-01-01", "2024-01-02", "2024-01-03"))
    assert assign_bins(pa.array([noon], type=pa.timestamp("ms")), bins, "x").to_pylist() == ["[2024-01-01,2024-01-02)"]
    bins = Ranges(("2024-01-01T12:00", "2024-01-02T12:00"))
    assert assign_bins(pa.array([datetime.date(2024, 1, 2)]), bins, "x").to_pylist() == [bins.labels[0]]
    with refuses(SchemaError, "value-outside-ranges", column="x", values=1):
        assign_bins(pa.array([datetime.date(2024, 1, 1)]), bins, "x")


def test_times_with_an_offset_are_compared_as_moments() -> None:
    column = pa.array([datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)], type=pa.timestamp("us", "Asia/Tokyo"))
    bins = Ranges(("2024-01-01T00:00+00:00", "2024-01-01T14:00+02:00", "2024-01-02T00:00+00:00"))
    assert assign_bins(column, bins, "x").to_pylist() == [bins.labels[1]]


def test_nanoseconds_reach_into_bins_beyond_their_years() -> None:
    column = pa.array([datetime.datetime(2024, 1, 1)], type=pa.timestamp("ns"))
    bins = Ranges(("0001-01-01", "2024-01-01", "2500-01-01", "9999-12-31"))
    assert assign_bins(column, bins, "x").to_pylist() == ["[2024-01-01,2500-01-01)"]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array(["1"]), "0,2"),
        (pa.array([True]), "0,2"),
        (pa.array([datetime.time(1)]), "0,2"),
        (pa.array([datetime.date(2024, 1, 1)]), "0,2"),
        (pa.array([1]), "2024-01-01,2025-01-01"),
        (pa.array([1.5]), "2024-01-01,2025-01-01"),
        (pa.array([datetime.time(1)]), "2024-01-01,2025-01-01"),
    ],
)
def test_bins_of_another_kind_are_refused_by_the_type(column: pa.Array, text: str) -> None:
    with refuses(SchemaError, "ranges-do-not-fit", column="x"):
        assign_bins(column, Ranges.parse(text), "x")


# -------------------------------------------------------------------------------------------------------------- merging


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
@pytest.mark.parametrize(
    ("values", "label", "expected"),
    [
        ({"b"}, "x", ["a", "x", None, "a", "c"]),
        ({"b", "c"}, None, ["a", None, None, "a", None]),
        ({"b", None}, "x", ["a", "x", "x", "a", "c"]),  # the missing value is a value like any other
        ({"z"}, "x", ["a", "b", None, "a", "c"]),
        (set(), "x", ["a", "b", None, "a", "c"]),
    ],
)
def test_merged_values_are_published_as_one(
    kind: pa.DataType, values: set[str | None], label: str | None, expected: list[str | None]
) -> None:
    column = pa.array(["a", "b", None, "a", "c"]).cast(kind)
    assert merge_values(column, MergedValues(frozenset(values), label)).to_pylist() == expected


def test_numbers_can_be_left_blank() -> None:
    assert merge_values(pa.array([1, 2, None, 3]), MergedValues(frozenset({2, 3}), None)).to_pylist() == [
        1,
        None,
        None,
        None,
    ]


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=8)


@given(TEXTS, st.lists(st.sampled_from("abcdx"), unique=True), st.booleans(), st.booleans())
def test_wanted_values_are_numbered_by_their_places(
    column: list[str | None], wanted: list[str], is_encoded: bool, has_none_listed: bool
) -> None:
    """However the column is numbered itself: also in the same order as what is wanted."""
    array = pa.array(column, pa.string())
    if is_encoded:
        listed = [*wanted, *sorted({*"abcd"} - {*wanted}), *([None] if has_none_listed else [])]
        indices = [None if each is None and not has_none_listed else listed.index(each) for each in column]
        array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(listed, pa.string()))
    known = {**{value: place for place, value in enumerate(wanted)}, None: len(wanted)}
    found = encode_values(array, pa.array(wanted, pa.string()))
    assert found.tolist() == [known.get(value, len(wanted) + 1) for value in column]
    assert found.dtype == find_smallest_type(len(wanted) + 1)


WHOLE = st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint64()])


@given(WHOLE, st.data())
def test_wanted_whole_numbers_are_numbered_by_their_places(kind: pa.DataType, data: st.DataObject) -> None:
    """Also where they are the first or the last of their type, so that a difference does not fit into it."""
    least, most = (int(each) for each in (np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max))
    numbers = st.one_of(*(st.integers(max(near - 3, least), min(near + 3, most)) for near in (least, 0, 7, most)))
    wanted = data.draw(st.lists(numbers, unique=True))
    column = data.draw(st.lists(numbers | st.none(), max_size=20))
    known = {**{value: place for place, value in enumerate(wanted)}, None: len(wanted)}
    found = encode_values(pa.array(column, kind), pa.array(wanted, kind))
    assert found.tolist() == [known.get(value, len(wanted) + 1) for value in column]
    assert found.dtype == find_smallest_type(len(wanted) + 1)
