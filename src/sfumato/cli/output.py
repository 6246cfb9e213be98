"""Prints the output of all commands: text without control characters on two consoles, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress

import typer

from sfumato._core.json_types import JsonView
from sfumato._terminal_safe import escape_json, escape_unprintable, hide_passwords
from sfumato.cli.argument_names import name_arguments, name_arguments_in_json
from sfumato.cli.render import GuardedConsole
from sfumato.errors import ErrorField

JSON_FORMAT = 1
"""The version of the JSON output. The version rises when a key disappears or changes its meaning."""
CHECK_FAILED = 1
"""The exit code of a command that found a problem."""
BAD_INPUT = 2
"""The exit code of a command that cannot run."""


class StoppedError(Exception):
    """Stops a command that has written something. Its message names the written files."""


out = GuardedConsole(emoji=False)
err = GuardedConsole(stderr=True, emoji=False)


def print_json(entries: JsonView) -> None:
    """Prints one JSON document. Its sentences name options, or keys of the request file."""
    document = name_arguments_in_json({"format": JSON_FORMAT, **entries})
    typer.echo(escape_json(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False, default=str)))


def print_error(sentence: str) -> None:
    """Prints one line without control characters to standard error."""
    line = escape_unprintable(hide_passwords(name_arguments(" ".join(sentence.splitlines()))))
    stop = "" if line.endswith(".") else "."
    err.print(f"error: {line}{stop}", markup=False, highlight=False, soft_wrap=True)


def report_failure(  # noqa: PLR0913 - each is one key of the document
    as_json: bool,
    kind: str,
    message: str,
    with_values: str | None = None,
    *,
    code: str | None = None,
    fields: Mapping[str, ErrorField] | None = None,
    **more: object,
) -> None:
    """Prints in one sentence why a command stopped, also as JSON if requested.

    The sentence names values of the table only in a terminal, because other output may be a log.
    """
    print_error(with_values if with_values is not None and sys.stderr.isatty() else message)
    if as_json:
        entries = {"kind": kind, "code": code or kind, "message": hide_passwords(message), "fields": dict(fields or {})}
        with suppress(OSError):  # standard output itself may have failed
            print_json({"error": {**entries, **more}})
