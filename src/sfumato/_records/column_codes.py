"""Converts columns between Arrow and codes. It handles the values of a column, their order, and the codes of a batch.

Codes number the values of a column in canonical order. The missing value has the code after the last value. The order
in which values first appear in a file never leaves this module, because it would disclose records.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Codes, Mask, UIntType
from sfumato._core.cell_values import Scalar, Value, find_field_type, simplify_type, to_json
from sfumato._core.json_types import Json
from sfumato._parquet.parquet_writer import FileColumn
from sfumato.errors import SourceError

ANY_TYPE = "any"

MOST_DICTIONARY_VALUES, MOST_DICTIONARY_BYTES = 1 << 16, 1 << 20
"""The largest number and size of values that each row group lists. The list takes less space than the rows."""

WIDEST_TABLE = 1 << 16
"""Integers are looked up in a table if their span is at most this."""

CHUNK_ROWS = 1 << 16
"""The number of rows that are examined at a time."""


@dataclass(frozen=True)
class Field:
    """A column in a Data Package: its name, its type, and whether values may be missing."""

    name: str
    type: str
    has_missing: bool

    @classmethod
    def of(cls, column: PublishedColumn) -> Field:
        """The field of a published column. A Data Package has no separate type for sets of values."""
        return cls(column.name, describe_type(column.written_type), column.has_missing)

    def to_json(self) -> Json:
        """The field as JSON, in the form of Table Schema."""
        schema_field = {"name": self.name, "type": self.type, "constraints": {"required": not self.has_missing}}
        # Readers that use floating-point columns, such as frictionless, read a missing integer as "nan".
        return (
            {**schema_field, "missingValues": ["nan"]} if self.has_missing and self.type == "integer" else schema_field
        )


def describe_type(kind: pa.DataType) -> str:
    """The Data Package type of a published column."""
    return find_field_type(simplify_type(kind)) or ANY_TYPE


CodedRows = dict[str, Any]
"""Rewritten rows by column: codes (numpy), or values (Arrow) for a column without codes."""


class PublishedColumn(FileColumn, Protocol):
    """A column of a release."""

    @property
    def source(self) -> str:
        """The key of the column's rewritten rows."""
        ...

    def to_file_values(self, rows: Codes | pa.Array, /) -> Codes | pa.Array:
        """Converts rewritten rows to codes if values are listed.

        If no values are listed, converts the rows to values.
        """
        ...


def encode_batch_values(column: pa.Array) -> tuple[Codes, pa.Array]:
    """Returns the codes and the distinct values of one batch. The missing value comes last."""
    is_dictionary = pa.types.is_dictionary(column.type)
    encoded = column if is_dictionary else pc.dictionary_encode(column)
    values = _cast_to_plain_type(encoded.dictionary)
    missing = len(values)
    indices = encoded.indices.fill_null(missing) if encoded.indices.null_count else encoded.indices
    codes: Codes = indices.to_numpy(zero_copy_only=False)
    may_miss = values.null_count or pa.types.is_floating(values.type)
    has_repeats = is_dictionary and len(values.unique()) < len(values)
    if not has_repeats and not (may_miss and pc.any(pc.is_null(values, nan_is_null=True)).as_py()):
        return codes, values
    # A dictionary from elsewhere may contain a missing value, or the same value twice (such as 1.5 and 1.50 as
    # numbers).
    distinct = values.filter(pc.invert(pc.is_null(values, nan_is_null=True))).unique()
    places = pc.index_in(values, distinct).fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return np.append(places, len(distinct)).take(codes), distinct


def _cast_to_plain_type(values: pa.Array) -> pa.Array:
    """Casts values to the plain type of their column; negative zero becomes zero."""
    kind = simplify_type(values.type)
    plain = values if values.type == kind else values.cast(kind)
    return pc.add(plain, pa.scalar(0, plain.type)) if pa.types.is_floating(plain.type) else plain


