"""Where all commands print: two consoles that no text can steer, and JSON for machines."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import typer

from sfumato._core.json_types import JsonView
from sfumato._terminal_safe import escape_json, escape_unprintable, hide_passwords
from sfumato.cli.flags import name_flags, name_flags_in_json
from sfumato.cli.render import GuardedConsole

JSON_FORMAT = 1
"""Of all that is printed as JSON: a new number where a key changes its meaning or goes."""
CHECK_FAILED = 1
"""The exit code of a command that found what it looks for."""
BAD_INPUT = 2
"""The exit code of a command that cannot do what it was asked."""


class StoppedError(Exception):
    """Somebody stopped a command that leaves something behind; the sentence says what."""


out = GuardedConsole(emoji=False)
err = GuardedConsole(stderr=True, emoji=False)


def print_json(entries: JsonView) -> None:
    """Print one document, in which sentences name options of the command line."""
    document = name_flags_in_json({"format": JSON_FORMAT, **entries})
    typer.echo(escape_json(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False, default=str)))


def print_error(sentence: str) -> None:
    """One line of words that cannot steer a terminal, on standard error."""
    line = escape_unprintable(hide_passwords(name_flags(" ".join(sentence.splitlines()))))
    stop = "" if line.endswith(".") else "."
    err.print(f"error: {line}{stop}", markup=False, highlight=False, soft_wrap=True)


def report_failure(as_json: bool, kind: str, message: str, with_values: str | None = None, **more: object) -> None:
    """Tell people why a command stopped, in one sentence; and machines too, if they asked.

    A sentence names values of the table only where somebody looks at it: what is not a terminal may be a log.
    """
    print_error(with_values if with_values is not None and sys.stderr.isatty() else message)
    if as_json:
        with suppress(OSError):  # where standard output itself is what failed
            print_json({"error": {"kind": kind, "message": hide_passwords(message), **more}})
