"""Measures equivalence classes, which are the records that share all public values. Exact if there are few classes.

Each combination of values has a keyed hash of 64 bits. If there are many combinations, a sketch keeps those with the
smallest hashes, each with all its records. A record that is unique in the sketch is therefore unique in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Counts, Places, RandomBits, WholeNumbers
from sfumato._core.json_types import Json
from sfumato._core.ordered_threads import map_arrays
from sfumato._figures.number_format import format_exact_percent

MOST_COMBINATIONS, FEWER_COMBINATIONS = 1 << 18, 1 << 16
MANY_RECORDS = 1_000_000
"""For tables above this number of records, the sketch keeps fewer combinations. The share of unique records then has an
error of about 0.2 percentage points.
"""
CLASS_SIZES = (1, 4, 10)
"""The largest class sizes of the three reported shares: unique, smaller than 5, and smaller than 11."""

MORE_THAN_ENOUGH = 1.1
"""The number of hashes to sort for each combination to keep, if no two hashes are equal."""

LARGEST_NUMBER = 1 << 62
TABLE_FACTOR = 4
"""Combinations are numbered with a table of at most this number of entries per record, or else by sorting."""

SLOTS_EACH = 4
"""The number of slots for each hash. Hashes are first distinguished by their leading bits, which give the slot."""

NO_HASHES: RandomBits = np.zeros(0, dtype=np.uint64)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class ClassSizeShares:
    """The shares of the records that are unique on the public columns, and in classes smaller than 5 and than 11."""

    unique_share: float
    below_5: float
    below_11: float
    is_exact: bool = True

    def to_json(self) -> Json:
        """The JSON form."""
        shares = {"alone": self.unique_share, "below_5": self.below_5, "below_11": self.below_11}
        return {**shares, "is_exact": self.is_exact}


def compute_class_size_shares(
    counts: Counts, records: float, rows_each: int = 1, *, is_exact: bool = True
) -> ClassSizeShares:
    """The shares by class size, from the sizes of some classes. These classes stand for all `records` records.

    If a person may have several rows, up to `rows_each` records count as one person.
    """
    largest = [few * rows_each for few in CLASS_SIZES]
    unique_share, below_5, below_11 = (
        min(float(counts[counts <= few].sum()) / max(records, 1.0), 1.0) for few in largest
    )
    return ClassSizeShares(unique_share, below_5, below_11, is_exact)


class ClassSizeSketch:
    """Collects the hashes of records, batch by batch."""

    def __init__(self, expected: int | None = None) -> None:
        """A table that is known to be large needs fewer combinations."""
        self.capacity = MOST_COMBINATIONS if expected is None or expected <= MANY_RECORDS else FEWER_COMBINATIONS
        self.hashes: RandomBits = np.zeros(0, dtype=np.uint64)
        self.counts: Counts = np.zeros(0, dtype=np.int64)
        self.hash_limit: int = 1 << 64
        """Combinations with hashes below this are kept, with all their records."""
        self.pending_hashes: list[RandomBits] = []

    def add(self, hashes: RandomBits) -> None:
        """Add the records of one batch. Sorting waits, because most hashes need not be sorted."""
        if sum(map(len, self.pending_hashes)) > 2 * self.capacity:
            self._sort()
        self.pending_hashes.append(
            hashes if self.hash_limit == 1 << 64 else hashes[hashes < np.uint64(self.hash_limit)]
        )

    def merge(self, other: ClassSizeSketch) -> None:
        """Add what another sketch collected."""
        if len(other.hashes):
            self.hash_limit = min(self.hash_limit, other.hash_limit)
            self._sort(other.hashes, other.counts)
        for hashes in other.pending_hashes:
            self.add(hashes)

    def compute_shares(self, records: int, rows_each: int = 1) -> ClassSizeShares:
        """The shares of all records by class size, if a person has up to `rows_each` rows."""
        self._sort()
        return compute_class_size_shares(
            self.counts, records * (self.hash_limit / (1 << 64)), rows_each, is_exact=self.hash_limit == 1 << 64
        )

    def list_class_sizes(self) -> tuple[tuple[int, int], ...]:
        """The sizes of classes, each with the number of classes; an estimate if there are many classes."""
        self._sort()
        sizes, numbers = np.unique(self.counts, return_counts=True)
        scaled = np.rint(numbers * ((1 << 64) / self.hash_limit)).astype(np.int64)
        return tuple(zip(sizes.tolist(), scaled.tolist(), strict=True))

    def _sort(self, hashes: RandomBits = NO_HASHES, counts: Counts = NO_HASHES) -> None:  # type: ignore[assignment]
        new_hashes, new_counts = self._count_smallest(np.concatenate([*self.pending_hashes, NO_HASHES]))
        hashes, counts = _merge_counts([(self.hashes, self.counts), (new_hashes, new_counts), (hashes, counts)])
        size = len(hashes) if self.hash_limit == 1 << 64 else int(np.searchsorted(hashes, np.uint64(self.hash_limit)))
        if size > self.capacity:
            self.hash_limit, size = int(hashes[self.capacity]), self.capacity
        self.hashes, self.counts, self.pending_hashes = hashes[:size], counts[:size], []

    def _count_smallest(self, hashes: RandomBits) -> tuple[RandomBits, Counts]:
        """The distinct hashes with their frequencies.

        If there are very many hashes, only enough of the smallest hashes. Hashes are spread evenly, so a limit below
        which enough hashes lie can be computed. If too many hashes are equal, the limit rises until there are enough.
        """
        share = MORE_THAN_ENOUGH * self.capacity / max(len(hashes), 1)
        while share < 1:
            limit = min(int(share * self.hash_limit), self.hash_limit - 1)
            smallest = count_distinct(hashes[hashes < np.uint64(limit)])
            if len(smallest[0]) > self.capacity:
                self.hash_limit = min(self.hash_limit, limit)
                return smallest
            share *= 4
        return count_distinct(hashes)


def _merge_counts(parts: Sequence[tuple[RandomBits, Counts]]) -> tuple[RandomBits, Counts]:
    """Merges several lists of hashes, each in rising order, and adds the frequencies of equal hashes."""
    filled = [part for part in parts if len(part[0])]
    if len(filled) < 2:  # noqa: PLR2004 - nothing to merge
        return filled[0] if filled else parts[0]
    hashes, counts = (np.concatenate(part) for part in zip(*filled, strict=True))
    order = np.argsort(hashes, kind="stable")  # fast where the lists are already sorted
    hashes = hashes.take(order)
    starts = _find_starts(hashes)
    return hashes[starts], np.add.reduceat(counts.take(order), starts)


def count_distinct(hashes: RandomBits) -> tuple[RandomBits, Counts]:
    """The distinct hashes in rising order, and the frequency of each."""
    hashes = np.sort(hashes)
    starts = _find_starts(hashes)
    return hashes[starts], np.diff(starts, append=len(hashes))


def _find_starts(sorted_hashes: RandomBits) -> Places:
    """The positions in a sorted list where a new hash begins."""
    is_first = np.ones(len(sorted_hashes), dtype=np.bool_)
    np.not_equal(sorted_hashes[1:], sorted_hashes[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def hash_numbers(numbers: WholeNumbers, salt: np.uint64) -> RandomBits:
    """A 64-bit hash of whole numbers (the finaliser of SplitMix64). Sums of such hashes identify combinations."""
    mixed = numbers.astype(np.uint64) * _GOLDEN + salt
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def hash_values(values: pa.Array, salt: np.uint64) -> RandomBits:
    """A hash for each value, none of which is missing. Equal values have the same hash in every batch."""
    kind = values.type
    if pa.types.is_floating(kind):
        return hash_numbers(values.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.uint64), salt)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return hash_numbers(values.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64), salt)
    if pa.types.is_date32(kind):
        return hash_numbers(values.cast(pa.int32()).to_numpy(zero_copy_only=False), salt)
    is_plain = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return _hash_texts((values if is_plain else values.cast(pa.string())).cast(pa.large_binary()), salt)


def _hash_texts(texts: pa.Array, salt: np.uint64) -> RandomBits:
    """A hash for each string: the sum over its bytes, eight at a time, each mixed with its position in the string."""
    _, ends, data = texts.buffers()
    if not len(texts):
        return NO_HASHES
    ends = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = (
        np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]] if data is not None else NO_HASHES[:0].view(np.uint8)
    )
    lengths = np.diff(ends)
    sizes = lengths // 8 + 1  # the last block of a string is padded with zeros
    firsts = np.cumsum(sizes) - sizes
    filled = np.zeros(8 * int(sizes.sum()), dtype=np.uint8)
    filled[np.arange(len(content)) + np.repeat(8 * firsts - ends[:-1] + ends[0], lengths)] = content
    places = hash_numbers(np.arange(int(sizes.max())), ~salt).take(
        np.arange(len(filled) // 8) - np.repeat(firsts, sizes)
    )
    mixed = hash_numbers(filled.view("<u8") + places, salt)
    return hash_numbers(np.add.reduceat(mixed, firsts) + lengths.astype(np.uint64), salt)


class HashCache:
    """Hashes the values of one column, and last the missing value. The hashes of the last values are kept.

    Most batches list the same values as the batch before, in all threads.
    """

    def __init__(self, salt: np.uint64) -> None:
        self.salt = salt
        self.last_entry: tuple[pa.Array, RandomBits] | None = None

    def __call__(self, values: pa.Array) -> RandomBits:
        """A hash for each value, none of them missing, and one for the missing value."""
        last = self.last_entry
        if last is None or not values.equals(last[0]):
            missing = hash_numbers(np.array([0]), ~self.salt)
            self.last_entry = last = values, np.append(hash_values(values, self.salt), missing)
        return last[1]


@dataclass(frozen=True)
class Uniqueness:
    """The shares of unique records before and after columns were grouped into ranges. Private."""

    after_bins: ClassSizeShares
    before_bins: ClassSizeShares | None
    """None if no public column has ranges."""
    unique_without: Mapping[str, float]
    """The share of unique records if one column were dropped, for the columns that matter most."""
    records: int
    """The number of records on which the columns were compared."""

    @property
    def sentence(self) -> str:
        """The shares of unique records, in one to three sentences."""
        after, about = self.after_bins, "" if self.after_bins.is_exact else "about "
        text = (
            f"{about}{format_exact_percent(after.unique_share)} of the records are unique on the public columns. "
            f"Groups of fewer than 5 records with the same public columns hold {format_exact_percent(after.below_5)} "
            f"of the records. Groups of fewer than 11 hold {format_exact_percent(after.below_11)}."
        )
        if self.before_bins is not None:
            text += (
                f" Before columns were grouped into ranges, {format_exact_percent(self.before_bins.unique_share)} of "
                "the records were unique."
            )
        if after.unique_share and self.unique_without:
            shares = {name: format_exact_percent(share) for name, share in self.unique_without.items()}
            now = format_exact_percent(after.unique_share)
            named = [f"{name!r} (to {fewer})" for name, fewer in shares.items() if fewer != now]
            fewest = f"Dropping one of these columns reduces the share of unique records most: {', '.join(named)}."
            none = "Dropping one column would not reduce the share of unique records; dropping several may."
            text += f" {fewest if named else none}"
        return text[:1].upper() + text[1:]

    def to_json(self) -> Json:
        """The JSON form."""
        return {
            **self.after_bins.to_json(),
            "before_bins": None if self.before_bins is None else self.before_bins.to_json(),
            "alone_without": dict(self.unique_without),
            "records": self.records,
        }


def compute_unique_without(columns: Mapping[str, Codes], rows: int, most: int, rows_each: int = 1) -> dict[str, float]:
    """For each column, the share of the given records that would be unique without the column. Most effective first."""
    salts = hash_numbers(np.arange(len(columns)), _GOLDEN)
    hashes_by_column = {
        name: hash_numbers(np.arange(int(codes.max(initial=0)) + 1), salt).take(codes)
        for (name, codes), salt in zip(columns.items(), salts, strict=True)
    }
    sums: RandomBits = np.zeros(rows, dtype=np.uint64)
    for item in hashes_by_column.values():
        sums += item
    unique_counts = map_arrays(lambda item: count_unique(sums - item, rows_each), hashes_by_column.values(), rows)
    unique_shares = {
        name: min(count / max(rows, 1.0), 1.0) for name, count in zip(hashes_by_column, unique_counts, strict=True)
    }
    return dict(sorted(unique_shares.items(), key=lambda item: item[1])[:most])


def count_unique(hashes: RandomBits, rows_each: int = 1) -> int:
    """The number of hashes that occur at most `rows_each` times.

    If at most `rows_each` hashes have the same leading bits, they need no comparison. Only the other hashes are sorted.
    """
    bits = max(1, len(hashes) * SLOTS_EACH).bit_length()
    slots = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    is_shared = np.bincount(slots) > rows_each
    rest = hashes[is_shared.take(slots)]
    _, counts = count_distinct(rest)
    return len(hashes) - len(rest) + int(counts[counts <= rows_each].sum())


def count_class_sizes(columns: Sequence[Codes], rows: int) -> Counts:
    """The number of records in each equivalence class, for records in memory.

    Without columns, all records are one class.
    """
    return np.bincount(number_combinations(columns)) if columns else np.array([rows])


def number_classes(columns: Mapping[str, Codes], records: int) -> Places:
    """The equivalence class of each record, by number. Without columns, all records are in one class."""
    if not columns:
        return np.zeros(records, dtype=np.int64)
    return number_combinations([codes.astype(np.int64) for codes in columns.values()])


def number_combinations(columns: Sequence[Codes]) -> Places:
    """One number for the values of each record in all columns. Equal records have equal numbers."""
    numbers: Places = np.zeros(len(columns[0]) if columns else 0, dtype=np.int64)
    combination_limit = 1
    for codes in columns:
        size = int(codes.max(initial=0)) + 1
        # Renumbered, so that the numbers stay small.
        if combination_limit > LARGEST_NUMBER // size:
            numbers = _renumber(numbers, combination_limit)
            combination_limit = int(numbers.max(initial=0)) + 1
        numbers = numbers * size + codes
        combination_limit *= size
    return _renumber(numbers, combination_limit)


def _renumber(numbers: Places, combination_limit: int) -> Places:
    """Renumbers without gaps, with a table if the table is small."""
    if combination_limit <= TABLE_FACTOR * len(numbers):
        occurs = np.bincount(numbers, minlength=combination_limit) > 0
        return np.asarray((np.cumsum(occurs) - 1)[numbers])
    return np.asarray(np.unique(numbers, return_inverse=True)[1])
