"""Computes exact confidence intervals of counts over a few cells, where a normal distribution would be too rough.

The noise of a cell has the distribution of independent two-sided geometric numbers of ratio a, given that these add up
to zero. So the summed noise of j values is x with a probability proportional to p_j(x) p_(m-j)(x). Here p_j is the
distribution of the sum of j independent numbers. This sum is the difference of two negative binomial numbers. Cells are
independent, so their distributions are convolved.

The intervals are those of Feldman and Cousins (1998). For each true count, the noisy counts are ranked by a ratio. This
ratio is their likelihood, divided by the largest likelihood that any possible true count gives them. The true count
accepts the highest ranks until their probability reaches the level. The interval has all true counts that accept the
noisy count.

Notation: m = size, j = wanted, a = root of the ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sfumato._core.array_types import Floats, Indices, Mask
from sfumato.errors import InternalError
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

NEGLIGIBLE = 1e-16
"""The probability that is cut off at each end of a distribution."""

SMALLEST_LIKELIHOOD = 1e-10
"""Smaller likelihoods are too inexact to be compared."""

ROUNDING = 1e-9
"""Ranks and levels that differ by less than this count as equal, so that rounding never excludes a true count."""

LONGEST_DIRECT = 1 << 13
"""Longer distributions are convolved by Fourier transform. Direct convolution keeps small probabilities exact."""


@lru_cache(maxsize=256)
def compute_sum_distribution(noise: FixedSumNoise, wanted: int, cells: int) -> tuple[int, Floats]:
    """The distribution of the summed noise of this many values over this many cells.

    Gives the lowest sum, and the probabilities of this and all following sums. The distribution is symmetric, and less
    than 1e-12 of the probability is cut off.
    """
    if not 0 <= wanted <= noise.size or cells < 1:
        raise InternalError("a sum needs cells, and at most all values of each.", code="sum-out-of-range")
    cell, whole = _compute_cell_distribution(noise, wanted), np.ones(1)
    for bit in f"{cells:b}":  # the power of a distribution, by squaring
        whole = _cut_ends(_convolve(whole, whole))
        whole = _cut_ends(_convolve(whole, cell)) if bit == "1" else whole
    whole.setflags(write=False)  # the cache gives the same array to all callers
    return -(len(whole) // 2), whole


def compute_interval(  # noqa: PLR0913, PLR0917 - a count over cells has these parts
    noise: FixedSumNoise, wanted: int, cells: int, noisy_sum: int, rows: int, level: float
) -> tuple[int, int]:
    """The confidence interval of a true count in 0..rows, given the sum of its noisy counts.

    It covers the true count with a probability of at least `level`, whatever the true count is.
    """
    _, probabilities = compute_sum_distribution(noise, wanted, cells)
    ranking = LikelihoodRanking(probabilities[len(probabilities) // 2 :], rows)
    return ranking.find_interval(noisy_sum, level)


@dataclass(frozen=True)
class LikelihoodRanking:
    """Ranks noisy counts for each true count, by their likelihood beside the largest of any true count."""

    likelihoods: Floats
    """The probabilities of a distance of 0, 1, ... between the noisy count and the true count, in one direction."""
    rows: int
    """The largest possible true count."""

    def find_interval(self, noisy_sum: int, level: float) -> tuple[int, int]:
        """The least and the largest true count that accept a noisy count."""
        # A noisy count may be too far away to have likelihoods. It is replaced by a nearer noisy count with a wider
        # interval.
        reach = int(np.count_nonzero(self.likelihoods > SMALLEST_LIKELIHOOD)) - 1
        noisy_sum = min(max(noisy_sum, -reach), self.rows + reach)
        nearest, span = min(max(noisy_sum, 0), self.rows), self._find_span(level)
        candidates = np.arange(max(0, nearest - span), min(self.rows, nearest + span) + 1)
        accepting = candidates[self._are_accepting(candidates, noisy_sum, level)]
        return int(accepting[0]), int(accepting[-1])

    def _find_span(self, level: float) -> int:
        """The largest distance between an accepting true count and the nearest one.

        At a true count farther away, all nearer noisy counts rank higher, and they reach the level.
        """
        nearer = np.cumsum(2 * self.likelihoods) - self.likelihoods[0]  # within a distance of 0, 1, ...
        return int(np.count_nonzero(nearer < level + ROUNDING))

    def _are_accepting(self, candidates: Indices, noisy_sum: int, level: float) -> Mask:
        """Whether the noisy counts that rank higher than this one have a probability below the level."""
        threshold = self._rank(candidates, np.full_like(candidates, noisy_sum)) * (1 + ROUNDING)
        cumulative = np.concatenate([[0.0], np.cumsum(self.likelihoods)])
        above, below = (cumulative.take(self._count_higher(candidates, threshold, side)) for side in (1, -1))
        # Both sides include the distance of 0, and both agree whether this distance ranks higher.
        accepting: Mask = above + below - np.minimum(above, self.likelihoods[0]) < level + ROUNDING
        return accepting

    def _count_higher(self, candidates: Indices, threshold: Floats, side: int) -> Indices:
        """The number of noisy counts on one side of each true count, and the true count itself, that rank higher.

        Found by bisection: the logarithm of the likelihood is concave, so ranks fall on both sides of the true count.
        """
        count, beyond = np.zeros_like(candidates), np.full_like(candidates, len(self.likelihoods))
        while (count < beyond).any():
            middle = (count + beyond) // 2
            is_higher = (self._rank(candidates, candidates + side * middle) > threshold) & (middle < beyond)
            count, beyond = np.where(is_higher, middle + 1, count), np.where(is_higher, beyond, middle)
        return count

    def _rank(self, true: Indices, noisy: Indices) -> Floats:
        """The likelihood of the true count, over that of the possible true count nearest to the noisy count."""
        largest = self._get_likelihoods(noisy - np.clip(noisy, 0, self.rows))
        ranks: Floats = self._get_likelihoods(noisy - true) / np.maximum(largest, np.finfo(float).tiny)
        return ranks

    def _get_likelihoods(self, distances: Indices) -> Floats:
        padded = np.append(self.likelihoods, 0.0)
        return padded.take(np.minimum(np.abs(distances), len(self.likelihoods)))


def _compute_cell_distribution(noise: FixedSumNoise, wanted: int) -> Floats:
    """The distribution of the summed noise of some values of one cell."""
    if wanted in (0, noise.size):
        return np.ones(1)
    root = math.sqrt(noise.ratio)
    sums = [_compute_independent_distribution(values, root) for values in (wanted, noise.size - wanted)]
    reach = min(len(one) // 2 for one in sums)
    own, others = (one[len(one) // 2 - reach : len(one) // 2 + reach + 1] for one in sums)
    likelihoods = own * others
    return _cut_ends(likelihoods / likelihoods.sum())


def _compute_independent_distribution(values: int, root: float) -> Floats:
    """The distribution of the sum of independent two-sided geometric numbers, of this ratio."""
    mean, deviation = values * root / (1 - root), math.sqrt(values * root) / (1 - root)
    longest = math.ceil(mean + 12 * deviation - 40 / math.log(root))  # far beyond the last number that matters
    numbers = np.arange(1, longest + 1)
    logs = np.cumsum(np.log((numbers + values - 1) / numbers) + math.log(root))
    one_sided = np.exp(np.concatenate([[0.0], logs]) + values * math.log1p(-root))
    return _convolve(one_sided, one_sided[::-1])


def _convolve(one: Floats, other: Floats) -> Floats:
    """The distribution of the sum of two independent numbers."""
    length = len(one) + len(other) - 1
    if length <= LONGEST_DIRECT:
        return np.convolve(one, other)
    points = 1 << (length - 1).bit_length()
    product = np.fft.rfft(one, points) * np.fft.rfft(other, points)
    return np.maximum(np.fft.irfft(product, points)[:length], 0)


def _cut_ends(probabilities: Floats) -> Floats:
    """Cuts off the negligible ends of a symmetric distribution, and makes it exactly symmetric."""
    symmetric: Floats = (probabilities + probabilities[::-1]) / 2
    cut = min(int(np.count_nonzero(np.cumsum(symmetric) < NEGLIGIBLE)), len(symmetric) // 2)
    return symmetric[cut : len(symmetric) - cut]
