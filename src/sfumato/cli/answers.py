"""How answers look in a terminal: one cell for each number, however wide the terminal is; and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato._core.cell_values import to_json
from sfumato._figures.number_cells import NumberCell, align_cells
from sfumato._query.answer_table import AnswerColumn, AnswerTable
from sfumato._terminal_safe import escape_unprintable
from sfumato.cli.render import escape_for_terminal, show_notice

if TYPE_CHECKING:  # what is only looked at need not be loaded before it is there
    from sfumato import Answer

LEAST_GROUP = 24
"""So wide a column of groups may be before it is folded to make room for numbers."""
EDGES = 3
"""What a column takes beside its text."""


def show_answer(console: Console, answer: Answer, level: float, *, quiet: bool = False) -> None:
    """The answer, what to beware of in it, and what its cells mean."""
    sheet = AnswerTable.of(answer, level)
    console.print(_build_table(sheet, console.width))
    for note in sheet.footnotes:
        console.print(escape_for_terminal(note), highlight=False)
    if answer.note:
        show_notice(console, answer.note)
    for remark in () if quiet else sheet.remarks:
        console.print(f"[dim]{escape_for_terminal(remark)}[/dim]", highlight=False)


def _build_table(sheet: AnswerTable, width: int) -> Table:
    """Cells of one line, if there is room; else of two; and else a line for each number."""
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
    """How wide a table of such texts is, with groups folded."""
    width = 1
    for sheet_column, column in zip(sheet.columns, texts, strict=True):
        widest = max(
            [cell_len(sheet_column.heading), *(cell_len(line) for text in column for line in text.plain.split("\n"))]
        )
        width += EDGES + (widest if sheet_column.cells else min(widest, LEAST_GROUP))
    return width


def _format_cells(columns: Sequence[AnswerColumn], separator: str) -> list[list[Text]]:
    """The cells of columns; numbers that stand under each other are lined up."""
    cell_texts = []
    for column in columns:
        marked_cells = zip(align_cells(column.cells), column.marks, strict=True)
        ends = [(middle, " ".join(filter(None, (interval, mark)))) for (middle, interval), mark in marked_cells]
        numbers = [Text.assemble(middle, separator, (end, "dim")) if end else Text(middle) for middle, end in ends]
        cell_texts.append(numbers or [Text(escape_unprintable(text)) for text in column.texts])
    return cell_texts


def _build_long_table(sheet: AnswerTable) -> Table:
    """A line for each number, with its name, and a block for each row."""
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


def answer_json(answer: Answer, level: float) -> dict[str, Any]:
    """An answer for machines."""
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
