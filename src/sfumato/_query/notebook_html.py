"""How answers and releases look in a notebook: HTML that needs nothing else, without a script, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sfumato._figures.answer_intervals import answer_rows, forest
from sfumato._figures.figure import Figure
from sfumato._figures.figure_style import NOTEBOOK_STYLE
from sfumato._figures.svg import element, escaped
from sfumato._query.answer_table import Sheet, SheetColumn
from sfumato._query.intervals import DEFAULT_LEVEL

if TYPE_CHECKING:  # they show themselves by what is here
    from sfumato._query.answer import Answer
    from sfumato._query.estimate import Estimate, Estimates
    from sfumato._query.release import Release

MOST_BESIDE = 2
"""Of more numbers, intervals stand below."""
MOST_ROWS = 40
"""More rows are not read; other tools show them all."""


def framed(*parts: str, ribbon: str = "") -> str:
    """Parts of a cell of a notebook, under a ribbon if they are not for everybody."""
    warned = element("p", escaped(ribbon), class_="ribbon") if ribbon else ""
    return element("style", NOTEBOOK_STYLE) + element("div", warned, *parts, class_="sfumato cell")


def paragraphs(lines: Iterable[str], class_: str | None = None) -> str:
    """Each line as a paragraph."""
    return "".join(element("p", escaped(line), class_=class_) for line in lines)


def picture(figure: Figure) -> str:
    """A figure whose numbers stand beside it anyway."""
    return element("figure", figure.svg, element("figcaption", escaped(figure.reading)), class_="sfumato")


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    head = element("tr", *(element("th", escaped(each), scope="col") for each in headings))
    lines = [element("tr", *(element("td", escaped(each)) for each in row)) for row in rows]
    return element("table", element("thead", head), element("tbody", *lines), class_="numbers")


def answer_html(answer: Answer, level: float = DEFAULT_LEVEL) -> str:
    """The sheet of an answer; a picture of its number, or one to open for each of several."""
    sheet = Sheet.of(answer, level, MOST_ROWS)
    drawn = [
        name for name in answer.numbers if len(answer.rows) > 1 and any(row[name].has_interval for row in answer.rows)
    ]
    pictures = [picture(answer.plot(name, level)) for name in drawn]
    if len(pictures) > 1:
        pairs = zip(drawn, pictures, strict=True)
        pictures = [element("details", element("summary", f"Picture of {escaped(name)}"), each) for name, each in pairs]
    return framed(_sheet_html(sheet, len(answer.rows)), paragraphs([answer.note] if answer.note else []), *pictures)


def estimate_html(found: Estimate) -> str:
    """One number."""
    from sfumato._query.answer import Answer  # noqa: PLC0415 - it knows how an estimate looks

    return answer_html(Answer(("n",), ("n",), ({"n": found},), found.method, found.assumption, counted=""))


def estimates_html(found: Estimates) -> str:
    """The first of many numbers, and a picture of them."""
    from sfumato._query.answer import Answer  # noqa: PLC0415 - it knows how an estimate looks

    first = list(islice(found, MOST_ROWS))
    rows = tuple({"query": number, "n": each} for number, each in enumerate(first))
    shown = Answer(("query", "n"), ("n",), rows, found.method, found.assumption, counted="")
    sheet = Sheet.of(shown, DEFAULT_LEVEL)
    drawn = forest(answer_rows(map(str, range(len(first))), first))
    return framed(_sheet_html(sheet, len(found)), picture(drawn) if rows else "")


def release_parts(release: Release) -> str:
    """What a release is and what it promises."""
    manifest = release.manifest
    head = f"{release.rows:,} records, mechanism {manifest.mechanism_name}"
    unfit = paragraphs(["UNFIT TO PUBLISH: drawn with a test key."], "ribbon") if manifest.is_test else ""
    asked = [f"Estimators: {', '.join(release.methods)}."] if len(release.methods) > 1 else []
    return "".join(
        [
            unfit,
            *(element("p", element("strong", escaped(title))) for title in filter(None, [manifest.about.title])),
            element("p", element("strong", escaped(head))),
            plain_table(("column", "type", "role"), release.columns),
            paragraphs([release.promise], "promise"),
            paragraphs([*asked, *filter(None, [manifest.proposal])], "quiet"),
        ]
    )


def _sheet_html(sheet: Sheet, total: int) -> str:
    is_wide = sum(bool(each.cells) for each in sheet.columns) > MOST_BESIDE
    heads = [
        element("th", escaped(each.heading), scope="col", colspan="2" if each.cells and not is_wide else None)
        for each in sheet.columns
    ]
    columns = [_column_cells(each, is_wide) for each in sheet.columns]
    rows = [element("tr", *parts) for parts in zip(*columns, strict=True)]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="numbers")
    shown = len(rows)
    more = [f"The first {shown:,} of {total:,} rows; to_arrow() and to_pandas() have all."] if shown < total else []
    return element("div", table, class_="scroll") + paragraphs([*more, *sheet.footnotes, *sheet.remarks], "quiet")


def _column_cells(column: SheetColumn, is_wide: bool) -> list[str]:
    """For each row the cells of a column of the sheet; an interval stands beside its number, or below it."""
    if not column.cells:
        return [element("td", escaped(text)) for text in column.texts]
    found = []
    for cell, mark in zip(column.cells, column.marks, strict=True):
        ends = escaped(" ".join(filter(None, (cell.interval, mark))))
        if is_wide:
            found.append(element("td", escaped(cell.middle), element("span", ends, class_="interval")))
        else:
            found.append(element("td", escaped(cell.middle), class_="number") + element("td", ends, class_="interval"))
    return found
