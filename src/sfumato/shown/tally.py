"""What is counted in a release, and what an estimator makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[Any]
"""Numbers of values in the order of their domain, in the narrowest unsigned type."""

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Numbers = Counts | Floats
"""Counts, or sums of numbers of the counted records."""

Mask = npt.NDArray[np.bool_]


def margins(counts: npt.ArrayLike, sizes: Sequence[int]) -> list[npt.NDArray[Any]]:
    """The counts of each column alone, from those of all combinations of the columns' values, the last one fastest."""
    table = np.asarray(counts).reshape(tuple(sizes))
    axes = range(table.ndim)
    return [table.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]


@dataclass(frozen=True, slots=True)
class Replaced:
    """What is published of a batch: the codes of the values, or the bits of a set for each record; and their cells.

    Nothing of the values where only the cell of a record is published.
    """

    values: Codes | None
    cells: Codes | None = None


@dataclass(frozen=True, slots=True)
class Symbols:
    """What a record of a release shows: one symbol, which is a value of the domain, or a cell and a value in it."""

    places: Codes
    """The value of each symbol, as its place in the domain."""
    cells: Codes | None = None
    """The cell of each symbol; None where the release has no cells."""


@dataclass(frozen=True, slots=True)
class Members:
    """What a record of a release shows: a set of values of the domain."""

    size: int
    """The number of values of the domain."""
    as_list: bool
    """Whether the sets are lists of values; else they are bits, the first value the highest bit of the first byte."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """What a record of a release shows: the bucket it is in; what the buckets hold is in a table beside."""


Observation = Symbols | Members | Buckets


@dataclass(frozen=True, eq=False)
class Holdings:
    """What the buckets hold: a line for each bucket and value that meet."""

    buckets: Counts
    places: Counts
    counts: Counts
    domain_size: int

    @cached_property
    def sizes(self) -> Counts:
        """How many records each bucket holds."""
        return np.bincount(self.buckets, weights=self.counts).astype(np.int64)

    @cached_property
    def held(self) -> Counts:
        """How many records hold each value."""
        return np.bincount(self.places, weights=self.counts, minlength=self.domain_size).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Tally:
    """For the rows that satisfy a predicate on public columns: how many show each symbol, or each member of a set.

    `whole` is the tally of all rows of the release, for the estimators that learn from it. Where a row counts as much
    as a number in its public columns says, counts and rows are sums of those numbers.
    """

    counts: Numbers
    rows: float
    """The number of rows that satisfy the predicate; exact, because public columns are untouched."""
    whole: Tally | None = None
    holdings: Holdings | None = None
    """What the buckets hold, where counts are by bucket."""

    @classmethod
    def of_symbols(cls, counts: Counts) -> Tally:
        """A tally in which every row shows one symbol."""
        return cls(counts, int(counts.sum()))


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of which the same is asked: the sum of z * theta[true value], where z comes from their public columns."""

    theta: Floats
    """One number for each place of the domain."""
    first: Tally
    """What the records show, each weighted by its z."""
    second: Tally
    """The same, weighted by z²; for a count, where every z is 1, the same object as `first`."""
    is_positive: bool = False
    """Whether no z is negative, so that certain bounds are known; a count needs not say so."""

    @property
    def has_bounds(self) -> bool:
        """Whether what the records add lies between what the smallest and the largest theta would add."""
        return self.is_positive or self.first is self.second


@dataclass(frozen=True, slots=True)
class Moments:
    """An estimate of a count or a sum between `least` and `most`, and the variance it has if the count is c.

    The bounds are certain; they are infinite where nothing is. The variance is `variance_base + variance_slope * c`:
    linear in the unknown count, which is what lets an interval solve for c instead of plugging an estimate in. None
    where nothing is known about the error.
    """

    value: float
    variance_base: float | None
    variance_slope: float
    most: float
    least: float = 0
    note: str | None = None
    """What to beware of, beside this number."""
    is_own_note: bool = False
    """Whether the note is about this very number, and not about what is made from it."""

    def variance_at(self, count: float) -> float | None:
        """The variance of the estimate if the true count were `count`."""
        if self.variance_base is None:
            return None
        return max(0.0, self.variance_base + self.variance_slope * count)


@dataclass(frozen=True, eq=False)
class ManyMoments:
    """The moments of many estimates, as `Moments` has them for one; not-a-number where no variance is known."""

    value: Floats
    base: Floats
    slope: Floats
    most: Floats
    least: Floats
    notes: npt.NDArray[np.object_] | None = None
    """What to beware of, beside each; None where there is nothing."""

    @classmethod
    def unfilled(cls, size: int) -> ManyMoments:
        """Room for so many."""
        value, base, slope, most, least = np.zeros((5, size))
        return cls(value, base, slope, most, least, np.full(size, None, dtype=np.object_))

    def put(self, places: Counts, found: ManyMoments) -> None:
        """Fill a part in."""
        for name in ("value", "base", "slope", "most", "least"):
            getattr(self, name)[places] = getattr(found, name)
        if self.notes is not None and found.notes is not None:
            self.notes[places] = found.notes

    @classmethod
    def of(cls, moments: Sequence[Moments]) -> ManyMoments:
        """The moments of estimates that were made one by one."""
        return cls(
            np.array([each.value for each in moments], dtype=np.float64),
            np.array([each.variance_base for each in moments], dtype=np.float64),  # None becomes not-a-number
            np.array([each.variance_slope for each in moments], dtype=np.float64),
            np.array([each.most for each in moments], dtype=np.float64),
            np.array([each.least for each in moments], dtype=np.float64),
            np.array([each.note for each in moments], dtype=np.object_),
        )

    @classmethod
    def exact(cls, counts: Floats) -> ManyMoments:
        """Counts without error."""
        nothing = np.zeros(len(counts))
        return cls(counts, nothing, nothing, counts, counts)

    def one(self, number: int, note: str | None = None) -> Moments:
        """The moments of one estimate."""
        base = float(self.base[number])
        return Moments(
            float(self.value[number]),
            None if np.isnan(base) else base,
            float(self.slope[number]),
            float(self.most[number]),
            float(self.least[number]),
            note,
        )


@dataclass(frozen=True, slots=True)
class Risk:
    """What knowing the groups of a table adds to a release: the worst belief, and how many records it breaches."""

    worst: float
    """The largest chance that a protected value within its prior in its group can come to have."""
    breached: float
    """The expected share of the records whose published value lifts such a chance above the bound."""
