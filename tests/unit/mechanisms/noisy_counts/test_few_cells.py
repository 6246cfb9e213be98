"""Distributions of summed noise, and exact confidence intervals of counts over a few cells."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato._core.array_types import Floats
from sfumato.errors import InternalError
from sfumato.mechanisms._noisy_counts import few_cells
from sfumato.mechanisms._noisy_counts.few_cells import compute_interval, compute_sum_distribution
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

RATIO = Fraction(2, 9)


@pytest.mark.parametrize(("size", "wanted"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_distribution_of_one_cell_is_that_of_all_noise(size: int, wanted: int) -> None:
    noise = FixedSumNoise(size, Fraction(1, 20))
    exact: dict[int, Fraction] = defaultdict(Fraction)
    for start in product(range(-8, 9), repeat=size - 1):
        values = (*start, -sum(start))
        exact[sum(values[:wanted])] += noise.ratio ** (sum(map(abs, values)) // 2) * noise.zero_probability
    lowest, probabilities = compute_sum_distribution(noise, wanted, 1)
    for total in range(-4, 5):
        assert probabilities[total - lowest] == pytest.approx(float(exact[total]), abs=1e-8)


def compute_urn_distribution(size: int, wanted: int, most: int) -> list[float]:
    """The distribution of the summed noise by section 3 of the specification: a total, shared out by two urns."""
    noise, sums = FixedSumNoise(size, RATIO), [0.0] * (2 * most + 1)
    first = float(noise.zero_probability * (1 - RATIO) ** size)  # the probability of the total 0
    for total in range(most + 1):
        ways = math.comb(total + size - 1, size - 1)
        shares = [
            math.comb(part + wanted - 1, part) * math.comb(total - part + size - wanted - 1, total - part) / ways
            for part in range(total + 1)
        ]
        weight = first * float(ways**2 * RATIO**total)
        for up, down in product(range(total + 1), repeat=2):
            sums[most + up - down] += weight * shares[up] * shares[down]
    return sums


@pytest.mark.parametrize(("size", "wanted"), [(2, 1), (5, 2), (17, 1)])
def test_distribution_of_one_cell_is_that_of_the_urns(size: int, wanted: int) -> None:
    most = 70
    lowest, probabilities = compute_sum_distribution(FixedSumNoise(size, RATIO), wanted, 1)
    exact = compute_urn_distribution(size, wanted, most)
    assert probabilities[-lowest - 20 : -lowest + 21] == pytest.approx(exact[most - 20 : most + 21], abs=1e-9)


CASES = [(2, 1, 1), (17, 3, 7), (46, 23, 19), (300, 1, 2), (300, 150, 3)]


@pytest.mark.parametrize("ratio", [RATIO, Fraction(9, 10)])
@pytest.mark.parametrize(("size", "wanted", "cells"), CASES)
def test_distributions_are_whole_and_have_their_variance(ratio: Fraction, size: int, wanted: int, cells: int) -> None:
    noise = FixedSumNoise(size, ratio)
    lowest, probabilities = compute_sum_distribution(noise, wanted, cells)
    sums = np.arange(lowest, lowest + len(probabilities))
    assert probabilities.min() >= 0
    assert np.array_equal(probabilities, probabilities[::-1])
    assert abs(probabilities.sum() - 1) < 1e-12
    assert probabilities @ sums**2 == pytest.approx(cells * noise.compute_set_variance(wanted), rel=1e-9)


def test_fourier_transforms_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = FixedSumNoise(17, RATIO)
    _, direct = compute_sum_distribution(noise, 5, 12)
    monkeypatch.setattr(few_cells, "LONGEST_DIRECT", 0)
    compute_sum_distribution.cache_clear()
    _, transformed = compute_sum_distribution(noise, 5, 12)
    compute_sum_distribution.cache_clear()
    length = min(len(direct), len(transformed)) // 2
    middles = (one[len(one) // 2 - length : len(one) // 2 + length + 1] for one in (direct, transformed))
    assert next(middles) == pytest.approx(next(middles), abs=1e-14)


def test_sums_of_no_or_all_values_have_no_noise() -> None:
    noise = FixedSumNoise(5, RATIO)
    for wanted in (0, 5):
        lowest, probabilities = compute_sum_distribution(noise, wanted, 3)
        assert (lowest, probabilities.tolist()) == (0, [1])
        assert compute_interval(noise, wanted, 3, 4, 9, 0.95) == (4, 4)


def test_distributions_are_kept_and_cannot_be_changed() -> None:
    noise = FixedSumNoise(5, RATIO)
    _, probabilities = compute_sum_distribution(noise, 2, 3)
    assert compute_sum_distribution(FixedSumNoise(5, RATIO), 2, 3)[1] is probabilities
    with pytest.raises(ValueError, match="read-only"):
        probabilities[0] = 1


@pytest.mark.parametrize(("wanted", "cells"), [(-1, 1), (6, 1), (2, 0)])
def test_sums_out_of_range_are_refused(wanted: int, cells: int) -> None:
    with pytest.raises(InternalError):
        compute_sum_distribution(FixedSumNoise(5, RATIO), wanted, cells)


# ------------------------------------------------------------------------------------------------------------ intervals


def compute_coverages(noise: FixedSumNoise, wanted: int, cells: int, rows: int, level: float) -> list[float]:
    """The exact probability that the interval covers each true count."""
    lowest, probabilities = compute_sum_distribution(noise, wanted, cells)
    noisy = range(lowest, rows - lowest + 1)
    bounds = np.array([compute_interval(noise, wanted, cells, count, rows, level) for count in noisy])
    coverages = []
    for true in range(rows + 1):
        reached = bounds[true : true + len(probabilities)]
        coverages.append(float(probabilities @ ((reached[:, 0] <= true) & (true <= reached[:, 1]))))
    return coverages


QUESTIONS = [
    (2, 1, 1, 8, 0.95),
    (2, 1, 3, 12, 0.95),
    (5, 2, 1, 3, 0.9),
    (17, 1, 2, 20, 0.95),
    (17, 1, 10, 30, 0.99),
    (46, 9, 4, 15, 0.5),
]


@pytest.mark.light
@pytest.mark.parametrize(("size", "wanted", "cells", "rows", "level"), QUESTIONS)
def test_intervals_cover_every_true_count_at_the_level(
    size: int, wanted: int, cells: int, rows: int, level: float
) -> None:
    coverages = compute_coverages(FixedSumNoise(size, RATIO), wanted, cells, rows, level)
    assert min(coverages) >= level - 1e-9
    assert np.mean(coverages) < level + 0.8 * (1 - level)  # not far too wide either


def accept_by_sorting(probabilities: Floats, true: int, rows: int, level: float) -> set[int]:
    """The noisy counts that a true count accepts, ranked one by one."""
    reach = len(probabilities) // 2

    def find_probability(distance: int) -> float:
        return float(probabilities[distance + reach]) if abs(distance) <= reach else 0.0

    ranks = {
        noisy: find_probability(noisy - true) / find_probability(noisy - min(max(noisy, 0), rows))
        for noisy in range(-reach // 2, rows + reach // 2 + 1)
    }
    accepted, reached, last = set(), 0.0, math.inf
    for noisy, rank in sorted(ranks.items(), key=lambda pair: -pair[1]):
        if reached >= level and rank < last * (1 - 1e-9):
            break
        accepted.add(noisy)
        reached, last = reached + find_probability(noisy - true), rank
    return accepted


@pytest.mark.light
@pytest.mark.parametrize(("size", "wanted", "cells", "rows"), [(2, 1, 2, 6), (17, 1, 3, 9), (5, 2, 4, 40)])
def test_intervals_are_those_of_all_ranks(size: int, wanted: int, cells: int, rows: int) -> None:
    noise = FixedSumNoise(size, RATIO)
    _, probabilities = compute_sum_distribution(noise, wanted, cells)
    accepted = [accept_by_sorting(probabilities, true, rows, 0.95) for true in range(rows + 1)]
    for noisy in range(-6, rows + 7):
        accepting = [true for true in range(rows + 1) if noisy in accepted[true]]
        assert compute_interval(noise, wanted, cells, noisy, rows, 0.95) == (accepting[0], accepting[-1])


@pytest.mark.parametrize("noisy", [-(10**15), -300, 300, 10**15])
def test_intervals_of_impossible_counts_are_at_the_nearer_end(noisy: int) -> None:
    low, high = compute_interval(FixedSumNoise(17, RATIO), 2, 3, noisy, 50, 0.95)
    assert 0 <= low <= high <= 50
    assert high - low <= 4
    assert (low == 0) if noisy < 0 else (high == 50)


def test_intervals_far_from_both_ends_are_symmetric() -> None:
    noise, rows = FixedSumNoise(17, RATIO), 10**9
    low, high = compute_interval(noise, 2, 19, rows // 2, rows, 0.95)
    assert high - rows // 2 == rows // 2 - low
    deviation = math.sqrt(19 * noise.compute_set_variance(2))
    assert high - rows // 2 == pytest.approx(1.96 * deviation, abs=1)
