"""How answers look in a terminal: one cell for each number, however wide the terminal is; and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato._core.cell_values import to_json
from sfumato._figures.number_cells import NumberCell, lined_up
from sfumato._query.answer_table import Sheet, SheetColumn
from sfumato._terminal_safe import printable
from sfumato.cli.render import plain, show_notice

if TYPE_CHECKING:  # what is only looked at need not be loaded before it is there
    from sfumato import Answer

LEAST_GROUP = 24
"""So wide a column of groups may be before it is folded to make room for numbers."""
EDGES = 3
"""What a column takes beside its text."""


def show_answer(console: Console, answer: Answer, level: float, *, quiet: bool = False) -> None:
    """The answer, what to beware of in it, and what its cells mean."""
    sheet = Sheet.of(answer, level)
    console.print(_table(sheet, console.width))
    for note in sheet.footnotes:
        console.print(plain(note), highlight=False)
    if answer.note:
        show_notice(console, answer.note)
    for remark in () if quiet else sheet.remarks:
        console.print(f"[dim]{plain(remark)}[/dim]", highlight=False)


def _table(sheet: Sheet, width: int) -> Table:
    """Cells of one line, if there is room; else of two; and else a line for each number."""
    for between in (" ", "\n"):
        texts = _texts(sheet.columns, between)
        if _needed(sheet, texts) <= width:
            break
    else:
        if sum(bool(each.cells) for each in sheet.columns) > 1:
            return _by_numbers(sheet)
    table = Table(show_lines=between == "\n")
    for each in sheet.columns:
        is_right = each.heading in sheet.adjusted
        table.add_column(
            plain(each.heading),
            justify="right" if is_right else "left",
            no_wrap=bool(each.cells),
            overflow="fold",
        )
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def _needed(sheet: Sheet, texts: list[list[Text]]) -> int:
    """How wide a table of such texts is, with groups folded."""
    found = 1
    for each, column in zip(sheet.columns, texts, strict=True):
        widest = max([cell_len(each.heading), *(cell_len(line) for one in column for line in one.plain.split("\n"))])
        found += EDGES + (widest if each.cells else min(widest, LEAST_GROUP))
    return found


def _texts(columns: Sequence[SheetColumn], between: str) -> list[list[Text]]:
    """The cells of columns; numbers that stand under each other are lined up."""
    found = []
    for column in columns:
        marked = zip(lined_up(column.cells), column.marks, strict=True)
        ends = [(middle, " ".join(filter(None, (interval, mark)))) for (middle, interval), mark in marked]
        numbers = [Text.assemble(middle, between, (end, "dim")) if end else Text(middle) for middle, end in ends]
        found.append(numbers or [Text(printable(each)) for each in column.texts])
    return found


def _by_numbers(sheet: Sheet) -> Table:
    """A line for each number, with its name, and a block for each row."""
    groups = [each for each in sheet.columns if not each.cells and each.heading not in sheet.adjusted]
    numbers = [each for each in sheet.columns if each not in groups]
    table = Table()
    for each in groups:
        table.add_column(plain(each.heading), overflow="fold")
    table.add_column("number", overflow="fold")
    table.add_column("estimate", no_wrap=True)
    rows = max(len(each.marks) for each in numbers)
    below = [(row, each) for row in range(rows) for each in numbers]
    whole = SheetColumn(
        "estimate",
        cells=tuple(each.cells[row] if each.cells else NumberCell(each.texts[row]) for row, each in below),
        marks=tuple(each.marks[row] if each.marks else "" for row, each in below),
    )
    for (row, each), (text,) in zip(below, zip(*_texts([whole], " "), strict=True), strict=True):
        named = [Text(printable(group.texts[row]) if each is numbers[0] else "") for group in groups]
        table.add_row(*named, Text(printable(each.heading)), text, end_section=each is numbers[-1])
    return table


def answer_json(answer: Answer, level: float) -> dict[str, Any]:
    """An answer for machines."""
    columns, rows = answer.table(level)
    return {
        "columns": columns,
        "rows": [{name: to_json(value) for name, value in row.items()} for row in rows],
        "method": answer.method,
        "assumption": answer.assumption,
        "level": level,
        "counted": answer.counted,
        **({"adjustment": answer.adjustment} if answer.adjustment else {}),
        **({"note": answer.note} if answer.note else {}),
    }
