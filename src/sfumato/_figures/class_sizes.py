"""Singling out: how many records have how few like them by their public columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import Area, Curve, select_dash_class
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_percent, format_quantity, is_known, name
from sfumato._figures.scales import make_log_scale, make_share_scale

JUDGED = (5, 11)
"""The sizes by which small groups are usually judged."""


class SharesAlike(Protocol):
    """What is known of how many records are alike."""

    @property
    def alone(self) -> float: ...
    @property
    def below_5(self) -> float: ...
    @property
    def below_11(self) -> float: ...
    @property
    def is_exact(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class AlikeCurve:
    """The share of the records that are among so many alike, themselves included, or fewer."""

    name: str
    shares: tuple[tuple[int, float], ...]
    is_exact: bool = True

    @classmethod
    def of(cls, name: str, found: SharesAlike) -> AlikeCurve:
        """From an `ClassSizeShares`."""
        return cls(name, ((1, found.alone), (4, found.below_5), (10, found.below_11)), found.is_exact)

    @property
    def known(self) -> list[tuple[int, float]]:
        """From small to large groups."""
        return sorted((size, share) for size, share in self.shares if is_known(share) and size >= 1)

    @property
    def alone(self) -> str | None:
        """The share of those that are alone, in words."""
        share = dict(self.known).get(1)
        return None if share is None else f"{'' if self.is_exact else 'about '}{format_percent(share)}"


def draw_uniqueness(curves: Sequence[AlikeCurve], width: float = WIDTH) -> Figure:
    """Cumulative shares by the size of the group; first as it would be published, then before bins."""
    width = limit_width(width)
    shown = [curve for curve in curves if curve.known]
    measured = ["records among so many alike, or fewer"]
    head = Head.of("How many records have few like them", measured, width)
    area = Area.below(head, width, names=[curve.name for curve in shown])
    rows = [(curve.name, *pair) for curve in shown for pair in curve.known]
    x = make_log_scale([1, 20, *(size for _, size, _ in rows)], area.left + 8, area.right - 8)
    y = make_share_scale([share for *_, share in rows], area.bottom, area.top)
    parts = [area.across(x, format_quantity, "records alike by all public columns"), area.up(y, format_percent)]
    parts += [area.upright(x(size), str(size)) for size in JUDGED]
    lines = []
    for number, curve in enumerate(shown):
        marks = [
            (x(size), y(share), f"{name(curve.name)}: {format_percent(share)} among {size:,} alike or fewer")
            for size, share in curve.known
        ]
        lines.append(Curve(curve.name, marks, select_dash_class(number)))
    parts.append(area.curves(lines, width, "nothing was compared"))
    columns = (Column("", name), Column("alike, at most", format_quantity), Column("records", format_percent))
    return assemble_figure(
        head, parts, size=(width, area.height), reading=_describe_figure(shown), columns=columns, rows=rows
    )


def _describe_figure(shown: Sequence[AlikeCurve]) -> str:
    if not shown:
        return "How many records are alike is not known."
    first, *others = shown
    if first.alone is None:
        size, share = first.known[0]
        return f"{format_percent(share)} of the records are among {size:,} alike or fewer ({name(first.name)})."
    compared = [f"{curve.alone} {name(curve.name)}" for curve in others if curve.alone is not None]
    sentence = f"{first.alone} of the records are alone with their public columns"
    if not compared:
        return f"{sentence[:1].upper()}{sentence[1:]}."
    sentence = f"{sentence} {name(first.name)} ({', '.join(compared)})."
    return sentence[:1].upper() + sentence[1:]
