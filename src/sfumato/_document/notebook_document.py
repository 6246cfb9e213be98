"""Renders a document in a notebook cell, as self-contained and escaped HTML without scripts."""

from __future__ import annotations

from sfumato._document.document import Document, EstimateBlock, Picture, Text, Tone
from sfumato._document.html_document import fold, render_block, render_estimates
from sfumato._figures.figure import WIDTH, Figure
from sfumato._figures.figure_style import NOTEBOOK_STYLE
from sfumato._figures.svg import element, escape_markup

PRIVATE = "PRIVATE: for the data steward; pass on only the release itself"


def render_notebook(document: Document, *, ribbon: str = "") -> str:
    """Renders a document without its title. Private content has a ribbon above it."""
    label = ribbon or (PRIVATE if document.is_private else "")
    warning = element("p", escape_markup(label), class_="ribbon") if label else ""
    parts = []
    for section in document.flat_sections:
        if section.heading:
            parts.append(element("p", element("strong", escape_markup(section.heading))))
        parts += [_render_block(block) for block in section.blocks]
    return element("style", NOTEBOOK_STYLE) + element("div", warning, *parts, class_="sfumato cell")


def _render_block(block: object) -> str:
    match block:
        case Picture(draw, _, summary):
            return fold(summary, _render_figure(draw(WIDTH)))
        case Text(text, Tone.GUARANTEE):
            return element("p", escape_markup(text), class_="promise")
        case EstimateBlock():
            return render_estimates(block)
    return render_block(block)  # type: ignore[arg-type]


def _render_figure(figure: Figure) -> str:
    """Renders a figure, without the table of its numbers, because the page shows these beside it."""
    return element("figure", figure.svg, element("figcaption", escape_markup(figure.reading)), class_="sfumato")
