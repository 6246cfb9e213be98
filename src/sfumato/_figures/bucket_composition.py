"""What buckets hold: for each size of bucket, how much of it each value takes, and how much it may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato._figures.axes import left_out
from sfumato._figures.figure import EDGE, WIDTH, Column, Figure, Head, drawn_width, finished
from sfumato._figures.number_format import name, percent, quantity, some
from sfumato._figures.row_chart import most_telling
from sfumato._figures.svg import element, text, width_of

SQUARE, STEP = 24.0, 28.0
MOST_SIZES = 12
SAID_OF_BUCKETS = {"size", "count", "values"}
SLOPE = 0.7
"""How much of its length a slanted name is high."""


@dataclass(frozen=True, slots=True)
class BucketSize:
    """Buckets of one size: how many there are, and how many records of each value they hold together."""

    size: int
    buckets: int
    records: Mapping[str, int]

    def share(self, value: str) -> float:
        """Which part of these buckets a value takes, on average."""
        return self.records.get(value, 0) / max(self.size * self.buckets, 1)

    @property
    def words(self) -> str:
        """How many there are of which size."""
        return f"{some(self.buckets, 'bucket')} of {self.size:,}"


@dataclass(frozen=True, slots=True)
class Composition:
    """What buckets hold, and the most that each value may take of one."""

    sizes: tuple[BucketSize, ...]
    caps: Mapping[str, Fraction]

    @classmethod
    def of(cls, held: Iterable[Mapping[str, Any]], caps: Mapping[str, str]) -> Composition:
        """From the entries `buckets` and `caps` of a plan (`Chosen.to_json`)."""
        sizes = [BucketSize(each["size"], each["count"], each["values"]) for each in held]
        return cls(tuple(sizes), {value: Fraction(cap) for value, cap in caps.items()})

    @classmethod
    def found_in(cls, explained: Mapping[str, Any]) -> Composition | None:
        """From what a plan tells (`Chosen.to_json`), if it is one of buckets with caps: by what it says."""
        for held in explained.values() if "caps" in explained else ():
            if isinstance(held, list) and held and isinstance(held[0], Mapping) and {*held[0]} == SAID_OF_BUCKETS:
                return cls.of(held, explained["caps"])
        return None

    def cap(self, value: str) -> float:
        """The most that a value may take; all where nothing is said."""
        return float(self.caps.get(value, Fraction(1)))

    @property
    def values(self) -> list[str]:
        """The values, those of most records first."""
        total: dict[str, int] = {}
        for each in self.sizes:
            for value, records in each.records.items():
                total[value] = total.get(value, 0) + records
        return sorted(total, key=lambda value: -total[value])


def bucket_composition(composition: Composition, width: float = WIDTH) -> Figure:
    """A line of squares for each size of bucket, a square a value, filled by what it takes; the cap is a line."""
    width = drawn_width(width)
    sizes = most_telling(composition.sizes, lambda each: float(each.buckets), MOST_SIZES)
    drawn, values = sizes[:MOST_SIZES], composition.values
    label = EDGE + min(max((width_of(each.words) for each in drawn), default=0.0) + 10, width * 0.4)
    longest = min(max(map(width_of, values), default=0.0), 110.0)
    shown = values[: max(1, int((width - label - SLOPE * longest) / STEP))]
    measured = ["filled: the part of these buckets that a value takes; line: the most that it may take"]
    head = Head.of("What buckets of each size hold", measured, width)
    top = head.bottom + SLOPE * longest + 12
    parts = []
    for place, value in enumerate(shown):
        x = label + place * STEP + SQUARE / 2
        parts.append(text(x, top - 6, value, room=longest + 1, turned=f"rotate(-45 {x:.0f} {top - 6:.0f})"))
    rows = [(each, value) for each in sizes for value in values if each.records.get(value)]
    places = {pair: str(row) for row, pair in enumerate((id(each), value) for each, value in rows)}
    largest = max([composition.cap(value) for value in shown], default=1.0)
    for number, each in enumerate(drawn):
        y = top + number * (SQUARE + 10)
        parts.append(text(label - 8, y + SQUARE / 2 + 4, each.words, "end", room=label - 8 - EDGE))
        starts = [(label + place * STEP, value) for place, value in enumerate(shown)]
        frames = "".join(f"M{x:.1f} {y:.1f}h{SQUARE:.0f}v{SQUARE:.0f}h-{SQUARE:.0f}z" for x, _ in starts)
        parts.append(element("path", d=frames, class_="zone"))
        for x, value in starts:
            if row := places.get((id(each), value)):
                filled = SQUARE * min(each.share(value) / largest, 1.0)
                words = f"{name(value)}: {_takes(composition, each, value)}"
                size = {"width": SQUARE, "height": filled}
                bottom = y + SQUARE - filled
                parts.append(element("rect", x=x, y=bottom, class_="fill s0", title=words, data_row=row, **size))
        levels = [(x, y + SQUARE * (1 - composition.cap(value) / largest)) for x, value in starts]
        caps = "".join(f"M{x:.1f} {level:.1f}h{SQUARE:.0f}" for x, level in levels)
        parts.append(element("path", d=caps, class_="line s1"))
    bottom = top + max(len(drawn), 1) * (SQUARE + 10)
    more = len(rows) - sum(bool(each.records.get(value)) for each in drawn for value in shown)
    parts.append(left_out(EDGE, bottom + 10, more) if rows else text(EDGE, top + 12, "there are no buckets", "quiet"))
    columns = (
        Column("kind of bucket", name),
        Column("value", name),
        Column("records", quantity),
        Column("takes", percent),
        Column("at most", percent),
    )
    table = [(one.words, value, one.records[value], one.share(value), composition.cap(value)) for one, value in rows]
    return finished(head, parts, size=(width, bottom + 18), reading=_reading(composition), columns=columns, rows=table)


def _takes(composition: Composition, size: BucketSize, value: str) -> str:
    """How much of some buckets a value takes, and how much it may take."""
    return f"{percent(size.share(value))} of the {size.words}, at most {percent(composition.cap(value))}"


def _reading(composition: Composition) -> str:
    pairs = [(each, value) for each in composition.sizes for value in each.records if each.records[value]]
    if not pairs:
        return "There are no buckets."
    most = max(composition.sizes, key=lambda each: each.buckets)
    others = len(composition.sizes) - 1
    said = f"{most.words} records" + (f", and {some(others, 'other size')}" if others else "")
    size, value = max(pairs, key=lambda pair: pair[0].share(pair[1]) / composition.cap(pair[1]))
    if size.share(value) > composition.cap(value) * (1 + 1e-9):
        return f"{said}; {name(value)} is above its cap: {_takes(composition, size, value)}."
    return f"{said}; no value takes more than its cap, {name(value)} comes nearest: {_takes(composition, size, value)}."
