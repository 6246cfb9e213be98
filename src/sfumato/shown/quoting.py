"""How SQL is written: names and values, quoted so that they can be anything."""

from __future__ import annotations

import datetime

from sqlglot import exp

from sfumato.request.values import Scalar

TABLE = "release"
"""What an analyst calls the release in SQL."""


def quoted(name: str) -> str:
    """A name as SQL writes it if it may be anything."""
    return str(exp.to_identifier(name, quoted=True).sql("duckdb"))


def text(words: str) -> str:
    """A text in SQL; a NUL would end the statement, so it is written by its number."""
    parts = ["'" + part.replace("'", "''") + "'" for part in words.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def literal(value: Scalar, kind: str) -> str:
    """A value of a DuckDB type in SQL, so that nothing of it is lost."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return text(value)
    # The digits that Python writes give the same number back; a decimal writes itself.
    written = value.isoformat() if isinstance(value, datetime.date) else str(value)
    return f"CAST({text(written)} AS {kind})"
