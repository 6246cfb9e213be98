"""Makes decoy groups by dealing values in turn within many tranches, or by taking the most frequent values first.

`make_mixed_groups` divides the groups into tranches, each with its own order of the values. In a tranche the records
stand in a row, value after value, and the record at position p joins group p modulo the number of groups. A value with
at most as many records as there are groups is in each group at most once. The remaining records reach a group without a
search. Values are then in the same groups about as often as their frequencies predict.

`make_fullest_groups` takes a record from each of the values with most remaining records for every group. Ties decide
which values meet. If the order of the domain breaks ties, the same values always meet, and no estimator can separate
them.

Source: Fu et al. 2014 after Xiao and Tao 2006 for `make_fullest_groups`, but remaining records are placed instead of
deleted. `make_mixed_groups` is ours. Notation: gamma = group size, N = total.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.random_draws import Stream
from sfumato._core.run_lookup import Runs

# Decoy groups in compressed form: runs of groups with the same values. Every record belongs to one group, and no group
# has a value twice. Only the values of a group matter, not its records. So the groups of a large table are a few
# thousand runs. The value of a record and its slot among the records with this value determine its run, so no state is
# kept between records.


@dataclass(frozen=True, eq=False)
class Groups:
    """Runs of equal groups, with the indices of their values, the number of their values, and the number of groups."""

    members: Indices
    """A row for each run: the indices of its values, padded with zeros."""
    sizes: Indices
    lengths: Indices
    domain_size: int

    @classmethod
    def of(cls, runs: Sequence[tuple[Sequence[int], int]], domain_size: int) -> Groups:
        """Makes groups from the values of each run and its length."""
        sizes = np.array([len(members) for members, _ in runs], dtype=np.int64)
        lengths = np.array([length for _, length in runs], dtype=np.int64)
        members = np.zeros((len(runs), int(sizes.max(initial=0))), dtype=np.int64)
        members[np.arange(members.shape[1]) < sizes[:, None]] = [place for run, _ in runs for place in run]
        return cls(members, sizes, lengths, domain_size)

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return int(self.lengths.sum())

    @cached_property
    def counts(self) -> Indices:
        """The number of records of each value in the groups."""
        runs, places = self._seats
        return np.bincount(places, weights=self.lengths[runs], minlength=self.domain_size).astype(np.int64)

    @property
    def _seats(self) -> tuple[Indices, Indices]:
        """The run and the index of every seat."""
        is_seat = np.arange(self.members.shape[1]) < self.sizes[:, None]
        runs, _ = np.nonzero(is_seat)
        return runs, self.members[is_seat]

    def count_meetings(self) -> Floats:
        """W: for each two values, the number of groups with both, weighted by one over the group size."""
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
        """The members of all runs in one array, whose type is small enough for the cache."""
        return self.members.ravel().astype(np.min_scalar_type(self.domain_size))

    @cached_property
    def _slot_index(self) -> tuple[Runs, Indices, UInts]:
        """All slots, value after value, as stretches of one run each, with the runs and the start of each value."""
        runs, places = self._seats
        ordered = runs[np.argsort(places, kind="stable")]
        stretches = Runs(self.lengths[ordered])
        first = np.cumsum(self.counts) - self.counts
        return stretches, ordered[stretches.run_numbers], first.astype(stretches.type)


def compute_transition(groups: Groups) -> Floats:
    """The chance that a record of each value (row) publishes each value (column)."""
    value_counts = np.maximum(groups.counts, 1)[:, None]
    return np.asarray(groups.count_meetings() / value_counts)


# ---------------------------------------------------------------------------------------------------------------------

MOST_TRANCHES = 512
LEAST_GROUPS = 8  # in a tranche, if there are several
MOST_CELLS = 1 << 22  # tranches times values
MOST_RUNS = 1 << 15
"""Up to this many groups are made one by one from the most frequent values."""

TIE_BITS = 20
WORDS_AT_ONCE = 1 << 16


def count_tranches(total: int, domain_size: int, group_size: int) -> int:
    """The number of tranches for mixing a table."""
    return max(1, min(MOST_TRANCHES, total // group_size // LEAST_GROUPS, MOST_CELLS // domain_size))


def make_mixed_groups(counts: Sequence[int], group_size: int, orders: Indices) -> Groups:
    """Deals values in tranches.

    `orders` has an order of all values for each tranche, and one for the division into tranches.
    """
    value_counts, number = np.array(counts, dtype=np.int64), len(orders) - 1
    groups = int(value_counts.sum()) // group_size
    shares = _cut_into_tranches(value_counts[orders[-1]], groups, number)
    group_runs: list[tuple[Sequence[int], int]] = []
    for tranche, order in enumerate(orders[:-1]):
        tranche_counts = np.zeros_like(value_counts)
        tranche_counts[orders[-1]] = shares[tranche]
        group_runs += _wrap_values(tranche_counts[order], order, len(range(tranche, groups, number)))
    return Groups.of(group_runs, len(counts))


def _cut_into_tranches(counts: Indices, groups: int, tranches: int) -> Indices:
    """The records of each value (column) in each tranche (row): even shares that fill its groups exactly.

    Deals all records round the groups, and gives group g to tranche g modulo the number of tranches.
    """
    ends = np.cumsum(counts)
    numbers = np.arange(tranches)[:, None]
    sizes = (groups - 1 - numbers) // tranches + 1

    def count_dealt(upto: Indices) -> Indices:
        rounds, rest = np.divmod(upto, groups)
        part: Indices = np.maximum((rest - 1 - numbers) // tranches + 1, 0)
        return rounds * sizes + part

    return count_dealt(ends) - count_dealt(ends - counts)


def _wrap_values(counts: Indices, order: Indices, groups: int) -> list[tuple[Sequence[int], int]]:
    """The runs of equal groups if values are dealt round the groups in this order. A run ends where a value ends."""
    ends = np.cumsum(counts)
    cuts = np.array(sorted({0, *(ends % groups).tolist()}), dtype=np.int64)
    lengths = np.diff(np.append(cuts, groups))
    total = int(ends[-1])
    positions = cuts[:, None] + groups * np.arange(-(-total // groups))
    places = order[np.minimum(np.searchsorted(ends, positions, side="right"), len(order) - 1)]
    sizes = (positions < total).sum(axis=1)
    return [(row[:size], int(length)) for row, size, length in zip(places.tolist(), sizes, lengths, strict=True)]


def make_fullest_groups(
    counts: Sequence[int], group_size: int, ties: Stream | None, most_runs: int = MOST_RUNS
) -> Groups:
    """Puts one record of each of the values with most remaining records into every group.

    A random stream or the index breaks ties.

    For a large table, many equal groups are made at once. Counts that differ by less than the number of these groups
    are ties.
    """
    remaining = np.array(counts, dtype=np.int64)
    step = max(1, math.ceil(int(remaining.sum()) // group_size / most_runs))
    breakers = _draw_tie_breakers(ties, len(counts))
    runs: list[tuple[list[int], int]] = []
    while np.count_nonzero(remaining) >= group_size:
        fullest, length = _select_fullest(remaining, group_size, step, next(breakers))
        runs.append((fullest.tolist(), length))
        remaining[fullest] -= length
    for place in np.flatnonzero(
        remaining
    ).tolist():  # a remaining record joins the first of the smallest groups without its value
        sizes = [len(members) if place not in members else math.inf for members, _ in runs]
        run_number = sizes.index(min(sizes))
        members, length = runs[run_number]
        runs[run_number : run_number + 1] = [([*members, place], 1), *([(members, length - 1)] if length > 1 else [])]
    return Groups.of(runs, len(counts))


def _select_fullest(remaining: Indices, group_size: int, step: int, breaker: Indices) -> tuple[Indices, int]:
    """The values of the next groups, and the number of equal groups to make.

    Several groups are made if no value then has more than its share of the remaining records; otherwise one group.
    """
    for unit in (step, 1):
        ranked = (remaining // unit << TIE_BITS) + breaker
        fullest = np.argpartition(ranked, -group_size)[-group_size:]
        length = min(unit, int(remaining[fullest].min()))
        after = remaining.copy()
        after[fullest] -= length
        if unit == 1 or (length and group_size * int(after.max()) <= int(after.sum())):
            break
    return fullest, length


def _draw_tie_breakers(ties: Stream | None, size: int) -> Iterator[Indices]:
    """A number for each value in every run; of tied values, the larger number wins.

    Without a stream the first values win.
    """
    start, rows = 0, max(1, WORDS_AT_ONCE // size)
    while True:
        if ties is None:
            yield np.arange(size)[::-1]
        else:
            random_words = ties.draw_bits(start, rows * size) >> np.uint64(64 - TIE_BITS)
            yield from random_words.astype(np.int64).reshape(rows, size)
            start += rows * size


def shuffle_orders(random_words: npt.NDArray[np.uint64], size: int) -> Indices:
    """Random orders of `size` values, one in each row, made from rows of random numbers."""
    return np.argsort(random_words.reshape(-1, size), axis=1, kind="stable")
