"""Reads the declared values of a column, from a list or a domain file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato._core.cell_values import Value
from sfumato._core.small_text_files import read_csv_lines
from sfumato.errors import SchemaError


def read_declared_domain(column: str, values: Sequence[Value] | Path) -> tuple[Value, ...]:
    if isinstance(values, Path):
        return read_domain(values)
    if isinstance(values, str):
        raise SchemaError(
            f"the domain of {column!r} is a string; give a list of values, or the Path of a domain file.",
            code="not-a-list",
            fields={"argument": "domains", "column": column},
        )
    return tuple(values)


def read_domain(path: Path) -> tuple[str | None, ...]:
    """Reads a domain file with one value on each line, quoted as in CSV where needed.

    An empty line is the missing value. A first line `value` is a header.
    """
    format_message = f"the domain file {str(path)!r} cannot be read; check its quotes."
    rows = read_csv_lines(path, SchemaError, format_message, "the domain file", is_list=True)
    if wide_line := next((number for number, row in enumerate(rows, 1) if len(row) > 1), None):
        raise SchemaError(
            f"line {wide_line} of the domain file {str(path)!r} has several fields; write one value a line, in quotes "
            "if it has a comma.",
            code="wrong-number-of-fields",
            fields={"file": str(path), "line": wide_line},
        )
    values = tuple(row[0] if row and row[0] else None for row in rows)
    return values[1:] if values and (values[0] or "").lower() == "value" else values
