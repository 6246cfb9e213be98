"""Thousands of counts in one reading of a release.

A query is a set of sensitive values and a condition for each of some public columns. The queries are taken apart into
the conditions they share (`query_workload`), the release is read once as codes (`record_blocks`), the records of each
condition are counted by what they show (`file_counts`) in the ways that take least time (`counting_strategy`), and all
counts become estimates at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Codes, Counts, Places
from sfumato._query.answering import find_method
from sfumato._query.counting import bitmap_counts
from sfumato._query.counting.count_queries import CountQuery
from sfumato._query.counting.file_counts import FileCounter, RecordFiles, SymbolCounting
from sfumato._query.counting.query_workload import Workload, build_workload
from sfumato._query.counting.record_blocks import Block, read_record_schema
from sfumato._query.estimate import Estimates
from sfumato._records import Reader
from sfumato._records.bit_sets import BitWords
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Moments

MOST_COUNTS = 1 << 26
"""Combinations times symbols that are tallied in one reading; more take several readings."""


def count_many(
    manifest: Manifest,
    folder: Path,
    queries: Sequence[CountQuery],
    method: str | None = None,
    records: RecordFiles | None = None,
) -> Estimates:
    """Answer many counts in one reading of the release, as `count` would answer each.

    The folder has the tables beside the records; and the records too, unless it is said where they are and who counts.
    """
    for query in queries:
        candidate: object = query
        if not (isinstance(candidate, CountQuery) and isinstance(candidate.where, Mapping)):
            raise QueryError(
                f"{query!r} is no query that can be counted with others: write CountQuery(where={{'sex': 'F'}}, "
                "values=['HIV'])."
            )
    records, way = records or RecordFiles(manifest.paths(folder)), find_method(manifest, method)
    schema = read_record_schema(records.files, manifest)
    work = build_workload(queries, manifest, schema)
    whole = None
    if way.needs_whole:
        everything = replace(work, columns=[], atoms={}, wheres=[()])
        counter = BlockCounter(everything, manifest, records, schema, every_member=True)
        whole = manifest.shown.counted(counter, manifest.naming, folder)
    most = max(MOST_COUNTS // len(manifest.domain), 1)
    pieces: list[tuple[Places, Moments]] = []
    empty = np.zeros(len(queries), dtype=np.bool_)
    for first in range(0, len(work.wheres), most):
        part, numbers = work.part(first, first + most)
        counter = BlockCounter(part, manifest, records, schema, every_member=way.needs_whole)
        tally = manifest.shown.counted(counter, manifest.naming, folder)
        tally = tally.beside(whole, tally.holdings)
        for groups, sets in _group_by_wheres(part):
            mine = tally.take(part.where_of[groups[0]])
            estimates = (
                [Moments.exact(mine.rows.astype(np.float64))]
                if sets is None
                else way.count(manifest.design, mine, sets)
            )
            for group, moments in zip(groups, estimates, strict=True):
                empty[numbers[group]] = mine.rows == 0
                pieces.append((numbers[group], moments))
    order = np.argsort(np.concatenate([np.zeros(0, dtype=np.int64), *(group for group, _ in pieces)]), kind="stable")
    joined = Moments.joined([estimates for _, estimates in pieces]).take(order)
    has_conditions = np.array([bool(work.wheres[where]) for where in work.where_of.tolist()], dtype=np.bool_)
    return Estimates(joined, way.words, way.assumption, way.note, empty & has_conditions)


def _group_by_wheres(work: Workload) -> Iterator[tuple[list[Places], list[Places] | None]]:
    """Sets of values that are asked for under the same conditions, and the queries of each in the same order.

    What an estimator learns of the records of a condition is learnt once for all these sets; and of no set nothing.
    """
    alike: dict[bytes, tuple[list[Places], list[Places]]] = {}
    for group, places in _group_by_set(work):
        if places is None:
            yield [group], None
            continue
        groups, sets = alike.setdefault(work.where_of[group].tobytes(), ([], []))
        groups.append(group)
        sets.append(places)
    yield from alike.values()


def _group_by_set(work: Workload) -> Iterator[tuple[Places, Places | None]]:
    """The queries of each set of values, by their conditions."""
    order = np.lexsort((work.where_of, work.set_of))
    present, starts = np.unique(work.set_of[order], return_index=True)
    for number, group in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield group, work.sets[number]


@dataclass(frozen=True, eq=False)
class BlockCounter:
    """The conditions of a workload, whose records are counted block by block: what files have is added up."""

    work: Workload
    manifest: Manifest
    records: RecordFiles
    schema: pa.Schema
    every_member: bool = False
    """Whether all members of sets are counted, and not only those that are asked about."""

    def _file_counter(self, read: Reader) -> FileCounter:
        return FileCounter(self.work, read, self.manifest.shown_names, self.schema)

    def symbols(self, read: Reader, size: int) -> Counts:
        """For each condition, how many of its records show each symbol."""
        return reduce(np.add, self.records.each(partial(self._file_counter(read).symbols, size)))

    def members(
        self, read: Reader, size: int, needed: Callable[[Sequence[int]], Sequence[int]]
    ) -> tuple[Counts, Counts]:
        """For each condition, how many sets of its records hold each member that is needed, and its records."""
        work, conditions = self.work, len(self.work.wheres)
        every = range(len(self.manifest.domain)) if self.every_member else ()
        wanted: list[set[int]] = [set(every) for _ in range(conditions)]
        pairs = () if self.every_member else zip(work.where_of.tolist(), work.set_of.tolist(), strict=True)
        for where, number in pairs:
            places = work.sets[number]
            if places is not None:
                wanted[where].update(places.tolist())
        listed: dict[int, Sequence[int]] = {where: needed(sorted(places)) for where, places in enumerate(wanted)}
        counts, rows = np.zeros((conditions, size), dtype=np.int64), np.zeros(conditions, dtype=np.int64)
        for file_counts, file_rows in self.records.each(partial(self._file_counter(read).members, size, listed)):
            counts += file_counts
            rows += file_rows
        return counts, rows

    def kept(self, read: Reader) -> KeptRecords:
        """All records in one block: what belongs together may stand anywhere."""
        all_blocks = [block for blocks in self.records.each(self._file_counter(read).kept) for block in blocks]
        shown = np.concatenate([np.zeros(0, dtype=np.int64), *(block.shown for block in all_blocks)])
        return KeptRecords(
            self.work,
            Block(
                len(shown),
                [
                    np.concatenate([block.codes[number] for block in all_blocks])
                    for number in range(len(self.work.columns))
                ]
                if all_blocks
                else [],
                {
                    number: np.concatenate([block.ranges[number] for block in all_blocks])
                    for number in all_blocks[0].ranges
                }
                if all_blocks
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
        # Thousands of conditions times thousands of kinds take much memory, and no count exceeds the records.
        kind = np.int32 if self.block.rows < 1 << 31 else np.int64
        counting = SymbolCounting(self.work, size, kind)
        counting.add(replace(self.block, shown=codes))
        return counting.counts()

    def asked(self) -> Iterator[tuple[Places, Sequence[int]]]:
        """Each set of places that is asked for, and the numbers of the conditions under which it is."""
        for group, places in _group_by_set(self.work):
            if places is not None:
                yield places, np.unique(self.work.where_of[group]).tolist()

    def bits(self, index: Places, wheres: Sequence[int]) -> Iterator[tuple[Sequence[int], BitWords]]:
        """Some of these conditions at a time: a line of bits each, whether the record at each index satisfies it."""
        return bitmap_counts.arrange_bits(self.work, self.block, index, wheres)

    def among(self, rows: Places, codes: Codes) -> KeptRecords:
        """Some of the records, with what they shall show."""
        block = self.block
        ranges = {number: mask[rows] for number, mask in block.ranges.items()}
        return KeptRecords(
            self.work, Block(len(rows), [codes_array[rows] for codes_array in block.codes], ranges, codes)
        )

    def counted(self, where: int, size: int) -> Counts:
        """How many records of one condition show each code."""
        shown = self.block.shown
        if self.work.wheres[where]:
            shown = shown[bitmap_counts.select_records(self.work, self.block, where)]
        return np.bincount(shown, minlength=size)
