"""Draws the standard error of counts by the size of the counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import Area, Curve, interpolate, select_broken_dash
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_percent, format_quantity, is_known, round_to_two_digits
from sfumato._figures.scales import make_log_scale
from sfumato._figures.svg import element

SMALLEST_ERROR, LARGEST_ERROR = 0.001, 100.0
"""Larger or smaller errors are drawn at these limits, but printed exactly."""


class CountErrorLike(Protocol):
    """The attributes of a predicted error of counts of one size."""

    @property
    def count(self) -> float: ...
    @property
    def evenly(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class ErrorCurve:
    """The relative standard error of counts by size; 0 if counts are exact."""

    name: str
    errors: tuple[tuple[float, float | None], ...]
    guarantee: str = ""
    is_weaker: bool = False
    """Whether the guarantee is weaker than requested."""

    @classmethod
    def of(
        cls, name: str, errors: Iterable[CountErrorLike], *, guarantee: str = "", is_weaker: bool = False
    ) -> ErrorCurve:
        """Makes the curve from predicted errors, averaged over values.

        Averages over values are usually larger than averages over records.
        """
        return cls(name, tuple((error.count, error.evenly) for error in errors), guarantee, is_weaker)

    @property
    def known_points(self) -> list[tuple[float, float]]:
        """The sizes with a known error, from small to large."""
        return sorted(
            (count, error)
            for count, error in self.errors
            if error is not None and is_known(error) and is_known(count) and count >= 1 and error >= 0
        )

    def find_size_within(self, target: float) -> float | None:
        """The approximate size from which the error is at most the target.

        None if the error is above the target at every size.
        """
        points, reached_size = self.known_points, None
        for previous, (count, error) in zip([(0.0, 0.0), *points], points, strict=False):
            if error > target:
                reached_size = None
            elif reached_size is None:
                inverted_points = sorted([(previous[1], previous[0]), (error, count)])
                reached_size = (
                    round_to_two_digits(interpolate(inverted_points, target) or count) if previous[0] else count
                )
        return reached_size


def draw_error_by_count(
    curves: Sequence[ErrorCurve],
    width: float = WIDTH,
    *,
    at_count: float = 1000,
    target: float = 0.1,
    subject: str = "with {}",
) -> Figure:
    """Draws a line for each plan, the chosen plan first. Plans with a weaker guarantee than requested are dashed.

    The text is about the first line, at the size nearest to `at_count`; `subject` names the numbers that have the
    errors, with {} in place of the line's name.
    """
    width = limit_width(width)
    shown_curves = [curve for curve in curves if curve.known_points]
    captions = ["standard error, in % of the count"]
    if any(curve.is_weaker for curve in shown_curves):
        captions.append("dashed, hollow: weaker guarantee than requested")
    rows = [(curve.name, curve.guarantee, *point) for curve in shown_curves for point in curve.known_points]
    errors = [target, *(min(max(error, SMALLEST_ERROR), LARGEST_ERROR) for *_, error in rows)]
    head = Head.of("Error of a count, by its size", captions, width)
    area = Area.from_head(
        head, width, names=[curve.name for curve in shown_curves], ticks=[format_percent(2 * max(errors))]
    )
    x = make_log_scale([count for *_, count, _ in rows], area.left + 8, area.right - 8)
    y = make_log_scale(errors, area.bottom, area.top)
    parts = [
        area.draw_x_axis(x, format_quantity, "size of the count (records)"),
        area.draw_y_axis(y, format_percent, target),
    ]
    lines = []
    for number, curve in enumerate(shown_curves):
        marks = [
            (
                x(count),
                y(error),
                f"{format_name(curve.name)}: {format_quantity(count)} records, {describe_error(error)}",
            )
            for count, error in curve.known_points
        ]
        dashes = select_broken_dash(number) if curve.is_weaker else ""
        lines.append(Curve(curve.name, marks, dashes, [curve.is_weaker] * len(marks)))
    parts.append(area.draw_curves(lines, width, "no error is known"))
    reached_size = shown_curves[0].find_size_within(target) if shown_curves else None
    if reached_size is not None and reached_size not in dict(shown_curves[0].known_points):
        tick = f"M{x(reached_size):.1f} {y(target) - 6:.1f}v12"
        tooltip = (
            f"{format_name(shown_curves[0].name)}: {format_percent(target)} from about "
            f"{format_quantity(reached_size)} on"
        )
        parts.append(element("path", d=tick, class_="broad s0", title=tooltip, data_row=str(len(rows))))
        rows.append((shown_curves[0].name, shown_curves[0].guarantee, reached_size, target))
    columns = (
        Column("mechanism", format_name),
        Column("guarantee", format_name),
        Column("records", format_quantity),
        Column("error", describe_error),
    )
    return assemble_figure(
        head,
        parts,
        size=(width, area.figure_height),
        reading=_describe_figure(shown_curves, at_count, reached_size, target, subject),
        columns=columns,
        rows=rows,
    )


def describe_error(error: float) -> str:
    """Formats the error of a count."""
    return "exact" if error == 0 else format_percent(error)


def _describe_figure(
    curves: Sequence[ErrorCurve], at_count: float, reached_size: float | None, target: float, subject: str
) -> str:
    if not curves:
        return "The errors of counts are unknown."
    first = curves[0]
    count, error = min(first.known_points, key=lambda point: abs(math.log(point[0]) - math.log(at_count)))
    weaker = ", which has a weaker guarantee than requested" if first.is_weaker else ""
    case = f"{subject.format(format_name(first.name))}{weaker},"
    case = case[:1].upper() + case[1:]
    if error == 0:
        return f"{case} a count of {format_quantity(count)} is exact."
    sentence = f"{case} a count of {format_quantity(count)} has a standard error of {format_percent(error)}"
    if reached_size is None:
        return f"{sentence}; no size shown has {format_percent(target)} or less."
    if reached_size == first.known_points[0][0]:
        return f"{sentence}; every size shown has at most {format_percent(target)}."
    return (
        f"{sentence}; from counts of about {format_quantity(reached_size)} on, the standard error is at most "
        f"{format_percent(target)}."
    )
