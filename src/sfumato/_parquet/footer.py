"""The footer of a Parquet file: its structs, and the numbers of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

from sfumato._core.object_store import File
from sfumato._parquet.thrift_compact import I32, I64, LIST, STRUCT, Struct, ThriftError, make_list, read_struct

MAGIC = b"PAR1"
TAIL = 8
"""The bytes of the footer's length and the magic number at the end of a file."""
LONGEST_HEAD = 1 << 12
"""The limit of a page header in bytes. A header takes about twenty bytes, unless it has statistics of the values."""


class FileFields(IntEnum):
    """The fields of the footer."""

    VERSION = 1
    SCHEMA = 2
    ROWS = 3
    GROUPS = 4
    METADATA = 5
    CREATED_BY = 6
    ORDERS = 7


class GroupFields(IntEnum):
    """The fields of a row group."""

    CHUNKS = 1
    PLAIN_SIZE = 2
    ROWS = 3
    SORTED_BY = 4
    START = 5
    SIZE = 6
    NUMBER = 7


class ChunkFields(IntEnum):
    """The fields of a column chunk."""

    START = 2
    METADATA = 3
    COLUMN_INDEX = 6


class MetadataFields(IntEnum):
    """The fields of a chunk's metadata."""

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
    """The fields of a page header."""

    TYPE = 1
    PLAIN_SIZE = 2
    SIZE = 3
    DATA = 5
    DICTIONARY = 7


def read_footer(path: File) -> Struct:
    """The footer of a file; raises ThriftError if it is invalid."""
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
    """The size of each unpacked page. It is read from the page itself, because the footer may differ."""
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
        raise ThriftError("it lacks the position or the size of a page")
    return int(field_value.value)


def parse_footer(data: bytes) -> Struct:
    """The footer of a file in memory."""
    return read_struct(data, len(data) - TAIL - int.from_bytes(data[-TAIL:-4], "little"))[0]


def get_field_value(struct: Struct, field: int, default: object = None) -> Any:
    """The value of a field, or a default if there is no such field."""
    return struct[field].value if field in struct else default


def list_chunks(footer: Struct) -> Iterator[tuple[Struct, Struct]]:
    """All chunks of a file, with their metadata."""
    for group in _list_structs(footer, FileFields.GROUPS):
        for chunk in _list_structs(group, GroupFields.CHUNKS):
            metadata = chunk.get(ChunkFields.METADATA)
            if metadata is None or metadata.kind != STRUCT:
                raise ThriftError("it lacks the metadata of a chunk")
            yield chunk, metadata.value


def has_extra_metadata(footer: Struct) -> bool:
    """Whether a file has more than its rows, such as metadata, an order, statistics of groups or pages, or filters."""
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
    """The number of values in all chunks of a column. Values in lists are counted one by one."""
    name, total = column.encode(), 0
    for _, metadata in list_chunks(footer):
        path, values = (metadata.get(field) for field in (MetadataFields.PATH, MetadataFields.VALUES))
        if path is None or values is None or path.kind != LIST or values.kind != I64:
            raise ThriftError("it lacks the column of a chunk, or its number of values")
        total += values.value if path.value.values[:1] == (name,) else 0
    return total


def _list_structs(struct: Struct, field: int) -> Sequence[Struct]:
    """The structs in a list. Empty if there is no list."""
    field_value = struct.get(field, make_list(STRUCT, ()))
    if field_value.kind != LIST or (field_value.value.values and field_value.value.kind != STRUCT):
        raise ThriftError("it has an entry that no Parquet file has")
    return field_value.value.values  # type: ignore[no-any-return]
