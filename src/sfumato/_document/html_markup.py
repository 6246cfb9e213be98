"""Builds the parts of a page as markup. All text is truncated and escaped here.

A page's policy forbids external links, pictures and scripts, even if a name in a table contains one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence

from sfumato._figures.svg import ELLIPSIS, element, escape_controls, escape_markup

LONGEST_WORD, LONGEST_TEXT = 60, 3000
PRIVATE = "PRIVATE: for the data steward only; do not pass this page on"
NOTHING = "\u2013"
"""The text of a table cell that has no number."""


def shorten_text(text: str, max_length: int = LONGEST_TEXT) -> str:
    """Truncates overlong words, and an overlong text."""
    cut_text = re.sub(
        rf"\S{{{LONGEST_WORD + 1},}}", lambda word: word[0][: LONGEST_WORD - 1] + ELLIPSIS, escape_controls(text)
    )
    return cut_text if len(cut_text) <= max_length else cut_text[: max_length - 1] + ELLIPSIS


def render_text(text: str, max_length: int = LONGEST_TEXT) -> str:
    """Truncates and escapes a text as markup."""
    return escape_markup(shorten_text(text, max_length))


def shorten_name(name: str) -> str:
    """Truncates a name or value from a table; the result is plain text, to be escaped later."""
    return shorten_text(name, LONGEST_WORD)


def render_paragraph(text: str, class_: str | None = None) -> str:
    """Renders a paragraph."""
    return element("p", render_text(text), class_=class_)


def render_list(items: Iterable[str]) -> str:
    """Renders a list of sentences."""
    lines = [element("li", render_text(item)) for item in items]
    return element("ul", *lines) if lines else ""


def render_document(
    title: str,
    style: str,
    body: Sequence[str],
    *,
    script: str = "",
    css_classes: tuple[str | None, str | None] = (None, None),
) -> str:
    """Renders one file whose policy allows its own style and script, and nothing external.

    The CSS classes are those of the document and of its body.
    """
    allowed_sources = f"style-src '{_digest(style)}'" + (f"; script-src '{_digest(script)}'" if script else "")
    policy = f"default-src 'none'; {allowed_sources}; base-uri 'none'; form-action 'none'"
    meta_tags = {"viewport": "width=device-width, initial-scale=1", "referrer": "no-referrer", "robots": "noindex"}
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        *(f'<meta name="{name}" content="{content}">' for name, content in meta_tags.items()),
        element("title", escape_markup(title)),
        f"<style>{style}</style>",
    ]
    ending = [f"<script>{script}</script>"] if script else []
    whole = [element("head", *head), element("body", *body, *ending, class_=css_classes[1])]
    return f"<!doctype html>\n{element('html', *whole, lang='en', class_=css_classes[0])}\n"


def _digest(text: str) -> str:
    """The digest by which a policy allows a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