def convert_to_arrow(numbers: npt.NDArray[Any]) -> pa.Array:
    """Converts numbers or booleans to Arrow, without copying numbers.

    Arrow's own conversion first loads numpy's masked arrays, which takes longer than publishing a small table.
    """
    if numbers.dtype == np.bool_:
        return pa.Array.from_buffers(
            pa.bool_(), len(numbers), [None, pa.py_buffer(np.packbits(numbers, bitorder="little"))]
        )
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


def decode_dictionary(column: pa.Array) -> pa.Array:
    """Returns a column without dictionary, in its plain type."""
    return _cast_to_plain_type(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)


def find_smallest_type(largest: int) -> UIntType:
    """The narrowest unsigned integer type for codes up to `largest`."""
    return np.min_scalar_type(largest)


def encode_values(column: pa.Array, domain: pa.Array) -> Codes:
    """Encodes values by their index in the domain.

    The next code stands for the missing value, and the code after that for all other values.
    """
    missing_code, other_code = len(domain), len(domain) + 1
    is_encoded = pa.types.is_dictionary(column.type)
    values = (column.dictionary if is_encoded else column).cast(domain.type)
    if pa.types.is_floating(domain.type):
        values = pc.add(values, pa.scalar(0.0, domain.type))  # zero has one sign
    codes = _look_up_near_numbers(values, domain)
    if codes is None:
        places = pc.index_in(values, value_set=domain, skip_nulls=True).fill_null(other_code)
        codes = places.to_numpy(zero_copy_only=False).astype(find_smallest_type(other_code))
    if values.null_count:
        codes[values.is_null().to_numpy(zero_copy_only=False)] = missing_code
    if not is_encoded:
        return codes
    if not column.indices.null_count and np.array_equal(
        codes, np.arange(len(codes))
    ):  # both types have the same numbers
        return np.asarray(column.indices.to_numpy(zero_copy_only=False).astype(codes.dtype))
    indices = column.indices.fill_null(len(codes)) if column.indices.null_count else column.indices
    return np.asarray(np.append(codes, codes.dtype.type(missing_code)).take(indices.to_numpy(zero_copy_only=False)))


def _look_up_near_numbers(values: pa.Array, domain: pa.Array) -> Codes | None:
    """Looks up integers of a small span in a table. The result for missing integers is arbitrary."""
    if not pa.types.is_integer(domain.type) or not len(domain):
        return None
    low, high = pc.min_max(domain).as_py().values()
    if high - low >= WIDEST_TABLE:
        return None
    table: Codes = np.full(high - low + 2, len(domain) + 1, dtype=find_smallest_type(len(domain) + 1))
    table[_subtract_unsigned(low, domain)] = np.arange(len(domain))
    codes: Codes = np.empty(len(values), dtype=table.dtype)
    for start in range(0, len(values), CHUNK_ROWS):  # this number of rows fits into the cache
        chunk = values.slice(start, CHUNK_ROWS)
        at = _subtract_unsigned(low, chunk.fill_null(low) if chunk.null_count else chunk)
        last = min(high - low + 1, np.iinfo(at.dtype).max)  # the table has all numbers of the type
        codes[start : start + CHUNK_ROWS] = table.take(np.minimum(at, at.dtype.type(last)))
    return codes


def _subtract_unsigned(low: int, numbers: pa.Array) -> Codes:
    """The unsigned differences between numbers and a lower number.

    Smaller numbers wrap around and become very large.
    """
    signed_numbers = numbers.to_numpy(zero_copy_only=False)
    kind = np.dtype(f"u{signed_numbers.dtype.itemsize}")
    return np.asarray(signed_numbers.view(kind) - kind.type(low % (1 << 8 * kind.itemsize)))


def _are_used(codes: Codes, size: int) -> Mask:
    """Marks which codes below a size occur.

    Usually all codes occur in the first rows, so few rows are read.
    """
    are_used = np.zeros(size, dtype=np.bool_)
    for start in range(0, len(codes), CHUNK_ROWS):
        are_used |= np.bincount(codes[start : start + CHUNK_ROWS], minlength=size)[:size] > 0
        if are_used.all():
            break
    return are_used


