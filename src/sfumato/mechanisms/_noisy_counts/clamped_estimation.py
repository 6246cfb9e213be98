"""Estimates the true counts of cells from noisy counts, with unbiased variances.

A true count lies between 0 and the people n of its cell. So a noisy count says no more than the nearest number in this
range, which is called the clamped count. The estimate is the mean of the noisy count, given all clamped counts of the
cell. This estimate stays unbiased and varies less (Rao and Blackwell).

Given the clamped counts, only two totals are random. E is the total by which noisy counts clamped to n exceed n. F is
the total by which noisy counts clamped to 0 fall below 0. The noisy counts add up to n, so F = E + Δ, and Δ is known.
All ways to split E and F among their values are equally likely, which gives

    P(E) ~ C(E+u-1, u-1) C(F+k-1, k-1) r^E,
    T = the clamped count between 0 and n, n + E[E]/u at n, -E[F]/k at 0,
    Var(y_theta | s) = Var(E) (S_U/u - S_N/k)² + B (u Q_U - S_U²) + C (k Q_N - S_N²),
    B = E[E(E+u)] / (u² (u+1)), C = E[F(F+k)] / (k² (k+1)).

Notation: y = noisy, s = clamped counts, n = people, r = ratio; U, N = the values with s = n (full) and s = 0 (empty), u
and k = their numbers; Δ = overshoot, the sum of s minus n; E = excess, F = shortfall, A = Var(E); S, Q = the sums of
theta and theta² over U or N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Bytes, Counts, Floats, Indices, UInts
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

BLOCK_COUNTS = 1 << 18
"""The number of counts that are processed together, so that they fit into the cache of a processor core."""

BLOCK_KINDS = 1 << 12
"""The number of kinds of cells whose moments are summed together."""

NEGLIGIBLE = 1e-25
"""A sum leaves out probabilities that are smaller than this part of the largest probability."""


def estimate_counts(noise: FixedSumNoise, people: Counts, noisy: Counts) -> Floats:
    """The unbiased estimates of all counts, a row for each cell. Each row adds up to the people of its cell."""
    kinds = CellKinds.of(noise, people, noisy)
    surplus = kinds.excess_mean / np.maximum(kinds.full, 1)
    deficit = (kinds.excess_mean + kinds.overshoot) / np.maximum(kinds.empty, 1)
    estimates = np.empty(noisy.shape)
    for block in _iter_blocks(noisy):
        kind, limits, counts = kinds.numbers[block], people[block, np.newaxis], noisy[block]
        inside = estimates[block]
        inside[:] = counts
        np.copyto(inside, limits + surplus.take(kind)[:, np.newaxis], where=counts >= limits)
        np.copyto(inside, -deficit.take(kind)[:, np.newaxis], where=counts <= 0)
    return estimates


@dataclass(frozen=True)
class CellKinds:
    """The cells by kind: cells of one kind have the same distribution of the excess."""

    numbers: UInts = field(repr=False)
    """The kind of each cell."""
    full_bits: Bytes = field(repr=False)
    """For each cell a column of bits, which are 1 for values whose noisy count is at least the people."""
    empty_bits: Bytes = field(repr=False)
    """The same for values whose noisy count is at most 0."""
    full: Counts
    """For each kind, the number of full values."""
    empty: Counts
    overshoot: Counts
    ratio: float

    @classmethod
    def of(cls, noise: FixedSumNoise, people: Counts, noisy: Counts) -> CellKinds:
        """Compares the noisy counts with their limits. Refuses counts that do not add up to the people."""
        planes = -(-noise.size // 8), len(noisy)
        full_bits, empty_bits = np.empty(planes, dtype=np.uint8), np.empty(planes, dtype=np.uint8)
        overshoot = np.empty(len(noisy), dtype=np.int64)
        for block in _iter_blocks(noisy):
            limits, counts = people[block, np.newaxis], noisy[block]
            if (people[block] < 1).any() or (counts.sum(axis=1) != people[block]).any():
                raise ReleaseFormatError("the noisy counts of a cell do not add up to its people.", code="cell-sums")
            full_bits[:, block] = np.packbits(counts >= limits, axis=1).T
            empty_bits[:, block] = np.packbits(counts <= 0, axis=1).T
            overshoot[block] = np.clip(counts, 0, limits).sum(axis=1) - people[block]
        kinds = _number_distinct(noise.size, _count_bits(full_bits), _count_bits(empty_bits), overshoot)
        numbers, full, empty, overshoot = kinds
        return cls(numbers, full_bits, empty_bits, full, empty, overshoot, float(noise.ratio))

    @property
    def excess_mean(self) -> Floats:
        """For each kind, the mean of the excess."""
        return self._excess_moments[0]

    @property
    def excess_variance(self) -> Floats:
        """For each kind, the variance of the excess."""
        return self._excess_moments[1]

    @cached_property
    def _excess_moments(self) -> tuple[Floats, Floats]:
        mean, variance = np.zeros(len(self.full)), np.zeros(len(self.full))
        (with_excess,) = np.nonzero(self.full)
        for start in range(0, len(with_excess), BLOCK_KINDS):
            kinds = with_excess[start : start + BLOCK_KINDS]
            excess = ExcessDistribution(
                self.full[kinds].astype(float),
                self.empty[kinds].astype(float),
                self.overshoot[kinds].astype(float),
                self.ratio,
            )
            mean[kinds], variance[kinds] = excess.compute_moments()
        return mean, variance


@dataclass(frozen=True)
class ExcessDistribution:
    """The distributions of the excess of several kinds of cells."""

    full: Floats
    empty: Floats
    overshoot: Floats
    ratio: float

    def compute_moments(self) -> tuple[Floats, Floats]:
        """The mean and the variance of each distribution.

        Both are summed around the mode, so that no difference is inexact.
        """
        mode = self._find_mode()
        weight_sum, first, second = np.ones_like(mode), np.zeros_like(mode), np.zeros_like(mode)
        for sign in (1, -1):
            weight, excess, distance = np.ones_like(mode), mode.copy(), 0
            while (weight > NEGLIGIBLE).any():
                weight *= self._compute_step_up(excess) if sign > 0 else self._compute_step_down(excess)
                excess += sign
                distance += sign
                weight_sum += weight
                first += weight * distance
                second += weight * distance**2
        mean = first / weight_sum
        return mode + mean, second / weight_sum - mean**2

    def _compute_step_up(self, excess: Floats) -> Floats:
        """The probability of an excess of one unit more, divided by the probability of this excess.

        It falls as the excess grows.
        """
        shortfall = excess + self.overshoot
        steps: Floats = self.ratio * (excess + self.full) / (excess + 1) * (shortfall + self.empty) / (shortfall + 1)
        return steps

    def _compute_step_down(self, excess: Floats) -> Floats:
        """The probability of an excess of one unit less, divided by the probability of this excess.

        It is 0 if the excess is 0.
        """
        shortfall = excess + self.overshoot
        full, empty = (np.maximum(numbers - 1, 1) for numbers in (excess + self.full, shortfall + self.empty))
        steps: Floats = excess / full * shortfall / empty / self.ratio
        return steps

    def _find_mode(self) -> Floats:
        """About the most probable excess, where the step is 1: the larger root of a square equation, or 0."""
        full, empty, overshoot, ratio = self.full, self.empty, self.overshoot, self.ratio
        half = (overshoot + 2 - ratio * (full + overshoot + empty)) / 2
        constant = overshoot + 1 - ratio * full * (overshoot + empty)
        root = np.sqrt(np.maximum(half**2 - (1 - ratio) * constant, 0))
        # The usual formula would subtract nearly equal numbers if `half` is large and positive.
        with np.errstate(divide="ignore", invalid="ignore"):
            modes = np.where(half > 0, -constant / (half + root), (root - half) / (1 - ratio))
        return np.maximum(np.ceil(modes), 0)


@dataclass(frozen=True)
class VarianceReduction:
    """How much less the estimates of cells vary than their noisy counts.

    Theta has a number for each value. The sum of theta times the noisy counts of a cell has a variance that does not
    depend on the counts. This variance is a product of three factors: the variance of one value's noise, m/(m-1), and
    the sum of the squares of theta - mean(theta). The product minus the reduction is an unbiased estimate of the
    variance of the same sum of estimates.
    """

    kinds: CellKinds
    full_spread: Floats
    """For each kind, E[E(E+u)] / (u² (u+1)): the variance of the full values around their mean."""
    empty_spread: Floats
    """For each kind, E[F(F+k)] / (k² (k+1))."""

    @classmethod
    def of(cls, noise: FixedSumNoise, people: Counts, noisy: Counts) -> VarianceReduction:
        """Computes everything that does not depend on theta."""
        kinds = CellKinds.of(noise, people, noisy)
        shortfall = kinds.excess_mean + kinds.overshoot
        return cls(
            kinds,
            _compute_spread(kinds.excess_mean, kinds.excess_variance, kinds.full),
            _compute_spread(shortfall, kinds.excess_variance, kinds.empty),
        )

    def compute(self, theta: Floats) -> Floats:
        """For each cell, the variance of the sum of theta times the noisy counts, given the clamped counts."""
        # The counts of a cell add up to its people, so the same number may be subtracted from all of theta. A median is
        # subtracted. If theta marks few or most values, most numbers then become 0. Differences of large numbers also
        # stay exact.
        theta = theta - np.partition(theta, len(theta) // 2)[len(theta) // 2]
        kinds, spread = self.kinds, self.kinds.excess_variance
        full, empty = (np.maximum(numbers, 1).astype(float) for numbers in (kinds.full, kinds.empty))
        sums, squares = SumTables.of(theta), SumTables.of(theta**2)
        reductions = np.empty(len(kinds.numbers))
        for start in range(0, len(reductions), BLOCK_COUNTS):
            block = slice(start, start + BLOCK_COUNTS)
            kind, full_bits, empty_bits = kinds.numbers[block], kinds.full_bits[:, block], kinds.empty_bits[:, block]
            full_sum, empty_sum = sums.add_up(full_bits), sums.add_up(empty_bits)
            u, k = full.take(kind), empty.take(kind)
            reductions[block] = (
                spread.take(kind) * (full_sum / u - empty_sum / k) ** 2
                + self.full_spread.take(kind) * (u * squares.add_up(full_bits) - full_sum**2)
                + self.empty_spread.take(kind) * (k * squares.add_up(empty_bits) - empty_sum**2)
            )
        return np.maximum(reductions, 0, out=reductions)  # rounding may leave less than 0


@dataclass(frozen=True)
class SumTables:
    """Adds up numbers over sets of values, eight values at a time: a table has the sum of each set of eight values."""

    tables: dict[int, Floats]
    """The tables by byte. Bytes of which all numbers are 0 are left out."""

    @classmethod
    def of(cls, numbers: Floats) -> SumTables:
        """Makes the tables of a number for each value."""
        padded = np.zeros((-(-len(numbers) // 8), 8))
        padded.reshape(-1)[: len(numbers)] = numbers
        is_member = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1).astype(float)
        return cls({int(place): is_member @ padded[place] for place in np.flatnonzero(padded.any(axis=1))})

    def add_up(self, bits: Bytes) -> Floats:
        """The sum over each set; a column of bits is a set."""
        sums = np.zeros(bits.shape[1])
        for place, table in self.tables.items():
            sums += table.take(bits[place])
        return sums


def _iter_blocks(noisy: Counts) -> Iterator[slice]:
    cells = max(1, BLOCK_COUNTS // noisy.shape[1])
    for start in range(0, len(noisy), cells):
        yield slice(start, start + cells)


def _count_bits(bits: Bytes) -> Indices:
    """The number of ones in each column."""
    counts: Indices = np.add.reduce(np.bitwise_count(bits), axis=0, dtype=np.int64)
    return counts


def _number_distinct(size: int, full: Counts, empty: Counts, overshoot: Counts) -> tuple[UInts, Counts, Counts, Counts]:
    """Numbers the distinct combinations of three numbers: the number of each cell, and the combinations."""
    overshoots, places = np.unique(overshoot, return_inverse=True)  # they may be too large to be combined
    combined = (full * (size + 1) + empty) * len(overshoots) + places
    distinct, numbers = np.unique(combined, return_inverse=True)
    sides, places = np.divmod(distinct, max(len(overshoots), 1))
    kinds: tuple[Counts, Counts] = np.divmod(sides, size + 1)
    return numbers.astype(np.min_scalar_type(len(distinct))), *kinds, overshoots[places]


def _compute_spread(mean: Floats, variance: Floats, values: Counts) -> Floats:
    """E[X(X+v)] / (v² (v+1)) of a total X that is shared out among v values; 0 without values."""
    several = np.maximum(values, 1).astype(float)
    spread: Floats = (variance + mean * (mean + several)) / (several**2 * (several + 1))
    return spread
