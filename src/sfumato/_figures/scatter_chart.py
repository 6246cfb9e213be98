"""Clouds of points beside each other, each with the diagonal that its points would lie on if nothing were off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sfumato._figures.axes import MOST_LINES, Area, draw_omitted_count, select_series_class
from sfumato._figures.figure import EDGE, WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.line_chart import Axis
from sfumato._figures.number_format import format_percent, format_quantity, is_known, name
from sfumato._figures.scales import Scale, make_linear_scale
from sfumato._figures.svg import draw_text, element, estimate_width, format_coordinate, make_path_data

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


def draw_scatter(  # noqa: PLR0913 - two axes, the clouds, and words for both
    heading: str, across: Axis, up: Axis, clouds: Sequence[Cloud], *, reading: str, width: float = WIDTH
) -> Figure:
    """A panel for each cloud, all on the same two scales; the reading is the caller's."""
    width = limit_width(width)
    shown = [cloud for cloud in clouds if cloud.known][:MOST_LINES]
    most = max((len(cloud.known) for cloud in shown), default=0)
    measured = [f"{up.label}, against {across.label}", "dashed: where nothing is off"]
    if most > MOST_DOTS:
        measured.append(f"at most {MOST_DOTS} of {most:,} points of each are drawn")
    head = Head.of(heading, measured, width)
    ticks = [up.words(y) for cloud in shown for _, y in cloud.known]
    panels = _place_panels(len(shown), head.bottom + 12, width, max(map(estimate_width, ticks), default=0.0))
    parts = [_draw_panel(number, cloud, shown, panels[number], (across, up)) for number, cloud in enumerate(shown)]
    if not shown:
        parts = [panels[0].nothing("nothing was measured")]
    parts.append(
        draw_omitted_count(
            panels[0].left + 4, panels[0].bottom - 6, sum(bool(cloud.known) for cloud in clouds[MOST_LINES:])
        )
    )
    columns = (Column("series", name), Column("points", format_quantity), Column("typically off by", format_percent))
    rows = [(cloud.name, len(cloud.known), cloud.apart) for cloud in clouds if cloud.known]
    size = (width, panels[-1].bottom + 40)
    return assemble_figure(head, parts, size=size, reading=reading, columns=columns, rows=rows)


def _place_panels(number: int, top: float, width: float, ticks: float) -> list[Area]:
    """Where panels lie: as many beside each other as can be read, each with room for its ticks."""
    room = min(ticks + 10, width / 6)
    a_row = max(1, min(number, int((width - 2 * EDGE) // (NARROWEST_PANEL + room))))
    wide = (width - 2 * EDGE) / a_row
    tall = min(max(wide - room, 160.0), 300.0)
    areas = []
    for place in range(max(number, 1)):
        left, line = EDGE + (place % a_row) * wide, place // a_row
        start = top + line * (tall + TITLE + 46) + TITLE
        areas.append(Area(left + room, start, left + wide - 14, start + tall))
    return areas


def _draw_panel(number: int, cloud: Cloud, shown: Sequence[Cloud], area: Area, axes: tuple[Axis, Axis]) -> str:
    across, up = axes
    points = [point for value in shown for point in value.known]
    x = make_linear_scale([value for value, _ in points], area.left, area.right)
    y = make_linear_scale([value for _, value in points], area.bottom, area.top)
    parts = [area.across(x, across.words, across.label), area.up(y, up.words)]
    parts.append(element("path", d=_draw_diagonal(x, y), class_="rule"))
    drawn = cloud.known[:: math.ceil(len(cloud.known) / MOST_DOTS)]
    dots = "".join(f"M{format_coordinate(x(at))} {format_coordinate(y(height))}h0" for at, height in drawn)
    parts.append(element("path", d=dots, class_=f"specks {select_series_class(number)}", data_row=str(number)))
    parts.append(
        draw_text(
            area.left,
            area.top - 6,
            cloud.name,
            f"fill strong {select_series_class(number)}",
            room=area.right - area.left,
        )
    )
    return "".join(parts)


def _draw_diagonal(x: Scale, y: Scale) -> str:
    low, high = max(x.low, y.low), min(x.high, y.high)
    return make_path_data([(x(low), y(low)), (x(high), y(high))])
