from __future__ import annotations

import datetime
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._core.cell_values import (
    JsonValue,
    Value,
    build_domain_array,
    display,
    find_field_type,
    to_json,
    values_from_json,
    values_to_json,
)
from sfumato.errors import ReleaseFormatError
from strategies import domains, field_types, values


@given(st.data())
def test_values_come_back_from_json_equal_and_of_the_same_type(data: st.DataObject) -> None:
    kind = data.draw(field_types())
    domain = data.draw(domains(kind, min_size=0))
    written = json.dumps(values_to_json(domain), allow_nan=False)
    back = values_from_json(json.loads(written), [kind])
    assert back == domain
    assert [type(value) for value in back] == [type(value) for value in domain]


@given(values())
def test_values_of_every_type_can_be_written_as_json(value: Value) -> None:
    assert json.loads(json.dumps(to_json(value), allow_nan=False)) == to_json(value)


@pytest.mark.parametrize(("value", "name"), [(math.nan, "NaN"), (math.inf, "INF"), (-math.inf, "-INF")])
def test_what_is_no_number_in_json_is_written_by_its_name(value: float, name: str) -> None:
    """The names of the Data Package standard, which are those of XML Schema."""
    assert to_json(value) == name


def test_a_datetime_keeps_its_offset_and_its_microseconds() -> None:
    moment = datetime.datetime(2020, 2, 29, 23, 59, 58, 7, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
    assert to_json(moment) == "2020-02-29T23:59:58.000007+05:00"
    assert values_from_json([to_json(moment)], ["datetime"]) == (moment,)


def test_a_number_written_without_a_point_is_read_as_a_float() -> None:
    (value,) = values_from_json([3], ["number"])
    assert isinstance(value, float)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 3),
        ("string", True),
        ("integer", "3"),
        ("integer", 3.5),
        ("integer", True),
        ("number", "3.5"),
        ("number", False),
        pytest.param("number", 10**400, id="number-beyond floats"),
        ("boolean", 1),
        ("boolean", "true"),
        ("date", 20200101),
        ("date", "yesterday"),
        ("date", "2020-02-30"),
        ("date", "2020-01-01T00:00:00"),
        ("datetime", 0),
        ("datetime", "noon"),
    ],
)
def test_values_of_another_type_are_refused_without_being_shown(kind: str, value: JsonValue) -> None:
    with refuses(ReleaseFormatError, "damaged-domain", type=kind) as caught:
        values_from_json([value], [kind])
    assert str(value) not in str(caught.value)


def test_an_unknown_column_type_is_refused() -> None:
    with refuses(ReleaseFormatError, "unknown-type", type="geopoint"):
        values_from_json(["0, 0"], ["geopoint"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "(missing)"),
        ("flu", "flu"),
        ("", ""),
        (3, "3"),
        (2.5, "2.5"),
        (True, "True"),
        (datetime.date(2020, 2, 29), "2020-02-29"),
        (datetime.datetime(2020, 2, 29, 12, 30), "2020-02-29T12:30:00"),
    ],
    ids=repr,
)
def test_display_shows_a_value_to_a_person(value: Value, shown: str) -> None:
    assert display(value) == shown


@pytest.mark.parametrize(
    ("arrow_type", "name"),
    [
        (pa.string(), "string"),
        (pa.int8(), "integer"),
        (pa.uint64(), "integer"),
        (pa.float32(), "number"),
        (pa.float64(), "number"),
        (pa.bool_(), "boolean"),
        (pa.date32(), "date"),
        (pa.timestamp("us"), "datetime"),
        (pa.timestamp("ms", tz="UTC"), "datetime"),
        (pa.binary(), None),
        (pa.list_(pa.string()), None),
        (pa.null(), None),
        (pa.duration("s"), None),
    ],
    ids=str,
)
def test_field_type_names_the_data_package_type(arrow_type: pa.DataType, name: str | None) -> None:
    assert find_field_type(arrow_type) == name


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["flu", "", None]),
        pa.array([1, -(2**63), None], pa.int64()),
        pa.array([1, 2**64 - 1], pa.uint64()),
        pa.array([0.1, -2.0]),
        pa.array([True, False]),
        pa.array([datetime.date(2020, 2, 29), datetime.date(1900, 1, 1)]),
        pa.array([1, 2], pa.timestamp("us")),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_comes_back_from_json_as_it_was(column: pa.Array) -> None:
    kind = find_field_type(column.type)
    assert kind is not None
    back = values_from_json(json.loads(json.dumps(values_to_json(column.to_pylist()))), [kind])
    assert build_domain_array(back).equals(column)
