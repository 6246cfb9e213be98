"""What a Parquet file says of itself: the structs of its footer, and the numbers of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

from sfumato._core.object_store import File
from sfumato._parquet.thrift_compact import I32, I64, LIST, STRUCT, Struct, ThriftError, make_list, read_struct

MAGIC = b"PAR1"
TAIL = 8
"""The length of the footer, and the magic word."""
LONGEST_HEAD = 1 << 12
"""What stands before a page takes some twenty bytes, unless it tells of the values in it."""


class FileFields(IntEnum):
    """Of the footer."""

    VERSION = 1
    SCHEMA = 2
    ROWS = 3
    GROUPS = 4
    METADATA = 5
    CREATED_BY = 6
    ORDERS = 7


class GroupFields(IntEnum):
    """Of a group of rows."""

    CHUNKS = 1
    PLAIN_SIZE = 2
    ROWS = 3
    SORTED_BY = 4
    START = 5
    SIZE = 6
    NUMBER = 7


class ChunkFields(IntEnum):
    """Of the part of a column that is in one group."""

    START = 2
    METADATA = 3
    COLUMN_INDEX = 6


class MetadataFields(IntEnum):
    """Of what is said about a chunk."""

    TYPE = 1
    ENCODINGS = 2
    PATH = 3
    CODEC = 4
    VALUES = 5
    PLAIN_SIZE = 6
    SIZE = 7
    METADATA = 8
    FIRST_PAGE = 9
    DICTIONARY = 11
    STATISTICS = 12
    PAGES = 13
    BLOOM_FILTER = 14
    SIZES = 16


class PageFields(IntEnum):
    """Of what stands before a page."""

    TYPE = 1
    PLAIN_SIZE = 2
    SIZE = 3
    DATA = 5
    DICTIONARY = 7


def read_footer(path: File) -> Struct:
    """The footer of a file; one that cannot be is a ThriftError."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - TAIL, 0))
        tail = file.read(TAIL)
        length = int.from_bytes(tail[:4], "little")
        if size < length + TAIL + len(MAGIC) or tail[4:] != MAGIC:
            raise ThriftError("it is not a whole Parquet file")
        file.seek(size - TAIL - length)
        return read_struct(file.read(length))[0]


def iter_page_sizes(path: File, footer: Struct) -> Iterator[int]:
    """How many bytes each page has when it is unpacked, as the page itself says: a footer may say something else."""
    with path.open("rb") as file:
        for _, metadata in list_chunks(footer):
            first = _read_whole_number(metadata, MetadataFields.FIRST_PAGE)
            place = (
                min(first, _read_whole_number(metadata, MetadataFields.DICTIONARY))
                if MetadataFields.DICTIONARY in metadata
                else first
            )
            end = place + _read_whole_number(metadata, MetadataFields.SIZE)
            while place < end:
                file.seek(place)
                head, length = read_struct(file.read(LONGEST_HEAD))
                yield _read_whole_number(head, PageFields.PLAIN_SIZE)
                place += length + _read_whole_number(head, PageFields.SIZE)


def _read_whole_number(struct: Struct, field: int) -> int:
    """A number that is not negative."""
    field_value = struct.get(field)
    if field_value is None or field_value.kind not in (I32, I64) or field_value.value < 0:
        raise ThriftError("it does not say where a page is, or how large")
    return int(field_value.value)


def parse_footer(data: bytes) -> Struct:
    """The footer of a file in memory."""
    return read_struct(data, len(data) - TAIL - int.from_bytes(data[-TAIL:-4], "little"))[0]


def get_field_value(struct: Struct, field: int, default: object = None) -> Any:
    """What a field holds, if it is there."""
    return struct[field].value if field in struct else default


def list_chunks(footer: Struct) -> Iterator[tuple[Struct, Struct]]:
    """Every chunk of a file, and what is said about it."""
    for group in _list_structs(footer, FileFields.GROUPS):
        for chunk in _list_structs(group, GroupFields.CHUNKS):
            metadata = chunk.get(ChunkFields.METADATA)
            if metadata is None or metadata.kind != STRUCT:
                raise ThriftError("it says nothing about a chunk")
            yield chunk, metadata.value


def has_extra_metadata(footer: Struct) -> bool:
    """Whether a file says more than its rows: metadata, an order, statistics of groups or pages, or filters."""
    return (
        bool(_list_structs(footer, FileFields.METADATA))
        or any(_list_structs(group, GroupFields.SORTED_BY) for group in _list_structs(footer, FileFields.GROUPS))
        or any(
            ChunkFields.COLUMN_INDEX in chunk
            or get_field_value(metadata, MetadataFields.STATISTICS)
            or bool(_list_structs(metadata, MetadataFields.METADATA))
            or MetadataFields.BLOOM_FILTER in metadata
            for chunk, metadata in list_chunks(footer)
        )
    )


def count_column_values(footer: Struct, column: str) -> int:
    """How many values all chunks of a column have, those in its lists one by one."""
    name, total = column.encode(), 0
    for _, metadata in list_chunks(footer):
        path, values = (metadata.get(field) for field in (MetadataFields.PATH, MetadataFields.VALUES))
        if path is None or values is None or path.kind != LIST or values.kind != I64:
            raise ThriftError("it does not say of which column a chunk is, or how many values it has")
        total += values.value if path.value.values[:1] == (name,) else 0
    return total


def _list_structs(struct: Struct, field: int) -> Sequence[Struct]:
    """The structs in a list, if it is there."""
    field_value = struct.get(field, make_list(STRUCT, ()))
    if field_value.kind != LIST or (field_value.value.values and field_value.value.kind != STRUCT):
        raise ThriftError("it says what no Parquet file says")
    return field_value.value.values  # type: ignore[no-any-return]
