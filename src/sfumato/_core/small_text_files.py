"""Reads small files that people write: CSV files of bounds, caps, counts, domains, totals, questions, and TOML files.

The CSV files are UTF-8 with a header, with commas between fields, or semicolons as tables may have them. An empty field
is the missing value, and what is wrong with a file is said in one sentence that names it.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sfumato._core.cell_values import Value, display
from sfumato._core.json_types import Json
from sfumato.errors import SfumatoError, SpecError, explain_os_error

Entry = TypeVar("Entry")

LARGEST_FILE = 256 << 20
"""What is larger is no such file: a domain of a million values has a tenth of it."""
TOML = ".toml"
LARGEST_TOML = 1 << 20
TOO_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""A key of a hundred parts with points between them."""
LONGEST_VALUE = 1000
"""A longer value in such a file is a mistake, as if a quote were not closed."""


def read_csv_lines(
    path: Path, error_type: type[SfumatoError], format_message: str, what: str = "", *, is_list: bool = False
) -> list[list[str]]:
    """The fields of each line of a CSV; `unlike` is said of a file that is none, and `what` it should be.

    A list has one field a line, and a semicolon in its first line is part of a value.
    """
    label = f"{what} {str(path)!r}".strip()
    try:
        text = read_small(path, label, error_type).decode("utf-8-sig")
        header = text.partition("\n")[0]
        delimiter = ";" if ";" in header and "," not in header and not is_list else ","
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except OSError as error:
        raise error_type(f"{label} cannot be read: {explain_os_error(error)}.") from error
    except UnicodeDecodeError as error:
        raise error_type(f"{label} is not UTF-8 text; save it as UTF-8.") from error
    except csv.Error as error:
        raise error_type(format_message) from error
    return rows


def read_small(path: Path, label: str, error_type: type[SfumatoError], largest: int = LARGEST_FILE) -> bytes:
    """The bytes of a file; one that is too large is refused before it is in memory, also one without an end."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > largest:
            raise make_size_error(label, error_type, largest)
        content = file.read(largest + 1)
    if len(content) > largest:
        raise make_size_error(label, error_type, largest)
    return content


def read_toml(path: Path, label: str, parse_float: Callable[[str], object] = float) -> Json:
    """What stands in a TOML file; `named` is how it is called in a sentence about what is wrong with it."""
    try:
        text = read_small(path, label, SpecError, LARGEST_TOML).decode("utf-8-sig")
        if TOO_DEEP.search(text):  # each part of a key costs as much as all before it
            raise ValueError
        return tomllib.loads(text, parse_float=parse_float)
    except OSError as error:
        raise SpecError(f"{label} cannot be read: {explain_os_error(error)}.") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{label} is not UTF-8 text; save it as UTF-8.") from error
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a value is too long or too deep"
        raise SpecError(f"{label} is not TOML: {problem[:1].lower()}{problem[1:]}.") from error


def make_size_error(label: str, error_type: type[SfumatoError], largest: int) -> SfumatoError:
    """What is said of a file that nobody wrote by hand, nor a program that meant well."""
    return error_type(f"{label} is larger than {largest >> 20} MiB, which no such file needs; name another one.")


def read_csv_records(path: Path, error_type: type[SfumatoError], format_message: str) -> list[dict[str, str]]:
    """The lines of a CSV by the names in its header, which may have any capital letters; empty lines are none."""
    header, *rest = read_csv_lines(path, error_type, format_message) or [[]]
    names = [name.strip().lower() for name in header]
    return [dict(zip(names, fields, strict=False)) for fields in rest if fields]


def read_value_entries(path: Path, columns: Sequence[str]) -> dict[Value, dict[str, str]]:
    """For each value of a CSV, which has it once, what stands beside it in some columns."""
    names = ("value", *columns)
    format_message = f"{str(path)!r} must have the columns {', '.join(names)}."
    entries: dict[Value, dict[str, str]] = {}
    for row in read_csv_records(path, SpecError, format_message):
        if not set(names) <= set(row) or len(row["value"]) > LONGEST_VALUE:
            raise SpecError(format_message)
        value = row["value"] or None
        if value in entries:
            raise SpecError(f"{str(path)!r} has two lines for {display(value)!r}; write one.")
        entries[value] = {column: row[column] for column in columns}
    if not entries:
        raise SpecError(f"{str(path)!r} names no value; write a line for each value to protect.")
    return entries


def match_to_domain(entries: Mapping[Value, Entry], values: Sequence[Value], what: str) -> tuple[Entry | None, ...]:
    """What is given for each value of a domain; a value that is no text may be named by its text."""
    unknown_values = set(entries)
    matched_entries = []
    for value in values:
        key = value if value in entries or value is None else display(value)
        matched_entries.append(entries.get(key))
        unknown_values.discard(key)
    if unknown_values:
        listing = ", ".join(repr(display(value)) for value in sorted(unknown_values, key=display)[:3])
        raise SpecError(f"there is a {what} for a value that is not in the domain: {listing}; correct it.")
    return tuple(matched_entries)
