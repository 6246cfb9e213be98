"""Text that may be printed: what steers a terminal, or hides in a line, is written as an escape.

A table and a release are written by others. A column name or a value of theirs may hold a sequence that clears the
screen, a carriage return that writes over a line, or a mark that turns the order of letters around.
"""

from __future__ import annotations

import json
import re

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls: escape sequences, line breaks, and one-byte beginnings of such sequences
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the order of letters around
    "\u2028\u2029"  # separators of lines
    "\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible
    "\ud800-\udfff]"  # halves of pairs, which no terminal can be sent
)
"""The joiners U+200C and U+200D are invisible too; Persian and the languages of India are written with them."""


def escape_unprintable(text: str) -> str:
    r"""The text with each such character written as Python writes it: `\x1b`, `\u202e`."""
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def is_printable(text: str) -> bool:
    """Whether a text has no such character."""
    return UNPRINTABLE.search(text) is None


def hide_passwords(text: str) -> str:
    """The text without what may be a password in an address: too much is taken out rather than too little."""
    text = re.sub(r"(?i)([a-z][a-z0-9+.-]*:/{1,2}[^\s/@:]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    return re.sub(r"(?i)(pass(?:word|wd|phrase)?=)[^\s&'\"]+", r"\1***", text)


def escape_lines(text: str) -> str:
    """The same for a text of our own that is broken into lines."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def escape_json(text: str) -> str:
    """JSON that means the same, and holds no such character besides the line breaks between its parts."""
    lines = text.split("\n")
    return "\n".join(UNPRINTABLE.sub(lambda match: json.dumps(match[0])[1:-1], line) for line in lines)
