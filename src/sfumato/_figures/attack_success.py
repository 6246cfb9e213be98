"""Draws attack success without and with a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import select_mark_shape, select_series_class
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_exact_percent, format_name, format_percent, is_known
from sfumato._figures.row_chart import MOST_ROWS, RowLayout, put_largest_first
from sfumato._figures.scales import Scale, make_share_scale
from sfumato._figures.svg import draw_mark, element


class BeliefLike(Protocol):
    """The attributes of the results of an attack, with or without the release."""

    @property
    def success(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def share_well_above(self) -> float: ...


class AttackLike(Protocol):
    """The attributes of an attack."""

    @property
    def known_columns(self) -> tuple[str, ...]: ...
    @property
    def knowledge(self) -> str: ...
    @property
    def control(self) -> BeliefLike | None: ...
    @property
    def without_release(self) -> BeliefLike: ...
    @property
    def with_release(self) -> BeliefLike | None: ...


@dataclass(frozen=True, slots=True)
class AttackSuccess:
    """The share of people whose value an attacker guesses correctly."""

    knowledge: str
    """The attacker's knowledge as a phrase, to complete `an attacker who knows ...`."""
    mechanism: str
    """The mechanism of the release."""
    without_release: float
    with_release: float | None
    control: float | None = None
    """The share for a control: people outside the table, or an attacker who was trained on the original table."""
    interval: tuple[float, float] | None = None
    """A 95% confidence interval of the share with the release."""

    @classmethod
    def of(cls, attack: AttackLike, mechanism: str) -> AttackSuccess:
        """Makes the row from an `Attack`."""
        without_release, with_release = attack.without_release.success, attack.with_release
        control = None if attack.control is None else attack.control.success
        if with_release is None:
            return cls(attack.knowledge, mechanism, without_release, None, control)
        return cls(attack.knowledge, mechanism, without_release, with_release.success, control, with_release.interval)

    @property
    def shares_text(self) -> str:
        """Both shares as text."""
        return f"{format_percent(self.without_release)} \u2192 {format_percent(self.with_release)}"


def describe_known_columns(columns: Sequence[str]) -> str:
    """Describes an attacker's knowledge by columns. Without columns, it is the frequencies of values."""
    if not columns:
        return "the frequencies of values"
    return format_name(columns[0]) if len(columns) == 1 else f"all {len(columns)} public columns"


def draw_attack_scenarios(guesses: Sequence[AttackSuccess], width: float = WIDTH, *, condition: str = "") -> Figure:
    """Draws attack success without and with the release.

    Each attacker and mechanism has a row, and controls are hollow. `condition` names what else holds for all attackers.
    """
    width = limit_width(width)
    knowledge = dict.fromkeys(guess.knowledge for guess in guesses)
    mechanisms = list(dict.fromkeys(guess.mechanism for guess in guesses))
    has_several = len(mechanisms) > 1
    ordered_guesses = [guess for knowledge_text in knowledge for guess in guesses if guess.knowledge == knowledge_text]
    ordered_guesses = put_largest_first(
        ordered_guesses, lambda guess: (guess.with_release or guess.without_release) - guess.without_release
    )
    drawn_guesses = ordered_guesses[:MOST_ROWS]
    captions = ["people whose value is guessed correctly: without (grey), with the release (coloured)"]
    captions += [] if has_several else ["by an attacker who knows of a person:"]
    if any(is_known(guess.control) for guess in drawn_guesses):
        captions.append("hollow: a control")
    head = Head.of(f"Attack success, {condition}" if condition else "Attack success", captions, width)
    rows = RowLayout.from_head(
        head,
        width,
        [guess.mechanism if has_several else guess.knowledge for guess in drawn_guesses],
        [guess.shares_text for guess in drawn_guesses],
        groups=[f"An attacker who knows {guess.knowledge}" for guess in drawn_guesses] if has_several else (),
        total=len(ordered_guesses),
    )
    numbers = [share for guess in drawn_guesses for share in (guess.without_release, guess.with_release, guess.control)]
    x = make_share_scale(numbers, rows.area.left, rows.area.right)
    parts = [rows.draw_frame(x, format_percent, "people guessed correctly")]
    for number, guess in enumerate(drawn_guesses):
        parts.append(rows.draw_row_text(number, guess.shares_text))
        parts += _draw_dumbbell(rows, number, x, guess, mechanisms.index(guess.mechanism))
    columns = (
        Column("knows", format_name),
        Column("release", format_name),
        Column("correct without", format_percent),
        Column("correct with", format_percent),
        Column("95% interval", _format_interval),
        Column("control", _format_share),
    )
    table = [
        (guess.knowledge, guess.mechanism, guess.without_release, guess.with_release, guess.interval, guess.control)
        for guess in ordered_guesses
    ]
    return assemble_figure(
        head,
        parts,
        size=(width, rows.area.figure_height),
        reading=_describe_figure(guesses, has_several=has_several),
        columns=columns,
        rows=table,
    )


