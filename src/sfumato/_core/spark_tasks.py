"""What goes to the workers of Spark and comes back: functions, and rows of bytes that say what they are.

A worker does not raise what went wrong, it sends it: the driver raises it with the same words, and no value of the
table gets into a log. What may go well another time, such as writing to a full disk, is raised without the words of
others, so that Spark tries again. A worker of another version does nothing.
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
    """One row of what workers send: to a part, or to the driver."""

    part: int
    item: int
    number: int
    """Among those of its item."""
    is_error: bool
    data: Any


ROW_SCHEMA = "part int, item int, number int, is_error boolean, data binary"
ROW_TYPES = [pa.int32(), pa.int32(), pa.int32(), pa.bool_(), pa.binary()]


class RetryableError(Exception):
    """What went wrong may go well another time."""


def make_remote_task(run: Callable[..., Iterator[WorkerRow]], *arguments: object) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: what a worker sends that runs a function of ours on what it gets.

    The function inside goes as code, and so runs on a worker of any version; what it runs there goes by name.
    """
    # What the bytes of a release depend on.
    driver_versions = {name: version(name) for name in ("sfumato", "pyarrow", "numpy")}
    payload, module_name = pickle.dumps((run, arguments)), __name__

    def task(batches: Batches) -> Batches:
        import importlib.metadata  # noqa: PLC0415 - it runs elsewhere
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
    """The frame of what workers send who run a function of ours on the rows of a frame."""
    task = make_remote_task(run, *arguments)
    with translate_spark_errors():
        return frame.mapInArrow(task, ROW_SCHEMA)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Say in our words what Spark raises: a session may have been stopped, a package lacking, a job have failed."""
    try:
        yield
    except ImportError as error:
        raise explain_missing_package(error) from error
    except Exception as error:  # as many kinds as there are versions of Spark
        raise _explain_failure(error) from error


def explain_missing_package(error: ImportError) -> MissingExtraError:
    """What to say where Spark is, but not all that it needs: it installs most of that only if asked to."""
    match = re.search(r"(\S+) >= \S+ must be installed", str(error))
    named = f" {match[1].lower()!r}" if match else ""
    return MissingExtraError(
        f"Spark is installed without the package{named} that it needs for this; install that, or Spark with all that "
        "it needs (pip install 'sfumato[spark]')."
    )


def collect_rows(frame: Any) -> list[WorkerRow]:
    """What the workers sent, in order; of the errors that they sent, the first is raised."""
    with translate_spark_errors():
        rows = sorted(WorkerRow(*row) for row in frame.collect())
    for row in rows:
        if row.is_error:
            raise pickle.loads(row.data)
    return rows


def _explain_failure(error: Exception) -> Exception:
    """What to say of a job that failed, by what a worker raised; all else that Spark says is for its own log."""
    text = str(error)
    if mismatch := re.search(r"sfumato: (\w+ is \S+ on a worker of Spark and \S+ here)", text):
        return EngineError(f"{mismatch[1]}, so the release would differ; give the workers the versions of the driver.")
    if missing := re.search(r"No module named '(\w+)", text):
        return EngineError(f"the workers of Spark lack the package {missing[1]!r}; install sfumato on each of them.")
    if match := re.search(r"sfumato: \[(\d+)\] ([\w ]+)", text):
        number = int(match[1])
        if number == errno.ENOENT:
            return EngineError(
                "a worker of Spark does not find a file or folder that is here; the table, the target and, for a "
                "target in a store, the folder of temporary files (TMPDIR) must be on paths that all workers share."
            )
        return OSError(number, os.strerror(number)) if number else OSError(match[2])
    return EngineError(f"Spark stopped the work ({type(error).__name__}); its own messages say why.")


# ---------------------------------------------------------------------------------------------------------- on a worker


def rows_of(rows: Iterable[WorkerRow]) -> Iterator[pa.RecordBatch]:
    """What a worker sends as Spark takes it, a row at a time: one may be large."""
    for row in rows:
        arrays = [pa.array([value], type=kind) for value, kind in zip(row, ROW_TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(WorkerRow._fields))


def pack_error(error: Exception) -> bytes:
    """An error to be raised on the driver; one that may not come again is raised here, without its words."""
    if isinstance(error, OSError | MemoryError):
        match = re.search(r"AWS Error [A-Z_]+", str(error))
        number = getattr(error, "errno", None) or 0
        raise RetryableError(f"sfumato: [{number}] {match[0] if match else type(error).__name__}") from None
    return pickle.dumps(error)


def run_items(work: bytes, items: Sequence[bytes], batches: Batches) -> Iterator[WorkerRow]:
    """The results of the items whose numbers a task gets."""
    for number in read_numbers(batches):
        try:
            yield WorkerRow(0, number, 0, False, pickle.dumps(pickle.loads(work)(pickle.loads(items[number]))))
        except Exception as error:
            yield WorkerRow(0, number, 0, True, pack_error(error))


def read_numbers(batches: Batches) -> Iterator[int]:
    """The numbers that a task gets."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
