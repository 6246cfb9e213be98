"""What the thesis on buckets prints: its small tables with their caps, its tables of buckets, and how to check them.

Notation: x_i = values, o_i = counts, f_i = shares, f'_i = caps; S = size, b = buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from papers.experiment_outcome import Outcome, is_within, judge
from sfumato._request.bucket_and_decoy_requirements import ShareCap
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers, compute_least_size

Buckets = Sequence[Sequence[int]]
"""The numbers of the values that each bucket holds."""


@dataclass(frozen=True)
class SmallTable:
    """A table of the thesis: its counts, and the caps factor * share + offset."""

    counts: tuple[int, ...]
    factor: str
    offset: str = "0"

    @property
    def total(self) -> int:
        """The number of records."""
        return sum(self.counts)

    @cached_property
    def caps(self) -> tuple[Fraction, ...]:
        """The cap of each value."""
        histogram = Histogram.of(range(len(self.counts)), self.counts)
        return ShareCap.from_shares(histogram, self.factor, self.offset).list_caps(histogram.values)

    def make_problem(self, smallest: int, largest: int) -> Problem:
        """What is to be bucketed."""
        return pose(self.counts, self.caps, smallest, largest)

    def compute_floors(self, *sizes: int) -> Integers:
        """How many records of each value fit into a bucket of each size."""
        return np.array([[int(cap * size) for size in sizes] for cap in self.caps])

    def list_runs(self) -> list[tuple[str, int]]:
        """Neighbouring values with the same count: what they are called, and the first."""
        starts = [place for place, count in enumerate(self.counts) if not place or count != self.counts[place - 1]]
        ends = [*starts[1:], len(self.counts)]
        return [
            (f"x{start + 1}" if end == start + 1 else f"x{start + 1}-x{end}", start)
            for start, end in zip(starts, ends, strict=True)
        ]


EXAMPLE_5 = SmallTable((2, 2, 2, 4, 4, 4, 4, 7, 7), "3", "0.02")
EXAMPLE_8 = SmallTable((1,) * 8 + (6, 6, 6, 6, 9, 9), "2", "0.05")
EXAMPLE_10 = SmallTable((4, 4, 4, 8, 8), "2")
EXAMPLE_13 = SmallTable((2, 2, 2, 2, 4, 4, 4, 4, 7, 8), "3", "0.02")

TABLE_3_4 = ((1, 2, 3, 8, 8, 9), (1, 2, 3, 8, 9, 9), *((4, 5, 6),) * 4, *((8, 9),) * 4)
TABLE_4_1 = (((9, 9), *((9,),) * 5), ((9, 9, 8), (9, 8, 8), *((9, 8),) * 4))
TABLE_4_2 = (
    (9, 9, 8, 6, 5, 3),
    (9, 8, 8, 6, 5, 3),
    *((9, 8, 7, 6, 4, 2),) * 2,
    *((9, 8, 7, 5, 4, 1),) * 2,
)
TABLE_5_2 = (
    (9, 10, 12, 13),
    (9, 11, 12, 14),
    *((9, 11, 13, 14),) * 3,
    (10, 11, 13, 14),
    *((10, 12, 13, 14),) * 3,
    tuple(range(1, 15)),
)


def format_setting(setting: Setting) -> str:
    """Buckets in words, from the smallest on."""
    return ", ".join(f"{count} of {size}" for size, count in setting)


def format_values(places: Sequence[int]) -> str:
    """Values by their numbers."""
    return ", ".join(f"x{place + 1}" for place in places)


def is_as_printed(ours: float | Fraction, printed: str) -> bool:
    """Whether a number is within one of the last printed digit: some are rounded there, some cut off."""
    return is_within(float(ours), float(printed), 10.0 ** -_count_digits(printed))


def _count_digits(printed: str) -> int:
    return len(printed.partition(".")[2])


def count_held(buckets: Buckets, values: int) -> list[int]:
    """How many records of each value all buckets together hold."""
    value_counts = Counter(number - 1 for bucket in buckets for number in bucket)
    return [value_counts[place] for place in range(values)]


def are_within_caps(buckets: Buckets, caps: Sequence[Fraction]) -> bool:
    """Whether no value has more than its cap of a bucket."""
    return all(
        count <= caps[number - 1] * len(bucket) for bucket in buckets for number, count in Counter(bucket).items()
    )


def compare_counts_and_caps(table: SmallTable, shares: Sequence[str], caps: Sequence[str]) -> Outcome:
    """Shares and caps beside the printed ones, for each run of equal counts."""
    rows, agreeing, rounded = [], [], []
    for (name, place), printed_share, printed_cap in zip(table.list_runs(), shares, caps, strict=True):
        share, cap = Fraction(table.counts[place], table.total), table.caps[place]
        rows.append(
            (name, table.counts[place], float(share), printed_share, float(cap), printed_cap, compute_least_size(cap))
        )
        agreeing += [is_as_printed(share, printed_share), is_as_printed(cap, printed_cap)]
        rounded += [
            f"{float(number):.{_count_digits(printed)}f}" == printed
            for number, printed in ((share, printed_share), (cap, printed_cap))
        ]
    headings = ("values", "records", "share", "share as printed", "cap", "cap as printed", "least bucket")
    off, cut = agreeing.count(False), rounded.count(False)
    sentence = (
        f"All {len(agreeing)} different shares and caps are as printed"
        + (f"; {cut} of them {'is' if cut == 1 else 'are'} cut off instead of rounded." if cut else ".")
        if not off
        else f"{off} of the {len(agreeing)} shares and caps are not as printed."
    )
    return Outcome(headings, tuple(rows), judge(agreeing), sentence)
