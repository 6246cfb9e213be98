"""Bucketing by brute force, and small random problems to compare with."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Request:
    counts: tuple[int, ...]
    caps: tuple[Fraction, ...]
    smallest: int
    largest: int

    def posed(self) -> Problem | None:
        """The problem; None if the request fails its checks."""
        try:
            return pose(self.counts, self.caps, self.smallest, self.largest)
        except NoBucketingError:
            return None


def settings(total: int, smallest: int, largest: int) -> Iterator[Setting]:
    """All numbers of buckets of all sizes that hold exactly so many records."""
    for pairs in _pairs(total, smallest, largest):
        yield Setting.of(pairs)


def _pairs(total: int, smallest: int, largest: int) -> Iterator[Pairs]:
    if largest < smallest:
        if total == 0:
            yield ()
        return
    for buckets in range(total // largest + 1):
        for rest in _pairs(total - buckets * largest, smallest, largest - 1):
            yield (*rest, (largest, buckets))


def can_be_filled(request: Request, setting: Setting) -> bool:
    """Fill bucket after bucket in every possible way."""
    sizes = tuple(size for size, count in setting for _ in range(count))

    @functools.cache
    def rest_can(bucket: int, left: tuple[int, ...]) -> bool:
        if bucket == len(sizes):
            return True
        most = [min(have, int(cap * sizes[bucket])) for have, cap in zip(left, request.caps, strict=True)]
        return any(
            rest_can(bucket + 1, tuple(have - took for have, took in zip(left, taken, strict=True)))
            for taken in _divisions(sizes[bucket], most)
        )

    return rest_can(0, request.counts)


def _divisions(amount: int, most: list[int]) -> Iterator[tuple[int, ...]]:
    if not most:
        if amount == 0:
            yield ()
        return
    for first in range(min(amount, most[0]) + 1):
        for rest in _divisions(amount - first, most[1:]):
            yield (first, *rest)


def seeded_requests(seed: int, number: int) -> Iterator[tuple[Request, Problem]]:
    """Random requests that pass their checks, the same for the same seed."""
    source = random.Random(seed)
    while number:
        values, smallest = source.randint(1, 5), source.randint(1, 2)
        counts = tuple(source.randint(0, 6) for _ in range(values))
        total = max(1, sum(counts))
        wanted = [Fraction(source.randint(1, 9), source.randint(1, 9)) for _ in counts]
        caps = tuple(
            min(Fraction(1), max(cap, Fraction(count, total))) for cap, count in zip(wanted, counts, strict=True)
        )
        request = Request(counts, caps, smallest, source.randint(smallest, 8))
        problem = request.posed()
        if problem is not None and sum(counts):
            number -= 1
            yield request, problem


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Small requests; half of them have caps of few denominators, so that conditions are often tight."""
    counts = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any)))
    caps = tuple(draw(st.fractions(Fraction(1, 8), 1, max_denominator=9)) for _ in counts)
    smallest = draw(st.integers(1, 2))
    return Request(counts, caps, smallest, draw(st.integers(smallest, 7)))
