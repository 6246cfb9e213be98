"""Counting what some files of a release hold: here all files together, or each where it can be reached.

All that travels can be pickled, so that an engine may count a file each, and what was counted is added up.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Counts
from sfumato._core.object_store import File
from sfumato._engines.engine import Engine
from sfumato._query.counting import bitmap_counts
from sfumato._query.counting.counting_strategy import ChosenWays, Way, choose_ways
from sfumato._query.counting.cube_counts import Cube
from sfumato._query.counting.query_workload import Workload
from sfumato._query.counting.record_blocks import BLOCK_ROWS, Block, BlockMaker, read_batches, rows_of
from sfumato._records import Reader

Result = TypeVar("Result")


@dataclass(frozen=True)
class RecordFiles:
    """The files of the records, and who counts them if it is somebody else."""

    files: Sequence[File]
    engine: Engine | None = None

    def each(self, count: Callable[[Sequence[File]], Result]) -> Iterator[Result]:
        """What is counted in all files together, or in each by an engine."""
        if self.engine is None:
            yield count(self.files)
        else:
            # Whoever counts may work in another folder.
            files = [file.absolute() if isinstance(file, Path) else file for file in self.files]
            yield from self.engine.each(count, [(file,) for file in files])


@dataclass(frozen=True, eq=False)
class FileCounter:
    """The conditions of a workload, and how to read what a record shows: counts any files of a release."""

    work: Workload
    read: Reader
    names: Sequence[str]
    """The columns that show something."""
    schema: pa.Schema

    def _batches(self, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        """The columns of the records that are needed."""
        return read_batches(files, self.schema, [*(column.name for column in self.work.columns), *self.names])

    def symbols(self, size: int, files: Sequence[File]) -> Counts:
        """For each condition, how many of its records show each symbol."""
        rows, make = rows_of(files), BlockMaker(self.work, self.read)
        counting = SymbolCounting(self.work, size)
        _process_batches(lambda batch: counting.add(make(batch)), self._batches(files), rows)
        return counting.counts()

    def members(self, size: int, listed: Mapping[int, Sequence[int]], files: Sequence[File]) -> tuple[Counts, Counts]:
        """For each condition, how many sets of its records hold each member that is listed for it, and its records."""
        conditions = len(self.work.wheres)
        counts, rows = np.zeros((conditions, size), dtype=np.int64), np.zeros(conditions, dtype=np.int64)
        make, lock = BlockMaker(self.work, self.read), Lock()

        def add(batch: pa.RecordBatch) -> None:
            member_counts = list(bitmap_counts.count_members(self.work, make(batch), listed))
            with lock:
                for where, selected, members, set_counts in member_counts:
                    rows[where] += selected
                    counts[where, members] += set_counts

        _process_batches(add, self._batches(files), rows_of(files))
        return counts, rows

    def kept(self, files: Sequence[File]) -> list[Block]:
        """The records themselves, as codes: fewer bytes than counts by bucket would be."""
        return [*map(BlockMaker(self.work, self.read), self._batches(files))]


class SymbolCounting:
    """For each condition, how many of its records show each symbol, by the ways that are worth it.

    Blocks may be added by several threads at a time.
    """

    def __init__(self, work: Workload, size: int, kind: type[Any] = np.int64) -> None:
        """Begin with nothing."""
        self.work, self.size, self.lock = work, size, Lock()
        self.found = np.zeros((len(work.wheres), size), dtype=kind)
        self.everything = [number for number, where in enumerate(work.wheres) if not where]
        self.conditions = [number for number, where in enumerate(work.wheres) if where]
        self.ways: ChosenWays | None = None
        self.cubes: dict[Cube, Counts] = {}
        """What each cube has counted so far."""

    def add(self, block: Block) -> None:
        """Count the records of a block."""
        with self.lock:
            chosen_ways = self.ways = self.ways or choose_ways(self.work, self.conditions, self.size, block)
        left = chosen_ways.left
        if chosen_ways.holds(block):
            for way in chosen_ways.ways:
                cells = way.counted(block)
                with self.lock:
                    self._keep(way, cells)
        else:  # other values than those of the first block
            left = self.conditions
        if self.everything:
            shown = np.bincount(block.shown, minlength=self.size).astype(self.found.dtype)
            with self.lock:
                self.found[self.everything] += shown
        for numbers, counts in bitmap_counts.count_symbols(self.work, block, left, self.size):
            with self.lock:
                self.found[numbers] += counts

    def _keep(self, way: Way, cells: Counts) -> None:
        """Add up what was counted: the cells of a cube as they are, because they answer more than one could write."""
        if isinstance(way, Cube):
            cube = self.cubes.get(way)
            self.cubes[way] = cells if cube is None else np.add(cube, cells, out=cube)
        else:
            self._answer(way, cells)

    def _answer(self, way: Way, cells: Counts) -> None:
        for numbers, counts in way.answers(self.work, cells):
            self.found[numbers] += counts

    def counts(self) -> Counts:
        """All that was counted, a line for each condition."""
        for cube, cells in self.cubes.items():
            self._answer(cube, cells)
        return self.found


def _process_batches(work: Callable[[pa.RecordBatch], None], read: Iterable[pa.RecordBatch], rows: int) -> None:
    """Work on every batch; on several at a time if there are several."""
    if rows <= BLOCK_ROWS:
        for batch in read:
            work(batch)
        return
    workers = os.cpu_count() or 1
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch in read:
            waiting.append(pool.submit(work, batch))
            if len(waiting) > workers:
                waiting.popleft().result()
        for future in waiting:
            future.result()
