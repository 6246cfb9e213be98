"""Files that are packed here, as Spark reads them; for Sail and for Spark itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
        frame = session.read.parquet(str(path)).select(*(f"`{name}`" for name in asked))
        assert frame.columns == list(asked)
        batches = _collected(frame)
        for name, place in asked.items():
            expected = [value for rows in groups for value in values_of(columns[place], rows[place])]
            kind = columns[place].written_type
            assert [value for batch in batches for value in _plain(batch.column(name), kind)] == expected, name


def _collected(frame: Any) -> list[pa.RecordBatch]:
    """The rows of a frame as Arrow has them, in a way that the Spark before this one has too."""
    packed = frame.coalesce(1).mapInArrow(_packed, "data binary").collect()
    return [batch for row in packed for batch in pa.ipc.open_stream(row[0])]


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        with pa.ipc.new_stream(sink := pa.BufferOutputStream(), batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"data": [sink.getvalue().to_pybytes()]})


def _plain(found: pa.Array, kind: pa.DataType) -> list[Any]:
    """What was read, in the type that was written: Spark has fewer of them."""
    if pa.types.is_fixed_size_binary(kind):
        return list(found.to_pylist())
    return list(found.cast(kind).to_pylist())
