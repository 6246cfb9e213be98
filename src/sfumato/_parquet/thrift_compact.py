"""Reads and writes Thrift's compact protocol, the format of Parquet metadata.

Values keep their types, so that they can be written again without knowing their meaning. The input is untrusted. So
invalid bytes are refused, and claimed sizes never determine how much memory is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)
"""The types of values."""

STOP = 0
DEEPEST = 16
"""The largest depth of nested values. No Parquet metadata reaches it."""
LONG_FORM = 15
"""Longer lists, and fields whose number is this far from the previous number, are written in a longer form."""
MOST_VALUES = 1 << 22
"""The largest number of values.

A footer of ten thousand columns in twenty groups has fewer. A value takes a hundred bytes of memory.
"""
CONTINUATION_BIT = 0x80
"""The bit of a byte that marks a continued number; the other seven bits belong to the number."""
MOST_BITS = 63
DOUBLE_BYTES = 8


class ThriftError(ValueError):
    """The bytes are not valid metadata."""


class TypedValue(NamedTuple):
    """A value with its type."""

    kind: int
    value: Any


class TypedList(NamedTuple):
    """The values of a list, all of one type."""

    kind: int
    values: Sequence[Any]


Struct = dict[int, TypedValue]
"""Fields by their numbers."""


# -------------------------------------------------------------------------------------------------------------- writing


def make_number(value: int) -> TypedValue:
    """A number of 32 bits."""
    return TypedValue(I32, value)


def make_long_number(value: int) -> TypedValue:
    """A number of 64 bits."""
    return TypedValue(I64, value)


def make_list(kind: int, values: Iterable[Any]) -> TypedValue:
    """A list."""
    return TypedValue(LIST, TypedList(kind, tuple(values)))


def encode_varint(value: int) -> bytes:
    """Writes a number that is not negative in as few bytes as possible."""
    encoded_bytes = bytearray()
    while value >= CONTINUATION_BIT:
        encoded_bytes.append(value % CONTINUATION_BIT | CONTINUATION_BIT)
        value >>= 7
    encoded_bytes.append(value)
    return bytes(encoded_bytes)


def encode_struct(struct: Struct) -> bytes:
    """A struct as bytes."""
    content, last = bytearray(), 0
    for place, (kind, value) in sorted(struct.items()):
        if 0 < place - last <= LONG_FORM:
            content.append(place - last << 4 | kind)
        else:
            content.append(kind)
            content += _encode_zigzag(place)
        content += b"" if kind in (TRUE, FALSE) else _encode_value(kind, value)
        last = place
    content.append(STOP)
    return bytes(content)


def _encode_value(kind: int, value: Any) -> bytes:
    if kind in (I16, I32, I64):
        return _encode_zigzag(value)
    if kind == BINARY:
        return encode_varint(len(value)) + bytes(value)
    if kind == STRUCT:
        return encode_struct(value)
    if kind in (LIST, SET):
        size = len(value.values)
        start = (
            bytes([size << 4 | value.kind]) if size < LONG_FORM else bytes([0xF0 | value.kind]) + encode_varint(size)
        )
        return start + b"".join(_encode_value(value.kind, item) for item in value.values)
    return bytes(value) if kind == DOUBLE else bytes([value])  # these bytes are unchanged since they were read


def _encode_zigzag(value: int) -> bytes:
    return encode_varint(2 * value if value >= 0 else -2 * value - 1)


# -------------------------------------------------------------------------------------------------------------- reading


def read_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """The struct at a position, and the position of its end."""
    reader = _StructReader(data, start)
    try:
        return reader.read_fields(0), reader.place
    except IndexError as error:
        raise ThriftError("it ends too early") from error


class _StructReader:
    """Reads structs from a position; raises IndexError beyond the end."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place, self.remaining_values = data, place, MOST_VALUES

    def read_fields(self, depth: int) -> Struct:
        if depth > DEEPEST:
            raise ThriftError("it is nested too deeply")
        fields: Struct = {}
        last = 0
        while (head := self.read_byte()) != STOP:
            last = last + (head >> 4) if head >> 4 else self.read_zigzag()
            kind = head & 0xF
            if last in fields:
                raise ThriftError("it has a field twice")
            fields[last] = TypedValue(kind, kind == TRUE if kind in (TRUE, FALSE) else self.read_value(kind, depth))
        return fields

    def read_value(self, kind: int, depth: int) -> Any:
        self.remaining_values -= 1
        if self.remaining_values < 0:
            raise ThriftError("it has too many values")
        if kind in (I16, I32, I64):
            return self.read_zigzag()
        if kind == BINARY:
            return self.read_bytes(self.read_varint())
        if kind == STRUCT:
            return self.read_fields(depth + 1)
        if kind in (LIST, SET):
            return self.read_items(depth + 1)
        if kind == DOUBLE:
            return self.read_bytes(DOUBLE_BYTES)
        if kind in (TRUE, FALSE, BYTE):  # booleans take a byte in a list
            return self.read_byte()
        raise ThriftError("a value has a type that Parquet does not have")

    def read_items(self, depth: int) -> TypedList:
        if depth > DEEPEST:
            raise ThriftError("it is nested too deeply")
        head = self.read_byte()
        kind, size = head & 0xF, head >> 4 if head >> 4 < LONG_FORM else self.read_varint()
        if size > len(self.data) - self.place:  # every item takes at least a byte
            raise ThriftError("a list is longer than the metadata")
        return TypedList(kind, tuple(self.read_value(kind, depth) for _ in range(size)))

    def read_byte(self) -> int:
        next_byte = self.data[self.place]
        self.place += 1
        return next_byte

    def read_bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.place:
            raise ThriftError("it ends too early")
        self.place += size
        return self.data[self.place - size : self.place]

    def read_varint(self) -> int:
        result, shift = 0, 0
        while (byte := self.read_byte()) & CONTINUATION_BIT:
            result |= byte % CONTINUATION_BIT << shift
            shift += 7
            if shift > MOST_BITS:
                raise ThriftError("a number is too long")
        return result | byte << shift

    def read_zigzag(self) -> int:
        encoded_number = self.read_varint()
        return encoded_number >> 1 if encoded_number & 1 == 0 else -(encoded_number >> 1) - 1
