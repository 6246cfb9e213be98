"""Which recodings of public columns are proposed: counted exactly, from the public columns alone, best first."""

from __future__ import annotations

import ast
import datetime
import itertools
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._profile.ranges import assign_bins
from sfumato._profile.recoding_search import (
    LEAST_REDUCTION,
    MOST_STEPS,
    PublicColumn,
    Recoding,
    RecodingKind,
    search_recodings,
)
from sfumato._records.column_codes import encode_batch_values
from sfumato._request.range_edges import Ranges
from sfumato.cli.flags import name_flags

DRAWN = np.random.default_rng(5)


def public(columns: Mapping[str, Any], edges: Mapping[str, Sequence[str]] | None = None) -> list[PublicColumn]:
    """Columns as the search gets them; the values of those with edges are put into their ranges first."""
    made = []
    for name, values in columns.items():
        bounds = tuple((edges or {}).get(name, ()))
        array = pa.array(values)
        if bounds:
            array = assign_bins(array, Ranges(bounds), name)
        codes, distinct = encode_batch_values(array)
        made.append(PublicColumn(name, codes.astype(np.int64), distinct, bounds))
    return made


def unique_share(columns: Mapping[str, Any], recodings: Sequence[Recoding] = (), rows_each: int = 1) -> float:
    """The share of records that at most `rows_each` share after some recodings, record by record."""
    shown = {name: pa.array(values).to_pylist() for name, values in columns.items()}
    for recoding in recodings:
        if recoding.edges is None:
            del shown[recoding.column]
        else:
            binned = assign_bins(pa.array(columns[recoding.column]), Ranges(recoding.edges), recoding.column)
            shown[recoding.column] = binned.to_pylist()
    records = [*zip(*shown.values(), strict=True)] if shown else [()] * len(next(iter(columns.values())))
    sizes = Counter(records)
    return sum(sizes[record] <= rows_each for record in records) / len(records)


def entropy(values: Sequence[object]) -> float:
    shares = [count / len(values) for count in Counter(values).values()]
    return -sum(share * math.log(share) for share in shares)


def hospital(rows: int) -> dict[str, Any]:
    """Age, sex, weight, ward and the day of admission of generated patients."""
    days = DRAWN.integers(0, 1095, rows)
    return {
        "age": np.clip(DRAWN.normal(50, 20, rows), 0, 99).astype(int),
        "sex": DRAWN.choice(["F", "M"], rows),
        "weight": np.clip(DRAWN.normal(76, 15, rows), 35, 160).astype(int),
        "ward": DRAWN.choice(["surgery", "medicine", "cardiology"], rows),
        "admission": [datetime.date(2022, 1, 1) + datetime.timedelta(days=int(day)) for day in days],
    }


@given(
    rows=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.none() | st.integers(-9, 9)), min_size=1),
    rows_each=st.integers(1, 3),
)
@settings(max_examples=examples(60))
def test_shares_are_those_of_the_recoded_records(rows: list[tuple[int, str, int | None]], rows_each: int) -> None:
    """By themselves and combined, also with missing values and several rows of a person."""
    age, letter, number = (list(values) for values in zip(*rows, strict=True))
    columns = {"age": age, "letter": letter, "number": pa.array(number, pa.int64())}
    found = search_recodings(public(columns), rows_each)
    assert found.records == len(rows)
    for recoding in found.single:
        assert recoding.unique_share_before == unique_share(columns, (), rows_each)
        assert recoding.unique_share_after == unique_share(columns, [recoding], rows_each)
    for number_of_steps, recoding in enumerate(found.combined):
        assert recoding.unique_share_before == unique_share(columns, found.combined[:number_of_steps], rows_each)
        assert recoding.unique_share_after == unique_share(columns, found.combined[: number_of_steps + 1], rows_each)


def test_loss_is_the_share_of_the_entropy_and_ranks_the_changes() -> None:
    columns = hospital(3000)
    del columns["admission"]
    found = search_recodings(public(columns)).single
    for recoding in found:
        after = [0] * 3000
        if recoding.edges is not None:
            binned = assign_bins(pa.array(columns[recoding.column]), Ranges(recoding.edges), recoding.column)
            after = binned.to_pylist()
        assert recoding.loss == pytest.approx(1 - entropy(after) / entropy(list(columns[recoding.column])))
    gains = [(item.unique_share_before - item.unique_share_after) / item.loss for item in found]
    assert gains == sorted(gains, reverse=True)
    assert all(item.unique_share_after <= (1 - LEAST_REDUCTION) * item.unique_share_before for item in found)


