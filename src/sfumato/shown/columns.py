"""Columns between Arrow and codes: which values a column has, in which order, and how a batch becomes codes.

Codes number the values of a column in its canonical order; the missing value has the code after the last. The order in
which values first appear in a file never gets past this module, because it gives records away.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import SchemaError, SourceError
from sfumato.request.schema import Bins
from sfumato.request.values import Scalar, Value, plain_type, to_json
from sfumato.shown.tally import Codes


def local_codes(column: pa.Array) -> tuple[Codes, pa.Array]:
    """Number the values of one batch: its codes, and its distinct values; the missing value comes after the last."""
    is_given = pa.types.is_dictionary(column.type)
    encoded = column if is_given else pc.dictionary_encode(column)
    values = _plain(encoded.dictionary)
    missing = len(values)
    indices = encoded.indices.fill_null(missing) if encoded.indices.null_count else encoded.indices
    codes: Codes = indices.to_numpy(zero_copy_only=False)
    is_missing = pc.is_null(values, nan_is_null=True)
    has_repeats = is_given and len(values.unique()) < len(values)
    if not has_repeats and not pc.any(is_missing).as_py():
        return codes, values
    # A dictionary from elsewhere may hold a missing value, or (1.5 and 1.50 read as numbers) the same value twice.
    distinct = values.filter(pc.invert(is_missing)).unique()
    places = pc.index_in(values, distinct).fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return np.append(places, len(distinct)).take(codes), distinct


def _plain(values: pa.Array) -> pa.Array:
    """Values in the plain type of their column; zero has one sign."""
    plain = values.cast(plain_type(values.type))
    return pc.add(plain, pa.scalar(0, plain.type)) if pa.types.is_floating(plain.type) else plain


def dense(column: pa.Array) -> pa.Array:
    """A column without a dictionary, in its plain type."""
    return _plain(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)


def smallest_type(largest: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes up to `largest`."""
    return np.min_scalar_type(largest)


def merged(column: pa.Array, values: Collection[Value], label: str | None) -> pa.Array:
    """Put one label, or the missing value, in the place of some values."""
    codes, distinct = local_codes(column)
    kept = [label if value in values else value for value in distinct.to_pylist()]
    return pa.array([*kept, label if None in values else None], type=distinct.type).take(pa.array(codes))


def binned(column: pa.Array, bins: Bins, name: str) -> pa.DictionaryArray:
    """Put each value into its bin; a value outside all bins is refused."""
    codes, values = local_codes(column)
    places = _places(values, bins, name)
    outside = int(np.append(places < 0, False).take(codes).sum())
    if outside:
        raise SchemaError(
            f"records have values of {name!r} outside its bins, {bins.edges[0]} to {bins.edges[-1]} ({outside:,} in "
            "the first batch that has any); widen the bins, so that everybody is in one."
        )
    indices = np.append(places, -1).take(codes)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), pa.array(bins.labels))


def _places(values: pa.Array, bins: Bins, name: str) -> npt.NDArray[np.int64]:
    """The bin of each distinct value; -1 outside, and for the missing value."""
    numbers, starts, end = _comparable(values, bins, name)
    places = np.searchsorted(starts, numbers, side="right") - 1
    is_outside = (numbers > end) | (numbers != numbers)  # noqa: PLR0124 - not a number
    return np.where(is_outside.astype(np.bool_), -1, places)


