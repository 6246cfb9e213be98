"""Draws whole-number noise that adds up to zero over the values of a domain, and computes its exact distribution.

A cell is an equivalence class: all people with the same public values. Each of its counts gets its own noise. Noise
that moves d units from some values to others has the probability P(0) r^d. The noise of a cell depends only on the
cell's number. So the noise is the same however the cells are divided into calls.

Drawing: first a total D is drawn. Then D units are shared out among the values twice, each time by Pólya's urn. So all
ways to split D into m counts are equally likely. The noise is the difference between the two splits. Two splits that
share s units give noise that moves d = D - s units. So the probability of noise is proportional to the sum of r^(d+s)
C(s+m-1, m-1) over all s, which is r^d (1-r)^-m.

Source: the geometric mechanism (Ghosh, Roughgarden and Sundararajan 2009), conditioned on a sum of zero. This is the
K-norm mechanism of Hardt and Talwar (2010) on whole numbers.

Notation: m = size, r = ratio, d = units moved (half the sum of the absolute noise), D = total; J = a number from 0 to
m-1 with a probability proportional to C(m-1, J)² r^J. D is J plus a negative binomial number of 2m-1 successes, and d
is J plus one of m-1 successes, both of ratio r: sum_D C(D+m-1, m-1)² r^D = (1-r)^(1-2m) sum_J C(m-1, J)² r^J.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Bits64, Counts, Floats, Indices
from sfumato._core.random_draws import WORD_BYTES, Draws, Stream
from sfumato.errors import InternalError

NumberT = TypeVar("NumberT", Fraction, float)

WORD_BITS = 8 * WORD_BYTES

PURPOSE = "noisy-counts"
"""The purpose of the draws for cells. Another table of the same people needs another purpose: the difference of two
tables with the same noise would be exact."""

BLOCK_COUNTS, FEWEST_BLOCK_CELLS = 1 << 19, 1 << 10
"""The number of counts that are drawn together, so that they fit into the cache of a processor core.

