"""Draws an attacker's gain against the error of counts, to choose a mechanism and its parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.axes import MOST_LINES, Area, Curve, select_dash_class, select_series_class
from sfumato._figures.error_by_count import LARGEST_ERROR, SMALLEST_ERROR, describe_error
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_name, format_percent, format_points, is_known
from sfumato._figures.scales import LEAST_SHARE, Scale, make_linear_scale, make_log_scale
from sfumato._figures.svg import draw_mark


@dataclass(frozen=True, slots=True)
class TradeOff:
    """One setting of a mechanism, with the chosen attacker's gain and the error of counts."""

    parameter: str
    gain: float
    """Attack success with the release minus success without it."""
    error: float
    is_proposed: bool = False
    is_weaker: bool = False
    """Whether the guarantee is weaker than requested."""

    @property
    def numbers_text(self) -> str:
        """The gain and the error as text."""
        return f"gain {format_points(self.gain)}, error {describe_error(self.error)}"


@dataclass(frozen=True, slots=True)
class TradeOffCurve:
    """The settings of one mechanism, in the order of its parameter."""

    name: str
    settings: tuple[TradeOff, ...]

    @property
    def known_settings(self) -> tuple[TradeOff, ...]:
        """The settings with a known gain and a known error."""
        return tuple(setting for setting in self.settings if is_known(setting.gain) and is_known(setting.error))


def draw_risk_utility(
    curves: Sequence[TradeOffCurve], width: float = WIDTH, *, accepted_gain: float | None = None
) -> Figure:
    """Draws a curve over the parameter for each mechanism.

    Marks are large for proposed settings, hollow for weaker guarantees.

    With an accepted gain, the sentence names the setting with the smallest error among those with at most this gain.
    Settings with a weaker guarantee than requested are named only if there are no other settings.
    """
    width = limit_width(width)
    shown_curves = [curve for curve in curves if curve.known_settings]
    captions = ["error of counts, in % of the count"]
    trade_offs = [trade_off for curve in shown_curves for trade_off in curve.known_settings]
    notes = ["ringed: proposed"] if any(trade_off.is_proposed for trade_off in trade_offs) else []
    notes += ["hollow: weaker guarantee than requested"] if any(trade_off.is_weaker for trade_off in trade_offs) else []
    captions += ["; ".join(notes)] if notes else []
    head = Head.of("Attacker's gain against error of counts", captions, width)
    errors = [min(max(trade_off.error, SMALLEST_ERROR), LARGEST_ERROR) for trade_off in trade_offs]
    names, ticks = [curve.name for curve in shown_curves], [format_percent(2 * max(errors, default=1.0))]
    area = Area.from_head(head, width, names=names, ticks=ticks)
    x = make_linear_scale(
        [accepted_gain, LEAST_SHARE, *(trade_off.gain for trade_off in trade_offs)], area.left + 8, area.right - 8
    )
    y = make_log_scale(errors, area.bottom, area.top)
    parts = [
        area.draw_x_axis(x, _format_gain, "gain: additional correct guesses, in percentage points"),
        area.draw_y_axis(y, format_percent),
    ]
    if accepted_gain is not None:
        parts.append(area.draw_vertical_line(x(accepted_gain), f"accepted: {format_points(accepted_gain)}"))
    table = [(curve.name, trade_off) for curve in shown_curves for trade_off in curve.known_settings]
    lines = []
    for number, curve in enumerate(shown_curves):
        lines.append(_make_curve(curve, number, x, y))
        proposed_settings = [
            trade_off for trade_off in curve.known_settings if trade_off.is_proposed and number < MOST_LINES
        ]
        parts += [
            draw_mark("ring", x(trade_off.gain), y(trade_off.error), f"thin {select_series_class(number)}")
            for trade_off in proposed_settings
        ]
    parts.append(area.draw_curves(lines, width, "nothing was compared"))
    columns = (
        Column("mechanism", format_name),
        Column("setting", format_name),
        Column("gain", format_points),
        Column("error", describe_error),
        Column("proposed", _format_yes_no),
        Column("weaker guarantee", _format_yes_no),
    )
    rows = [
        (owner, trade_off.parameter, trade_off.gain, trade_off.error, trade_off.is_proposed, trade_off.is_weaker)
        for owner, trade_off in table
    ]
    return assemble_figure(
        head,
        parts,
        size=(width, area.figure_height),
        reading=_describe_figure(table, accepted_gain),
        columns=columns,
        rows=rows,
    )


def _make_curve(curve: TradeOffCurve, number: int, x: Scale, y: Scale) -> Curve:
    marks = [
        (
            x(trade_off.gain),
            y(trade_off.error),
            f"{format_name(curve.name)}, {format_name(trade_off.parameter)}: {trade_off.numbers_text}",
        )
        for trade_off in curve.known_settings
    ]
    is_hollow = [trade_off.is_weaker for trade_off in curve.known_settings]
    return Curve(curve.name, marks, select_dash_class(number), is_hollow)


def _format_gain(gain: float) -> str:
    return format_percent(gain).removesuffix("%")


def _format_yes_no(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _describe_figure(table: Sequence[tuple[str, TradeOff]], accepted_gain: float | None) -> str:
    accepted_rows = [
        (owner, trade_off) for owner, trade_off in table if accepted_gain is None or trade_off.gain <= accepted_gain
    ]
    if not accepted_rows:
        return (
            "Nothing was compared."
            if not table
            else f"No setting keeps the gain within {format_points(accepted_gain)}."
        )
    strong_rows = [(owner, trade_off) for owner, trade_off in accepted_rows if not trade_off.is_weaker]
    owner, best = min(strong_rows or accepted_rows, key=lambda pair: (pair[1].error, pair[1].gain))
    condition = " with the requested guarantee" if len(strong_rows) < len(accepted_rows) and strong_rows else ""
    weaker = ", with a weaker guarantee than requested" if best.is_weaker else ""
    if accepted_gain is None:
        return (
            f"Of the settings shown{condition}, {format_name(owner)} with {format_name(best.parameter)} has the "
            f"smallest error ({describe_error(best.error)}), at a gain of {format_points(best.gain)}{weaker}."
        )
    return (
        f"Of the settings shown{condition}, {format_name(owner)} with {format_name(best.parameter)} has the smallest "
        f"error for a gain of at most {format_points(accepted_gain)} ({describe_error(best.error)}, gain "
        f"{format_points(best.gain)}){weaker}."
    )