def test_ages_are_grouped_by_fives_tens_and_twenties_and_dates_by_month_quarter_and_year() -> None:
    """Edges are round, and the outer ones hold every value."""
    columns = {"age": [*range(18, 98)] * 25, "day": hospital(2000)["admission"]}
    edges = {
        item.edges: item.kind
        for name, values in columns.items()
        for item in search_recodings(public({name: values, "row": DRAWN.integers(0, 3, 2000)}), 20).single
        if item.edges is not None and item.column == name
    }
    assert set(edges.values()) == {RecodingKind.RANGES}
    widths = set()
    for bounds in edges:
        inner = Ranges(bounds).parsed_edges[1:-1]
        if isinstance(inner[0], datetime.date):
            assert {day.day for day in inner} == {1}
            months = {12 * (b.year - a.year) + b.month - a.month for a, b in itertools.pairwise(inner)}
        else:
            months = {b - a for a, b in itertools.pairwise(inner)}
            assert (bounds[0], bounds[-1]) == ("0", "inf")
        widths |= {(type(inner[0]).__name__, *months)}
    assert widths == {("int", 5), ("int", 10), ("int", 20), ("date", 1), ("date", 3), ("date", 12)}


def test_ranges_become_wider_where_there_are_ranges() -> None:
    edges = [str(edge) for edge in range(0, 101, 10)]
    columns = {"age": DRAWN.integers(0, 100, 400), "code": DRAWN.integers(0, 30, 400).astype(str)}
    found = search_recodings(public(columns, {"age": edges})).single
    wider = {item.edges: item for item in found if item.kind is RecodingKind.WIDER_RANGES}
    assert {*wider} == {("0", "20", "40", "60", "80", "100"), ("0", "40", "80", "100")}
    for bounds, item in wider.items():
        binned = assign_bins(pa.array(columns["age"]), Ranges(bounds), "age").to_pylist()
        assert item.unique_share_after == unique_share({"age": binned, "code": columns["code"]})
    assert not any(item.kind is RecodingKind.RANGES for item in found)


def test_column_without_values_and_text_are_only_dropped() -> None:
    columns = {"number": [*range(40)], "text": [f"t{place % 7}" for place in range(40)]}
    first, second = public(columns)
    found = search_recodings([PublicColumn("number", first.codes), second])
    assert {item.column for item in found.single} == {"number"}
    assert [item.kind for item in found.single] == [RecodingKind.DROP]


def test_last_public_column_is_never_dropped() -> None:
    """A table without any is refused."""
    (only,) = public({"name": [f"n{place}" for place in range(9)]})
    assert search_recodings([only]).single == ()
    columns = {
        name: [f"{name}{place % size}" for place in range(30)] for name, size in (("a", 30), ("b", 29), ("c", 28))
    }
    found = search_recodings(public(columns))
    assert len(found.combined) < 3
    assert len({item.column for item in found.combined}) == len(found.combined)


def test_combination_gets_on_where_no_change_helps_by_itself() -> None:
    """Two columns that are each unique: without one of them, the other still is."""
    rows = 400
    columns = {"a": DRAWN.permutation(rows), "b": DRAWN.permutation(rows), "c": DRAWN.integers(0, 2, rows)}
    found = search_recodings(public(columns))
    assert found.single == ()
    assert 1 < len(found.combined) <= MOST_STEPS
    assert found.combined[0].unique_share_after > 0.9
    assert found.combined[-1].unique_share_after < 0.9


def test_more_rows_of_a_person_make_fewer_common() -> None:
    columns = hospital(2000)
    shares = [search_recodings(public(columns), rows).combined[2].unique_share_before for rows in (1, 4)]
    assert shares[0] < shares[1]


def test_settings_are_options_and_arguments_that_are_accepted() -> None:
    drop = Recoding("weight in kg", RecodingKind.DROP, None, 0.1, 0.0, 1.0)
    group = Recoding("age", RecodingKind.RANGES, ("0", "10", "inf"), 0.1, 0.0, 0.5)
    assert drop.setting == "`drop=['weight in kg']`"
    assert group.setting == "`ranges={'age': '0,10,inf'}`"
    assert name_flags(drop.setting) == "--drop 'weight in kg'"
    assert name_flags(group.setting) == "--ranges age=0,10,inf"
    (edges,) = ast.literal_eval(group.setting.strip("`").removeprefix("ranges=")).values()
    assert Ranges.of(edges).edges == group.edges


@pytest.mark.slow
def test_two_hundred_thousand_records_of_twenty_columns_take_seconds() -> None:
    columns = hospital(200_000) | {f"x{place}": DRAWN.integers(0, 5 + 20 * place, 200_000) for place in range(15)}
    given_columns = public(columns)
    start = time.process_time()
    search_recodings(given_columns)
    assert time.process_time() - start < 20  # on a busy machine; about one second on two idle cores
