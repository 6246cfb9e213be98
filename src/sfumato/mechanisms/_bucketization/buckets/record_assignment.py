"""Assigns a record to a bucket, by a closed form of its value and its slot among the records with this value.

The buckets of one size are dealt in tranches. In a tranche the records stand in a row, value after value, and the
record at position p goes to bucket p modulo the number of buckets. So every bucket gets exactly its size. Of each
value, every bucket gets the floor or the ceiling of the value's share. A value with v records in b buckets has at most
ceil(v / b) <= c(S) in each, as long as v <= c(S) * b. The closed form needs no state between records, so batches can be
dealt in any order.

`round_robin` deals each size in one tranche, in the order of the values, so neighbouring buckets are similar.
`deal_tranches` deals each size in many tranches, each with its own order of the values, and first lets tranches trade
records. Buckets then differ as much as random buckets, and the caps hold exactly. The caller must shuffle the slots,
because slots in file order would disclose the bucket of each record.

Source: Wang 2014, eq. (4.1) and Lemma 3, for `round_robin`; `deal_tranches` is ours.
Notation: S = sizes, b = buckets, v = counts, c(S) = floors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from sfumato._core.array_types import UInts
from sfumato._core.random_draws import Draws
from sfumato._core.run_lookup import Runs
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.max_flow import share_out

# Sorts many short columns at once, by comparing whole rows in an order that sorts any contents.
#
# Source: the odd-even merge exchange of Batcher 1968.

FEW = 1 << 11
"""Up to this many columns are sorted one by one, because comparing rows takes as long for a single column as for
many.
"""


def sort_columns(rows: UInts) -> None:
    """Sorts each column of a matrix in place."""
    if rows.shape[1] < FEW:
        rows.sort(axis=0)
        return
    smaller = np.empty_like(rows[0])
    for upper, lower in list_exchanges(len(rows)):
        np.minimum(rows[upper], rows[lower], out=smaller)
        np.maximum(rows[upper], rows[lower], out=rows[lower])
        rows[upper] = smaller


@cache
def list_exchanges(size: int) -> tuple[tuple[int, int], ...]:
    """Lists, in order, the pairs of places to compare and swap so that the smaller number comes first."""
    return tuple(_generate_exchanges(size))


def _generate_exchanges(size: int) -> Iterator[tuple[int, int]]:
    """Merges sorted neighbours, then neighbours twice as long, and so on.

    Within a merge, the compared places come ever nearer.
    """
    merged_length = 1
    while merged_length < size:
        gap = merged_length
        while gap:
            for start in range(gap % merged_length, size - gap, 2 * gap):
                for place in range(start, min(start + gap, size - gap)):
                    if place // (2 * merged_length) == (place + gap) // (2 * merged_length):
                        yield place, place + gap
            gap //= 2
        merged_length *= 2


# ---------------------------------------------------------------------------------------------------------------------

MOST_TRANCHES = 256  # of one size
LEAST_BUCKETS = 4  # in a tranche, if there are several
MOST_CELLS = 2**22  # tranches times values: the size of the closed form in memory
HALF_UINT32 = 2**31
LARGEST_TABLE = 2**26  # records whose values are cached in a table, a byte or two each


class DealingMethod(StrEnum):
    """The method that deals records to the buckets of one size."""

    MIXED = "mixed"
    ROUND_ROBIN = "round-robin"


class Tranche(NamedTuple):
    """Some of the buckets of one size."""

    size: int
    buckets: int


@dataclass(frozen=True, eq=False)
class Dealing:
    """The records of each value (column) in each tranche (row), and their start in its row of records."""

    tranches: tuple[Tranche, ...]
    counts: Integers
    starts: Integers

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the assignment without its tables, which may be as long as the table of the records."""
        return Dealing, (self.tranches, self.counts, self.starts)

    @cached_property
    def buckets(self) -> Integers:
        """The number of buckets of every tranche."""
        return np.array([tranche.buckets for tranche in self.tranches], dtype=np.int64)

    @cached_property
    def tranche_sizes(self) -> Integers:
        """The size of the buckets of every tranche."""
        return np.array([tranche.size for tranche in self.tranches], dtype=np.int64)

    @property
    def bucket_sizes(self) -> Integers:
        """The size of every bucket, by its number."""
        return np.repeat(self.tranche_sizes, self.buckets)

    @property
    def pair_count(self) -> int:
        """The number of pairs of a bucket and a value in it."""
        return int(np.minimum(self.counts, self.buckets[:, None]).sum())

    @property
    def clear_records(self) -> int:
        """The number of records in buckets with one value. The release discloses the value of each of these records."""
        sizes = self.tranche_sizes[:, None]
        rounds, more = np.divmod(self.counts, self.buckets[:, None])
        whole = np.where(rounds == sizes, self.buckets[:, None], np.where(rounds == sizes - 1, more, 0))
        return int((whole * sizes).sum())

    def find_buckets(self, values: UInts, slots: UInts) -> UInts:
        """The bucket numbers of records, by value and by slot (0 .. count - 1) among the records of the value."""
        runs, first, tranches, shifts = self._slot_runs
        slots = slots.astype(runs.type, copy=False)
        run = runs.find(first.take(values) + slots)
        tranche = tranches.take(run)
        positions = shifts.take(run) + slots
        numbers: UInts = self._first_buckets.take(tranche) + positions % self._typed_buckets.take(tranche)
        return numbers

    def list_contents(self, numbers: UInts) -> tuple[UInts, UInts, UInts]:
        """The contents of buckets: the number of lines of each, and for each line a value and its number of records.

        Lines are in the order of the bucket numbers, and then of the values. A bucket has a record in every round of
        its tranche. So the buckets of one size are a matrix with a column each, which is sorted and counted by its
        rows.
        """
        tranche = self._bucket_runs.find(numbers.astype(self._bucket_runs.type, copy=False))
        sizes, buckets = self.tranche_sizes.take(tranche), self.buckets.take(tranche)
        first_records, first_buckets = self._tranche_starts
        # The first record of a bucket in the row of its tranche: rows need not start at position 0.
        offsets = (numbers.astype(np.int64) - first_buckets.take(tranche)) % buckets
        first = first_records.take(tranche) + offsets
        lines, parts = np.empty(len(numbers), dtype=np.int64), []
        for size in np.unique(self.tranche_sizes):
            same_size = np.flatnonzero(sizes == size)
            bucket_values = self._look_up_values(
                first.take(same_size) + np.arange(size)[:, None] * buckets.take(same_size)
            )
            sort_columns(bucket_values)
            is_new = bucket_values[1:] != bucket_values[:-1]
            # The index of each record among those of its bucket.
            line = np.zeros(bucket_values.shape, dtype=np.min_scalar_type(size))
            np.cumsum(is_new, axis=0, dtype=line.dtype, out=line[1:])
            lines[same_size] = line[-1]
            parts.append((same_size, bucket_values, is_new, line))
        lines += 1
        starts, repeat_lines = _compute_starts(lines), []
        values = np.empty(int(lines.sum()), dtype=self._value_type)
        for same_size, bucket_values, is_new, line in parts:
            line_places = line + starts.take(same_size)
            values[line_places] = bucket_values
            repeat_lines.append(line_places[1:][~is_new])
        return lines, values, 1 + np.bincount(np.concatenate(repeat_lines), minlength=len(values))

    def _look_up_values(self, records: Integers) -> UInts:
        """The values of records, by their places in the row of all tranches.

        A table gives them, unless it would be large.
        """
        if self.counts.sum() <= LARGEST_TABLE:
            return self._record_values.take(records)
        runs, run_values = self._record_runs
        return run_values.take(runs.find(records.astype(runs.type)))

    @cached_property
    def _slot_runs(self) -> tuple[Runs, UInts, UInts, UInts]:
        """The slots of all values in one row, with a run in every tranche for each value.

        Also returns the start of each value's slots, the tranche of each run, and the offset from its slots to
        positions in the tranche. A negative offset wraps around in its unsigned type, and the sum wraps back.
        """
        runs = Runs(self.counts.T.ravel())
        before = np.cumsum(self.counts, axis=0) - self.counts
        shifts = (self.starts - before).T.ravel()[runs.run_numbers].astype(runs.type)
        first = _compute_starts(self.counts.sum(axis=0)).astype(runs.type)
        return runs, first, (runs.run_numbers % len(self.tranches)).astype(np.int32), shifts

    @cached_property
    def _record_runs(self) -> tuple[Runs, UInts]:
        """The records of all tranches in one row, in order: for each tranche a run of every value, and the value."""
        order = np.argsort(self.starts, axis=1, kind="stable")
        runs = Runs(np.take_along_axis(self.counts, order, axis=1).ravel())
        return runs, order.ravel()[runs.run_numbers].astype(self._value_type)

    @cached_property
    def _record_values(self) -> UInts:
        """The value of every record in that row."""
        runs, run_values = self._record_runs
        return np.repeat(run_values, runs.lengths)

    @property
    def _value_type(self) -> np.dtype[np.generic]:
        return np.min_scalar_type(self.counts.shape[1] - 1)

    @cached_property
    def _tranche_starts(self) -> tuple[Integers, Integers]:
        """For each tranche its first record in that row, and the number of the bucket that has it."""
        return _compute_starts(self.counts.sum(axis=1)), _compute_starts(self.buckets) + self.starts.min(axis=1)

    @cached_property
    def _bucket_runs(self) -> Runs:
        """The buckets of all tranches in one row."""
        return Runs(self.buckets)

    @cached_property
    def _typed_buckets(self) -> UInts:
        return self.buckets.astype(self._slot_runs[0].type)

    @cached_property
    def _first_buckets(self) -> UInts:
        return _compute_starts(self.buckets).astype(self._slot_runs[0].type)

    def generate_holdings(self) -> Iterator[UInts]:
        """Generates the number of records of each value (column) in every bucket (row), tranche after tranche."""
        for number, tranche in enumerate(self.tranches):
            yield self.count_values(np.full(tranche.buckets, number), np.arange(tranche.buckets))

    def number_buckets(self, tranches: Integers, buckets: Integers) -> Integers:
        """The numbers of buckets, by their tranches and their places in them."""
        return _compute_starts(self.buckets).take(tranches) + buckets

    def count_values(self, tranches: Integers, buckets: Integers) -> UInts:
        """The number of records of each value in buckets, by their tranches and their places in them.

        A bucket has one record from each whole round. It has one more if it soon follows the bucket with the first
        record.
        """
        whole, more, first = (numbers.take(tranches, axis=0) for numbers in self._rounds)
        number = self.buckets.astype(first.dtype).take(tranches)[:, None]
        after = buckets.astype(first.dtype)[:, None] - first
        after = np.minimum(after, after + number)  # a negative number wraps around and becomes huge
        whole += after < more
        return whole

    @cached_property
    def _rounds(self) -> tuple[UInts, UInts, UInts]:
        """For each tranche and value the whole rounds of its records, the number left over, and the first bucket."""
        buckets = self.buckets[:, None]
        whole, more = np.divmod(self.counts, buckets)
        kind = np.uint32 if int(buckets.max()) < HALF_UINT32 else np.uint64
        return whole.astype(np.int32), more.astype(kind), (self.starts % buckets).astype(kind)