def _comparable(values: pa.Array, bins: Bins, name: str) -> tuple[Codes, Codes, Any]:
    """The values, the starts of the bins and the end of the last, as numbers that compare exactly."""
    edges: list[Any] = list(bins.values)
    kind = values.type
    if isinstance(edges[0], datetime.date) and (pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        edges = [_since_1970(edge, kind) for edge in edges]
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    elif isinstance(edges[0], datetime.date) or not (pa.types.is_integer(kind) or is_fractional(kind)):
        raise SchemaError(
            f"the bins of {name!r} do not fit a column of type {kind}: bins are for numbers or dates (2024-01-31)."
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
    # Whole numbers are at or above an edge if they are so for the next whole one; edges no value can reach fall away.
    starts = [math.ceil(max(edge, limits.min)) for edge in edges[:-1] if edge <= limits.max]
    return numbers, np.array(starts, dtype=numbers.dtype), math.floor(min(edges[-1], limits.max))


def is_fractional(kind: pa.DataType) -> bool:
    """Whether a type holds numbers with a fraction."""
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _since_1970(edge: datetime.date, kind: pa.DataType) -> Fraction:
    """An edge in days, or in the unit of a timestamp, since 1970; an edge without an offset is in UTC."""
    moment = edge if isinstance(edge, datetime.datetime) else datetime.datetime.combine(edge, datetime.time())
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    microseconds = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    scale = Fraction(1, 86_400) if pa.types.is_date32(kind) else Fraction(per_second[kind.unit])
    return Fraction(microseconds, 10**6) * scale


@dataclass(frozen=True)
class CodedColumn:
    """A published column of few enough values to number them."""

    name: str
    values: pa.Array
    has_missing: bool

    @property
    def source(self) -> str:
        """The rewritten rows that the column is decoded from: its own."""
        return self.name

    @property
    def domain(self) -> tuple[Scalar, ...]:
        """The values in canonical order, the missing value last."""
        return (*self.values.to_pylist(), *([None] if self.has_missing else []))

    @property
    def code_type(self) -> np.dtype[Any]:
        """The integer type of the codes, with room for one that stands for an unknown value."""
        return smallest_type(len(self.values) + 1)

    def encode(self, column: pa.Array) -> Codes:
        """Turn a batch into codes; a value that the first pass did not see means that the table changed."""
        codes, values = local_codes(column)
        last = len(self.values) if self.has_missing else len(self.values) - 1
        places = pc.index_in(values, self.values).fill_null(last + 1).to_numpy(zero_copy_only=False)
        encoded = np.append(places, len(self.values)).astype(self.code_type).take(codes)
        if encoded.max(initial=0) > last:
            raise SourceError(
                f"the table changed while it was read: {self.name!r} holds values it did not hold before."
            )
        return encoded

    def decode(self, codes: Codes) -> pa.Array:
        """Turn codes into values. A dictionary of strings holds only values that occur, in canonical order."""
        mask = codes == len(self.values) if self.has_missing else None
        if not pa.types.is_string(self.type):
            return self.values.take(pa.array(codes, mask=mask))
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.values) + 1)[: len(self.values)])
        if len(used) < len(self.values):
            table = np.zeros(len(self.values) + 1, dtype=self.code_type)
            table[used] = np.arange(len(used))
            codes = table.take(codes)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=mask), self.values.take(pa.array(used)))

    @property
    def type(self) -> pa.DataType:
        """The plain type of the values."""
        return self.values.type

    @property
    def written_type(self) -> pa.DataType:
        """The type of a decoded column: Parquet takes strings as dictionaries."""
        return (
            pa.dictionary(pa.from_numpy_dtype(self.code_type), self.type)
            if pa.types.is_string(self.type)
            else self.type
        )


@dataclass(frozen=True)
class RawColumn:
    """A published column of so many values that they are carried along as they are."""

    name: str
    type: pa.DataType
    has_missing: bool

    @property
    def source(self) -> str:
        """The rewritten rows that the column is decoded from: its own."""
        return self.name

    @property
    def written_type(self) -> pa.DataType:
        """The type of a decoded column."""
        return self.type

    def encode(self, column: pa.Array) -> pa.Array:
        """The column itself, in its plain type."""
        return dense(column)

    def decode(self, values: pa.Array) -> pa.Array:
        """The values themselves."""
        return values


TableColumn = CodedColumn | RawColumn
"""A column of the table that is published."""


# ------------------------------------------------------------------------------------------------ what is sensitive


