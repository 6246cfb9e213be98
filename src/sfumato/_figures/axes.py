"""Draws two axes with grid lines at the ticks, and curves with marks and labels at their ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sfumato._figures.figure import EDGE, Head
from sfumato._figures.figure_style import DASHES, SERIES
from sfumato._figures.scales import Scale
from sfumato._figures.svg import SHAPES, SMALL, draw_mark, draw_text, element, estimate_width, make_path_data

GAP = 15.0
"""The height of a line of text."""
BOLD = 1.1 * SMALL
"""Bold letters are as wide as letters that are larger by this factor."""
MOST_LINES = 10
"""The most lines in a figure, because readers cannot distinguish more."""

NumberFormatter = Callable[[float], str]


def select_series_class(number: int) -> str:
    """The CSS class for the colour of a line."""
    return f"s{number % SERIES}"


def select_mark_shape(number: int) -> str:
    """The shape of a line's marks."""
    return SHAPES[number % len(SHAPES)]


def select_dash_class(number: int) -> str:
    """The CSS class for the dashes of a line."""
    return f"d{number % len(DASHES)}"


def select_broken_dash(number: int) -> str:
    """The CSS class for the dashes of a line that must not be solid."""
    return select_dash_class(1 + number % (len(DASHES) - 1))


def spread_labels(places: Sequence[float], low: float, high: float, gap: float = GAP) -> list[float]:
    """Spreads labels close to their wanted positions, in order, and with a gap between labels if there is room."""
    order = sorted(range(len(places)), key=lambda index: (places[index], index))
    gap = min(gap, (high - low) / max(len(places) - 1, 1))
    positions, least = [0.0] * len(places), low
    for index in order:
        positions[index] = least = max(places[index], least)
        least += gap
    most = high
    for index in reversed(order):
        positions[index] = most = min(positions[index], most)
        most -= gap
    return positions


class Curve(NamedTuple):
    """A line with marks, which have positions and tooltips."""

    name: str
    marks: Sequence[tuple[float, float, str]]
    dashes: str = ""
    hollow_marks: Sequence[bool] = ()
    """The hollow marks. By default, no mark is hollow."""
    breaks: frozenset[int] = frozenset()
    """The marks before which the line has a gap."""

    def draw(self, number: int, row: int) -> str:
        """Draws the line with the colour and marks of its number. Its marks are table rows, from a given row on."""
        colour, parts = select_series_class(number), []
        ends = [0, *sorted(self.breaks), len(self.marks)]
        runs = [self.marks[start:end] for start, end in itertools.pairwise(ends) if end - start > 1]
        if runs:
            places = "".join(make_path_data((x, y) for x, y, _ in run) for run in runs)
            parts.append(element("path", d=places, class_=f"line {colour} {self.dashes}".rstrip()))
        hollow_marks = self.hollow_marks or [False] * len(self.marks)
        for place, ((x, y, tooltip), is_hollow) in enumerate(zip(self.marks, hollow_marks, strict=True)):
            kind = f"{'hollow' if is_hollow else 'dot'} {colour}"
            parts.append(draw_mark(select_mark_shape(number), x, y, kind, title=tooltip, row=str(row + place)))
        return "".join(parts)


