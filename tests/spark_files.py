"""Files that are packed here, as Spark reads them; for Sail and for Spark itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from parquet_files import Column, codes_for, every_kind, listed_column, values_of, write

SIZES = (1, 2, 255, 256, 257, 65_536)


def files(folder: Path) -> Iterator[tuple[Path, list[Column], list[Any]]]:
    """Files with their columns and their groups: every kind of column, no rows, and lists of many lengths."""
    columns, rows = _known(101)
    yield folder / "every-kind.parquet", columns, [rows, _known(16)[1]]
    yield folder / "no-rows.parquet", columns, []
    lists = [listed_column(f"v{size}", pa.array([f"t{number}" for number in range(size)])) for size in SIZES]
    lists += [listed_column(f"n{size}", pa.array(range(size)), has_missing=True) for size in SIZES]
    yield folder / "lists.parquet", lists, [[codes_for(column, 1003) for column in lists]]
    gaps = [listed_column("gaps", pa.array(["a", "b"]), has_missing=True)]
    yield folder / "gaps.parquet", gaps, [[codes_for(gaps[0], 7).clip(2)], [codes_for(gaps[0], 9)]]


def _known(rows: int) -> tuple[list[Column], list[Any]]:
    """Every kind of column but times finer than a microsecond, which Spark refuses, whoever wrote them."""
    columns, data = every_kind(rows)
    places = [place for place, column in enumerate(columns) if column.written_type != pa.timestamp("ns")]
    return [columns[place] for place in places], [data[place] for place in places]


def check_files(session: Any, folder: Path, *, left_out: Sequence[pa.DataType] = ()) -> None:
    """Whether all values are read as they were written, but for types that a program cannot read at all."""
    for path, columns, groups in files(folder):
        write(path, columns, groups)
        asked = {column.name: place for place, column in enumerate(columns) if column.written_type not in left_out}
        frame = session.read.parquet(str(path)).select(*(f"`{name}`" for name in asked)).toArrow()
        assert frame.column_names == list(asked)
        for name, place in asked.items():
            expected = [value for rows in groups for value in values_of(columns[place], rows[place])]
            assert _plain(frame.column(name), columns[place].written_type) == expected, name


def _plain(found: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    """What was read, in the type that was written: Spark has fewer of them."""
    if pa.types.is_fixed_size_binary(kind):
        return list(found.to_pylist())
    return list(found.cast(kind).to_pylist())
