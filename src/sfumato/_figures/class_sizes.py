"""Draws singling out as the share of records in small equivalence classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import Area, Curve, select_dash_class
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_percent, format_quantity, is_known
from sfumato._figures.scales import make_log_scale, make_share_scale

JUDGED_SIZES = (5, 11)
"""The usual thresholds for small classes."""


class ClassSharesLike(Protocol):
    """The attributes of class-size shares."""

    @property
    def unique_share(self) -> float: ...
    @property
    def below_5(self) -> float: ...
    @property
    def below_11(self) -> float: ...
    @property
    def is_exact(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ClassSizeCurve:
    """The share of records in classes of at most each size. The size includes the record itself."""

    name: str
    shares: tuple[tuple[int, float], ...]
    is_exact: bool = True

    @classmethod
    def of(cls, name: str, shares: ClassSharesLike) -> ClassSizeCurve:
        """Makes the curve from a `ClassSizeShares`."""
        return cls(name, ((1, shares.unique_share), (4, shares.below_5), (10, shares.below_11)), shares.is_exact)

    @property
    def known_points(self) -> list[tuple[int, float]]:
        """The known points, from small to large classes."""
        return sorted((size, share) for size, share in self.shares if is_known(share) and size >= 1)

    @property
    def unique_text(self) -> str | None:
        """The share of unique records as text."""
        share = dict(self.known_points).get(1)
        return None if share is None else f"{'' if self.is_exact else 'about '}{format_percent(share)}"


def draw_uniqueness(curves: Sequence[ClassSizeCurve], width: float = WIDTH) -> Figure:
    """Draws cumulative shares by class size, as published and before recoding into ranges."""
    width = limit_width(width)
    shown_curves = [curve for curve in curves if curve.known_points]
    captions = ["records in classes of at most this size"]
    head = Head.of("Records in small equivalence classes", captions, width)
    area = Area.from_head(head, width, names=[curve.name for curve in shown_curves])
    rows = [(curve.name, *pair) for curve in shown_curves for pair in curve.known_points]
    x = make_log_scale([1, 20, *(size for _, size, _ in rows)], area.left + 8, area.right - 8)
    y = make_share_scale([share for *_, share in rows], area.bottom, area.top)
    parts = [
        area.draw_x_axis(x, format_quantity, "class size by all public columns"),
        area.draw_y_axis(y, format_percent),
    ]
    parts += [area.draw_vertical_line(x(size), str(size)) for size in JUDGED_SIZES]
    lines = []
    for number, curve in enumerate(shown_curves):
        marks = [
            (x(size), y(share), f"{format_name(curve.name)}: {format_percent(share)} in classes of at most {size:,}")
            for size, share in curve.known_points
        ]
        lines.append(Curve(curve.name, marks, select_dash_class(number)))
    parts.append(area.draw_curves(lines, width, "nothing was compared"))
    columns = (
        Column("", format_name),
        Column("class size, at most", format_quantity),
        Column("records", format_percent),
    )
    return assemble_figure(
        head,
        parts,
        size=(width, area.figure_height),
        reading=_describe_figure(shown_curves),
        columns=columns,
        rows=rows,
    )


def _describe_figure(curves: Sequence[ClassSizeCurve]) -> str:
    if not curves:
        return "The class sizes are unknown."
    first, *others = curves
    if first.unique_text is None:
        size, share = first.known_points[0]
        return f"{format_percent(share)} of records are in classes of at most {size:,} ({format_name(first.name)})."
    comparisons = [
        f"{curve.unique_text} {format_name(curve.name)}" for curve in others if curve.unique_text is not None
    ]
    sentence = f"{first.unique_text} of records are unique on the public columns"
    if not comparisons:
        return f"{sentence[:1].upper()}{sentence[1:]}."
    sentence = f"{sentence} {format_name(first.name)} ({', '.join(comparisons)})."
    return sentence[:1].upper() + sentence[1:]
