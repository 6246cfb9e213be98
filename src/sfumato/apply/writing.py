"""The second pass: every piece is rewritten, all rows are shuffled, and written as Parquet.

Rows are published in the order of the keyed words they carry. They are scattered by the leading bits of that word, each
part is sorted, and the parts are written one after the other; so the order is the same however many parts, pieces or
threads there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.apply.engine import BATCH_ROWS, Engine, Means, TablePiece
from sfumato.apply.offsets import Offset
from sfumato.apply.preparation import Preparation
from sfumato.apply.rewrite import Rewrite, decode, published_schema
from sfumato.apply.scatter import Bundle, Gathered, Layout, Rows, joined, sliced, split
from sfumato.apply.survey import Survey
from sfumato.apply.threads import ordered, read_ahead
from sfumato.errors import SourceError
from sfumato.shown import SideTable, record_files
from sfumato.shown.columns import PublishedColumn

ROW_GROUP_ROWS = 1 << 20
PAGE_BYTES = 1 << 17
"""Pages that stay in the cache of a core are compressed a fifth faster than those of the usual size."""


def no_work() -> None:
    """Do nothing."""


def write_records(
    engine: Engine, found: Survey, rewrite: Rewrite, folder: Path, beside: Callable[[], None] = no_work
) -> list[int]:
    """Rewrite the table that was surveyed, and write all its rows in the published order into files of a folder.

    Returns how many rows each file has. `beside` is other work, to be finished too: writing does not keep all cores
    busy.
    """
    done = list(accumulate(piece.rows for piece in found.pieces))
    rows = done[-1]
    layout = Layout.of(rows)
    work = _Rewriting(found.preparation, rewrite, layout)
    paths = tuple(folder / name for name in record_files(rewrite.shown.FILES[0], layout.files))
    paths[0].parent.mkdir(exist_ok=True)
    with ThreadPoolExecutor(1) as other, TemporaryDirectory(dir=folder.parent) as attempts:
        finish = _Writing(rewrite.published, paths, Path(attempts).absolute(), layout, engine.means(layout.files))
        others: list[Future[None]] = []

        def rewritten(pieces: int) -> None:
            engine.progress("rewriting", done[pieces - 1], rows)
            if pieces == len(done):
                others.append(other.submit(beside))

        def items() -> Iterator[tuple[TablePiece, Offset]]:
            pieces = engine.pieces(found.source, found.preparation.columns)
            for piece, offset in zip_longest(pieces, rewrite.offsets(found.pieces)):
                if piece is None or offset is None:
                    raise SourceError("the table changed while it was read: it has another number of rows than before.")
                yield piece, offset

        written = [0] * layout.files
        for file, size in engine.shuffled(work, items(), finish, layout.files, rewritten):
            written[file] += size
            engine.progress("writing", sum(written), rows)
        for each in others:
            each.result()
        return written


@dataclass(frozen=True)
class _Rewriting:
    """From a piece to what is published of it, by file."""

    preparation: Preparation
    rewrite: Rewrite
    layout: Layout

    def __call__(self, item: tuple[TablePiece, Offset]) -> Iterator[Bundle]:
        piece, offset = item
        batches = (self.preparation(batch) for batch, _ in piece.batches(self.preparation.columns))
        for rows in self.rewrite.piece(batches, offset):
            yield from split(self.layout, rows)


@dataclass(frozen=True)
class _Writing:
    """From the bundles of a file to the file; tells its number, and how many rows were written since it last did."""

    columns: tuple[PublishedColumn, ...]
    paths: tuple[Path, ...]
    attempts: Path
    """Where files are in the making: an engine may try one twice, even at the same time; the bytes are the same."""
    layout: Layout
    means: Means

    def __call__(self, file: int, bundles: Iterator[Bundle]) -> Iterator[tuple[int, int]]:
        threads, attempt = self.means.threads, self.attempts / uuid4().hex
        with (
            Gathered(self.layout, self.attempts, self.means.memory) as gathered,
            ThreadPoolExecutor(threads) as pool,
        ):
            for bundle in bundles:
                gathered.add(bundle)
            parts = ordered(pool, threads, gathered.in_order, range(self.layout.parts))
            groups = ordered(pool, threads, partial(decode, self.columns), _regrouped(parts, ROW_GROUP_ROWS))
            for rows in _write(read_ahead(groups), self.columns, attempt):  # made while others are written
                yield file, rows
        attempt.replace(self.paths[file])


def write_side(engine: Engine, side: SideTable, folder: Path) -> None:
    """Write the rows of a side table in their order, here: whoever made them elsewhere would have to send them.

    Quietly, because the records are what takes the time.
    """
    threads = engine.means(1).threads
    with ThreadPoolExecutor(threads) as pool:
        regrouped = _regrouped(side.batches(BATCH_ROWS), ROW_GROUP_ROWS)
        groups = ordered(pool, threads, partial(decode, side.columns), regrouped)
        for _ in _write(groups, side.columns, folder / side.file):
            pass


def _write(groups: Iterable[pa.Table], columns: Sequence[PublishedColumn], target: Path) -> Iterator[int]:
    """Write groups of rows, and tell of each how many it has."""
    plain = [column.name for column in columns if column.is_plain]
    with open_parquet(target, published_schema(columns), plain) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            yield group.num_rows


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


def _regrouped(pieces: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Cut a sequence of rows anew into groups of `size` rows, so that row groups do not depend on parts."""
    waiting: list[Rows] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(next(iter(piece.values())))
        while count >= size:
            whole = joined(waiting)
            yield sliced(whole, 0, size)
            waiting, count = [sliced(whole, size, count)], count - size
    if count:
        yield joined(waiting)
