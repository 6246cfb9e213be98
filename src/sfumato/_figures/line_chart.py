"""Lines through measured points, the published ones beside ours: what an experiment gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sfumato._figures.axes import Area, Curve, select_broken_dash
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_quantity, is_known, name
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
"""Pixels of an upright axis, and between two of its ticks."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis measures, how its numbers are read, and whether it is one of powers of ten."""

    label: str
    words: NumberFormatter = format_quantity
    is_logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """Points by what was varied. Published lines are dashed and hollow: they were read, not measured."""

    name: str
    points: tuple[tuple[float, float | None], ...]
    """None where nothing could be measured: the line has a gap there."""
    is_published: bool = False
    singled_out: tuple[float, ...] = ()
    """Where its marks are hollow, for a reason that the panel gives."""

    @property
    def known(self) -> list[tuple[float, float]]:
        """The points that can be drawn, from left to right."""
        return sorted((x, y) for x, y in self.points if is_known(x) and y is not None and is_known(y))

    @property
    def breaks(self) -> frozenset[int]:
        """Which of them come after a gap."""
        gaps = [x for x, y in self.points if is_known(x) and not is_known(y)]
        pairs = enumerate(pairwise(x for x, _ in self.known), start=1)
        return frozenset(place for place, (low, high) in pairs if any(low < gap < high for gap in gaps))


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over one axis of what was varied; figures that measure several things have one above the other."""

    up: Axis
    lines: Sequence[MeasuredLine]
    hollow: str = ""
    """What hollow marks are, where a line singles points out."""

    @property
    def shown(self) -> list[MeasuredLine]:
        """The lines that have points."""
        return [line for line in self.lines if line.known]

    @property
    def rows(self) -> list[Row]:
        """The points of all lines."""
        return [(line.name, x, y) for line in self.shown for x, y in line.known]

    @property
    def measured(self) -> list[str]:
        """What is drawn, and how."""
        phrases = [self.up.label]
        if any(line.is_published for line in self.shown):
            phrases.append("dashed, hollow: as published")
        if any(line.singled_out for line in self.shown):
            phrases.append(f"hollow: {self.hollow}")
        return phrases

    def upright(self, bottom: float, top: float) -> Scale:
        """The scale of what was measured."""
        return (make_log_scale if self.up.is_logarithmic else make_linear_scale)(
            [y for *_, y in self.rows], bottom, top
        )

    def drawn(self, across: Axis, area: Area, width: float, first_row: int) -> list[str]:
        """Axes and curves; marks are rows of the table from some row on."""
        varied = sorted({x for _, x, _ in self.rows})
        x_scale = (make_spanning_log_scale if across.is_logarithmic else make_spanning_scale)(
            varied, area.left + 8, area.right - 8
        )
        y_scale = self.upright(area.bottom, area.top)
        curves = []
        for number, line in enumerate(self.shown):
            marks = [
                (x_scale(x), y_scale(y), f"{name(line.name)}: {across.words(x)}, {self.up.words(y)}")
                for x, y in line.known
            ]
            hollow = [line.is_published or x in line.singled_out for x, _ in line.known]
            dashes = select_broken_dash(number) if line.is_published else ""
            curves.append(Curve(line.name, marks, dashes, hollow, line.breaks))
        parts = [area.across(x_scale, across.words, across.label, varied), area.up(y_scale, self.up.words)]
        return [*parts, area.curves(curves, width, "nothing was measured", first_row)]


def draw_lines(  # noqa: PLR0913 - two axes, the lines, and words for both
    heading: str, across: Axis, up: Axis, lines: Sequence[MeasuredLine], *, reading: str, width: float = WIDTH
) -> Figure:
    """A line for each series; the reading is the caller's, who knows what the experiment is about."""
    panel, width = Panel(up, lines), limit_width(width)
    head = Head.of(heading, panel.measured, width)
    area = _make_area([panel], head, width)
    columns = (Column("series", name), Column(across.label, across.words), Column(up.label, up.words))
    parts = panel.drawn(across, area, width, 0)
    return assemble_figure(head, parts, size=(width, area.height), reading=reading, columns=columns, rows=panel.rows)


def draw_panels(heading: str, across: Axis, panels: Sequence[Panel], *, reading: str, width: float = WIDTH) -> Figure:
    """The same for several measures, one above the other, by what was varied."""
    width = limit_width(width)
    heads: list[Head] = []
    parts: list[str] = []
    rows: list[tuple[str, str, float, str]] = []
    bottom = 0.0
    for panel in panels:
        heads.append(Head.of("" if heads else heading, panel.measured, width, bottom))
        area = _make_area(panels, heads[-1], width)
        parts += panel.drawn(across, area, width, len(rows))
        rows += [(panel.up.label, series, x, panel.up.words(y)) for series, x, y in panel.rows]
        bottom = area.height
    parts += [head.markup for head in heads[1:]]  # that of the first one is the figure's
    columns = (Column("measured"), Column("series", name), Column(across.label, across.words), Column("number"))
    return assemble_figure(heads[0], parts, size=(width, bottom), reading=reading, columns=columns, rows=rows)


def _make_area(panels: Sequence[Panel], head: Head, width: float) -> Area:
    """With room for the names of all lines, and for the longest of the ticks, so that panels have the same edges."""
    ticks = [panel.up.words(tick) for panel in panels for tick in panel.upright(TALLEST, 0.0).ticks(CLOSEST)]
    return Area.below(head, width, names=[line.name for panel in panels for line in panel.shown], ticks=ticks)
