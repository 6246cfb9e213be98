"""Standard input as a table: kept in a private file without a name, because a table is read more than once."""

from __future__ import annotations

import mmap
import os
import shutil
import sys
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from sfumato._core.object_store import BufferFile
from sfumato._readers.reader_registry import find_reader_of_beginning
from sfumato.errors import SourceError

STANDARD_INPUT = "-"
"""Stands for standard input in the place of a path."""
NAME = "standard input"
GZIP, PACKED_CSV = b"\x1f\x8b", ".csv.gz"
"""What is compressed is taken for CSV."""
LONGEST_BEGINNING = 64


def read_standard_input(spool: Path) -> BufferFile:
    """All that comes in, as a file whose name says what it is."""
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError("- is standard input, and nothing is piped into it; write: cat patients.csv | sfumato ...")
    content = spool_bytes(sys.stdin.buffer, spool)
    first = content[:LONGEST_BEGINNING].to_pybytes()
    suffix = PACKED_CSV if first.startswith(GZIP) else find_reader_of_beginning(first).endings[0]
    return BufferFile(NAME + suffix, content)


def spool_bytes(stream: BinaryIO, spool: Path) -> pa.Buffer:
    """The bytes of a stream, mapped from a file that has no name any more before the first of them is in it.

    So the system removes it with its last user, even one that is killed.
    """
    descriptor = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    spool.unlink()
    with open(descriptor, "r+b") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
        file.flush()
        if not file.tell():
            raise SourceError("standard input is empty: there is no table in it.")
        return pa.py_buffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
