"""Gives the distributions with which an attacker learns from noisy counts.

Noise has the probability P(0) r^d with d = ½ sum |z|. So this noise has the distribution of m independent numbers,
given that they add up to zero. Each of these numbers has the probability (1-a)/(1+a) a^|z|. The noise of one count is k
with a probability proportional to a product. Its factors are a^|k| and the probability that the other m-1 numbers add
up to -k.

Notation: m = size, r = ratio, z = noise of all values, a = √r.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato._core.array_types import Counts, Floats
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

NEGLIGIBLE = 1e-8
"""The probability that the noise of a count lies beyond the listed numbers, on each side."""
LEAST_LENGTH, MOST_LENGTH = 1 << 10, 1 << 20
ROUNDING = 1e-13


def list_noise_probabilities(noise: FixedSumNoise) -> Floats:
    """The probabilities of the noise of one count, from the most negative number to the most positive one."""
    decay = math.sqrt(noise.ratio)
    length = LEAST_LENGTH
    while length < MOST_LENGTH and decay ** (length // 2) > ROUNDING**2:
        length *= 2
    angles = 2 * np.pi * np.arange(length) / length
    independent = (1 - decay) ** 2 / (1 - 2 * decay * np.cos(angles) + decay**2)  # the transform of one count
    others = np.maximum(np.fft.ifft(independent ** (noise.size - 1)).real, 0.0)
    numbers = np.arange(length // 2)
    halves: Floats = np.asarray(decay**numbers * others[numbers], dtype=np.float64)
    halves /= 2 * halves.sum() - halves[0]
    tails = np.cumsum(halves[::-1])[::-1]
    reach = max(int((tails > NEGLIGIBLE).sum()) - 1, 1)
    return np.concatenate([halves[reach:0:-1], halves[: reach + 1]])


def list_moved_probabilities(noise: FixedSumNoise) -> Floats:
    """The probabilities that 0, 1, 2, ... units are moved, up to a number that is hardly ever exceeded."""
    most = LEAST_LENGTH
    while True:
        probabilities = noise.list_moved_probabilities(most)
        if most >= MOST_LENGTH or 1 - probabilities.sum() < ROUNDING * most:
            return probabilities
        most *= 2


def compute_count_likelihoods(noise: FixedSumNoise, residuals: Counts) -> Floats:
    """The likelihood of each value of a person, up to a factor for each person.

    The residuals are the noisy counts minus the true counts of all other people. A value whose residual is positive
    moves one unit less than any other value.
    """
    return np.where(residuals > 0, 1 / float(noise.ratio), 1.0)
