"""Persons are counted exactly, and their rows are chosen by the key and by nothing else."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from refusals import refuses
from selection import examples
from sfumato._core.random_draws import Draws
from sfumato._engines.local_engine import LocalEngine
from sfumato._profile.persons import PersonGrouping, PersonSelection, SelectedSource
from sfumato._readers.sources import MemorySource
from sfumato._request.person_rows import OneRow, PersonBasis, PersonRows, RowChoice, Surplus
from sfumato.errors import SchemaError, SourceError

FEW = settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
DRAWS = Draws.unsafe_test_key("a1" * 32)
FALSE_ALARM = 1e-6


def grouping(folder: Path, persons: list[Any], place: list[Any] | None = None, batch_rows: int = 7) -> PersonGrouping:
    columns = {"p": pa.array(persons), "row": pa.array(range(len(persons)))}
    if place is not None:
        columns["place"] = pa.array(place, pa.int64() if set(place) <= {None, *range(5)} else None)
    return PersonGrouping(LocalEngine(batch_rows), MemorySource(pa.table(columns)), "p", folder)


def chosen(found: PersonGrouping, rows: PersonRows, draws: Draws = DRAWS) -> list[int]:
    selection = found.select_rows(rows, draws)
    source, left_out = selection.source, selection.dropped_rows
    kept = [row for batch in source.read_batches(["row"], 5) for row in batch.column(0).to_pylist()]
    assert (source.rows, left_out) == (len(kept), found.source.rows - len(kept))  # type: ignore[operator]
    return kept


def counted(found: PersonGrouping, most: int) -> tuple[int, int, int, int]:
    counts = found.count_persons(most, DRAWS)
    return counts.persons, counts.repeated_persons, counts.most_rows, counts.missing_rows


persons = st.lists(st.integers(0, 8), min_size=1, max_size=60)


@FEW
@given(persons, st.integers(1, 4))
def test_persons_are_counted_as_a_counter_counts(tmp_path: Path, whose: list[int], most: int) -> None:
    counts = Counter(whose).values()
    expected = (len(counts), sum(count > most for count in counts), max(counts), 0)
    assert counted(grouping(tmp_path, whose), most) == expected


@FEW
@given(persons, st.integers(1, 4), st.integers(1, 9))
def test_as_many_rows_as_may_be_are_kept_whatever_the_batches(
    tmp_path: Path, whose: list[int], most: int, batch_rows: int
) -> None:
    rows = PersonRows(most, Surplus.DROP)
    kept = chosen(grouping(tmp_path, whose, batch_rows=batch_rows), rows)
    assert kept == sorted(kept) == chosen(grouping(tmp_path, whose), rows)
    counts = Counter(whose[row] for row in kept)
    assert counts == {person: min(count, most) for person, count in Counter(whose).items()}


@FEW
@given(st.data(), persons, st.sampled_from([RowChoice.FIRST, RowChoice.LAST]))
def test_one_row_is_an_extreme_one_and_what_is_missing_comes_last(
    tmp_path: Path, data: st.DataObject, whose: list[int], which: RowChoice
) -> None:
    place = data.draw(st.lists(st.none() | st.integers(0, 4), min_size=len(whose), max_size=len(whose)))
    kept = chosen(grouping(tmp_path, whose, place), PersonRows(one_row=OneRow(which, "place")))
    by_person = defaultdict(list)
    for row, person in enumerate(whose):
        by_person[person].append(place[row])
    assert len(kept) == len(by_person)
    best = min if which is RowChoice.FIRST else max
    for row in kept:
        known = [each for each in by_person[whose[row]] if each is not None]
        assert place[row] == (best(known) if known else None)


@pytest.mark.parametrize(
    "values",
    [
        [2.5, -1.0, 3.0],
        [datetime.date(2024, 1, day) for day in (2, 1, 3)],
        [Decimal(2), Decimal(1), Decimal(3)],
    ],
    ids=["numbers", "dates", "decimals"],
)
def test_rows_are_ordered_by_columns_of_any_type(tmp_path: Path, values: list[Any]) -> None:
    for which, row in ((RowChoice.FIRST, 1), (RowChoice.LAST, 2)):
        assert chosen(grouping(tmp_path, [7, 7, 7], values), PersonRows(one_row=OneRow(which, "place"))) == [row]


def test_numbers_beyond_38_digits_are_persons(tmp_path: Path) -> None:
    huge = pa.array([Decimal(10**60), Decimal(10**60 + 1), Decimal(10**60)], type=pa.decimal256(70, 0))
    found = PersonGrouping(LocalEngine(), MemorySource(pa.table({"p": huge})), "p", tmp_path)
    assert counted(found, 1) == (2, 1, 2, 0)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"\xffa", b"bb", b"\xffa", None], pa.binary(2)),
        pa.array([b"\xff", b"b", b"\xff", None]),
        pa.array([2**64 - 1, 1, 2**64 - 1, None], pa.uint64()),
        pa.array([0.0, 1.5, -0.0, float("nan")]),
        pa.array([Decimal("1.5"), Decimal("2"), Decimal("1.50"), None]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2]), pa.array(["a", "b", None])),
        pa.array([datetime.time(1), datetime.time(2), datetime.time(1), None]),
    ],
    ids=lambda values: str(values.type),
)
def test_persons_are_told_apart_by_values_of_any_type(tmp_path: Path, values: pa.Array) -> None:
    """In one batch and in several: two persons, of whom one has two rows, and a row of nobody."""
    for batch_rows in (1, 10):
        found = PersonGrouping(LocalEngine(batch_rows), MemorySource(pa.table({"p": values})), "p", tmp_path)
        assert counted(found, 1) == (2, 1, 2, 1)


def test_random_row_is_each_of_a_person_s_rows_equally_often(tmp_path: Path) -> None:
    """A chi-square test at a false alarm of 1e-6; and the row does not follow the order of arrival."""
    people, each = 2000, 4
    found = grouping(tmp_path, [number % people for number in range(people * each)], batch_rows=999)
    counts = np.bincount(
        [row // people for row in chosen(found, PersonRows(one_row=OneRow(RowChoice.RANDOM)))], minlength=each
    )
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    # The twin: always the first row that arrives.
    assert stats.chisquare([people, 0, 0, 0]).pvalue < FALSE_ALARM


@pytest.mark.slow
def test_ties_are_decided_by_the_key(tmp_path: Path) -> None:
    found = grouping(tmp_path, [1, 2] * 50, [3] * 100)
    rows = PersonRows(one_row=OneRow(RowChoice.FIRST, "place"))
    assert chosen(found, rows) == chosen(found, rows)
    kept = {tuple(chosen(found, rows, Draws.unsafe_test_key(f"{key:02x}" * 32))) for key in range(20)}
    assert len(kept) > 15


def test_rows_of_nobody_are_refused(tmp_path: Path) -> None:
    found = grouping(tmp_path, [1, None, 2, None])
    for rows in (PersonRows(), PersonRows(3), PersonRows(one_row=OneRow(RowChoice.RANDOM))):
        with refuses(SchemaError, "missing-person", column="p", rows=2):
            found.select_rows(rows, DRAWS)


def test_persons_with_more_rows_are_refused_with_how_many_there_are(tmp_path: Path) -> None:
    found = grouping(tmp_path, [1, 1, 1, 2, 2, 3])
    with refuses(SchemaError, "several-rows-per-person", column="p", repeated=2, persons=3, most=1, largest=3):
        found.select_rows(PersonRows(), DRAWS)
    with refuses(SchemaError, "several-rows-per-person", column="p", repeated=1, persons=3, most=2):
        found.select_rows(PersonRows(2), DRAWS)
    assert found.select_rows(PersonRows(3), DRAWS) == PersonSelection(found.source, 0, PersonBasis.COLUMN)


def test_table_that_grew_is_refused() -> None:
    source = SelectedSource(MemorySource(pa.table({"p": range(20)})), np.zeros(1, dtype=np.uint8), 0)
    with refuses(SourceError, "table-changed"):
        list(source.read_batches(["p"], 20))


def test_selection_has_the_columns_and_the_fingerprint_of_its_source() -> None:
    whole = MemorySource(pa.table({"p": range(20)}))
    some = SelectedSource(whole, np.array([255, 0, 0], dtype=np.uint8), 8)
    assert (some.schema, some.compute_fingerprint()) == (whole.schema, whole.compute_fingerprint())
    assert [row for batch in some.read_batches(["p"], 3) for row in batch.column(0).to_pylist()] == list(range(8))


def test_texts_have_no_first_row(tmp_path: Path) -> None:
    """Letter by letter 01.12.2023 would come before 31.01.2023, and 10 before 9."""
    with refuses(SchemaError, "rows-not-ordered", column="place", type="string"):
        chosen(
            grouping(tmp_path, [1, 1], ["31.01.2023", "01.12.2023"]),
            PersonRows(one_row=OneRow(RowChoice.FIRST, "place")),
        )


def test_huge_decimals_are_ordered_as_numbers(tmp_path: Path) -> None:
    place = pa.array([Decimal(10), Decimal(9)], type=pa.decimal256(70, 0))
    source = MemorySource(pa.table({"p": [1, 1], "row": [0, 1], "place": place}))
    assert chosen(
        PersonGrouping(LocalEngine(), source, "p", tmp_path), PersonRows(one_row=OneRow(RowChoice.FIRST, "place"))
    ) == [1]


def test_what_is_no_number_comes_last(tmp_path: Path) -> None:
    for which in (RowChoice.FIRST, RowChoice.LAST):
        found = grouping(tmp_path, [1, 1], [float("nan"), 2.5])
        assert chosen(found, PersonRows(one_row=OneRow(which, "place"))) == [1]


@pytest.mark.parametrize("nobody", ["", "  ", float("nan")])
def test_empty_texts_and_what_is_no_number_are_nobody(tmp_path: Path, nobody: Any) -> None:
    others = ["a", "b"] if isinstance(nobody, str) else [1.0, 2.0]
    for rows in (PersonRows(), PersonRows(one_row=OneRow(RowChoice.RANDOM))):
        with refuses(SchemaError, "missing-person", column="p", rows=1):
            grouping(tmp_path, [*others, nobody]).select_rows(rows, DRAWS)


def test_spaces_around_a_text_make_no_other_person(tmp_path: Path) -> None:
    assert counted(grouping(tmp_path, ["12", "12 ", " 12", "13"]), 1) == (2, 1, 3, 0)


@pytest.mark.parametrize(
    ("values", "basis"),
    [
        (list(range(1, 41)), PersonBasis.ROW_NUMBERS),
        (list(range(40)), PersonBasis.ROW_NUMBERS),
        ([(17 * row) % 40 for row in range(40)], PersonBasis.ROW_NUMBERS),
        ([float(row) for row in range(40)], PersonBasis.ROW_NUMBERS),
        ([f"{row:04d}" for row in range(1, 41)], PersonBasis.ROW_NUMBERS),
        ([f"P{row}" for row in range(40)], PersonBasis.COLUMN),
        (list(range(2, 42)), PersonBasis.COLUMN),
        ([*range(1, 40), 41], PersonBasis.COLUMN),
        ([*range(1, 40), 39], PersonBasis.COLUMN),
        ([row + 0.5 for row in range(40)], PersonBasis.COLUMN),
        ([*map(float, range(39)), float("inf")], PersonBasis.COLUMN),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value),
)
def test_person_column_that_numbers_the_rows_is_recognised(
    tmp_path: Path, values: list[Any], basis: PersonBasis
) -> None:
    found = grouping(tmp_path, values)
    assert found.select_rows(PersonRows(2), DRAWS).basis is basis
    assert found.select_rows(PersonRows(one_row=OneRow(RowChoice.RANDOM)), DRAWS).basis is basis
