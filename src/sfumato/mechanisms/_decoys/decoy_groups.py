"""Decoy groups in compressed form: runs of groups that hold the same values.

Every record belongs to one group, no group holds a value twice, and only the values of a group matter, not who is in
it. So the groups of a large table are a few thousand runs, and a record finds its run by its value and its slot among
the records of that value: nothing is remembered between records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato._core.arrays import Codes, Floats, Indices, UInts
from sfumato.mechanisms._bucketization.run_lengths import Runs


@dataclass(frozen=True, eq=False)
class Groups:
    """Runs of equal groups: the places of the values they hold, how many those are, and how many groups there are."""

    members: Indices
    """A row for each run: the places of its values, and after the last zeros that stand for nothing."""
    sizes: Indices
    lengths: Indices
    domain_size: int

    @classmethod
    def of(cls, runs: Sequence[tuple[Sequence[int], int]], domain_size: int) -> Groups:
        """Make groups from the values of each run and its length."""
        sizes = np.array([len(members) for members, _ in runs], dtype=np.int64)
        lengths = np.array([length for _, length in runs], dtype=np.int64)
        members = np.zeros((len(runs), int(sizes.max(initial=0))), dtype=np.int64)
        members[np.arange(members.shape[1]) < sizes[:, None]] = [place for run, _ in runs for place in run]
        return cls(members, sizes, lengths, domain_size)

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return int(self.lengths.sum())

    @cached_property
    def counts(self) -> Indices:
        """How many records of each value the groups hold."""
        runs, places = self._seats
        return np.bincount(places, weights=self.lengths[runs], minlength=self.domain_size).astype(np.int64)

    @property
    def _seats(self) -> tuple[Indices, Indices]:
        """The run and the place of every seat."""
        is_seat = np.arange(self.members.shape[1]) < self.sizes[:, None]
        runs, _ = np.nonzero(is_seat)
        return runs, self.members[is_seat]

    def count_meetings(self) -> Floats:
        """W: for each two values, the groups that hold both, each weighted by one over its size."""
        meetings = np.zeros((self.domain_size, self.domain_size))
        weights = self.lengths / self.sizes
        for first in range(self.members.shape[1]):
            for second in range(self.members.shape[1]):
                both = np.flatnonzero(self.sizes > max(first, second))
                np.add.at(meetings, (self.members[both, first], self.members[both, second]), weights[both])
        return meetings

    def find_runs(self, values: Codes, slots: UInts) -> Indices:
        """The run of each record, by its value and its slot (0 .. count - 1) among the records of the value."""
        stretches, runs, first = self._slot_index
        places = first.take(values) + slots.astype(stretches.type)
        return runs.take(stretches.find(places))

    def find_values(self, runs: Indices, seats: UInts) -> Codes:
        """The value of a seat in each of some runs."""
        values: Codes = self._flat_members.take(runs * self.members.shape[1] + seats.astype(np.int64))
        return values

    @cached_property
    def _flat_members(self) -> Codes:
        """The members one after the other, narrow enough to stay near a core."""
        return self.members.ravel().astype(np.min_scalar_type(self.domain_size))

    @cached_property
    def _slot_index(self) -> tuple[Runs, Indices, UInts]:
        """All slots in a row, value after value: the stretches of one run each, their runs, and where values start."""
        runs, places = self._seats
        ordered = runs[np.argsort(places, kind="stable")]
        stretches = Runs(self.lengths[ordered])
        first = np.cumsum(self.counts) - self.counts
        return stretches, ordered[stretches.run_numbers], first.astype(stretches.type)


def compute_transition(groups: Groups) -> Floats:
    """The chance that a record of each value (row) publishes each value (column)."""
    value_counts = np.maximum(groups.counts, 1)[:, None]
    return np.asarray(groups.count_meetings() / value_counts)
