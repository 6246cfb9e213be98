"""Runs work on one machine. A thread reads batches ahead as pieces, and parts are collected as they arrive.

Memory does not grow with the table, because only a few pieces wait at any time and shuffled rows spill to disk.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, Generic, TypeVar

import pyarrow as pa

from sfumato._core.ordered_threads import map_in_order, read_ahead
from sfumato._engines.engine import BATCH_ROWS, Progress, Resources, TablePiece
from sfumato._engines.scan_cache import CachedBatch, CachedSource
from sfumato._engines.shuffle import Bundle
from sfumato._readers.sources import Source

MEMORY_BUDGET = 256 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


def ignore_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LocalEngine:
    """Reads, works and shuffles with the threads of one machine."""

    batch_rows: int = BATCH_ROWS
    threads: int = field(default_factory=lambda: min(os.cpu_count() or 1, 8))
    memory_budget: int = MEMORY_BUDGET
    progress: Progress = ignore_progress

    def allot_resources(self, parts: int) -> Resources:
        """Parts share the memory, and parts that are finished at the same time share the threads."""
        return Resources(self.threads // self._count_concurrent(parts), self.memory_budget // parts)

    def _count_concurrent(self, parts: int) -> int:
        """The number of parts that are finished at once.

        Two threads for each part keep the cores busy, and few parts save memory.
        """
        return min(parts, max(1, self.threads // 2))

    def split_source(self, source: Source, columns: Sequence[str]) -> Iterator[TablePiece]:
        """One piece for each batch. Cached batches are not read again."""
        batches: Iterator[CachedBatch | _ReadBatch] = (
            source.read_cached(columns, self.batch_rows)
            if isinstance(source, CachedSource)
            else (_ReadBatch(batch, batch.num_rows) for batch in source.read_batches(columns, self.batch_rows))
        )
        first = 0
        for batch in read_ahead(batches):
            yield TablePiece(first, batch)
            first += batch.rows

    def map_items(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items in their order. Only a few results wait in memory."""
        with ThreadPoolExecutor(self.threads) as pool:
            yield from map_in_order(pool, self.threads, work, items)

    def shuffle(
        self,
        work: Callable[[Item], Iterable[Bundle]],
        items: Iterable[Item],
        finish: Callable[[int, Iterator[Bundle]], Iterator[Result]],
        parts: int,
        report_items: Callable[[int], None],
    ) -> Iterator[Result]:
        """Collect all parts at once. When the parts are complete, finish a few of them at a time.

        An error in any thread stops all threads, and is raised unchanged.
        """

        def make_bundles() -> Generator[Bundle, None, None]:
            for number, bundles in enumerate(self.map_items(lambda item: list(work(item)), items), 1):
                yield from bundles
                report_items(number)

        if parts == 1:  # a single part needs no thread
            yield from finish(0, make_bundles())
            return
        exchange: _Exchange[Result] = _Exchange(parts, self._count_concurrent(parts))
        with ThreadPoolExecutor(parts) as finishers, closing(make_bundles()) as bundles:
            try:
                for part in range(parts):
                    finishers.submit(exchange.run, finish, part)
                for bundle in bundles:
                    exchange.put(bundle)
                exchange.complete()
                yield from exchange.iter_results()
            except BaseException as error:
                exchange.stop(error)
                raise


@dataclass(frozen=True)
class _ReadBatch:
    """One batch that has already been read."""

    batch: pa.RecordBatch
    rows: int

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        yield self.batch


class _StoppedError(Exception):
    """An error occurred in another thread."""


class _Exchange(Generic[Result]):
    """Queues for bundles to the threads of their parts, and for results from these threads."""

    def __init__(self, parts: int, concurrency: int) -> None:
        self.condition = Condition()
        self.queues: list[deque[Bundle]] = [deque() for _ in range(parts)]
        self.concurrency = concurrency
        self.unfinished_parts = set(range(parts))
        self.whole_parts: set[int] = set()
        """The parts that have all their bundles, but are not finished yet."""
        self.ready_results: deque[Result] = deque()
        self.is_complete = False
        self.error: BaseException | None = None

    def put(self, bundle: Bundle) -> None:
        """Send a bundle to its part. Wait if the part is slower."""
        queue = self.queues[bundle.file]
        with self.condition:
            self.condition.wait_for(lambda: not queue or self.error)
            self._raise_error()
            queue.append(bundle)
            self.condition.notify_all()

    def complete(self) -> None:
        """Mark that no more bundles will come."""
        with self.condition:
            self.is_complete = True
            self.condition.notify_all()

    def stop(self, error: BaseException) -> None:
        """Stop all threads."""
        with self.condition:
            self.error = self.error or error
            self.condition.notify_all()

    def iter_results(self) -> Iterator[Result]:
        """The results of all parts, as they arrive."""
        while True:
            with self.condition:
                self.condition.wait_for(lambda: self.ready_results or self.error or not self.unfinished_parts)
                self._raise_error()
                if not self.ready_results:
                    return
                result = self.ready_results.popleft()
            yield result

    def run(self, finish: Callable[[int, Iterator[Bundle]], Any], part: int) -> None:
        """Finish a part in its own thread, which first receives the part's bundles."""
        try:
            with closing(finish(part, self._receive_bundles(part))) as results:
                for result in results:
                    with self.condition:
                        if self.error:
                            return
                        self.ready_results.append(result)
                        self.condition.notify_all()
        except BaseException as error:  # the reader of the results raises this error again
            self.stop(error)
        finally:
            with self.condition:
                self.unfinished_parts.discard(part)
                self.whole_parts.discard(part)
                self.condition.notify_all()

    def _receive_bundles(self, part: int) -> Iterator[Bundle]:
        queue = self.queues[part]
        while True:
            with self.condition:
                self.condition.wait_for(
                    lambda: queue or self.error or (self.is_complete and len(self.whole_parts) < self.concurrency)
                )
                if self.error:
                    raise _StoppedError
                if not queue:
                    self.whole_parts.add(part)
                    return
                bundle = queue.popleft()
                self.condition.notify_all()
            yield bundle

    def _raise_error(self) -> None:
        if self.error:
            raise self.error
