"""Plans, draws and weighs random sets of one size, for the mechanisms that publish sets.

Notation: n = size, d = members, γ = amplification; a = hold = γd / (γd + n - d), b = other = (d - a) / (n - 1). All
sets of size d with the true value are equally likely, and so are all sets of size d without it. A set with the true
value has γ times the probability of a set without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Protocol

import numpy as np

from sfumato._core.array_types import Bits64, Bytes, Codes, Indices, Mask, UInts
from sfumato._core.radix_sort import LARGEST_WORD
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._core.run_lookup import Runs
from sfumato._request.belief_bounds import BreachBound
from sfumato.errors import InfeasibleError, ReleaseFormatError
from sfumato.mechanisms._randomized_response.estimation_weights import SetWeights
from sfumato.mechanisms.mechanism import make_design_error

# Numbers all sets of some sizes from a few values, and finds each set by its number. So a set of any size needs one
# exactly uniform draw below the number of sets, instead of one draw for each member.
#
# The values are halved until all sets of a part fit into a table. The sets of two halves are ordered by four numbers,
# in turn. These are the number of members, the number of members in the first half, the first half's number, and the
# second half's number. So one search and one division of integers split the number of a set into the numbers of its
# halves.

MOST_VALUES = 63
"""The largest number of values for which the number of a set and its bits fit into 64 bits."""

TABLE_VALUES = 13
"""The largest number of values for which a table lists all sets. The table then fits into the cache of a core."""


class NumberedSets(Protocol):
    """The sets of some sizes, in the order of their numbers."""

    value_count: int

    def find_first(self, members: int) -> int:
        """The number of the first set with this many members."""
        ...

    def find_sets(self, numbers: UInts) -> Bits64:
        """The set of each number, with a bit for each value. The first value is the highest bit."""
        ...


class _ListedSets:
    """A table of all sets of a few values."""

    def __init__(self, values: int) -> None:
        self.value_count = values
        bits = np.arange(1 << values, dtype=np.uint64)
        self._sets: Bits64 = bits[np.argsort(np.bitwise_count(bits), kind="stable")]

    def find_first(self, members: int) -> int:
        return sum(math.comb(self.value_count, fewer) for fewer in range(members))

    def find_sets(self, numbers: UInts) -> Bits64:
        return self._sets.take(numbers)


class _HalvedSets:
    """The sets of neighbouring sizes that combine two parts of the values."""

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
    """Numbers the sets of some consecutive sizes among a number of values."""
    return _HalvedSets(_number_all_sets((values + 1) // 2), _number_all_sets(values // 2), sizes)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubsetSelection:
    """Sets of one size and their draws. Of `words` outcomes, the first `hold_words` put the true value into the set."""

    size: int
    """The number of values to draw from."""
    members: int
    """The number of values in each set."""
    hold_outcomes: int
    outcome_count: int

    @classmethod
    def from_bound(cls, size: int, bound: BreachBound) -> SubsetSelection:
        """Finds the sets that give the rarest value the smallest error within a bound.

        A probability that needs more than 63 bits is rounded down, towards privacy.
        """
        members, factor = find_best_set_size(size, bound.amplification), bound.amplification
        hold = members * factor / (members * factor + size - members)
        outcome_count = min(hold.denominator, LARGEST_BOUND)
        selection = cls(size, members, math.floor(hold * outcome_count), outcome_count)
        if selection.hold_probability * size <= members:
            raise InfeasibleError(
                f"the posterior {bound.posterior} is too close to the prior {bound.prior}: a set could not contain "
                "the true value more often than other values, so nothing could be counted. Allow a larger posterior.",
                code="posterior-too-close",
                fields={"prior": str(bound.prior), "posterior": str(bound.posterior)},
            )
        return selection

    @classmethod
    def read(cls, size: int, members: int, hold: Fraction, bound: BreachBound) -> SubsetSelection:
        """Reads the sets of a design; refuses sets that the design's bound does not allow."""
        if not 0 < members < size or not 0 < hold < 1:
            raise make_design_error("the design's sets or domain are out of range.", "sets")
        selection = cls(size, members, hold.numerator, hold.denominator)
        if not 1 < selection.amplification <= bound.amplification:
            raise ReleaseFormatError(
                "the design's sets contain the true value more often than the bound allows, or never.",
                code="design-breaks-bound",
            )
        return selection

    @property
    def lowest_terms(self) -> SubsetSelection:
        """The same selection with its probability in lowest terms, as in a design."""
        return replace(
            self, hold_outcomes=self.hold_probability.numerator, outcome_count=self.hold_probability.denominator
        )

    @property
    def hold_probability(self) -> Fraction:
        """The probability that a set holds the true value."""
        return Fraction(self.hold_outcomes, self.outcome_count)

    @property
    def other_probability(self) -> Fraction:
        """The probability that a set holds one given value that is not the true one."""
        return (self.members - self.hold_probability) / (self.size - 1)

    @property
    def amplification(self) -> Fraction:
        """The likelihood of a set given a value in the set, divided by its likelihood given a value outside."""
        return self.hold_probability * (self.size - self.members) / (self.members * (1 - self.hold_probability))

    @property
    def weighing(self) -> SetWeights:
        """The weights of sets."""
        return SetWeights(self.size, self.members, float(self.hold_probability), float(self.other_probability))

    def draw_bits(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Codes:
        """Draws the set of each record with draws of this name, as bits.

        The first value is the highest bit of the first byte.
        """
        if self.is_ranked:
            return self._draw_by_number(codes, draws, name, first_row)
        return np.packbits(self._draw_by_member(codes, draws, name, first_row), axis=1)

    def draw_members(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Mask:
        """Draws the sets as rows of zeros and ones, one row for each record."""
        if not self.is_ranked:
            return self._draw_by_member(codes, draws, name, first_row)
        return np.unpackbits(self._draw_by_number(codes, draws, name, first_row), axis=1, count=self.size).view(
            np.bool_
        )

    @property
    def is_ranked(self) -> bool:
        """Whether there are few enough sets for a number to identify each set."""
        return self.size - 1 <= MOST_VALUES

    def _draw_by_number(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Bytes:
        """Draws the number of a set of other values. The set has one member less if it contains the record's own value.

        Both numbers are drawn for every record, so that no bound depends on another draw.
        """
        rows, others = len(codes), self.size - 1
        is_held = (
            draws.get_stream(f"{name}/hold").draw_integers(first_row, rows, self.outcome_count) < self.hold_outcomes
        )
        fewer, all_members = math.comb(others, self.members - 1), math.comb(others, self.members)
        beside = draws.get_stream(f"{name}/beside").draw_integers(first_row, rows, fewer)
        without = draws.get_stream(f"{name}/without").draw_integers(first_row, rows, all_members)
        sets = number_sets(others, self.members - 1, self.members)
        set_bits = sets.find_sets(np.where(is_held, beside, without + np.uint64(fewer))) << np.uint64(64 - others)
        # # the bits from the own value on are shifted to insert it
        own = codes.astype(np.uint64)
        low = set_bits & (LARGEST_WORD >> own)
        set_bits ^= low ^ (low >> np.uint64(1)) ^ (is_held.astype(np.uint64) << (np.uint64(63) - own))
        lowest_first = set_bits.astype("<u8", copy=False).view(np.uint8).reshape(rows, 8)
        bits = np.empty((rows, -(-self.size // 8)), dtype=np.uint8)
        for place in range(bits.shape[1]):  # twice as fast as row by row, because a row has few bytes
            bits[:, place] = lowest_first[:, 7 - place]
        return bits

    def _draw_by_member(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Mask:
        """Draws sets by Floyd's algorithm on the other values. Each member has one draw, below its own bound.

        A set that contains the record's value has one other member less, so the first draw is not used.
        """
        rows, size = len(codes), self.size
        # Members are consecutive rows of one array, which is faster to access than a table of two dimensions.
        start = np.arange(rows) * size
        own = start + codes
        is_held = (
            draws.get_stream(f"{name}/hold").draw_integers(first_row, rows, self.outcome_count) < self.hold_outcomes
        )
        is_member = np.zeros(rows * size, dtype=np.bool_)
        first = size - 1 - self.members
        for last in range(first, size - 1):
            numbers = (
                draws.get_stream(f"{name}/member/{last}").draw_integers(first_row, rows, last + 1).astype(np.int64)
            )
            place = _skip_own_value(start + numbers, own)
            place = np.where(is_member.take(place), _skip_own_value(start + last, own), place)
            np.put(is_member, place, ~is_held if last == first else True)
        np.put(is_member, own, is_held)
        return is_member.reshape(rows, size)


def find_best_set_size(size: int, amplification: Fraction) -> int:
    """The size d that minimises b(1-b) / (a-b)², the variance that each record adds to the count of a rare value.

    It is one of the integers next to the real-valued minimum n / (1 + γ).
    """
    middle = math.floor(size / (1 + amplification))
    near = range(max(1, middle - 1), min(size - 1, middle + 2) + 1)
    return min(near, key=lambda members: (_compute_variance(size, members, amplification), members))


def _compute_variance(size: int, members: int, amplification: Fraction) -> Fraction:
    hold = members * amplification / (members * amplification + size - members)
    other = (members - hold) / (size - 1)
    return other * (1 - other) / (hold - other) ** 2


def _skip_own_value(places: Indices, own: Indices) -> Indices:
    """Shifts the indices of the other values, which are numbered without the record's own value."""
    return places + (places >= own)
