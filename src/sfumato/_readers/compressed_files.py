"""Compressed files: read as what is in them, by the ending of their names."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato._core.object_store import File, readable
from sfumato.errors import SourceError, reason

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def ending(file: File) -> str:
    """What kind of table a file holds, by its name: `.csv` of `people.csv.gz`."""
    suffix = file.suffix.lower()
    return Path(file.name[: -len(suffix)]).suffix.lower() if suffix in COMPRESSIONS else suffix


def opened(file: File) -> Any:
    """The content of a file from its first byte on, as Arrow reads it."""
    found = readable(file)
    if (how := COMPRESSIONS.get(file.suffix.lower())) is None:
        return found
    # Not by the name alone: Arrow would look for an ending in a path, and never in a store.
    return pa.CompressedInputStream(pa.OSFile(str(found)) if isinstance(found, Path) else found, how)


def opened_text(file: File, encoding: str) -> Any:
    """The content of a file as text, with its line breaks as they are."""
    if file.suffix.lower() in COMPRESSIONS:
        return io.TextIOWrapper(opened(file), encoding=encoding, newline="")
    return file.open(newline="", encoding=encoding)


def unreadable(file: File, error: OSError | pa.ArrowException) -> SourceError:
    """What is said of a file that could not be read to its end."""
    if not isinstance(error, OSError) or (error.errno is None and file.suffix.lower() in COMPRESSIONS):
        return SourceError(f"{file.name!r} is damaged: it cannot be unpacked; check that it was copied whole.")
    return SourceError(f"{file.name!r} cannot be read: {reason(error)}.")
