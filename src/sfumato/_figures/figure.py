"""A figure is a picture, a sentence about the picture, and a table with the numbers of both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato._figures.figure_style import NOTEBOOK_STYLE, STYLE
from sfumato._figures.svg import LARGE, SMALL, draw_text, element, escape_controls, escape_markup, wrap_text

WIDTH, NARROWEST = 760, 280
"""The usual width in pixels, and the smallest readable width."""
LINE, EDGE = 17.0, 4.0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers, with their format."""

    heading: str
    formatter: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True)
class FigureTable:
    """The numbers of a figure, for readers who cannot see it or want exact values."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def formatted_rows(self) -> list[tuple[str, ...]]:
        """The rows as text, formatted as in the picture."""
        return [
            tuple(escape_controls(column.formatter(cell)) for column, cell in zip(self.columns, row, strict=True))
            for row in self.rows
        ]

    def to_html(self) -> str:
        """Renders the table as HTML."""
        head = element("tr", *(element("th", escape_markup(column.heading), scope="col") for column in self.columns))
        lines = (element("tr", *(element("td", escape_markup(cell)) for cell in row)) for row in self.formatted_rows)
        return element("table", element("thead", head), element("tbody", *lines))


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture without scripts, with its message in one sentence and its numbers."""

    svg: str
    """The picture, for a page that includes `STYLE` once."""
    reading: str
    table: FigureTable

    def to_html(self) -> str:
        """Renders picture, sentence and table, for a page that includes `STYLE` once."""
        details = element("details", element("summary", "The numbers"), self.table.to_html())
        caption = element("figcaption", escape_markup(self.reading))
        return element("figure", self.svg, caption, details, class_="sfumato")

    def _repr_html_(self) -> str:
        """Renders picture, sentence and table, for a notebook."""
        return element("style", NOTEBOOK_STYLE) + self.to_html()

    def to_standalone_svg(self) -> str:
        """Renders the picture as a separate file, with light and dark colours."""
        style = element("style", STYLE, "svg.sfumato{color-scheme:light dark}")
        opening, rest = self.svg.split(">", 1)
        return f"{opening}>{style}{rest}"


@dataclass(frozen=True, slots=True)
class Head:
    """The heading of a figure, and the units of its numbers."""

    heading: str
    markup: str
    bottom: float

    @classmethod
    def of(cls, heading: str, captions: Sequence[str], width: float, top: float = 0.0) -> Head:
        """Makes the lines of the heading, wrapped to the width. A lower panel has no heading."""
        room, at, parts = width - 2 * EDGE, top + EDGE + 2, []
        for number, sentence in enumerate((heading, *captions)):
            if not sentence:
                continue
            size, kind = (LARGE, "heading") if not number else (SMALL, "quiet")
            for line in wrap_text(escape_controls(sentence), room, size * (1.05 if not number else 1)):
                at += LINE
                parts.append(draw_text(EDGE, at - 4, line, kind, room=room + 2 * EDGE))
        return cls(heading, "".join(parts), at + 6)


def limit_width(width: float) -> float:
    """Raises the width of a figure to the smallest readable width."""
    return max(float(width), NARROWEST)


def assemble_figure(  # noqa: PLR0913 - all parts of a figure
    head: Head,
    parts: Iterable[str],
    *,
    size: tuple[float, float],
    reading: str,
    columns: Sequence[Column],
    rows: Iterable[tuple[object, ...]],
    is_hatched: bool = False,
) -> Figure:
    """Assembles a figure. Its ids are digests of its content, so that figures on one page have different ids."""
    width, height = size
    body = head.markup + "".join(parts)
    key = "f" + hashlib.sha256(f"{width}{reading}{body}".encode()).hexdigest()[:10]
    ground = element("rect", width=width, height=height, class_="ground")
    pattern = ""
    if is_hatched:
        stripes = element("path", d="M0 6L6 0", class_="thin grey")
        pattern = element("defs", element("pattern", stripes, id=f"{key}h", width=6, height=6, patternUnits=USER_SPACE))
        body = body.replace(HATCHED, f"url(#{key}h)")
    svg = element(
        "svg",
        element("desc", escape_markup(reading), id=f"{key}d"),
        pattern,
        ground,
        body,
        xmlns="http://www.w3.org/2000/svg",
        class_="sfumato",
        viewBox=f"0 0 {width:g} {height:.0f}",
        width=width,
        height=round(height),
        role="img",
        aria_label=head.heading,
        aria_describedby=f"{key}d",
    )
    return Figure(svg, reading, FigureTable(tuple(columns), tuple(rows)))


USER_SPACE = "userSpaceOnUse"
HATCHED = "url(#hatched)"
"""A placeholder for the pattern's id until it is known."""
