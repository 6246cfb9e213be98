"""Columns of every kind that a file of a release can have, and files taken apart into their pages."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._parquet.footer import MetadataFields, PageFields, get_field_value, list_chunks, read_footer
from sfumato._parquet.page_encoding import DATA_PAGE
from sfumato._parquet.parquet_writer import Encoder, FileWriter
from sfumato._parquet.thrift_compact import Struct, read_struct
from sfumato._records.column_codes import find_smallest_type

TEXTS = ["Aix", "", "Lich am See", "Ærø", "\N{FACE WITH TEARS OF JOY}"]
DAYS = [datetime.date(1900 + 31 * number, 2, 28) for number in range(5)]
TIMES = [datetime.datetime(1969 + number, 12, 31, 23, 59, 59, 999_000) for number in range(5)]

VALUES: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "texts": (pa.string(), TEXTS),
    **{
        f"int{size}": (getattr(pa, f"int{size}")(), [0, -1, 7, 2 ** (size - 1) - 1, -(2 ** (size - 1))])
        for size in (8, 16, 32, 64)
    },
    **{
        f"uint{size}": (getattr(pa, f"uint{size}")(), [0, 1, 7, 2**size - 1, 2 ** (size - 1)])
        for size in (8, 16, 32, 64)
    },
    "float": (pa.float32(), [0.0, -1.5, float("inf"), 1e-30, 0.1015625]),
    "double": (pa.float64(), [0.0, -1.5, float("-inf"), 0.1, 1e300]),
    "decimal": (pa.decimal128(9, 2), [Decimal(text) for text in ("0.00", "-1.25", "1.00", "9999999.99", "12.34")]),
    "long decimal": (pa.decimal128(38, 3), [Decimal(text) for text in ("0.000", f"{10**34}.125", "-1.000")]),
    "dates": (pa.date32(), DAYS),
    "seconds": (pa.timestamp("s"), [each.replace(microsecond=0) for each in TIMES]),
    "milliseconds": (pa.timestamp("ms"), TIMES),
    "microseconds": (pa.timestamp("us"), TIMES),
    "nanoseconds": (pa.timestamp("ns"), TIMES),
    "with a zone": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=datetime.UTC) for each in TIMES]),
}
"""Types of columns whose values are listed, with some of their values."""


@dataclass(frozen=True)
class Column:
    """A column of a file; its rows are codes of the listed values, or values."""

    name: str
    written_type: pa.DataType
    has_missing: bool
    dictionary_values: pa.Array | None = None
    is_plain: bool = False


def listed_column(name: str, values: pa.Array, *, has_missing: bool = False) -> Column:
    return Column(name, values.type, has_missing, values)


def codes_for(column: Column, rows: int, seed: int = 1) -> Codes:
    """Random codes of a column, in the narrowest type."""
    assert column.dictionary_values is not None
    size = len(column.dictionary_values)
    chance = np.random.default_rng(seed)
    return chance.integers(0, size + column.has_missing, rows).astype(find_smallest_type(size + 1))


def values_of(column: Column, rows: Codes | pa.Array) -> list[Any]:
    """What is written, one by one."""
    if column.dictionary_values is None:
        return rows.to_pylist()
    values = [*column.dictionary_values.to_pylist(), None]
    return [values[code] for code in rows.tolist()]


def write(path: Path, columns: Sequence[Column], groups: Sequence[Sequence[Codes | pa.Array]]) -> str:
    """Write groups of rows down; the digest."""
    encoder = Encoder(columns)
    with path.open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        for rows in groups:
            writer.add(encoder(rows))
        return writer.finish()


def every_kind(rows: int) -> tuple[list[Column], list[Codes | pa.Array]]:
    """A column of each kind, with and without missing values, and some rows of each."""
    columns: list[Column] = []
    data: list[Codes | pa.Array] = []
    for number, (name, (kind, values)) in enumerate(VALUES.items()):
        for has_missing in (False, True):
            column = listed_column(f"{name}{' or none' * has_missing}", pa.array(values, kind), has_missing=has_missing)
            columns.append(column)
            data.append(codes_for(column, rows, number))
    truths = [None if row % 5 == 3 else row % 3 == 0 for row in range(rows)]
    more = {
        "truths": (pa.array([each is True for each in truths], pa.bool_()), True),
        "truths or none": (pa.array(truths, pa.bool_()), True),
        "ids": (pa.array(range(rows), pa.int32()), True),
        "sets": (pa.array([bytes([row % 251, row % 7, 255]) for row in range(rows)], pa.binary(3)), True),
        "few sets": (pa.array([bytes([row % 5]) for row in range(rows)], pa.binary(1)), False),
        "lists": (pa.array([TEXTS[: row % 4] for row in range(rows)], pa.list_(pa.string())), False),
        "lists of numbers": (pa.array([[row, None][: row % 3] for row in range(rows)], pa.list_(pa.int64())), False),
        "wide": (pa.array([None if row % 9 == 0 else f"name {row}" for row in range(rows)], pa.string()), False),
    }
    for name, (values, is_plain) in more.items():
        has_missing = name in ("truths or none", "wide")
        columns.append(Column(name, values.type, has_missing, is_plain=is_plain))
        data.append(values)
    return columns, data


@dataclass(frozen=True)
class Page:
    """A page as it is in a file."""

    head: Struct
    data: bytes
    """As it was before it was compressed."""

    @property
    def is_data(self) -> bool:
        return bool(get_field_value(self.head, PageFields.TYPE) == DATA_PAGE)

    @property
    def rows(self) -> int:
        return int(get_field_value(get_field_value(self.head, PageFields.DATA), 1))

    @property
    def listed(self) -> int:
        return int(get_field_value(get_field_value(self.head, PageFields.DICTIONARY), 1))


def pages_of(path: Path, name: str) -> Iterator[list[Page]]:
    """The pages of a column, group by group."""
    content = path.read_bytes()
    for _, about in list_chunks(read_footer(path)):
        if get_field_value(about, MetadataFields.PATH).values[0].decode() != name:
            continue
        first = get_field_value(about, MetadataFields.FIRST_PAGE)
        place = start = get_field_value(about, MetadataFields.DICTIONARY, first)
        found = []
        while place < start + get_field_value(about, MetadataFields.SIZE):
            head, place = read_struct(content, place)
            size, plain_size = (get_field_value(head, each) for each in (PageFields.SIZE, PageFields.PLAIN_SIZE))
            data = pa.decompress(content[place : place + size], plain_size, "zstd", asbytes=True)
            found.append(Page(head, data))
            place += size
        assert place == start + get_field_value(about, MetadataFields.SIZE)
        yield found
