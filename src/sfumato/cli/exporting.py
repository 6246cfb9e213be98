"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sfumato
from sfumato._core.cell_values import display, listed
from sfumato.cli import render
from sfumato.cli.options import PrintOptions, ReleasePath
from sfumato.cli.output import err, out, print_json


def export(  # noqa: PLR0913 - the options of the command
    release: ReleasePath,
    values: Annotated[str, typer.Option("--values", metavar="A,B", help="The values to count, with commas between.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="What to write: .csv, .dta (Stata) or .sav (SPSS).")],
    method: Annotated[
        str | None, typer.Option("--method", help="The estimator: one of those that info lists, the first by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    *,
    printed: PrintOptions,
) -> None:
    """Write a release for a statistics package: public columns, and a column of weights to add up for each value."""
    from sfumato._query.export import export as exported  # noqa: PLC0415 - takes long to load
    from sfumato._query.export import parse_values  # noqa: PLC0415 - takes long to load

    opened = sfumato.Release.open(release)
    opened.check_method(method)
    with render.fetching(err, release, quiet=printed.is_silent):
        found = exported(opened, parse_values(values), to, method=method, force=force)
    if printed.as_json:
        weights = {name: display(value) for name, value in found.weights.items()}
        told = {"path": str(found.path), "rows": found.rows, "weights": weights, "renamed": dict(found.renamed)}
        print_json({**told, "formulas": list(found.formulas)})
        return
    if printed.quiet:
        return
    for name, value in found.weights.items():
        out.print(
            f"add up {render.plain(name)} to count {render.plain(display(value))}", soft_wrap=True, highlight=False
        )
    for old, new in found.renamed.items():
        out.print(f"{render.plain(new)} is {render.plain(old)}", soft_wrap=True, highlight=False)
    if found.formulas and found.path.suffix.lower() == ".csv":
        render.show_notice(
            err,
            f"{listed(found.formulas)} has names or texts that a spreadsheet takes for formulas (= + - @): read the "
            "file with a statistics package, or import the column as text.",
        )
    said = f"{found.rows:,} records written to {render.plain(str(found.path))}"
    out.print(f"{said}; the weights add up to the counts of the release", soft_wrap=True, highlight=False)
