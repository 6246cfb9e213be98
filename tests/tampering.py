"""Releases edited by somebody who makes every digest fit again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from releases import edit_manifest
from sfumato._parquet.parquet_writer import write_table
from sfumato._verify.against_original import verify
from sfumato._verify.file_checks import verify_folder

Design = dict[str, Any]


def rewrite(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table of the release."""
    table = change(pq.read_table(folder / name))
    write_table(folder / name, table)
    edit_manifest(folder)


def edit_design(folder: Path, change: Callable[[Design], Any]) -> None:
    """Change the design in the manifest."""
    edit_manifest(folder, lambda written: change(written["sfumato"]["design"]))


def with_column(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    """The table with other values in one column."""
    field = table.schema.field(name)
    return table.set_column(table.schema.names.index(name), field, pa.array(values, field.type))


def with_cell(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    """The table with another value in one cell."""
    values = table.column(name).to_pylist()
    values[row] = value
    return with_column(table, name, values)


def failed(release: Path, original: Any = None) -> list[str]:
    """The names of the checks that a release fails."""
    return [check.name for check in verify(release, original).checks if not check.has_passed]


def failed_alone(release: Path) -> list[str]:
    """The same, without opening the release first, which refuses some of what is checked here."""
    return [check.name for check in verify_folder(release).checks if not check.has_passed]
