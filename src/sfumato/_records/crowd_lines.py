"""The crowds that conditions select, and sums over them.

A crowd is a group of people with equal public columns whose counts are published. A condition on public columns selects
a crowd as a whole. So the sum of any number over the selected people is a weighted sum over the selected crowds.

A coarse table counts all people by some of the public columns. A condition can use a group of this table if it selects
everybody in the group with one weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Counts, Floats, Indices
from sfumato._records.tally import DerivedCache, SideContents, Tally
from sfumato.errors import InfeasibleError, InternalError, ReleaseFormatError

MOST_COUNTS = 1 << 27
"""The largest number of counts: the number of crowds times the size of the domain."""
LARGEST_COUNT = 1 << 35
"""The largest number of people or noisy count of a group. Sums of all counts then fit into 64 bits."""


def are_possible_counts(counts: npt.NDArray[Any]) -> bool:
    """Whether these are whole numbers that are small enough to be added up.

    A release's noise never makes them larger.
    """
    is_whole = np.issubdtype(counts.dtype, np.integer)
    return is_whole and bool(((counts >= -LARGEST_COUNT) & (counts <= LARGEST_COUNT)).all())


def make_too_many_counts_error(crowds: int, size: int) -> InfeasibleError:
    """Makes the error for a table with too many counts."""
    return InfeasibleError(
        f"{crowds:,} groups of people with equal public columns would publish {crowds * size:,} counts; at most "
        f"{MOST_COUNTS:,} are possible. Group public columns into ranges (`ranges=`), drop some (`drop=`), or publish "
        "records (`records=True`).",
        code="too-many-counts",
        fields={"counts": crowds * size, "limit": MOST_COUNTS},
    )


@dataclass(frozen=True, eq=False)
class CrowdTable(DerivedCache, SideContents):
    """The published counts of all crowds, with a row for each crowd."""

    public: pa.Table
    """The public columns."""
    people: Counts
    """The number of people in each crowd."""
    noisy: Counts
    """The noisy count of each value (columns) in each crowd (rows)."""
    estimates: Floats
    """The estimated count of each value in each crowd."""
    people_outside: int = 0
    """The number of people outside crowds."""
    coarse: tuple[CoarseGroups, ...] = ()
    """The coarse tables."""

    def __len__(self) -> int:
        return len(self.people)

    def attach_to(self, tally: Tally, release_tally: Tally | None) -> Tally:
        """Gives the counts of the crowds to a tally of selected crowds."""
        crowds = None if tally.crowds is None else replace(tally.crowds, table=self)
        return replace(tally, release_tally=release_tally, crowds=crowds)

    @cached_property
    def first_coarse_groups(self) -> Indices:
        """The number of each coarse table's first group. The groups of all tables are numbered together."""
        return np.cumsum([0, *(len(groups.table) for groups in self.coarse)])


@dataclass(frozen=True, eq=False)
class CoarseGroups:
    """A coarse table. For each of its groups, it has the crowds and sets that also publish its people."""

    table: CrowdTable
    """The counts of the groups."""
    crowd_groups: Indices
    """The group of each crowd."""
    members: Counts
    """For each group (rows), how many sets of people outside crowds have each member (columns).

    The last column has the number of these people.
    """

    @classmethod
    def check(cls, table: CrowdTable, crowd_groups: Indices, members: Counts, crowd_people: Counts) -> CoarseGroups:
        """Checks that every person is in a group, and that no group has other people."""
        is_known = (crowd_groups >= 0).all() and len(crowd_groups) == len(crowd_people)
        if is_known:
            people = np.bincount(crowd_groups, weights=crowd_people, minlength=len(table)).astype(np.int64)
            is_known = np.array_equal(people + members[:, -1], table.people)
        if not is_known:
            raise ReleaseFormatError(
                "the tables of counts do not have the same people; get the release again from its publisher.",
                code="inconsistent-counts",
            )
        return cls(table, crowd_groups, members)


