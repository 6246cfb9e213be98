"""Estimates of the counts of cells, and their variances, against the exact sums over all noise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms._noisy_counts import clamped_estimation
from sfumato.mechanisms._noisy_counts.clamped_estimation import CellKinds, VarianceReduction, estimate_counts
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

RATIO = Fraction(2, 9)
Matrix = npt.NDArray[np.float64]


def estimate_one(size: int, people: int, noisy: Sequence[int]) -> list[float]:
    (estimates,) = estimate_counts(FixedSumNoise(size, RATIO), np.array([people]), np.array([noisy])).tolist()
    return list(estimates)


def make_all_noise(size: int, most: int) -> npt.NDArray[np.int64]:
    """All noise that moves at most this many units, a row for each."""
    starts = np.array(list(product(range(-most, most + 1), repeat=size - 1)))
    noise = np.column_stack([starts, -starts.sum(axis=1)])
    return noise[np.abs(noise).sum(axis=1) <= 2 * most]


def compute_probabilities(noise: FixedSumNoise, drawn: npt.NDArray[np.int64]) -> Matrix:
    units = np.abs(drawn).sum(axis=1) // 2
    return float(noise.zero_probability) * float(noise.ratio) ** units


@pytest.mark.parametrize(
    ("people", "noisy", "estimates"),
    [  # the specification, section 9
        (4, (3, 2, -1, 0), (3, 2, -1 / 2, -1 / 2)),
        (4, (5, -1, 0), (32 / 7, -2 / 7, -2 / 7)),
    ],
)
def test_estimates_are_those_of_the_specification(
    people: int, noisy: tuple[int, ...], estimates: tuple[float, ...]
) -> None:
    assert estimate_one(len(noisy), people, noisy) == pytest.approx(estimates)


def test_counts_inside_their_range_are_their_own_estimates() -> None:
    assert estimate_one(3, 6, (1, 2, 3)) == [1, 2, 3]
    reduction = VarianceReduction.of(FixedSumNoise(3, RATIO), np.array([6]), np.array([[1, 2, 3]]))
    assert reduction.compute(np.array([1.0, 0.0, 5.0])).tolist() == [0]


TRUE = [(1, 0), (3, 2), (2, 0, 0), (1, 1, 0), (1, 2, 3), (1, 0, 0, 1)]


@pytest.mark.parametrize("true", TRUE)
def test_estimates_and_variances_are_unbiased(true: tuple[int, ...]) -> None:
    """Over all noise, the mean estimate is the true count, and the mean variance is that of the estimate."""
    noise, theta = FixedSumNoise(len(true), Fraction(1, 9)), np.array([2.0, -1.0, 0.5, 7.0])[: len(true)]
    drawn = make_all_noise(len(true), 11)
    people, noisy = np.full(len(drawn), sum(true)), np.array(true) + drawn
    estimates, probabilities = estimate_counts(noise, people, noisy), compute_probabilities(noise, drawn)
    assert estimates.sum(axis=1) == pytest.approx(people)
    assert probabilities @ estimates == pytest.approx(true, abs=1e-7)
    reduction = VarianceReduction.of(noise, people, noisy)
    for numbers in (theta, np.eye(len(true))[0], np.ones(len(true))):
        whole = float(noise.variance) * len(true) / (len(true) - 1) * ((numbers - numbers.mean()) ** 2).sum()
        mean = probabilities @ (whole - reduction.compute(numbers))
        exact = probabilities @ ((estimates - np.array(true)) @ numbers) ** 2
        assert mean == pytest.approx(exact, rel=1e-5, abs=1e-9)


def test_variances_are_those_of_the_specification() -> None:
    noise, drawn = FixedSumNoise(3, RATIO), make_all_noise(3, 25)
    true = np.array([2, 0, 0])
    people, noisy, probabilities = np.full(len(drawn), 2), true + drawn, compute_probabilities(noise, drawn)
    errors = estimate_counts(noise, people, noisy) - true
    assert probabilities @ errors**2 == pytest.approx([0.814767, 1.005849, 1.005849], abs=1e-6)
    reduction = VarianceReduction.of(noise, people, noisy)
    mean = [noise.compute_set_variance(1) - probabilities @ reduction.compute(place) for place in np.eye(3)]
    assert mean == pytest.approx([0.814767, 1.005849, 1.005849], abs=1e-6)


@pytest.mark.parametrize("true", [(2, 0, 0), (1, 2, 0), (1, 0, 0, 0)])
def test_estimates_are_means_given_the_clamped_counts(true: tuple[int, ...]) -> None:
    """The same by brute force: all noisy counts with the same clamped counts, with their mean and covariance."""
    noise, people = FixedSumNoise(len(true), Fraction(1, 9)), sum(true)
    noisy = np.array(true) + make_all_noise(len(true), 13 - len(true))
    alike = defaultdict(list)
    for number, clamped in enumerate(np.clip(noisy, 0, people).tolist()):
        alike[tuple(clamped)].append(number)
    probabilities = compute_probabilities(noise, noisy - np.array(true))
    theta, checked = np.array([3.0, -1.0, 2.0, 0.5])[: len(true)], 0
    for clamped, numbers in alike.items():
        if sum(clamped) > people + 2:  # much of its noise is missing here
            continue
        shares = probabilities[numbers] / probabilities[numbers].sum()
        some, mean = np.array([people]), shares @ noisy[numbers]
        estimates = estimate_counts(noise, some, noisy[numbers[:1]])[0]
        assert estimates == pytest.approx(mean, abs=1e-3)
        variance = shares @ ((noisy[numbers] - mean) @ theta) ** 2
        reduction = VarianceReduction.of(noise, some, noisy[numbers[:1]]).compute(theta)[0]
        assert reduction == pytest.approx(variance, rel=1e-2, abs=1e-9)
        checked += 1
    assert checked >= 10


def compute_exact_moments(full: int, empty: int, overshoot: int, most: int) -> tuple[Fraction, Fraction]:
    """The mean and the variance of the excess in exact fractions, without what lies above `most`."""
    weights = [
        math.comb(excess + full - 1, excess) * math.comb(excess + overshoot + empty - 1, empty - 1) * RATIO**excess
        for excess in range(most + 1)
    ]
    whole = sum(weights)
    mean = sum(excess * weight for excess, weight in enumerate(weights)) / whole
    return mean, sum((excess - mean) ** 2 * weight for excess, weight in enumerate(weights)) / whole


@pytest.mark.parametrize(
    ("full", "empty", "overshoot", "most"),
    [(1, 1, 0, 80), (1, 40, 0, 200), (1, 1, 2000, 120), (3, 2, 7, 120), (60, 90, 5, 300), (300, 900, 250, 900)],
)
def test_moments_of_the_excess_are_exact(full: int, empty: int, overshoot: int, most: int) -> None:
    kinds = (np.array([float(number)]) for number in (full, empty, overshoot))
    moments = clamped_estimation.ExcessDistribution(*kinds, ratio=float(RATIO)).compute_moments()
    exact = [float(moment) for moment in compute_exact_moments(full, empty, overshoot, most)]
    assert np.ravel(moments).tolist() == pytest.approx(exact, rel=1e-12)


def test_large_theta_loses_no_digits() -> None:
    """The counts of a cell add up to its people, so a number added to all of theta changes nothing."""
    noise, people = FixedSumNoise(10, RATIO), np.array([3, 2])
    noisy = np.array([[5, 3, -2, 0, -1, 0, -2, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0, -3, 3]])
    reduction, theta = VarianceReduction.of(noise, people, noisy), np.arange(10.0)
    exact = reduction.compute(theta)
    assert (exact > 0.1).all()
    assert reduction.compute(theta + 1e9) == pytest.approx(exact, rel=1e-12)


def test_complements_have_the_same_reduction() -> None:
    noise, people = FixedSumNoise(3, RATIO), np.array([2, 2])
    noisy = np.array([[4, -1, -1], [0, 3, -1]])
    reduction = VarianceReduction.of(noise, people, noisy)
    assert reduction.compute(np.array([1.0, 0, 0])) == pytest.approx(reduction.compute(np.array([0.0, 1, 1])))
    assert reduction.compute(np.ones(3)).tolist() == [0, 0]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, noisy = FixedSumNoise(11, RATIO), np.repeat(make_all_noise(3, 3), 4, axis=1)[:, :11]
    noisy[:, 0] += 2 - noisy.sum(axis=1)
    people, theta = np.full(len(noisy), 2), np.arange(11.0) ** 2
    estimates, reductions = (
        estimate_counts(noise, people, noisy),
        VarianceReduction.of(noise, people, noisy).compute(theta),
    )
    monkeypatch.setattr(clamped_estimation, "BLOCK_COUNTS", 30)
    monkeypatch.setattr(clamped_estimation, "BLOCK_KINDS", 2)
    assert np.array_equal(estimates, estimate_counts(noise, people, noisy))
    assert np.array_equal(reductions, VarianceReduction.of(noise, people, noisy).compute(theta))


def test_masks_take_a_bit_for_each_count() -> None:
    kinds = CellKinds.of(FixedSumNoise(46, RATIO), np.full(100, 46), np.ones((100, 46), dtype=np.int64))
    assert kinds.full_bits.nbytes == kinds.empty_bits.nbytes == 600
    assert kinds.numbers.nbytes == 100


def test_no_cells_have_no_estimates() -> None:
    noise, people, noisy = FixedSumNoise(3, RATIO), np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64)
    assert estimate_counts(noise, people, noisy).shape == (0, 3)
    assert VarianceReduction.of(noise, people, noisy).compute(np.ones(3)).shape == (0,)


@pytest.mark.parametrize(("people", "noisy"), [(3, (1, 1)), (0, (0, 0)), (-2, (-1, -1))])
def test_counts_that_are_no_noisy_counts_are_refused(people: int, noisy: tuple[int, int]) -> None:
    with pytest.raises(ReleaseFormatError, match="add up"):
        estimate_counts(FixedSumNoise(2, RATIO), np.array([people]), np.array([noisy]))


def test_huge_noisy_counts_are_estimated() -> None:
    huge = 10**15
    assert estimate_one(3, 2, (huge + 2, -huge, 0)) == estimate_one(3, 2, (3, -1, 0))
    assert estimate_one(3, 2, (1, 1 + huge, -huge)) == pytest.approx(estimate_one(3, 2, (1, 2, -1)))
