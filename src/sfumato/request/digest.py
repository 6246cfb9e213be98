"""Digests of files and of JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Each = Callable[[Callable[[Path], str], Sequence[Path]], Iterable[str]]
"""Does something with each of some files, perhaps with several at once, and gives the results in their order."""


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Sequence[Path], each: Each = map) -> str:
    """One digest for several files in order."""
    return hashlib.sha256("".join(each(file_digest, paths)).encode()).hexdigest()


def json_digest(written: Mapping[str, Any]) -> str:
    """The SHA-256 of the canonical JSON: sorted keys, no white space."""
    canonical = json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
