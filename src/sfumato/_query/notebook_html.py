"""Renders answers and releases for a notebook: self-contained, escaped HTML without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sfumato._figures.figure import Figure
from sfumato._figures.figure_style import NOTEBOOK_STYLE
from sfumato._figures.forest_plot import draw_forest_plot, make_answer_rows
from sfumato._figures.svg import element, escape_markup
from sfumato._query.answer_layout import AnswerColumn, AnswerTable
from sfumato._query.intervals import DEFAULT_LEVEL

if TYPE_CHECKING:  # these classes use this module to show themselves
    from sfumato._query.answer import Answer
    from sfumato._query.estimate import Estimate, Estimates
    from sfumato._query.release import Release

MOST_BESIDE = 2
"""The largest number of numbers with intervals beside them; for more, intervals stand below."""
MOST_ROWS = 40
"""The largest number of rows shown; other tools show all."""


def frame_parts(*parts: str, ribbon: str = "") -> str:
    """Joins the parts of a notebook cell, under a ribbon for content that is not public."""
    warning = element("p", escape_markup(ribbon), class_="ribbon") if ribbon else ""
    return element("style", NOTEBOOK_STYLE) + element("div", warning, *parts, class_="sfumato cell")


def render_paragraphs(lines: Iterable[str], class_: str | None = None) -> str:
    """Renders each line as a paragraph."""
    return "".join(element("p", escape_markup(line), class_=class_) for line in lines)


def render_picture(figure: Figure) -> str:
    """Renders a figure whose numbers also stand beside it."""
    return element("figure", figure.svg, element("figcaption", escape_markup(figure.reading)), class_="sfumato")


def render_plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Renders a table of strings."""
    head = element("tr", *(element("th", escape_markup(text), scope="col") for text in headings))
    lines = [element("tr", *(element("td", escape_markup(text)) for text in row)) for row in rows]
    return element("table", element("thead", head), element("tbody", *lines), class_="numbers")


def render_answer(answer: Answer, level: float = DEFAULT_LEVEL) -> str:
    """Renders an answer: its table, and a figure for its number, or a foldable figure for each of several."""
    answer_table = AnswerTable.of(answer, level, MOST_ROWS)
    plotted_names = [
        name for name in answer.numbers if len(answer.rows) > 1 and any(row[name].has_interval for row in answer.rows)
    ]
    pictures = [render_picture(answer.plot(name, level)) for name in plotted_names]
    if len(pictures) > 1:
        pairs = zip(plotted_names, pictures, strict=True)
        pictures = [
            element("details", element("summary", f"Picture of {escape_markup(name)}"), picture_html)
            for name, picture_html in pairs
        ]
    return frame_parts(
        _render_answer_table(answer_table, len(answer.rows)),
        render_paragraphs([answer.note] if answer.note else []),
        *pictures,
    )


def render_estimate(estimate: Estimate) -> str:
    """Renders one number."""
    from sfumato._query.answer import Answer  # noqa: PLC0415 - it knows how an estimate looks

    return render_answer(
        Answer(("n",), ("n",), ({"n": estimate},), estimate.method, estimate.assumption, counted_unit="")
    )


def render_estimates(estimates: Estimates) -> str:
    """Renders the first of many numbers and a figure of them."""
    from sfumato._query.answer import Answer  # noqa: PLC0415 - it knows how an estimate looks

    first = list(islice(estimates, MOST_ROWS))
    rows = tuple({"query": number, "n": estimate} for number, estimate in enumerate(first))
    answer = Answer(("query", "n"), ("n",), rows, estimates.method, estimates.assumption, counted_unit="")
    answer_table = AnswerTable.of(answer, DEFAULT_LEVEL)
    figure = draw_forest_plot(make_answer_rows(map(str, range(len(first))), first))
    return frame_parts(_render_answer_table(answer_table, len(estimates)), render_picture(figure) if rows else "")


def render_release(release: Release) -> str:
    """Renders a release with its guarantee."""
    manifest = release.manifest
    head = f"{release.rows:,} records, mechanism {manifest.mechanism_name}"
    test_warning = render_paragraphs(["UNFIT TO PUBLISH: drawn with a test key."], "ribbon") if manifest.is_test else ""
    estimator_lines = [f"Estimators: {', '.join(release.methods)}."] if len(release.methods) > 1 else []
    return "".join(
        [
            test_warning,
            *(
                element("p", element("strong", escape_markup(title)))
                for title in filter(None, [manifest.description.title])
            ),
            element("p", element("strong", escape_markup(head))),
            render_plain_table(("column", "type", "role"), release.columns),
            render_paragraphs([release.promise], "promise"),
            render_paragraphs([*estimator_lines, *filter(None, [manifest.proposal])], "quiet"),
        ]
    )


def _render_answer_table(answer_table: AnswerTable, total: int) -> str:
    is_wide = sum(bool(column.cells) for column in answer_table.columns) > MOST_BESIDE
    heads = [
        element("th", escape_markup(column.heading), scope="col", colspan="2" if column.cells and not is_wide else None)
        for column in answer_table.columns
    ]
    columns = [_render_column_cells(column, is_wide) for column in answer_table.columns]
    rows = [element("tr", *parts) for parts in zip(*columns, strict=True)]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="numbers")
    row_count = len(rows)
    more = (
        [f"The first {row_count:,} of {total:,} rows; to_arrow() and to_pandas() return all."]
        if row_count < total
        else []
    )
    return element("div", table, class_="scroll") + render_paragraphs(
        [*more, *answer_table.footnotes, *answer_table.remarks], "quiet"
    )


def _render_column_cells(column: AnswerColumn, is_wide: bool) -> list[str]:
    """The cells of a column for each row; an interval stands beside its number or below it."""
    if not column.cells:
        return [element("td", escape_markup(text)) for text in column.texts]
    row_cells = []
    for cell, mark in zip(column.cells, column.marks, strict=True):
        ends = escape_markup(" ".join(filter(None, (cell.interval, mark))))
        if is_wide:
            row_cells.append(
                element("td", escape_markup(cell.value_with_error), element("span", ends, class_="interval"))
            )
        else:
            row_cells.append(
                element("td", escape_markup(cell.value_with_error), class_="number")
                + element("td", ends, class_="interval")
            )
    return row_cells
