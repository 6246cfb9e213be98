"""Sets of one size that hold the true value by a coin: planned, drawn and weighed, for the mechanisms that show sets.

Notation: n = size, d = members, γ = amplification; a = hold = γd / (γd + n - d), b = other = (d - a) / (n - 1). All
sets of d that hold the true value are equally likely, and so are all that do not; the former have γ times the chance of
the latter.
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

# Sets by their number: all sets of some sizes that few values have, each numbered once, and found from its number.
#
# So a set of any size needs one draw below the number of sets, which is exactly uniform, instead of a draw a member.
#
# Values are halved until all sets of a part stand in a table. The sets of two halves are numbered by how many members
# they have, then by how many of these are in the first half, then by the first half's number, then by the second's: the
# number of a set falls apart into those of its halves by one search and one division, both of integers.

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


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubsetSelection:
    """A draw below `words` decides whether a set holds its record's value: it does for the first `hold_words`."""

    size: int
    """From how many values sets are drawn."""
    members: int
    """How many of them each set holds."""
    hold_outcomes: int
    outcome_count: int

    @classmethod
    def from_bound(cls, size: int, bound: BreachBound) -> SubsetSelection:
        """The sets that give the rarest value the smallest error within a bound.

        A chance that needs more than 63 bits is rounded down, towards privacy.
        """
        members, factor = find_best_set_size(size, bound.amplification), bound.amplification
        hold = members * factor / (members * factor + size - members)
        outcome_count = min(hold.denominator, LARGEST_BOUND)
        selection = cls(size, members, math.floor(hold * outcome_count), outcome_count)
        if selection.hold_probability * size <= members:
            raise InfeasibleError(
                f"the posterior {bound.posterior} is so close to the prior {bound.prior} that a set could not hold its "
                "own value more often than others, and nothing could be counted; allow a larger posterior."
            )
        return selection

    @classmethod
    def read(cls, size: int, members: int, hold: Fraction, bound: BreachBound) -> SubsetSelection:
        """The sets that a design speaks of; those that its bound does not allow are refused."""
        if not 0 < members < size or not 0 < hold < 1:
            raise ReleaseFormatError("the design's sets or domain are out of range.")
        selection = cls(size, members, hold.numerator, hold.denominator)
        if not 1 < selection.amplification <= bound.amplification:
            raise ReleaseFormatError(
                "the design's sets hold the true value more often than its bound allows, or never."
            )
        return selection

    @property
    def lowest_terms(self) -> SubsetSelection:
        """The same as a design has it: the chance in lowest terms."""
        return replace(
            self, hold_outcomes=self.hold_probability.numerator, outcome_count=self.hold_probability.denominator
        )

    @property
    def hold_probability(self) -> Fraction:
        """The chance that a set holds the true value."""
        return Fraction(self.hold_outcomes, self.outcome_count)

    @property
    def other_probability(self) -> Fraction:
        """The chance that a set holds one given value that is not the true one."""
        return (self.members - self.hold_probability) / (self.size - 1)

    @property
    def amplification(self) -> Fraction:
        """How much likelier a set is from a value it holds than from one it does not."""
        return self.hold_probability * (self.size - self.members) / (self.members * (1 - self.hold_probability))

    @property
    def weighing(self) -> SetWeights:
        """How sets become weights."""
        return SetWeights(self.size, self.members, float(self.hold_probability), float(self.other_probability))

    def draw_bits(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Codes:
        """The set of each record, by draws of this name; as bits, the first value highest in the first byte."""
        if self.is_ranked:
            return self._draw_by_number(codes, draws, name, first_row)
        return np.packbits(self._draw_by_member(codes, draws, name, first_row), axis=1)

    def draw_members(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Mask:
        """The same as a row of membership for each record."""
        if not self.is_ranked:
            return self._draw_by_member(codes, draws, name, first_row)
        return np.unpackbits(self._draw_by_number(codes, draws, name, first_row), axis=1, count=self.size).view(
            np.bool_
        )

    @property
    def is_ranked(self) -> bool:
        """Whether the sets are so few that one number tells which it is."""
        return self.size - 1 <= MOST_VALUES

    def _draw_by_number(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Bytes:
        """Draw the number of a set of the other values: of one member less beside the record's own value, or of all.

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
        # The bits from the own value on make room for it.
        own = codes.astype(np.uint64)
        low = set_bits & (LARGEST_WORD >> own)
        set_bits ^= low ^ (low >> np.uint64(1)) ^ (is_held.astype(np.uint64) << (np.uint64(63) - own))
        lowest_first = set_bits.astype("<u8", copy=False).view(np.uint8).reshape(rows, 8)
        bits = np.empty((rows, -(-self.size // 8)), dtype=np.uint8)
        for place in range(bits.shape[1]):  # twice as fast as row by row, because a row has few bytes
            bits[:, place] = lowest_first[:, 7 - place]
        return bits

    def _draw_by_member(self, codes: Codes, draws: Draws, name: str, first_row: int) -> Mask:
        """Floyd's algorithm on the other values: as many draws as a set has members, each below a bound of its own.

        A set that holds its record's value has one other member less, and leaves the first draw out.
        """
        rows, size = len(codes), self.size
        # Members lie row after row in one array, which is quicker to reach than a table of two dimensions.
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

    It lies beside n / (1 + γ), where the real-valued minimum is.
    """
    middle = math.floor(size / (1 + amplification))
    near = range(max(1, middle - 1), min(size - 1, middle + 2) + 1)
    return min(near, key=lambda members: (_compute_variance(size, members, amplification), members))


def _compute_variance(size: int, members: int, amplification: Fraction) -> Fraction:
    hold = members * amplification / (members * amplification + size - members)
    other = (members - hold) / (size - 1)
    return other * (1 - other) / (hold - other) ** 2


def _skip_own_value(places: Indices, own: Indices) -> Indices:
    """The places of other values, which are numbered without the own one."""
    return places + (places >= own)
