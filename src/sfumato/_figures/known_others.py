"""What attackers guess who know the true values of some of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.axes import Area, Curve, select_dash_class
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_percent, is_known, join_phrases, name
from sfumato._figures.scales import make_share_scale

UNCHANGED = 0.005
"""Right guesses that differ by less are called unchanged."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """Right guesses under one mechanism, by the share of the others whose values are known."""

    name: str
    right: tuple[tuple[float, float | None], ...]

    @property
    def known(self) -> list[tuple[float, float]]:
        """What is known, from few to many known neighbours."""
        return sorted(
            (share, right) for share, right in self.right if is_known(share) and right is not None and is_known(right)
        )


def draw_corruption(curves: Sequence[Corruption], width: float = WIDTH, *, at: float = 0.2) -> Figure:
    """A line for each mechanism; the reading is about the share nearest to `at` that is known of all of them."""
    width = limit_width(width)
    shown = [curve for curve in curves if curve.known]
    measured = ["people guessed right with the release"]
    head = Head.of("What attackers guess who know some of the others", measured, width)
    area = Area.below(head, width, names=[curve.name for curve in shown])
    rows = [(curve.name, *pair) for curve in shown for pair in curve.known]
    x = make_share_scale([share for _, share, _ in rows], area.left + 8, area.right - 8)
    y = make_share_scale([right for *_, right in rows], area.bottom, area.top)
    parts = [area.across(x, format_percent, "others whose true values are known"), area.up(y, format_percent)]
    lines = []
    for number, curve in enumerate(shown):
        marks = [
            (
                x(share),
                y(right),
                f"{name(curve.name)}, {format_percent(share)} of the others known: {format_percent(right)}",
            )
            for share, right in curve.known
        ]
        lines.append(Curve(curve.name, marks, select_dash_class(number)))
    parts.append(area.curves(lines, width, "nothing was tried"))
    columns = (
        Column("mechanism", name),
        Column("others known", format_percent),
        Column("guessed right", format_percent),
    )
    return assemble_figure(
        head, parts, size=(width, area.height), reading=_describe_figure(shown, at), columns=columns, rows=rows
    )


def _describe_figure(shown: Sequence[Corruption], at: float) -> str:
    if not shown:
        return "No attacker who knows others was tried."
    common = set.intersection(*({share for share, _ in curve.known} for curve in shown))
    if not common:
        return "No share of known others was tried with every mechanism."
    share = min(sorted(common), key=lambda candidate: abs(candidate - at))
    phrases = []
    for curve in shown:
        (first, before), right = curve.known[0], dict(curve.known)[share]
        same = "unchanged " if first == 0 < share and abs(right - before) < UNCHANGED else ""
        phrases.append(f"{name(curve.name)} {same}{format_percent(right)}")
    return f"If {format_percent(share)} of the others are known, right guesses are: {join_phrases(phrases)}."
