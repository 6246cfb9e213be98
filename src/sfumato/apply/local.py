"""One machine: two streaming passes, and a keyed shuffle that spills to disk when the table is large.

Memory does not grow with the table. Every rewritten row carries a 64-bit keyed word, and rows are published sorted by
it. Rows are scattered into parts by the leading bits of that word, each part is sorted, and the parts are written one
after the other; so the order is the same however many parts, batches or threads there were.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.apply.persons import Grouping
from sfumato.apply.preparation import Preparation
from sfumato.apply.profile import Counted, Profile, Profiler
from sfumato.apply.rewrite import ORDER, Rewrite, Rows, decode, published_schema
from sfumato.apply.source import Source, read_ahead
from sfumato.arrays import Counts, Words
from sfumato.draws import Draws
from sfumato.errors import SourceError
from sfumato.request.schema import NullPolicy
from sfumato.shown import SideTable
from sfumato.shown.columns import PublishedColumn, smallest_type

BATCH_ROWS = 1 << 18
PART_ROWS = 1 << 17
MOST_PARTS = 4096
ROW_GROUP_ROWS = 1 << 20
MEMORY_BUDGET = 256 << 20
PAGE_BYTES = 1 << 17
"""Pages that stay in the cache of a core are compressed a fifth faster than those of the usual size."""

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many rows are done, and how many there are if that is known."""

Positions = npt.NDArray[np.int64]

Item = TypeVar("Item")
Result = TypeVar("Result")


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


