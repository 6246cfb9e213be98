"""Small CSV files of the user's: bounds, caps, counts, domains, totals, questions; read in one way.

All are UTF-8 with a header, with commas between fields, or semicolons as tables may have them. An empty field is the
missing value, and what is wrong with a file is said in one sentence that names it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sfumato.errors import SfumatoError, SpecError, reason
from sfumato.request.values import Value, display

Given = TypeVar("Given")

LONGEST_VALUE = 1000
"""A longer value in such a file is a mistake, as if a quote were not closed."""


def lines(
    path: Path, wrong: type[SfumatoError], unlike: str, what: str = "", *, is_list: bool = False
) -> list[list[str]]:
    """The fields of each line of a CSV; `unlike` is said of a file that is none, and `what` it should be.

    A list has one field a line, and a semicolon in its first line is part of a value.
    """
    named = f"{what} {str(path)!r}".strip()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = file.read()
        header = text.partition("\n")[0]
        comma = ";" if ";" in header and "," not in header and not is_list else ","
        found = list(csv.reader(io.StringIO(text, newline=""), delimiter=comma))
    except OSError as error:
        raise wrong(f"{named} cannot be read: {reason(error)}.") from error
    except UnicodeDecodeError as error:
        raise wrong(f"{named} is not UTF-8 text; save it as UTF-8.") from error
    except csv.Error as error:
        raise wrong(unlike) from error
    return found


def records(path: Path, wrong: type[SfumatoError], unlike: str) -> list[dict[str, str]]:
    """The lines of a CSV by the names in its header, which may have any capital letters; empty lines are none."""
    header, *rest = lines(path, wrong, unlike) or [[]]
    names = [name.strip().lower() for name in header]
    return [dict(zip(names, fields, strict=False)) for fields in rest if fields]


def values_with(path: Path, columns: Sequence[str]) -> dict[Value, dict[str, str]]:
    """For each value of a CSV, which has it once, what stands beside it in some columns."""
    names = ("value", *columns)
    unlike = f"{str(path)!r} must have the columns {', '.join(names)}."
    found: dict[Value, dict[str, str]] = {}
    for row in records(path, SpecError, unlike):
        if not set(names) <= set(row) or len(row["value"]) > LONGEST_VALUE:
            raise SpecError(unlike)
        value = row["value"] or None
        if value in found:
            raise SpecError(f"{str(path)!r} has two lines for {display(value)!r}; write one.")
        found[value] = {column: row[column] for column in columns}
    if not found:
        raise SpecError(f"{str(path)!r} names no value; write a line for each value to protect.")
    return found


def matched(given: Mapping[Value, Given], values: Sequence[Value], what: str) -> tuple[Given | None, ...]:
    """What is given for each value of a domain; a value that is no text may be named by its text."""
    lacking = set(given)
    found = []
    for value in values:
        key = value if value in given or value is None else display(value)
        found.append(given.get(key))
        lacking.discard(key)
    if lacking:
        named = ", ".join(repr(display(value)) for value in sorted(lacking, key=display)[:3])
        raise SpecError(f"there is a {what} for a value that is not in the domain: {named}; correct it.")
    return tuple(found)
