"""Renders the texts, lists and tables of a document in a terminal. Figures and page-only sections are left out.

Every text becomes a `Text` without markup, so names and values cannot change the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Line

from sfumato._document.document import (
    Alert,
    Alerts,
    Block,
    Checks,
    DataTable,
    Decision,
    Document,
    EstimateBlock,
    Facts,
    Heading,
    Items,
    Outcome,
    Section,
    Text,
    Tiles,
    Tone,
)
from sfumato._document.estimate_table import EstimateColumn, EstimateTable
from sfumato._figures.estimate_format import NumberCell, align_cells
from sfumato._request.warnings import Grade
from sfumato._terminal_safe import escape_unprintable

STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.ANSWER: "bold",
    Tone.QUIET: "dim",
    Tone.GUARANTEE: "",
    Tone.CODE: "bold",
}
GRADES = {Grade.STOP: ("STOP", "bold red"), Grade.WARNING: ("WARN", "yellow"), Grade.NOTE: ("NOTE", "dim")}
OUTCOMES = {Outcome.PASSED: ("ok", "green"), Outcome.FAILED: ("FAIL", "red")}
MARK_WIDTH = 4
LEAST_GROUP = 24
"""A column of groups above this width may be folded to make room for numbers."""
EDGES = 3
"""The width that a column needs beside its text."""


def print_document(console: Console, document: Document, *, quiet: bool = False) -> None:
    """Prints a document. If `quiet`, explanations are left out."""
    if document.title:
        console.print(_make_line(document.title, "bold"))
    if document.subtitle:
        console.print(_make_line(document.subtitle))
    for section in document.flat_sections:
        if not section.is_page_only:
            print_section(console, section, quiet=quiet)
    if document.ending and not quiet:
        console.print(_make_line(document.ending, "dim"))


def print_section(console: Console, section: Section, *, quiet: bool = False) -> None:
    """Prints a section with its heading."""
    parts = [part for block in section.blocks for part in render_block(block, console, quiet=quiet)]
    if section.heading and parts:
        console.print()
        console.print(_make_line(section.heading, "bold"))
    for part in parts:
        if isinstance(part, Line) and part.no_wrap:
            console.print(part, highlight=False, crop=False, no_wrap=True, overflow="ignore")
        else:
            console.print(part, highlight=False, crop=False)


def render_block(block: Block, console: Console, *, quiet: bool = False) -> Iterator[RenderableType]:  # noqa: PLR0912
    """Renders one block as lines and tables of rich."""
    match block:
        case Text(text, tone):
            if not (quiet and tone is Tone.QUIET):
                lines = [_make_line(paragraph, STYLES[tone]) for paragraph in text.split("\n\n")]
                yield from (Padding(line, (0, 2)) if tone is Tone.GUARANTEE else line for line in lines)
        case Heading(text):
            yield _make_line(text, "bold")
        case Items(items):
            yield from (_hang(console, "-", "", item) for item in items)
        case Facts(caption, pairs):
            yield from _render_caption(caption)
            yield _build_facts(pairs)
        case DataTable():
            yield from _render_caption(block.caption)
            yield _build_table(block)
        case Tiles(tiles):
            for tile in tiles:
                yield Line.assemble((escape_unprintable(tile.number), "bold"), "  ", escape_unprintable(tile.meaning))
                if not quiet:
                    yield Padding(_make_line(tile.caveat, "dim"), (0, 2))
        case Alerts(alerts):
            yield from (part for alert in alerts for part in _render_alert(alert, console))
        case Checks(_, lines):
            for line in lines:
                if not (quiet and line.outcome is Outcome.PASSED):
                    yield _hang(console, *OUTCOMES[line.outcome], f"{line.name}: {line.detail}")
        case Decision():
            yield from (_make_line(sentence) for sentence in (block.sentence, *block.reasons))
        case EstimateBlock(table):
            yield _build_estimates(table, console.width)
            yield from (_make_line(note) for note in table.footnotes)
            yield from () if quiet else (_make_line(remark, "dim") for remark in table.remarks)


def _render_alert(alert: Alert, console: Console) -> Iterator[RenderableType]:
    """Renders advice with its grade, and the possible decisions below."""
    yield _hang(console, *GRADES[alert.grade], alert.sentence)
    yield from (_hang(console, " " * MARK_WIDTH, "", way) for way in alert.ways_out)


def _make_line(text: str, style: str = "") -> Line:
    return Line(escape_unprintable(text), style)


def _hang(console: Console, mark: str, style: str, text: str) -> RenderableType:
    """A mark with a text beside it, which is wrapped in a terminal and stays on one line in a file."""
    width = MARK_WIDTH if len(mark) > 1 else 1
    if not console.is_terminal:
        line = Line.assemble((mark.ljust(width), style), " ", escape_unprintable(text))
        line.no_wrap = True
        return line
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(Line(mark, style), _make_line(text))
    return grid


def _render_caption(caption: str) -> Iterator[RenderableType]:
    if caption:
        yield _make_line(caption)


def _build_facts(pairs: tuple[tuple[str, str], ...]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", max_width=LEAST_GROUP)
    grid.add_column(ratio=1, overflow="fold")
    for name, text in pairs:
        grid.add_row(_make_line(name), _make_line(text))
    return grid


def _build_table(block: DataTable) -> Table:
    table = Table(highlight=False)
    for place, heading in enumerate(block.headings):
        justify = "right" if place in block.number_columns else "left"
        table.add_column(_make_line(heading), justify=justify, overflow="fold")  # type: ignore[arg-type]
    most = min(block.max_screen_rows, block.max_rows)
    for row in block.rows[:most]:
        table.add_row(*(_make_line(cell) for cell, _ in zip_longest(row, block.headings, fillvalue="")))
    if (omitted_count := block.row_count - min(most, len(block.rows))) > 0:
        table.add_row(f"... {omitted_count:,} more")
    return table


# ---------------------------------------------------------------- estimates: one cell for each number, at any width


def _build_estimates(estimates: EstimateTable, width: int) -> Table:
    """A table with cells of one line if these fit, otherwise cells of two lines, otherwise a line for each number."""
    for separator in (" ", "\n"):
        texts = _format_cells(estimates.columns, separator)
        if _measure_table_width(estimates, texts) <= width:
            break
    else:
        if sum(bool(column.cells) for column in estimates.columns) > 1:
            return _build_long_table(estimates)
    table = Table(show_lines=separator == "\n")
    for column in estimates.columns:
        table.add_column(
            _make_line(column.heading),
            justify="right" if column.heading in estimates.adjusted_columns else "left",
            no_wrap=bool(column.cells),
            overflow="fold",
        )
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def _measure_table_width(estimates: EstimateTable, texts: list[list[Line]]) -> int:
    """The width of a table with these texts, with groups folded."""
    width = 1
    for column, cells in zip(estimates.columns, texts, strict=True):
        widest = max([cell_len(column.heading), *(cell_len(line) for cell in cells for line in cell.plain.split("\n"))])
        width += EDGES + (widest if column.cells else min(widest, LEAST_GROUP))
    return width


def _format_cells(columns: tuple[EstimateColumn, ...], separator: str) -> list[list[Line]]:
    """The cells of columns, with numbers aligned."""
    cell_texts = []
    for column in columns:
        marked_cells = zip(align_cells(column.cells), column.marks, strict=True)
        ends = [
            (escape_unprintable(middle), escape_unprintable(" ".join(filter(None, (interval, mark)))))
            for (middle, interval), mark in marked_cells
        ]
        numbers = [Line.assemble(middle, separator, (end, "dim")) if end else Line(middle) for middle, end in ends]
        cell_texts.append(numbers or [Line(escape_unprintable(text)) for text in column.texts])
    return cell_texts


def _build_long_table(estimates: EstimateTable) -> Table:
    """A table with a block for each row, and in it a line for each number and its name."""
    adjusted = estimates.adjusted_columns
    groups = [column for column in estimates.columns if not column.cells and column.heading not in adjusted]
    numbers = [column for column in estimates.columns if column not in groups]
    table = Table()
    for column in groups:
        table.add_column(_make_line(column.heading), overflow="fold")
    table.add_column("number", overflow="fold")
    table.add_column("estimate", no_wrap=True)
    long_rows = [(row, column) for row in range(estimates.row_count) for column in numbers]
    estimate_column = EstimateColumn(
        "estimate",
        cells=tuple(column.cells[row] if column.cells else NumberCell(column.texts[row]) for row, column in long_rows),
        marks=tuple(column.marks[row] if column.marks else "" for row, column in long_rows),
    )
    (texts,) = _format_cells((estimate_column,), " ")
    for (row, column), text in zip(long_rows, texts, strict=True):
        group_cells = [Line(escape_unprintable(group.texts[row]) if column is numbers[0] else "") for group in groups]
        table.add_row(*group_cells, _make_line(column.heading), text, end_section=column is numbers[-1])
    return table