@dataclass(frozen=True)
class Sensitive:
    """What is protected: one column, or the combinations of several.

    The number of a combination has the codes of its parts for digits; `numbers` lists those of the domain in rising
    order.
    """

    name: str
    parts: tuple[CodedColumn, ...]
    numbers: npt.NDArray[np.int64]
    is_independent: bool = False
    """Whether the parts are protected each for itself; the domain then has all their combinations."""

    @classmethod
    def of_column(cls, column: CodedColumn) -> Sensitive:
        """One column, with all its values."""
        return cls.of_product(column.name, (column,))

    @classmethod
    def of_product(cls, name: str, parts: tuple[CodedColumn, ...], *, is_independent: bool = False) -> Sensitive:
        """All combinations of the parts' values."""
        return cls(name, parts, np.arange(math.prod(len(part.domain) for part in parts)), is_independent)

    @classmethod
    def of_texts(cls, name: str, parts: tuple[CodedColumn, ...], texts: Sequence[str]) -> Sensitive:
        """The combinations that occur, as `combined` wrote them down."""
        empty = cls(name, parts, np.zeros(0, dtype=np.int64))
        return cls(name, parts, np.sort(empty.numbers_of_texts(texts)))

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values in canonical order; those of a compound are tuples."""
        if len(self.parts) == 1:
            return self.parts[0].domain
        columns = [[part.domain[code] for code in self.part_codes(number)] for number, part in enumerate(self.parts)]
        return tuple(zip(*columns, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each part has."""
        return tuple(len(part.domain) for part in self.parts)

    def ranked(self, places: Codes) -> list[Codes]:
        """The codes by which records are told apart and ranked: places, or for independent parts one list for each."""
        if not self.is_independent:
            return [places]
        return [self.part_codes(number).astype(np.int32).take(places) for number in range(len(self.parts))]

    def part_codes(self, number: int) -> npt.NDArray[np.int64]:
        """The code of one part in each combination of the domain."""
        size = math.prod(len(part.domain) for part in self.parts[number + 1 :])
        return self.numbers // size % len(self.parts[number].domain)

    def encode(self, columns: Mapping[str, pa.Array] | pa.RecordBatch) -> Codes:
        """Turn the columns of a batch into places of the domain."""
        if len(self.parts) == 1:
            return self.parts[0].encode(_column(columns, self.parts[0].name))
        codes: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        for part in self.parts:
            codes = codes * len(part.domain) + part.encode(_column(columns, part.name)).astype(np.int64)
        places = np.searchsorted(self.numbers, codes)
        is_known = np.append(self.numbers, -1)[places] == codes
        if not is_known.all():
            raise SourceError(
                f"the table changed while it was read: {self.name!r} holds combinations it did not hold before."
            )
        return places.astype(smallest_type(len(self.numbers)))

    def places_of_texts(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """The places of combinations as `combined` wrote them down."""
        return np.searchsorted(self.numbers, self.numbers_of_texts(texts))

    def numbers_of_texts(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """The numbers of combinations as `combined` wrote them down."""
        codes = [{json.dumps(to_json(value)): code for code, value in enumerate(part.domain)} for part in self.parts]
        sizes = [len(part.domain) for part in self.parts]
        numbers = []
        for text in texts:
            number = 0
            for value, known, size in zip(json.loads(text), codes, sizes, strict=True):
                number = number * size + known[json.dumps(value)]
            numbers.append(number)
        return np.array(numbers, dtype=np.int64)


def _column(columns: Mapping[str, pa.Array] | pa.RecordBatch, name: str) -> pa.Array:
    return columns.column(name) if isinstance(columns, pa.RecordBatch) else columns[name]


def combined(columns: Sequence[pa.Array]) -> pa.DictionaryArray:
    """One text for each row: its values in all the columns, as JSON."""
    codes: npt.NDArray[np.int64] = np.zeros(len(columns[0]), dtype=np.int64)
    found: list[tuple[Scalar, ...]] = [()]
    for column in columns:
        local, distinct = local_codes(column)
        values = [*distinct.to_pylist(), None]
        # Numbered anew after each column, so that the numbers stay as small as the combinations are few.
        numbers, codes = np.unique(codes * len(values) + local, return_inverse=True)
        found = [(*found[number // len(values)], values[number % len(values)]) for number in numbers.tolist()]
    texts = [json.dumps(to_json(combination)) for combination in found]
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(texts, type=pa.string()))


# -------------------------------------------------------------------------------------------------- what is published


@dataclass(frozen=True)
class PartColumn:
    """One column of a published compound."""

    sensitive: Sensitive
    number: int

    @property
    def _part(self) -> CodedColumn:
        return self.sensitive.parts[self.number]

    @property
    def name(self) -> str:
        """The name of the part."""
        return self._part.name

    @property
    def source(self) -> str:
        """The rewritten rows that the column is decoded from: those of the compound."""
        return self.sensitive.name

    @property
    def has_missing(self) -> bool:
        """Whether the part may be missing."""
        return self._part.has_missing

    @property
    def written_type(self) -> pa.DataType:
        """The type of a decoded column."""
        return self._part.written_type

    def decode(self, codes: Codes) -> pa.Array:
        """Turn places of the compound's domain into values of the part."""
        return self._part.decode(self.sensitive.part_codes(self.number).astype(self._part.code_type).take(codes))


@dataclass(frozen=True)
class SetColumn:
    """A set of values for each record: as bits, or as a list of the values that a single column has."""

    sensitive: Sensitive
    as_list: bool

    has_missing = False

    @property
    def name(self) -> str:
        """The name of what is sensitive."""
        return self.sensitive.name

    @property
    def source(self) -> str:
        """The rewritten rows that the column is decoded from."""
        return self.sensitive.name

    @property
    def written_type(self) -> pa.DataType:
        """The type of a decoded column."""
        if self.as_list:
            return pa.list_(self.sensitive.parts[0].type)
        return pa.binary(-(-len(self.sensitive.numbers) // 8))

    def decode(self, bits: pa.FixedSizeBinaryArray) -> pa.Array:
        """Leave the bits as they are, or list the values they stand for in canonical order."""
        if not self.as_list:
            return bits
        members = unpacked(bits, len(self.sensitive.numbers))
        _, places = np.nonzero(members)
        offsets = np.append(0, np.cumsum(members.sum(axis=1, dtype=np.int32)))
        column = self.sensitive.parts[0]
        mask = places == len(column.values) if column.has_missing else None
        values = column.values.take(pa.array(places, mask=mask))
        return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), values)


def packed(bits: npt.NDArray[np.uint8]) -> pa.FixedSizeBinaryArray:
    """Rows of bytes as an Arrow column."""
    buffer = pa.py_buffer(np.ascontiguousarray(bits))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(bits.shape[1]), len(bits), [None, buffer])


def bytes_of(column: pa.Array, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of each row of a column of sets of `size` bits."""
    width = -(-size // 8)
    plain = column.cast(pa.binary(width))
    data = np.frombuffer(plain.buffers()[1], dtype=np.uint8)
    return data[plain.offset * width : (plain.offset + len(plain)) * width].reshape(len(plain), width)


def unpacked(column: pa.Array, size: int) -> npt.NDArray[np.uint8]:
    """A row of `size` zeros and ones for each row of bytes."""
    return np.unpackbits(bytes_of(column, size), axis=1, count=size)


@dataclass(frozen=True)
class NumberColumn:
    """Whole numbers that are carried along as they are: ids of buckets, counts."""

    name: str

    has_missing = False
    type = pa.int32()  # fewer buckets than this would take some four thousand million people
    written_type = pa.int32()

    @property
    def source(self) -> str:
        """The rewritten rows that the column is decoded from: its own."""
        return self.name

    def decode(self, numbers: Codes) -> pa.Array:
        """The numbers themselves."""
        return pa.array(numbers, type=pa.int32())


PublishedColumn = TableColumn | PartColumn | SetColumn | NumberColumn
"""A column of a release."""
