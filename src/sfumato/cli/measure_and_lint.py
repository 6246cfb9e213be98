"""The commands `measure` and `lint`, which inspect any table, also one made by other software."""

from __future__ import annotations

from typing import Annotated

import typer

import sfumato
from sfumato._readers.read_options import POINT
from sfumato.cli import render
from sfumato.cli.option_group import list_option
from sfumato.cli.options import Decimal, Encoding, PrintOptions, TablePath
from sfumato.cli.output import CHECK_FAILED, err, out, print_json


def measure(  # noqa: PLR0913, PLR0917 - the options of the command
    table: TablePath,
    public: Annotated[list[str] | None, list_option("--public", "COL", "Public columns that others may know.")] = None,
    sensitive: Annotated[list[str] | None, list_option("--sensitive", "COL", "Columns to protect.")] = None,
    others_known: Annotated[
        bool,
        typer.Option("--others-known", help="For each sensitive column, treat the other sensitive columns as known."),
    ] = False,
    text: Annotated[list[str] | None, list_option("--text", "COL", "CSV columns to read as text.")] = None,
    missing: Annotated[list[str] | None, list_option("--missing", "TEXT", "Texts that mean a missing value.")] = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = POINT,
    *,
    print_options: PrintOptions,
) -> None:
    """Measure a table by the usual privacy models, with the limits of each measure. Private."""
    with render.open_progress_engine(err, print_options) as engine:
        measures = sfumato.measure(
            table,
            public or (),
            sensitive or (),
            others_known=others_known,
            read=sfumato.ReadOptions(tuple(text or ()), encoding, tuple(missing or ()), decimal),
            progress=engine.progress,
        )
    if print_options.as_json:
        print_json(measures.to_json())
    else:
        render.show_document(out, measures.document(), quiet=print_options.quiet)


def lint(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A CSV or Parquet file, a directory of such tables, or a release (directory or .zip)."
        ),
    ],
    encoding: Encoding = "utf-8",
    *,
    print_options: PrintOptions,
) -> None:
    """Check whether a published table discloses more than its values, by row order, file metadata or digits."""
    with render.open_progress_engine(err, print_options) as engine:
        inspection = sfumato.lint(table, read=sfumato.ReadOptions(encoding=encoding), progress=engine.progress)
    if print_options.as_json:
        print_json(inspection.to_json())
    else:
        render.show_document(out, inspection.document(), quiet=print_options.quiet)
    if inspection.findings:
        raise typer.Exit(CHECK_FAILED)
