"""Where work on a table runs. An engine runs functions over pieces, and brings to each part what belongs to it.

It knows no mechanism and no file of a release: what is done with a piece is the same for every engine, and is written
once, beside it (`table_profile`, `persons`, `record_writer`). Work, items and results can be pickled, so that they may
travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from sfumato._engines.shuffle import Bundle
from sfumato._readers.sources import Source

BATCH_ROWS = 1 << 18

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many rows are done, and how many there are if that is known."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Readable(Protocol):
    """Rows that can be read in batches."""

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns."""
        ...


@dataclass(frozen=True)
class TablePiece:
    """Neighbouring rows of a source, which can be read by themselves."""

    first_row: int
    """The number of its first row in the source."""
    rows: Readable

    def read_batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The rows in order, as batches of some of the columns, each with the number of its first row."""
        first = self.first_row
        for batch in self.rows.read_batches(columns, BATCH_ROWS):
            yield batch, first
            first += batch.num_rows


@dataclass(frozen=True, slots=True)
class Resources:
    """What the work on one part may use."""

    threads: int
    memory: int
    """Bytes; what does not fit goes to the disk."""


class Engine(Protocol):
    """Runs functions over items, and does one shuffle."""

    @property
    def progress(self) -> Progress:
        """Whom to tell how far the work is."""
        ...

    def allot_resources(self, parts: int) -> Resources:
        """What the work on each of so many parts may use."""
        ...

    def split_source(self, source: Source, columns: Sequence[str]) -> Iterable[TablePiece]:
        """All rows of a source in order, in pieces that are cut alike whenever they are asked for."""
        ...

    def map_items(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items, in their order."""
        ...

    def shuffle(
        self,
        work: Callable[[Item], Iterable[Bundle]],
        items: Iterable[Item],
        finish: Callable[[int, Iterator[Bundle]], Iterator[Result]],
        parts: int,
        report_items: Callable[[int], None],
    ) -> Iterator[Result]:
        """Bring every bundle to its part, and give the results of the parts as they come.

        `finish` gets the number of a part and its bundles in the order of the items. `done` is told how many items have
        sent theirs.
        """
        ...
