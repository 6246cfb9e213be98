"""The command `query`: its options, its answers in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

import sfumato
from sfumato._core.cell_values import to_json
from sfumato._core.json_types import Json
from sfumato._figures.estimate_format import NumberCell, align_cells
from sfumato._query.answer_layout import AnswerColumn, AnswerTable
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato._query.query_limits import DEFAULT_SECONDS
from sfumato._terminal_safe import escape_unprintable
from sfumato.cli import render
from sfumato.cli.flags import name_flags
from sfumato.cli.option_group import OptionGroup
from sfumato.cli.options import PrintOptions
from sfumato.cli.output import BAD_INPUT, err, out, print_error, print_json
from sfumato.cli.render import escape_for_terminal, show_notice
from sfumato.errors import QueryError, SfumatoError

if TYPE_CHECKING:
    from sfumato import Answer, Release


# Answers in the terminal, with one cell for each number at any width; and as JSON.

LEAST_GROUP = 24
"""The width above which a column of groups may be folded to make room for numbers."""
EDGES = 3
"""The width that a column needs beside its text."""


def show_answer(console: Console, answer: Answer, level: float, *, quiet: bool = False) -> None:
    """Shows the answer, its warnings, and the meaning of its cells."""
    sheet = AnswerTable.of(answer, level)
    console.print(_build_table(sheet, console.width))
    for note in sheet.footnotes:
        console.print(escape_for_terminal(note), highlight=False)
    if answer.note:
        show_notice(console, answer.note)
    for remark in () if quiet else sheet.remarks:
        console.print(f"[dim]{escape_for_terminal(remark)}[/dim]", highlight=False)


def _build_table(sheet: AnswerTable, width: int) -> Table:
    """A table with cells of one line if they fit, else of two lines, else with a line for each number."""
    for separator in (" ", "\n"):
        texts = _format_cells(sheet.columns, separator)
        if _measure_table_width(sheet, texts) <= width:
            break
    else:
        if sum(bool(column.cells) for column in sheet.columns) > 1:
            return _build_long_table(sheet)
    table = Table(show_lines=separator == "\n")
    for column in sheet.columns:
        is_right = column.heading in sheet.adjusted_columns
        table.add_column(
            escape_for_terminal(column.heading),
            justify="right" if is_right else "left",
            no_wrap=bool(column.cells),
            overflow="fold",
        )
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def _measure_table_width(sheet: AnswerTable, texts: list[list[Text]]) -> int:
    """The width of a table with these texts, with groups folded."""
    width = 1
    for sheet_column, column in zip(sheet.columns, texts, strict=True):
        widest = max(
            [cell_len(sheet_column.heading), *(cell_len(line) for text in column for line in text.plain.split("\n"))]
        )
        width += EDGES + (widest if sheet_column.cells else min(widest, LEAST_GROUP))
    return width


def _format_cells(columns: Sequence[AnswerColumn], separator: str) -> list[list[Text]]:
    """The cells of columns, with numbers aligned."""
    cell_texts = []
    for column in columns:
        marked_cells = zip(align_cells(column.cells), column.marks, strict=True)
        ends = [(middle, " ".join(filter(None, (interval, mark)))) for (middle, interval), mark in marked_cells]
        numbers = [Text.assemble(middle, separator, (end, "dim")) if end else Text(middle) for middle, end in ends]
        cell_texts.append(numbers or [Text(escape_unprintable(text)) for text in column.texts])
    return cell_texts


def _build_long_table(sheet: AnswerTable) -> Table:
    """A table with a line for each number, with its name, and a block for each row."""
    groups = [column for column in sheet.columns if not column.cells and column.heading not in sheet.adjusted_columns]
    numbers = [column for column in sheet.columns if column not in groups]
    table = Table()
    for column in groups:
        table.add_column(escape_for_terminal(column.heading), overflow="fold")
    table.add_column("number", overflow="fold")
    table.add_column("estimate", no_wrap=True)
    rows = max(len(column.marks) for column in numbers)
    long_rows = [(row, column) for row in range(rows) for column in numbers]
    estimate_column = AnswerColumn(
        "estimate",
        cells=tuple(column.cells[row] if column.cells else NumberCell(column.texts[row]) for row, column in long_rows),
        marks=tuple(column.marks[row] if column.marks else "" for row, column in long_rows),
    )
    for (row, column), (text,) in zip(long_rows, zip(*_format_cells([estimate_column], " "), strict=True), strict=True):
        group_cells = [Text(escape_unprintable(group.texts[row]) if column is numbers[0] else "") for group in groups]
        table.add_row(*group_cells, Text(escape_unprintable(column.heading)), text, end_section=column is numbers[-1])
    return table


def answer_json(answer: Answer, level: float) -> Json:
    """An answer as JSON."""
    columns, rows = answer.to_table(level)
    return {
        "columns": columns,
        "rows": [{name: to_json(value) for name, value in row.items()} for row in rows],
        "method": answer.method,
        "assumption": answer.assumption,
        "level": level,
        "counted": answer.counted_unit,
        **({"adjustment": answer.adjustment} if answer.adjustment else {}),
        **({"note": answer.note} if answer.note else {}),
    }


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryOptions(OptionGroup):
    """The question, and the options for its answer."""

    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="SELECT COUNT(*) FROM release WHERE ... GROUP BY ...")
    ] = None
    batch: Annotated[
        Path | None,
        typer.Option(
            "--batch", metavar="FILE", help="A file of questions: .csv with a column sql, or .jsonl with a key sql."
        ),
    ] = None
    attach: Annotated[
        list[str],
        typer.Option("--attach", metavar="NAME=FILE", help="A CSV or Parquet file to join. Repeatable."),
    ] = field(default_factory=list)
    level: Annotated[float, typer.Option("--level", help="The confidence level of the intervals.")] = DEFAULT_LEVEL
    method: Annotated[
        str | None,
        typer.Option("--method", help="The estimator; `sfumato info` lists them. Default: the first."),
    ] = None
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Widen the intervals so that all hold at once.")
    ] = False
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Also print counts that are not negative and add up.")
    ] = False
    totals: Annotated[
        list[Path],
        typer.Option(
            "--totals", metavar="FILE", help="A CSV of known totals; the adjusted counts add up to them. Repeatable."
        ),
    ] = field(default_factory=list)
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Time limit for one question.")] = (
        DEFAULT_SECONDS
    )


def answer_questions(
    release: Path, query_options: QueryOptions, print_options: PrintOptions, check: Callable[[Release], None]
) -> None:
    """Answers one question or a batch by a release that passes a check, and prints the answers."""
    from sfumato._query.attached_tables import parse_attachments  # noqa: PLC0415 - takes long to load
    from sfumato._query.batch_queries import read_batch  # noqa: PLC0415 - takes long to load
    from sfumato._query.query_process import QueryJob, ask_in_child  # noqa: PLC0415 - takes long to load

    if (query_options.sql is None) == (query_options.batch is None):
        raise QueryError("ask either one question in SQL, or many with --batch FILE; see sfumato query --help.")
    if query_options.batch is not None and (query_options.consistent or query_options.totals):
        raise QueryError("--consistent and --totals apply to one question; ask it without --batch.")
    tables, opened = parse_attachments(query_options.attach), sfumato.Release.open(release)
    check(opened)
    questions = [str(query_options.sql)] if query_options.batch is None else read_batch(query_options.batch)
    with render.show_fetching(err, release, quiet=print_options.is_silent):
        asking = QueryJob(
            opened,
            tuple(questions),
            is_batch=query_options.batch is not None,
            method=query_options.method,
            attached_paths=tables,
            is_simultaneous=query_options.simultaneous,
            is_consistent=query_options.consistent,
            totals=query_options.totals,
            timeout=query_options.timeout,
        )
    if asking.is_batch:
        with render.show_progress(err, print_options) as progress:
            answers = ask_in_child(asking, progress)
        _print_batch(answers, query_options.level, print_options)
        return
    (answer,) = ask_in_child(asking)
    if isinstance(answer, SfumatoError):
        raise answer
    if print_options.as_json:
        print_json(answer_json(answer, query_options.level))
    else:
        show_answer(out, answer, query_options.level, quiet=print_options.quiet)


def _print_batch(answers: Sequence[Answer | SfumatoError], level: float, print_options: PrintOptions) -> None:
    """Prints all answers; if some questions have none, the command fails after the last."""
    failed_numbers = [number for number, answer in enumerate(answers, 1) if isinstance(answer, SfumatoError)]
    if print_options.as_json:
        results = [
            {"error": str(answer)} if isinstance(answer, SfumatoError) else answer_json(answer, level)
            for answer in answers
        ]
        print_json({"results": results})
    else:
        for number, answer in enumerate(answers, 1):
            out.print(f"question {number}", style="bold")
            if isinstance(answer, SfumatoError):
                out.print(
                    f"not answered: {escape_unprintable(name_flags(str(answer)))}",
                    soft_wrap=True,
                    highlight=False,
                    markup=False,
                )
            else:
                show_answer(out, answer, level, quiet=print_options.quiet)
    if failed_numbers:
        print_error(
            f"{len(failed_numbers)} of {len(answers)} questions were not answered; the first is number "
            f"{failed_numbers[0]}."
        )
        raise typer.Exit(BAD_INPUT)
