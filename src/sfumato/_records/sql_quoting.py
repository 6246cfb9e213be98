"""Quotes names and values for SQL."""

from __future__ import annotations

import datetime
import math
import re

from sfumato._core.cell_values import Scalar

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_WORDS = (
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast "
    "check collate collation column columns concurrently constraint create cross default deferrable desc describe "
    "distinct do else end except false fetch for foreign freeze from full generated glob group having ilike in "
    "initially inner intersect into is isnull join lambda lateral leading left like limit map natural not notnull "
    "null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary "
    "qualify references returning right select semi show similar some struct summarize symmetric table "
    "tablesample then to trailing true try_cast tuple union unique unpack unpivot using variadic verbose when "
    "where window with"
)
_RESERVED = frozenset(_RESERVED_WORDS.split())
"""Reserved words of SQL. A column with such a name needs quotes."""


def quote_name(name: str) -> str:
    """A quoted name."""
    return '"' + name.replace('"', '""') + '"'


def quote_if_needed(name: str) -> str:
    """A name, quoted only if necessary."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else quote_name(name)


def format_level(column: str, level: str) -> str:
    """A level of a column, as in `diagnosis.chapter`."""
    level_name = level if _PLAIN.fullmatch(level) else quote_name(level)  # no word is reserved after a dot
    return f"{quote_if_needed(column)}.{level_name}"


TABLE = "release"
"""The name of the release in SQL."""

RECORDS = quote_name("sfumato records")
"""All columns of the release. The table `release` has only the public columns."""


def quote_text(content: str) -> str:
    """Quotes a string. A NUL character is written as a number, because it would end the statement."""
    parts = ["'" + part.replace("'", "''") + "'" for part in content.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def format_literal(value: Scalar, kind: str) -> str:
    """A value of a DuckDB type as an exact SQL literal."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return quote_text(value)
    # Python writes digits that are read back as the same number, and a decimal writes itself exactly.
    value_text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    return f"CAST({quote_text(value_text)} AS {kind})"


def write_equality(column: str, value: Scalar) -> str:
    """Writes an SQL condition that a column has a value, in a readable form."""
    return f"{column} IS NULL" if value is None else f"{column} = {format_plain_value(value)}"


def format_plain_value(value: Scalar) -> str:
    """Writes an SQL literal in a readable form."""
    if isinstance(value, float) and not math.isfinite(value):
        return format_literal(value, "DOUBLE")
    from sqlglot import exp  # noqa: PLC0415 - sqlglot takes long to load

    return str(exp.convert(value).sql("duckdb"))
