"""One machine: two streaming passes, and a keyed shuffle that spills to disk when the table is large.

Memory does not grow with the table. Every rewritten row carries a 64-bit keyed word, and rows are published sorted by
it. Rows are scattered into parts by the leading bits of that word, each part is sorted, and the parts are written one
after the other; so the order is the same however many parts, batches or threads there were.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.apply import ORDER, Preparation, Rewrite, decode
from sfumato.columns import PublishedColumn, dense
from sfumato.errors import SchemaError, SourceError
from sfumato.profile import Profile, Profiler
from sfumato.source import Source

BATCH_ROWS = 1 << 18
PART_ROWS = 1 << 17
MOST_PARTS = 4096
ROW_GROUP_ROWS = 1 << 20
MEMORY_BUDGET = 256 << 20

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many rows are done, and how many there are if that is known."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LocalEngine:
    """Reads, rewrites, shuffles and writes with the threads of one machine."""

    batch_rows: int = BATCH_ROWS
    threads: int = field(default_factory=lambda: min(os.cpu_count() or 1, 8))
    memory_budget: int = MEMORY_BUDGET
    progress: Progress = no_progress

    def check_persons(self, source: Source, person: str, folder: Path) -> None:
        """Refuse a table in which a person has several rows: repeats average the protection away."""
        schema = pa.schema([("person", source.schema.field(person).type)])
        batches = (
            pa.RecordBatch.from_arrays([dense(batch.column(person))], schema=schema)
            for batch in source.batches([person], self.batch_rows)
        )
        limits: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{max(self.memory_budget, 64 << 20)}B",
            "temp_directory": str(folder),
        }
        with duckdb.connect(config=limits) as connection:
            connection.register("people", pa.RecordBatchReader.from_batches(schema, batches))
            counted = "SELECT person, COUNT(*) AS rows FROM people GROUP BY person"
            sql = f"SELECT COUNT(*) FILTER (rows > 1), COALESCE(SUM(rows) FILTER (person IS NULL), 0) FROM ({counted})"
            repeated, missing = connection.execute(sql).fetchall()[0]
        if missing:
            raise SchemaError(
                f"{missing} rows have no {person!r}, so nobody can tell whose they are; complete or remove them."
            )
        if repeated:
            raise SchemaError(
                f"{repeated} persons have several rows (the same {person!r}): every further row of a person averages the "
                "protection away; keep one row for each person, or make one column of what differs."
            )

    def profile(self, source: Source, preparation: Preparation) -> tuple[Profile, int]:
        """The first pass: the profile of the prepared rows, and how many rows were left out."""
        profiler = Profiler(preparation.types(source.schema), preparation.columns, preparation.schema.sensitive)
        read = 0
        for batch, size in self._prepared(source, preparation):
            profiler.add(batch)
            read += size
            self.progress("counting", read, source.rows)
        return profiler.result(), read - profiler.rows

    def rewrite(self, source: Source, preparation: Preparation, rewrite: Rewrite, rows: int, target: Path) -> None:
        """The second pass: rewrite every batch, shuffle all rows, and write them as one Parquet file."""
        scatter = _Scatter(rows, target.with_suffix(".parts"), self.memory_budget)
        with ThreadPoolExecutor(self.threads) as pool:
            done = 0
            for batch, offsets in self._ordered(
                pool, _scattered(rewrite, scatter), self._numbered(source, preparation)
            ):
                scatter.add(batch, offsets)
                done += batch.num_rows
                self.progress("rewriting", done, rows)
            if done != rows:
                raise SourceError("the table changed while it was read: it has another number of rows than before.")
            parts = self._ordered(pool, scatter.part, range(scatter.parts))
            self._write(_regrouped(parts, ROW_GROUP_ROWS), rewrite.columns, rows, target)
        scatter.remove()

    def _prepared(self, source: Source, preparation: Preparation) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Prepared batches with the number of rows read for each; a thread reads ahead."""
        with ThreadPoolExecutor(1) as reader:
            batches = source.batches(preparation.columns, self.batch_rows)

            def next_prepared() -> tuple[pa.RecordBatch, int] | None:
                batch = next(batches, None)
                return None if batch is None else (preparation(batch), batch.num_rows)

            waiting = reader.submit(next_prepared)
            while (ready := waiting.result()) is not None:
                waiting = reader.submit(next_prepared)
                yield ready

    def _numbered(self, source: Source, preparation: Preparation) -> Iterator[tuple[pa.RecordBatch, int]]:
        first_row = 0
        for batch, _ in self._prepared(source, preparation):
            yield batch, first_row
            first_row += batch.num_rows

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

    def _write(self, groups: Iterable[pa.Table], columns: tuple[PublishedColumn, ...], rows: int, target: Path) -> None:
        done = 0
        with open_parquet(target, published_schema(columns)) as writer:
            for group in groups:
                writer.write_table(decode(columns, group).cast(writer.schema), row_group_size=ROW_GROUP_ROWS)
                done += group.num_rows
                self.progress("writing", done, rows)


