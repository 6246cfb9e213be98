"""How many records share all their public columns: a sketch of the combinations, exact while they are few.

A combination of values has a keyed hash of 64 bits. Of many combinations those with the smallest hashes stand for all,
each with all its records; so whoever is alone in the sketch is alone in the table, however large that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.arrays import Codes, Counts, Places, Words
from sfumato._figures.number_format import percent_exactly

MOST_COMBINATIONS, FEWER_COMBINATIONS = 1 << 18, 1 << 16
MANY_RECORDS = 1_000_000
"""Beyond this fewer combinations stand for all: the share of those alone is then known to about 0.2%."""
FEW = (1, 4, 10)
"""Alone, among fewer than 5, among fewer than 11: the sizes by which small groups are usually judged."""

MORE_THAN_ENOUGH = 1.1
"""So many times as many hashes are sorted as combinations are kept, if no two of them are equal."""

SLOTS_EACH = 4
"""Words are told apart by their first bits first, of which there are about so many times as many as words."""

NOTHING: Words = np.zeros(0, dtype=np.uint64)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class Alike:
    """The shares of the records that are alone with their public columns, among fewer than 5, and fewer than 11."""

    alone: float
    below_5: float
    below_11: float
    is_exact: bool = True

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        shares = {"alone": self.alone, "below_5": self.below_5, "below_11": self.below_11}
        return {**shares, "is_exact": self.is_exact}


def alike(counts: Counts, records: float, rows_each: int = 1, *, is_exact: bool = True) -> Alike:
    """From how many records each of some combinations has, which stand for so many records in all.

    Where a person may have several rows, as many of them as one person may have count as one.
    """
    largest = [few * rows_each for few in FEW]
    alone, below_5, below_11 = (min(float(counts[counts <= few].sum()) / max(records, 1.0), 1.0) for few in largest)
    return Alike(alone, below_5, below_11, is_exact)


class Combinations:
    """Collects the hashes of records, batch by batch."""

    def __init__(self, expected: int | None = None) -> None:
        """Of a table that is known to be large fewer combinations are enough."""
        self.most = MOST_COMBINATIONS if expected is None or expected <= MANY_RECORDS else FEWER_COMBINATIONS
        self.words: Words = np.zeros(0, dtype=np.uint64)
        self.counts: Counts = np.zeros(0, dtype=np.int64)
        self.below: int = 1 << 64
        """Combinations with hashes below this are kept, with all their records."""
        self.waiting: list[Words] = []

    def add(self, hashes: Words) -> None:
        """Add the records of one batch; sorted later, because most of them need not be."""
        if sum(map(len, self.waiting)) > 2 * self.most:
            self._sort()
        self.waiting.append(hashes if self.below == 1 << 64 else hashes[hashes < np.uint64(self.below)])

    def merge(self, other: Combinations) -> None:
        """Add what was collected elsewhere."""
        if len(other.words):
            self.below = min(self.below, other.below)
            self._sort(other.words, other.counts)
        for hashes in other.waiting:
            self.add(hashes)

    def result(self, records: int, rows_each: int = 1) -> Alike:
        """How many of all records are alike, if a person has up to so many rows."""
        self._sort()
        return alike(self.counts, records * (self.below / (1 << 64)), rows_each, is_exact=self.below == 1 << 64)

    def _sort(self, words: Words = NOTHING, counts: Counts = NOTHING) -> None:  # type: ignore[assignment]
        fresh, times = self._smallest(np.concatenate([*self.waiting, NOTHING]))
        words, counts = _merged([(self.words, self.counts), (fresh, times), (words, counts)])
        kept = len(words) if self.below == 1 << 64 else int(np.searchsorted(words, np.uint64(self.below)))
        if kept > self.most:
            self.below, kept = int(words[self.most]), self.most
        self.words, self.counts, self.waiting = words[:kept], counts[:kept], []

    def _smallest(self, hashes: Words) -> tuple[Words, Counts]:
        """The different ones among some hashes, and how often each occurs; of very many, enough of the smallest.

        Hashes are spread evenly, so it is known below which of them there will be enough; if there are not, because
        many are equal, more are looked at.
        """
        share = MORE_THAN_ENOUGH * self.most / max(len(hashes), 1)
        while share < 1:
            below = min(int(share * self.below), self.below - 1)
            found = distinct(hashes[hashes < np.uint64(below)])
            if len(found[0]) > self.most:
                self.below = min(self.below, below)
                return found
            share *= 4
        return distinct(hashes)


def _merged(parts: Sequence[tuple[Words, Counts]]) -> tuple[Words, Counts]:
    """The words of several lists, each of them in rising order, with how often they occur in all."""
    filled = [each for each in parts if len(each[0])]
    if len(filled) < 2:  # noqa: PLR2004 - nothing to merge
        return filled[0] if filled else parts[0]
    words, counts = (np.concatenate(each) for each in zip(*filled, strict=True))
    order = np.argsort(words, kind="stable")  # quick where lists are in order themselves
    words = words.take(order)
    starts = _starts(words)
    return words[starts], np.add.reduceat(counts.take(order), starts)


def distinct(words: Words) -> tuple[Words, Counts]:
    """The different words in rising order, and how often each occurs."""
    words = np.sort(words)
    starts = _starts(words)
    return words[starts], np.diff(starts, append=len(words))


def _starts(words: Words) -> Places:
    """Where in an ordered list each different word begins."""
    is_first = np.ones(len(words), dtype=np.bool_)
    np.not_equal(words[1:], words[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def hashed(numbers: npt.NDArray[Any], salt: np.uint64) -> Words:
    """A 64-bit hash of whole numbers (the finaliser of SplitMix64); sums of such words tell combinations apart."""
    mixed = numbers.astype(np.uint64) * _GOLDEN + salt
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def value_words(values: pa.Array, salt: np.uint64) -> Words:
    """A word for each of some values, none of them missing: the same for equal values, wherever they are met."""
    kind = values.type
    if pa.types.is_floating(kind):
        return hashed(values.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.uint64), salt)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return hashed(values.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64), salt)
    if pa.types.is_date32(kind):
        return hashed(values.cast(pa.int32()).to_numpy(zero_copy_only=False), salt)
    is_plain = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return _text_words((values if is_plain else values.cast(pa.string())).cast(pa.large_binary()), salt)


def _text_words(texts: pa.Array, salt: np.uint64) -> Words:
    """A word for each text, from its bytes, eight at a time: their sum, each mixed with its place in the text."""
    _, ends, data = texts.buffers()
    if not len(texts):
        return NOTHING
    ends = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = (
        np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]] if data is not None else NOTHING[:0].view(np.uint8)
    )
    lengths = np.diff(ends)
    sizes = lengths // 8 + 1  # the last of a text is filled up with zeros
    firsts = np.cumsum(sizes) - sizes
    filled = np.zeros(8 * int(sizes.sum()), dtype=np.uint8)
    filled[np.arange(len(content)) + np.repeat(8 * firsts - ends[:-1] + ends[0], lengths)] = content
    places = hashed(np.arange(int(sizes.max())), ~salt).take(np.arange(len(filled) // 8) - np.repeat(firsts, sizes))
    mixed = hashed(filled.view("<u8") + places, salt)
    return hashed(np.add.reduceat(mixed, firsts) + lengths.astype(np.uint64), salt)


class KnownWords:
    """The words of the values of one column, and of the missing one after them; those of the last values are known.

    Batches mostly list the same values as the one before, whichever thread has them.
    """

    def __init__(self, salt: np.uint64) -> None:
        self.salt = salt
        self.last: tuple[pa.Array, Words] | None = None

    def __call__(self, values: pa.Array) -> Words:
        """A word for each of some values, none of them missing, and one for the missing value."""
        last = self.last
        if last is None or not values.equals(last[0]):
            missing = hashed(np.array([0]), ~self.salt)
            self.last = last = values, np.append(value_words(values, self.salt), missing)
        return last[1]


@dataclass(frozen=True)
class Uniqueness:
    """How many records are alone with their public columns, before and after they were put into bins. Private."""

    after: Alike
    before: Alike | None
    """None where no public column has bins."""
    without: Mapping[str, float]
    """The share that would be alone if one column were left out, for those that do most."""
    records: int
    """On how many records the columns were compared."""

    @property
    def sentence(self) -> str:
        """How many records are alone with their public columns, in a sentence or two."""
        after, about = self.after, "" if self.after.is_exact else "about "
        said = (
            f"{about}{percent_exactly(after.alone)} of the records are alone with their public columns, "
            f"{percent_exactly(after.below_5)} among fewer than 5, {percent_exactly(after.below_11)} among fewer than "
            "11."
        )
        if self.before is not None:
            said += f" Before columns were put into bins, {percent_exactly(self.before.alone)} were alone."
        if after.alone and self.without:
            shares = {name: percent_exactly(share) for name, share in self.without.items()}
            now = percent_exactly(after.alone)
            named = [f"{name!r} ({fewer})" for name, fewer in shares.items() if fewer != now]
            fewest = f"Fewest would be alone without: {', '.join(named)}."
            said += f" {fewest if named else 'Leaving out one column would not make them fewer; several may.'}"
        return said[:1].upper() + said[1:]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            **self.after.to_json(),
            "before_bins": None if self.before is None else self.before.to_json(),
            "alone_without": dict(self.without),
            "records": self.records,
        }


def alone_without(columns: Mapping[str, Codes], rows: int, most: int, rows_each: int = 1) -> dict[str, float]:
    """The share of some records that would be alone without each column; the columns that do most come first."""
    salts = hashed(np.arange(len(columns)), _GOLDEN)
    words = {
        name: hashed(np.arange(int(codes.max(initial=0)) + 1), salt).take(codes)
        for (name, codes), salt in zip(columns.items(), salts, strict=True)
    }
    whole: Words = np.zeros(rows, dtype=np.uint64)
    for each in words.values():
        whole += each
    with ThreadPoolExecutor() as pool:  # numpy takes the time, and needs no lock
        alone = pool.map(lambda each: alone_among(whole - each, rows_each), words.values())
        found = {name: min(count / max(rows, 1.0), 1.0) for name, count in zip(words, alone, strict=True)}
    return dict(sorted(found.items(), key=lambda each: each[1])[:most])


def alone_among(words: Words, rows_each: int = 1) -> int:
    """How many of some words occur so many times at most.

    Where no more words than that begin alike, none of them has to be compared with others; only the rest is sorted.
    """
    bits = max(1, len(words) * SLOTS_EACH).bit_length()
    slots = (words >> np.uint64(64 - bits)).astype(np.int64)
    is_shared = np.bincount(slots) > rows_each
    rest = words[is_shared.take(slots)]
    _, counts = distinct(rest)
    return len(words) - len(rest) + int(counts[counts <= rows_each].sum())
