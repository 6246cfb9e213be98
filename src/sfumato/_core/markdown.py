"""Escapes untrusted text for Markdown, so that a name or a value appears unchanged and on one line.

A column name may contain a heading, a link, a code fence or a line break. Every text that a README takes from a table,
a request or a release is escaped here.
"""

from __future__ import annotations

import re

from sfumato._terminal_safe import escape_unprintable

_MARKS = re.compile(
    r"[\\`*_\[\]<>&~$|@#{}^=]"  # code, emphasis, links, HTML, entities, tables, formulas, and marks of dialects
    r"|:(?=\S)"  # addresses, and names of pictograms
    r"|(?<=www)\."
)
_LINE_START = re.compile(r"^([0-9]*)([+\-:]|(?<=[0-9])[.)](?=\s|$))")
"""The beginning of a heading or of a list item on a line."""


def escape_markdown(text: str) -> str:
    """Escapes a string, so that Markdown shows it unchanged and makes no link from it."""
    escaped = _MARKS.sub(r"\\\g<0>", escape_unprintable(text).strip(" "))
    return _LINE_START.sub(r"\1\\\2", escaped)


def format_as_code(text: str) -> str:
    """Formats a string as code. The enclosing backticks are more than the string has in a row."""
    safe_text = escape_unprintable(text) or " "
    fence = "`" * (1 + max(map(len, re.findall("`+", safe_text)), default=0))
    is_bare = not (safe_text.startswith("`") or safe_text.endswith("`"))
    is_stripped = safe_text.startswith(" ") and safe_text.endswith(" ") and safe_text.strip(" ") != ""
    return f"{fence}{safe_text}{fence}" if is_bare and not is_stripped else f"{fence} {safe_text} {fence}"
