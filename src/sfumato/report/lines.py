"""Lines through measured points, the published ones beside ours: what an experiment gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato.report.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato.report.plot import Area, Curve, dash
from sfumato.report.scales import linear, logarithmic, spanning
from sfumato.report.wording import is_known, name, quantity

Words = Callable[[float], str]
Row = tuple[str, float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis measures, how its numbers are read, and whether it is one of powers of ten."""

    label: str
    words: Words = quantity
    is_logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """Points by what was varied. Published lines are dashed and hollow: they were read, not measured."""

    name: str
    points: tuple[tuple[float, float], ...]
    is_published: bool = False
    singled_out: tuple[float, ...] = ()
    """Where its marks are hollow, for a reason that the panel gives."""

    @property
    def known(self) -> list[tuple[float, float]]:
        """The points that can be drawn, from left to right."""
        return sorted((x, y) for x, y in self.points if is_known(x) and is_known(y))


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
        said = [self.up.label]
        if any(line.is_published for line in self.shown):
            said.append("dashed, hollow: as published")
        if any(line.singled_out for line in self.shown):
            said.append(f"hollow: {self.hollow}")
        return said

    def drawn(self, across: Axis, area: Area, width: float, first_row: int) -> list[str]:
        """Axes and curves; marks are rows of the table from some row on."""
        x_scale = (logarithmic if across.is_logarithmic else spanning)(
            [x for _, x, _ in self.rows], area.left + 8, area.right - 8
        )
        y_scale = (logarithmic if self.up.is_logarithmic else linear)([y for *_, y in self.rows], area.bottom, area.top)
        curves = []
        for number, line in enumerate(self.shown):
            marks = [
                (x_scale(x), y_scale(y), f"{name(line.name)}: {across.words(x)}, {self.up.words(y)}")
                for x, y in line.known
            ]
            hollow = [line.is_published or x in line.singled_out for x, _ in line.known]
            curves.append(Curve(line.name, marks, dash(1 + number % 5) if line.is_published else "", hollow))
        parts = [area.across(x_scale, across.words, across.label), area.up(y_scale, self.up.words)]
        return [*parts, area.curves(curves, width, "nothing was measured", first_row)]


def measured_lines(  # noqa: PLR0913 - two axes, the lines, and words for both
    heading: str, across: Axis, up: Axis, lines: Sequence[MeasuredLine], *, reading: str, width: float = WIDTH
) -> Figure:
    """A line for each series; the reading is the caller's, who knows what the experiment is about."""
    panel, width = Panel(up, lines), drawn_width(width)
    head, area, parts = _beneath(heading, across, panel, width, 0.0, 0)
    columns = (Column("series", name), Column(across.label, across.words), Column(up.label, up.words))
    return finished(head, parts, size=(width, area.height), reading=reading, columns=columns, rows=panel.rows)


def measured_panels(
    heading: str, across: Axis, panels: Sequence[Panel], *, reading: str, width: float = WIDTH
) -> Figure:
    """The same for several measures, one above the other, by what was varied."""
    width = drawn_width(width)
    rows: list[tuple[str, str, float, str]] = []
    heads, drawn, bottom = [], [], 0.0
    for panel in panels:
        head, area, parts = _beneath(heading if not heads else "", across, panel, width, bottom, len(rows))
        heads.append(head)
        drawn += [*([head.markup] if len(heads) > 1 else []), *parts]
        rows += [(panel.up.label, series, x, panel.up.words(y)) for series, x, y in panel.rows]
        bottom = area.height
    columns = (Column("measured"), Column("series", name), Column(across.label, across.words), Column("number"))
    return finished(heads[0], drawn, size=(width, bottom), reading=reading, columns=columns, rows=rows)


def _beneath(  # noqa: PLR0913 - what is drawn, and where
    heading: str, across: Axis, panel: Panel, width: float, top: float, first_row: int
) -> tuple[Head, Area, list[str]]:
    head = Head.of(heading, panel.measured, width, top)
    ticks = [panel.up.words(y) for *_, y in panel.rows]
    area = Area.below(head, width, names=[line.name for line in panel.shown], ticks=ticks)
    return head, area, panel.drawn(across, area, width, first_row)
