"""Exchanges functions and rows with the workers of Spark.

A worker sends an error instead of raising it. The driver raises it with the same message, so no value of the table
enters a log. An error that may be temporary, such as a full disk, is raised without its original message, so that Spark
tries again. A worker does no work if it has other versions of sfumato or its libraries than the driver.
"""

from __future__ import annotations

import errno
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

import pyarrow as pa

from sfumato.errors import EngineError, MissingExtraError

Batches = Iterable[pa.RecordBatch]


class WorkerRow(NamedTuple):
    """One row sent by a worker, to a part or to the driver."""

    part: int
    item: int
    number: int
    """The number of this row among the rows of the same item."""
    is_error: bool
    data: Any


ROW_SCHEMA = "part int, item int, number int, is_error boolean, data binary"
ROW_TYPES = [pa.int32(), pa.int32(), pa.int32(), pa.bool_(), pa.binary()]


class RetryableError(Exception):
    """An error that may not occur again."""


def make_remote_task(run: Callable[..., Iterator[WorkerRow]], *arguments: object) -> Callable[[Batches], Batches]:
    """Builds a function for `mapInArrow`, which runs a function of sfumato on a worker and sends the resulting rows.

    Spark sends the inner function as code, so it runs on workers with any version of sfumato. The inner function
    imports the function of sfumato by its name.
    """
    # The versions that the bytes of a release depend on.
    driver_versions = {name: version(name) for name in ("sfumato", "pyarrow", "numpy")}
    payload, module_name = pickle.dumps((run, arguments)), __name__

    def task(batches: Batches) -> Batches:
        import importlib.metadata  # noqa: PLC0415 - runs on a worker
        import pickle  # noqa: PLC0415

        for package, driver_version in driver_versions.items():
            try:
                worker_version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                worker_version = "missing"
            if worker_version != driver_version:
                raise RuntimeError(
                    f"sfumato: {package} is {worker_version} on a worker of Spark and {driver_version} here"
                )
        run, arguments = pickle.loads(payload)
        yield from importlib.import_module(module_name).rows_of(run(*arguments, batches))

    return task


def run_on_workers(frame: Any, run: Callable[..., Iterator[WorkerRow]], *arguments: object) -> Any:
    """The frame of the rows that workers send after running a function on the rows of a frame."""
    task = make_remote_task(run, *arguments)
    with translate_spark_errors():
        return frame.mapInArrow(task, ROW_SCHEMA)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Translates Spark's errors: a stopped session, a missing package, or a failed job."""
    try:
        yield
    except ImportError as error:
        raise explain_missing_package(error) from error
    except Exception as error:  # their classes differ between versions of Spark
        raise _explain_failure(error) from error


def explain_missing_package(error: ImportError) -> MissingExtraError:
    """The error for a Spark installation without its optional packages."""
    match = re.search(r"(\S+) >= \S+ must be installed", str(error))
    package_name = f" {match[1].lower()!r}" if match else ""
    return MissingExtraError(
        f"Spark is installed without the package{package_name} that sfumato needs; install it, or Spark with all its "
        "packages (pip install 'sfumato[spark]').",
        code="missing-package",
        fields={"package": match[1].lower() if match else None},
    )


def collect_rows(frame: Any) -> list[WorkerRow]:
    """The rows from the workers, in order; the first error among them is raised."""
    with translate_spark_errors():
        rows = sorted(WorkerRow(*row) for row in frame.collect())
    for row in rows:
        if row.is_error:
            raise pickle.loads(row.data)
    return rows


def _explain_failure(error: Exception) -> Exception:
    """The error for a failed job, based on a worker's error; Spark's own log has the rest."""
    text = str(error)
    if mismatch := re.search(r"sfumato: ((\w+) is \S+ on a worker of Spark and \S+ here)", text):
        return EngineError(
            f"{mismatch[1]}, so the release would differ; install the versions of the driver on the workers.",
            code="worker-versions-differ",
            fields={"package": mismatch[2]},
        )
    if missing := re.search(r"No module named '(\w+)", text):
        return EngineError(
            f"the workers of Spark lack the package {missing[1]!r}; install sfumato on each of them.",
            code="worker-lacks-package",
            fields={"package": missing[1]},
        )
    if match := re.search(r"sfumato: \[(\d+)\] ([\w ]+)", text):
        number = int(match[1])
        if number == errno.ENOENT:
            return EngineError(
                "a worker of Spark cannot find a file or folder that exists here. Put the table and the target on "
                "paths that all workers share; for a target in a store, also the folder of temporary files (TMPDIR).",
                code="worker-lacks-file",
            )
        return OSError(number, os.strerror(number)) if number else OSError(match[2])
    return EngineError(
        f"Spark stopped the work ({type(error).__name__}); Spark's own messages give the reason.",
        code="spark-stopped",
        fields={"reason": type(error).__name__},
    )


# ---------------------------------------------------------------------------------------------------------- on a worker


def rows_of(rows: Iterable[WorkerRow]) -> Iterator[pa.RecordBatch]:
    """Yields a worker's rows as batches of one row, because a row may be large."""
    for row in rows:
        arrays = [pa.array([value], type=kind) for value, kind in zip(row, ROW_TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(WorkerRow._fields))


def pack_error(error: Exception) -> bytes:
    """Serialises an error for the driver. An error that may be temporary is raised here, without its message."""
    if isinstance(error, OSError | MemoryError):
        match = re.search(r"AWS Error [A-Z_]+", str(error))
        number = getattr(error, "errno", None) or 0
        raise RetryableError(f"sfumato: [{number}] {match[0] if match else type(error).__name__}") from None
    return pickle.dumps(error)


def run_items(work: bytes, items: Sequence[bytes], batches: Batches) -> Iterator[WorkerRow]:
    """Yields the results of the items whose numbers a task receives."""
    for number in read_numbers(batches):
        try:
            yield WorkerRow(0, number, 0, False, pickle.dumps(pickle.loads(work)(pickle.loads(items[number]))))
        except Exception as error:
            yield WorkerRow(0, number, 0, True, pack_error(error))


def read_numbers(batches: Batches) -> Iterator[int]:
    """Yields the item numbers that a task receives."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
