"""Markdown as readers see it, by a parser: what it is made of, and its text."""

from __future__ import annotations

from collections import Counter

from markdown_it import MarkdownIt
from markdown_it.token import Token

TEXT = frozenset({"text", "text_special", "inline", "code_inline", "paragraph_open", "paragraph_close"})
"""What only shows text."""


def tokens(text: str) -> list[Token]:
    """All parts of a text, with tables and struck words as GitHub has them."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return [part for block in parser.parse(text) for part in (block, *(block.children or ()))]


def marks(text: str) -> Counter[str]:
    """How often a text has each thing that is more than text: headings, lists, links, tables, HTML, code blocks."""
    return Counter(token.type for token in tokens(text) if token.type not in TEXT)


def rendered(text: str) -> str:
    """The text that a reader sees, a line for each paragraph."""
    blocks = [token.children or () for token in tokens(text) if token.type == "inline"]
    return "\n".join("".join(part.content or " " for part in block) for block in blocks)


def codes(text: str) -> list[str]:
    """What is shown as code within lines."""
    return [token.content for token in tokens(text) if token.type == "code_inline"]
