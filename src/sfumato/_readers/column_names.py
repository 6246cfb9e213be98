"""Finds the row that names the columns of a sheet or text file, and refuses names that occur twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sfumato.errors import SchemaError

LOOK_AHEAD = 20
"""The number of rows in which the names of columns are looked for."""
NUMBER_OR_DATE = re.compile(r"[-+]?[0-9][0-9.,:/ T-]*")


def is_title(row: Sequence[str]) -> bool:
    """Whether a row may be a title. A title fills the first cell, and at most half of several cells."""
    filled_cells = sum(bool(cell.strip()) for cell in row)
    return bool(row and row[0].strip()) and (len(row) == 1 or 2 * filled_cells <= len(row))


def find_name_row(rows: Sequence[Sequence[str]]) -> int | None:
    """The position of the row that names the columns below a title. All cells of this row have different texts."""
    return next(
        (place for place, row in enumerate(rows) if place and len(row) >= len(rows[0]) and _is_names(row)), None
    )


def _is_names(row: Sequence[str]) -> bool:
    names = [cell.strip() for cell in row]
    is_named = all(name and name.isprintable() and not NUMBER_OR_DATE.fullmatch(name) for name in names)
    return len(names) > 1 and is_named and len(set(names)) == len(names)


def check_names_differ(names: Sequence[str]) -> None:
    """Refuse a name that occurs twice, with a message that gives the columns."""
    repeated_names = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if not repeated_names:
        return
    name = repeated_names[0]
    places = _join(str(place) for place, other in enumerate(names, 1) if other == name)
    if not name.strip():
        raise SchemaError(
            f"the columns {places} of the table have no name; give each column a name.", code="column-without-name"
        )
    others = f" Also repeated: {', '.join(map(repr, repeated_names[1:]))}." if repeated_names[1:] else ""
    raise SchemaError(
        f"the table has two columns named {name!r}; rename one of them (columns {places}).{others}",
        code="repeated-column",
        fields={"column": name, "places": places},
    )


def _join(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}"
