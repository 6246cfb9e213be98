"""A cluster: workers of Spark read the pieces of a table, and Spark brings what they make to the files it belongs to.

Spark gets one row for each piece of work, and shuffles blocks: what a batch of the table sends to one file. It never
sees the table. What a worker does is what a thread of one machine does, with the same readers and the same writer, so
the release has the same bytes. Only what every Spark has is used: a session of one process, Spark Connect, and servers
that speak its protocol. Nothing here imports Spark: whoever has a session has it.
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
from typing import Any, TypeVar

import pyarrow as pa

from sfumato._core.object_store import is_spark_name
from sfumato._core.spark_tasks import Batches, Sent, asking_spark, collected, numbers, sent_from, told, worked
from sfumato._engines.engine import Engine, Means, Progress, TablePiece
from sfumato._engines.local_engine import LocalEngine, no_progress
from sfumato._engines.shuffle import Bundle
from sfumato._readers.sources import Source
from sfumato._readers.spark_frames import is_frame, session
from sfumato.errors import EngineError

PIECE_ROWS = 1 << 20
MOST_PIECES = 1 << 12
"""Of a larger table, pieces are larger: what was counted in each goes to the driver."""
PART_MEMORY = 1 << 29
"""Enough for a whole file in the making."""
TASKS_PER_CORE = 4
"""In one job of several: few results wait on the driver, and progress is told after each job."""
BEFORE_ALL = -1
"""The number of what must be known first."""

AGAIN = "Spark lost or repeated a part of the work, so the release would be wrong; publish again."

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class SparkEngine:
    """Works with the workers of a Spark session."""

    session: Any
    """A `SparkSession`, of Spark itself or of Spark Connect."""
    piece_rows: int | None = None
    """About so many rows make a piece; by default, as many as suit the table."""
    progress: Progress = no_progress

    def means(self, parts: int) -> Means:
        """A part is a task, and a task has a core."""
        return Means(1, PART_MEMORY)

    def pieces(self, source: Source, columns: Sequence[str]) -> Iterator[TablePiece]:
        """Pieces that workers read themselves."""
        first = 0
        for piece in source.pieces(self.piece_rows or max(PIECE_ROWS, (source.rows or 0) // MOST_PIECES)):
            yield TablePiece(first, piece)
            first += piece.rows or 0

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items, in their order; a job for some of them at a time."""
        waiting = iter(items)
        while some := list(islice(waiting, TASKS_PER_CORE * self._cores)):
            results = collected(self._tasks(worked, work, some))
            if [row.item for row in results] != list(range(len(some))):
                raise EngineError(AGAIN)
            yield from map(_result, results)

    def shuffled(
        self,
        work: Callable[[Item], Iterable[Bundle]],
        items: Iterable[Item],
        finish: Callable[[int, Iterator[Bundle]], Iterator[Result]],
        parts: int,
        done: Callable[[int], None],
    ) -> Iterator[Result]:
        """One job: blocks go to where their part is finished."""
        all_items = list(items)
        blocks = self._tasks(partial(_bundled, parts), work, all_items)
        # By hash, never by range: Spark would make all blocks twice, first to see how they are distributed. And not
        # sorted, because not every server keeps the order of rows for a function.
        together = blocks.repartition(parts, "part")
        found = collected(sent_from(together, _finished, pickle.dumps(finish)))
        if _are_repeated(found):
            raise EngineError(AGAIN)
        done(len(all_items))
        yield from map(_result, found)

    def _tasks(self, run: Callable[..., Iterator[Sent]], work: Any, items: Sequence[Any]) -> Any:
        """What the workers send, with a task for each item."""
        with asking_spark():
            numbered = self.session.range(0, len(items), 1, max(1, len(items)))
        return sent_from(numbered, run, pickle.dumps(work), [pickle.dumps(item) for item in items])

    @property
    def _cores(self) -> int:
        """How many tasks run at once, as far as the session tells; through Spark Connect it does not."""
        try:
            return int(self.session.sparkContext.defaultParallelism)
        except Exception:  # each Spark refuses in its own way
            with asking_spark():
                return int(self.session.conf.get("spark.sql.shuffle.partitions", "64"))


def usual_engine(table: Any, progress: Progress = no_progress) -> Engine:
    """The engine for a table, where nobody asks for another: the session of a frame, or this machine."""
    found = session() if is_spark_name(table) else getattr(table, "sparkSession", None) if is_frame(table) else None
    return LocalEngine(progress=progress) if found is None else SparkEngine(found, progress=progress)


def _are_repeated(rows: Sequence[Sent]) -> bool:
    """Whether one of these came twice; they are in order."""
    return any(one[:3] == other[:3] for one, other in pairwise(rows))


def _result(row: Sent) -> Any:
    return pickle.loads(row.data)


# ---------------------------------------------------------------------------------------------------------- on a worker


def _bundled(parts: int, work: bytes, items: Sequence[bytes], batches: Batches) -> Iterator[Sent]:
    """The bundles of the items whose numbers a task gets; and an error to every part, so that none is finished."""
    for number in numbers(batches):
        if number == 0:  # a part may get nothing, and is to be finished all the same
            yield from (Sent(part, 0, BEFORE_ALL, False, b"") for part in range(parts))
        try:
            for place, bundle in enumerate(pickle.loads(work)(pickle.loads(items[number]))):
                yield Sent(bundle.file, number, place, False, bundle.packed())
        except Exception as error:
            words = told(error)
            yield from (Sent(part, BEFORE_ALL, number, True, words) for part in range(parts))


def _finished(finish: bytes, batches: Batches) -> Iterator[Sent]:
    """The results of the parts that a task gets, from their bundles in order."""
    with TemporaryFile() as file:  # without a name, so that it is gone with its last user, even one that is killed
        try:
            for part, blocks in groupby(_in_order(batches, file), attrgetter("part")):
                yield from _finished_part(finish, part, blocks)
        except EngineError as error:  # before the first part
            yield Sent(0, BEFORE_ALL, 0, True, told(error))


def _finished_part(finish: bytes, part: int, blocks: Iterator[Sent]) -> Iterator[Sent]:
    first = next(blocks)
    if first.is_error:
        yield first._replace(data=first.data.to_pybytes())
        return
    bundles = (Bundle.unpacked(part, block.data) for block in blocks)
    try:
        for number, result in enumerate(pickle.loads(finish)(part, bundles)):
            yield Sent(part, 0, number, False, pickle.dumps(result))
    except Exception as error:
        yield Sent(part, 0, 0, True, told(error))


def _in_order(batches: Batches, file: Any) -> Iterator[Sent]:
    """What came for the parts of a task, in order; it waits in a file, because they may be many."""
    kept: list[tuple[Sent, int, int]] = []
    for batch in batches:
        columns = [batch.column(name) for name in Sent._fields]
        for place in range(batch.num_rows):
            part, item, number, is_error, data = (column[place] for column in columns)
            sent = Sent(part.as_py(), item.as_py(), number.as_py(), is_error.as_py(), None)
            kept.append((sent, file.tell(), file.write(data.as_buffer())))
    file.flush()
    mapped = pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ) if file.tell() else b"")
    kept.sort()
    if _are_repeated([sent for sent, _, _ in kept]):
        raise EngineError(AGAIN)
    for sent, first, size in kept:
        yield sent._replace(data=mapped.slice(first, size))
