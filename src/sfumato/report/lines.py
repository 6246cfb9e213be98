"""Lines through measured points, the published ones beside ours: what an experiment gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato.report.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato.report.plot import Area, Curve, dash
from sfumato.report.scales import linear, logarithmic, spanning
from sfumato.report.wording import is_known, name, quantity

Words = Callable[[float], str]


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

    @property
    def known(self) -> list[tuple[float, float]]:
        """The points that can be drawn, from left to right."""
        return sorted((x, y) for x, y in self.points if is_known(x) and is_known(y))


def measured_lines(  # noqa: PLR0913 - two axes, the lines, and words for both
    heading: str, across: Axis, up: Axis, lines: Sequence[MeasuredLine], *, reading: str, width: float = WIDTH
) -> Figure:
    """A line for each series; the reading is the caller's, who knows what the experiment is about."""
    width = drawn_width(width)
    shown = [line for line in lines if line.known]
    measured = [up.label]
    if any(line.is_published for line in shown):
        measured.append("dashed, hollow: as published")
    rows = [(line.name, x, y) for line in shown for x, y in line.known]
    head = Head.of(heading, measured, width)
    ticks = [up.words(y) for *_, y in rows]
    area = Area.below(head, width, names=[line.name for line in shown], ticks=ticks)
    x_scale = (logarithmic if across.is_logarithmic else spanning)(
        [x for _, x, _ in rows], area.left + 8, area.right - 8
    )
    y_scale = (logarithmic if up.is_logarithmic else linear)([y for *_, y in rows], area.bottom, area.top)
    curves = []
    for number, line in enumerate(shown):
        marks = [
            (x_scale(x), y_scale(y), f"{name(line.name)}: {across.words(x)}, {up.words(y)}") for x, y in line.known
        ]
        hollow = [line.is_published] * len(marks)
        curves.append(Curve(line.name, marks, dash(1 + number % 5) if line.is_published else "", hollow))
    parts = [area.across(x_scale, across.words, across.label), area.up(y_scale, up.words)]
    parts.append(area.curves(curves, width, "nothing was measured"))
    columns = (Column("series", name), Column(across.label, across.words), Column(up.label, up.words))
    return finished(head, parts, size=(width, area.height), reading=reading, columns=columns, rows=rows)