@dataclass(frozen=True)
class Area:
    """The area that holds the marks of a figure, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def from_head(cls, head: Head, width: float, *, names: Iterable[str] = (), ticks: Iterable[str] = ()) -> Area:
        """An area below a heading, with room for ticks on the left and for labels in the right third."""
        widest = max((estimate_width(curve_name, BOLD) for curve_name in names), default=0.0)
        right = width - EDGE - (min(widest + 14, width / 3) if widest else 20)
        tall = min(max(0.55 * width, 220), 360)
        left = EDGE + min(max(map(estimate_width, ticks), default=0.0) + 10, width / 4)
        return cls(max(left, 46.0), head.bottom + 12, right, head.bottom + 12 + tall)

    @property
    def figure_height(self) -> float:
        """The height of the whole figure, with the lower axis."""
        return self.bottom + 40

    def draw_x_axis(
        self, scale: Scale, formatter: NumberFormatter, label: str, preferred_ticks: Sequence[float] = ()
    ) -> str:
        """Draws the lower axis, with ticks that do not overlap, grid lines, and a title.

        Requested tick values are used if they fit.
        """
        widest = max(estimate_width(formatter(tick)) for tick in (*preferred_ticks, scale.low, scale.high))
        room = max(widest + 14, 36)
        places = [scale(tick) for tick in preferred_ticks]
        has_room = all(after - before >= room for before, after in itertools.pairwise(places))
        ticks = preferred_ticks if preferred_ticks and has_room else scale.list_ticks(room)
        lines = "".join(f"M{scale(tick):.1f} {self.top:.1f}V{self.bottom:.1f}" for tick in ticks)
        parts = [element("path", d=lines, class_="grid")] if lines else []
        parts += [draw_text(scale(tick), self.bottom + 16, formatter(tick), "quiet middle") for tick in ticks]
        parts.append(element("path", d=f"M{self.left:.1f} {self.bottom:.1f}H{self.right:.1f}", class_="axis"))
        middle = (self.left + self.right) / 2
        half = estimate_width(label) / 2
        place = max(middle, half + EDGE)
        parts += [draw_text(place, self.bottom + 33, label, "quiet middle")] if label else []
        return "".join(parts)

    def draw_y_axis(self, scale: Scale, formatter: NumberFormatter, marked_value: float | None = None) -> str:
        """Draws the left axis. An important number has its own line, and other ticks keep away from this line."""
        ticks = [
            tick
            for tick in scale.list_ticks(30)
            if marked_value is None or abs(scale(tick) - scale(marked_value)) >= GAP
        ]
        lines = "".join(f"M{self.left:.1f} {scale(tick):.1f}H{self.right:.1f}" for tick in ticks)
        parts = [element("path", d=lines, class_="grid")] if lines else []
        parts += [
            draw_text(self.left - 6, scale(tick) + 4, formatter(tick), "quiet end", room=self.left - 6)
            for tick in ticks
        ]
        if marked_value is not None:
            level = f"M{self.left:.1f} {scale(marked_value):.1f}H{self.right:.1f}"
            parts.append(element("path", d=level, class_="rule"))
            parts.append(draw_text(self.left - 6, scale(marked_value) + 4, formatter(marked_value), "strong end"))
        return "".join(parts)

    def draw_vertical_line(self, x: float, label: str) -> str:
        """Draws a vertical line with words above the line."""
        rule = element("path", d=f"M{x:.1f} {self.top:.1f}V{self.bottom:.1f}", class_="rule")
        fits = x - 4 + estimate_width(label) <= self.right
        return rule + draw_text(x - 4 if fits else x + 4, self.top - 3, label, "quiet" if fits else "quiet end")

    def draw_empty_note(self, message: str) -> str:
        """Writes a note in place of marks, if there is nothing to draw."""
        return draw_text((self.left + self.right) / 2, (self.top + self.bottom) / 2, message, "quiet middle halo")

    def draw_curves(self, curves: Sequence[Curve], width: float, empty_note: str, first_row: int = 0) -> str:
        """Draws lines, with labels at their ends that do not overlap. Without lines, the reason is written.

        The marks of the lines stand for table rows, from a given row on.
        """
        if not curves:
            return self.draw_empty_note(empty_note)
        parts, shown_curves, row = [], curves[:MOST_LINES], first_row
        for number, curve in enumerate(shown_curves):
            parts.append(curve.draw(number, row))
            row += len(curve.marks)
        ends = [max(curve.marks)[:2] for curve in shown_curves]
        places = spread_labels([y for _, y in ends], self.top + 4, self.bottom - 2)
        start = self.right + 10
        for number, ((x, y), place, curve) in enumerate(zip(ends, places, shown_curves, strict=True)):
            if abs(place - y) > GAP / 2 or start - x > 2 * GAP:
                lead = f"M{x + 6:.1f} {y:.1f}L{start - 2:.1f} {place:.1f}"
                parts.append(element("path", d=lead, class_=f"lead {select_series_class(number)}"))
            parts.append(
                draw_text(
                    start, place + 4, curve.name, f"fill strong {select_series_class(number)}", room=width - start - 1
                )
            )
        omitted_count = sum(len(curve.marks) for curve in curves[MOST_LINES:])
        return "".join([*parts, draw_omitted_count(self.left + 4, self.bottom - 6, omitted_count)])


def draw_omitted_count(x: float, y: float, number: int) -> str:
    """Writes the number of omitted rows, if any."""
    if not number:
        return ""
    message = f"\u2026 {number:,} more in the table"
    return element("text", message, x=x, y=y, class_="quiet halo", data_left_out=str(number))


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float | None:
    """Interpolates between two known points on logarithmic scales. None outside the points."""
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        if x <= at <= next_x and y > 0 and next_y > 0 and next_x > x > 0:
            part = (math.log(at) - math.log(x)) / (math.log(next_x) - math.log(x))
            return math.exp((1 - part) * math.log(y) + part * math.log(next_y))
    return next((y for x, y in points if x == at), None)
