"""Draws rows with a name on the left, marks on a common scale, and numbers on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sfumato._figures.axes import Area, draw_omitted_count
from sfumato._figures.figure import EDGE, Head
from sfumato._figures.scales import Scale
from sfumato._figures.svg import draw_text, element, estimate_width

ROW = 22.0
MOST_ROWS = 40
STRONG = 0.87
"""Bold letters are wider, so the width of names is estimated for this share of the room."""
"""The most rows that are readable. The other rows, with the smallest numbers, appear only in the table."""

Item = TypeVar("Item")


def put_largest_first(rows: Sequence[Item], importance: Callable[[Item], float], limit: int = MOST_ROWS) -> list[Item]:
    """All rows. If there are too many to draw, the rows with the largest numbers come first, in their order."""
    if len(rows) <= limit:
        return list(rows)
    ranked = sorted(range(len(rows)), key=lambda index: (-importance(rows[index]), index))
    selected = set(ranked[:limit])
    return [rows[index] for index in sorted(selected)] + [
        row for index, row in enumerate(rows) if index not in selected
    ]


@dataclass(frozen=True)
class RowLayout:
    """The positions of rows, in groups with headings."""

    area: Area
    names: tuple[str, ...]
    groups: tuple[str, ...]
    """The group of each row. Empty without groups."""
    omitted_count: int
    width: float

    @classmethod
    def from_head(  # noqa: PLR0913 - the content of rows and its position
        cls,
        head: Head,
        width: float,
        names: Sequence[str],
        texts: Sequence[str],
        *,
        groups: Sequence[str] = (),
        total: int,
    ) -> RowLayout:
        """Makes a layout below a heading. Names and right-hand text each have at most a third of the width."""
        left = EDGE + min(max(map(estimate_width, names), default=0.0) + 10, width * 0.38)
        right = width - EDGE - min(max(map(estimate_width, texts), default=0.0) + 12, width * 0.36)
        lines = len(names) + len(dict.fromkeys(groups)) + (total > len(names))
        top = head.bottom + 12
        area = Area(left, top, max(right, left + 60), top + max(lines, 1) * ROW + 6)
        return cls(area, tuple(names), tuple(groups), total - len(names), width)

    @property
    def middles(self) -> list[float]:
        """The vertical position of each row."""
        heights, at = [], self.area.top + ROW / 2
        for number in range(len(self.names)):
            if self.groups and (not number or self.groups[number] != self.groups[number - 1]):
                at += ROW
            heights.append(at)
            at += ROW
        return heights

    def draw_frame(self, scale: Scale, formatter: Callable[[float], str], label: str) -> str:
        """Draws the scale, the names of rows and groups, and the number of omitted rows."""
        parts = [self.area.draw_x_axis(scale, formatter, label)]
        for number, (name, at) in enumerate(zip(self.names, self.middles, strict=True)):
            if self.groups and (not number or self.groups[number] != self.groups[number - 1]):
                room = STRONG * (self.width - 2 * EDGE)
                parts.append(draw_text(EDGE, at - ROW + 5, self.groups[number], "strong", room=room))
            parts.append(draw_text(self.area.left - 8, at + 4, name, "end", room=self.area.left - 8 - EDGE))
        if self.omitted_count:
            parts.append(draw_omitted_count(self.area.left + 4, self.area.bottom - 8, self.omitted_count))
        return "".join(parts)

    def draw_row_text(self, number: int, text: str) -> str:
        """Writes the numbers of a row at the right of the row."""
        start = self.area.right + 10
        return draw_text(start, self.middles[number] + 4, text, room=self.width - start, row=str(number))

    def draw_row_line(self, number: int, low: float, high: float, class_: str, title: str | None = None) -> str:
        """Draws a line along a row between two positions."""
        at = self.middles[number]
        return element("path", d=f"M{low:.1f} {at:.1f}H{high:.1f}", class_=class_, title=title)
