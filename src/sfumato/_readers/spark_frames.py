"""Tables that only Spark can read: each partition is written to a private file first, and then it is files.

A frame is computed anew whenever it is asked for, perhaps in another order or from other rows; files stay as they are.
They are as secret as the table, and lie where the release is made, so that they go with what else is in the making.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.digests import compute_file_digest
from sfumato._core.object_store import SPARK_PREFIX, is_spark_name
from sfumato._core.spark_tasks import (
    Batches,
    WorkerRow,
    collect_rows,
    explain_missing_package,
    pack_error,
    run_on_workers,
    translate_spark_errors,
)
from sfumato._readers.parquet_files import ParquetSource
from sfumato._readers.reader import Opening, TableReader
from sfumato.errors import EngineError, MissingExtraError, SchemaError, SourceError

GROUP_ROWS = 1 << 18
SPARK_NAME = re.compile(re.escape(SPARK_PREFIX))
"""The beginning of the name of a table that Spark knows."""


def is_frame(table: object) -> bool:
    """Whether an object is one of Spark's."""
    return type(table).__module__.split(".")[0] == "pyspark"


def open_spark(opening: Opening) -> ParquetSource:
    """Write a frame, or a table that Spark knows by name, to private files."""
    return ParquetSource.open(spool_frame(opening.table, opening.spool))


def get_session(master: str | None = None) -> Any:
    """The session that is there, or a new one: of this address, or as the environment says."""
    try:
        spark = import_module("pyspark.sql").SparkSession
    except ImportError as error:
        raise MissingExtraError("Spark is not installed; install it (pip install 'sfumato[spark]').") from error
    try:
        return (master is None and spark.getActiveSession()) or _create_session(spark.builder, master)
    except ImportError as error:
        raise explain_missing_package(error) from error
    except Exception as error:  # as many kinds as there are versions of Spark
        raise EngineError(
            f"there is no session of Spark ({type(error).__name__}); say where it is (`master='sc://host:15002'`, or "
            "the environment's SPARK_REMOTE), or run it here with Java (`master='local[2]'`)."
        ) from error


def _create_session(builder: Any, master: str | None) -> Any:
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://"):
        return (builder if master is None else builder.remote(master)).getOrCreate()
    builder = builder.config("spark.ui.showConsoleProgress", "false")  # over which ours would be written
    if (master or "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers here are to find what this program found
        builder = builder.config("spark.ui.enabled", "false")
    return (builder if master is None else builder.master(master)).getOrCreate()


def _find_frame(table: str) -> Any:
    """The frame of a table that Spark knows."""
    name, spark = table.removeprefix(SPARK_PREFIX), get_session()
    try:
        frame = spark.table(name)
        frame.columns  # noqa: B018 - it is not looked for before
        return frame
    except Exception as error:
        raise SourceError(f"Spark has no table {name!r} that can be read ({type(error).__name__}).") from error


def spool_frame(table: Any, folder: Path) -> list[Path]:
    """Write a frame to files in a new folder; their order depends on what is in them, and not on who was first."""
    frame = _find_frame(table) if is_spark_name(table) else table
    if not hasattr(frame, "mapInArrow"):
        raise SourceError(
            f"a table of type {type(frame).__name__!r} is not a Spark frame; give a DataFrame of pyspark.sql."
        )
    names = _list_columns(frame)
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"the table has two columns named {repeated!r}; rename one of them.")
    folder.mkdir(mode=0o700)
    with translate_spark_errors():
        # Spark looks columns up by name to hand them over, and takes a dot for a path and capitals for small letters.
        numbered = frame.toDF(*(f"column_{number}" for number in range(len(names))))
    rows = collect_rows(run_on_workers(numbered, partial(_spool_partition, str(folder.absolute()), tuple(names))))
    # Only what was told of counts: an attempt that failed may have left a file, and one that was made twice two.
    files = sorted(row.data.decode() for row in rows)
    if not files:
        raise SourceError("the table has no rows.")
    if len(set(files)) < len(files):
        raise EngineError("Spark delivered a partition of the frame twice; publish it again, or from files.")
    return [folder.absolute() / name for _, name in (line.split() for line in files)]


def _list_columns(frame: Any) -> list[str]:
    """The columns of a frame. Through Spark Connect, what is wrong with it is not found before they are asked for."""
    try:
        return list(frame.columns)
    except Exception as error:
        raise SourceError(
            f"Spark cannot make this frame ({type(error).__name__}); look at it there first, such as by its show()."
        ) from error


def _spool_partition(folder: str, names: Sequence[str], batches: Batches) -> Iterator[WorkerRow]:
    """Write what comes to a file, on a worker; returns its digest and its name."""
    path = Path(folder) / f"{uuid4().hex}.parquet"
    try:
        if _write(path, names, batches):
            yield WorkerRow(0, 0, 0, False, f"{compute_file_digest(path)} {path.name}".encode())
    except OSError as error:
        yield WorkerRow(0, 0, 0, True, pack_error(error))
    except Exception as error:  # of the frame, which is computed while it is read: the words may hold its values
        source_error = SourceError(
            f"Spark cannot compute this frame, or a column has a type that is not read ({type(error).__name__}); look "
            "at it there first, such as by its show(), and convert such columns to text."
        )
        yield WorkerRow(0, 0, 0, True, pack_error(source_error))


def _write(path: Path, names: Sequence[str], batches: Batches) -> bool:
    """Write the batches under the names of the frame; returns whether there was anything to write."""
    writer, pending_batches, rows = None, [], 0
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                path.touch(mode=0o600)
                writer = pq.ParquetWriter(path, batch.rename_columns(list(names)).schema)
            pending_batches.append(batch.rename_columns(list(names)))
            rows += batch.num_rows
            if rows >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(pending_batches))
                pending_batches, rows = [], 0
        if writer is not None and pending_batches:
            writer.write_table(pa.Table.from_batches(pending_batches))
    finally:
        if writer is not None:
            writer.close()
    return writer is not None


READER = TableReader(
    name="Spark",
    example="spark:catalog.schema.table",
    open=open_spark,
    address_pattern=SPARK_NAME,
    is_own=is_frame,
    extra="spark",
)
