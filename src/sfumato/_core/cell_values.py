"""The values of table cells, and their form in JSON."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from sfumato._terminal_safe import is_printable
from sfumato.errors import ReleaseFormatError

Scalar = str | int | float | bool | Decimal | datetime.date | datetime.datetime | None
Value = Scalar | tuple[Scalar, ...]
"""The value of a cell. Several sensitive columns that are protected together have a tuple as their value."""

JsonScalar = str | int | float | bool | None
JsonValue = JsonScalar | list[JsonScalar]


def to_json(value: Value) -> JsonValue:
    """Converts one value to JSON. A compound value becomes a list of its parts."""
    return [_scalar_to_json(part) for part in value] if isinstance(value, tuple) else _scalar_to_json(value)


def _scalar_to_json(value: Scalar) -> JsonScalar:
    """Converts dates and times to ISO 8601, and special numbers (NaN, infinity) to their names in XML Schema."""
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return value


def values_to_json(values: Sequence[Value]) -> list[JsonValue]:
    """Converts a domain to JSON."""
    return [to_json(value) for value in values]


def values_from_json(values: Sequence[JsonValue], types: Sequence[str]) -> tuple[Value, ...]:
    """Reads a domain from JSON. Compound values need the Data Package types of all their columns."""
    if not isinstance(values, list):
        raise ReleaseFormatError("a domain is not a list of values.", code="damaged-domain")
    if len(types) == 1:
        return tuple(_from_json(value, types[0]) for value in values)
    return tuple(_compound_from_json(value, types) for value in values)


def _compound_from_json(value: JsonValue, types: Sequence[str]) -> tuple[Scalar, ...]:
    if not isinstance(value, list) or len(value) != len(types):
        raise ReleaseFormatError(
            "a compound domain contains a value without one part for each column.", code="damaged-domain"
        )
    return tuple(_from_json(part, kind) for part, kind in zip(value, types, strict=True))


def _from_json(value: JsonValue, field_type: str) -> Scalar:
    expected = _JSON_TYPES.get(field_type)
    if expected is None:
        raise ReleaseFormatError(
            f"the column type {field_type!r} is unknown to this version.",
            code="unknown-type",
            fields={"type": field_type},
        )
    if value is None:
        return None
    if (
        isinstance(value, list)
        or not isinstance(value, expected)
        or (isinstance(value, bool) and field_type != "boolean")
    ):
        raise ReleaseFormatError(
            f"a domain of type {field_type!r} contains a value of another type.",
            code="damaged-domain",
            fields={"type": field_type},
        )
    try:
        if field_type == "date":
            return datetime.date.fromisoformat(str(value))
        if field_type == "datetime":
            return datetime.datetime.fromisoformat(str(value))
        if field_type == "number":
            return float(value)
    except (ValueError, OverflowError) as error:
        raise ReleaseFormatError(
            f"a domain of type {field_type!r} contains a value that is not a valid {field_type}.",
            code="damaged-domain",
            fields={"type": field_type},
        ) from error
    return value


_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "date": str,
    "datetime": str,
}


def simplify_type(kind: pa.DataType) -> pa.DataType:
    """Simplifies the type of a column, so that dictionaries, strings and dates have one type each."""
    if pa.types.is_dictionary(kind):
        return simplify_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_date64(kind):
        return pa.date32()
    return pa.float32() if pa.types.is_float16(kind) else kind


def simplify_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with plain types and without metadata."""
    return pa.schema([pa.field(column.name, simplify_type(column.type)) for column in schema])


def find_field_type(arrow_type: pa.DataType) -> str | None:
    """The Data Package type of an Arrow type. None for types that a table of people should not have."""
    for name, is_type in _FIELD_TYPES:
        if is_type(arrow_type):
            return name
    return None


_FIELD_TYPES = (
    ("string", pa.types.is_string),
    ("integer", pa.types.is_integer),
    ("number", lambda kind: pa.types.is_floating(kind) or pa.types.is_decimal(kind)),
    ("boolean", pa.types.is_boolean),
    ("date", pa.types.is_date32),
    ("datetime", pa.types.is_timestamp),
)


def build_domain_array(values: Sequence[Value]) -> pa.Array:
    """Converts a domain, including the missing value, to an Arrow array."""
    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(values, type=pa.uint64())


def split_value(value: Value) -> tuple[Scalar, ...]:
    """The parts of a value, one for each of its columns."""
    return value if isinstance(value, tuple) else (value,)


def choose_example_value(values: Sequence[Value]) -> Value:
    """Chooses a value for examples: if possible, one that is not missing and prints unchanged."""
    present_values = [value for value in values if None not in split_value(value)]
    return next((value for value in present_values if is_printable(display(value))), (present_values or values)[0])


def make_labels(values: Sequence[Value]) -> list[str]:
    """Gives each value a unique label. Values that would be displayed alike are written as JSON."""
    labels = [display(value) for value in values]
    return labels if len(set(labels)) == len(labels) else [json.dumps(to_json(value)) for value in values]


def display(value: Value) -> str:
    """Formats a value for display."""
    return " / ".join("(missing)" if part is None else str(_scalar_to_json(part)) for part in split_value(value))


def format_values(values: Sequence[Value], most: int = 5) -> str:
    """Lists the first few values, and says how many more there are."""
    listing = ", ".join(repr(display(value)) for value in values[:most])
    return f"{listing} and {len(values) - most} more" if len(values) > most else listing


def format_value_count(values: Sequence[object], what: str = "value") -> str:
    """States how many values there are, for messages that must not name the values."""
    return f"one {what}" if len(values) == 1 else f"{len(values):,} {what}s"


def format_relative_error(error: float | None) -> str:
    """Formats a relative error as a percentage, with one decimal below 100% and grouped thousands above."""
    if not error:
        return "not available" if error is None else "exact"
    return f"{error:.1%}" if abs(error) < 1 else f"{error:,.0%}"
