"""Tables in files for tests of Spark, and releases of them, here and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine_inputs import Input
from releases import WAYS, accepting, known_key
from sfumato.apply.engine import Engine
from sfumato.errors import SfumatoError
from sfumato.outlook import Request
from sfumato.publication import publish


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def saved(table: pa.Table, path: Path, group_rows: int = 1 << 20) -> Path:
    """A Parquet file with row groups of so many rows, of which each can be a piece."""
    pq.write_table(table, path, row_group_size=group_rows)
    return path


def asked(given: Input, table: Any, mechanism: str) -> Request:
    """A request for a table that is what was given, in whichever form."""
    way = WAYS[mechanism]
    schema = way.schema(given.schema, given.table)
    return Request(table, schema, **way.request(mechanism), **accepting(given.table, schema), accept_exposure=True)


def released(request: Request, out: Path, engine: Engine | None = None) -> dict[str, bytes]:
    """The files of a release with a known key."""
    publish(request, out, unsafe_test_key=known_key(0), engine=engine)
    return content(out)


def outcome(request: Request, out: Path, engine: Engine | None = None) -> dict[str, bytes] | tuple[str, str]:
    """The files of a release, or the words with which it is refused."""
    try:
        return released(request, out, engine)
    except SfumatoError as error:
        return type(error).__name__, str(error)