The second number is the smallest number of cells that are drawn together. It is large, because each call of a stream
takes as long as drawing thousands of numbers.
"""


@dataclass(frozen=True)
class FixedSumNoise:
    """The noise of the counts of one cell."""

    size: int
    """The number of values, at least 2."""
    ratio: Fraction
    """The probability of noise, divided by that of noise that moves one unit less: 1 / amplification."""

    def __post_init__(self) -> None:
        if self.size <= 1 or not 0 < self.ratio < 1:
            raise InternalError("noise needs at least 2 values and a ratio between 0 and 1.", code="noise-out-of-range")

    # ------------------------------------------------------------------------------------------------- distribution

    @cached_property
    def zero_probability(self) -> Fraction:
        """The probability that all counts are published as they are: (1-r)^(m-1) / sum_J C(m-1, J)² r^J."""
        numerator, denominator = self.ratio.as_integer_ratio()
        return Fraction((denominator - numerator) ** (self.size - 1), self._moment_sums[0])

    @cached_property
    def variance(self) -> Fraction:
        """The variance of the noise of one value."""
        whole, first, second = self._moment_sums
        mean = Fraction(first, whole)
        return self._compute_variance(mean, Fraction(second, whole) - mean**2, self.ratio)

    @cached_property
    def rounded_variance(self) -> float:
        """The same in floating point, which is much faster for thousands of values."""
        overlaps, probabilities = np.arange(self.size), self._list_overlap_probabilities(self.size)
        mean = float(probabilities @ overlaps)
        return self._compute_variance(mean, float(probabilities @ (overlaps - mean) ** 2), float(self.ratio))

    def _compute_variance(self, overlap_mean: NumberT, overlap_variance: NumberT, ratio: NumberT) -> NumberT:
        """2 E[D² + mD] (m-1) / (m² (m+1)), from the mean and the variance of J."""
        size = self.size
        mean = overlap_mean + (2 * size - 1) * ratio / (1 - ratio)
        variance = overlap_variance + (2 * size - 1) * ratio / (1 - ratio) ** 2
        return 2 * (variance + mean * (mean + size)) * (size - 1) / (size**2 * (size + 1))

    def compute_set_variance(self, wanted: int) -> float:
        """The variance of the summed noise of this many of the values."""
        return float(self.variance * Fraction(wanted * (self.size - wanted), self.size - 1))

    def list_moved_probabilities(self, most: int) -> Floats:
        """The probabilities that 0, 1, ..., `most` units are moved."""
        return np.convolve(self._list_overlap_probabilities(most), self._list_waiting_probabilities(most))[: most + 1]

    @cached_property
    def _moment_sums(self) -> tuple[int, int, int]:
        """The sums of C(m-1, J)² r^J J^i for the powers i = 0, 1 and 2, times the denominator of r^(m-1)."""
        numerator, denominator = self.ratio.as_integer_ratio()
        whole = first = second = 0
        choices = power = 1  # C(m-1, J) and the power of the numerator
        for overlap in range(self.size):
            term = choices**2 * power
            whole = whole * denominator + term
            first = first * denominator + term * overlap
            second = second * denominator + term * overlap**2
            choices = choices * (self.size - 1 - overlap) // (overlap + 1)
            power *= numerator
        return whole, first, second

    def _list_overlap_probabilities(self, most: int) -> Floats:
        """The probabilities of J = 0, 1, ..., at most `most`."""
        overlaps = np.arange(1, self.size)
        steps = 2 * np.log((self.size - overlaps) / overlaps) + np.log(float(self.ratio))
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        likelihoods = np.exp(logs - logs.max())
        probabilities: Floats = likelihoods / likelihoods.sum()
        return probabilities[: most + 1]

    def _list_waiting_probabilities(self, most: int) -> Floats:
        """The probabilities of 0, 1, ..., `most` for a negative binomial number of m-1 successes."""
        ratio = float(self.ratio)
        units = np.arange(1, most + 1)
        steps = np.log((units + self.size - 2) / units) + np.log(ratio)
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        probabilities: Floats = np.exp(logs + (self.size - 1) * np.log1p(-ratio))
        return probabilities

    # ------------------------------------------------------------------------------------------------------ drawing

    def draw(self, draws: Draws, first_cell: int, cells: int, purpose: str = PURPOSE) -> Counts:
        """Draws the noise of consecutive cells, one row for each cell. `draws` belong to the protected column."""
        noise = np.empty((cells, self.size), dtype=np.int64)
        block_cells = max(BLOCK_COUNTS // self.size, FEWEST_BLOCK_CELLS)
        for start in range(0, cells, block_cells):
            block = noise[start : start + block_cells]
            block[:] = self._draw_block(draws, first_cell + start, len(block), purpose)
        return noise

    def _draw_block(self, draws: Draws, first_cell: int, cells: int, purpose: str) -> npt.NDArray[np.int32]:
        totals = self._draw_totals(draws.get_stream(f"{purpose}/total"), first_cell, cells)
        noise = self._share_units(draws, f"{purpose}/up", first_cell, totals)
        noise -= self._share_units(draws, f"{purpose}/down", first_cell, totals)
        return noise

    def _share_units(self, draws: Draws, purpose: str, first_cell: int, totals: Indices) -> npt.NDArray[np.int32]:
        """Shares out the units of each cell by Pólya's urn, so that all ways to share them out are equally likely.

        The urn begins with one ball for each value. Each unit draws a ball and puts another one of its value beside it.
        """
        cells, most = len(totals), int(totals.max(initial=0))
        shares = np.zeros(cells * self.size, dtype=np.int32)
        balls = np.empty((self.size + most) * cells, dtype=np.min_scalar_type(self.size - 1))
        balls[: self.size * cells] = np.repeat(np.arange(self.size), cells)
        for unit in range(most):
            drawing = np.flatnonzero(totals > unit)
            stream = draws.get_stream(f"{purpose}/{unit}")
            drawn = stream.draw_integers(first_cell, cells, self.size + unit).take(drawing).astype(np.int64)
            values = balls.take(drawn * cells + drawing)
            balls[(self.size + unit) * cells + drawing] = values
            shares[drawing * self.size + values] += 1  # no cell occurs twice
        return shares.reshape(cells, self.size)

    def _draw_totals(self, stream: Stream, first_cell: int, cells: int) -> Indices:
        """Draws the total of each cell: the number of thresholds that a 64-bit number has reached.

        A number that equals a threshold stands for more than one total. Then the numbers of further attempts decide, so
        every total has exactly its probability.
        """
        bits = stream.draw_bits(first_cell, cells)
        totals = np.searchsorted(self._thresholds, bits, side="right")
        for cell in np.flatnonzero(self._thresholds.take(totals - 1) == bits).tolist():
            totals[cell] = self._draw_further(stream, first_cell + cell, int(bits[cell]))
        return totals

    def _draw_further(self, stream: Stream, cell: int, bits: int) -> int:
        """Appends the bits of further attempts until they decide the total."""
        attempt, total = 0, None
        while total is None:
            attempt += 1
            bits = bits << WORD_BITS | int(stream.draw_bits(cell, 1, attempt)[0])
            total = self._find_total(bits, (attempt + 1) * WORD_BITS)
        return total

    def _find_total(self, number: int, bits: int) -> int | None:
        """The total for a uniform number of this many bits; None if further bits decide."""
        total, threshold = next(pair for pair in self._iter_thresholds(bits) if number <= pair[1])
        return total if number < threshold else None

    @cached_property
    def _thresholds(self) -> Bits64:
        """The thresholds of 64-bit numbers, up to the largest number. A number that equals one is undecided."""
        thresholds: list[int] = []
        for _, threshold in self._iter_thresholds(WORD_BITS):
            thresholds.append(threshold)
            if threshold == 2**WORD_BITS - 1:
                break
        return np.array(thresholds, dtype=np.uint64)

    def _iter_thresholds(self, bits: int) -> Iterator[tuple[int, int]]:
        """Iterates over the totals, with the probability of at most this total, times 2^bits and rounded down.

        The largest threshold is 2^bits - 1 and is repeated without end.
        """
        numerator, denominator = self.ratio.as_integer_ratio()
        none = self.zero_probability * (1 - self.ratio) ** self.size  # the probability of the total 0
        term = cumulative = none.numerator
        whole, total = none.denominator, 0
        while True:
            yield total, (cumulative << bits) // whole
            term = term * (total + self.size) ** 2 * numerator // (total + 1) ** 2
            total += 1
            cumulative = cumulative * denominator + term
            whole *= denominator
