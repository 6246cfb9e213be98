"""Names tables inside files: `book.xlsx::Sheet` and `hospital.duckdb::patients`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import SourceError

SEPARATOR = "::"
MOST_NAMED = 10


def split_table_name(name: str) -> tuple[str, str | None]:
    """Splits a name into file and table, if a table is named; a file's own name may contain the separator."""
    file, mark, part = name.rpartition(SEPARATOR)
    return (file, part) if mark and not Path(name).exists() else (name, None)


def choose_table(file: str, part: str | None, table_names: Sequence[str], what: str) -> str:
    """The named table; if none is named, the only one."""
    if part in table_names:
        return str(part)
    if part is None and len(table_names) == 1:
        return table_names[0]
    if not table_names:
        raise SourceError(f"{file!r} holds no {what}.", code="no-tables", fields={"file": file})
    listing = ", ".join(map(repr, table_names[:MOST_NAMED]))
    more = f" and {len(table_names) - MOST_NAMED} more" if len(table_names) > MOST_NAMED else ""
    problem = f"holds {len(table_names)} {what}s" if part is None else f"holds no {what} {part!r}"
    raise SourceError(
        f"{file!r} {problem}; name one as '{file}{SEPARATOR}{table_names[0]}': it has {listing}{more}.",
        code="unclear-table",
        fields={"file": file, "tables": len(table_names)},
    )
