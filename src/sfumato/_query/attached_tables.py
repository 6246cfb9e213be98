"""Reads the analyst's own tables before the query runs, because the query itself cannot open files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from sfumato._query.duckdb_session import BATCH_ROWS
from sfumato._readers.open_table import open_source
from sfumato._readers.reader import AnyTable
from sfumato._records.sql_quoting import TABLE
from sfumato.errors import QueryError, SfumatoError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_attached_table(name: str, table: AnyTable) -> pa.Table:
    """Reads a table and gives it a name.

    The table is a CSV or Parquet file, a frame, or an object with an Arrow stream.
    """
    if not _NAME.fullmatch(name) or name.lower() == TABLE:
        raise QueryError(
            f"a table cannot be attached as {name!r}; use letters, digits and _, begin with a letter, and do not "
            f"use the name {TABLE}.",
            code="invalid-table-name",
            fields={"table": name},
        )
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        try:
            source = open_source(table, Path(folder) / "stream")
            names = source.schema.names
            batches = list(source.read_batches(names, BATCH_ROWS))
            arrow_table = pa.Table.from_batches(batches, batches[0].schema if batches else source.schema)
        except SfumatoError as error:
            raise QueryError(
                f"the table {name!r} cannot be attached: {error}",
                code="unreadable-table",
                fields={"table": name, "cause": error.code},
            ) from error
        if len({column_name.lower() for column_name in names}) != len(names):
            raise QueryError(
                f"two columns of the table {name!r} have the same name; rename one of them.",
                code="repeated-column",
                fields={"table": name},
            )
        if isinstance(table, str | Path):
            return arrow_table
        # Data that are mapped from a file are copied, so that the file's disk space is released.
        return pa.Table.from_batches(arrow_table.to_batches(), arrow_table.schema).combine_chunks()


def parse_attachments(texts: Sequence[str]) -> dict[str, Path]:
    """Parses command-line arguments of the form name=file."""
    paths: dict[str, Path] = {}
    for text in texts:
        name, mark, path = text.partition("=")
        if not mark or not path or name in paths:
            raise QueryError(
                f"{text!r} does not attach a table; write `attach=` as name=file, with each name once.",
                code="invalid-attach",
            )
        paths[name] = Path(path)
    return paths
