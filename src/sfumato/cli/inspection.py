"""The commands that look at any table, whoever made it: `measure` and `lint`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

import sfumato
from sfumato._figures.number_format import percent_exactly, some
from sfumato._readers.read_options import POINT
from sfumato.cli import render
from sfumato.cli.options import Decimal, Encoding, PrintOptions, TablePath
from sfumato.cli.output import CHECK_FAILED, err, out, print_json

if TYPE_CHECKING:
    from sfumato import Finding, Inspection, Measures

DIGITS = 4


def measure(  # noqa: PLR0913, PLR0917 - the options of the command
    table: TablePath,
    public: Annotated[
        list[str] | None, typer.Option("--public", metavar="COL", help="A column that others may know. Repeatable.")
    ] = None,
    sensitive: Annotated[
        list[str] | None, typer.Option("--sensitive", metavar="COL", help="A column to protect. Repeatable.")
    ] = None,
    others_known: Annotated[
        bool, typer.Option("--others-known", help="Of several sensitive columns, the others are known too.")
    ] = False,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="COL", help="Read a CSV column as text. Repeatable.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", metavar="TEXT", help="Stands for a missing value. Repeatable.")
    ] = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = POINT,
    *,
    printed: PrintOptions,
) -> None:
    """Measure a table by the usual privacy models, with what each number leaves open. Private: it tells of groups."""
    with render.progress_engine(err, printed) as engine:
        found = sfumato.measure(
            table,
            public or (),
            sensitive or (),
            others_known=others_known,
            read=sfumato.ReadOptions(tuple(text or ()), encoding, tuple(missing or ()), decimal),
            progress=engine.progress,
        )
    if printed.as_json:
        print_json(found.to_json())
    else:
        _show_measures(found)


def _show_measures(found: Measures) -> None:
    from sfumato._risk.privacy_models.measure_table import MODELS, SCOPE  # noqa: PLC0415 - takes long to load

    names = ", ".join(map(render.plain, found.public)) or "no column"
    out.print(f"{found.rows:,} records in {found.groups:,} groups that are alike in {names}", highlight=False)
    out.print(f"the smallest group has {some(found.smallest, 'record')} (k of k-anonymity)", highlight=False)
    alone, few, some_more = map(percent_exactly, (found.alike.alone, found.alike.below_5, found.alike.below_11))
    out.print(f"{alone} are alone, {few} among fewer than 5, {some_more} among fewer than 11", highlight=False)
    if found.columns:
        table = Table(
            "measure", *(Column(render.plain(each.column), justify="right", overflow="fold") for each in found.columns)
        )
        for model in MODELS:
            table.add_row(model.name, *(_number(each.numbers[model.key]) for each in found.columns))
        out.print(table)
        if found.others_known:
            render.show_text(out, "Groups are alike in the other sensitive columns too.")
    for model in MODELS if found.columns else MODELS[:1]:
        out.print(f"[bold]{model.name.strip()}[/bold]", highlight=False)
        render.show_text(out, model.says)
        render.show_text(out, f"Left open: {model.leaves_open}")
    render.show_text(out, SCOPE)


def _number(value: float | None) -> str:
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
    printed: PrintOptions,
) -> None:
    """Look for what a published table gives away beside its values: by its order, its file, its digits."""
    with render.progress_engine(err, printed) as engine:
        found = sfumato.lint(table, read=sfumato.ReadOptions(encoding=encoding), progress=engine.progress)
    if printed.as_json:
        print_json(found.to_json())
    else:
        _show_inspection(found)
    if found.findings:
        raise typer.Exit(CHECK_FAILED)


def _show_inspection(found: Inspection) -> None:
    for name, rows in found.tables.items():
        out.print(f"{render.plain(name)}: {rows:,} rows", highlight=False)
    marks: Mapping[bool, str] = {False: "[red]found[/red]", True: "[yellow]note [/yellow]"}
    for each in (*found.findings, *found.notes):
        _show_finding(each, marks[each.is_note], len(found.tables) > 1)
    said, notes = _counted(len(found.findings), "finding"), _counted(len(found.notes), "note")
    out.print(f"{said} and {notes}; what was not looked for may still be there", highlight=False)


def _counted(number: int, what: str) -> str:
    return f"no {what}" if not number else f"one {what}" if number == 1 else f"{number:,} {what}s"


def _show_finding(found: Finding, mark: str, has_several: bool) -> None:
    where = f" in {render.plain(found.file)}" if has_several and found.file else ""
    out.print(f"{mark} {found.code}{where}", highlight=False)
    render.show_text(out, found.sentence)
    render.show_text(out, f"Remedy: {found.remedy}")
