"""Saves pages as files, completely or not at all. A private page is readable only by its owner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from sfumato._release.staging import check_outside, place_file
from sfumato.errors import TargetError

SUFFIXES = (".html", ".htm")


def check_place(target: Path, *, force: bool) -> None:
    """Refuses a file that exists, that a browser would not open, or that lies inside a release."""
    if target.suffix.lower() not in SUFFIXES:
        raise TargetError(
            f"a page is opened in a browser; name a file that ends in .html, not {str(target)!r}.",
            code="wrong-ending",
            fields={"file": str(target), "ending": ".html"},
        )
    if not target.parent.is_dir():
        raise TargetError(
            f"the directory {str(target.parent)!r} does not exist; create it first.",
            code="missing-directory",
            fields={"file": str(target.parent)},
        )
    check_outside(target, "the page")
    if target.is_dir() or (os.path.lexists(target) and not force):
        advice = "choose another name" if target.is_dir() else "choose another name, or replace it with `force=True`"
        raise TargetError(f"{str(target)!r} exists; {advice}.", code="target-exists", fields={"file": str(target)})


class SavablePage(Protocol):
    """Anything that can be saved as a page."""

    @property
    def is_private(self) -> bool: ...
    def to_html(self) -> str: ...


def save(page: SavablePage, target: Path, *, force: bool) -> None:
    """Writes a page, completely or not at all. A private page is readable only by its owner."""
    check_place(target, force=force)
    place_file(page.to_html(), target, "the page", force=force, mode=0o600 if page.is_private else 0o666)
