"""Names tables inside files, such as `book.xlsx::Sheet` and `hospital.duckdb::patients`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import SourceError

SEPARATOR = "::"
MOST_NAMED = 10


def split_table_name(name: str) -> tuple[str, str | None]:
    """Splits a name into a file and a table, if a table is named. The name of a file may contain the separator."""
    file, mark, part = name.rpartition(SEPARATOR)
    return (file, part) if mark and not Path(name).exists() else (name, None)


def choose_table(file: str, part: str | None, table_names: Sequence[str], what: str) -> str:
    """Returns the named table; if no table is named, the only table."""
    if part in table_names:
        return str(part)
    if part is None and len(table_names) == 1:
        return table_names[0]
    if not table_names:
        raise SourceError(f"{file!r} contains no {what}.", code="no-tables", fields={"file": file})
    listing = ", ".join(map(repr, table_names[:MOST_NAMED]))
    more = f" and {len(table_names) - MOST_NAMED} more" if len(table_names) > MOST_NAMED else ""
    problem = f"contains {len(table_names)} {what}s" if part is None else f"contains no {what} {part!r}"
    raise SourceError(
        f"{file!r} {problem}; name one as '{file}{SEPARATOR}{table_names[0]}'. It contains {listing}{more}.",
        code="unclear-table",
        fields={"file": file, "tables": len(table_names)},
    )
