"""Defines readers. A reader recognises tables of one kind, states the allowed sources, and opens tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato._core.object_store import File
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.sources import ArrowStream, MemorySource, RowProgress, Source, ignore_rows

AnyTable = Any
"""Anything that can be read as a table: the name of a file, of a folder or of several files (`str` or `Path`), an
address in a store or a database, a frame of pandas, polars or Spark, a table of pyarrow, or any object that gives an
Arrow stream (`__arrow_c_stream__`)."""


@dataclass(frozen=True)
class Opening:
    """A table to open, and everything a reader may need for it."""

    table: AnyTable = field(repr=False)
    """The table as the caller gave it: a name or an object."""
    spool: Path
    """A private path for a table that can be read only once. It is used for a file or for a folder."""
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    row_progress: RowProgress = ignore_rows
    """A function that is called with the number of rows read so far."""
    files: tuple[File, ...] = ()
    """The files that the name stands for, in order. Empty for addresses and objects."""
    part: str | None = None
    """The requested part of a file, such as a sheet."""

    @property
    def file(self) -> File:
        """The first file. It is the only file, unless the reader accepts several files."""
        return self.files[0]

    def keep(self, stream: ArrowStream) -> MemorySource:
        """Write an Arrow stream to the private place, so that it can be read again."""
        return MemorySource.from_stream(stream, self.spool, self.row_progress)


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """Reads one kind of table.

    A table is recognised by the ending of a file, by an address, or by its type in Python.
    """

    name: str
    """The name in messages: `CSV`, `PostgreSQL`."""
    example: str
    """An example of a table name, for help and documentation."""
    open: Callable[[Opening], Source]
    endings: tuple[str, ...] = ()
    """Endings of file names, the usual ending first."""
    address_pattern: re.Pattern[str] | None = None
    """The beginning of names that are not files."""
    is_own: Callable[[AnyTable], bool] | None = None
    """Whether an object belongs to this reader."""
    takes_several: bool = False
    """Whether a table may consist of several files (a glob or a folder)."""
    explicit_endings: tuple[str, ...] = ()
    """Endings of files that are read if they are named, but ignored in a folder."""
    part_kind: str = ""
    """The name for a table inside a file (`sheet`). Empty if a file is one table."""
    reads_stores: bool = False
    """Whether files in object stores can be read."""
    reads_compressed: bool = False
    """Whether compressed files can be read."""
    beginnings: tuple[bytes, ...] = ()
    """The first bytes of a table on standard input. If empty, standard input is not allowed."""
    marks_missing: bool = False
    """Whether the reader itself applies `ReadOptions.missing`, before it infers types."""
    extra: str = ""
    """The extra of the package that installs the reader's libraries."""
    hide_secrets: Callable[[str], str] = str
    """Writes an address without its password."""
