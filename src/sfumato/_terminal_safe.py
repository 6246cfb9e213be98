"""Makes text safe to print: characters that control a terminal or are invisible are written as escapes.

Tables and releases come from other people. A column name or a value may contain a sequence that clears the screen, a
carriage return that overwrites a line, or a mark that reverses the order of letters.
"""

from __future__ import annotations

import json
import re

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls: escape sequences, line breaks, and one-byte beginnings of such sequences
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the order of letters around
    "\u2028\u2029"  # separators of lines
    "\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible
    "\ud800-\udfff]"  # halves of surrogate pairs, which cannot be sent to a terminal
)
"""The joiners U+200C and U+200D are invisible, but allowed: Persian and the languages of India need them."""


def escape_unprintable(text: str) -> str:
    r"""Replaces each unprintable character by its escape in Python, such as `\x1b` or `\u202e`."""
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def is_printable(text: str) -> bool:
    """Whether a text has no unprintable character."""
    return UNPRINTABLE.search(text) is None


def hide_passwords(text: str) -> str:
    """Removes what may be a password in an address. In doubt, removes too much rather than too little."""
    text = re.sub(r"(?i)([a-z][a-z0-9+.-]*:/{1,2}[^\s/@:]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    return re.sub(r"(?i)(pass(?:word|wd|phrase)?=)[^\s&'\"]+", r"\1***", text)


def escape_lines(text: str) -> str:
    """Escapes unprintable characters in a text that sfumato wrote. Keeps the line breaks of the text."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def escape_json(text: str) -> str:
    """Rewrites JSON with the same meaning and without unprintable characters, except line breaks between its parts."""
    lines = text.split("\n")
    return "\n".join(UNPRINTABLE.sub(lambda match: json.dumps(match[0])[1:-1], line) for line in lines)
