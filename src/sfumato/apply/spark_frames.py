"""Tables that only Spark can read: each partition is written to a private file first, and then it is files.

A frame is computed anew whenever it is asked for, perhaps in another order or from other rows; files stay as they are.
They are as secret as the table, and lie where the release is made, so that they go with what else is in the making.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.apply.spark_tasks import ROW, Batches, Sent, collected, remote, told
from sfumato.errors import MissingExtraError, SchemaError, SourceError
from sfumato.request.digest import file_digest

NAME = "spark:"
"""What the name of a table begins with that Spark knows."""
GROUP_ROWS = 1 << 18


def is_frame(table: Any) -> bool:
    """Whether a table is one of Spark's: a frame, or the name of one."""
    return is_name(table) or type(table).__module__.split(".")[0] == "pyspark"


def is_name(table: Any) -> bool:
    """Whether a table is named as Spark knows it."""
    return isinstance(table, str) and table.startswith(NAME)


def session(master: str | None = None) -> Any:
    """The session that is there, or a new one: of this address, or as the environment says."""
    try:
        spark = import_module("pyspark.sql").SparkSession
    except ImportError as error:
        raise MissingExtraError("Spark is not installed; install it (pip install 'sfumato[spark]').") from error
    if master is not None and master.startswith("sc://"):
        return spark.builder.remote(master).getOrCreate()
    if master is None and ("SPARK_REMOTE" in os.environ or spark.getActiveSession() is not None):
        return spark.builder.getOrCreate()
    builder = spark.builder.config("spark.ui.showConsoleProgress", "false")
    if (master or "local").startswith("local"):
        # Workers on this machine are to find what this program has found.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.ui.enabled", "false")
    return (builder if master is None else builder.master(master)).getOrCreate()


def spooled(table: Any, folder: Path) -> list[Path]:
    """Write a frame to files in a new folder; their order depends on what is in them, and not on who was first."""
    frame = session().table(table.removeprefix(NAME)) if is_name(table) else table
    if not hasattr(frame, "mapInArrow"):
        raise SourceError(
            f"a table of type {type(frame).__name__!r} is not a Spark frame; give a DataFrame of pyspark.sql."
        )
    if repeated := next((name for name in frame.columns if frame.columns.count(name) > 1), None):
        raise SchemaError(f"the table has two columns named {repeated!r}; rename one of them.")
    folder.mkdir(mode=0o700)
    rows = collected(frame.mapInArrow(remote(partial(_spooled, str(folder.absolute()))), ROW))
    # Only what was told of counts: an attempt that failed may have left a file, and one that was made twice two.
    files = sorted(row.data.decode() for row in rows)
    if not files:
        raise SourceError("the table has no rows.")
    return [folder.absolute() / name for _, name in (each.split() for each in files)]


def _spooled(folder: str, batches: Batches) -> Iterator[Sent]:
    """Write what comes to a file, on a worker; returns its digest and its name."""
    path = Path(folder) / f"{uuid4().hex}.parquet"
    try:
        if _write(path, batches):
            yield Sent(0, 0, 0, False, f"{file_digest(path)} {path.name}".encode())
    except Exception as error:
        yield Sent(0, 0, 0, True, told(error))


def _write(path: Path, batches: Batches) -> bool:
    """Whether there was anything to write."""
    writer, waiting, rows = None, [], 0
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                path.touch(mode=0o600)
                writer = pq.ParquetWriter(path, batch.schema)
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
        if writer is not None and waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    finally:
        if writer is not None:
            writer.close()
    return writer is not None
