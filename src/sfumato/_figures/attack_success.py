"""What publishing adds: how many people attackers guess right without a release, and with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import select_mark_shape, select_series_class
from sfumato._figures.figure import WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import format_exact_percent, format_percent, is_known, name
from sfumato._figures.row_chart import MOST_ROWS, Rows, put_largest_first
from sfumato._figures.scales import Scale, make_share_scale
from sfumato._figures.svg import element, mark


class RightGuesses(Protocol):
    """What an attack tells of beliefs."""

    @property
    def right(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def well_above(self) -> float: ...


class AttackFound(Protocol):
    """What an attack tells."""

    @property
    def told(self) -> tuple[str, ...]: ...
    @property
    def knows(self) -> str: ...
    @property
    def control(self) -> RightGuesses | None: ...
    @property
    def without(self) -> RightGuesses: ...
    @property
    def with_release(self) -> RightGuesses | None: ...


@dataclass(frozen=True, slots=True)
class GuessedRight:
    """For which share of the people an attacker guesses right."""

    knows: str
    """What the attacker knows of a person, so that `somebody who knows ...` can be said."""
    release: str
    """By which mechanism the release is made."""
    without: float
    with_release: float | None
    control: float | None = None
    """The same for a control: people who are not in the table, or an attacker who learned from the original."""
    interval: tuple[float, float] | None = None
    """A 95% interval of the share with the release."""

    @classmethod
    def of(cls, attack: AttackFound, release: str) -> GuessedRight:
        """From an `Attack`."""
        without, with_release = attack.without.right, attack.with_release
        control = None if attack.control is None else attack.control.right
        if with_release is None:
            return cls(attack.knows, release, without, None, control)
        return cls(attack.knows, release, without, with_release.right, control, with_release.interval)

    @property
    def words(self) -> str:
        """Both shares."""
        return f"{format_percent(self.without)} \u2192 {format_percent(self.with_release)}"


def describe_known_columns(told: Sequence[str]) -> str:
    """What somebody knows who was told some columns, or none: then how frequent the values are."""
    if not told:
        return "how frequent the values are"
    return name(told[0]) if len(told) == 1 else f"all {len(told)} public columns"


def draw_attack_scenarios(guesses: Sequence[GuessedRight], width: float = WIDTH) -> Figure:
    """For each attacker right guesses without the release and with it, a row a mechanism; controls are hollow."""
    width = limit_width(width)
    knowledge = dict.fromkeys(guess.knows for guess in guesses)
    releases = list(dict.fromkeys(guess.release for guess in guesses))
    several = len(releases) > 1
    ordered = [guess for knows in knowledge for guess in guesses if guess.knows == knows]
    ordered = put_largest_first(ordered, lambda guess: (guess.with_release or guess.without) - guess.without)
    drawn = ordered[:MOST_ROWS]
    measured = ["people guessed right: without the release (grey) and with it (coloured)"]
    measured += [] if several else ["by somebody who knows of a person:"]
    if any(is_known(guess.control) for guess in drawn):
        measured.append("hollow: a control")
    head = Head.of("What attackers guess right", measured, width)
    rows = Rows.below(
        head,
        width,
        [guess.release if several else guess.knows for guess in drawn],
        [guess.words for guess in drawn],
        groups=[f"Somebody who knows {guess.knows}" for guess in drawn] if several else (),
        total=len(ordered),
    )
    numbers = [share for guess in drawn for share in (guess.without, guess.with_release, guess.control)]
    x = make_share_scale(numbers, rows.area.left, rows.area.right)
    parts = [rows.frame(x, format_percent, "people guessed right")]
    for number, guess in enumerate(drawn):
        parts.append(rows.said(number, guess.words))
        parts += _draw_dumbbell(rows, number, x, guess, releases.index(guess.release))
    columns = (
        Column("knows", name),
        Column("release", name),
        Column("right without", format_percent),
        Column("right with", format_percent),
        Column("95% interval", _format_interval),
        Column("control", _format_share),
    )
    table = [
        (guess.knows, guess.release, guess.without, guess.with_release, guess.interval, guess.control)
        for guess in ordered
    ]
    return assemble_figure(
        head,
        parts,
        size=(width, rows.area.height),
        reading=_describe_figure(guesses, several=several),
        columns=columns,
        rows=table,
    )


def _draw_dumbbell(rows: Rows, number: int, x: Scale, guess: GuessedRight, which: int) -> list[str]:
    """A control as a hollow dot, then from right guesses without the release to those with it, and their interval."""
    at, parts = rows.middles[number], []
    tooltip = f"{name(guess.knows)}, {name(guess.release)}: {guess.words}"
    if guess.control is not None and is_known(guess.control):
        control = f"control: {format_percent(guess.control)}"
        parts.append(element("circle", cx=x(guess.control), cy=at, r=4, class_="hollow grey", title=control))
    if guess.with_release is None or not is_known(guess.with_release):
        return [*parts, mark("bar", x(guess.without), at, "fill grey", title=tooltip)]
    end = x(guess.with_release)
    parts.append(rows.across(number, x(guess.without), end, f"broad {select_series_class(which)}"))
    if guess.interval is not None:
        low, high = (x(end) for end in guess.interval)
        whisker = f"M{low:.1f} {at - 4:.1f}v8M{low:.1f} {at:.1f}H{high:.1f}M{high:.1f} {at - 4:.1f}v8"
        parts.append(element("path", d=whisker, class_=f"thin {select_series_class(which)}"))
    parts.append(mark("bar", x(guess.without), at, "fill grey"))
    return [*parts, mark(select_mark_shape(which), end, at, f"dot {select_series_class(which)}", title=tooltip)]


def _format_share(share: float | None) -> str:
    return "-" if share is None else format_percent(share)


def _format_interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{format_exact_percent(interval[0])} to {format_exact_percent(interval[1])}"


def _describe_figure(guesses: Sequence[GuessedRight], *, several: bool) -> str:
    """Of the first release, the attacker who is right most often with it."""
    first = [guess for guess in guesses if guess.release == guesses[0].release]
    if not first:
        return "No attacker was tried."
    release_guesses = [guess for guess in first if is_known(guess.with_release)]
    of = f" ({name(guesses[0].release)})" if several else ""
    if not release_guesses:
        best = max(first, key=lambda guess: guess.without)
        sentence = (
            f"Somebody who knows {name(best.knows)} guesses {format_percent(best.without)} right without the release"
        )
        return f"{sentence}; with it is not told{of}."
    best = max(release_guesses, key=lambda guess: guess.with_release or 0.0)
    return (
        f"Somebody who knows {name(best.knows)} guesses {format_percent(best.without)} right without the release and "
        f"{format_percent(best.with_release)} with it{of}."
    )
