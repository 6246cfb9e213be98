"""A small table as a file by itself, all of it written by pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sfumato._parquet.parquet_writer import Encoder, FileWriter


@dataclass(frozen=True)
class _TableColumn:
    """A column of a table in memory."""

    name: str
    written_type: pa.DataType
    has_missing: bool

    dictionary_values = None
    is_plain = False


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table down in one group of rows; the file says nothing but them."""
    encoder = Encoder([_TableColumn(field.name, field.type, field.nullable) for field in table.schema])
    with path.open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        if table.num_rows:
            writer.add(encoder([column.combine_chunks() for column in table.columns]))
        writer.finish()
