"""Buckets that hold the same are alike: a release of millions has some hundreds of kinds, and most is asked of kinds.

What depends on single buckets (between what a count certainly lies, how else values may be paired) is looked up among
the buckets of the kinds that hold a wanted value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Amounts, Codes, Counts, Floats, Indices
from sfumato._records import RecordsInMemory
from sfumato._records.certain_bounds import CertainBounds
from sfumato._records.tally import Holdings, Tally


@dataclass(frozen=True, eq=False, kw_only=True)
class Kinds(Holdings):
    """What the kinds of buckets hold, and of which kind each bucket is."""

    kind_of: Codes

    @cached_property
    def order(self) -> Indices:
        """The buckets by their kinds."""
        return np.argsort(self.kind_of, kind="stable")

    @cached_property
    def starts(self) -> Indices:
        """Where each kind begins in that order."""
        return np.cumsum(self.repeats) - self.repeats

    @cached_property
    def apart(self) -> Holdings:
        """What every single bucket holds, in that order."""
        lines = np.bincount(self.buckets, minlength=len(self.sizes))
        taken = list_stretch_positions(np.cumsum(lines) - lines, lines, np.repeat(np.arange(len(lines)), self.repeats))
        numbers = np.repeat(np.arange(len(self.order)), np.repeat(lines, self.repeats))
        return Holdings(numbers, self.places[taken], self.counts[taken], self.domain_size)

    def beside(self, tally: Tally, whole: Tally | None) -> Tally:
        """From what is counted in each bucket to what is counted in each kind; once for all who ask."""
        kind_tally = tally.once(self._counted)
        return kind_tally if whole is None else replace(kind_tally, whole=whole)

    def _counted(self, tally: Tally) -> Tally:
        single = tally.counts[:, self.order]
        counts = np.add.reduceat(single, self.starts, axis=1)
        return BucketTally(counts, tally.rows, None, self, kinds=self, counted=single)

    def within(self, places: Indices) -> tuple[Indices, Floats, Floats]:
        """The buckets that hold one of the places, by their numbers in that order: sizes, and how often they do."""
        kind_indices, marked = self.holding(places)
        times, sizes = self.repeats[kind_indices], self.sizes[kind_indices].astype(np.float64)
        return (
            list_stretch_positions(self.starts, self.repeats, kind_indices),
            np.repeat(sizes, times),
            np.repeat(marked, times),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketTally(Tally):
    """A tally by kinds, with what is counted in each bucket."""

    kinds: Kinds
    counted: Amounts
    """What is counted in each bucket, by the order of the kinds; of a sum what is counted in the first part."""

    @cached_property
    def single(self) -> Amounts:
        """What is counted in each bucket; of a sum this is added up only if somebody asks."""
        return np.asarray(sum(part.single * by for part, by in self.parts)) if self.parts else self.counted

    def take(self, lines: Indices) -> Tally:
        """The tally of some of the conditions."""
        taken = self.single[lines]
        return replace(self, counts=self.counts[lines], rows=self.rows[lines], counted=taken, parts=())

    def inside(self, places: Indices) -> tuple[Floats, Floats, Floats]:
        """The buckets that hold one of the places, and the records of each condition in them."""
        buckets, sizes, marked = self.kinds.within(places)
        return sizes, marked, self.single[:, buckets].astype(np.float64)

    def added(self, function: Callable[[Amounts], Floats]) -> Floats:
        """A function of what is counted in each bucket, added up over those of a kind."""
        return np.asarray(np.add.reduceat(function(self.single), self.kinds.starts, axis=1))

    @property
    def apart(self) -> Tally:
        """The tally of every bucket by itself."""
        return Tally(self.single, self.rows, self.whole, self.kinds.apart)


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptTally(Tally):
    """A tally by kinds of thousands of conditions, which are looked at bucket by bucket where that is needed."""

    kinds: Kinds
    lines: Indices
    """The number of each condition."""
    records: RecordsInMemory
    ordered: Indices
    """The records in the order of the kinds, and the buckets of a kind one after the other."""
    bounds: CertainBounds

    @classmethod
    def of(cls, records: RecordsInMemory, kinds: Kinds) -> KeptTally:
        """The tally of all conditions."""
        counts = records.counts(kinds.kind_of[records.shown], len(kinds.sizes))
        place_of = np.empty(len(kinds.order), dtype=np.int64)
        place_of[kinds.order] = np.arange(len(kinds.order))
        rows, lines = sort_positions(place_of[records.shown]), np.arange(len(counts))
        bounds = CertainBounds(records, kinds, rows)
        tally = cls(
            counts,
            counts.sum(axis=1),
            None,
            kinds,
            kinds=kinds,
            lines=lines,
            records=records,
            ordered=rows,
            bounds=bounds,
        )
        return tally

    def take(self, lines: Indices) -> Tally:
        """The tally of some of the conditions."""
        return replace(self, counts=self.counts[lines], rows=self.rows[lines], lines=self.lines[lines])

    def beside(self, whole: Tally | None, holdings: Holdings | None) -> Tally:
        """What the buckets hold is known already."""
        return replace(self, whole=whole)

    def certain(self, places: Indices) -> tuple[Floats, Floats]:
        """From what was found for all conditions at once."""
        certain_counts = self.bounds.of(places, self.lines)
        return super().certain(places) if certain_counts is None else certain_counts

    def inside(self, places: Indices) -> tuple[Floats, Floats, Floats]:
        """The buckets that hold one of the places, and the records of each condition in them."""
        buckets, sizes, marked = self.kinds.within(places)
        kind_indices, _ = self.kinds.holding(places)
        lengths = self.kinds.sizes * self.kinds.repeats
        mine = self.ordered[list_stretch_positions(np.cumsum(lengths) - lengths, lengths, kind_indices)]
        records = self.records.among(mine, np.repeat(np.arange(len(buckets)), sizes.astype(np.int64)))
        selected = [records.counted(where, len(buckets)) for where in self.lines.tolist()]
        return sizes, marked, np.array(selected, dtype=np.float64).reshape(len(self), len(buckets))


Lines = Sequence[Codes]
"""Buckets, places and counts: which bucket holds which value, and how often."""


def find_kinds(parts: Iterable[Lines], domain_size: int) -> Kinds | None:
    """Find the buckets that hold the same, from all lines in parts; each bucket is the bytes of its lines.

    None unless the buckets come numbered from 0 on, each with its values in the order of the domain.
    """
    kind_numbers: dict[bytes, int] = {}
    kind_parts: list[Codes] = [np.zeros(0, dtype=np.int64)]
    following = 0
    for buckets, places, counts in _split_between_buckets(parts):
        step, is_later = np.diff(buckets), places[1:] > places[:-1]
        if buckets[0] != following or not np.where(step == 0, is_later, step == 1).all():
            return None
        following = int(buckets[-1]) + 1
        lines = counts.astype(np.uint64) * np.uint64(domain_size) + places.astype(np.uint64)
        ends = np.concatenate(([0], np.flatnonzero(step) + 1, [len(lines)])) * lines.itemsize
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(lines)]
        written = pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers).dictionary_encode()
        kinds = np.array(
            [
                kind_numbers.setdefault(bucket_bytes, len(kind_numbers))
                for bucket_bytes in written.dictionary.to_pylist()
            ]
        )
        kind_parts.append(kinds[written.indices.to_numpy()])
    kind_of = np.concatenate(kind_parts)
    packed_lines = np.frombuffer(b"".join(kind_numbers), dtype=np.uint64).astype(np.int64)
    number = np.repeat(
        np.arange(len(kind_numbers)), [len(bucket_bytes) // packed_lines.itemsize for bucket_bytes in kind_numbers]
    )
    times = np.bincount(kind_of, minlength=len(kind_numbers))
    narrow = kind_of.astype(np.min_scalar_type(len(kind_numbers)))
    return Kinds(number, packed_lines % domain_size, packed_lines // domain_size, domain_size, times, kind_of=narrow)


def _split_between_buckets(parts: Iterable[Lines]) -> Iterator[Lines]:
    """The same lines, cut between buckets."""
    rest: Lines | None = None
    for part in parts:
        lines = part if rest is None else [np.concatenate(pair) for pair in zip(rest, part, strict=True)]
        cut = int(np.searchsorted(lines[0], lines[0][-1])) if len(lines[0]) else 0
        if cut:
            yield [line_column[:cut] for line_column in lines]
        rest = [line_column[cut:] for line_column in lines]
    if rest is not None and len(rest[0]):
        yield rest


def sort_positions(numbers: Indices) -> Indices:
    """The places of numbers below 2^32 by size: 16 bits at a time, which numpy sorts without comparing."""
    first = np.argsort(numbers.astype(np.uint16), kind="stable")
    if numbers.max(initial=0) < 1 << 16:
        return first
    return first[np.argsort((numbers >> 16).astype(np.uint16)[first], kind="stable")]


def list_stretch_positions(starts: Indices, lengths: Counts, wanted: Indices) -> Indices:
    """The numbers that lie in some stretches of a long list, one stretch after the other."""
    long = lengths[wanted]
    ends = np.cumsum(long)
    return np.arange(long.sum()) + np.repeat(starts[wanted] - ends + long, long)
