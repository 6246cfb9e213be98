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
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sfumato.address import File
from sfumato.apply.engine import Engine
from sfumato.arrays import Counts
from sfumato.estimate.count import bitmaps, cubes
from sfumato.estimate.count.blocks import BLOCK_ROWS, Block, blocks, rows_of
from sfumato.estimate.count.workload import Workload
from sfumato.shown import Reader

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

    def _read(self, files: Sequence[File]) -> tuple[int, Iterator[Block]]:
        """How many records there are, and the records."""
        return rows_of(files), blocks(self.work, self.read, self.names, files, self.schema)

    def symbols(self, size: int, files: Sequence[File]) -> Counts:
        """For each condition, how many of its records show each symbol."""
        rows, found = self._read(files)
        return symbol_counts(self.work, found, size, rows)

    def members(self, size: int, listed: Mapping[int, Sequence[int]], files: Sequence[File]) -> tuple[Counts, Counts]:
        """For each condition, how many sets of its records hold each member that is listed for it, and its records."""
        conditions = len(self.work.wheres)
        counts, rows = np.zeros((conditions, size), dtype=np.int64), np.zeros(conditions, dtype=np.int64)
        for block in self._read(files)[1]:
            for where, selected, members, found in bitmaps.member_counts(self.work, block, listed):
                rows[where] += selected
                counts[where, members] += found
        return counts, rows

    def kept(self, files: Sequence[File]) -> list[Block]:
        """The records themselves, as codes: fewer bytes than counts by bucket would be."""
        return list(self._read(files)[1])


def symbol_counts(work: Workload, read: Iterable[Block], size: int, rows: int) -> Counts:
    """For each condition, how many of its records show each symbol: by cubes where they pay, else by bitmaps."""
    counts = np.zeros((len(work.wheres), size), dtype=np.int64)
    conditions = [number for number, where in enumerate(work.wheres) if where]
    everything = [number for number, where in enumerate(work.wheres) if not where]
    made, left = cubes.chosen(work, conditions, size, min(rows, BLOCK_ROWS))
    lock = Lock()

    def add(block: Block) -> None:
        with lock:
            for cube in made:
                cube.add(block)
            counts[everything] += np.bincount(block.shown, minlength=size)
        for numbers, found in bitmaps.counts(work, block, left, size):
            with lock:
                counts[numbers] += found

    _each(add, read, rows > BLOCK_ROWS)
    for cube in made:
        for numbers, found in cube.answers(work):
            counts[numbers] = found
    return counts


def _each(work: Callable[[Block], None], read: Iterable[Block], is_long: bool) -> None:
    """Work on every block; on several at a time if there are several."""
    if not is_long:
        for block in read:
            work(block)
        return
    workers = os.cpu_count() or 1
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for block in read:
            waiting.append(pool.submit(work, block))
            if len(waiting) > workers:
                waiting.popleft().result()
        for each in waiting:
            each.result()