def _compute_starts(lengths: Integers) -> Integers:
    """The start of each run in the common row."""
    starts: Integers = np.cumsum(lengths) - lengths
    return starts


def deal_out(
    assignment: Assignment, floors: Integers, dealing_method: DealingMethod, draws: Draws, name: str
) -> Dealing:
    """Puts each record into a bucket, as the assignment says. The key determines the orders of the tranches."""
    if dealing_method is DealingMethod.ROUND_ROBIN:
        return deal_round_robin(assignment)
    tranches = divide_into_tranches(assignment.setting, len(floors))
    random_words = draws.get_stream(f"{name}/orders").draw_bits(0, len(tranches) * len(floors))
    orders = np.argsort(random_words.reshape(len(tranches), -1), axis=1, kind="stable")
    return deal_tranches(assignment, floors, tranches, orders)


def deal_round_robin(assignment: Assignment) -> Dealing:
    """Deals each size in one tranche, in the order of the values; record 1 goes to bucket 1, as in eq. (4.1)."""
    counts = assignment.records.T
    starts = 1 + np.cumsum(counts, axis=1) - counts
    return Dealing(tuple(Tranche(size, count) for size, count in assignment.setting), counts, starts)


def divide_into_tranches(setting: Setting, values: int) -> tuple[Tranche, ...]:
    """Divides the buckets of each size into tranches for `deal_tranches`, as evenly as possible."""
    most = max(1, min(MOST_TRANCHES, MOST_CELLS // (values * len(setting.pairs))))
    tranches = []
    for size, count in setting:
        number = max(1, min(most, count // LEAST_BUCKETS))
        edges = [count * place // number for place in range(number + 1)]
        tranches += [Tranche(size, after - before) for before, after in itertools.pairwise(edges)]
    return tuple(tranches)


def deal_tranches(assignment: Assignment, floors: Integers, tranches: tuple[Tranche, ...], orders: Integers) -> Dealing:
    """Deals each tranche in its own order of the values, after tranches with the same bucket size have traded records.

    `floors[value, size]` are those of the setting's sizes; `orders[tranche]` is a random permutation of the values.
    """
    sizes = [tranche.size for tranche in tranches]
    counts = np.zeros((len(tranches), len(floors)), dtype=np.int64)
    for column, (size, _) in enumerate(assignment.setting):
        same_size = slice(sizes.index(size), sizes.index(size) + sizes.count(size))
        buckets = np.array([tranche.buckets for tranche in tranches[same_size]], dtype=np.int64)
        shares = _compute_shares(assignment.records[:, column], buckets)
        counts[same_size] = _trade_records(shares, buckets[:, None] * floors[:, column], orders[same_size])
    ordered = np.take_along_axis(counts, orders, axis=1)
    starts = np.zeros_like(counts)
    np.put_along_axis(starts, orders, np.cumsum(ordered, axis=1) - ordered, axis=1)
    return Dealing(tranches, counts, starts)


def _compute_shares(counts: Integers, buckets: Integers) -> Integers:
    """The records of each tranche (row) if a whole size is dealt round-robin: even shares that add up exactly."""
    ends = np.cumsum(counts)
    total, edges = int(buckets.sum()), np.cumsum(buckets) - buckets

    def count_dealt(upto: Integers) -> Integers:
        laps, rest = upto // total, upto % total
        part: Integers = np.clip(rest - edges[:, None], 0, buckets[:, None])
        return laps * buckets[:, None] + part

    return count_dealt(ends) - count_dealt(ends - counts)


def _trade_records(counts: Integers, most: Integers, orders: Integers) -> Integers:
    """Lets each two tranches whose numbers differ in one binary digit swap records, digit by digit.

    Values that are early in the first tranche's order go to the first tranche, and late values to the second. Half of
    what the caps allow is swapped. After a full swap, tranches would have a value up to its cap or not at all.
    """
    numbers, values = np.arange(len(counts)), orders.shape[1]
    half_count, traded_counts, room = values // 2, counts.flatten(), most.flatten()
    for digit in range(max(0, math.ceil(math.log2(len(counts))))):
        first = numbers[(numbers >> digit & 1 == 0) & (numbers + 2**digit < len(counts))]
        at = first[:, None] * values + orders[first]  # the places of the first one's values, in its order
        other = at + 2**digit * values
        ours, theirs = traded_counts.take(at), traded_counts.take(other)
        inward = np.minimum(theirs[:, :half_count], room.take(at[:, :half_count]) - ours[:, :half_count])
        outward = np.minimum(ours[:, half_count:], room.take(other[:, half_count:]) - theirs[:, half_count:])
        amount = (np.minimum(inward.sum(axis=1), outward.sum(axis=1)) + 1) // 2
        moved = np.concatenate([share_out(amount, inward), -share_out(amount, outward)], axis=1)
        traded_counts[at], traded_counts[other] = ours + moved, theirs - moved
    return traded_counts.reshape(counts.shape)
