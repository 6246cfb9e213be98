"""Draws the measured points of an experiment as lines, beside the points that a paper published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sfumato._figures.axes import Area, Curve, select_broken_dash
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_quantity, is_known
from sfumato._figures.scales import (
    Scale,
    make_linear_scale,
    make_log_scale,
    make_spanning_log_scale,
    make_spanning_scale,
)

NumberFormatter = Callable[[float], str]
Row = tuple[str, float, float]

TALLEST, CLOSEST = 360.0, 30.0
"""The height of a vertical axis and the distance of its ticks, in pixels."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis, with its title and the format of its numbers. An axis may be logarithmic."""

    label: str
    formatter: NumberFormatter = format_quantity
    is_logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """Points over the varied quantity. Published lines were read from a paper, and are dashed and hollow."""

    name: str
    points: tuple[tuple[float, float | None], ...]
    """None if nothing could be measured, so that the line has a gap."""
    is_published: bool = False
    hollow_points: tuple[float, ...] = ()
    """The hollow marks, for a reason that the panel states."""

    @property
    def known_points(self) -> list[tuple[float, float]]:
        """The points to draw, from left to right."""
        return sorted((x, y) for x, y in self.points if is_known(x) and y is not None and is_known(y))

    @property
    def breaks(self) -> frozenset[int]:
        """The points that follow a gap."""
        gaps = [x for x, y in self.points if is_known(x) and not is_known(y)]
        pairs = enumerate(pairwise(x for x, _ in self.known_points), start=1)
        return frozenset(place for place, (low, high) in pairs if any(low < gap < high for gap in gaps))


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over one axis of the varied quantity. Figures with several measures stack panels."""

    y_axis: Axis
    lines: Sequence[MeasuredLine]
    hollow_label: str = ""
    """The meaning of hollow marks, if a line has any."""

    @property
    def shown_lines(self) -> list[MeasuredLine]:
        """The lines with points."""
        return [line for line in self.lines if line.known_points]

    @property
    def rows(self) -> list[Row]:
        """The points of all lines."""
        return [(line.name, x, y) for line in self.shown_lines for x, y in line.known_points]

    @property
    def captions(self) -> list[str]:
        """The titles and the legend."""
        phrases = [self.y_axis.label]
        if any(line.is_published for line in self.shown_lines):
            phrases.append("dashed, hollow: as published")
        if any(line.hollow_points for line in self.shown_lines):
            phrases.append(f"hollow: {self.hollow_label}")
        return phrases

    def make_y_scale(self, bottom: float, top: float) -> Scale:
        """The scale of the measured quantity."""
        return (make_log_scale if self.y_axis.is_logarithmic else make_linear_scale)(
            [y for *_, y in self.rows], bottom, top
        )

    def draw(self, x_axis: Axis, area: Area, width: float, first_row: int) -> list[str]:
        """Draws axes and curves. The marks stand for table rows, from a given row on."""
        x_values = sorted({x for _, x, _ in self.rows})
        x_scale = (make_spanning_log_scale if x_axis.is_logarithmic else make_spanning_scale)(
            x_values, area.left + 8, area.right - 8
        )
        y_scale = self.make_y_scale(area.bottom, area.top)
        curves = []
        for number, line in enumerate(self.shown_lines):
            marks = [
                (x_scale(x), y_scale(y), f"{format_name(line.name)}: {x_axis.formatter(x)}, {self.y_axis.formatter(y)}")
                for x, y in line.known_points
            ]
            hollow_marks = [line.is_published or x in line.hollow_points for x, _ in line.known_points]
            dashes = select_broken_dash(number) if line.is_published else ""
            curves.append(Curve(line.name, marks, dashes, hollow_marks, line.breaks))
        parts = [
            area.draw_x_axis(x_scale, x_axis.formatter, x_axis.label, x_values),
            area.draw_y_axis(y_scale, self.y_axis.formatter),
        ]
        return [*parts, area.draw_curves(curves, width, "nothing was measured", first_row)]


def draw_lines(  # noqa: PLR0913 - two axes, lines and texts
    heading: str, x_axis: Axis, y_axis: Axis, lines: Sequence[MeasuredLine], *, reading: str, width: float = WIDTH
) -> Figure:
    """Draws a line for each series. The caller provides the sentence about the figure."""
    panel, width = Panel(y_axis, lines), limit_width(width)
    head = Head.of(heading, panel.captions, width)
    area = _make_area([panel], head, width)
    columns = (
        Column("series", format_name),
        Column(x_axis.label, x_axis.formatter),
        Column(y_axis.label, y_axis.formatter),
    )
    parts = panel.draw(x_axis, area, width, 0)
    return assemble_figure(
        head, parts, size=(width, area.figure_height), reading=reading, columns=columns, rows=panel.rows
    )


def draw_panels(heading: str, x_axis: Axis, panels: Sequence[Panel], *, reading: str, width: float = WIDTH) -> Figure:
    """Draws several measures in stacked panels over the varied quantity."""
    width = limit_width(width)
    heads: list[Head] = []
    parts: list[str] = []
    rows: list[tuple[str, str, float, str]] = []
    bottom = 0.0
    for panel in panels:
        heads.append(Head.of("" if heads else heading, panel.captions, width, bottom))
        area = _make_area(panels, heads[-1], width)
        parts += panel.draw(x_axis, area, width, len(rows))
        rows += [(panel.y_axis.label, series, x, panel.y_axis.formatter(y)) for series, x, y in panel.rows]
        bottom = area.figure_height
    parts += [head.markup for head in heads[1:]]  # the first heading is the figure's
    columns = (
        Column("measured"),
        Column("series", format_name),
        Column(x_axis.label, x_axis.formatter),
        Column("number"),
    )
    return assemble_figure(heads[0], parts, size=(width, bottom), reading=reading, columns=columns, rows=rows)


def _make_area(panels: Sequence[Panel], head: Head, width: float) -> Area:
    """An area with room for all line names and the longest tick labels, so that panels align."""
    ticks = [
        panel.y_axis.formatter(tick)
        for panel in panels
        for tick in panel.make_y_scale(TALLEST, 0.0).list_ticks(CLOSEST)
    ]
    return Area.from_head(head, width, names=[line.name for panel in panels for line in panel.shown_lines], ticks=ticks)
