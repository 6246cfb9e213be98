"""The verifier's own distribution of the noise of counts, against enumerations and worked examples."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato._verify.distributions.crowd_noise_distribution import CrowdNoise

RATIO = Fraction(2, 9)  # the ratio of an amplification of 4.5
FARTHEST = 20


def list_noise(size: int, ratio: Fraction = RATIO) -> dict[tuple[int, ...], float]:
    """The probability of all noise whose first numbers are at most 20."""
    noise = [(*first, -sum(first)) for first in product(range(-FARTHEST, FARTHEST + 1), repeat=size - 1)]
    weights = {each: float(ratio) ** (sum(map(abs, each)) // 2) for each in noise}
    total = sum(weights.values())
    return {each: weight / total for each, weight in weights.items()}


@pytest.mark.parametrize(
    ("size", "variance"), [(2, Fraction(36, 49)), (3, Fraction(10008, 7693)), (5, Fraction(583344, 299047))]
)
def test_variances_are_those_of_the_worked_examples(size: int, variance: Fraction) -> None:
    assert CrowdNoise(size, RATIO).variance == pytest.approx(float(variance), rel=1e-12)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("ratio", [RATIO, Fraction(1, 3)])
def test_moments_and_moved_units_are_those_of_an_enumeration(size: int, ratio: Fraction) -> None:
    noise, chances = CrowdNoise(size, ratio), list_noise(size, ratio)
    assert noise.variance == pytest.approx(sum(p * each[0] ** 2 for each, p in chances.items()), rel=1e-4)
    units: defaultdict[int, float] = defaultdict(float)
    for each, p in chances.items():
        units[sum(map(abs, each)) // 2] += p
    assert noise.list_unit_chances()[:8] == pytest.approx([units[number] for number in range(8)], rel=1e-4)
    products = sum(
        p * q * np.dot(z, other) ** 2 for z, p in chances.items() for other, q in chances.items() if size == 2
    )
    assert size > 2 or noise.product_variance == pytest.approx(products, rel=1e-4)


def test_no_noise_has_the_probability_of_the_worked_example() -> None:
    assert CrowdNoise(3, RATIO).list_unit_chances()[0] == pytest.approx(49 / 157, rel=1e-12)


@pytest.mark.parametrize(("size", "ratio"), [(2, RATIO), (46, RATIO), (300, Fraction(1, 20)), (17, Fraction(9, 10))])
def test_probabilities_of_moved_units_add_up_to_one(size: int, ratio: Fraction) -> None:
    assert CrowdNoise(size, ratio).list_unit_chances().sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("noisy", "expected"),
    [
        ((3, 2, -1, 0), (3, 2, -1 / 2, -1 / 2)),
        ((5, -1, 0), (32 / 7, -2 / 7, -2 / 7)),
        ((2, 1, 1), (2, 1, 1)),
    ],
)
def test_estimates_are_those_of_the_worked_examples(noisy: tuple[int, ...], expected: tuple[float, ...]) -> None:
    estimates = CrowdNoise(len(noisy), RATIO).estimate_counts(np.array([4]), np.array([noisy]))
    assert estimates[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("true_counts", [(2, 1), (2, 0, 0), (1, 1, 1)])
def test_estimates_are_means_given_the_clamped_counts(true_counts: tuple[int, ...]) -> None:
    people = sum(true_counts)
    sums: defaultdict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0] * (len(true_counts) + 1))
    for noise, chance in list_noise(len(true_counts)).items():
        noisy = [count + each for count, each in zip(true_counts, noise, strict=True)]
        line = sums[tuple(min(max(each, 0), people) for each in noisy)]
        for place, each in enumerate((*noisy, 1)):
            line[place] += chance * each
    likely = {clamped: line for clamped, line in sums.items() if line[-1] > 1e-4}
    assert len(likely) > people
    noise_law = CrowdNoise(len(true_counts), RATIO)
    for clamped, line in likely.items():
        noisy = np.array([clamped])
        noisy[0, int(np.argmin(noisy[0]))] += people - noisy.sum()  # one of the counts that are clamped in this way
        expected = [each / line[-1] for each in line[:-1]]
        assert noise_law.estimate_counts(np.array([people]), noisy)[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("crowds", [1, 5])
def test_bounds_of_moved_units_hold_and_are_nearly_exact(crowds: int) -> None:
    noise = CrowdNoise(3, RATIO)
    chances = np.ones(1)
    for _ in range(crowds):
        chances = np.convolve(chances, noise.list_unit_chances())
    mean = chances @ np.arange(len(chances))
    for units in range(25 * crowds):
        tail = chances[: units + 1].sum() if units < mean else chances[units:].sum()
        bound = noise.bound_unit_chance(np.array([float(units)]), np.array([crowds]))[0]
        assert math.log(tail) <= bound + 1e-9
        assert bound <= 0
        assert bound - math.log(tail) < 1 + math.log(2 + units)


def test_rare_noise_is_hardly_ever_repeated() -> None:
    noise, crowds, most = CrowdNoise(3, RATIO), 100, 0.5
    chances = list_noise(3)
    first = noise.find_rare_units(crowds, most)
    expected = [
        math.comb(crowds, 2) * sum(p**2 for each, p in chances.items() if sum(map(abs, each)) // 2 >= units)
        for units in (first - 1, first)
    ]
    assert expected[1] <= most < expected[0]
    assert CrowdNoise(40, RATIO).find_rare_units(crowds, most) == 0
