"""The second pass: rewrites every piece of the table, shuffles all rows, and writes the rows to Parquet files.

Rows are published in the order of their random keys. The leading bits of the key distribute rows to parts, each part is
sorted, and the parts are written one after the other. The order is therefore the same for any number of parts, pieces
or threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from sfumato._core.ordered_threads import map_in_order, read_ahead
from sfumato._engines.engine import BATCH_ROWS, Engine, Resources, TablePiece
from sfumato._engines.shuffle import Bundle, Layout, PartStore, Rows, bundle_rows, concatenate_rows, slice_rows
from sfumato._parquet.column_chunk import Chunk
from sfumato._parquet.parquet_writer import EncodedRows, Encoder, FileWriter
from sfumato._perturb.perturbation import Rewrite
from sfumato._profile.batch_preparation import Preparation
from sfumato._profile.piece_offsets import PieceOffset
from sfumato._profile.table_scan import TableScan
from sfumato._records import SideTable, list_record_files
from sfumato._records.column_codes import PublishedColumn
from sfumato.errors import EngineError, SourceError

ROW_GROUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class FileProgress:
    """The progress of a file: the rows written since the last report, and the digest when the file is complete."""

    file: int
    rows: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenTables:
    """The number of rows of each record file, and the digests of all written files by name."""

    rows: tuple[int, ...]
    digests: dict[str, str]


def do_nothing() -> None:
    """Do nothing."""


def write_records(  # noqa: PLR0913 - the content, the place, and the concurrent work
    engine: Engine,
    survey: TableScan,
    rewrite: Rewrite,
    folder: Path,
    *,
    side_tables: Sequence[SideTable] = (),
    people_in_crowds: int = 0,
    on_read: Callable[[], None] = do_nothing,
) -> WrittenTables:
    """Rewrite the profiled table, and write all its rows in the published order into files of a folder.

    Rows of people in crowds are not written, because a side table has their counts.

    After the last read, the side tables are written and `on_read` runs concurrently, because writing rows alone does
    not use all cores.
    """
    rows_done = list(accumulate(piece.rows for piece in survey.pieces))
    rows = rows_done[-1] - people_in_crowds
    layout = Layout.of(rows)
    rewriter = _PieceRewriter(survey.preparation, rewrite, layout)
    names = list_record_files(rewrite.encoding.FILES[0], layout.files)
    paths = tuple(folder / name for name in names)
    paths[0].parent.mkdir(exist_ok=True)
    # A worker that is no longer needed may start a file during the removal. The file is removed later with its folder.
    with (
        ThreadPoolExecutor(1) as side_pool,
        TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as attempts,
    ):
        file_writer = _ReleaseFileWriter(
            rewrite.published_columns, paths, Path(attempts).absolute(), layout, engine.allot_resources(layout.files)
        )
        side_futures: list[Future[dict[str, str]]] = []

        def run_beside() -> dict[str, str]:
            on_read()
            digests: dict[str, str] = {}
            for side_table in side_tables:
                digests |= write_side_table(engine, side_table, folder)
            return digests

        def report_pieces(pieces: int) -> None:
            engine.progress("rewriting", rows_done[pieces - 1], rows_done[-1])
            if pieces == len(rows_done):
                side_futures.append(side_pool.submit(run_beside))

        def pair_offsets() -> Iterator[tuple[TablePiece, PieceOffset]]:
            pieces = engine.split_source(survey.source, survey.preparation.columns)
            for piece, offset in zip_longest(pieces, rewrite.list_offsets(survey.pieces)):
                if piece is None or offset is None:
                    raise SourceError(
                        "the table changed while it was read: its number of rows is different.",
                        code="table-changed",
                    )
                yield piece, offset

        sizes, digests = [0] * layout.files, {}
        for progress in engine.shuffle(rewriter, pair_offsets(), file_writer, layout.files, report_pieces):
            sizes[progress.file] += progress.rows
            if progress.digest is not None:
                digests[names[progress.file]] = progress.digest
            engine.progress("writing", sum(sizes), rows)
        for future in side_futures or [side_pool.submit(run_beside)]:  # an engine may not report its last piece
            digests |= future.result()
        if sum(sizes) != rows:
            raise EngineError(
                f"{sum(sizes):,} records were written instead of {rows:,}, because the engine lost or repeated some; "
                "publish again.",
                code="records-lost",
                fields={"written": sum(sizes), "expected": rows},
            )
        return WrittenTables(tuple(sizes), digests)


@dataclass(frozen=True)
class _PieceRewriter:
    """Rewrites a piece into bundles of published rows, by file."""

    preparation: Preparation
    rewrite: Rewrite
    layout: Layout

    def __call__(self, item: tuple[TablePiece, PieceOffset]) -> Iterator[Bundle]:
        piece, offset = item
        batches = (self.preparation(batch) for batch, _ in piece.read_batches(self.preparation.columns))
        for rows in self.rewrite.rewrite_piece(batches, offset):
            yield from bundle_rows(self.layout, rows)


@dataclass(frozen=True)
class _ReleaseFileWriter:
    """Writes a file from its bundles, and reports progress."""

    columns: tuple[PublishedColumn, ...]
    paths: tuple[Path, ...]
    attempts_folder: Path
    """The folder of unfinished files. An engine may write a file twice, even at the same time, with the same bytes."""
    layout: Layout
    means: Resources

    def __call__(self, file: int, bundles: Iterator[Bundle]) -> Iterator[FileProgress]:
        threads, attempt = self.means.threads, self.attempts_folder / uuid4().hex
        with (
            PartStore(self.layout, self.attempts_folder, self.means.memory) as gathered,
            ThreadPoolExecutor(threads) as pool,
        ):
            for bundle in bundles:
                gathered.add(bundle)
            encoder = Encoder(self.columns)
            parts = map_in_order(pool, threads, gathered.read_sorted, range(self.layout.parts))
            groups = _encode_row_groups(pool, threads, encoder, self.columns, _regroup_rows(parts, ROW_GROUP_ROWS))
            with attempt.open("wb") as sink:
                writer = FileWriter(sink, encoder.schema)
                for group in read_ahead(groups):  # columns are encoded while others are written
                    writer.add(group)
                    yield FileProgress(file, group.rows)
                digest = writer.finish()
        attempt.replace(self.paths[file])
        yield FileProgress(file, 0, digest)


def write_side_table(engine: Engine, side_table: SideTable, folder: Path) -> dict[str, str]:
    """Write the rows of a side table in order on this machine, because workers would have to send them.

    Progress is not reported, because the records take most of the time. Returns the digest of the file by its name.
    """
    threads, encoder = engine.allot_resources(1).threads, Encoder(side_table.columns)
    with ThreadPoolExecutor(threads) as pool, (folder / side_table.file).open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        regrouped = _regroup_rows(side_table.iter_batches(BATCH_ROWS), ROW_GROUP_ROWS)
        for group in _encode_row_groups(pool, threads, encoder, side_table.columns, regrouped):
            writer.add(group)
        return {side_table.file: writer.finish()}


def encode_row_group(encoder: Encoder, columns: Sequence[PublishedColumn], rows: Rows) -> EncodedRows:
    """Encode rewritten rows as a row group of the file."""
    return encoder([column.to_file_values(rows[column.source]) for column in columns])


def _encode_row_groups(
    pool: ThreadPoolExecutor, ahead: int, encoder: Encoder, columns: Sequence[PublishedColumn], groups: Iterable[Rows]
) -> Iterator[EncodedRows]:
    """Yields the row groups of the file in order.

    Columns are encoded separately, so that one group keeps all threads busy.
    """

    def encode_chunk(rows: Rows, number: int) -> Chunk:
        column = columns[number]
        return encoder.encode_column(number, column.to_file_values(rows[column.source]))

    waiting: deque[tuple[int, list[Future[Chunk]]]] = deque()
    for rows in groups:
        chunks = [pool.submit(encode_chunk, rows, number) for number in range(len(columns))]
        waiting.append((len(next(iter(rows.values()))), chunks))
        if len(waiting) > ahead:
            yield _await_chunks(*waiting.popleft())
    while waiting:
        yield _await_chunks(*waiting.popleft())


def _await_chunks(rows: int, chunks: Iterable[Future[Chunk]]) -> EncodedRows:
    return EncodedRows(rows, tuple(chunk.result() for chunk in chunks))


def _regroup_rows(pieces: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Cut a sequence of rows into new groups of `size` rows, so that row groups do not depend on parts."""
    waiting: list[Rows] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(next(iter(piece.values())))
        while count >= size:
            whole = concatenate_rows(waiting)
            yield slice_rows(whole, 0, size)
            waiting, count = [slice_rows(whole, size, count)], count - size
    if count:
        yield concatenate_rows(waiting)
