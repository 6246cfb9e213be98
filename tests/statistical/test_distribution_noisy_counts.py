"""Noisy counts are drawn as their design says: noise that moves d units has the probability P(0) r^d."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.mechanisms._noisy_counts.few_cells import compute_sum_distribution
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from statistical.support import (
    Counts,
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

RATIO = Fraction(2, 9)
CELLS = 100_000
OFF = [Fraction(9, 10), Fraction(11, 10)]
"""Ratios that are ten percent off, in both directions."""


@cache
def draw_noise(size: int, factor: Fraction = Fraction(1)) -> npt.NDArray[np.int64]:
    """The noise of many cells, with a ratio that may be off; one key for each."""
    draws = keyed_draws(size + 1000 * factor.numerator).narrow_to_column("disease")
    return FixedSumNoise(size, RATIO * factor).draw(draws, 7, CELLS)


def count_moved(noise: npt.NDArray[np.int64], least: int, most: int) -> Counts:
    """How often each number of units is moved; the first and the last number stand for all beyond them too."""
    return counts_of(np.clip(np.abs(noise).sum(axis=1) // 2, least, most) - least, most - least + 1)


def compute_moved_law(size: int, least: int, most: int) -> npt.NDArray[np.float64]:
    law = FixedSumNoise(size, RATIO).list_moved_probabilities(most)
    return np.concatenate([[law[: least + 1].sum()], law[least + 1 : most], [1 - law[:most].sum()]])


MOVED = [(2, 0, 5), (3, 0, 7), (17, 2, 20), (46, 12, 43)]


@pytest.mark.parametrize(("size", "least", "most"), MOVED)
def test_moved_units_have_their_distribution(size: int, least: int, most: int) -> None:
    assert_same_distribution(count_moved(draw_noise(size), least, most), compute_moved_law(size, least, most))


@pytest.mark.parametrize("factor", OFF, ids=str)
@pytest.mark.parametrize(("size", "least", "most"), MOVED)
def test_moved_units_of_another_ratio_are_noticed(size: int, least: int, most: int, factor: Fraction) -> None:
    assert_different(count_moved(draw_noise(size, factor), least, most), compute_moved_law(size, least, most))


def list_small_noise() -> list[tuple[int, ...]]:
    """All noise of three values that moves at most three units."""
    noise = [(one, other, -one - other) for one, other in product(range(-3, 4), repeat=2)]
    return [values for values in noise if sum(map(abs, values)) <= 6]


def count_small_noise(noise: npt.NDArray[np.int64]) -> Counts:
    """How often each small noise was drawn, and last how often any other."""
    numbers = {values: number for number, values in enumerate(list_small_noise())}
    distinct, times = np.unique(noise, axis=0, return_counts=True)
    counts = np.zeros(len(numbers) + 1, dtype=np.int64)
    for values, often in zip(distinct.tolist(), times.tolist(), strict=True):
        counts[numbers.get(tuple(values), len(numbers))] += often
    return counts


def compute_small_law() -> list[Fraction]:
    zero = FixedSumNoise(3, RATIO).zero_probability
    law = [zero * RATIO ** (sum(map(abs, values)) // 2) for values in list_small_noise()]
    return [*law, 1 - sum(law)]


def test_noise_that_moves_as_many_units_is_equally_likely() -> None:
    assert len(list_small_noise()) == 37
    assert_same_distribution(count_small_noise(draw_noise(3)), compute_small_law())


@pytest.mark.parametrize("factor", OFF, ids=str)
def test_noise_of_another_ratio_is_noticed(factor: Fraction) -> None:
    assert_different(count_small_noise(draw_noise(3, factor)), compute_small_law())


def test_noise_that_prefers_a_direction_is_noticed() -> None:
    """A tenth of the noise that raises the first value is turned round."""
    noise = draw_noise(3).copy()
    turned = np.flatnonzero(noise[:, 0] > 0)[::10]
    noise[turned] *= -1
    assert_different(count_small_noise(noise), compute_small_law())


def count_sums(noise: npt.NDArray[np.int64], wanted: list[int], most: int) -> Counts:
    """How often the summed noise of some values is -most, ..., most, with all larger sums at the ends."""
    return counts_of(np.clip(noise[:, wanted].sum(axis=1), -most, most) + most, 2 * most + 1)


def compute_sum_law(wanted: int, most: int) -> npt.NDArray[np.float64]:
    lowest, probabilities = compute_sum_distribution(FixedSumNoise(17, RATIO), wanted, 1)
    law = probabilities[-lowest - most : -lowest + most + 1].copy()
    law[[0, -1]] += (1 - law.sum()) / 2
    return law


@pytest.mark.parametrize("wanted", [[0], [16], [3, 4, 11]], ids=str)
def test_sums_over_values_have_their_distribution(wanted: list[int]) -> None:
    assert_same_distribution(count_sums(draw_noise(17), wanted, 6), compute_sum_law(len(wanted), 6))


@pytest.mark.parametrize("factor", OFF, ids=str)
def test_sums_over_values_of_another_ratio_are_noticed(factor: Fraction) -> None:
    assert_different(count_sums(draw_noise(17, factor), [0], 6), compute_sum_law(1, 6))


def count_neighbours(noise: npt.NDArray[np.int64]) -> Counts:
    """How often pairs of neighbouring cells have each pair of noise of the first value, from -2 to 2."""
    first = np.clip(noise[:, 0], -2, 2) + 2
    return joint_counts_of(first[0::2], first[1::2], 5)


def test_noise_of_neighbouring_cells_is_independent() -> None:
    law = compute_sum_law(1, 2)
    assert_same_distribution(count_neighbours(draw_noise(17)), product_law(law, law))


def test_noise_used_twice_is_noticed() -> None:
    """In one of ten pairs of cells."""
    noise, law = draw_noise(17).copy(), compute_sum_law(1, 2)
    noise[1::20] = noise[0::20]
    assert_different(count_neighbours(noise), product_law(law, law))
