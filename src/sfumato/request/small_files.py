"""Small CSV files of the user's: bounds, caps, counts, domains, totals, questions; read in one way.

All are UTF-8 with a header. An empty field is the missing value, and what is wrong with a file is said in one sentence
that names it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sfumato.errors import SfumatoError, SpecError, reason
from sfumato.request.values import Value, display

Given = TypeVar("Given")

LONGEST_VALUE = 1000
"""A longer value in such a file is a mistake, as if a quote were not closed."""


def lines(path: Path, wrong: type[SfumatoError], unlike: str, what: str = "") -> list[list[str]]:
    """The fields of each line of a CSV; `unlike` is said of a file that is none, and `what` it should be."""
    named = f"{what} {str(path)!r}".strip()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            found = list(csv.reader(file))
    except OSError as error:
        raise wrong(f"{named} cannot be read: {reason(error)}.") from error
    except UnicodeDecodeError as error:
        raise wrong(f"{named} is not UTF-8 text; save it as UTF-8.") from error
    except csv.Error as error:
        raise wrong(unlike) from error
    return found


def values_with(path: Path, columns: Sequence[str]) -> dict[Value, dict[str, str]]:
    """For each value of a CSV, which has it once, what stands beside it in some columns."""
    names = ("value", *columns)
    unlike = f"{str(path)!r} must have the columns {', '.join(names)}."
    header, *rest = lines(path, SpecError, unlike) or [[]]
    found: dict[Value, dict[str, str]] = {}
    for fields in filter(None, rest):
        row = dict(zip(header, fields, strict=False))
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
