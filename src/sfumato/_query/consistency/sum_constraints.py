"""Sum constraints: families of disjoint sets of cells, each with its total."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato._core.array_types import Counts, Floats, Mask
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from scipy import sparse

TOLERANCE = 1e-10
"""The allowed rounding difference between a sum and its total, relative to the total."""
CONFLICT = 1e-8
"""The relative difference of two totals of the same cells that counts as a conflict."""


@dataclass(frozen=True, eq=False)
class Family:
    """Disjoint sets of cells, each with the total of its cells."""

    labels: Counts
    """The number of the set that contains each cell. -1 for a cell in no set."""
    totals: Floats
    title: str
    """The name of all totals, such as "the totals of sex"."""
    describe_total: Callable[[int], str]
    """Names one of the totals, such as "the total of sex = 'F'"."""

    def __post_init__(self) -> None:
        if self.labels.ndim != 1 or self.labels.max(initial=-1) >= len(self.totals) or self.labels.min(initial=0) < -1:
            raise QueryError(
                f"{self.title} do not fit the cells, because every set needs one total.", code="invalid-totals"
            )
        if not np.isfinite(self.totals).all():
            raise QueryError(f"{self.title} contain an infinite number or NaN.", code="invalid-totals")

    def add_up(self, values: Floats) -> Floats:
        """The sum of the cells of each set."""
        inside = self.labels >= 0
        set_sums = np.bincount(self.labels[inside], weights=values[inside], minlength=len(self.totals))
        return set_sums.astype(np.float64)  # without cells, the sums would be integers

    def spread(self, numbers: Floats) -> Floats:
        """The number of the set that contains each cell. 0 for a cell in no set."""
        if not len(numbers):
            return np.zeros(len(self.labels))
        spread_numbers: Floats = np.where(self.labels >= 0, numbers[self.labels], 0.0)
        return spread_numbers

    def restrict(self, cells: Mask, totals: Floats) -> Family:
        """The same sets, with fewer cells and other totals."""
        return Family(self.labels[cells], totals, self.title, self.describe_total)


@dataclass(frozen=True, eq=False)
class SumConstraints:
    """All sum constraints on the same cells."""

    families: Sequence[Family]
    size: int
    """The number of cells."""

    @cached_property
    def totals(self) -> Floats:
        """The total of every set, family after family."""
        return np.concatenate([np.zeros(0), *(family.totals for family in self.families)])

    def add_up(self, values: Floats) -> Floats:
        """The sum of every set, family after family."""
        return np.concatenate([np.zeros(0), *(family.add_up(values) for family in self.families)])

    def spread(self, numbers: Floats) -> Floats:
        """For each cell, the sum of the numbers of the sets that contain it."""
        spread_numbers = np.zeros(self.size)
        for family, family_numbers in zip(self.families, self.split(numbers), strict=True):
            spread_numbers += family.spread(family_numbers)
        return spread_numbers

    def split(self, numbers: Floats) -> list[Floats]:
        """Splits numbers of all sets by family."""
        ends = np.cumsum([len(family.totals) for family in self.families])
        return np.split(numbers, ends[:-1]) if len(ends) else []

    def describe_total(self, number: int) -> str:
        """The name of a set."""
        for family in self.families:
            if number < len(family.totals):
                return family.describe_total(number)
            number -= len(family.totals)
        raise IndexError(number)

    @cached_property
    def is_largest(self) -> Mask:
        """Marks the sets of the family with the most sets."""
        sizes = [len(family.totals) for family in self.families]
        return np.repeat(np.arange(len(sizes)) == np.argmax(sizes), sizes)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """A matrix with a row for each set and a column for each cell. It has 1 where the cell is in the set."""
        from scipy import sparse  # noqa: PLC0415 - most answers do not need scipy

        places, cells, first = [], [], 0
        for family in self.families:
            inside = np.flatnonzero(family.labels >= 0)
            places.append(family.labels[inside] + first)
            cells.append(inside)
            first += len(family.totals)
        rows, columns = (np.concatenate(arrays).astype(np.int32) for arrays in (places, cells))
        return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(first, self.size))


def make_checked_sums(values: Floats, variances: Floats, families: Sequence[Family]) -> SumConstraints:
    """Builds the constraints, and rejects numbers and variances that do not form a table."""
    if (
        values.ndim != 1
        or values.shape != variances.shape
        or any(len(family.labels) != len(values) for family in families)
    ):
        raise QueryError(
            "each cell of a table needs a number, a variance and a place in every family of sums.",
            code="invalid-cells",
        )
    if not (np.isfinite(values).all() and np.isfinite(variances).all() and (variances >= 0).all()):
        raise QueryError(
            "a table can be made consistent only if every cell has a number and a variance.", code="invalid-cells"
        )
    return SumConstraints(tuple(families), len(values))


def is_near(one: Floats | float, other: Floats | float, tolerance: float) -> Mask:
    """Whether rounding alone explains the difference of two numbers."""
    is_close: Mask = np.abs(np.subtract(one, other)) <= tolerance * np.maximum(
        1.0, np.maximum(np.abs(one), np.abs(other))
    )
    return is_close
