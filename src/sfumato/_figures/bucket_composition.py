"""Draws the composition of buckets, with the share of each value and its cap, for each bucket size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato._figures.axes import draw_omitted_count
from sfumato._figures.figure import EDGE, WIDTH, Column, Figure, Head, assemble_figure, limit_width
from sfumato._figures.number_format import (
    format_count,
    format_name,
    format_percent,
    format_quantity,
    format_upper_percent,
)
from sfumato._figures.row_chart import put_largest_first
from sfumato._figures.svg import draw_text, element, estimate_width

SQUARE, STEP = 24.0, 28.0
MOST_SIZES = 12
BUCKET_KEYS = {"size", "count", "values"}
SLOPE = 0.7
"""The height of a slanted name divided by its length."""


@dataclass(frozen=True, slots=True)
class BucketSize:
    """Buckets of one size, with their number, and the number of their records with each value."""

    size: int
    bucket_count: int
    record_counts: Mapping[str, int]

    def compute_share(self, value: str) -> float:
        """The average share of a value in these buckets."""
        return self.record_counts.get(value, 0) / max(self.size * self.bucket_count, 1)

    @property
    def label(self) -> str:
        """The number and the size of the buckets, as text."""
        return f"{format_count(self.bucket_count, 'bucket')} of {self.size:,}"


@dataclass(frozen=True, slots=True)
class BucketComposition:
    """The composition of buckets, and the cap of each value."""

    sizes: tuple[BucketSize, ...]
    caps: Mapping[str, Fraction]

    @classmethod
    def of(cls, buckets: Iterable[Mapping[str, Any]], caps: Mapping[str, str]) -> BucketComposition:
        """Makes the composition from the entries `buckets` and `caps` of a plan (`ChosenMechanism.to_json`)."""
        sizes = [BucketSize(bucket["size"], bucket["count"], bucket["values"]) for bucket in buckets]
        return cls(tuple(sizes), {value: Fraction(cap) for value, cap in caps.items()})

    @classmethod
    def from_plan(cls, plan_json: Mapping[str, Any]) -> BucketComposition | None:
        """Makes the composition from a plan (`ChosenMechanism.to_json`). None if the plan has no buckets with caps."""
        for part in plan_json.values() if "caps" in plan_json else ():
            if isinstance(part, list) and part and isinstance(part[0], Mapping) and {*part[0]} == BUCKET_KEYS:
                return cls.of(part, plan_json["caps"])
        return None

    def get_cap(self, value: str) -> float:
        """The cap of a value. A value without a cap has the cap 1."""
        return float(self.caps.get(value, Fraction(1)))

    @property
    def values(self) -> list[str]:
        """The values, most frequent first."""
        total: dict[str, int] = {}
        for bucket_size in self.sizes:
            for value, records in bucket_size.record_counts.items():
                total[value] = total.get(value, 0) + records
        return sorted(total, key=lambda value: -total[value])


def draw_bucket_composition(composition: BucketComposition, width: float = WIDTH) -> Figure:
    """Draws a row of squares for each bucket size.

    A square is filled up to the share of a value, and a line marks its cap.
    """
    width = limit_width(width)
    sizes = put_largest_first(composition.sizes, lambda bucket_size: float(bucket_size.bucket_count), MOST_SIZES)
    drawn_sizes, values = sizes[:MOST_SIZES], composition.values
    label_end = EDGE + min(
        max((estimate_width(bucket_size.label) for bucket_size in drawn_sizes), default=0.0) + 10, width * 0.4
    )
    longest = min(max(map(estimate_width, values), default=0.0), 110.0)
    shown_values = values[: max(1, int((width - label_end - SLOPE * longest) / STEP))]
    captions = ["filled: share of a value in these buckets; line: its cap"]
    head = Head.of("Composition of buckets by size", captions, width)
    top = head.bottom + SLOPE * longest + 12
    parts = []
    for place, value in enumerate(shown_values):
        x = label_end + place * STEP + SQUARE / 2
        parts.append(draw_text(x, top - 6, value, room=longest + 1, rotation=f"rotate(-45 {x:.0f} {top - 6:.0f})"))
    rows = [(bucket_size, value) for bucket_size in sizes for value in values if bucket_size.record_counts.get(value)]
    places = {pair: str(row) for row, pair in enumerate((id(bucket_size), value) for bucket_size, value in rows)}
    largest = max([composition.get_cap(value) for value in shown_values], default=1.0)
    for number, bucket_size in enumerate(drawn_sizes):
        y = top + number * (SQUARE + 10)
        parts.append(draw_text(label_end - 8, y + SQUARE / 2 + 4, bucket_size.label, "end", room=label_end - 8 - EDGE))
        starts = [(label_end + place * STEP, value) for place, value in enumerate(shown_values)]
        frames = "".join(f"M{x:.1f} {y:.1f}h{SQUARE:.0f}v{SQUARE:.0f}h-{SQUARE:.0f}z" for x, _ in starts)
        parts.append(element("path", d=frames, class_="zone"))
        for x, value in starts:
            if row := places.get((id(bucket_size), value)):
                filled_height = SQUARE * min(bucket_size.compute_share(value) / largest, 1.0)
                tooltip = f"{format_name(value)}: {_describe_share(composition, bucket_size, value)}"
                size = {"width": SQUARE, "height": filled_height}
                bottom = y + SQUARE - filled_height
                parts.append(element("rect", x=x, y=bottom, class_="fill s0", title=tooltip, data_row=row, **size))
        levels = [(x, y + SQUARE * (1 - composition.get_cap(value) / largest)) for x, value in starts]
        caps = "".join(f"M{x:.1f} {level:.1f}h{SQUARE:.0f}" for x, level in levels)
        parts.append(element("path", d=caps, class_="line s1"))
    bottom = top + max(len(drawn_sizes), 1) * (SQUARE + 10)
    omitted_count = len(rows) - sum(
        bool(bucket_size.record_counts.get(value)) for bucket_size in drawn_sizes for value in shown_values
    )
    parts.append(
        draw_omitted_count(EDGE, bottom + 10, omitted_count)
        if rows
        else draw_text(EDGE, top + 12, "there are no buckets", "quiet")
    )
    columns = (
        Column("kind of bucket", format_name),
        Column("value", format_name),
        Column("records", format_quantity),
        Column("takes", format_percent),
        Column("at most", format_upper_percent),
    )
    table = [
        (entry.label, value, entry.record_counts[value], entry.compute_share(value), composition.get_cap(value))
        for entry, value in rows
    ]
    return assemble_figure(
        head, parts, size=(width, bottom + 18), reading=_describe_figure(composition), columns=columns, rows=table
    )


def _describe_share(composition: BucketComposition, size: BucketSize, value: str) -> str:
    """Describes the share of a value in some buckets, with the cap of the value."""
    return (
        f"{format_percent(size.compute_share(value))} of the {size.label}, with a cap of "
        f"{format_upper_percent(composition.get_cap(value))}"
    )


def _describe_figure(composition: BucketComposition) -> str:
    pairs = [
        (bucket_size, value)
        for bucket_size in composition.sizes
        for value in bucket_size.record_counts
        if bucket_size.record_counts[value]
    ]
    if not pairs:
        return "There are no buckets."
    most = max(composition.sizes, key=lambda bucket_size: bucket_size.bucket_count)
    others = len(composition.sizes) - 1
    sentence = f"{most.label} records" + (f", and {format_count(others, 'other size')}" if others else "")
    size, value = max(pairs, key=lambda pair: pair[0].compute_share(pair[1]) / composition.get_cap(pair[1]))
    if size.compute_share(value) > composition.get_cap(value) * (1 + 1e-9):
        return f"{sentence}; {format_name(value)} is above its cap: {_describe_share(composition, size, value)}."
    return (
        f"{sentence}; no value exceeds its cap, and {format_name(value)} comes closest: "
        f"{_describe_share(composition, size, value)}."
    )
