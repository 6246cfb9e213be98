"""Runs work on a Spark cluster: workers read the pieces of a table, and Spark moves their results to the right files.

Spark gets one row for each piece of work, and shuffles blocks. A block has the rows that a batch sends to one file.
Spark never sees the table. Workers run the same readers and the same writer as a thread on one machine, so the release
has the same bytes. The engine uses only features that are common to Spark in one process, Spark Connect, and servers
with the protocol of Spark Connect. This module does not import Spark, because a caller with a session has already
imported it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice, pairwise
from mmap import ACCESS_READ, mmap
from operator import attrgetter
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

from sfumato._core.object_store import is_spark_name
from sfumato._core.spark_tasks import (
    Batches,
    WorkerRow,
    collect_rows,
    pack_error,
    read_numbers,
    run_items,
    run_on_workers,
    translate_spark_errors,
)
from sfumato._engines.engine import Engine, Progress, Resources, TablePiece
from sfumato._engines.local_engine import LocalEngine, ignore_progress
from sfumato._engines.shuffle import Bundle
from sfumato._readers.reader import AnyTable
from sfumato._readers.sources import Source
from sfumato._readers.spark_frames import get_session, is_frame
from sfumato.errors import EngineError

PIECE_ROWS = 1 << 20
MOST_PIECES = 1 << 12
"""The largest number of pieces. The driver collects the counts of every piece, so larger tables have larger pieces."""
PART_MEMORY = 1 << 29
"""This memory is enough to build a whole file."""
TASKS_PER_CORE = 4
"""The number of tasks per core in one job.

There are several jobs, so that few results wait on the driver and progress is reported after each job.
"""
FIRST_NUMBER = -1
"""The number of the block that must be read first."""

REPEAT_MESSAGE = "Spark lost or repeated a part of the work, so the release would be wrong; publish the table again."

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class SparkEngine:
    """Runs work on the workers of a Spark session."""

    session: Any
    """A `SparkSession` of Spark itself or of Spark Connect."""
    piece_rows: int | None = None
    """The approximate number of rows of a piece. By default it depends on the table."""
    progress: Progress = ignore_progress

    def allot_resources(self, parts: int) -> Resources:
        """Each part is a task, and each task has one core."""
        return Resources(1, PART_MEMORY)

    def split_source(self, source: Source, columns: Sequence[str]) -> Iterator[TablePiece]:
        """Pieces that workers read themselves."""
        first = 0
        for piece in source.iter_pieces(self.piece_rows or max(PIECE_ROWS, (source.rows or 0) // MOST_PIECES)):
            yield TablePiece(first, piece)
            first += piece.rows or 0

    def map_items(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items in order. Each job runs some of the items."""
        remaining_items = iter(items)
        while chunk := list(islice(remaining_items, TASKS_PER_CORE * self._cores)):
            results = collect_rows(self._run_tasks(run_items, work, chunk))
            if [row.item for row in results] != list(range(len(chunk))):
                raise EngineError(REPEAT_MESSAGE, code="work-lost-or-repeated")
            yield from map(_decode_result, results)

    def shuffle(
        self,
        work: Callable[[Item], Iterable[Bundle]],
        items: Iterable[Item],
        finish: Callable[[int, Iterator[Bundle]], Iterator[Result]],
        parts: int,
        report_items: Callable[[int], None],
    ) -> Iterator[Result]:
        """Runs one job, in which blocks are sent to the task that finishes their part."""
        all_items = list(items)
        blocks = self._run_tasks(partial(_make_bundles, parts), work, all_items)
        # Blocks are distributed by hash. For a range, Spark would compute all blocks twice, first to find their
        # distribution. They are not sorted, because not every server keeps the order of rows for a function.
        blocks_by_part = blocks.repartition(parts, "part")
        sent_results = collect_rows(run_on_workers(blocks_by_part, _finish_parts, pickle.dumps(finish)))
        if _has_repeats(sent_results):
            raise EngineError(REPEAT_MESSAGE, code="work-lost-or-repeated")
        report_items(len(all_items))
        yield from map(_decode_result, sent_results)

    def _run_tasks(self, run: Callable[..., Iterator[WorkerRow]], work: object, items: Sequence[object]) -> Any:
        """The rows that workers send back, with one task for each item."""
        with translate_spark_errors():
            numbered = self.session.range(0, len(items), 1, max(1, len(items)))
        return run_on_workers(numbered, run, pickle.dumps(work), [pickle.dumps(item) for item in items])

    @property
    def _cores(self) -> int:
        """The number of tasks that run at once, if the session reports this number (Spark Connect does not)."""
        try:
            return int(self.session.sparkContext.defaultParallelism)
        except Exception:  # the error depends on the version of Spark
            with translate_spark_errors():
                return int(self.session.conf.get("spark.sql.shuffle.partitions", "64"))


