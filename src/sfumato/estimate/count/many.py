"""Thousands of counts in one reading of a release.

A query is a set of sensitive values and a condition for each of some public columns. The queries are taken apart into
the conditions they share (`workload`), the release is read once as codes (`blocks`), the records of each condition are
counted by what they show, by bitmaps or by cubes, and all counts become estimates at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.arrays import Codes, Counts, Places
from sfumato.errors import QueryError
from sfumato.estimate.ask import method_of
from sfumato.estimate.count import bitmaps, cubes
from sfumato.estimate.count.blocks import BLOCK_ROWS, Block, blocks, schema_of
from sfumato.estimate.count.queries import CountQuery
from sfumato.estimate.count.workload import Workload, taken_apart
from sfumato.estimate.estimate import Estimates
from sfumato.mechanisms.method import Moments
from sfumato.release.manifest import Manifest
from sfumato.shown import Reader

MOST_COUNTS = 1 << 26
"""Combinations times symbols that are tallied in one reading; more take several readings."""


def count_many(manifest: Manifest, folder: Path, queries: Sequence[CountQuery], method: str | None = None) -> Estimates:
    """Answer many counts in one reading of the release, as `count` would answer each."""
    for query in queries:
        given: object = query
        if not (isinstance(given, CountQuery) and isinstance(given.where, Mapping)):
            raise QueryError(
                f"{query!r} is no query that can be counted with others: write CountQuery(where={{'sex': 'F'}}, "
                "values=['HIV'])."
            )
    paths, way = manifest.paths(folder), method_of(manifest, method)
    schema = schema_of(paths, manifest)
    work = taken_apart(queries, manifest, schema)
    whole = None
    if way.needs_whole:
        everything = replace(work, columns=[], atoms={}, wheres=[()])
        counter = BlockCounter(everything, manifest, paths, schema, every_member=True)
        whole = manifest.shown.counted(counter, manifest.naming, folder)
    most = max(MOST_COUNTS // len(manifest.domain), 1)
    pieces: list[tuple[Places, Moments]] = []
    for first in range(0, len(work.wheres), most):
        part, numbers = work.part(first, first + most)
        counter = BlockCounter(part, manifest, paths, schema, every_member=way.needs_whole)
        tally = manifest.shown.counted(counter, manifest.naming, folder)
        tally = tally.beside(whole, tally.holdings)
        for group, places in _by_set(part):
            mine = tally.take(part.where_of[group])
            found = Moments.exact(mine.rows.astype(np.float64))
            if places is not None:
                (found,) = way.count(manifest.design, mine, [places])
            pieces.append((numbers[group], found))
    order = np.argsort(np.concatenate([np.zeros(0, dtype=np.int64), *(group for group, _ in pieces)]), kind="stable")
    moments = Moments.joined([found for _, found in pieces]).take(order)
    return Estimates(moments, way.words, way.assumption, way.note)


def _by_set(work: Workload) -> Iterator[tuple[Places, Places | None]]:
    """The queries of each set of values."""
    order = np.argsort(work.set_of, kind="stable")
    present, starts = np.unique(work.set_of[order], return_index=True)
    for number, group in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield group, work.sets[number]


@dataclass(frozen=True, eq=False)
class BlockCounter:
    """The conditions of a workload, whose records are counted block by block."""

    work: Workload
    manifest: Manifest
    paths: tuple[Path, ...]
    schema: pa.Schema
    every_member: bool = False
    """Whether all members of sets are counted, and not only those that are asked about."""

    def _blocks(self, read: Reader) -> Iterator[Block]:
        return blocks(self.work, read, self.manifest.shown_names, self.paths, self.schema)

    def symbols(self, read: Reader, size: int) -> Counts:
        """For each condition, how many of its records show each symbol."""
        rows = sum(int(pq.read_metadata(path).num_rows) for path in self.paths)
        return _symbol_counts(self.work, self._blocks(read), size, rows)

    def members(
        self, read: Reader, size: int, needed: Callable[[Sequence[int]], Sequence[int]]
    ) -> tuple[Counts, Counts]:
        """For each condition, how many sets of its records hold each member that is needed, and its records."""
        work, conditions = self.work, len(self.work.wheres)
        counts, rows = np.zeros((conditions, size), dtype=np.int64), np.zeros(conditions, dtype=np.int64)
        every = range(len(self.manifest.domain)) if self.every_member else ()
        wanted: list[set[int]] = [set(every) for _ in range(conditions)]
        pairs = () if self.every_member else zip(work.where_of.tolist(), work.set_of.tolist(), strict=True)
        for where, number in pairs:
            places = work.sets[number]
            if places is not None:
                wanted[where].update(places.tolist())
        listed: dict[int, Sequence[int]] = {where: needed(sorted(places)) for where, places in enumerate(wanted)}
        for block in self._blocks(read):
            for where, selected, members, found in bitmaps.member_counts(work, block, listed):
                rows[where] += selected
                counts[where, members] += found
        return counts, rows

    def kept(self, read: Reader) -> KeptRecords:
        """All records in one block: what belongs together may stand anywhere."""
        found = list(self._blocks(read))
        shown = np.concatenate([np.zeros(0, dtype=np.int64), *(block.shown for block in found)])
        return KeptRecords(
            self.work,
            Block(
                len(shown),
                [np.concatenate([block.codes[number] for block in found]) for number in range(len(self.work.columns))]
                if found
                else [],
                {number: np.concatenate([block.ranges[number] for block in found]) for number in found[0].ranges}
                if found
                else {},
                shown,
            ),
        )


@dataclass(frozen=True, eq=False)
class KeptRecords:
    """All records of a release, or some of them, in memory."""

    work: Workload
    block: Block

    @property
    def shown(self) -> Codes:
        """What each record shows."""
        return self.block.shown

    def counts(self, codes: Codes, size: int) -> Counts:
        """For each condition, how many of its records have each code."""
        return _symbol_counts(self.work, [replace(self.block, shown=codes)], size, self.block.rows)

    def among(self, rows: Places, codes: Codes) -> KeptRecords:
        """Some of the records, with what they shall show."""
        block = self.block
        ranges = {number: mask[rows] for number, mask in block.ranges.items()}
        return KeptRecords(self.work, Block(len(rows), [each[rows] for each in block.codes], ranges, codes))

    def counted(self, where: int, size: int) -> Counts:
        """How many records of one condition show each code."""
        shown = self.block.shown
        if self.work.wheres[where]:
            shown = shown[bitmaps.selected(self.work, self.block, where)]
        return np.bincount(shown, minlength=size)


def _symbol_counts(work: Workload, read: Iterable[Block], size: int, rows: int) -> Counts:
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
