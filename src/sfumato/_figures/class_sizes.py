"""Singling out: how many records have how few like them by their public columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import Area, Curve, dash
from sfumato._figures.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import is_known, name, percent, quantity
from sfumato._figures.scales import logarithmic, shares

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
        """From an `Alike`."""
        return cls(name, ((1, found.alone), (4, found.below_5), (10, found.below_11)), found.is_exact)

    @property
    def known(self) -> list[tuple[int, float]]:
        """From small to large groups."""
        return sorted((size, share) for size, share in self.shares if is_known(share) and size >= 1)

    @property
    def alone(self) -> str | None:
        """The share of those that are alone, in words."""
        share = dict(self.known).get(1)
        return None if share is None else f"{'' if self.is_exact else 'about '}{percent(share)}"


def uniqueness(curves: Sequence[AlikeCurve], width: float = WIDTH) -> Figure:
    """Cumulative shares by the size of the group; first as it would be published, then before bins."""
    width = drawn_width(width)
    shown = [curve for curve in curves if curve.known]
    measured = ["records among so many alike, or fewer"]
    head = Head.of("How many records have few like them", measured, width)
    area = Area.below(head, width, names=[curve.name for curve in shown])
    rows = [(curve.name, *pair) for curve in shown for pair in curve.known]
    x = logarithmic([1, 20, *(size for _, size, _ in rows)], area.left + 8, area.right - 8)
    y = shares([share for *_, share in rows], area.bottom, area.top)
    parts = [area.across(x, quantity, "records alike by all public columns"), area.up(y, percent)]
    parts += [area.upright(x(size), str(size)) for size in JUDGED]
    lines = []
    for number, curve in enumerate(shown):
        marks = [
            (x(size), y(share), f"{name(curve.name)}: {percent(share)} among {size:,} alike or fewer")
            for size, share in curve.known
        ]
        lines.append(Curve(curve.name, marks, dash(number)))
    parts.append(area.curves(lines, width, "nothing was compared"))
    columns = (Column("", name), Column("alike, at most", quantity), Column("records", percent))
    return finished(head, parts, size=(width, area.height), reading=_reading(shown), columns=columns, rows=rows)


def _reading(shown: Sequence[AlikeCurve]) -> str:
    if not shown:
        return "How many records are alike is not known."
    first, *others = shown
    if first.alone is None:
        size, share = first.known[0]
        return f"{percent(share)} of the records are among {size:,} alike or fewer ({name(first.name)})."
    compared = [f"{each.alone} {name(each.name)}" for each in others if each.alone is not None]
    said = f"{first.alone} of the records are alone with their public columns"
    if not compared:
        return f"{said[:1].upper()}{said[1:]}."
    said = f"{said} {name(first.name)} ({', '.join(compared)})."
    return said[:1].upper() + said[1:]
