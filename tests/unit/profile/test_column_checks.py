"""What a table is refused for, and what its holder is told."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from refusals import refuses
from sfumato._core.random_draws import Draws
from sfumato._profile.column_checks import (
    check_lines,
    check_rows,
    check_types,
    decide_sensitive_domain,
    decide_table_columns,
)
from sfumato._profile.table_profile import Counting, Profile, Profiler
from sfumato._profile.table_warnings import list_warnings, warn_of_frequent_values
from sfumato._readers.type_inference import OVERSIZED
from sfumato._records.column_codes import CodedColumn, RawColumn
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import OneRow, PersonCheck, PersonRows, RowChoice, Surplus
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import Schema
from sfumato.errors import SchemaError

BOUND = BreachBound("1/10", "1/2")


def profiled(**columns: Sequence[Any] | pa.Array) -> Profile:
    """The profile of a table whose last column is sensitive."""
    batch = pa.RecordBatch.from_pydict(columns)
    profiler = Profiler(Counting(batch.schema, batch.schema.names[-1], (), (), Draws.from_fresh_key()))
    profiler.add(batch, batch, np.arange(batch.num_rows, dtype=np.uint64))
    return profiler.build_profile()


def columns(schema: Schema, **given: Sequence[Any] | pa.Array) -> dict[str, CodedColumn | RawColumn]:
    return {column.name: column for column in decide_table_columns(profiled(**given), schema)}


# --------------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.int8(),
        pa.uint64(),
        pa.float32(),
        pa.decimal128(9, 2),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("ns", "UTC"),
        pa.null(),
    ],
    ids=str,
)
def test_plain_types_can_be_published(kind: pa.DataType) -> None:
    check_types(pa.schema([("x", kind)]), ["x"])


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.binary(),
        pa.time64("us"),
        pa.duration("s"),
        pa.struct([]),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_other_types_are_refused_unless_left_out(kind: pa.DataType) -> None:
    schema = pa.schema([("x", kind), ("y", pa.string())])
    with refuses(SchemaError, "unpublishable-type", column="x", type=str(kind)):
        check_types(schema, ["x", "y"])
    check_types(schema, ["y"])


def test_numbers_beyond_64_bits_are_refused() -> None:
    with refuses(SchemaError, "numbers-too-large", column="x"):
        check_types(pa.schema([("x", OVERSIZED)]), ["x"])


@pytest.mark.parametrize(("rows", "code"), [(0, "empty-table"), (1, "one-row-table")])
def test_table_of_too_few_rows_is_refused(rows: int, code: str) -> None:
    with refuses(SchemaError, code):
        check_rows(profiled(x=[1] * rows, s=["a"] * rows))


def test_table_of_two_rows_is_enough() -> None:
    check_rows(profiled(x=[1, 1], s=["a", "b"]))


# ------------------------------------------------------------------------------------------------------------- columns


def test_columns_have_their_values_in_canonical_order() -> None:
    found = columns(Schema.of("s", public="*"), x=[3, 1, None, 1, 3], s=["b", "a", "b", "a", "b"])
    assert found["x"] == CodedColumn("x", pa.array([1, 3]), has_missing=True)
    assert found["s"] == CodedColumn("s", pa.array(["a", "b"]), has_missing=False)


def test_binned_column_has_all_its_bins() -> None:
    schema = Schema.of("s", ranges={"x": Ranges(("0", "10", "20", "30"))}, public="*")
    found = columns(schema, x=["[0,10)", "[0,10)", "[20,30]", "[20,30]"], s=["a", "b", "a", "b"])
    assert found["x"].domain == ("[0,10)", "[10,20)", "[20,30]")


@pytest.mark.parametrize(("nulls", "has_missing"), [("value", True), ("drop", False), ("error", False)])
def test_missing_value_is_in_the_bins_of_the_sensitive_column_by_policy(nulls: str, has_missing: bool) -> None:
    schema = Schema.of("s", ranges={"s": Ranges(("0", "10", "20"))}, nulls=nulls, public="*")
    found = columns(schema, x=[1, 1, 1, 1], s=["[0,10)"] * 4)
    assert found["s"].domain == ("[0,10)", "[10,20]", *([None] if has_missing else []))


def test_declared_domain_keeps_its_order_and_its_unused_values() -> None:
    schema = Schema.of("s", domains={"s": ["c", None, "a", "b"]}, public="*")
    found = columns(schema, x=[1, 1, 1], s=["b", "a", "b"])
    assert found["s"].domain == ("c", "a", "b", None)


def test_column_of_too_many_values_is_carried_along_if_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", 3)
    given = {"x": pa.array([1, 2, 3, 4, None], type=pa.int16()), "s": ["a", "b", "a", "b", "a"]}
    with refuses(SchemaError, "nearly-unique", column="x", most_values=1 << 20):
        columns(Schema.of("s", public="*"), **given)
    assert columns(Schema.of("s", keep=["x"], public="*"), **given)["x"] == RawColumn("x", pa.int16(), has_missing=True)


def test_sensitive_column_of_too_many_values_is_refused_even_if_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", 3)
    profile, schema = profiled(x=[1, 1, 1, 1], s=["a", "b", "c", "d"]), Schema.of("s", keep=["s"], public="*")
    with refuses(SchemaError, "too-many-values", column="s"):
        decide_sensitive_domain(profile, schema, decide_table_columns(profile, schema), 0)


def test_columns_that_are_protected_each_for_itself_have_as_many_combinations_as_the_mechanism_takes() -> None:
    profile, schema = profiled(x=[1] * 6, s=list("ababab"), t=list("cddeec")), Schema.of(["s", "t"], public="*")
    columns = decide_table_columns(profile, schema)
    found = decide_sensitive_domain(profile, schema, columns, 6)
    assert found.is_independent
    assert found.sizes == (2, 3)
    assert found.domain == (("a", "c"), ("a", "d"), ("a", "e"), ("b", "c"), ("b", "d"), ("b", "e"))
    with refuses(SchemaError, "too-many-combinations", combinations=6):
        decide_sensitive_domain(profile, schema, columns, 5)


DAY = datetime.date(2024, 1, 1)


@pytest.mark.parametrize(
    ("values", "is_refused"),
    [
        (list(range(20)), False),
        (list(range(21)), True),
        ([float(number) for number in range(21)], True),
        ([DAY + datetime.timedelta(number) for number in range(21)], True),
        ([f"x{number}" for number in range(21)], False),
    ],
    ids=["20 numbers", "21 numbers", "21 floats", "21 days", "21 texts"],
)
def test_sensitive_column_of_many_numbers_needs_declared_values(values: list[Any], is_refused: bool) -> None:
    given = {"x": [1] * 2 * len(values), "s": values * 2}
    if is_refused:
        with refuses(SchemaError, "numbers-undeclared", column="s"):
            columns(Schema.of("s", public="*"), **given)
    else:
        columns(Schema.of("s", public="*"), **given)
    declared = columns(Schema.of("s", domains={"s": values}, public="*"), **given)["s"]
    assert isinstance(declared, CodedColumn)
    assert declared.domain == tuple(values)


@pytest.mark.parametrize(("alone", "is_refused"), [(5, False), (6, True), (10, True)])
def test_column_is_nearly_unique_if_most_records_are_alone(alone: int, is_refused: bool) -> None:
    values = [*range(alone), *[99] * (10 - alone)]
    schema = Schema.of("s", public="*")
    if is_refused:
        with refuses(SchemaError, "nearly-unique", column="x", unique=alone, records=10):
            columns(schema, x=values, s=["a", "b"] * 5)
    else:
        columns(schema, x=values, s=["a", "b"] * 5)
    columns(Schema.of("s", keep=["x"], public="*"), x=values, s=["a", "b"] * 5)


def test_missing_values_alone_are_refused() -> None:
    with refuses(SchemaError, "only-missing-values", column="x"):
        columns(Schema.of("s", public="*"), x=pa.nulls(2, pa.string()), s=["a", "b"])


@pytest.mark.parametrize(("values", "records", "is_refused"), [(1001, 4, True), (1000, 4, False), (1001, 5, False)])
def test_column_of_many_values_is_nearly_unique_if_most_records_share_theirs_with_three_at_most(
    values: int, records: int, is_refused: bool
) -> None:
    table = {"x": list(range(values)) * records, "s": [row % 2 for row in range(values * records)]}
    if is_refused:
        with refuses(SchemaError, "nearly-unique", column="x", unique=0, nearly_unique=values * records):
            columns(Schema.of("s", public="*"), **table)
    else:
        columns(Schema.of("s", public="*"), **table)


@pytest.mark.parametrize(("length", "is_refused"), [(1000, False), (1001, True)])
def test_long_values_are_refused_even_if_confirmed(length: int, is_refused: bool) -> None:
    schema = Schema.of("s", keep=["x", "s"], public="*")
    if is_refused:
        with refuses(SchemaError, "values-too-long", column="x", longest=1000):
            columns(schema, x=["☕" * length, "b"], s=["a", "b"])
    else:
        columns(schema, x=["☕" * length, "b"], s=["a", "b"])


@pytest.mark.parametrize("limit", ["MOST_VALUES", "MOST_BYTES"])
def test_texts_that_are_too_many_to_be_kept_are_looked_at_all_the_same(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"sfumato._profile.table_profile.{limit}", 3)
    schema, fine = Schema.of("s", keep=["x"], public="*"), ["some", "text", "and", "more"]
    assert isinstance(columns(schema, x=fine, s=["a", "b"] * 2)["x"], RawColumn)
    for place in range(4):
        long, broken = list(fine), list(fine)
        long[place], broken[place] = "x" * 1001, "a\nb"
        with refuses(SchemaError, "values-too-long", column="x", longest=1000):
            columns(schema, x=long, s=["a", "b"] * 2)
        with refuses(SchemaError, "line-breaks", column="x"):
            check_lines(profiled(x=broken, s=["a", "b"] * 2), Schema.of("s", public="*"))


@pytest.mark.parametrize("name", ["x", "s"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_line_breaks_are_refused_unless_confirmed(name: str, line_break: str) -> None:
    given: dict[str, Any] = {"n": [1, 2] * 2, "x": ["a", "b"] * 2, "s": ["a", "b"] * 2}
    check_lines(profiled(**given), Schema.of("s", public="*"))
    given[name] = ["a", f"a{line_break}b"] * 2
    with refuses(SchemaError, "line-breaks", column=name):
        check_lines(profiled(**given), Schema.of("s", public="*"))
    check_lines(profiled(**given), Schema.of("s", keep=[name], public="*"))


@pytest.mark.parametrize(
    "values",
    [pa.array([Decimal("0.1")] * 4), pa.array([1.5, 1.5, float("inf"), float("inf")])],
    ids=["decimal", "infinite"],
)
def test_numbers_that_are_no_categories_are_refused_only_where_they_are_protected(values: pa.Array) -> None:
    with refuses(SchemaError, "sensitive-decimals", column="s"):
        columns(Schema.of("s", public="*"), x=[1, 1, 1, 1], s=values)
    columns(Schema.of("s", public="*"), x=values, s=["a", "b", "a", "b"])


@pytest.mark.parametrize("name", ["x", "s"])
def test_times_finer_than_a_microsecond_are_refused(name: str) -> None:
    times = pa.array([1000, 2000] * 2, pa.timestamp("ns"))
    columns(Schema.of("s", public="*"), **{"x": ["a", "b"] * 2, "s": ["a", "b"] * 2, name: times})
    finer = pa.array([1000, 2001] * 2, pa.timestamp("ns"))
    with refuses(SchemaError, "times-too-fine", column=name):
        columns(Schema.of("s", public="*"), **{"x": ["a", "b"] * 2, "s": ["a", "b"] * 2, name: finer})


def test_missing_sensitive_values_are_an_error_on_request_only() -> None:
    given = {"x": [1, 1, 1, 1], "s": ["a", "a", None, "a"]}
    with refuses(SchemaError, "missing-values", column="s", records=1):
        columns(Schema.of("s", nulls="error", public="*"), **given)
    assert columns(Schema.of("s", nulls="value", public="*"), **given)["s"].domain == ("a", None)


def test_missing_public_values_are_no_error() -> None:
    found = columns(Schema.of("s", nulls="error", public="*"), x=[None, 1, None, 1], s=["a", "b", "a", "b"])
    assert found["x"].has_missing


# ------------------------------------------------------------------------------------------------------------- domains


@pytest.mark.parametrize(("more", "named"), [(3, "'0', '1', '2';"), (7, "'0', '1', '2', '3', '4' and 2 more;")])
def test_values_outside_the_domain_are_named_by_the_first_few(more: int, named: str) -> None:
    values = [str(number) for number in range(more)]
    with refuses(SchemaError, "value-outside-domain", column="s", values=more, declared_by="domain") as caught:
        columns(Schema.of("s", domains={"s": ["a"]}, keep=["s"], public="*"), x=[1] * (more + 2), s=[*values, "a", "a"])
    assert f"outside its declared domain: {named}" in caught.value.sentence_with_values


# ------------------------------------------------------------------------------------------------------------- notices


HISTOGRAM = Histogram(("a", "b", "c", None), (70, 10, 11, 9))


def said(schema: Schema, dropped: int = 0, persons: PersonCheck | None = None) -> list[str]:
    return [str(notice) for notice in list_warnings(schema, dropped, persons)]


def test_notice_of_an_observed_domain_is_spared_by_declaring_it() -> None:
    assert sum("was taken from the table" in notice for notice in said(Schema.of("s", public="*"))) == 1
    for schema in (
        Schema.of("s", domains={"s": ["a"]}, public="*"),
        Schema.of("s", ranges={"s": Ranges(("0", "1"))}, public="*"),
    ):
        assert not any("was taken from the table" in notice for notice in said(schema))


def test_notice_of_values_strictly_above_the_prior() -> None:
    (notice,) = warn_of_frequent_values(HISTOGRAM, BOUND, "s")
    assert "the prior 1/10: 'a', 'c'." in str(notice)
    assert (notice.code, notice.column) == ("frequent-values", "s")
    assert notice.numbers == {
        "values": 2,
        "prior": "1/10",
        "covered_share": pytest.approx(HISTOGRAM.count_within(BOUND.prior) / HISTOGRAM.total),
        "amplification": "9",
        "largest_belief": pytest.approx(21 / 22),
    }


def test_no_notice_of_frequent_values_where_there_are_none() -> None:
    even = Histogram(tuple("abcdefghij"), (10,) * 10)
    assert warn_of_frequent_values(even, BOUND, "s") == []


def test_notice_of_many_frequent_values_names_a_few() -> None:
    even = Histogram(tuple("abcdefgh"), (10,) * 8)
    (notice,) = warn_of_frequent_values(even, BOUND, "s")
    assert "'a', 'b', 'c', 'd', 'e' and 3 more." in str(notice)


def test_notice_of_unchecked_persons_is_spared_by_naming_them() -> None:
    assert sum("(`person=`)" in notice for notice in said(Schema.of("s", public="*"))) == 1
    assert not any("(`person=`)" in notice for notice in said(Schema.of("s", person="number", public="*")))


@pytest.mark.parametrize(
    "rows", [PersonRows(one_row=OneRow(RowChoice.RANDOM)), PersonRows(3, Surplus.DROP)], ids=["one row", "surplus"]
)
def test_notice_of_rows_that_were_chosen_says_how_many_are_left_out_and_to_keep_the_plan_file(rows: PersonRows) -> None:
    persons = PersonCheck.of(rows, 1234, ())
    (notice,) = (each for each in said(Schema.of("s", person="p", public="*"), persons=persons) if "1,234" in each)
    assert notice.startswith("1,234 rows are dropped")
    assert "`plan_file=`" in notice


def test_no_notice_of_chosen_rows_where_all_are_published() -> None:
    assert not any("dropped" in each for each in said(Schema.of("s", person="p", public="*"), persons=PersonCheck(3)))


def test_notice_of_records_left_out() -> None:
    assert said(Schema.of("s", public="*"), dropped=3)[0].startswith("3 records without a 's' were dropped.")
    assert not any("dropped" in notice for notice in said(Schema.of("s", public="*")))
