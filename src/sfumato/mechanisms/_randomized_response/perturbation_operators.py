"""The perturbation operator of mechanisms that keep a value or redraw it within its sub-table, and its sampler.

Notation: a record with value x in a sub-table of m values keeps its value with probability p (its retention). Otherwise
it gets each value of the sub-table, including x, with probability q = (1-p)/m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sfumato._core.array_types import Amounts, Bits64, Codes, Floats, Indices, Mask
from sfumato._core.random_draws import LARGEST_BOUND, Stream
from sfumato._records.value_records import ValueEncoding


@dataclass(frozen=True, slots=True)
class Cell:
    """The values of a sub-table, as indices in the domain, and the retention of each value."""

    places: tuple[int, ...]
    retentions: tuple[Fraction, ...]

    @classmethod
    def from_retention(cls, places: Sequence[int], retention: Fraction) -> Cell:
        """Makes a sub-table with one retention for all its values."""
        return cls(tuple(places), (retention,) * len(places))


class Operator:
    """The sub-tables of a design as arrays, with one entry for each value of each sub-table."""

    def __init__(self, cells: Sequence[Cell], domain_size: int) -> None:
        sizes = [len(cell.places) for cell in cells]
        self.domain_size = domain_size
        self.sizes = np.array(sizes, dtype=np.int64)
        self.first_entries: Indices = np.cumsum(self.sizes) - self.sizes
        """The first entry of each sub-table."""
        self.cells: Indices = np.repeat(np.arange(len(cells)), sizes)
        self.places: Indices = np.array([place for cell in cells for place in cell.places], dtype=np.int64)
        self.retention: Floats = np.array([float(retention) for cell in cells for retention in cell.retentions])
        self.swap: Floats = (1 - self.retention) / self.sizes[self.cells]
        self.is_flat = all(len(set(cell.retentions)) == 1 for cell in cells)
        self.is_whole = len(cells) == 1 and np.array_equal(self.places, np.arange(domain_size))
        """Whether there is only one sub-table, with all values."""

    def sum_by_cell(self, numbers: Amounts | Mask) -> Floats:
        """Sums numbers over the entries of each sub-table, which are consecutive in the last axis."""
        if numbers.ndim == 1:
            return np.asarray(np.bincount(self.cells, weights=numbers, minlength=len(self.sizes)), dtype=np.float64)
        return np.add.reduceat(numbers, self.first_entries, axis=-1, dtype=np.float64)

    def sum_own_cell(self, numbers: Amounts | Mask) -> Floats:
        """For each entry, the sum over all entries of its sub-table. A single number if there is only one sub-table."""
        if len(self.sizes) == 1:
            return np.asarray(numbers.sum(axis=-1, keepdims=True), dtype=np.float64)
        return self.sum_by_cell(numbers)[..., self.cells]

    def expand_to_entries(self, numbers: Floats) -> Floats:
        """Turns a number for each value into a number for each entry."""
        return numbers if self.is_whole else numbers[..., self.places]

    def sum_by_place(self, numbers: Floats) -> Floats:
        """Sums numbers over the entries of each value."""
        if self.is_whole:
            return numbers
        lines = numbers.reshape(-1, numbers.shape[-1])
        sums = [np.bincount(self.places, weights=line, minlength=self.domain_size) for line in lines]
        return np.array(sums, dtype=np.float64).reshape(*numbers.shape[:-1], self.domain_size)

    def compute_expected_counts(self, entry_counts: Floats) -> Floats:
        """The expected number of records that publish each entry, if `held` records have it as their true entry."""
        return self.sum_own_cell(self.swap * entry_counts) + self.retention * entry_counts

    def compute_likelihoods(self, shares: Floats, values: Codes, cells: Codes | None = None) -> Floats:
        """The likelihood of each record's published value and sub-table, given each value of the domain.

        `shares` has the share of a value's records in the sub-table of each entry.
        """
        swap_chances, keep_chances = (np.zeros((len(self.sizes), self.domain_size)) for _ in range(2))
        swap_chances[self.cells, self.places] = shares * self.swap
        keep_chances[self.cells, self.places] = shares * self.retention
        cell = np.zeros(len(values), dtype=np.int64) if cells is None else cells.astype(np.int64)
        chances = swap_chances[cell]
        chances[np.arange(len(values)), values] += keep_chances[cell, values]
        return chances

    def make_encoding(self) -> ValueEncoding:
        """The record encoding: a value, and its sub-table if there are several."""
        return ValueEncoding(self.places, self.cells if len(self.sizes) > 1 else None)


@dataclass(frozen=True, slots=True)
class RetentionDraws:
    """The number of equally likely outcomes that keep a record, and the number that give each value of its sub-table.

    There is one entry for each sub-table, or for each value if every value has its own retention.
    """

    keep_outcomes: Bits64 = field(repr=False)
    swap_outcomes: Bits64 = field(repr=False)
    outcomes: Bits64 = field(repr=False)

    @classmethod
    def of(cls, outcome_splits: Sequence[tuple[int, int]], sizes: Sequence[int]) -> RetentionDraws:
        """Makes draws from (keep, swap) pairs and the number of values in the sub-table of each."""
        keep, swap = (np.array(column, dtype=np.uint64) for column in zip(*outcome_splits, strict=True))
        outcomes = [
            kept_outcomes + size * swapped for (kept_outcomes, swapped), size in zip(outcome_splits, sizes, strict=True)
        ]
        # If a value is always kept, no outcomes remain for the other values.
        return cls(keep, np.maximum(swap, np.uint64(1)), np.array(outcomes, dtype=np.uint64))

    def draw(self, stream: Stream, first_row: int, entry_numbers: Codes) -> tuple[Mask, Indices]:
        """Draws for each record whether its value is kept, and otherwise which value of its sub-table replaces it."""
        outcomes = stream.draw_integers(first_row, len(entry_numbers), self.outcomes.take(entry_numbers))
        keep = self.keep_outcomes.take(entry_numbers)
        is_kept = outcomes < keep
        swapped = np.where(is_kept, np.uint64(0), outcomes - keep) // self.swap_outcomes.take(entry_numbers)
        return is_kept, swapped.astype(np.int64)


def split_outcomes(size: int, amplification: Fraction) -> tuple[int, int]:
    """Divides the outcomes so that Pr[kept] is `amplification` times Pr[a given other value].

    (keep + swap) / swap = amplification: with amplification a/b that is swap = b and keep = a - b. If the exact
    rational number needs more than 63 bits, keep is rounded down, towards privacy.
    """
    swap = amplification.denominator
    keep = amplification.numerator - amplification.denominator
    if keep + size * swap <= LARGEST_BOUND:
        return keep, swap
    swap = max(1, math.floor(LARGEST_BOUND / (size - 1 + amplification)))
    limit = LARGEST_BOUND - size * swap
    return min(limit, math.floor((amplification - 1) * swap)), swap


def compute_retention(outcome_split: tuple[int, int], size: int) -> Fraction:
    """The probability that a record keeps its value."""
    keep, swap = outcome_split
    return Fraction(keep, keep + size * swap)
