"""Clouds of points beside each other, each with the diagonal that its points would lie on if nothing were off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sfumato._figures.axes import MOST_LINES, Area, draw_omitted_count, select_series_class
from sfumato._figures.figure import EDGE, WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.line_chart import Axis
from sfumato._figures.number_format import format_name, format_percent, format_quantity, is_known
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
    def known_points(self) -> list[tuple[float, float]]:
        """The points that can be drawn."""
        return [(x, y) for x, y in self.points if is_known(x) and is_known(y)]

    @property
    def median_deviation(self) -> float | None:
        """How far the middle one of the points is from the diagonal, as a part of what is so."""
        parts = [abs(y - x) / x for x, y in self.known_points if x > 0]
        return median(parts) if parts else None


def draw_scatter(  # noqa: PLR0913 - two axes, the clouds, and words for both
    heading: str, x_axis: Axis, y_axis: Axis, clouds: Sequence[Cloud], *, reading: str, width: float = WIDTH
) -> Figure:
    """A panel for each cloud, all on the same two scales; the reading is the caller's."""
    width = limit_width(width)
    shown_clouds = [cloud for cloud in clouds if cloud.known_points][:MOST_LINES]
    most_points = max((len(cloud.known_points) for cloud in shown_clouds), default=0)
    captions = [f"{y_axis.label}, against {x_axis.label}", "dashed: where nothing is off"]
    if most_points > MOST_DOTS:
        captions.append(f"at most {MOST_DOTS} of {most_points:,} points of each are drawn")
    head = Head.of(heading, captions, width)
    ticks = [y_axis.formatter(y) for cloud in shown_clouds for _, y in cloud.known_points]
    panels = _place_panels(len(shown_clouds), head.bottom + 12, width, max(map(estimate_width, ticks), default=0.0))
    parts = [
        _draw_panel(number, cloud, shown_clouds, panels[number], (x_axis, y_axis))
        for number, cloud in enumerate(shown_clouds)
    ]
    if not shown_clouds:
        parts = [panels[0].draw_empty_note("nothing was measured")]
    parts.append(
        draw_omitted_count(
            panels[0].left + 4, panels[0].bottom - 6, sum(bool(cloud.known_points) for cloud in clouds[MOST_LINES:])
        )
    )
    columns = (
        Column("series", format_name),
        Column("points", format_quantity),
        Column("typically off by", format_percent),
    )
    rows = [(cloud.name, len(cloud.known_points), cloud.median_deviation) for cloud in clouds if cloud.known_points]
    size = (width, panels[-1].bottom + 40)
    return assemble_figure(head, parts, size=size, reading=reading, columns=columns, rows=rows)


def _place_panels(number: int, top: float, width: float, ticks: float) -> list[Area]:
    """Where panels lie: as many beside each other as can be read, each with room for its ticks."""
    room = min(ticks + 10, width / 6)
    panels_per_row = max(1, min(number, int((width - 2 * EDGE) // (NARROWEST_PANEL + room))))
    panel_width = (width - 2 * EDGE) / panels_per_row
    panel_height = min(max(panel_width - room, 160.0), 300.0)
    areas = []
    for place in range(max(number, 1)):
        left, line = EDGE + (place % panels_per_row) * panel_width, place // panels_per_row
        start = top + line * (panel_height + TITLE + 46) + TITLE
        areas.append(Area(left + room, start, left + panel_width - 14, start + panel_height))
    return areas


def _draw_panel(number: int, cloud: Cloud, clouds: Sequence[Cloud], area: Area, axes: tuple[Axis, Axis]) -> str:
    x_axis, y_axis = axes
    points = [point for value in clouds for point in value.known_points]
    x = make_linear_scale([value for value, _ in points], area.left, area.right)
    y = make_linear_scale([value for _, value in points], area.bottom, area.top)
    parts = [area.draw_x_axis(x, x_axis.formatter, x_axis.label), area.draw_y_axis(y, y_axis.formatter)]
    parts.append(element("path", d=_draw_diagonal(x, y), class_="rule"))
    drawn_points = cloud.known_points[:: math.ceil(len(cloud.known_points) / MOST_DOTS)]
    dots = "".join(f"M{format_coordinate(x(at))} {format_coordinate(y(height))}h0" for at, height in drawn_points)
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
