"""Thrift's compact protocol, in which Parquet writes down what is in a file.

What is read is kept with its types, so that it can be written again by somebody who does not know what it means. A file
may come from anywhere: what cannot be is refused, and nothing is made as large as it claims to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)
"""The kinds of values."""

STOP = 0
DEEPEST = 16
"""Nothing in Parquet is so deep."""
LONG_FORM = 15
"""Lists of so many items or more, and fields so far from the last one, are written in another way."""
MOST_VALUES = 1 << 22
"""A footer of ten thousand columns in twenty groups has no more; each takes a byte there and a hundred here."""
MORE = 0x80
"""This bit of a byte says that more of a number follows; seven bits are its own."""
MOST_BITS = 63
DOUBLE_BYTES = 8


class ThriftError(ValueError):
    """These bytes are not what they should be."""


class Typed(NamedTuple):
    """A value with its kind."""

    kind: int
    value: Any


class Items(NamedTuple):
    """The values of a list, all of one kind."""

    kind: int
    values: Sequence[Any]


Struct = dict[int, Typed]
"""Fields by their numbers."""


# -------------------------------------------------------------------------------------------------------------- writing


def number(value: int) -> Typed:
    """A number of 32 bits."""
    return Typed(I32, value)


def make_long_number(value: int) -> Typed:
    """A number of 64 bits."""
    return Typed(I64, value)


def make_list(kind: int, values: Iterable[Any]) -> Typed:
    """A list."""
    return Typed(LIST, Items(kind, tuple(values)))


def encode_varint(value: int) -> bytes:
    """A number that is not negative, in as many bytes as it needs."""
    encoded_bytes = bytearray()
    while value >= MORE:
        encoded_bytes.append(value % MORE | MORE)
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
    return bytes(value) if kind == DOUBLE else bytes([value])  # as they were read


def _encode_zigzag(value: int) -> bytes:
    return encode_varint(2 * value if value >= 0 else -2 * value - 1)


# -------------------------------------------------------------------------------------------------------------- reading


def read(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """The struct that begins somewhere, and where it ends."""
    reader = _StructReader(data, start)
    try:
        return reader.struct(0), reader.place
    except IndexError as error:
        raise ThriftError("it ends too early") from error


class _StructReader:
    """Reads what begins at a place; beyond the end there is an IndexError."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place, self.left = data, place, MOST_VALUES

    def struct(self, depth: int) -> Struct:
        if depth > DEEPEST:
            raise ThriftError("it is too deep")
        fields: Struct = {}
        last = 0
        while (head := self.byte()) != STOP:
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 0xF
            if last in fields:
                raise ThriftError("a field is there twice")
            fields[last] = Typed(kind, kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth))
        return fields

    def value(self, kind: int, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ThriftError("it says too much")
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == BINARY:
            return self.some(self.varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self.items(depth + 1)
        if kind == DOUBLE:
            return self.some(DOUBLE_BYTES)
        if kind in (TRUE, FALSE, BYTE):  # truth values take a byte where they are in a list
            return self.byte()
        raise ThriftError("a value is of no kind that Parquet knows")

    def items(self, depth: int) -> Items:
        if depth > DEEPEST:
            raise ThriftError("it is too deep")
        head = self.byte()
        kind, size = head & 0xF, head >> 4 if head >> 4 < LONG_FORM else self.varint()
        if size > len(self.data) - self.place:  # every item takes a byte
            raise ThriftError("a list is longer than what it is in")
        return Items(kind, tuple(self.value(kind, depth) for _ in range(size)))

    def byte(self) -> int:
        next_byte = self.data[self.place]
        self.place += 1
        return next_byte

    def some(self, size: int) -> bytes:
        if size > len(self.data) - self.place:
            raise ThriftError("it ends too early")
        self.place += size
        return self.data[self.place - size : self.place]

    def varint(self) -> int:
        result, shift = 0, 0
        while (byte := self.byte()) & MORE:
            result |= byte % MORE << shift
            shift += 7
            if shift > MOST_BITS:
                raise ThriftError("a number is too long")
        return result | byte << shift

    def zigzag(self) -> int:
        encoded_number = self.varint()
        return encoded_number >> 1 if encoded_number & 1 == 0 else -(encoded_number >> 1) - 1
