"""Reads compressed files by the ending of their names."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from sfumato._core.object_store import File, open_for_arrow
from sfumato.errors import SourceError, explain_os_error

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def find_ending(file: File) -> str:
    """The ending that gives the kind of table in a file, such as `.csv` in `people.csv.gz`."""
    suffix = file.suffix.lower()
    return Path(file.name[: -len(suffix)]).suffix.lower() if suffix in COMPRESSIONS else suffix


def open_content(file: File) -> Any:
    """Opens the content of a file for Arrow, from its first byte."""
    readable_file = open_for_arrow(file)
    if (compression := COMPRESSIONS.get(file.suffix.lower())) is None:
        return readable_file
    # The compression is given, because Arrow finds the ending of paths only, not of addresses in a store.
    return pa.CompressedInputStream(
        pa.OSFile(str(readable_file)) if isinstance(readable_file, Path) else readable_file, compression
    )


def open_text(file: File, encoding: str) -> TextIO:
    """The content of a file as text, with its original line breaks."""
    if file.suffix.lower() in COMPRESSIONS:
        return io.TextIOWrapper(open_content(file), encoding=encoding, newline="")
    return file.open(newline="", encoding=encoding)


def make_unreadable_error(file: File, error: OSError | pa.ArrowException) -> SourceError:
    """Makes the error for a file that cannot be read to its end."""
    if not isinstance(error, OSError) or (error.errno is None and file.suffix.lower() in COMPRESSIONS):
        return SourceError(
            f"{file.name!r} is damaged and cannot be unpacked; check that it was copied completely.",
            code="damaged-file",
            fields={"file": file.name},
        )
    return SourceError(
        f"{file.name!r} cannot be read: {explain_os_error(error)}.",
        code="unreadable-file",
        fields={"file": file.name, "reason": explain_os_error(error)},
    )
