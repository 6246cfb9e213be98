"""Sets by their number: all sets of some sizes that few values have, each numbered once, and found from its number.

So a set of any size needs one draw below the number of sets, which is exactly uniform, instead of a draw a member.

Values are halved until all sets of a part stand in a table. The sets of two halves are numbered by how many members
they have, then by how many of these are in the first half, then by the first half's number, then by the second's: the
number of a set falls apart into those of its halves by one search and one division, both of integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np

from sfumato._core.arrays import Bits64, UInts
from sfumato.mechanisms._bucketization.run_lengths import Runs

MOST_VALUES = 63
"""So many values have sets whose numbers, and whose bits, fit into 64."""

TABLE_VALUES = 13
"""All sets of so many values stand in a table, which stays in the cache of a core."""


class NumberedSets(Protocol):
    """The sets of some sizes, in the order of their numbers."""

    value_count: int

    def find_first(self, members: int) -> int:
        """The number of the first set of so many members."""
        ...

    def find_sets(self, numbers: UInts) -> Bits64:
        """The set of each number: a bit for each value, the first value highest."""
        ...


class _ListedSets:
    """All sets of a few values, written out."""

    def __init__(self, values: int) -> None:
        self.value_count = values
        bits = np.arange(1 << values, dtype=np.uint64)
        self._sets: Bits64 = bits[np.argsort(np.bitwise_count(bits), kind="stable")]

    def find_first(self, members: int) -> int:
        return sum(math.comb(self.value_count, fewer) for fewer in range(members))

    def find_sets(self, numbers: UInts) -> Bits64:
        return self._sets.take(numbers)


class _HalvedSets:
    """The sets of two parts of values together, of neighbouring sizes."""

    def __init__(self, left: NumberedSets, right: NumberedSets, sizes: Sequence[int]) -> None:
        self.value_count = left.value_count + right.value_count
        self._left, self._right, self._sizes = left, right, sizes
        splits = [
            (size, within)
            for size in sizes
            for within in range(max(0, size - right.value_count), min(size, left.value_count) + 1)
        ]
        lengths = [
            math.comb(left.value_count, within) * math.comb(right.value_count, size - within) for size, within in splits
        ]
        self._splits = Runs(np.array(lengths, dtype=np.int64))
        kind = self._splits.type
        self._starts = (np.cumsum(lengths, dtype=np.int64) - lengths).astype(kind)
        self._widths = np.array([math.comb(right.value_count, size - within) for size, within in splits], dtype=kind)
        self._lefts = np.array([left.find_first(within) for _, within in splits], dtype=kind)
        self._rights = np.array([right.find_first(size - within) for size, within in splits], dtype=kind)

    def find_first(self, members: int) -> int:
        return sum(math.comb(self.value_count, size) for size in self._sizes if size < members)

    def find_sets(self, numbers: UInts) -> Bits64:
        numbers = numbers.astype(self._splits.type, copy=False)
        split = self._splits.find(numbers)
        rest = numbers - self._starts.take(split)
        widths = self._widths.take(split)
        quotient = rest // widths
        left = self._left.find_sets(self._lefts.take(split) + quotient)
        right = self._right.find_sets(self._rights.take(split) + (rest - quotient * widths))
        return (left << np.uint64(self._right.value_count)) | right


@cache
def _number_all_sets(values: int) -> NumberedSets:
    """The sets of all sizes."""
    if values <= TABLE_VALUES:
        return _ListedSets(values)
    return _HalvedSets(_number_all_sets((values + 1) // 2), _number_all_sets(values // 2), range(values + 1))


@cache
def number_sets(values: int, *sizes: int) -> NumberedSets:
    """The sets of so many values that have these sizes, which follow each other."""
    return _HalvedSets(_number_all_sets((values + 1) // 2), _number_all_sets(values // 2), sizes)
