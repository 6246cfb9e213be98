"""Checks the names of the table, columns and files in a request that fails, before other errors are reported."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato._publish.request_settings import (
    DEFAULTS,
    DOMAIN_FORM,
    HIERARCHY_FORM,
    PUBLISH_AT_FORM,
    RANGES_FORM,
    make_read_options,
    parse_assignments,
)
from sfumato._readers.open_table import open_source
from sfumato._readers.reader_registry import find_reader_of_address
from sfumato._request.named_columns import ANY_CHARACTERS, check_named_columns
from sfumato._request.person_rows import OneRow
from sfumato.errors import SchemaError, SfumatoError

COLUMN_ARGUMENTS = ("sensitive", "compound", "identifier", "person", "drop", "keep", "text")
"""The settings that list columns."""


@contextmanager
def check_names_first(table: Any, settings: Mapping[str, Any]) -> Iterator[None]:
    """Reports a wrong name of the table, a column or a file instead of another error of the request."""
    try:
        yield
    except SfumatoError:
        check_names(table, {**DEFAULTS, **settings})
        raise


def check_names(table: Any, settings: Mapping[str, Any]) -> None:
    """Refuses a table that cannot be opened, a column that it does not have, and a file that does not exist.

    A table on a server is not opened, because that copies all of it.
    """
    if isinstance(table, str | Path) and find_reader_of_address(str(table)) is None:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
            columns = open_source(table, Path(folder) / "spool", read=make_read_options(settings)).schema.names
        check_named_columns(_list_named_columns(settings), columns)
    files = (("domain", "domains", DOMAIN_FORM), ("hierarchy", "hierarchies", HIERARCHY_FORM))
    for setting, argument, form in files:
        for column, file in parse_assignments(settings[setting], form):
            if not Path(file).exists():
                title = "the domain file" if setting == "domain" else "the hierarchy"
                raise SchemaError(
                    f"{title} {file!r} does not exist; correct `{argument}={{{column!r}: Path({file!r})}}`.",
                    code="missing-file",
                    fields={"file": file, "column": column},
                )


def _list_named_columns(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Lists the named columns, each with its argument."""
    for argument in COLUMN_ARGUMENTS:
        yield from ((argument, name) for name in settings[argument] if ANY_CHARACTERS not in name)
    assignments = (
        ("ranges", "ranges", RANGES_FORM),
        ("domain", "domains", DOMAIN_FORM),
        ("hierarchy", "hierarchies", HIERARCHY_FORM),
        ("publish_at", "publish_at", PUBLISH_AT_FORM),
    )
    for setting, argument, form in assignments:
        pairs = parse_assignments(settings[setting], form, at_last=setting == "ranges")
        yield from ((argument, name) for name, _ in pairs)
    if settings["one_row"] is not None and (column := OneRow.parse(settings["one_row"]).column) is not None:
        yield "one_row", column
