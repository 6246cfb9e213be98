"""Tables for buckets, and a check of the two tables of a release that goes through them line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

Table = tuple[tuple[int, ...], tuple[Fraction, ...]]
"""The count and the cap of each value."""

one_cap = st.fractions(Fraction(1, 8), 1, max_denominator=9)


@st.composite
def tables(draw: st.DrawFn, most: int = 30) -> Table:
    """Counts, and caps that are at least the shares; about every other cap is no larger than that."""
    counts = tuple(draw(st.lists(st.integers(0, most), min_size=1, max_size=6).filter(any)))
    shares = [Fraction(count, sum(counts)) for count in counts]
    caps = (max(share, draw(one_cap)) if draw(st.booleans()) or not share else share for share in shares)
    return counts, tuple(caps)


def complaint(
    buckets: Sequence[int], lines: Sequence[Mapping[str, Any]], domain: Sequence[Any], caps: Sequence[Fraction]
) -> str | None:
    """What is wrong with the bucket of each record and the lines of bucket, value and count; None if nothing is."""
    sizes = Counter(buckets)
    if sorted(sizes) != list(range(len(sizes))):
        return "ids do not run from 0"
    if any(line["bucket"] not in sizes or line["count"] < 1 or line["value"] not in domain for line in lines):
        return "a line is about nothing"
    places = [(line["bucket"], list(domain).index(line["value"])) for line in lines]
    if places != sorted(set(places)):
        return "lines are not in order"
    for bucket, size in sizes.items():
        mine = [line for line in lines if line["bucket"] == bucket]
        if sum(line["count"] for line in mine) != size:
            return "the tables disagree"
        if any(Fraction(line["count"], size) > caps[list(domain).index(line["value"])] for line in mine):
            return "a value is above its cap"
    return None
