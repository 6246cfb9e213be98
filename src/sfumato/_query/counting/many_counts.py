"""Answers thousands of counts in one pass over a release.

A query has a set of sensitive values, and conditions on some public columns. `shared_conditions` finds the conditions
that queries share. `record_blocks` reads the release once as codes. `counting_strategy` finds the fastest way to count.
`file_counts` counts the published values for each condition in this way. All counts then become estimates at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Counts, Mask, Places
from sfumato._query.counting import bitmap_counts
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.counting.file_counts import FileCounter, RecordFiles, SymbolCounter
from sfumato._query.counting.record_blocks import Block, read_record_schema
from sfumato._query.counting.row_numbering import RowNumbering
from sfumato._query.counting.selected_rows import find_selected_rows, list_whole_groups
from sfumato._query.counting.shared_conditions import Workload, build_workload
from sfumato._query.estimate import Estimates
from sfumato._query.query_runner import find_method
from sfumato._records import RecordReader
from sfumato._records.bit_masks import BitWords
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Moments

MOST_COUNTS = 1 << 26
"""The largest product of combinations and symbols in one pass. Larger workloads take several passes."""


def count_many(
    manifest: Manifest,
    folder: Path,
    queries: Sequence[CountQuery],
    method: str | None = None,
    records: RecordFiles | None = None,
) -> Estimates:
    """Answers many counts in one pass over the release. The results equal those of `count` for each query.

    The folder has the tables beside the records. It also has the records, unless `records` gives their location and
    engine.
    """
    for query in queries:
        candidate: object = query
        if not (isinstance(candidate, CountQuery) and isinstance(candidate.where, Mapping)):
            raise QueryError(
                f"{query!r} cannot be counted with others: write CountQuery(where={{'sex': 'F'}}, values=['HIV']).",
                code="invalid-count-query",
            )
    records, estimator = records or RecordFiles(manifest.list_data_paths(folder)), find_method(manifest, method)
    schema = read_record_schema(records.files, manifest)
    work = build_workload(queries, manifest, schema)
    whole_tally = None
    if estimator.needs_whole:
        everything = replace(work, columns=[], atoms={}, wheres=[()])
        counter = BlockCounter(everything, manifest, records, schema, has_all_members=True)
        whole_tally = manifest.encoding.tally_conditions(counter, manifest.naming, folder)
    most = max(MOST_COUNTS // len(manifest.domain), 1)
    pieces: list[tuple[Places, Moments]] = []
    empty = np.zeros(len(queries), dtype=np.bool_)
    for first in range(0, len(work.wheres), most):
        part, numbers = work.select_part(first, first + most)
        counter = BlockCounter(part, manifest, records, schema, has_all_members=estimator.needs_whole)
        tally = manifest.encoding.tally_conditions(counter, manifest.naming, folder)
        tally = tally.attach_context(whole_tally, tally.holdings)
        for groups, sets in _group_by_wheres(part):
            distinct_wheres, places = np.unique(part.where_numbers[groups[0]], return_inverse=True)
            group_tally = tally.take(distinct_wheres)  # many queries may ask the same
            estimates = (
                [Moments.exact(group_tally.rows.astype(np.float64))]
                if sets is None
                else estimator.count(manifest.design, group_tally, sets)
            )
            for group, moments in zip(groups, estimates, strict=True):
                empty[numbers[group]] = (group_tally.rows == 0)[places]
                pieces.append((numbers[group], moments.take(places)))
    order = np.argsort(np.concatenate([np.zeros(0, dtype=np.int64), *(group for group, _ in pieces)]), kind="stable")
    joined = Moments.concatenate([estimates for _, estimates in pieces]).take(order)
    has_conditions = np.array([bool(work.wheres[where]) for where in work.where_numbers.tolist()], dtype=np.bool_)
    empty &= has_conditions
    return Estimates(joined, estimator.label, estimator.assumption, estimator.note, empty, manifest.population)


def _group_by_wheres(work: Workload) -> Iterator[tuple[list[Places], list[Places] | None]]:
    """Yields the value sets that share conditions. The queries of each value set are in the same order.

    An estimator processes a condition's records once for all these sets. Without sets, it does not process the records.
    """
    groups_by_wheres: dict[bytes, tuple[list[Places], list[Places]]] = {}
    for group, places in _group_by_set(work):
        if places is None:
            yield [group], None
            continue
        groups, sets = groups_by_wheres.setdefault(work.where_numbers[group].tobytes(), ([], []))
        groups.append(group)
        sets.append(places)
    yield from groups_by_wheres.values()


def _group_by_set(work: Workload) -> Iterator[tuple[Places, Places | None]]:
    """Yields the queries of each value set, with their conditions."""
    order = np.lexsort((work.where_numbers, work.set_numbers))
    present, starts = np.unique(work.set_numbers[order], return_index=True)
    for number, group in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield group, work.sets[number]


@dataclass(frozen=True, eq=False)
class BlockCounter:
    """Counts the records of a workload's conditions block by block. Adds up the counts of all files."""

    work: Workload
    manifest: Manifest
    records: RecordFiles
    schema: pa.Schema
    has_all_members: bool = False
    """Whether to count all members of sets. If false, only the requested members are counted."""

    def _make_file_counter(self, read: RecordReader) -> FileCounter:
        return FileCounter(self.work, read, self.manifest.protected_columns, self.schema)

    def count_symbols(self, read: RecordReader, size: int) -> Counts:
        """For each condition, the number of its records by symbol."""
        return reduce(np.add, self.records.count_files(partial(self._make_file_counter(read).count_symbols, size)))

    def count_members(
        self, read: RecordReader, size: int, needed: Callable[[Sequence[int]], Sequence[int]]
    ) -> tuple[Counts, Counts]:
        """For each condition, its number of records, and how many of their sets contain each needed member."""
        work, conditions = self.work, len(self.work.wheres)
        all_places = range(len(self.manifest.domain)) if self.has_all_members else ()
        places_by_where: list[set[int]] = [set(all_places) for _ in range(conditions)]
        pairs = () if self.has_all_members else zip(work.where_numbers.tolist(), work.set_numbers.tolist(), strict=True)
        for where, number in pairs:
            places = work.sets[number]
            if places is not None:
                places_by_where[where].update(places.tolist())
        listed: dict[int, Sequence[int]] = {
            where: needed(sorted(places)) for where, places in enumerate(places_by_where)
        }
        counts, rows = np.zeros((conditions, size), dtype=np.int64), np.zeros(conditions, dtype=np.int64)
        for file_counts, file_rows in self.records.count_files(
            partial(self._make_file_counter(read).count_members, size, listed)
        ):
            counts += file_counts
            rows += file_rows
        return counts, rows

    def count_group_members(self, read: RecordReader, size: int, groups: pa.Table) -> Counts:
        """For each row of a small table of public columns, counts the members in the sets of the row's records.

        The last column has the number of the row's records.
        """
        counter = FileCounter(self.work, read, (*self.manifest.protected_columns, *groups.column_names), self.schema)
        count = partial(counter.count_group_members, size, RowNumbering.of(groups), groups.num_rows)
        return reduce(np.add, self.records.count_files(count))

    def number_rows(self, table: pa.Table, groups: pa.Table) -> Places:
        """For each row of a small table, the row of another table with the same values. -1 if no row has them."""
        return RowNumbering.of(groups).number_table(table)

    def find_whole_groups(
        self, groups: pa.Table, people: Counts, others: pa.Table, other_people: Counts
    ) -> tuple[Places, Places]:
        """For each condition, the groups of which it selects all people.

        The people of a group are records, or another small table counts them. That table has all public columns.
        """
        numbering, conditions, size = RowNumbering.of(groups), list(self.work.atoms), groups.num_rows
        other_groups = numbering.number_table(others)
        are_selected: dict[int, Mask] = {}
        step = max(MOST_COUNTS // max(size, 1), 1)
        for first in range(0, len(conditions), step):
            part = conditions[first : first + step]
            single = replace(self.work, wheres=[(number,) for number in part])
            counter = FileCounter(single, numbering, groups.column_names, self.schema)
            selected = reduce(np.add, self.records.count_files(partial(counter.count_symbols, size)))
            rows, starts = find_selected_rows(single, others, len(other_people))
            lines = np.repeat(np.arange(len(part)), np.diff(starts))
            np.add.at(selected, (lines, other_groups[rows]), other_people[rows])
            are_selected.update(zip(part, selected == people, strict=True))
        return list_whole_groups(self.work, are_selected, size)

    def find_rows(self, table: pa.Table, rows: int) -> tuple[Places, Places]:
        """For each condition, the rows of a small table that satisfy it. Also the first position of each condition."""
        return find_selected_rows(self.work, table, rows)

    def load_records(self, read: RecordReader) -> MemoryRecords:
        """Loads all records into one block, because related records may be anywhere."""
        all_blocks = [
            block for blocks in self.records.count_files(self._make_file_counter(read).read_blocks) for block in blocks
        ]
        published_codes = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(block.published_codes for block in all_blocks)]
        )
        return MemoryRecords(
            self.work,
            Block(
                len(published_codes),
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
                published_codes,
            ),
        )


