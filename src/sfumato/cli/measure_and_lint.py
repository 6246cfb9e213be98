"""The commands `measure` and `lint`, which inspect any table, also one made by other software."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

import sfumato
from sfumato._figures.number_format import format_count, format_exact_percent
from sfumato._readers.read_options import POINT
from sfumato.cli import render
from sfumato.cli.options import Decimal, Encoding, PrintOptions, TablePath
from sfumato.cli.output import CHECK_FAILED, err, out, print_json

if TYPE_CHECKING:
    from sfumato import Finding, LintReport, Measures

DIGITS = 4


def measure(  # noqa: PLR0913, PLR0917 - the options of the command
    table: TablePath,
    public: Annotated[
        list[str] | None,
        typer.Option("--public", metavar="COL", help="A public column that others may know. Repeatable."),
    ] = None,
    sensitive: Annotated[
        list[str] | None, typer.Option("--sensitive", metavar="COL", help="A column to protect. Repeatable.")
    ] = None,
    others_known: Annotated[
        bool, typer.Option("--others-known", help="For each sensitive column, treat the other ones as known.")
    ] = False,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="COL", help="Read a CSV column as text. Repeatable.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", metavar="TEXT", help="Text that means a missing value. Repeatable.")
    ] = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = POINT,
    *,
    print_options: PrintOptions,
) -> None:
    """Measure a table by the usual privacy models, and say what each number leaves open. Private."""
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
        _show_measures(measures)


def _show_measures(measures: Measures) -> None:
    from sfumato._risk.privacy_models.measure_table import MODELS, SCOPE  # noqa: PLC0415 - takes long to load

    names = ", ".join(map(render.escape_for_terminal, measures.public_columns)) or "no column"
    out.print(f"{measures.rows:,} records in {measures.group_count:,} equivalence classes by {names}", highlight=False)
    out.print(
        f"the smallest class has {format_count(measures.smallest_group, 'record')} (k of k-anonymity)", highlight=False
    )
    alone, few, some_more = map(
        format_exact_percent,
        (
            measures.class_size_shares.unique_share,
            measures.class_size_shares.below_5,
            measures.class_size_shares.below_11,
        ),
    )
    out.print(f"records that are unique: {alone}; in classes below 5: {few}; below 11: {some_more}", highlight=False)
    if measures.columns:
        table = Table(
            "measure",
            *(
                Column(render.escape_for_terminal(column.column), justify="right", overflow="fold")
                for column in measures.columns
            ),
        )
        for model in MODELS:
            table.add_row(model.name, *(_format_number(column.numbers[model.key]) for column in measures.columns))
        out.print(table)
        if measures.others_known:
            render.show_text(out, "The classes also use the other sensitive columns.")
    for model in MODELS if measures.columns else MODELS[:1]:
        out.print(f"[bold]{model.name.strip()}[/bold]", highlight=False)
        render.show_text(out, model.meaning)
        render.show_text(out, f"Left open: {model.limitation}")
    render.show_text(out, SCOPE)


def _format_number(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{DIGITS}g}"


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
    """Look for what a published table reveals beside its values: by row order, file metadata or digits."""
    with render.open_progress_engine(err, print_options) as engine:
        inspection = sfumato.lint(table, read=sfumato.ReadOptions(encoding=encoding), progress=engine.progress)
    if print_options.as_json:
        print_json(inspection.to_json())
    else:
        _show_inspection(inspection)
    if inspection.findings:
        raise typer.Exit(CHECK_FAILED)


def _show_inspection(inspection: LintReport) -> None:
    for name, rows in inspection.tables.items():
        out.print(f"{render.escape_for_terminal(name)}: {rows:,} rows", highlight=False)
    marks: Mapping[bool, str] = {False: "[red]found[/red]", True: "[yellow]note [/yellow]"}
    for finding in (*inspection.findings, *inspection.notes):
        _show_finding(finding, marks[finding.is_note], len(inspection.tables) > 1)
    findings, notes = _format_count(len(inspection.findings), "finding"), _format_count(len(inspection.notes), "note")
    out.print(f"{findings} and {notes}; lint cannot find every problem", highlight=False)


def _format_count(number: int, what: str) -> str:
    return f"no {what}" if not number else f"one {what}" if number == 1 else f"{number:,} {what}s"


def _show_finding(finding: Finding, mark: str, has_several: bool) -> None:
    where = f" in {render.escape_for_terminal(finding.file)}" if has_several and finding.file else ""
    out.print(f"{mark} {finding.code}{where}", highlight=False)
    render.show_text(out, finding.sentence)
    render.show_text(out, f"Remedy: {finding.remedy}")