@dataclass(frozen=True)
class CodedColumn:
    """A published column with few enough values to number them."""

    name: str
    values: pa.Array
    has_missing: bool

    @property
    def source(self) -> str:
        """The key of the column's rewritten rows."""
        return self.name

    @property
    def domain(self) -> tuple[Scalar, ...]:
        """The values in canonical order, the missing value last."""
        return (*self.values.to_pylist(), *([None] if self.has_missing else []))

    @property
    def code_type(self) -> UIntType:
        """The integer type of the codes, with one additional code for an unknown value."""
        return find_smallest_type(len(self.values) + 1)

    def encode(self, column: pa.Array) -> Codes:
        """Encodes a batch. A value that the first pass did not find raises an error, because the table has changed."""
        codes, values = encode_batch_values(column)
        last = len(self.values) if self.has_missing else len(self.values) - 1
        if len(values) == len(self.values) and values.equals(self.values):
            encoded = codes.astype(self.code_type, copy=False)
        else:
            places = pc.index_in(values, self.values).fill_null(last + 1).to_numpy(zero_copy_only=False)
            encoded = np.append(places, len(self.values)).astype(self.code_type).take(codes)
        if encoded.max(initial=0) > last:
            raise SourceError(
                f"the table changed while it was read: {self.name!r} has values that it did not have before.",
                code="table-changed",
                fields={"column": self.name},
            )
        return encoded

    def to_file_values(self, codes: Codes) -> Codes | pa.Array:
        """The codes themselves, if values are listed."""
        return self.decode(codes) if self.dictionary_values is None else codes

    @property
    def dictionary_values(self) -> pa.Array | None:
        """All values, if they are few and short enough to list. Booleans are never listed."""
        if self.is_plain or not 0 < len(self.values) <= MOST_DICTIONARY_VALUES:
            return None
        is_text = pa.types.is_string(self.type)
        size = pc.sum(pc.binary_length(self.values)).as_py() if is_text else 0  # values of other types are always short
        return self.values if size <= MOST_DICTIONARY_BYTES else None

    @property
    def is_plain(self) -> bool:
        """Whether values are written without a dictionary, as booleans are."""
        return bool(pa.types.is_boolean(self.type))

    def decode(self, codes: Codes) -> pa.Array:
        """Decodes codes into values. A dictionary of strings holds only values that occur, in canonical order."""
        mask = codes == len(self.values) if self.has_missing else None
        if not pa.types.is_string(self.type):
            return self.values.take(pa.array(codes, mask=mask))
        used = np.flatnonzero(_are_used(codes, len(self.values)))
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
        """The type of the values."""
        return self.type


@dataclass(frozen=True)
class RawColumn:
    """A published column with too many values to number. Its values are kept unchanged."""

    name: str
    type: pa.DataType
    has_missing: bool

    is_plain = False
    dictionary_values = None

    @property
    def source(self) -> str:
        """The key of the column's rewritten rows."""
        return self.name

    @property
    def written_type(self) -> pa.DataType:
        """The type of the values."""
        return self.type

    def encode(self, column: pa.Array) -> pa.Array:
        """The column itself. It has large strings, because the strings of a row group may exceed 32-bit offsets."""
        values = decode_dictionary(column)
        return values.cast(pa.large_string()) if pa.types.is_string(values.type) else values

    def to_file_values(self, values: pa.Array) -> pa.Array:
        """The values themselves."""
        return values


TableColumn = CodedColumn | RawColumn
"""A column of the published table."""


# ------------------------------------------------------------------------------------------------ what is sensitive


