"""The distribution of the noise of a crowd's counts, and the estimates that follow from noisy counts.

The noise z of m counts adds up to 0 and has the probability P(0) r^d. Here d is half the sum of the absolute noise: the
number of units that the noise moves. There are Σ_j C(m-1,j)² C(d-j+m-2,m-2) ways to move d units. So d is the sum of J,
which has a probability proportional to C(m-1,j)² r^j, and of a negative binomial number of m-1 successes. Everything
here follows from this, and from Bayes' rule for the estimates. No code of the mechanism is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices

MOST_UNITS = 1 << 14
"""The distribution of the number of moved units is listed up to this number."""
TRIED_DISTANCES = np.geomspace(1e-7, 4.0, 200)
"""The distances between the compared ratios and the ratio of the design, on a doubly logarithmic scale."""


@dataclass(frozen=True)
class CrowdNoise:
    """The noise of the counts of one crowd."""

    size: int
    """The number of values, at least 2."""
    ratio: Fraction
    """The probability of noise, divided by that of noise that moves one unit less."""

    @property
    def amplification(self) -> Fraction:
        """The largest factor between the likelihoods of two values of a person.

        If a person has another value, the noise moves one unit more, one unit less, or as many units.
        """
        return 1 / self.ratio

    @cached_property
    def variance(self) -> float:
        """The variance of the noise of one value: 2 E[D² + mD] (m-1) / (m² (m+1)).

        D is the sum of J and of a negative binomial number of 2m-1 successes. The noise is the difference between two
        random ways to share D units among the values.
        """
        mean, variance = self._compute_sum_moments(2 * self.size - 1)
        size = self.size
        return 2 * (variance + mean**2 + size * mean) * (size - 1) / (size**2 * (size + 1))

    @property
    def mean_units(self) -> float:
        """The mean number of moved units."""
        return self._compute_sum_moments(self.size - 1)[0]

    @property
    def product_variance(self) -> float:
        """The variance of the product of two crowds' noise, summed over the values."""
        return (self.variance * self.size) ** 2 / (self.size - 1)

    def find_rare_units(self, crowds: int, most_pairs: float) -> int:
        """The smallest number of moved units at which equal noise in two crowds is rare.

        At most this number of pairs of crowds is then expected to have equal noise.

        Two crowds have the same noise of d units with a probability that is known up to a constant factor: that of d
        units at the ratio r².
        """
        squared = CrowdNoise(self.size, self.ratio**2)
        log_pairs = np.log(max(crowds * (crowds - 1) / 2, 1)) + squared._log_total - 2 * self._log_total
        chances = squared.list_unit_chances()
        tails = np.append(np.cumsum(chances[::-1])[::-1], 0.0) + max(1 - float(chances.sum()), 0.0)
        return (
            int(np.argmax(tails <= most_pairs / np.exp(min(log_pairs, 700.0)))) if log_pairs > np.log(most_pairs) else 0
        )

    def list_unit_chances(self) -> Floats:
        """The probabilities that 0, 1, ... units are moved, as far as these are not negligible."""
        mean, variance = self._compute_sum_moments(self.size - 1)
        most = min(int(mean + 40 * np.sqrt(variance) + 40 / -np.log(float(self.ratio))), MOST_UNITS)
        units = np.arange(1, most + 1)
        steps = np.log((units + self.size - 2) / units) + np.log(float(self.ratio))
        waiting = np.exp(np.cumsum(np.append((self.size - 1) * np.log1p(-float(self.ratio)), steps)))
        return np.asarray(np.convolve(self._overlap_chances[: most + 1], waiting)[: most + 1])

    def bound_unit_chance(self, units: Floats, crowds: Indices) -> Floats:
        """The logarithm of a bound on the probability that all crowds move this number of units, or a rarer number.

        Chernoff's bound for each of many ratios; the smallest applies. The bound is nearly exact, because the noise
        says nothing about its ratio beyond the number of units.
        """
        own = np.log(float(self.ratio))
        tried = own * np.exp(np.concatenate([-TRIED_DISTANCES, TRIED_DISTANCES]))
        gains = _compute_log_total(self.size, tried) - self._log_total
        bounds = np.zeros(len(units))
        for place, (moved, number) in enumerate(zip(units.tolist(), crowds.tolist(), strict=True)):
            bounds[place] = (number * gains - (tried - own) * moved).min(initial=0.0)
        return bounds

    def estimate_counts(self, people: Counts, noisy: Counts) -> Floats:
        """The mean of the noisy counts, given only those that lie between 0 and the people of their crowd.

        Only two numbers are used of the counts outside this range: how many are 0 or less, and how many are at least
        the number of people. Each row is a crowd.
        """
        limits = people[:, np.newaxis]
        clamped = np.clip(noisy, 0, limits)
        full, empty, beyond = (clamped == limits).sum(axis=1), (clamped == 0).sum(axis=1), clamped.sum(axis=1) - people
        radix = self.size + 1
        kinds, numbers = np.unique((beyond * radix + empty) * radix + full, return_inverse=True)
        excess = np.array(
            [
                _compute_mean_excess(float(self.ratio), kind % radix, kind // radix % radix, kind // radix**2)
                for kind in kinds.tolist()
            ]
        ).take(numbers)
        above = (excess / np.maximum(full, 1))[:, np.newaxis]
        below = ((excess + beyond) / np.maximum(empty, 1))[:, np.newaxis]
        return np.asarray(np.where(clamped == limits, limits + above, np.where(clamped == 0, -below, noisy)))

    @cached_property
    def _log_total(self) -> float:
        return float(_compute_log_total(self.size, np.log([float(self.ratio)]))[0])

    @cached_property
    def _overlap_chances(self) -> Floats:
        """The probabilities of J = 0, 1, ..., m-1."""
        return _normalize_logs(_list_log_squares(self.size) + np.arange(self.size) * np.log(float(self.ratio)))

    def _compute_sum_moments(self, successes: int) -> tuple[float, float]:
        """The mean and the variance of J plus a negative binomial number."""
        chances, ratio, numbers = self._overlap_chances, float(self.ratio), np.arange(self.size)
        mean = float(chances @ numbers)
        variance = float(chances @ (numbers - mean) ** 2)
        return mean + successes * ratio / (1 - ratio), variance + successes * ratio / (1 - ratio) ** 2


@lru_cache(maxsize=1 << 12)
def _compute_mean_excess(ratio: float, full: int, empty: int, beyond: int) -> float:
    """The mean total E by which noisy counts exceed the people, if the counts below 0 add up to -(E + beyond).

    E has a probability proportional to C(E+u-1,u-1) C(E+b+k-1,k-1) r^E for u full and k empty counts. By Pfaff's
    formula, the sum of these is (1-r)^-u Σ_j C(k-1,j) (u)_j / (b+1)_j (r/(1-r))^j, without a negative term. The mean is
    the derivative of its logarithm by the logarithm of r.
    """
    if not full:
        return 0.0
    steps = np.arange(1, empty)
    logs = np.log((empty - steps) / steps * (full + steps - 1) / (beyond + steps)) + np.log(ratio / (1 - ratio))
    chances = _normalize_logs(np.cumsum(np.append(0.0, logs)))
    return float((ratio * full + chances @ np.arange(len(chances))) / (1 - ratio))


def _list_log_squares(size: int) -> Floats:
    """The logarithms of C(m-1,j)² for j = 0, 1, ..., m-1."""
    numbers = np.arange(1, size)
    return np.append(0.0, np.cumsum(2 * np.log((size - numbers) / numbers)))


def _compute_log_total(size: int, log_ratios: Floats) -> Floats:
    """The logarithm of the sum of r^d over all noise, for each ratio r."""
    exponents, squares = np.arange(size), _list_log_squares(size)
    logs = [float(np.logaddexp.reduce(squares + exponents * log_ratio)) for log_ratio in log_ratios.tolist()]
    return np.asarray(logs - (size - 1) * np.log1p(-np.exp(log_ratios)))


def _normalize_logs(logs: Floats) -> Floats:
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())