@dataclass(frozen=True, eq=False)
class CrowdLines:
    """The selected crowds of each line of a tally."""

    crowds: Indices
    """The numbers of the crowds, line after line."""
    starts: Indices
    """The first position of each line. The last item is the number of all positions."""
    weights: Floats | None = None
    """What a person in each selected crowd adds to the tally. None means 1."""
    table: CrowdTable | None = None
    coarse: CrowdLines | None = None
    """The coarse groups that each line selects as a whole. None without coarse tables.

    The groups of all coarse tables are numbered together. No person of a line is in two of its groups.
    """

    @classmethod
    def of_one(cls, crowds: Indices, weights: Floats | None = None) -> CrowdLines:
        """The crowds of a tally of one line."""
        return cls(crowds, np.array([0, len(crowds)]), weights)

    @classmethod
    def of_none(cls, lines: int, size: int) -> CrowdLines:
        """Lines that select no crowd, for a domain of this size."""
        counts = np.zeros((0, size), dtype=np.int64)
        table = CrowdTable(pa.table({}), np.zeros(0, dtype=np.int64), counts, counts.astype(np.float64))
        return cls(np.zeros(0, dtype=np.int64), np.zeros(lines + 1, dtype=np.int64), table=table)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> CrowdTable:
        """The counts of all crowds."""
        if self.table is None:
            raise InternalError("the counts of the crowds were not attached.", code="no-crowd-counts")
        return self.table

    @cached_property
    def sizes(self) -> Counts:
        """The number of selected crowds of each line."""
        return np.diff(self.starts)

    def sum(self, numbers: Floats) -> Floats:
        """For each line, the weighted sum of a number that each crowd has."""
        selected = numbers.take(self.crowds)
        if self.weights is not None:
            selected = selected * self.weights
        return self._add_up(selected)

    def _add_up(self, selected: Floats) -> Floats:
        """For each line, the sum of a number that each selected crowd has."""
        if len(self) == 1:
            return np.array([selected.sum()], dtype=np.float64)
        sums = np.zeros(len(self))
        is_filled = self.sizes > 0
        if is_filled.any():
            sums[is_filled] = np.add.reduceat(selected, self.starts[:-1][is_filled])
        return sums

    def sum_weights(self) -> Floats:
        """The sum of the weights in each line."""
        return self.sizes.astype(np.float64) if self.weights is None else self._add_up(self.weights)

    def take(self, lines: Indices) -> CrowdLines:
        """The crowds of some lines."""
        if np.array_equal(lines, np.arange(len(self))):
            return self
        parts = [
            slice(*ends) for ends in zip(self.starts[lines].tolist(), self.starts[lines + 1].tolist(), strict=True)
        ]
        crowds = np.concatenate([self.crowds[:0], *(self.crowds[part] for part in parts)])
        weights = None
        if self.weights is not None:
            weights = np.concatenate([self.weights[:0], *(self.weights[part] for part in parts)])
        coarse = None if self.coarse is None else self.coarse.take(lines)
        return CrowdLines(crowds, np.append(0, np.cumsum(self.sizes[lines])), weights, self.table, coarse)

    @staticmethod
    def combine(parts: Sequence[tuple[CrowdLines, float]]) -> CrowdLines:
        """Combines selections of crowds, line by line. Multiplies the weights of each selection by its factor."""
        crowds = np.concatenate([part.crowds for part, _ in parts])
        weights = np.concatenate([part.make_weights() * factor for part, factor in parts])
        lines = np.concatenate([np.repeat(np.arange(len(part)), part.sizes) for part, _ in parts])
        order = np.argsort(lines, kind="stable")
        sizes = np.sum([part.sizes for part, _ in parts], axis=0)
        coarse_parts = [(part.coarse, factor) for part, factor in parts if part.coarse is not None]
        coarse = CrowdLines.combine(coarse_parts) if coarse_parts else None
        return CrowdLines(crowds[order], np.append(0, np.cumsum(sizes)), weights[order], parts[0][0].table, coarse)

    @cached_property
    def line_numbers(self) -> Indices:
        """The line of each selected crowd."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def select(self, positions: Indices, numbers: Indices, weights: Floats) -> CrowdLines:
        """Some of the positions, in their order. They get new numbers and weights."""
        sizes = np.bincount(self.line_numbers[positions], minlength=len(self))
        return CrowdLines(numbers, np.append(0, np.cumsum(sizes)), weights)

    def make_weights(self) -> Floats:
        """What a person in each selected crowd adds to the tally."""
        return np.ones(len(self.crowds)) if self.weights is None else self.weights
