"""Reads small files that people write: TOML files, and CSV files of bounds, caps, counts, domains, totals or questions.

The CSV files are UTF-8 with a header, and with commas or semicolons between fields. An empty field is the missing
value. Every error is one sentence that names the file.
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
"""Larger files are rejected. A domain of a million values has a tenth of this size."""
TOML = ".toml"
LARGEST_TOML = 1 << 20
TOO_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""A key of a hundred parts with dots between them."""
LONGEST_VALUE = 1000
"""A longer value in such a file is a mistake, for example a missing closing quote."""


def read_csv_lines(
    path: Path, error_type: type[SfumatoError], format_message: str, what: str = "", *, is_list: bool = False
) -> list[list[str]]:
    """The fields of each line of a CSV. `format_message` is the error for other formats, and `what` names the file.

    With `is_list`, each line has one field, and a semicolon in the first line is part of a value.
    """
    label = f"{what} {str(path)!r}".strip()
    try:
        text = read_small(path, label, error_type).decode("utf-8-sig")
        header = text.partition("\n")[0]
        delimiter = ";" if ";" in header and "," not in header and not is_list else ","
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except OSError as error:
        raise error_type(
            f"{label} cannot be read: {explain_os_error(error)}.",
            code="unreadable-file",
            fields={"file": str(path), "reason": explain_os_error(error)},
        ) from error
    except UnicodeDecodeError as error:
        raise error_type(
            f"{label} is not UTF-8 text; save it as UTF-8.", code="other-encoding", fields={"file": str(path)}
        ) from error
    except csv.Error as error:
        raise error_type(format_message, code="wrong-file-format", fields={"file": str(path)}) from error
    return rows


def read_small(path: Path, label: str, error_type: type[SfumatoError], largest: int = LARGEST_FILE) -> bytes:
    """Reads a file, and rejects one above the limit, even an endless one, before it fills the memory."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > largest:
            raise make_size_error(path, label, error_type, largest)
        content = file.read(largest + 1)
    if len(content) > largest:
        raise make_size_error(path, label, error_type, largest)
    return content


def read_toml(path: Path, label: str, parse_float: Callable[[str], object] = float) -> Json:
    """Reads a TOML file; `label` names it in error messages."""
    try:
        text = read_small(path, label, SpecError, LARGEST_TOML).decode("utf-8-sig")
        if TOO_DEEP.search(text):  # parsing each part of a key takes as long as parsing all parts before it
            raise ValueError
        return tomllib.loads(text, parse_float=parse_float)
    except OSError as error:
        raise SpecError(
            f"{label} cannot be read: {explain_os_error(error)}.",
            code="unreadable-file",
            fields={"file": str(path), "reason": explain_os_error(error)},
        ) from error
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{label} is not UTF-8 text; save it as UTF-8.", code="other-encoding", fields={"file": str(path)}
        ) from error
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:
        is_syntax = isinstance(error, tomllib.TOMLDecodeError)
        problem = str(error) if is_syntax else "a value is too long or too deeply nested"
        raise SpecError(
            f"{label} is not TOML: {problem[:1].lower()}{problem[1:]}.",
            code="not-toml" if is_syntax else "toml-value-too-large",
            fields={"file": str(path)},
        ) from error


def make_size_error(path: Path, label: str, error_type: type[SfumatoError], largest: int) -> SfumatoError:
    """The error for a file that is too large to be genuine."""
    return error_type(
        f"{label} is larger than {largest >> 20} MiB, which is too large for a file of this kind; name another one.",
        code="file-too-large",
        fields={"file": str(path), "limit": largest},
    )


def read_csv_records(path: Path, error_type: type[SfumatoError], format_message: str) -> list[dict[str, str]]:
    """The lines of a CSV by lower-case header names, without empty lines."""
    header, *rest = read_csv_lines(path, error_type, format_message) or [[]]
    names = [name.strip().lower() for name in header]
    return [dict(zip(names, fields, strict=False)) for fields in rest if fields]


def read_value_entries(path: Path, columns: Sequence[str]) -> dict[Value, dict[str, str]]:
    """For each value of a CSV, the contents of the other columns. A value may stand on one line only."""
    names = ("value", *columns)
    format_message = f"{str(path)!r} must have the columns {', '.join(names)}."
    entries: dict[Value, dict[str, str]] = {}
    for row in read_csv_records(path, SpecError, format_message):
        if not set(names) <= set(row) or len(row["value"]) > LONGEST_VALUE:
            raise SpecError(format_message, code="wrong-file-format", fields={"file": str(path)})
        value = row["value"] or None
        if value in entries:
            raise SpecError(
                f"{str(path)!r} has two lines for {display(value)!r}; write only one.",
                code="repeated-value",
                fields={"file": str(path)},
            )
        entries[value] = {column: row[column] for column in columns}
    if not entries:
        raise SpecError(
            f"{str(path)!r} names no value; write a line for each value to protect.",
            code="no-values",
            fields={"file": str(path)},
        )
    return entries


def match_to_domain(entries: Mapping[Value, Entry], values: Sequence[Value], what: str) -> tuple[Entry | None, ...]:
    """The entry for each value of a domain. A value of another type is matched by its string."""
    unknown_values = set(entries)
    matched_entries = []
    for value in values:
        key = value if value in entries or value is None else display(value)
        matched_entries.append(entries.get(key))
        unknown_values.discard(key)
    if unknown_values:
        listing = ", ".join(repr(display(value)) for value in sorted(unknown_values, key=display)[:3])
        raise SpecError(
            f"there is a {what} for a value that is not in the domain: {listing}; correct it.",
            code="value-outside-domain",
            fields={"what": what, "values": len(unknown_values)},
        )
    return tuple(matched_entries)
