"""Draws the success of attackers who know the true values of some other people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.axes import Area, Curve, select_dash_class
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_percent, is_known, join_phrases
from sfumato._figures.scales import make_share_scale

UNCHANGED = 0.005
"""A smaller difference of success counts as unchanged."""


@dataclass(frozen=True, slots=True)
class KnownOthersCurve:
    """Attack success under one mechanism, by the share of others whose values are known."""

    name: str
    points: tuple[tuple[float, float | None], ...]

    @property
    def known_points(self) -> list[tuple[float, float]]:
        """The known points, from few to many known people."""
        return sorted(
            (share, right) for share, right in self.points if is_known(share) and right is not None and is_known(right)
        )


def draw_known_others(curves: Sequence[KnownOthersCurve], width: float = WIDTH, *, at_share: float = 0.2) -> Figure:
    """Draws a line for each mechanism.

    The sentence is about the share nearest to `at` that was measured for all mechanisms.
    """
    width = limit_width(width)
    shown_curves = [curve for curve in curves if curve.known_points]
    captions = ["people whose value is guessed correctly with the release"]
    head = Head.of("Success of attackers who know some other people", captions, width)
    area = Area.from_head(head, width, names=[curve.name for curve in shown_curves])
    rows = [(curve.name, *pair) for curve in shown_curves for pair in curve.known_points]
    x = make_share_scale([share for _, share, _ in rows], area.left + 8, area.right - 8)
    y = make_share_scale([right for *_, right in rows], area.bottom, area.top)
    parts = [
        area.draw_x_axis(x, format_percent, "share of others whose true values are known"),
        area.draw_y_axis(y, format_percent),
    ]
    lines = []
    for number, curve in enumerate(shown_curves):
        marks = [
            (
                x(share),
                y(right),
                f"{format_name(curve.name)}, {format_percent(share)} of the others known: {format_percent(right)}",
            )
            for share, right in curve.known_points
        ]
        lines.append(Curve(curve.name, marks, select_dash_class(number)))
    parts.append(area.draw_curves(lines, width, "no attack was run"))
    columns = (
        Column("mechanism", format_name),
        Column("others known", format_percent),
        Column("guessed correctly", format_percent),
    )
    return assemble_figure(
        head,
        parts,
        size=(width, area.figure_height),
        reading=_describe_figure(shown_curves, at_share),
        columns=columns,
        rows=rows,
    )


def _describe_figure(curves: Sequence[KnownOthersCurve], at_share: float) -> str:
    if not curves:
        return "No attack with known others was run."
    common = set.intersection(*({share for share, _ in curve.known_points} for curve in curves))
    if not common:
        return "No share of known others was measured for every mechanism."
    share = min(sorted(common), key=lambda candidate: abs(candidate - at_share))
    phrases = []
    for curve in curves:
        (first, before), right = curve.known_points[0], dict(curve.known_points)[share]
        same = "; unchanged" if first == 0 < share and abs(right - before) < UNCHANGED else ""
        phrases.append(f"{format_percent(right)} of people ({format_name(curve.name)}{same})")
    attacker = f"An attacker who knows the values of {format_percent(share)} of the other people"
    return f"{attacker} guesses correctly for {join_phrases(phrases)}."
