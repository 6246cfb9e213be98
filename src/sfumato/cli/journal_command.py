"""The command `journal`, which checks a journal of publications and shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sfumato
from sfumato.cli import render
from sfumato.cli.options import PrintOptions
from sfumato.cli.output import CHECK_FAILED, out, print_error, print_json


def journal(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A journal that `publish --journal` wrote.")],
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="DIGEST", help="A head that you noted earlier, which the journal must still have."
        ),
    ] = None,
    *,
    print_options: PrintOptions,
) -> None:
    """Check the chain of a journal, and show its publications. Private."""
    checked = sfumato.read_journal(file, head)
    if print_options.as_json:
        print_json(checked.to_json())
    else:
        render.show_document(out, checked.document(), quiet=print_options.quiet)
    if not checked.is_intact:
        print_error(checked.problem)
        raise typer.Exit(CHECK_FAILED)
