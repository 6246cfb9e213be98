"""Computes digests of files and of JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence

from sfumato._core.json_types import JsonView
from sfumato._core.object_store import File, read_file_version

FileMapper = Callable[[Callable[[File], str], Sequence[File]], Iterable[str]]
"""Applies a function to each file, possibly several at once, and returns the results in order."""


def compute_file_digest(path: File) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compute_files_digest(paths: Sequence[File], map_files: FileMapper = map, *, is_content: bool = True) -> str:
    """One digest of several files, in order.

    The digest covers the files' content, or a version stamp that changes with the content and is faster to read.
    """
    digests = map_files(compute_file_digest if is_content else _compute_version_digest, paths)
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _compute_version_digest(path: File) -> str:
    return read_file_version(path) or compute_file_digest(path)


def format_digest(digest: str) -> str:
    """Formats a digest in groups of 16 letters."""
    return " ".join(digest[at : at + 16] for at in range(0, len(digest), 16))


def compute_json_digest(document: JsonView) -> str:
    """The SHA-256 of the canonical JSON: sorted keys, no white space."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
