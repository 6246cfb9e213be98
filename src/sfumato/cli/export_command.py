"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sfumato
from sfumato._core.cell_values import display, format_values
from sfumato.cli import render
from sfumato.cli.option_group import list_option
from sfumato.cli.options import PrintOptions, ReleasePath
from sfumato.cli.output import err, out, print_json


def export(  # noqa: PLR0913 - the options of the command
    release: ReleasePath,
    values: Annotated[list[str], list_option("--values", "VALUE", "The values to count.")],
    target: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file to write: .csv, .dta (Stata) or .sav (SPSS).")
    ],
    method: Annotated[
        str | None, typer.Option("--method", help="The estimator; `sfumato info` lists them. Default: the first.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    *,
    print_options: PrintOptions,
) -> None:
    """Write a release as a file for a statistics package. Columns of weights add up to estimated counts."""
    from sfumato._query.export import export as export_release  # noqa: PLC0415 - takes long to load

    opened = sfumato.Release.open(release)
    opened.check_method(method)
    with render.show_fetching(err, release, quiet=print_options.is_silent):
        result = export_release(opened, values, target, method=method, force=force)
    if print_options.as_json:
        weights = {name: display(value) for name, value in result.weight_columns.items()}
        report = {
            "path": str(result.path),
            "rows": result.rows,
            "weights": weights,
            "renamed": dict(result.renamed_columns),
        }
        people = {} if result.people_column is None else {"people": result.people_column}
        print_json({**report, **people, "formulas": list(result.formula_columns)})
        return
    if print_options.quiet:
        return
    _show_result(result)


def _show_result(result: sfumato.ExportedFiles) -> None:
    """Prints which column to add up for each count, and the renamed columns."""
    escape = render.escape_for_terminal
    lines = [
        f"add up {escape(name)} to count {escape(display(value))}" for name, value in result.weight_columns.items()
    ]
    if result.people_column is not None:
        lines.append(f"add up {escape(result.people_column)} to count all people: a row may be a group of people")
    lines += [f"{escape(old)} was renamed {escape(new)}" for old, new in result.renamed_columns.items()]
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False)
    if result.formula_columns and result.path.suffix.lower() == ".csv":
        render.show_notice(
            err,
            f"{format_values(result.formula_columns)} contains text that a spreadsheet reads as a formula (= + - @). "
            "Open the file in a statistics package, or import the column as text.",
        )
    unit = "records" if result.people_column is None else "rows"
    message = f"{result.rows:,} {unit} written to {escape(str(result.path))}"
    out.print(f"{message}; the weights add up to the estimated counts", soft_wrap=True, highlight=False)
