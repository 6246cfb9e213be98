"""Renders a document as one printable, self-contained HTML file that makes no network requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from sfumato._document.document import (
    FIGURE_WIDTH,
    MOST_ROWS,
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
    Picture,
    Section,
    SideBySide,
    Text,
    Tiles,
    Tone,
)
from sfumato._document.estimate_table import EstimateColumn
from sfumato._document.html_markup import (
    NOTHING,
    PRIVATE,
    render_document,
    render_list,
    render_paragraph,
    render_text,
    shorten_text,
)
from sfumato._document.page_style import write_stylesheet
from sfumato._figures import FigureTable
from sfumato._figures.svg import element, escape_markup

NARROW_FIGURE = 320
"""The width of a figure on phones, where letters keep their size."""
BLANK = "\u00a0"
RESULTS = {Outcome.PASSED: "passed", Outcome.FAILED: "FAILED"}
ONE_SHEET = "8mm 14mm 11mm"
"""The paper margin of pages that fit on one sheet."""
MOST_BESIDE = 2
"""With up to this many numbers in a row, intervals stand beside the numbers. With more numbers, they stand below."""


def render_html(document: Document) -> str:
    """Renders the whole file."""
    mark = "PRIVATE: " if document.is_private else ""
    footer = f"{mark}{document.title}, by sfumato"
    style = write_stylesheet(footer, ONE_SHEET) if document.is_one_page else write_stylesheet(footer)
    ribbon = element("div", PRIVATE, class_="ribbon", role="note") if document.is_private else ""
    subtitle = render_paragraph(document.subtitle, "subtitle")
    is_marked = document.is_private and not document.is_one_page
    body = [
        ribbon,
        element("header", element("h1", escape_markup(document.title)), subtitle),
        # A single sheet has the mark `private` at the side, so its headings need no mark.
        element("main", *(_render_part(part, is_private=is_marked) for part in document.sections)),
        element("footer", render_paragraph(document.ending)) if document.ending else "",
    ]
    kinds = ("one" if document.is_one_page else None, "private" if document.is_private else None)
    return render_document(mark + document.title, style, body, css_classes=kinds)


def render_section(section: Section, *, is_private: bool = False) -> str:
    """Renders a section with its heading."""
    tag = element("span", "PRIVATE", class_="tag") if is_private else ""
    heading = element("h2", escape_markup(section.heading), tag) if section.heading else ""
    css_class = " ".join(
        name for name, applies in (("apart", section.has_page_break), ("sheet", section.is_sheet)) if applies
    )
    return element("section", heading, *map(render_block, section.blocks), class_=css_class or None)


def _render_part(part: Section | SideBySide, *, is_private: bool) -> str:
    if isinstance(part, Section):
        return render_section(part, is_private=is_private)
    sides = (
        element("div", *(render_section(section, is_private=is_private) for section in side))
        for side in (part.left, part.right)
    )
    return element("div", *sides, class_="columns")


def render_block(block: Block) -> str:  # noqa: PLR0911 - one line for each kind of block
    """Renders one block."""
    match block:
        case Text():
            return _render_text_block(block)
        case Heading(text):
            return element("h3", render_text(text))
        case Items(items):
            return render_list(items)
        case Facts():
            return _render_facts(block)
        case DataTable():
            return _render_table(block)
        case Tiles():
            return _render_tiles(block)
        case Picture():
            return _render_picture(block)
        case Alerts(alerts):
            return "".join(map(_render_alert, alerts))
        case Checks(caption, lines):
            rows = tuple((line.name, RESULTS[line.outcome], line.detail) for line in lines)
            return _render_table(DataTable(caption, ("check", "result", "detail"), rows))
        case Decision():
            return _render_decision(block)
        case EstimateBlock():
            return render_estimates(block)
    assert_never(block)


def _render_text_block(block: Text) -> str:
    match block.tone:
        case Tone.GUARANTEE:
            return element("div", *map(render_paragraph, block.text.split("\n\n")), class_="promise")
        case Tone.CODE:
            return element("p", element("code", render_text(block.text)))
        case Tone.STRONG:
            return element("p", element("strong", render_text(block.text)))
    return render_paragraph(block.text, block.tone if block.tone in (Tone.QUIET, Tone.ANSWER) else None)


def _render_alert(alert: Alert) -> str:
    label = element("strong", alert.grade.upper())
    return element(
        "div",
        element("p", label, " ", render_text(alert.sentence)),
        render_list(alert.ways_out),
        class_=f"alert {alert.grade}",
    )


def _render_facts(facts: Facts) -> str:
    lines = [element("tr", *_render_cells(pair, ())) for pair in facts.pairs]
    caption = element("caption", render_text(facts.caption)) if facts.caption else ""
    return element("table", caption, element("tbody", *lines), class_="data facts")


def _render_table(table: DataTable) -> str:
    """Renders a table with row names in the first column, and the number of omitted rows. A wide table scrolls."""
    head = element(
        "tr",
        *(
            element("th", render_text(heading), scope="col", class_=_find_alignment(place, table.number_columns))
            for place, heading in enumerate(table.headings)
        ),
    )
    lines = [element("tr", *_render_cells(row, table.number_columns)) for row in table.rows[: table.max_rows]]
    if (omitted_count := table.row_count - table.max_rows) > 0:
        rest = element("td", f"{omitted_count:,} more; the JSON output has all", colspan=str(len(table.headings)))
        lines.append(element("tr", rest, class_="more"))
    caption = element("caption", render_text(table.caption)) if table.caption else ""
    body = element("table", caption, element("thead", head), element("tbody", *lines), class_="data")
    label = shorten_text(table.caption) or None
    return element("div", body, class_="scroll", role="region" if label else None, aria_label=label, tabindex="0")


def _render_tiles(block: Tiles) -> str:
    tiles = (
        element(
            "div",
            element("strong", render_text(tile.number)),
            element("p", render_text(tile.meaning)),
            element("p", render_text(tile.caveat), class_="quiet"),
        )
        for tile in block.tiles
    )
    return element("div", *tiles, class_="tiles")


def _find_alignment(place: int, number_columns: Sequence[int]) -> str | None:
    return "number" if place in number_columns else None


def _render_cells(row: Iterable[str], number_columns: Sequence[int]) -> list[str]:
    first, *others = (render_text(cell) or NOTHING for cell in row)
    cells = (
        element("td", cell, class_=_find_alignment(place, number_columns)) for place, cell in enumerate(others, start=1)
    )
    return [element("th", first, scope="row"), *cells]


def _render_picture(picture: Picture) -> str:
    """Renders a figure for all widths, with its sentence and its numbers."""
    widest = picture.widest
    wide, narrow = picture.draw(widest), picture.draw(NARROW_FIGURE)
    numbers = FigureTable(wide.table.columns, wide.table.rows[:MOST_ROWS])
    headings = tuple(column.heading or "of" for column in numbers.columns)
    table = DataTable(
        "Data of this figure", headings, tuple(map(tuple, numbers.formatted_rows)), total=len(wide.table.rows)
    )
    figure = element(
        "figure",
        *([element("div", wide.svg, class_="wide")] if widest > NARROW_FIGURE else []),
        element("div", narrow.svg, class_="narrow" if widest > NARROW_FIGURE else None),
        element("figcaption", render_text(wide.reading)),
        element("details", element("summary", "Data"), _render_table(table)) if table.rows else "",
        class_="sfumato",
    )
    html = element("div", figure, class_="figure wider" if widest > FIGURE_WIDTH else "figure")
    return fold(picture.summary, html)


def fold(summary: str, html: str) -> str:
    """Hides markup under a label that the reader can open, if there is a label."""
    return element("details", element("summary", escape_markup(summary)), html) if summary else html


def _render_decision(decision: Decision) -> str:
    """Renders the decision box. The statements of a person fill the blank lines."""
    lines = (
        element("div", element("strong", render_text(content) or BLANK), element("span", render_text(label)))
        for label, content in decision.statements
    )
    blank = element("div", *lines, class_="blank")
    sentences = map(render_paragraph, (decision.sentence, *decision.reasons))
    return element("div", *sentences, blank, class_="decision")


def render_estimates(block: EstimateBlock) -> str:
    """Renders the rows of an answer. An interval stands beside or below its number."""
    table = block.table
    is_wide = sum(bool(column.cells) for column in table.columns) > MOST_BESIDE
    heads = [
        element("th", escape_markup(column.heading), scope="col", colspan="2" if column.cells and not is_wide else None)
        for column in table.columns
    ]
    columns = [_render_estimate_cells(column, is_wide=is_wide) for column in table.columns]
    rows = [element("tr", *parts) for parts in zip(*columns, strict=True)]
    html = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="numbers")
    more = (
        [f"The first {len(rows):,} of {block.total:,} rows; to_arrow() and to_pandas() return all."]
        if len(rows) < block.total
        else []
    )
    sentences = (*more, *table.footnotes, *table.remarks)
    return element("div", html, class_="scroll") + "".join(
        element("p", escape_markup(sentence), class_="quiet") for sentence in sentences
    )


def _render_estimate_cells(column: EstimateColumn, *, is_wide: bool) -> list[str]:
    if not column.cells:
        return [element("td", escape_markup(text)) for text in column.texts]
    row_cells = []
    for cell, mark in zip(column.cells, column.marks, strict=True):
        interval = escape_markup(" ".join(filter(None, (cell.interval, mark))))
        if is_wide:
            number = element("td", escape_markup(cell.value_with_error), element("span", interval, class_="interval"))
        else:
            number = element("td", escape_markup(cell.value_with_error), class_="number") + element(
                "td", interval, class_="interval"
            )
        row_cells.append(number)
    return row_cells
