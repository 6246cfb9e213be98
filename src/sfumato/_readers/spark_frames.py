"""Reads tables that only Spark can read, by first writing each partition to a private file.

Spark computes a frame again for every reading, perhaps in another order or from other rows. Files do not change. The
files are as secret as the table. They lie in the staging folder of the release, and are removed with this folder.
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
"""The beginning of the name of a table in Spark's catalog."""


def is_frame(table: object) -> bool:
    """Whether an object is a Spark frame."""
    return type(table).__module__.split(".")[0] == "pyspark"


def open_spark(opening: Opening) -> ParquetSource:
    """Write a frame, or a table of Spark's catalog, to private files."""
    return ParquetSource.open(spool_frame(opening.table, opening.spool))


def get_session(master: str | None = None) -> Any:
    """Returns the existing session, or a new session at this address or as configured by the environment."""
    try:
        spark = import_module("pyspark.sql").SparkSession
    except ImportError as error:
        raise MissingExtraError(
            "Spark is not installed; install it (pip install 'sfumato[spark]').",
            code="missing-package",
            fields={"extra": "spark"},
        ) from error
    try:
        return (master is None and spark.getActiveSession()) or _create_session(spark.builder, master)
    except ImportError as error:
        raise explain_missing_package(error) from error
    except Exception as error:  # the error class depends on the version of Spark
        raise EngineError(
            f"there is no Spark session ({type(error).__name__}); name its address (`master='sc://host:15002'`, or "
            "SPARK_REMOTE in the environment), or run Spark locally with Java (`master='local[2]'`).",
            code="no-spark-session",
            fields={"reason": type(error).__name__},
        ) from error


def _create_session(builder: Any, master: str | None) -> Any:
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://"):
        return (builder if master is None else builder.remote(master)).getOrCreate()
    builder = builder.config("spark.ui.showConsoleProgress", "false")  # Spark's progress bar would overwrite ours
    if (master or "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # local workers use the Python of this program
        builder = builder.config("spark.ui.enabled", "false")
    return (builder if master is None else builder.master(master)).getOrCreate()


def _find_frame(table: str) -> Any:
    """The frame of a table in Spark's catalog."""
    name, spark = table.removeprefix(SPARK_PREFIX), get_session()
    try:
        frame = spark.table(name)
        frame.columns  # noqa: B018 - Spark looks for the table only at this point
        return frame
    except Exception as error:
        raise SourceError(
            f"Spark cannot read a table {name!r} ({type(error).__name__}); check its name with "
            "spark.catalog.tableExists.",
            code="unreadable-table",
            fields={"table": name, "reason": type(error).__name__},
        ) from error


def spool_frame(table: Any, folder: Path) -> list[Path]:
    """Write a frame to files in a new folder. The order of the files depends on their content only."""
    frame = _find_frame(table) if is_spark_name(table) else table
    if not hasattr(frame, "mapInArrow"):
        raise SourceError(
            f"a table of type {type(frame).__name__!r} is not a Spark frame; give a DataFrame of pyspark.sql.",
            code="unknown-table-type",
            fields={"type": type(frame).__name__},
        )
    names = _list_columns(frame)
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(
            f"the table has two columns named {repeated!r}; rename one of them.",
            code="repeated-column",
            fields={"column": repeated},
        )
    folder.mkdir(mode=0o700)
    with translate_spark_errors():
        # Spark looks up columns by name, treats a dot as a path, and ignores case.
        numbered = frame.toDF(*(f"column_{number}" for number in range(len(names))))
    rows = collect_rows(run_on_workers(numbered, partial(_spool_partition, str(folder.absolute()), tuple(names))))
    # Only the reported files count, because a failed attempt may leave a file and a repeated attempt may leave two.
    files = sorted(row.data.decode() for row in rows)
    if not files:
        raise SourceError("the table is empty: there is nothing to publish.", code="empty-table")
    if len(set(files)) < len(files):
        raise EngineError(
            "Spark delivered a part of the frame twice; publish the table again, or publish it from files.",
            code="work-lost-or-repeated",
        )
    return [folder.absolute() / name for _, name in (line.split() for line in files)]


def _list_columns(frame: Any) -> list[str]:
    """The columns of a frame. Spark Connect reports errors in a frame only when its columns are requested."""
    try:
        return list(frame.columns)
    except Exception as error:
        raise SourceError(
            f"Spark cannot compute this frame ({type(error).__name__}); check it in Spark first, for example with "
            "show().",
            code="uncomputable-frame",
            fields={"frame": "spark", "reason": type(error).__name__},
        ) from error


def _spool_partition(folder: str, names: Sequence[str], batches: Batches) -> Iterator[WorkerRow]:
    """Write the batches of a worker to a file; returns the digest and the name of the file."""
    path = Path(folder) / f"{uuid4().hex}.parquet"
    try:
        if _write(path, names, batches):
            yield WorkerRow(0, 0, 0, False, f"{compute_file_digest(path)} {path.name}".encode())
    except OSError as error:
        yield WorkerRow(0, 0, 0, True, pack_error(error))
    except Exception as error:  # the frame is computed while it is read, and the message may contain its values
        source_error = SourceError(
            "Spark cannot compute this frame, or a column has a type that is not supported "
            f"({type(error).__name__}); check the frame in Spark first, for example with show(), and convert columns "
            "of unusual types to text.",
            code="uncomputable-frame",
            fields={"frame": "spark", "reason": type(error).__name__},
        )
        yield WorkerRow(0, 0, 0, True, pack_error(source_error))


def _write(path: Path, names: Sequence[str], batches: Batches) -> bool:
    """Write the batches with the frame's column names; returns whether there were any rows."""
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
