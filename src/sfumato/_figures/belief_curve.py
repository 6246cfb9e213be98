"""Draws a guarantee as a curve of the largest posterior for each prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from sfumato._figures.axes import Area
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import (
    NOT_AVAILABLE,
    format_name,
    format_percent,
    format_upper_factor,
    format_upper_percent,
    is_known,
)
from sfumato._figures.row_chart import put_largest_first
from sfumato._figures.scales import Scale
from sfumato._figures.svg import draw_text, element, make_path_data

STEPS = 60
MOST_VALUES = 60
"""The most ticks for values, because more would merge. The ticks show the most frequent values."""


class BoundLike(Protocol):
    """A requirement with one bound for all values."""

    @property
    def prior(self) -> Fraction: ...
    @property
    def posterior(self) -> Fraction: ...
    @property
    def person_amplification(self) -> Fraction: ...


@dataclass(frozen=True, slots=True)
class BeliefBound:
    """A bound, and the confidence in each value of an attacker who knows the frequencies."""

    prior: Fraction
    posterior: Fraction
    odds_factor: Fraction | None
    """The largest factor by which odds rise, for every prior. None if not guaranteed."""
    shares: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, bound: BoundLike, shares: Mapping[str, float], *, is_any_prior: bool) -> BeliefBound:
        """Makes the bound from a requirement. The mechanism determines whether the bound holds for every prior."""
        return cls(
            bound.prior, bound.posterior, bound.person_amplification if is_any_prior else None, tuple(shares.items())
        )

    def compute_posterior(self, belief: float) -> float | None:
        """The largest posterior. None if nothing is guaranteed."""
        if self.odds_factor is not None:
            odds_factor = float(self.odds_factor)
            return odds_factor * belief / (1 + (odds_factor - 1) * belief)
        return float(self.posterior) if belief <= self.prior else None


def draw_posterior_by_prior(bound: BeliefBound, width: float = WIDTH) -> Figure:
    """Draws the curve of the odds factor, a box for prior and posterior, and the table's values on the lower axis."""
    width = limit_width(width)
    values = [(value, share) for value, share in bound.shares if is_known(share) and 0 <= share <= 1]
    ordered_values = sorted(
        put_largest_first(values, lambda pair: pair[1], MOST_VALUES)[:MOST_VALUES], key=lambda pair: -pair[1]
    )
    captions = ["confidence in a value after seeing the release, at most"]
    head = Head.of("How far an attacker's confidence can rise", captions, width)
    area = Area.from_head(head, width)
    x, y = Scale(0.0, 1.0, area.left, area.right), Scale(0.0, 1.0, area.bottom, area.top)
    parts = [
        area.draw_x_axis(x, format_percent, "confidence in the value before"),
        area.draw_y_axis(y, format_percent),
    ]
    prior, posterior = float(bound.prior), float(bound.posterior)
    box = f"from at most {format_percent(prior)} to at most {format_upper_percent(bound.posterior)}"
    size = {"width": x(prior) - x(0), "height": y(0) - y(posterior)}
    parts.append(element("rect", title=box, x=x(0), y=y(posterior), class_="soft s0", data_row="0", **size))
    parts.append(element("path", d=make_path_data([(x(0), y(0)), (x(1), y(1))]), class_="rule"))
    if bound.odds_factor is not None:
        steps = [step / STEPS for step in range(STEPS + 1)]
        curve = [(x(at), y(bound.compute_posterior(at) or 0.0)) for at in steps]
        parts.append(element("path", d=make_path_data(curve), class_="line s0"))
    corner = f"prior {format_percent(prior)} \u2192 posterior {format_upper_percent(bound.posterior)}"
    parts.append(element("circle", title=box, cx=x(prior), cy=y(posterior), r=4, class_="dot s0"))
    label_y = y(posterior) + 5 if posterior > 0.5 else y(posterior) - 8  # noqa: PLR2004 - the curve is above or below
    parts.append(_draw_value_ticks(bound, ordered_values, area, x, y))
    parts.append(draw_text(x(prior) + 9, label_y + 4, corner, "strong halo"))
    rows = [
        ("the bound", prior, posterior),
        *((value, share, bound.compute_posterior(share)) for value, share in ordered_values),
    ]
    columns = (
        Column("value", format_name),
        Column("before", format_percent),
        Column("after, at most", _format_posterior),
    )
    return assemble_figure(
        head,
        parts,
        size=(width, area.figure_height),
        reading=_describe_figure(bound, ordered_values),
        columns=columns,
        rows=rows,
    )


def _draw_value_ticks(
    bound: BeliefBound, ordered_values: Sequence[tuple[str, float]], area: Area, x: Scale, y: Scale
) -> str:
    """Draws the values at their shares. The most frequent value is labelled on the curve."""
    parts = []
    for row, (value, share) in enumerate(ordered_values, start=1):
        posterior = bound.compute_posterior(share)
        tooltip = f"{format_name(value)}: from {format_percent(share)} to at most {_format_posterior(posterior)}"
        tick = f"M{x(share):.1f} {area.bottom:.1f}v-10"
        parts.append(element("path", d=tick, class_="thin s1", title=tooltip, data_row=str(row)))
    if ordered_values and bound.compute_posterior(ordered_values[0][1]) is not None:
        value, share = ordered_values[0]
        place = x(share), y(bound.compute_posterior(share) or 0.0)
        parts.append(element("path", d=f"M{place[0]:.1f} {area.bottom:.1f}V{place[1]:.1f}", class_="rule"))
        parts.append(element("circle", cx=place[0], cy=place[1], r=4, class_="dot s1"))
        is_left = place[0] > (area.left + area.right) / 2
        room = (place[0] - area.left if is_left else area.right - place[0]) - 12
        at = place[0] + (-10 if is_left else 10)
        class_ = "fill s1 strong halo end" if is_left else "fill s1 strong halo"
        label = f"{value}: {format_percent(share)} \u2192 {_format_posterior(bound.compute_posterior(share))}"
        parts.append(draw_text(at, min(place[1] + 18, area.bottom - 14), label, class_, room=room))
    return "".join(parts)


def _describe_figure(bound: BeliefBound, ordered_values: Sequence[tuple[str, float]]) -> str:
    sentence = (
        f"Confidence in a value can rise from {format_percent(float(bound.prior))} to at most "
        f"{format_upper_percent(bound.posterior)}"
    )
    if not ordered_values:
        end = (
            ""
            if bound.odds_factor is None
            else f"; odds can rise by a factor of at most {format_upper_factor(bound.odds_factor)}"
        )
        return f"{sentence}{end}."
    value, share = ordered_values[0]
    posterior = bound.compute_posterior(share)
    if posterior is None:
        return f"{sentence}; for {format_name(value)}, with {format_percent(share)} of people, nothing is guaranteed."
    return (
        f"{sentence}; confidence in {format_name(value)} can rise from {format_percent(share)} to at most "
        f"{_format_posterior(posterior)}."
    )


def _format_posterior(posterior: float | None) -> str:
    """Formats a posterior that cannot be exceeded."""
    return NOT_AVAILABLE if posterior is None else format_upper_percent(posterior)
