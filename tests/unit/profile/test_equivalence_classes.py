"""How many records share all their public columns: exact while combinations are few, estimated from a sketch beyond."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core.array_types import RandomBits
from sfumato._core.random_draws import Draws
from sfumato._profile import equivalence_classes, table_profile
from sfumato._profile.equivalence_classes import (
    ClassSizeShares,
    ClassSizeSketch,
    HashCache,
    Uniqueness,
    compute_unique_without,
    count_distinct,
    count_unique,
    hash_numbers,
)
from sfumato._profile.table_profile import Counting, Profiler
from sfumato._records.column_codes import encode_batch_values
from strategies import batch_splits

SALT = np.uint64(12345)
OTHER_SALT = np.uint64(54321)


def shares(sizes: Sequence[int], records: int) -> list[float]:
    """The shares of the records in groups of at most 1, 4 and 10, from the sizes of all groups."""
    return [sum(size for size in sizes if size <= few) / records for few in (1, 4, 10)]


def found_shares(found: ClassSizeShares) -> list[float]:
    return [found.unique_share, found.below_5, found.below_11]


# ----------------------------------------------------------------------------------------------------------- the sketch


def collected(hashes: RandomBits, cuts: Sequence[range]) -> ClassSizeSketch:
    """What sketches of each cut find together: some were sorted before, some were not."""
    combinations = ClassSizeSketch()
    for number, cut in enumerate(cuts):
        piece = ClassSizeSketch()
        piece.add(hashes[cut.start : cut.stop])
        if number % 2:
            piece.compute_shares(0)
        combinations.merge(piece)
    return combinations


@given(st.data(), st.lists(st.integers(0, 30), min_size=1, max_size=120))
def test_few_combinations_are_counted_exactly_however_rows_were_cut(data: st.DataObject, held: list[int]) -> None:
    hashes = hash_numbers(np.array(held), SALT)
    found = collected(hashes, data.draw(batch_splits(len(held)))).compute_shares(len(held))
    assert found_shares(found) == pytest.approx(shares(list(Counter(held).values()), len(held)))
    assert found.is_exact


def test_nobody_is_alike_in_no_records() -> None:
    assert ClassSizeSketch().compute_shares(0) == ClassSizeShares(0.0, 0.0, 0.0)


@given(st.data(), st.lists(st.integers(0, 60), min_size=1, max_size=200))
def test_sketch_does_not_depend_on_how_rows_were_cut(data: st.DataObject, held: list[int]) -> None:
    hashes = hash_numbers(np.array(held), SALT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equivalence_classes, "MOST_COMBINATIONS", 16)
        whole = collected(hashes, [range(len(held))]).compute_shares(len(held))
        assert collected(hashes, data.draw(batch_splits(len(held)))).compute_shares(len(held)) == whole
    assert whole.is_exact == (len(set(held)) <= 16)


@given(st.data(), st.lists(st.integers(0, 60), min_size=1, max_size=200))
def test_combinations_of_a_full_sketch_have_all_their_records(data: st.DataObject, held: list[int]) -> None:
    """Those with the smallest hashes are kept, and none of their records is lost on the way."""
    hashes = hash_numbers(np.array(held), SALT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equivalence_classes, "MOST_COMBINATIONS", 16)
        sketch = collected(hashes, data.draw(batch_splits(len(held))))
        sketch.compute_shares(len(held))
    expected = sorted(Counter(hashes.tolist()).items())[:16]
    assert list(zip(sketch.hashes.tolist(), sketch.counts.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 30)), min_size=1, max_size=60), st.integers(0, 2**64 - 1))
def test_sketch_of_one_large_batch_is_that_of_all_its_records(many: list[tuple[int, int]], salt: int) -> None:
    """Whether the smallest hashes are few because many are equal, or enough of them are met at once."""
    held = np.repeat(*np.array(many).T)
    hashes = hash_numbers(held, np.uint64(salt))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equivalence_classes, "MOST_COMBINATIONS", 4)
        sketch = collected(hashes, [range(len(held))])
        sketch.compute_shares(len(held))
    ranked = sorted(Counter(hashes.tolist()).items())
    assert list(zip(sketch.hashes.tolist(), sketch.counts.tolist(), strict=True)) == ranked[:4]
    assert sketch.hash_limit == (ranked[4][0] if len(ranked) > 4 else 1 << 64)


def test_of_a_table_that_is_known_to_be_large_fewer_combinations_are_kept() -> None:
    assert (
        ClassSizeSketch(equivalence_classes.MANY_RECORDS).capacity
        == ClassSizeSketch().capacity
        == equivalence_classes.MOST_COMBINATIONS
    )
    assert (
        ClassSizeSketch(equivalence_classes.MANY_RECORDS + 1).capacity
        == equivalence_classes.FEWER_COMBINATIONS
        < equivalence_classes.MOST_COMBINATIONS
    )


def test_estimate_never_says_more_than_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence_classes, "MOST_COMBINATIONS", 8)
    for salt in range(50):
        sketch = ClassSizeSketch()
        sketch.add(hash_numbers(np.arange(100), np.uint64(salt)))
        assert 0 < sketch.compute_shares(100).unique_share <= 1


# ----------------------------------------------------------------------------------------------------------- the hashes

MOMENT = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
COLUMNS: Mapping[str, pa.Array] = {
    "integers": pa.array([3, -1, None, 0, 3, 2**62], pa.int64()),
    "small integers": pa.array([3, -1, None, 0, 3, 100], pa.int8()),
    "large integers": pa.array([2**64 - 1, 2**63, None, 0, 2**64 - 1, 1], pa.uint64()),
    "numbers": pa.array([0.5, -2.0, None, 0.0, 0.5, 1e300]),
    "short numbers": pa.array([0.5, -2.0, None, 0.0, 0.5, 8.0], pa.float32()),
    "decimals": pa.array([Decimal("1.50"), Decimal("-2"), None, Decimal(0), Decimal("1.50"), Decimal("9.99")]),
    "dates": pa.array([datetime.date(2020, 1, day) if day else None for day in (1, 2, 0, 4, 1, 6)]),
    "long dates": pa.array([datetime.date(2020, 1, day) if day else None for day in (1, 2, 0, 4, 1, 6)], pa.date64()),
    "times": pa.array([MOMENT + datetime.timedelta(hours=hours) if hours else None for hours in (1, 2, 0, 4, 1, 6)]),
    "truths": pa.array([True, False, None, False, True, None]),
    "only missing": pa.array([None] * 6, pa.float64()),
    "texts": pa.array(["flu", "a text of more than eight bytes", None, "", "flu", "ulf"]),
    "texts that begin alike": pa.array(["a text of ", "a text of \0", None, "a text o", "a text of ", "f a text o"]),
    "zeros": pa.array(["", "\0", None, "\0\0", "", "\0" * 8]),
    "exchanged words": pa.array(["abcdefghABCDEFGH", "ABCDEFGHabcdefgh", None, "x", "abcdefghABCDEFGH", "y"]),
}


def row_words(column: pa.Array, salt: np.uint64 = SALT) -> list[int]:
    codes, values = encode_batch_values(column)
    return [int(word) for word in HashCache(salt)(values).take(codes)]


@pytest.mark.parametrize("name", COLUMNS)
def test_words_are_equal_where_values_are_and_nowhere_else(name: str) -> None:
    column = COLUMNS[name]
    words, values = row_words(column), column.to_pylist()
    assert [[one == other for other in words] for one in words] == [
        [one == other for other in values] for one in values
    ]


@pytest.mark.parametrize("name", COLUMNS)
def test_words_of_values_do_not_depend_on_batches(name: str) -> None:
    column = COLUMNS[name]
    whole = row_words(column)
    for cut in range(len(column) + 1):
        assert [*row_words(column.slice(0, cut)), *row_words(column.slice(cut))] == whole
    assert row_words(column.take(pa.array([5, 4, 3, 2, 1, 0]))) == whole[::-1]
    assert row_words(column.dictionary_encode()) == whole


@pytest.mark.parametrize("name", COLUMNS)
def test_words_of_two_columns_are_not_those_of_one(name: str) -> None:
    """So that a swap of two columns is another combination."""
    assert set(row_words(COLUMNS[name])).isdisjoint(row_words(COLUMNS[name], OTHER_SALT))


def test_zero_has_one_sign_and_what_is_no_number_is_missing() -> None:
    plus, minus, missing, nothing = row_words(pa.array([0.0, -0.0, None, float("nan")]))
    assert plus == minus != missing == nothing


def test_missing_value_is_no_number() -> None:
    """Not even among all small numbers, whatever the key."""
    for salt in map(np.uint64, range(50)):
        numbers = row_words(pa.array([*range(-100, 100), None]), salt)
        assert len(set(numbers)) == 201


def test_words_are_those_of_the_values_that_are_asked_for_and_not_of_the_last_ones() -> None:
    known = HashCache(SALT)
    for values in (["a", "b"], ["a", "b"], ["b", "a"], ["a"], ["a", "b"]):
        assert known(pa.array(values)).tolist() == HashCache(SALT)(pa.array(values)).tolist()


# ------------------------------------------------------------------------------------------- columns with many values


@pytest.mark.parametrize("cuts", [[60, 3, 37], [3, 60, 37], [100], [1] * 100], ids=str)
@pytest.mark.parametrize(("values", "expected"), [(100, (1.0, 1.0, 1.0)), (50, (0.0, 1.0, 1.0))], ids=str)
def test_values_that_are_not_counted_any_more_still_tell_who_is_alike(
    values: int, expected: tuple[float, ...], cuts: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch, and a small one after it: everybody has a value of their own, or shares it with another."""
    monkeypatch.setattr(table_profile, "MOST_VALUES", 20)
    table = pa.RecordBatch.from_pydict({"wide": [row % values for row in range(100)], "held": ["x", "y"] * 50})
    profiler, first = Profiler(Counting(table.schema, "held", (), (), Draws.unsafe_test_key("5f" * 32))), 0
    for cut in cuts:
        batch = table.slice(first, cut)
        profiler.add(batch, batch, np.arange(first, first + cut, dtype=np.uint64))
        first += cut
    found = profiler.build_profile()
    assert (found.class_sizes, found.columns["wide"].is_wide) == (ClassSizeShares(*expected), True)


