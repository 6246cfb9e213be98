"""Files with several tables in them: `book.xlsx::Sheet` and `hospital.duckdb::patients`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import SourceError

MARK = "::"
MOST_NAMED = 10


def split(name: str) -> tuple[str, str | None]:
    """The name of a file, and of the table in it if one is named; a file may have the mark in its own name."""
    file, mark, part = name.rpartition(MARK)
    return (file, part) if mark and not Path(name).exists() else (name, None)


def chosen(file: str, part: str | None, known: Sequence[str], what: str) -> str:
    """The table that is named; the only one, if none is."""
    if part in known:
        return str(part)
    if part is None and len(known) == 1:
        return known[0]
    if not known:
        raise SourceError(f"{file!r} holds no {what}.")
    named = ", ".join(map(repr, known[:MOST_NAMED]))
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    said = f"holds {len(known)} {what}s" if part is None else f"holds no {what} {part!r}"
    raise SourceError(f"{file!r} {said}; name one as '{file}{MARK}{known[0]}': it has {named}{more}.")
