"""Clouds of points beside each other, each with the diagonal that its points would lie on if nothing were off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sfumato._figures.axes import MOST_LINES, Area, left_out, series
from sfumato._figures.figure import EDGE, WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.line_chart import Axis
from sfumato._figures.number_format import is_known, name, percent, quantity
from sfumato._figures.scales import Scale, linear
from sfumato._figures.svg import element, path, short, text, width_of

MOST_DOTS = 400
"""More dots of a cloud are one blot."""
NARROWEST_PANEL = 170.0
TITLE = 20.0


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points by a name: what is so, and what was found."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def known(self) -> list[tuple[float, float]]:
        """The points that can be drawn."""
        return [(x, y) for x, y in self.points if is_known(x) and is_known(y)]

    @property
    def apart(self) -> float | None:
        """How far the middle one of the points is from the diagonal, as a part of what is so."""
        parts = [abs(y - x) / x for x, y in self.known if x > 0]
        return median(parts) if parts else None


def scattered(  # noqa: PLR0913 - two axes, the clouds, and words for both
    heading: str, across: Axis, up: Axis, clouds: Sequence[Cloud], *, reading: str, width: float = WIDTH
) -> Figure:
    """A panel for each cloud, all on the same two scales; the reading is the caller's."""
    width = drawn_width(width)
    shown = [cloud for cloud in clouds if cloud.known][:MOST_LINES]
    most = max((len(cloud.known) for cloud in shown), default=0)
    measured = [f"{up.label}, against {across.label}", "dashed: where nothing is off"]
    if most > MOST_DOTS:
        measured.append(f"at most {MOST_DOTS} of {most:,} points of each are drawn")
    head = Head.of(heading, measured, width)
    ticks = [up.words(y) for cloud in shown for _, y in cloud.known]
    panels = _panels(len(shown), head.bottom + 12, width, max(map(width_of, ticks), default=0.0))
    parts = [_panel(number, cloud, shown, panels[number], (across, up)) for number, cloud in enumerate(shown)]
    if not shown:
        parts = [panels[0].nothing("nothing was measured")]
    parts.append(
        left_out(panels[0].left + 4, panels[0].bottom - 6, sum(bool(each.known) for each in clouds[MOST_LINES:]))
    )
    columns = (Column("series", name), Column("points", quantity), Column("typically off by", percent))
    rows = [(cloud.name, len(cloud.known), cloud.apart) for cloud in clouds if cloud.known]
    size = (width, panels[-1].bottom + 40)
    return finished(head, parts, size=size, reading=reading, columns=columns, rows=rows)


def _panels(number: int, top: float, width: float, ticks: float) -> list[Area]:
    """Where panels lie: as many beside each other as can be read, each with room for its ticks."""
    room = min(ticks + 10, width / 6)
    a_row = max(1, min(number, int((width - 2 * EDGE) // (NARROWEST_PANEL + room))))
    wide = (width - 2 * EDGE) / a_row
    tall = min(max(wide - room, 160.0), 300.0)
    found = []
    for place in range(max(number, 1)):
        left, line = EDGE + (place % a_row) * wide, place // a_row
        start = top + line * (tall + TITLE + 46) + TITLE
        found.append(Area(left + room, start, left + wide - 14, start + tall))
    return found


def _panel(number: int, cloud: Cloud, shown: Sequence[Cloud], area: Area, axes: tuple[Axis, Axis]) -> str:
    across, up = axes
    points = [point for each in shown for point in each.known]
    x = linear([each for each, _ in points], area.left, area.right)
    y = linear([each for _, each in points], area.bottom, area.top)
    parts = [area.across(x, across.words, across.label), area.up(y, up.words)]
    parts.append(element("path", d=_diagonal(x, y), class_="rule"))
    drawn = cloud.known[:: math.ceil(len(cloud.known) / MOST_DOTS)]
    dots = "".join(f"M{short(x(at))} {short(y(found))}h0" for at, found in drawn)
    parts.append(element("path", d=dots, class_=f"specks {series(number)}", data_row=str(number)))
    parts.append(
        text(area.left, area.top - 6, cloud.name, f"fill strong {series(number)}", room=area.right - area.left)
    )
    return "".join(parts)


def _diagonal(x: Scale, y: Scale) -> str:
    low, high = max(x.low, y.low), min(x.high, y.high)
    return path([(x(low), y(low)), (x(high), y(high))])
