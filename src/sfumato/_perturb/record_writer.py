"""The second pass: every piece is rewritten, all rows are shuffled, and written to Parquet files.

Rows are published in the order of the keyed words they carry. They are scattered by the leading bits of that word, each
part is sorted, and the parts are written one after the other; so the order is the same however many parts, pieces or
threads there were.
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
    """Of a file that is written: how many rows were written since the last news, and its digest when it is whole."""

    file: int
    rows: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenTables:
    """How many rows each file of records has, and the digests of what was written, by the names of the files."""

    rows: tuple[int, ...]
    digests: dict[str, str]


def do_nothing() -> None:
    """What is done where nothing is to be done."""


def write_records(  # noqa: PLR0913 - what is written, where, and what is done beside it
    engine: Engine,
    survey: TableScan,
    rewrite: Rewrite,
    folder: Path,
    *,
    side_table: SideTable | None = None,
    on_read: Callable[[], None] = do_nothing,
) -> WrittenTables:
    """Rewrite the table that was surveyed, and write all its rows in the published order into files of a folder.

    What does not need the table any more is done beside that, as soon as it was read for the last time: rows alone do
    not keep all cores busy. That is a table beside them, and whatever else the caller wants to be done then.
    """
    rows_done = list(accumulate(piece.rows for piece in survey.pieces))
    rows = rows_done[-1]
    layout = Layout.of(rows)
    rewriter = _PieceRewriter(survey.preparation, rewrite, layout)
    names = list_record_files(rewrite.encoding.FILES[0], layout.files)
    paths = tuple(folder / name for name in names)
    paths[0].parent.mkdir(exist_ok=True)
    # A worker whose attempt is not needed may begin a file while they are removed; it goes with what is around them.
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
            return {} if side_table is None else write_side_table(engine, side_table, folder)

        def report_pieces(pieces: int) -> None:
            engine.progress("rewriting", rows_done[pieces - 1], rows)
            if pieces == len(rows_done):
                side_futures.append(side_pool.submit(run_beside))

        def pair_offsets() -> Iterator[tuple[TablePiece, PieceOffset]]:
            pieces = engine.split_source(survey.source, survey.preparation.columns)
            for piece, offset in zip_longest(pieces, rewrite.list_offsets(survey.pieces)):
                if piece is None or offset is None:
                    raise SourceError("the table changed while it was read: it has another number of rows than before.")
                yield piece, offset

        sizes, digests = [0] * layout.files, {}
        for progress in engine.shuffle(rewriter, pair_offsets(), file_writer, layout.files, report_pieces):
            sizes[progress.file] += progress.rows
            if progress.digest is not None:
                digests[names[progress.file]] = progress.digest
            engine.progress("writing", sum(sizes), rows)
        for future in side_futures or [side_pool.submit(run_beside)]:  # an engine may not tell of its last piece
            digests |= future.result()
        if sum(sizes) != rows:
            raise EngineError(
                f"{sum(sizes):,} records were written of {rows:,}: the engine lost or repeated some; publish again."
            )
        return WrittenTables(tuple(sizes), digests)


@dataclass(frozen=True)
class _PieceRewriter:
    """From a piece to what is published of it, by file."""

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
    """From the bundles of a file to the file, with news of it."""

    columns: tuple[PublishedColumn, ...]
    paths: tuple[Path, ...]
    attempts_folder: Path
    """Where files are in the making: an engine may try one twice, even at the same time; the bytes are the same."""
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
                for group in read_ahead(groups):  # made while others are written
                    writer.add(group)
                    yield FileProgress(file, group.rows)
                digest = writer.finish()
        attempt.replace(self.paths[file])
        yield FileProgress(file, 0, digest)


def write_side_table(engine: Engine, side_table: SideTable, folder: Path) -> dict[str, str]:
    """Write the rows of a side table in their order, here: whoever made them elsewhere would have to send them.

    Quietly, because the records are what takes the time. Returns the digest of the file, by its name.
    """
    threads, encoder = engine.allot_resources(1).threads, Encoder(side_table.columns)
    with ThreadPoolExecutor(threads) as pool, (folder / side_table.file).open("wb") as sink:
        writer = FileWriter(sink, encoder.schema)
        regrouped = _regroup_rows(side_table.iter_batches(BATCH_ROWS), ROW_GROUP_ROWS)
        for group in _encode_row_groups(pool, threads, encoder, side_table.columns, regrouped):
            writer.add(group)
        return {side_table.file: writer.finish()}


def encode_row_group(encoder: Encoder, columns: Sequence[PublishedColumn], rows: Rows) -> EncodedRows:
    """Turn rewritten rows into a group of the file."""
    return encoder([column.to_file_values(rows[column.source]) for column in columns])


def _encode_row_groups(
    pool: ThreadPoolExecutor, ahead: int, encoder: Encoder, columns: Sequence[PublishedColumn], groups: Iterable[Rows]
) -> Iterator[EncodedRows]:
    """Groups of the file in order. Columns are encoded one by one, so that a single group keeps all threads busy."""

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
    """Cut a sequence of rows anew into groups of `size` rows, so that row groups do not depend on parts."""
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
