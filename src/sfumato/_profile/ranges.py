"""Groups numbers and dates into the published ranges."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._records.column_codes import encode_batch_values
from sfumato._request.range_edges import Ranges
from sfumato.errors import SchemaError


def is_orderable(kind: pa.DataType) -> bool:
    """Whether a column of this type can be put into ranges: numbers, dates and moments."""
    return pa.types.is_integer(kind) or is_fractional(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)


def assign_bins(column: pa.Array, bins: Ranges, name: str) -> pa.DictionaryArray:
    """Replace each value by its range. A value outside all ranges is refused."""
    codes, values = encode_batch_values(column)
    places = _find_bins(values, bins, name)
    outside = int(np.append(places < 0, False).take(codes).sum())
    if outside:
        raise SchemaError(
            f"records have values of {name!r} outside its ranges, {bins.edges[0]} to {bins.edges[-1]} ({outside:,} "
            "in the first batch that has any); widen the ranges so that they cover every value.",
            code="value-outside-ranges",
            fields={"column": name, "values": outside},
        )
    indices = np.append(places, -1).take(codes)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), pa.array(bins.labels))


def _find_bins(values: pa.Array, bins: Ranges, name: str) -> npt.NDArray[np.int64]:
    """The range of each distinct value; -1 for a value outside all ranges, and for the missing value."""
    numbers, starts, end = _make_comparable(values, bins, name)
    places = np.searchsorted(starts, numbers, side="right") - 1
    is_outside = (numbers > end) | (numbers != numbers)  # noqa: PLR0124 - not a number
    return np.where(is_outside.astype(np.bool_), -1, places)


def _make_comparable(values: pa.Array, bins: Ranges, name: str) -> tuple[Codes, Codes, Any]:
    """The values, the starts of the ranges and the end of the last range, as numbers that can be compared exactly."""
    edges: list[Any] = list(bins.parsed_edges)
    kind = values.type
    if isinstance(edges[0], datetime.date) and (pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        edges = [_convert_edge(edge, kind) for edge in edges]
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    elif isinstance(edges[0], datetime.date) or not (pa.types.is_integer(kind) or is_fractional(kind)):
        raise SchemaError(
            f"the ranges of {name!r} do not fit a column of type {kind}: ranges are for numbers or dates (2024-01-31).",
            code="ranges-do-not-fit",
            fields={"column": name, "type": str(kind)},
        )
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        return numbers, np.array(edges[:-1], dtype=np.float64), edges[-1]
    if pa.types.is_decimal(kind):
        numbers = np.array([value or 0 for value in values.to_pylist()], dtype=np.object_)
        exact = [Decimal(edge) for edge in bins.edges]
        return numbers, np.array(exact[:-1], dtype=np.object_), exact[-1]
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    limits = np.iinfo(numbers.dtype)
    # A whole number is at or above an edge if it is at or above the edge rounded up. Edges beyond the type are dropped.
    starts = [math.ceil(max(edge, limits.min)) for edge in edges[:-1] if edge <= limits.max]
    return numbers, np.array(starts, dtype=numbers.dtype), math.floor(min(edges[-1], limits.max))


def is_fractional(kind: pa.DataType) -> bool:
    """Whether a type holds numbers with a fraction."""
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _convert_edge(edge: datetime.date, kind: pa.DataType) -> Fraction:
    """An edge in days since 1970, or in the unit of a timestamp since 1970. An edge without an offset is in UTC."""
    moment = edge if isinstance(edge, datetime.datetime) else datetime.datetime.combine(edge, datetime.time())
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    microseconds = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    scale = Fraction(1, 86_400) if pa.types.is_date32(kind) else Fraction(per_second[kind.unit])
    return Fraction(microseconds, 10**6) * scale
