"""Finds the smallest crowd, and predicts the errors of noisy counts beside those of subset selection.

A crowd is a large equivalence class: its noisy counts are more accurate than one published set for each of its people.
Only the sizes of classes decide, and these sizes are public. All predictions are for the count of one value. They
assume that all values of the domain are equally likely.

The gain from clamping is predicted as if the noise of a count were independent of the other noise. The prediction uses
two-sided geometric noise of the same variance. If the true count is h, its estimate has the variance 2q - q (a^h +
a^(n-h)) / (1+a). The prediction is exact for two values. For more values it is too small: by at most a fifth for two or
three people, and by a few percent for ten people.

Notation: m = number of values, n = people of a crowd, σ² = variance of the noise of one value; a = ratio of the
independent noise, and q = a / (1-a)², half its variance; γ = amplification.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sfumato._core.array_types import Counts, Floats
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms._subset_selection.set_sampler import find_best_set_size

LARGEST_CROWD = 10_000
"""A class of this size is always a crowd."""

STEPS = 1000
"""The amplification of equal accuracy is rounded down to a multiple of a thousandth."""

ClassSizes = Mapping[int, int]
"""The number of equivalence classes by size."""


def find_smallest_crowd(size: int, amplification: Fraction, own: float, other: float) -> int:
    """The least number of people, at least 2, whose noisy counts are more accurate than their published sets.

    `own` and `other` are the variances that a record adds to the count of its own value and of another value under
    subset selection. The result is at most `LARGEST_CROWD`.
    """
    return _find_smallest_crowd(FixedSumNoise(size, 1 / amplification), average_set_variance(size, own, other))


def find_best_crowd(size: int, amplification: Fraction) -> int:
    """The same for the sets that subset selection uses at an amplification."""
    return find_smallest_crowd(size, amplification, *compute_subset_variances(size, amplification))


def predict_cell_variance(noise: FixedSumNoise, people: int) -> float:
    """The predicted variance of the estimated count of one value in a cell of this many people."""
    return float(predict_cell_variances(noise, np.array([people]))[0])


def predict_error_ratio(
    noise: FixedSumNoise, subset_variance: float, class_sizes: ClassSizes, smallest_crowd: int
) -> float:
    """The predicted standard error of a count, divided by that of subset selection for everybody.

    `subset_variance` is the mean variance of a record (`compute_subset_variance`). People in classes below the smallest
    crowd keep subset selection. A table without people has the ratio 1.
    """
    people = sum(size * classes for size, classes in class_sizes.items())
    if not people:
        return 1.0
    return math.sqrt(_sum_variances(noise, subset_variance, class_sizes, smallest_crowd) / (people * subset_variance))


def find_equal_accuracy(size: int, amplification: Fraction, class_sizes: ClassSizes) -> Fraction:
    """The amplification at which noisy counts are predicted to be as accurate as subset selection at the given one.

    People who are in no crowd keep subset selection, at the same stricter amplification as the crowds. The result is
    rounded down, towards privacy, to three decimals. It lies between 1.001 and the given amplification.
    """
    people = sum(class_size * classes for class_size, classes in class_sizes.items())
    target = people * average_set_variance(size, *compute_subset_variances(size, amplification))
    lowest, beyond = 1, math.floor((amplification - 1) * STEPS) + 1  # in thousandths above 1
    while beyond - lowest > 1:
        middle = (lowest + beyond) // 2
        if _sum_at_amplification(size, 1 + Fraction(middle, STEPS), class_sizes) >= target:
            lowest = middle
        else:
            beyond = middle
    return min(1 + Fraction(lowest, STEPS), amplification)


def compute_subset_variances(size: int, amplification: Fraction) -> tuple[float, float]:
    """The variances that a record adds to the count of its own value and of another value under subset selection."""
    members = find_best_set_size(size, amplification)
    hold = members * amplification / (members * amplification + size - members)
    other = (members - hold) / (size - 1)
    return float(hold * (1 - hold) / (hold - other) ** 2), float(other * (1 - other) / (hold - other) ** 2)


def compute_subset_variance(size: int, amplification: Fraction) -> float:
    """The variance that a record adds to a count under subset selection, averaged over all values of the domain."""
    return average_set_variance(size, *compute_subset_variances(size, amplification))


def average_set_variance(size: int, own: float, other: float) -> float:
    """The variance that a published set adds to a count, averaged over all values of the domain."""
    return (own + (size - 1) * other) / size


def _find_smallest_crowd(noise: FixedSumNoise, subset_variance: float) -> int:
    people = np.arange(2, LARGEST_CROWD + 1)
    is_crowd = predict_cell_variances(noise, people) < people * subset_variance
    is_crowd[-1] = True
    return int(people[np.argmax(is_crowd)])


def _sum_at_amplification(size: int, amplification: Fraction, class_sizes: ClassSizes) -> float:
    """The predicted variance of a count over the whole table, with the crowds that suit this amplification."""
    noise, subset_variance = FixedSumNoise(size, 1 / amplification), compute_subset_variance(size, amplification)
    return _sum_variances(noise, subset_variance, class_sizes, _find_smallest_crowd(noise, subset_variance))


def _sum_variances(noise: FixedSumNoise, subset_variance: float, class_sizes: ClassSizes, smallest_crowd: int) -> float:
    sizes = np.array(list(class_sizes), dtype=np.int64)
    classes = np.array(list(class_sizes.values()), dtype=np.float64)
    variances = np.where(sizes >= smallest_crowd, predict_cell_variances(noise, sizes), sizes * subset_variance)
    return float(classes @ variances)


def predict_cell_variances(noise: FixedSumNoise, people: Counts) -> Floats:
    """The same for several cells.

    σ²/2q (2q - q [(1 - (1-a)/m)^n + (a + (1-a)/m)^n] / (1+a)), where 2q = 2a / (1-a)² = σ².
    """
    variance = noise.rounded_variance
    ratio = variance / (variance + 1 + math.sqrt(2 * variance + 1))
    is_held = (1 - ratio) / noise.size
    clamped: Floats = (1 - is_held) ** people + (ratio + is_held) ** people
    return variance * (1 - clamped / (2 * (1 + ratio)))
