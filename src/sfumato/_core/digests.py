"""Digests of files and of JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sfumato._core.object_store import File, file_version

Each = Callable[[Callable[[File], str], Sequence[File]], Iterable[str]]
"""Does something with each of some files, perhaps with several at once, and gives the results in their order."""


def file_digest(path: File) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Sequence[File], each: Each = map, *, is_content: bool = True) -> str:
    """One digest for several files in order: of their content, or of what is quicker to have and changes with it."""
    digests = each(file_digest if is_content else _version_digest, paths)
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _version_digest(path: File) -> str:
    return file_version(path) or file_digest(path)


def json_digest(written: Mapping[str, Any]) -> str:
    """The SHA-256 of the canonical JSON: sorted keys, no white space."""
    canonical = json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