def published_schema(columns: Sequence[PublishedColumn]) -> pa.Schema:
    """The columns of a release; nullable only where a value may be missing."""
    return pa.schema([pa.field(column.name, column.written_type, nullable=column.has_missing) for column in columns])


def open_parquet(target: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet file that says nothing but its columns: no statistics, no stored schema, no metadata."""
    return pq.ParquetWriter(target, schema, compression="zstd", write_statistics=False, store_schema=False)


def _scattered(
    rewrite: Rewrite, scatter: _Scatter
) -> Callable[[tuple[pa.RecordBatch, int]], tuple[pa.RecordBatch, np.ndarray]]:
    def work(item: tuple[pa.RecordBatch, int]) -> tuple[pa.RecordBatch, np.ndarray]:
        return scatter.split(rewrite(*item))

    return work


class _Scatter:
    """Rows by part of the order, in memory up to a budget and then in one file for each part."""

    def __init__(self, rows: int, folder: Path, budget: int) -> None:
        self.parts = min(max(1, -(-rows // PART_ROWS)), MOST_PARTS)
        self.folder = folder
        self.budget = budget
        self.held: list[tuple[pa.RecordBatch, np.ndarray]] = []
        self.held_bytes = 0
        self.spilled = False
        self.schema: pa.Schema | None = None

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        """Sort a batch by part; returns it with the offset of each part."""
        order = batch.column(ORDER).to_numpy()
        # The leading 32 bits times the number of parts: monotone in the order, and within 64 bits.
        part = (((order >> np.uint64(32)) * np.uint64(self.parts)) >> np.uint64(32)).astype(np.uint16)
        by_part = np.argsort(part, kind="stable")
        offsets = np.searchsorted(part[by_part], np.arange(self.parts + 1))
        return batch.take(pa.array(by_part)), offsets

    def add(self, batch: pa.RecordBatch, offsets: np.ndarray) -> None:
        """Keep a sorted batch; spill everything held when it passes the budget."""
        self.schema = batch.schema
        self.held.append((batch, offsets))
        self.held_bytes += batch.nbytes
        if self.held_bytes > self.budget:
            self._spill()

    def part(self, number: int) -> pa.Table:
        """All rows of one part, in the published order."""
        held = self._held(number)
        table = pa.concat_tables([*self._read(number), held]) if self.spilled else held
        order = table.column(ORDER).to_numpy()
        by_order = np.argsort(order)
        if (np.diff(order[by_order]) == 0).any():
            # Equal words (one pair in 2^64) keep the order of the table, whatever the sorting method.
            by_order = np.argsort(order, kind="stable")
        return table.drop_columns(ORDER).combine_chunks().take(pa.array(by_order))

    def remove(self) -> None:
        """Delete the part files."""
        if self.spilled:
            for path in self.folder.iterdir():
                path.unlink()
            self.folder.rmdir()

    def _held(self, number: int) -> pa.Table:
        slices = [batch.slice(start[number], start[number + 1] - start[number]) for batch, start in self.held]
        return pa.Table.from_batches(slices, self.schema)

    def _spill(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for number in range(self.parts):
            table = self._held(number).combine_chunks()
            with (self.folder / str(number)).open("ab") as file, pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
        self.held, self.held_bytes, self.spilled = [], 0, True

    def _read(self, number: int) -> Iterator[pa.Table]:
        path = self.folder / str(number)
        with path.open("rb") as file:
            while file.tell() < path.stat().st_size:
                yield pa.ipc.open_stream(file).read_all()


def _regrouped(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut a sequence of tables anew into tables of `rows` rows, so that row groups do not depend on parts."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        waiting.append(table)
        size += table.num_rows
        while size >= rows:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, rows)
            waiting, size = [whole.slice(rows)], size - rows
    if size:
        yield pa.concat_tables(waiting)
