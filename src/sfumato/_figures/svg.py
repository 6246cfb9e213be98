"""Builds elements of SVG and HTML. Only this module turns text from tables into markup, and escapes the text."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

from sfumato._terminal_safe import escape_unprintable

SMALL, LARGE = 12.0, 14.0
"""The letter sizes in pixels, readable on phones because figures are drawn at their displayed width."""
ELLIPSIS = "\u2026"

_FORBIDDEN = re.compile("[\ufffe\uffff]")
"""The characters that XML forbids, besides control characters and surrogates."""
_NARROW, _MIDDLE, _BROAD = frozenset("fijlI.,:;'|! "), frozenset('rt()[]-/"*'), frozenset("mwMW@%")
_WIDTHS = ((_NARROW, 0.34), (_MIDDLE, 0.46), (_BROAD, 0.98))


def escape_controls(text: str) -> str:
    """Escapes control and formatting characters, so that text cannot affect a terminal, page or picture."""
    return _FORBIDDEN.sub("\ufffd", escape_unprintable(text))


def escape_markup(text: str) -> str:
    """Escapes text for an element or a quoted attribute."""
    return html.escape(escape_controls(text))


def estimate_width(text: str, size: float = SMALL) -> float:
    """Estimates the width of a text. The estimate is rather too large, because fonts differ."""
    return size * sum(map(_estimate_letter_width, text))


@lru_cache(maxsize=1 << 12)  # the same few letters are measured often
def _estimate_letter_width(letter: str) -> float:
    for letters, width in _WIDTHS:
        if letter in letters:
            return width
    if unicodedata.combining(letter):
        return 0.0
    return 1.0 if ord(letter) > 0x2FF else 0.72 if letter.isupper() else 0.63  # noqa: PLR2004 - beyond Latin


def cut_text(text: str, room: float, size: float = SMALL) -> str:
    """Cuts text to the available room, with an ellipsis."""
    safe_text = escape_controls(text)
    if len(safe_text) * size <= room or estimate_width(safe_text[: int(room) + 1], size) <= room:
        return safe_text
    ends = list(accumulate(map(_estimate_letter_width, safe_text[: int(room)])))
    letter_count = bisect_right(ends, room, key=lambda end: size * (end + _estimate_letter_width(ELLIPSIS)))
    return safe_text[:letter_count].rstrip() + ELLIPSIS


def wrap_text(text: str, room: float, size: float = SMALL) -> list[str]:
    """Wraps a text of sfumato, not of a table, into lines that fit."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and estimate_width(longer, size) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def format_coordinate(number: float) -> str:
    """Formats a coordinate to a tenth of a pixel."""
    return f"{number:.1f}".removesuffix(".0").replace("-0.0", "0")


def element(name: str, *body: str, title: str | None = None, **attributes: str | float | None) -> str:
    """Builds an element around markup. `title` is its tooltip, and `data_row` becomes `data-row`."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{escape_markup(value) if isinstance(value, str) else format_coordinate(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(body) if title is None else f"<title>{escape_markup(title)}</title>{''.join(body)}"
    return f"<{name}{attribute_text}>{content}</{name}>" if content else f"<{name}{attribute_text}/>"


def draw_text(  # noqa: PLR0913 - a position, a text and its style
    x: float,
    y: float,
    content: str,
    class_: str = "",
    *,
    room: float | None = None,
    row: str | None = None,
    rotation: str | None = None,
) -> str:
    """Draws a line of text. A text that does not fit is cut and has a tooltip."""
    visible_text = escape_controls(content) if room is None else cut_text(content, room)
    full_text = content if visible_text != escape_controls(content) else None
    return element(
        "text",
        escape_markup(visible_text),
        title=full_text,
        x=x,
        y=y,
        class_=class_ or None,
        transform=rotation,
        data_row=row,
    )


def make_path_data(points: Iterable[tuple[float, float]]) -> str:
    """The path data of a line through points."""
    return "M" + "L".join(f"{format_coordinate(x)} {format_coordinate(y)}" for x, y in points)


SHAPES = ("circle", "square", "diamond", "triangle", "cross", "down", "hexagon", "saltire", "dash", "bar")
"""The shapes of marks, which distinguish lines without colour."""
_RADII = {"circle": 4, "ring": 8}


def draw_mark(  # noqa: PLR0913 - a shape, a position and a row
    shape: str, x: float, y: float, class_: str, *, title: str | None = None, row: str | None = None
) -> str:
    """Draws a mark."""
    if shape in _RADII:
        return element("circle", cx=x, cy=y, r=_RADII[shape], class_=class_, title=title, data_row=row)
    outline = {
        "square": "m-3.5-3.5h7v7h-7z",
        "diamond": "m0-5l5 5l-5 5l-5-5z",
        "triangle": "m0-4.5l4.5 8h-9z",
        "cross": "m-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
        "down": "m0 4.5l4.5-8h-9z",
        "hexagon": "m-2.5-4.3h5l2.5 4.3l-2.5 4.3h-5l-2.5-4.3z",
        "saltire": "m0-2l2.5-2.5l2 2l-2.5 2.5l2.5 2.5l-2 2l-2.5-2.5l-2.5 2.5l-2-2l2.5-2.5l-2.5-2.5l2-2z",
        "dash": "m-5-2h10v4h-10z",
        "bar": "m-2-5h4v10h-4z",
    }[shape]
    return element(
        "path", d=f"M{format_coordinate(x)} {format_coordinate(y)}{outline}", class_=class_, title=title, data_row=row
    )
