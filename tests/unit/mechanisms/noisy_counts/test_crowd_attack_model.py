"""The distributions with which an attacker learns from noisy counts, against all noise of a small crowd."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms._noisy_counts.crowd_attack_model import (
    compute_count_likelihoods,
    list_moved_probabilities,
    list_noise_probabilities,
)
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

REACH = 14


@pytest.mark.parametrize("size", [2, 3, 4])
def test_noise_of_one_count_is_that_of_all_counts_together(size: int) -> None:
    noise = FixedSumNoise(size, Fraction(2, 9))
    expected: dict[int, float] = {}
    numbers = range(-REACH, REACH + 1)
    for first in itertools.product(numbers, repeat=size - 1):
        moved = (sum(map(abs, first)) + abs(sum(first))) // 2
        expected[first[0]] = expected.get(first[0], 0.0) + float(noise.zero_probability) * float(noise.ratio) ** moved
    found = list_noise_probabilities(noise)
    reach = len(found) // 2
    for number in range(-4, 5):
        assert found[reach + number] == pytest.approx(expected[number], rel=1e-6)


@pytest.mark.parametrize(("size", "ratio"), [(2, "2/9"), (46, "2/9"), (1420, "1/19"), (5, "99/100")])
def test_noise_probabilities_have_the_variance_of_the_noise(size: int, ratio: str) -> None:
    noise = FixedSumNoise(size, Fraction(ratio))
    found = list_noise_probabilities(noise)
    numbers = np.arange(len(found)) - len(found) // 2
    assert found.sum() == pytest.approx(1, abs=1e-7)
    assert (found == found[::-1]).all()
    assert found @ numbers**2 == pytest.approx(noise.rounded_variance, rel=1e-4)
    assert list_moved_probabilities(noise).sum() == pytest.approx(1, abs=1e-9)


def test_likelihoods_are_those_of_the_units_moved() -> None:
    """For every residual of a person among three values: the noisy counts minus those of all other people."""
    noise = FixedSumNoise(3, Fraction(2, 9))
    for first, second in itertools.product(range(-3, 4), repeat=2):
        residual = np.array([first, second, 1 - first - second])
        moved = [np.abs(residual - own).sum() // 2 for own in np.eye(3, dtype=np.int64)]
        expected = np.array([float(noise.ratio) ** number for number in moved])
        found = compute_count_likelihoods(noise, residual[np.newaxis])[0]
        assert found / found.max() == pytest.approx(expected / expected.max())
