"""Where all commands print: two consoles that no text can steer, and JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from sfumato.cli.render import GuardedConsole
from sfumato.printable import printable_json

FORMAT = 1
"""Of all that is printed as JSON: a new number where a key changes its meaning or goes."""
CHECK_FAILED = 1
"""The exit code of a command that found what it looks for."""


class StoppedError(Exception):
    """Somebody stopped a command that leaves something behind; the sentence says what."""


out = GuardedConsole(emoji=False)
err = GuardedConsole(stderr=True, emoji=False)


def print_json(written: Mapping[str, Any]) -> None:
    """Print one document."""
    told = {"format": FORMAT, **written}
    typer.echo(printable_json(json.dumps(told, ensure_ascii=False, indent=2, allow_nan=False, default=str)))