@dataclass(frozen=True, eq=False)
class MemoryRecords:
    """All records of a release in memory, or some of these records."""

    work: Workload
    block: Block

    @property
    def published_codes(self) -> Codes:
        """The published code of each record."""
        return self.block.published_codes

    def count_codes(self, codes: Codes, size: int) -> Counts:
        """For each condition, the number of its records by code."""
        # A narrow type is used, because counts for thousands of conditions and kinds need much memory and none exceeds
        # the number of records.
        kind = np.int32 if self.block.rows < 1 << 31 else np.int64
        counting = SymbolCounter(self.work, size, kind)
        counting.add(replace(self.block, published_codes=codes))
        return counting.collect_counts()

    def iter_place_sets(self) -> Iterator[tuple[Places, Sequence[int]]]:
        """Yields each requested value set with the numbers of its conditions."""
        for group, places in _group_by_set(self.work):
            if places is not None:
                yield places, np.unique(self.work.where_numbers[group]).tolist()

    def iter_bits(self, index: Places, wheres: Sequence[int]) -> Iterator[tuple[Sequence[int], BitWords]]:
        """Yields some conditions at a time. A bit for each index says whether the record satisfies the condition."""
        return bitmap_counts.arrange_bits(self.work, self.block, index, wheres)

    def select(self, rows: Places, codes: Codes) -> MemoryRecords:
        """Some of the records, with new published codes."""
        block = self.block
        ranges = {number: mask[rows] for number, mask in block.ranges.items()}
        return MemoryRecords(
            self.work, Block(len(rows), [codes_array[rows] for codes_array in block.codes], ranges, codes)
        )

    def count_condition(self, where: int, size: int) -> Counts:
        """The number of one condition's records by code."""
        published_codes = self.block.published_codes
        if self.work.wheres[where]:
            published_codes = published_codes[bitmap_counts.select_records(self.work, self.block, where)]
        return np.bincount(published_codes, minlength=size)
