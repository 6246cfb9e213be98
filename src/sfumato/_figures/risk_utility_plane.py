"""Which mechanism, and which number: what an attacker gains against how far off counts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._figures.axes import MOST_LINES, Area, Curve, dash, series
from sfumato._figures.error_curves import LARGEST_ERROR, SMALLEST_ERROR, off_by
from sfumato._figures.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import is_known, name, percent, points
from sfumato._figures.scales import LEAST_SHARE, linear, logarithmic
from sfumato._figures.svg import mark


@dataclass(frozen=True, slots=True)
class TradeOff:
    """One setting of a mechanism: the gain of the chosen attacker under it, and the error of counts."""

    parameter: str
    gain: float
    """Right guesses with the release less those without it, as a share of the people."""
    error: float
    is_proposed: bool = False
    is_weaker: bool = False
    """Whether it promises less than was asked for."""

    @property
    def words(self) -> str:
        """Both numbers."""
        return f"gain {points(self.gain)}, error {off_by(self.error)}"


@dataclass(frozen=True, slots=True)
class TradeOffs:
    """The settings of one mechanism, in the order of its parameter."""

    name: str
    settings: tuple[TradeOff, ...]

    @property
    def known(self) -> tuple[TradeOff, ...]:
        """Those of which both numbers are known."""
        return tuple(each for each in self.settings if is_known(each.gain) and is_known(each.error))


def risk_utility(curves: Sequence[TradeOffs], width: float = WIDTH, *, accepted: float | None = None) -> Figure:
    """A curve for each mechanism over its parameter; proposed settings are large, hollow ones promise less than asked.

    With a gain that the holder accepts, the reading says which setting has the smallest error within it. It speaks of
    those that promise what was asked for, and of others only where there are none.
    """
    width = drawn_width(width)
    shown = [curve for curve in curves if curve.known]
    measured = ["error of counts, in % of the count"]
    everything = [each for curve in shown for each in curve.known]
    notes = ["ringed: proposed"] if any(each.is_proposed for each in everything) else []
    notes += ["hollow: promises less than was asked for"] if any(each.is_weaker for each in everything) else []
    measured += ["; ".join(notes)] if notes else []
    head = Head.of("What an attacker gains, and how far off counts are", measured, width)
    errors = [min(max(each.error, SMALLEST_ERROR), LARGEST_ERROR) for each in everything]
    names, ticks = [curve.name for curve in shown], [percent(2 * max(errors, default=1.0))]
    area = Area.below(head, width, names=names, ticks=ticks)
    x = linear([accepted, LEAST_SHARE, *(each.gain for each in everything)], area.left + 8, area.right - 8)
    y = logarithmic(errors, area.bottom, area.top)
    parts = [area.across(x, _plainly, "gain: more people guessed right, in points"), area.up(y, percent)]
    if accepted is not None:
        parts.append(area.upright(x(accepted), f"accepted: {points(accepted)}"))
    table = [(curve.name, each) for curve in shown for each in curve.known]
    lines = []
    for number, curve in enumerate(shown):
        marks = [
            (x(each.gain), y(each.error), f"{name(curve.name)}, {name(each.parameter)}: {each.words}")
            for each in curve.known
        ]
        lines.append(Curve(curve.name, marks, dash(number), [each.is_weaker for each in curve.known]))
        proposed = [each for each in curve.known if each.is_proposed and number < MOST_LINES]
        parts += [mark("ring", x(each.gain), y(each.error), f"thin {series(number)}") for each in proposed]
    parts.append(area.curves(lines, width, "nothing was compared"))
    columns = (
        Column("mechanism", name),
        Column("setting", name),
        Column("gain", points),
        Column("error", off_by),
        Column("proposed", _yes),
        Column("promises less than asked", _yes),
    )
    rows = [(owner, each.parameter, each.gain, each.error, each.is_proposed, each.is_weaker) for owner, each in table]
    return finished(
        head, parts, size=(width, area.height), reading=_reading(table, accepted), columns=columns, rows=rows
    )


def _plainly(gain: float) -> str:
    return percent(gain).removesuffix("%")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _reading(table: Sequence[tuple[str, TradeOff]], accepted: float | None) -> str:
    within = [(owner, each) for owner, each in table if accepted is None or each.gain <= accepted]
    if not within:
        return "Nothing was compared." if not table else f"No setting keeps the gain within {points(accepted)}."
    strong = [(owner, each) for owner, each in within if not each.is_weaker]
    owner, best = min(strong or within, key=lambda pair: (pair[1].error, pair[1].gain))
    asked = " that promise what was asked for" if len(strong) < len(within) and strong else ""
    weaker = ", and promises less than was asked for" if best.is_weaker else ""
    if accepted is None:
        return (
            f"Of the settings shown{asked}, {name(owner)} with {name(best.parameter)} has the smallest error "
            f"({off_by(best.error)}), at a gain of {points(best.gain)}{weaker}."
        )
    return (
        f"Among settings{asked} with a gain of at most {points(accepted)}, {name(owner)} with {name(best.parameter)} "
        f"has the smallest error ({off_by(best.error)}, gain {points(best.gain)}){weaker}."
    )
