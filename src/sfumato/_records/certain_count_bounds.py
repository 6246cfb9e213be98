"""Computes certain bounds of counts in buckets for thousands of conditions, with one bit for each bucket.

Take a bucket with n records, of which s have a wanted value. A condition selects q of the records. Then at least max(q
+ s - n, 0) and at most min(q, s) selected records have a wanted value. The upper bound is the number of t = 1 ... s
with at least t selected records. The lower bound is s minus the same number for the unselected records. For the buckets
of one size, a row of bits marks whether the first record of each bucket is selected. Another row marks the second
records, and so on. A few ANDs and ORs of these rows decide for 64 buckets at once whether they have at least t selected
records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Floats, Indices
from sfumato._records import RecordsInMemory
from sfumato._records.bit_masks import WORD_BITS, BitWords, pack_bits
from sfumato._records.tally import Holdings

MOST_MATCHES = 8
"""If a bucket contains a wanted value more often than this, buckets are evaluated one by one."""
MEMORY_BYTES = 1 << 26
"""The largest size in bytes of the bucket bits of several value sets."""

Bounds = tuple[Floats, Floats]


class RecordLayout:
    """The records of all buckets, transposed: for each size, the first records of all buckets, then the second ones."""

    def __init__(self, sizes: Indices, record_order: Indices) -> None:
        """Takes the sizes of the buckets, and the records sorted by bucket."""
        starts, missing = np.cumsum(sizes) - sizes, len(record_order)
        self.groups = [(int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes)]
        pieces, self.cuts, self.word_count = [np.zeros(0, dtype=np.int64)], [], 0
        for size, buckets in self.groups:
            width = -(-len(buckets) // WORD_BITS)
            index = np.full((size, width * WORD_BITS), missing, dtype=np.int64)
            index[:, : len(buckets)] = record_order[starts[buckets] + np.arange(size)[:, np.newaxis]]
            pieces.append(index.ravel())
            self.cuts.append((self.word_count, size, width))
            self.word_count += size * width
        self.index = np.concatenate(pieces)
        """The record at each bit; the index after the last record if there is no record."""
        self.width = sum(width for _, _, width in self.cuts)
        """The number of words with one bit for each bucket."""

    def pack_buckets(self, mask: npt.NDArray[np.bool_]) -> BitWords:
        """Packs one bit for each bucket."""
        return np.concatenate([np.zeros(0, dtype=np.uint64), *(pack_bits(mask[mine]) for _, mine in self.groups)])

    def find_reached_buckets(self, selected: BitWords, most: int) -> list[BitWords]:
        """Marks the buckets with at least t selected records, for t = 1 ... most. Each condition has one row."""
        lines = len(selected)
        bucket_bits = [np.zeros((lines, self.width), dtype=np.uint64) for _ in range(most)]
        end = 0
        for start, size, width in self.cuts:
            places = selected[:, start : start + size * width].reshape(lines, size, width)
            size_bits = [bits[:, end : end + width] for bits in bucket_bits]
            end += width
            if most == 1:
                np.bitwise_or.reduce(places, axis=1, out=size_bits[0])
                continue
            for number in range(size):
                place_bits = places[:, number]
                for t in range(min(most - 1, number), 0, -1):
                    size_bits[t] |= size_bits[t - 1] & place_bits
                size_bits[0] |= place_bits
        return bucket_bits


class CertainBounds:
    """The bounds of all requested counts. All bounds are computed at once when the first is needed."""

    def __init__(self, records: RecordsInMemory, holdings: Holdings, record_order: Indices) -> None:
        """Takes the records, the contents of the kinds of buckets, and the records sorted by kind and bucket."""
        self.records, self.holdings, self.record_order = records, holdings, record_order

    def find(self, places: Indices, conditions: Indices) -> Bounds | None:
        """The bounds of a value set's count under the conditions with these numbers. None if the bounds are unknown."""
        condition_bounds = self._bounds_by_places.get(places.tobytes())
        if condition_bounds is None:
            return None
        numbers, least, most = condition_bounds
        at = np.minimum(np.searchsorted(numbers, conditions), len(numbers) - 1)
        return (least[at], most[at]) if np.array_equal(numbers[at], conditions) else None

    @cached_property
    def _bounds_by_places(self) -> dict[bytes, tuple[Indices, Floats, Floats]]:
        """For each value set, the sorted conditions and the bounds under each condition."""
        sizes = np.repeat(self.holdings.sizes, self.holdings.repeats)
        layout, bounds_by_places = RecordLayout(sizes, self.record_order), {}
        for holding_buckets, requesting_conditions in self._iter_parts(layout):
            bounds: dict[bytes, dict[int, tuple[int, int]]] = {key: {} for key in requesting_conditions}
            by_condition: dict[int, list[bytes]] = {}
            for key, conditions in requesting_conditions.items():
                for condition in conditions:
                    by_condition.setdefault(condition, []).append(key)
            for conditions, selected in self.records.iter_bits(layout.index, sorted(by_condition)):
                requested_keys = [by_condition[condition] for condition in conditions]
                _add_bounds(bounds, layout, conditions, (selected, requested_keys, holding_buckets))
            for key, condition_bounds in bounds.items():
                numbers = np.array(sorted(condition_bounds), dtype=np.int64)
                least, most = np.array([condition_bounds[number] for number in numbers.tolist()], dtype=np.float64).T
                bounds_by_places[key] = (numbers, least, most)
        return bounds_by_places

    def _iter_parts(
        self, layout: RecordLayout
    ) -> Iterator[tuple[dict[bytes, list[BitWords]], dict[bytes, Sequence[int]]]]:
        """Yields some value sets at a time. Each has the conditions, and the buckets with at least t matches."""
        holding_buckets: dict[bytes, list[BitWords]] = {}
        requesting_conditions: dict[bytes, Sequence[int]] = {}
        used_bytes = 0
        for places, conditions in self.records.iter_place_sets():
            match_counts = self.holdings.count_matches(places)
            most = int(match_counts.max(initial=0))
            if not 0 < most <= MOST_MATCHES:
                continue
            bucket_matches = np.repeat(match_counts, self.holdings.repeats)
            lines = [layout.pack_buckets(bucket_matches >= t) for t in range(1, most + 1)]
            holding_buckets[places.tobytes()], requesting_conditions[places.tobytes()] = lines, conditions
            used_bytes += sum(line.nbytes for line in lines)
            if used_bytes > MEMORY_BYTES:
                yield holding_buckets, requesting_conditions
                holding_buckets, requesting_conditions, used_bytes = {}, {}, 0
        if holding_buckets:
            yield holding_buckets, requesting_conditions


