"""Merges buckets with equal contents into kinds. A release with millions of records has some hundreds of kinds.

Some results need single buckets: certain bounds of a count, and alternative pairings of values. For these results, the
buckets of kinds with a wanted value are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Amounts, Codes, Counts, Floats, Indices
from sfumato._records import RecordsInMemory
from sfumato._records.certain_count_bounds import CertainBounds
from sfumato._records.tally import Holdings, SideContents, Tally


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketKinds(Holdings):
    """The contents of each kind of bucket, and the kind of each bucket."""

    kind_of: Codes

    @cached_property
    def order(self) -> Indices:
        """The buckets sorted by kind."""
        return np.argsort(self.kind_of, kind="stable")

    @cached_property
    def starts(self) -> Indices:
        """The position of the first bucket of each kind, if buckets are sorted by kind."""
        return np.cumsum(self.repeats) - self.repeats

    @cached_property
    def single_holdings(self) -> Holdings:
        """The contents of every single bucket, sorted by kind."""
        lines = np.bincount(self.buckets, minlength=len(self.sizes))
        line_positions = list_run_positions(
            np.cumsum(lines) - lines, lines, np.repeat(np.arange(len(lines)), self.repeats)
        )
        numbers = np.repeat(np.arange(len(self.order)), np.repeat(lines, self.repeats))
        return Holdings(numbers, self.places[line_positions], self.counts[line_positions], self.domain_size)

    def attach_to(self, tally: Tally, release_tally: Tally | None) -> Tally:
        """Merges the counts of single buckets into counts of kinds. The result is computed once for all callers."""
        kind_tally = tally.derive(self._tally_kinds)
        return kind_tally if release_tally is None else replace(kind_tally, release_tally=release_tally)

    def _tally_kinds(self, tally: Tally) -> Tally:
        single_counts = tally.counts[:, self.order]
        counts = np.add.reduceat(single_counts, self.starts, axis=1)
        return BucketTally(counts, tally.rows, None, self, kinds=self, base_counts=single_counts)

    def find_single_buckets(self, places: Indices) -> tuple[Indices, Floats, Floats]:
        """The buckets that have one of the values: positions (sorted by kind), sizes and numbers of matches."""
        kind_indices, match_counts = self.find_buckets(places)
        times, sizes = self.repeats[kind_indices], self.sizes[kind_indices].astype(np.float64)
        return (
            list_run_positions(self.starts, self.repeats, kind_indices),
            np.repeat(sizes, times),
            np.repeat(match_counts, times),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketTally(Tally):
    """A tally by kinds that also keeps the counts of single buckets."""

    kinds: BucketKinds
    base_counts: Amounts
    """The counts of single buckets, sorted by kind. If the tally is a sum, these are the counts of its first part."""

    @cached_property
    def single_counts(self) -> Amounts:
        """The counts of single buckets. If the tally is a sum, they are computed only when needed."""
        return np.asarray(sum(part.single_counts * by for part, by in self.parts)) if self.parts else self.base_counts

    def take(self, lines: Indices) -> Tally:
        """The tally of some of the conditions."""
        selected_counts = self.single_counts[lines]
        return replace(self, counts=self.counts[lines], rows=self.rows[lines], base_counts=selected_counts, parts=())

    def count_in_buckets(self, places: Indices) -> tuple[Floats, Floats, Floats]:
        """The buckets with one of the values, and the records of each condition in them."""
        buckets, sizes, match_counts = self.kinds.find_single_buckets(places)
        return sizes, match_counts, self.single_counts[:, buckets].astype(np.float64)

    def sum_over_buckets(self, function: Callable[[Amounts], Floats]) -> Floats:
        """Applies a function to the counts of single buckets, and sums the results within each kind."""
        return np.asarray(np.add.reduceat(function(self.single_counts), self.kinds.starts, axis=1))

    @property
    def single_tally(self) -> Tally:
        """The tally with every bucket separate."""
        return Tally(self.single_counts, self.rows, self.release_tally, self.kinds.single_holdings)


@dataclass(frozen=True, eq=False, kw_only=True)
class InMemoryTally(Tally):
    """A tally by kinds of thousands of conditions, which reads single buckets on demand."""

    kinds: BucketKinds
    condition_numbers: Indices
    """The number of each condition."""
    records: RecordsInMemory
    record_order: Indices
    """The records sorted by kind, and within a kind by bucket."""
    bounds: CertainBounds

    @classmethod
    def of(cls, records: RecordsInMemory, kinds: BucketKinds) -> InMemoryTally:
        """The tally of all conditions."""
        counts = records.count_codes(kinds.kind_of[records.published_codes], len(kinds.sizes))
        place_of = np.empty(len(kinds.order), dtype=np.int64)
        place_of[kinds.order] = np.arange(len(kinds.order))
        rows, lines = sort_positions(place_of[records.published_codes]), np.arange(len(counts))
        bounds = CertainBounds(records, kinds, rows)
        tally = cls(
            counts,
            counts.sum(axis=1),
            None,
            kinds,
            kinds=kinds,
            condition_numbers=lines,
            records=records,
            record_order=rows,
            bounds=bounds,
        )
        return tally

    def take(self, lines: Indices) -> Tally:
        """The tally of some of the conditions."""
        return replace(
            self, counts=self.counts[lines], rows=self.rows[lines], condition_numbers=self.condition_numbers[lines]
        )

    def attach_context(self, release_tally: Tally | None, contents: SideContents | None) -> Tally:
        """Returns the tally unchanged, because it already has the contents of the buckets."""
        return replace(self, release_tally=release_tally)

    def find_bounds(self, places: Indices) -> tuple[Floats, Floats]:
        """Looks up the bounds. They are computed for all conditions at once."""
        certain_counts = self.bounds.find(places, self.condition_numbers)
        return super().find_bounds(places) if certain_counts is None else certain_counts

    def count_in_buckets(self, places: Indices) -> tuple[Floats, Floats, Floats]:
        """The buckets with one of the values, and the records of each condition in them."""
        buckets, sizes, match_counts = self.kinds.find_single_buckets(places)
        kind_indices, _ = self.kinds.find_buckets(places)
        lengths = self.kinds.sizes * self.kinds.repeats
        record_rows = self.record_order[list_run_positions(np.cumsum(lengths) - lengths, lengths, kind_indices)]
        records = self.records.select(record_rows, np.repeat(np.arange(len(buckets)), sizes.astype(np.int64)))
        selected_counts = [records.count_condition(where, len(buckets)) for where in self.condition_numbers.tolist()]
        return sizes, match_counts, np.array(selected_counts, dtype=np.float64).reshape(len(self), len(buckets))


BucketLines = Sequence[Codes]
"""The frequency of each value in each bucket, as buckets, domain indices and counts."""


def find_kinds(parts: Iterable[BucketLines], domain_size: int) -> BucketKinds | None:
    """Finds the buckets with equal contents by comparing the bytes of their lines. The lines are read in parts.

    It returns None unless the buckets are numbered from 0 and each bucket has its values in domain order.
    """
    kind_numbers: dict[bytes, int] = {}
    kind_parts: list[Codes] = [np.zeros(0, dtype=np.int64)]
    next_bucket = 0
    for buckets, places, counts in _split_between_buckets(parts):
        step, is_later = np.diff(buckets), places[1:] > places[:-1]
        if buckets[0] != next_bucket or not np.where(step == 0, is_later, step == 1).all():
            return None
        next_bucket = int(buckets[-1]) + 1
        lines = counts.astype(np.uint64) * np.uint64(domain_size) + places.astype(np.uint64)
        ends = np.concatenate(([0], np.flatnonzero(step) + 1, [len(lines)])) * lines.itemsize
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(lines)]
        encoded_buckets = pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers).dictionary_encode()
        kinds = np.array(
            [
                kind_numbers.setdefault(bucket_bytes, len(kind_numbers))
                for bucket_bytes in encoded_buckets.dictionary.to_pylist()
            ]
        )
        kind_parts.append(kinds[encoded_buckets.indices.to_numpy()])
    kind_of = np.concatenate(kind_parts)
    packed_lines = np.frombuffer(b"".join(kind_numbers), dtype=np.uint64).astype(np.int64)
    number = np.repeat(
        np.arange(len(kind_numbers)), [len(bucket_bytes) // packed_lines.itemsize for bucket_bytes in kind_numbers]
    )
    times = np.bincount(kind_of, minlength=len(kind_numbers))
    narrow_kinds = kind_of.astype(np.min_scalar_type(len(kind_numbers)))
    return BucketKinds(
        number, packed_lines % domain_size, packed_lines // domain_size, domain_size, times, kind_of=narrow_kinds
    )


def _split_between_buckets(parts: Iterable[BucketLines]) -> Iterator[BucketLines]:
    """Yields the same lines in parts that end between buckets."""
    open_lines: BucketLines | None = None
    for part in parts:
        lines = part if open_lines is None else [np.concatenate(pair) for pair in zip(open_lines, part, strict=True)]
        cut = int(np.searchsorted(lines[0], lines[0][-1])) if len(lines[0]) else 0
        if cut:
            yield [line_column[:cut] for line_column in lines]
        open_lines = [line_column[cut:] for line_column in lines]
    if open_lines is not None and len(open_lines[0]):
        yield open_lines


def sort_positions(numbers: Indices) -> Indices:
    """Returns the positions that sort numbers below 2^32. Numpy sorts 16 bits at a time, without comparisons."""
    first = np.argsort(numbers.astype(np.uint16), kind="stable")
    if numbers.max(initial=0) < 1 << 16:
        return first
    return first[np.argsort((numbers >> 16).astype(np.uint16)[first], kind="stable")]


def list_run_positions(starts: Indices, lengths: Counts, runs: Indices) -> Indices:
    """The positions in some runs of a long list, run after run."""
    run_lengths = lengths[runs]
    ends = np.cumsum(run_lengths)
    return np.arange(run_lengths.sum()) + np.repeat(starts[runs] - ends + run_lengths, run_lengths)