# -------------------------------------------------------------------------------------------------- without one column


def brute_alone(rows: Sequence[tuple[int, ...]]) -> float:
    return sum(count for count in Counter(rows).values() if count == 1) / len(rows)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=60))
def test_who_would_be_alone_without_a_column_is_counted(rows: list[tuple[int, ...]]) -> None:
    columns = {name: np.array(codes) for name, codes in zip("abc", zip(*rows, strict=True), strict=True)}
    expected = {name: brute_alone([row[:at] + row[at + 1 :] for row in rows]) for at, name in enumerate("abc")}
    found = compute_unique_without(columns, len(rows), 3)
    assert found == pytest.approx(expected)
    assert list(found.values()) == sorted(found.values())
    assert list(compute_unique_without(columns, len(rows), 2).items()) == list(found.items())[:2]


def test_without_the_only_column_nobody_is_alone() -> None:
    columns: dict[str, Any] = {"a": np.arange(5, dtype=np.uint8)}
    assert compute_unique_without(columns, 5, 3) == {"a": 0.0}
    assert compute_unique_without({}, 5, 3) == {}


@given(st.lists(st.sampled_from([0, 1, 2, 2**44, 2**63, 2**63 + 1, 2**64 - 1]), max_size=40), st.integers(1, 3))
def test_words_that_occur_few_times_are_counted_though_others_begin_alike(words: list[int], rows_each: int) -> None:
    expected = sum(count for count in Counter(words).values() if count <= rows_each)
    assert count_unique(np.array(words, dtype=np.uint64), rows_each) == expected


@given(st.lists(st.integers(0, 9), max_size=40))
def test_different_words_come_in_rising_order_with_their_counts(words: list[int]) -> None:
    found, counts = count_distinct(np.array(words, dtype=np.uint64))
    assert list(zip(found.tolist(), counts.tolist(), strict=True)) == sorted(Counter(words).items())


def test_few_who_are_alone_are_not_told_as_nobody() -> None:
    """Four of 20,000 are 0.02%, which is not 0.0%."""
    found = Uniqueness(ClassSizeShares(0.0002, 0.004, 0.00401), ClassSizeShares(0.00001, 0.5, 0.9), {}, 20_000)
    assert found.sentence.startswith("0.02% of the records are unique on the public columns.")
    assert "same public columns hold 0.4%" in found.sentence
    assert found.sentence.endswith("below 0.01% of the records were unique.")