def _add_bounds(
    bounds: Mapping[bytes, dict[int, tuple[int, int]]],
    layout: RecordLayout,
    conditions: Sequence[int],
    batch: tuple[BitWords, Sequence[Sequence[bytes]], Mapping[bytes, Sequence[BitWords]]],
) -> None:
    """Stores the bounds of some conditions.

    Value sets with few matches are handled separately, because this is cheaper.
    """
    selected, requested_keys, holding_buckets = batch
    deepest = np.array([max(len(holding_buckets[key]) for key in keys) for keys in requested_keys])
    for most in np.unique(deepest).tolist():
        lines = np.flatnonzero(deepest == most)
        selected_bits = selected if len(lines) == len(selected) else selected[lines]
        pairs = [(line, number, key) for line, number in enumerate(lines.tolist()) for key in requested_keys[number]]
        least, upper = np.zeros((2, len(pairs)), dtype=np.int64)
        reached_buckets, other_buckets = (
            layout.find_reached_buckets(selected_bits, most),
            layout.find_reached_buckets(~selected_bits, most),
        )
        for t in range(most):
            deep_pairs = np.array([place for place, (_, _, key) in enumerate(pairs) if len(holding_buckets[key]) > t])
            buckets = np.array([holding_buckets[pairs[place][2]][t] for place in deep_pairs.tolist()])
            at = np.array([pairs[place][0] for place in deep_pairs.tolist()])
            upper[deep_pairs] += np.bitwise_count(reached_buckets[t][at] & buckets).sum(axis=1, dtype=np.uint32)
            least[deep_pairs] += np.bitwise_count(~other_buckets[t][at] & buckets).sum(axis=1, dtype=np.uint32)
        for (_, number, key), low, high in zip(pairs, least.tolist(), upper.tolist(), strict=True):
            bounds[key][conditions[number]] = (low, high)