def choose_engine(table: AnyTable, progress: Progress = ignore_progress) -> Engine:
    """Returns the default engine for a table: that of the session of a Spark frame, or this machine."""
    spark_session = (
        get_session() if is_spark_name(table) else getattr(table, "sparkSession", None) if is_frame(table) else None
    )
    return LocalEngine(progress=progress) if spark_session is None else SparkEngine(spark_session, progress=progress)


def _has_repeats(rows: Sequence[WorkerRow]) -> bool:
    """Whether a row occurs twice among sorted rows."""
    return any(one[:3] == other[:3] for one, other in pairwise(rows))


def _decode_result(row: WorkerRow) -> Any:
    return pickle.loads(row.data)


# ---------------------------------------------------------------------------------------------------------- on a worker


def _make_bundles(parts: int, work: bytes, items: Sequence[bytes], batches: Batches) -> Iterator[WorkerRow]:
    """The bundles of the items of a task. After an error, every part gets the error, so that no part is finished."""
    for number in read_numbers(batches):
        if number == 0:  # a part without bundles must still be finished
            yield from (WorkerRow(part, 0, FIRST_NUMBER, False, b"") for part in range(parts))
        try:
            for place, bundle in enumerate(pickle.loads(work)(pickle.loads(items[number]))):
                yield WorkerRow(bundle.file, number, place, False, bundle.pack())
        except Exception as error:
            error_text = pack_error(error)
            yield from (WorkerRow(part, FIRST_NUMBER, number, True, error_text) for part in range(parts))


def _finish_parts(finish: bytes, batches: Batches) -> Iterator[WorkerRow]:
    """The results of the parts of a task, from their bundles in order."""
    with TemporaryFile() as file:  # without a name, so it disappears with its last user even if this process is killed
        try:
            for part, blocks in groupby(_sort_blocks(batches, file), attrgetter("part")):
                yield from _finish_part(finish, part, blocks)
        except EngineError as error:  # an error is raised before the first part
            yield WorkerRow(0, FIRST_NUMBER, 0, True, pack_error(error))


def _finish_part(finish: bytes, part: int, blocks: Iterator[WorkerRow]) -> Iterator[WorkerRow]:
    first = next(blocks)
    if first.is_error:
        yield first._replace(data=first.data.to_pybytes())
        return
    bundles = (Bundle.unpack(part, block.data) for block in blocks)
    try:
        for number, result in enumerate(pickle.loads(finish)(part, bundles)):
            yield WorkerRow(part, 0, number, False, pickle.dumps(result))
    except Exception as error:
        yield WorkerRow(part, 0, 0, True, pack_error(error))


def _sort_blocks(batches: Batches, file: BinaryIO) -> Iterator[WorkerRow]:
    """The blocks of a task's parts in order. They are kept in a file, because there may be many."""
    block_places: list[tuple[WorkerRow, int, int]] = []
    for batch in batches:
        columns = [batch.column(name) for name in WorkerRow._fields]
        for place in range(batch.num_rows):
            part, item, number, is_error, data = (column[place] for column in columns)
            header = WorkerRow(part.as_py(), item.as_py(), number.as_py(), is_error.as_py(), None)
            block_places.append((header, file.tell(), file.write(data.as_buffer())))
    file.flush()
    mapped = pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ) if file.tell() else b"")
    block_places.sort()
    if _has_repeats([header for header, _, _ in block_places]):
        raise EngineError(REPEAT_MESSAGE, code="work-lost-or-repeated")
    for header, first, size in block_places:
        yield header._replace(data=mapped.slice(first, size))
