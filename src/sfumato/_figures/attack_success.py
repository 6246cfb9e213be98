"""What publishing adds: how many people attackers guess right without a release, and with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sfumato._figures.axes import series, shape
from sfumato._figures.figure import WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import is_known, name, percent, percent_exactly
from sfumato._figures.row_chart import MOST_ROWS, Rows, most_telling
from sfumato._figures.scales import Scale, shares
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
        without, found = attack.without.right, attack.with_release
        control = None if attack.control is None else attack.control.right
        if found is None:
            return cls(attack.knows, release, without, None, control)
        return cls(attack.knows, release, without, found.right, control, found.interval)

    @property
    def words(self) -> str:
        """Both shares."""
        return f"{percent(self.without)} \u2192 {percent(self.with_release)}"


def known_columns(told: Sequence[str]) -> str:
    """What somebody knows who was told some columns, or none: then how frequent the values are."""
    if not told:
        return "how frequent the values are"
    return name(told[0]) if len(told) == 1 else f"all {len(told)} public columns"


def attackers_ladder(guesses: Sequence[GuessedRight], width: float = WIDTH) -> Figure:
    """For each attacker right guesses without the release and with it, a row a mechanism; controls are hollow."""
    width = drawn_width(width)
    known = dict.fromkeys(each.knows for each in guesses)
    releases = list(dict.fromkeys(each.release for each in guesses))
    several = len(releases) > 1
    ordered = [each for knows in known for each in guesses if each.knows == knows]
    ordered = most_telling(ordered, lambda each: (each.with_release or each.without) - each.without)
    drawn = ordered[:MOST_ROWS]
    measured = ["people guessed right: without the release (grey) and with it (coloured)"]
    measured += [] if several else ["by somebody who knows of a person:"]
    if any(is_known(each.control) for each in drawn):
        measured.append("hollow: a control")
    head = Head.of("What attackers guess right", measured, width)
    rows = Rows.below(
        head,
        width,
        [each.release if several else each.knows for each in drawn],
        [each.words for each in drawn],
        groups=[f"Somebody who knows {each.knows}" for each in drawn] if several else (),
        total=len(ordered),
    )
    numbers = [share for each in drawn for share in (each.without, each.with_release, each.control)]
    x = shares(numbers, rows.area.left, rows.area.right)
    parts = [rows.frame(x, percent, "people guessed right")]
    for number, each in enumerate(drawn):
        parts.append(rows.said(number, each.words))
        parts += _dumbbell(rows, number, x, each, releases.index(each.release))
    columns = (
        Column("knows", name),
        Column("release", name),
        Column("right without", percent),
        Column("right with", percent),
        Column("95% interval", _between),
        Column("control", _if_tried),
    )
    table = [
        (each.knows, each.release, each.without, each.with_release, each.interval, each.control) for each in ordered
    ]
    return finished(
        head,
        parts,
        size=(width, rows.area.height),
        reading=_reading(guesses, several=several),
        columns=columns,
        rows=table,
    )


def _dumbbell(rows: Rows, number: int, x: Scale, each: GuessedRight, which: int) -> list[str]:
    """A control as a hollow dot, then from right guesses without the release to those with it, and their interval."""
    at, parts = rows.middles[number], []
    words = f"{name(each.knows)}, {name(each.release)}: {each.words}"
    if each.control is not None and is_known(each.control):
        control = f"control: {percent(each.control)}"
        parts.append(element("circle", cx=x(each.control), cy=at, r=4, class_="hollow grey", title=control))
    if each.with_release is None or not is_known(each.with_release):
        return [*parts, mark("bar", x(each.without), at, "fill grey", title=words)]
    end = x(each.with_release)
    parts.append(rows.across(number, x(each.without), end, f"broad {series(which)}"))
    if each.interval is not None:
        low, high = (x(end) for end in each.interval)
        whisker = f"M{low:.1f} {at - 4:.1f}v8M{low:.1f} {at:.1f}H{high:.1f}M{high:.1f} {at - 4:.1f}v8"
        parts.append(element("path", d=whisker, class_=f"thin {series(which)}"))
    parts.append(mark("bar", x(each.without), at, "fill grey"))
    return [*parts, mark(shape(which), end, at, f"dot {series(which)}", title=words)]


def _if_tried(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _between(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{percent_exactly(interval[0])} to {percent_exactly(interval[1])}"


def _reading(guesses: Sequence[GuessedRight], *, several: bool) -> str:
    """Of the first release, the attacker who is right most often with it."""
    first = [each for each in guesses if each.release == guesses[0].release]
    if not first:
        return "No attacker was tried."
    told = [each for each in first if is_known(each.with_release)]
    of = f" ({name(guesses[0].release)})" if several else ""
    if not told:
        best = max(first, key=lambda each: each.without)
        said = f"Somebody who knows {name(best.knows)} guesses {percent(best.without)} right without the release"
        return f"{said}; with it is not told{of}."
    best = max(told, key=lambda each: each.with_release or 0.0)
    return (
        f"Somebody who knows {name(best.knows)} guesses {percent(best.without)} right without the release and "
        f"{percent(best.with_release)} with it{of}."
    )
