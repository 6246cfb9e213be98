"""Declared domains: their type and spelling come from the declaration alone, and columns are brought to it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from refusals import refuses
from sfumato._profile.declared_domains import cast_column_to_domain, cast_to_domain, make_typed_domain
from sfumato._records.column_codes import decode_dictionary
from sfumato.errors import SchemaError

DAY, NOON = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12)


@pytest.mark.parametrize(
    ("declared", "kind", "values"),
    [
        (["b", "a"], pa.string(), ["b", "a"]),
        (["042", "250"], pa.string(), ["042", "250"]),
        (["2", "1"], pa.int64(), [2, 1]),
        (["2", "1", "n/a"], pa.string(), ["2", "1", "n/a"]),
        (["0.5", "1"], pa.float64(), [0.5, 1.0]),
        (["true", "false"], pa.bool_(), [True, False]),
        (["True", "False"], pa.string(), ["True", "False"]),
        (["2024-02-29"], pa.date32(), [DAY]),
        (["2023-02-29"], pa.string(), ["2023-02-29"]),
        (["2024-02-29 12:00", "2024-02-29T00:00:00"], pa.timestamp("us"), [NOON, NOON.replace(hour=0)]),
        (["2024-02-29T12:00:00Z"], pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=datetime.UTC)]),
        (["9" * 30, "1"], pa.string(), ["9" * 30, "1"]),
        (["a", None], pa.string(), ["a"]),
        ([], pa.string(), []),
        ([2, 1], pa.int64(), [2, 1]),
        ([1, 2**63], pa.uint64(), [1, 2**63]),
        ([0.5, 1], pa.float64(), [0.5, 1.0]),
        ([True, False], pa.bool_(), [True, False]),
        ([DAY], pa.date32(), [DAY]),
    ],
    ids=str,
)
def test_type_of_a_domain_is_that_of_all_its_values(declared: list[Any], kind: pa.DataType, values: list[Any]) -> None:
    domain = make_typed_domain("s", declared)
    assert (domain.type, domain.to_pylist()) == (kind, values)


def test_domain_is_one_of_texts_on_request() -> None:
    assert make_typed_domain("s", ["1", "2", None], is_text=True).to_pylist() == ["1", "2"]
    assert make_typed_domain("s", [1, 2], is_text=True).to_pylist() == ["1", "2"]


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ([1, "1"], "domain-of-several-types"),
        ([True, 2], "domain-of-several-types"),
        ([-1, 2**63], "domain-of-several-types"),
        ([b"a"], "unpublishable-type"),
        ([(1, 2)], "unpublishable-type"),
        ([float("nan"), 1.0], "domain-not-finite"),
        (["1e400", "1"], "domain-not-finite"),
        (["a", "a"], "repeated-value"),
        (["1", "1.0"], "repeated-value"),
        ([0.0, -0.0], "repeated-value"),
        ([None, "a", None], "repeated-value"),
    ],
    ids=str,
)
def test_domain_that_is_none_is_refused(declared: list[Any], code: str) -> None:
    with refuses(SchemaError, code, column="s"):
        make_typed_domain("s", declared)


@pytest.mark.parametrize(
    ("given", "declared", "values"),
    [
        # As CSV has them: a whole number may be written with a fraction, as pandas does beside missing values.
        (pa.array(["1", "1.0", "01", "1.5", "x", "", "9" * 30]), ["1", "2"], [1, 1, None, None, None, None, None]),
        (pa.array(["1", "1.50", "1e1", "01"]), ["1.5", "1"], [1.0, 1.5, 10.0, None]),
        (pa.array(["2024-02-29", "29.2.2024"]), ["2024-02-29"], [DAY, None]),
        (pa.array(["true", "True", "FALSE", "1"]), ["true", "false"], [True, True, False, None]),
        (pa.array([True, False]), ["True", "False", "unknown"], ["True", "False"]),
        (pa.array([NOON], pa.timestamp("ns")), ["2024-02-29 12:00", "never"], ["2024-02-29 12:00"]),
        (pa.array([1.0, 1.5, 1e300]), ["1", "2"], [1, None, None]),
        (pa.array([1, 2], pa.int8()), [1, 2], [1, 2]),
        (pa.array([1, 2**63], pa.uint64()), [1, 2], [1, None]),
        (pa.array([0, 1, 2]), [True, False], [False, True, None]),
        (pa.array([42, 250]), ["042", "250"], ["42", "250"]),
        (pa.array([DAY]), ["2024-02-29", "never"], ["2024-02-29"]),
        (pa.array([NOON, NOON.replace(hour=0)]), [DAY], [None, DAY]),
        (pa.array([NOON], pa.timestamp("ns")), [NOON], [NOON]),
        (pa.array([NOON], pa.timestamp("us", "UTC")), [NOON], [None]),
        (pa.array([Decimal("0.10"), Decimal("0.25")]), ["0.1", "0.25"], [0.1, 0.25]),
        (pa.array([0.1, 0.3], pa.float32()), ["0.1", "0.2"], [0.1, pytest.approx(0.3)]),
        (pa.nulls(2), ["1", "2"], [None, None]),
    ],
    ids=str,
)
def test_values_fit_a_domain_if_they_are_the_same_in_its_type(
    given: pa.Array, declared: list[Any], values: list[Any]
) -> None:
    domain = make_typed_domain("s", declared)
    found = cast_to_domain(given, domain)
    assert found.type == domain.type
    assert found.to_pylist() == values


def test_numbers_that_a_narrow_type_cannot_tell_apart_are_not_taken_for_each_other() -> None:
    close = [0.1, 0.1 + 1e-12]
    assert cast_to_domain(pa.array([0.1], pa.float32()), make_typed_domain("s", close)).to_pylist() == [
        pytest.approx(0.1, abs=1e-8)
    ]
    assert cast_to_domain(pa.array([0.1], pa.float32()), make_typed_domain("s", close))[0].as_py() not in close


def test_column_is_brought_to_its_domain_with_its_missing_values() -> None:
    for given in (["2", None, "1.0", "2"], [2.0, None, 1.0, 2.0]):
        column = cast_column_to_domain(pa.array(given), make_typed_domain("s", ["1", "2"]), "s")
        assert decode_dictionary(column).to_pylist() == [2, None, 1, 2]


def test_value_that_no_row_has_need_not_fit() -> None:
    listed = pa.DictionaryArray.from_arrays(pa.array([0, 0, None], pa.int8()), pa.array(["1", "unused"]))
    assert decode_dictionary(cast_column_to_domain(listed, make_typed_domain("s", ["1"]), "s")).to_pylist() == [
        1,
        1,
        None,
    ]
    with refuses(SchemaError, "values-of-another-type", column="s", type="integer", values=1):
        cast_column_to_domain(listed.dictionary_decode().fill_null("unused"), make_typed_domain("s", ["1"]), "s")