def _draw_dumbbell(rows: RowLayout, number: int, x: Scale, guess: AttackSuccess, series: int) -> list[str]:
    """Draws a hollow dot for a control, and a line from success without the release to success with it."""
    at, parts = rows.middles[number], []
    tooltip = f"{format_name(guess.knowledge)}, {format_name(guess.mechanism)}: {guess.shares_text}"
    if guess.control is not None and is_known(guess.control):
        control = f"control: {format_percent(guess.control)}"
        parts.append(element("circle", cx=x(guess.control), cy=at, r=4, class_="hollow grey", title=control))
    if guess.with_release is None or not is_known(guess.with_release):
        return [*parts, draw_mark("bar", x(guess.without_release), at, "fill grey", title=tooltip)]
    end = x(guess.with_release)
    parts.append(rows.draw_row_line(number, x(guess.without_release), end, f"broad {select_series_class(series)}"))
    if guess.interval is not None:
        low, high = (x(end) for end in guess.interval)
        whisker = f"M{low:.1f} {at - 4:.1f}v8M{low:.1f} {at:.1f}H{high:.1f}M{high:.1f} {at - 4:.1f}v8"
        parts.append(element("path", d=whisker, class_=f"thin {select_series_class(series)}"))
    parts.append(draw_mark("bar", x(guess.without_release), at, "fill grey"))
    return [*parts, draw_mark(select_mark_shape(series), end, at, f"dot {select_series_class(series)}", title=tooltip)]


def _format_share(share: float | None) -> str:
    return "-" if share is None else format_percent(share)


def _format_interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{format_exact_percent(interval[0])} to {format_exact_percent(interval[1])}"


def _describe_figure(guesses: Sequence[AttackSuccess], *, has_several: bool) -> str:
    """Describes the most successful attacker on the first release."""
    first_guesses = [guess for guess in guesses if guess.mechanism == guesses[0].mechanism]
    if not first_guesses:
        return "No attack was run."
    release_guesses = [guess for guess in first_guesses if is_known(guess.with_release)]
    suffix = f" ({format_name(guesses[0].mechanism)})" if has_several else ""
    if not release_guesses:
        best = max(first_guesses, key=lambda guess: guess.without_release)
        sentence = (
            f"An attacker who knows {format_name(best.knowledge)} guesses the value of "
            f"{format_percent(best.without_release)} of people correctly without the release"
        )
        return f"{sentence}; the share with the release is unknown{suffix}."
    best = max(release_guesses, key=lambda guess: guess.with_release or 0.0)
    return (
        f"An attacker who knows {format_name(best.knowledge)} guesses the value of "
        f"{format_percent(best.without_release)} of people correctly without the release, and of "
        f"{format_percent(best.with_release)} with the release{suffix}."
    )
