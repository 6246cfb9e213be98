"""Counts the records in the files of a release.

All files are counted on this machine, or an engine counts each file where the file is stored. Everything that is sent
to an engine can be pickled. The counts of all files are added up.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Counts
from sfumato._core.object_store import File
from sfumato._engines.engine import Engine
from sfumato._query.counting import bitmap_counts
from sfumato._query.counting.counting_strategy import CellCounter, CountingStrategy, choose_strategy
from sfumato._query.counting.cube_counts import Cube
from sfumato._query.counting.record_blocks import BLOCK_ROWS, Block, BlockMaker, count_rows, read_batches
from sfumato._query.counting.row_numbering import RowNumbering
from sfumato._query.counting.shared_conditions import Workload
from sfumato._records import RecordReader

Result = TypeVar("Result")


@dataclass(frozen=True)
class RecordFiles:
    """The files of the records, and the engine that counts them, if any."""

    files: Sequence[File]
    engine: Engine | None = None

    def count_files(self, count: Callable[[Sequence[File]], Result]) -> Iterator[Result]:
        """Counts all files together on this machine, or each file with an engine."""
        if self.engine is None:
            yield count(self.files)
        else:
            # The engine may have another working folder.
            files = [file.absolute() if isinstance(file, Path) else file for file in self.files]
            yield from self.engine.map_items(count, [(file,) for file in files])


@dataclass(frozen=True, eq=False)
class FileCounter:
    """The conditions of a workload, with the reader of published values.

    A workload can count any files of a release.
    """

    work: Workload
    read: RecordReader
    published_columns: Sequence[str]
    """The columns with published values."""
    schema: pa.Schema

    def _read_batches(self, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        """The needed columns of the records."""
        return read_batches(
            files, self.schema, [*(column.name for column in self.work.columns), *self.published_columns]
        )

    def count_symbols(self, size: int, files: Sequence[File]) -> Counts:
        """For each condition, the number of its records by symbol."""
        rows, make = count_rows(files), BlockMaker(self.work, self.read)
        counting = SymbolCounter(self.work, size)
        _process_batches(lambda batch: counting.add(make(batch)), self._read_batches(files), rows)
        return counting.collect_counts()

    def count_members(
        self, size: int, places_by_where: Mapping[int, Sequence[int]], files: Sequence[File]
    ) -> tuple[Counts, Counts]:
        """For each condition, its number of records, and how many of their sets contain each listed member."""
        conditions = len(self.work.wheres)
        counts, rows = np.zeros((conditions, size), dtype=np.int64), np.zeros(conditions, dtype=np.int64)
        make, lock = BlockMaker(self.work, self.read), Lock()

        def add(batch: pa.RecordBatch) -> None:
            member_counts = list(bitmap_counts.count_members(self.work, make(batch), places_by_where))
            with lock:
                for where, selected, members, set_counts in member_counts:
                    rows[where] += selected
                    counts[where, members] += set_counts

        _process_batches(add, self._read_batches(files), count_rows(files))
        return counts, rows

    def count_group_members(self, size: int, numbering: RowNumbering, groups: int, files: Sequence[File]) -> Counts:
        """For each group of records, the number of sets with each member. The last column is the number of records."""
        counts = np.zeros((groups, size + 1), dtype=np.int64)
        for batch in self._read_batches(files):
            numbers, members = numbering(batch), self.read(batch)
            counts[:, -1] += np.bincount(numbers, minlength=groups)
            order = np.argsort(numbers, kind="stable")
            present, starts = np.unique(numbers[order], return_index=True)
            if len(present):
                counts[present, :-1] += np.add.reduceat(members[order], starts, axis=0, dtype=np.int64)
        return counts

    def read_blocks(self, files: Sequence[File]) -> list[Block]:
        """Reads the records as codes. Codes take fewer bytes than counts by bucket."""
        return [*map(BlockMaker(self.work, self.read), self._read_batches(files))]


class SymbolCounter:
    """Counts the symbols of each condition's records in the fastest way.

    Several threads may add blocks at the same time.
    """

    def __init__(self, work: Workload, size: int, kind: type[np.number] = np.int64) -> None:
        """Starts with empty counts."""
        self.work, self.size, self.lock = work, size, Lock()
        self.symbol_counts = np.zeros((len(work.wheres), size), dtype=kind)
        self.unconditional_wheres = [number for number, where in enumerate(work.wheres) if not where]
        self.conditional_wheres = [number for number, where in enumerate(work.wheres) if where]
        self.strategy: CountingStrategy | None = None
        self.cubes: dict[Cube, Counts] = {}
        """The counts of each cube so far."""

    def add(self, block: Block) -> None:
        """Counts the records of a block."""
        with self.lock:
            strategy = self.strategy = self.strategy or choose_strategy(
                self.work, self.conditional_wheres, self.size, block
            )
        bitmap_wheres = strategy.bitmap_wheres
        if strategy.has_room(block):
            for cell_counter in strategy.cell_counters:
                cells = cell_counter.count(block)
                with self.lock:
                    self._add_cells(cell_counter, cells)
        else:  # the values differ from those of the first block
            bitmap_wheres = self.conditional_wheres
        if self.unconditional_wheres:
            all_counts = np.bincount(block.published_codes, minlength=self.size).astype(self.symbol_counts.dtype)
            with self.lock:
                self.symbol_counts[self.unconditional_wheres] += all_counts
        for numbers, counts in bitmap_counts.count_symbols(self.work, block, bitmap_wheres, self.size):
            with self.lock:
                self.symbol_counts[numbers] += counts

    def _add_cells(self, cell_counter: CellCounter, cells: Counts) -> None:
        """Adds new counts. A cube keeps its cells, because it answers too many queries to list their counts."""
        if isinstance(cell_counter, Cube):
            cube = self.cubes.get(cell_counter)
            self.cubes[cell_counter] = cells if cube is None else np.add(cube, cells, out=cube)
        else:
            self._add_answers(cell_counter, cells)

    def _add_answers(self, cell_counter: CellCounter, cells: Counts) -> None:
        for numbers, counts in cell_counter.iter_counts(self.work, cells):
            self.symbol_counts[numbers] += counts

    def collect_counts(self) -> Counts:
        """All counts, one row for each condition."""
        for cube, cells in self.cubes.items():
            self._add_answers(cube, cells)
        return self.symbol_counts


def _process_batches(work: Callable[[pa.RecordBatch], None], batches: Iterable[pa.RecordBatch], rows: int) -> None:
    """Processes every batch, several batches at a time."""
    if rows <= BLOCK_ROWS:
        for batch in batches:
            work(batch)
        return
    workers = os.cpu_count() or 1
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            waiting.append(pool.submit(work, batch))
            if len(waiting) > workers:
                waiting.popleft().result()
        for future in waiting:
            future.result()
