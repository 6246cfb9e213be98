"""The interface of engines, which run functions over pieces of a table and shuffle the results to parts.

Engines do not know mechanisms or release files. The work on a piece is the same for every engine. It is defined once in
other modules (`table_profile`, `persons`, `record_writer`). Work, items and results can be pickled, so that they can be
sent to other processes.
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
"""A function that is called with the current task, the number of rows done, and the total number of rows if known."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Readable(Protocol):
    """Rows that can be read in batches."""

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, as batches of some of the columns."""
        ...


@dataclass(frozen=True)
class TablePiece:
    """Neighbouring rows of a source that can be read independently of the other rows."""

    first_row: int
    """The number of the piece's first row in the source."""
    rows: Readable

    def read_batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The rows in order, as batches of some of the columns, each with the number of its first row."""
        first = self.first_row
        for batch in self.rows.read_batches(columns, BATCH_ROWS):
            yield batch, first
            first += batch.num_rows


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources available for the work on one part."""

    threads: int
    memory: int
    """The memory in bytes. Larger data spills to disk."""


class Engine(Protocol):
    """Runs functions over items, and shuffles their results."""

    @property
    def progress(self) -> Progress:
        """The function that reports progress."""
        ...

    def allot_resources(self, parts: int) -> Resources:
        """The resources for the work on each of `parts` parts."""
        ...

    def split_source(self, source: Source, columns: Sequence[str]) -> Iterable[TablePiece]:
        """All rows of a source in order, in pieces. Every call gives the same pieces."""
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
        """Send every bundle to its part, and return the results of the parts as they are finished.

        `finish` gets the number of a part and its bundles in the order of the items. `report_items` is called with the
        number of items whose bundles have been sent.
        """
        ...