@dataclass(frozen=True)
class SensitiveColumns:
    """The protected columns: one column, or all combinations of the values of several columns.

    The index of a combination in the domain has the codes of its parts as digits.
    """

    name: str
    parts: tuple[CodedColumn, ...]
    is_independent: bool = False
    """Whether each part is protected separately. The domain then has all combinations of the parts' values."""

    @classmethod
    def of_column(cls, column: CodedColumn) -> SensitiveColumns:
        """One protected column, with all its values."""
        return cls(column.name, (column,))

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values in canonical order. The values of a compound are tuples."""
        if len(self.parts) == 1:
            return self.parts[0].domain
        return tuple(itertools.product(*(part.domain for part in self.parts)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each part."""
        return tuple(len(part.domain) for part in self.parts)

    @property
    def size(self) -> int:
        """The number of values of the domain."""
        return math.prod(self.sizes)

    def list_rank_codes(self, places: Codes) -> list[Codes]:
        """The codes by which records are ranked. These are domain indices, or one list for each independent part."""
        if not self.is_independent:
            return [places]
        return [self.compute_part_codes(number).astype(np.int32).take(places) for number in range(len(self.parts))]

    def compute_part_codes(self, number: int) -> npt.NDArray[np.int64]:
        """The code of one part in each combination of the domain."""
        return np.arange(self.size) // math.prod(self.sizes[number + 1 :]) % self.sizes[number]

    def encode(self, columns: Mapping[str, pa.Array] | pa.RecordBatch) -> Codes:
        """Encodes the columns of a batch as domain indices."""
        if len(self.parts) == 1:
            return self.parts[0].encode(_select_column(columns, self.parts[0].name))
        places: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        for part, size in zip(self.parts, self.sizes, strict=True):
            places = places * size + part.encode(_select_column(columns, part.name)).astype(np.int64)
        return places.astype(find_smallest_type(self.size))

    def find_places(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """The domain indices of combinations written as by `combine_as_json`."""
        codes = [{json.dumps(to_json(value)): code for code, value in enumerate(part.domain)} for part in self.parts]
        places = []
        for text in texts:
            place = 0
            for value, part_codes, size in zip(json.loads(text), codes, self.sizes, strict=True):
                place = place * size + part_codes[json.dumps(value)]
            places.append(place)
        return np.array(places, dtype=np.int64)


def _select_column(columns: Mapping[str, pa.Array] | pa.RecordBatch, name: str) -> pa.Array:
    return columns.column(name) if isinstance(columns, pa.RecordBatch) else columns[name]


def combine_as_json(columns: Sequence[pa.Array]) -> pa.DictionaryArray:
    """One string for each row: its values in all the columns, as JSON."""
    codes: npt.NDArray[np.int64] = np.zeros(len(columns[0]), dtype=np.int64)
    combinations: list[tuple[Scalar, ...]] = [()]
    for column in columns:
        local, distinct = encode_batch_values(column)
        values = [*distinct.to_pylist(), None]
        # Renumbering after each column keeps the numbers as small as the number of combinations.
        numbers, codes = np.unique(codes * len(values) + local, return_inverse=True)
        combinations = [
            (*combinations[number // len(values)], values[number % len(values)]) for number in numbers.tolist()
        ]
    texts = [json.dumps(to_json(combination)) for combination in combinations]
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(texts, type=pa.string()))


# -------------------------------------------------------------------------------------------------- what is published


@dataclass(frozen=True)
class PartColumn:
    """One column of a published compound."""

    sensitive: SensitiveColumns
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
        """The key of the rewritten rows of the compound."""
        return self.sensitive.name

    @property
    def has_missing(self) -> bool:
        """Whether the part may be missing."""
        return self._part.has_missing

    @property
    def written_type(self) -> pa.DataType:
        """The type of the values."""
        return self._part.written_type

    @property
    def dictionary_values(self) -> pa.Array | None:
        """All values of the part, if there are few enough to list."""
        return self._part.dictionary_values

    @property
    def is_plain(self) -> bool:
        """Whether the part is written without a dictionary."""
        return self._part.is_plain

    def to_file_values(self, codes: Codes) -> Codes | pa.Array:
        """Converts indices in the compound's domain to the written form of the part."""
        return self._part.to_file_values(
            self.sensitive.compute_part_codes(self.number).astype(self._part.code_type).take(codes)
        )