def no_work() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class LocalEngine:
    """Reads, rewrites, shuffles and writes with the threads of one machine."""

    batch_rows: int = BATCH_ROWS
    threads: int = field(default_factory=lambda: min(os.cpu_count() or 1, 8))
    memory_budget: int = MEMORY_BUDGET
    progress: Progress = no_progress

    def people(self, source: Source, person: str, folder: Path) -> Grouping:
        """The rows of a table by person; `folder` holds what does not fit into memory."""
        return Grouping(source, person, folder, self.batch_rows, self.memory_budget)

    def profile(self, source: Source, preparation: Preparation, draws: Draws) -> tuple[Profile, int]:
        """The first pass: the profile of the prepared rows, and how many rows were left out."""
        schema, types = preparation.schema, preparation.types(source.schema)
        parts = [name for name in schema.sensitive_columns if name != schema.sensitive]
        expected = None if schema.nulls is NullPolicy.DROP else source.rows
        profiler = Profiler(types, schema.sensitive, parts, list(schema.bins), draws, expected)
        read = 0

        def rows() -> Iterator[tuple[pa.RecordBatch, int, int]]:
            first = 0
            for batch in source.batches(preparation.columns, self.batch_rows):
                kept = preparation.kept(batch)
                yield kept, first, batch.num_rows
                first += kept.num_rows

        def count(item: tuple[pa.RecordBatch, int, int]) -> tuple[Counted, int]:
            kept, first, size = item
            return profiler.count(preparation.with_compound(preparation.prepared(kept)), kept, first), size

        with ThreadPoolExecutor(self.threads) as pool:
            for counted, size in self._ordered(pool, count, read_ahead(rows())):
                profiler.add(counted)
                read += size
                self.progress("counting", read, source.rows)
        return profiler.result(schema.person_rows.most), read - profiler.rows

    def rewrite(  # noqa: PLR0913, PLR0917 - where rows come from, what becomes of them, where they go
        self,
        source: Source,
        preparation: Preparation,
        rewrite: Rewrite,
        rows: int,
        target: Path,
        beside: Callable[[], None] = no_work,
    ) -> None:
        """The second pass: rewrite every batch, shuffle all rows, and write them as one Parquet file.

        Writing keeps one core busy: other work is done beside it.
        """
        scatter = _Scatter(rows, target.with_suffix(".parts"), self.memory_budget)
        items = self._numbered(source, preparation, rewrite)
        with ThreadPoolExecutor(self.threads) as pool:
            done = 0
            for rows_done, offsets in self._ordered(pool, lambda item: scatter.split(rewrite(*item)), items):
                scatter.add(rows_done, offsets)
                done += int(offsets[-1])
                self.progress("rewriting", done, rows)
            if done != rows:
                raise SourceError("the table changed while it was read: it has another number of rows than before.")
            parts = self._ordered(pool, scatter.part, range(scatter.parts))
            with ThreadPoolExecutor(1) as other:
                finished = other.submit(beside)
                self._write_pieces(pool, parts, rewrite.published, rows, target)
                finished.result()
        scatter.remove()

    def write_side(self, side: SideTable, folder: Path) -> None:
        """Write the rows of a side table in their order; quietly, because the records are what takes the time."""
        quiet = replace(self, progress=no_progress)
        with ThreadPoolExecutor(1) as pool:
            quiet._write_pieces(pool, side.batches(self.batch_rows), side.columns, side.size, folder / side.file)

    def _write_pieces(
        self,
        pool: ThreadPoolExecutor,
        pieces: Iterable[Rows],
        columns: Sequence[PublishedColumn],
        rows: int,
        target: Path,
    ) -> None:
        """Write rows that come in order, in groups whose size does not depend on how they come."""
        groups = self._ordered(pool, partial(decode, columns), _regrouped(pieces, ROW_GROUP_ROWS))
        self._write(groups, columns, rows, target)

    def _numbered(
        self, source: Source, preparation: Preparation, rewrite: Rewrite
    ) -> Iterator[tuple[pa.RecordBatch, int, Counts | None]]:
        """Prepared batches, each with how many rows and how many records of each value there are before it.

        A thread reads ahead.
        """
        first_row, ranks_before = 0, np.zeros(rewrite.ranked_values, dtype=np.int64)
        batches = source.batches(preparation.columns, self.batch_rows)
        for batch in read_ahead(preparation(batch) for batch in batches):
            counted = rewrite.count(batch)
            yield batch, first_row, None if counted is None else ranks_before
            first_row += batch.num_rows
            ranks_before = ranks_before if counted is None else ranks_before + counted

    def _ordered(
        self, pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Work on several items at once, and give the results in order; only a few wait in memory."""
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > self.threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _write(self, groups: Iterable[pa.Table], columns: Sequence[PublishedColumn], rows: int, target: Path) -> None:
        done = 0
        plain = [column.name for column in columns if column.is_plain]
        with open_parquet(target, published_schema(columns), plain) as writer:
            for group in groups:
                writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
                done += group.num_rows
                self.progress("writing", done, rows)


def open_parquet(target: Path, schema: pa.Schema, plain: Sequence[str] = ()) -> pq.ParquetWriter:
    """A Parquet file that says nothing but its columns: no statistics, no stored schema, no metadata.

    Columns that are `plain` are written without a dictionary: ids that hardly repeat take a seventh of the time so.
    """
    return pq.ParquetWriter(
        target,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in plain] if plain else True,
        write_statistics=False,
        store_schema=False,
        data_page_size=PAGE_BYTES,
    )


def positions_in_order(words: Words) -> Positions:
    """The positions of the rows in rising order of their words; equal words keep the order of the table.

    Sorting words that carry their position in their low bits is three times as fast as sorting positions by words. Two
    words that differ only in those bits are rare (one part in fifty has such a pair), and are then sorted in full.
    """
    low_bits = np.uint64(max(len(words) - 1, 1).bit_length())
    carrying = (words >> low_bits << low_bits) | np.arange(len(words), dtype=np.uint64)
    carrying.sort()
    leading = carrying >> low_bits
    if (leading[1:] == leading[:-1]).any():
        return np.argsort(words, kind="stable")
    return (carrying & ((np.uint64(1) << low_bits) - np.uint64(1))).astype(np.int64)


class _Scatter:
    """Rows by part of the order, in memory up to a budget and then in one file for each part."""

    def __init__(self, rows: int, folder: Path, budget: int) -> None:
        self.parts = min(max(1, -(-rows // PART_ROWS)), MOST_PARTS)
        self.folder = folder
        self.budget = budget
        self.held: list[tuple[Rows, Positions]] = []
        self.held_bytes = 0
        self.spilled = False
        self.coded: frozenset[str] = frozenset()

    def split(self, rows: Rows) -> tuple[Rows, Positions]:
        """Sort rows by part; returns them with the offset of each part."""
        # The leading 32 bits times the number of parts: monotone in the order, and within 64 bits.
        part = ((rows[ORDER] >> np.uint64(32)) * np.uint64(self.parts)) >> np.uint64(32)
        part = part.astype(smallest_type(self.parts))
        by_part = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=self.parts))
        return _taken(rows, by_part), np.append(0, ends)

    def add(self, rows: Rows, offsets: Positions) -> None:
        """Keep sorted rows; spill everything held when it passes the budget."""
        self.coded = frozenset(name for name, column in rows.items() if isinstance(column, np.ndarray))
        self.held.append((rows, offsets))
        self.held_bytes += sum(column.nbytes for column in rows.values())
        if self.held_bytes > self.budget:
            self._spill()

    def part(self, number: int) -> Rows:
        """All rows of one part, in the published order."""
        rows = _joined([*self._read(number), *self._slices(number)])
        return _taken(rows, positions_in_order(rows.pop(ORDER)))

    def remove(self) -> None:
        """Delete the part files."""
        if self.spilled:
            shutil.rmtree(self.folder)

    def _slices(self, number: int) -> list[Rows]:
        return [_sliced(rows, int(offsets[number]), int(offsets[number + 1])) for rows, offsets in self.held]

    def _spill(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for number in range(self.parts):
            arrays = {name: pa.array(column) for name, column in _joined(self._slices(number)).items()}
            batch = pa.RecordBatch.from_pydict(arrays)
            with (self.folder / str(number)).open("ab") as file, pa.ipc.new_stream(file, batch.schema) as writer:
                writer.write_batch(batch)
        self.held, self.held_bytes, self.spilled = [], 0, True

    def _read(self, number: int) -> list[Rows]:
        if not self.spilled:
            return []
        with pa.memory_map(str(self.folder / str(number))) as file:
            found: list[Rows] = []
            while file.tell() < file.size():
                for batch in pa.ipc.open_stream(file):  # to its end mark, where the next spill begins
                    columns = zip(batch.schema.names, batch.columns, strict=True)
                    found.append({name: each.to_numpy() if name in self.coded else each for name, each in columns})
            return found


def _sliced(rows: Rows, start: int, stop: int) -> Rows:
    return {name: column[start:stop] for name, column in rows.items()}


def _taken(rows: Rows, positions: Positions) -> Rows:
    return {
        name: column.take(positions) if isinstance(column, np.ndarray) else column.take(pa.array(positions))
        for name, column in rows.items()
    }


def _joined(pieces: Sequence[Rows]) -> Rows:
    """One after the other; Arrow columns and numpy columns each in their way."""
    return {
        name: np.concatenate([piece[name] for piece in pieces])
        if isinstance(column, np.ndarray)
        else pa.concat_arrays([piece[name] for piece in pieces])
        for name, column in pieces[0].items()
    }


def _regrouped(pieces: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Cut a sequence of rows anew into groups of `size` rows, so that row groups do not depend on parts."""
    waiting: list[Rows] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(next(iter(piece.values())))
        while count >= size:
            whole = _joined(waiting)
            yield _sliced(whole, 0, size)
            waiting, count = [_sliced(whole, size, count)], count - size
    if count:
        yield _joined(waiting)
