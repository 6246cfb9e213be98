"""The smallest crowd, and predicted errors beside those of subset selection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato._request.belief_bounds import BreachBound
from sfumato.mechanisms._noisy_counts.clamped_estimation import estimate_counts
from sfumato.mechanisms._noisy_counts.crowd_size import (
    LARGEST_CROWD,
    compute_subset_variance,
    compute_subset_variances,
    find_equal_accuracy,
    find_smallest_crowd,
    predict_cell_variance,
    predict_error_ratio,
)
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection

TIMES_4 = Fraction(9, 2)


def find_crowd(size: int, amplification: Fraction) -> int:
    return find_smallest_crowd(size, amplification, *compute_subset_variances(size, amplification))


@pytest.mark.parametrize(
    ("amplification", "sizes", "smallest"),
    [  # the specification, section 6
        (Fraction(9, 2), (2, 3, 5, 8, 17, 46, 1420), 2),
        (Fraction(9), (2, 17, 46, 1420), 2),
        (Fraction(9), (5,), 3),
        (Fraction(19), (5, 8, 17, 46), 3),
        (Fraction(99), (10, 17, 46), 6),
    ],
)
def test_smallest_crowds_are_those_of_the_specification(
    amplification: Fraction, sizes: tuple[int, ...], smallest: int
) -> None:
    assert [find_crowd(size, amplification) for size in sizes] == [smallest] * len(sizes)


def test_smallest_crowd_is_the_first_with_less_variance_than_its_sets() -> None:
    amplification, size = Fraction(99), 17
    noise, record = FixedSumNoise(size, 1 / amplification), compute_subset_variance(size, amplification)
    is_better = [predict_cell_variance(noise, people) < people * record for people in range(2, 10)]
    assert is_better.index(True) + 2 == find_crowd(size, amplification)


def test_smallest_crowd_has_a_largest_size() -> None:
    assert find_smallest_crowd(5, TIMES_4, 1e-9, 1e-9) == LARGEST_CROWD


def iter_shares(size: int, people: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """All true counts of a cell with their probabilities, if every value is equally likely."""
    for true in product(range(people + 1), repeat=size):
        if sum(true) == people:
            ways = math.factorial(people) / math.prod(map(math.factorial, true))
            yield true, ways / size**people


@pytest.mark.parametrize(
    ("size", "people", "tolerance"), [(2, 2, 1e-6), (2, 3, 1e-6), (2, 10, 1e-2), (3, 2, 0.2), (3, 6, 0.1)]
)
def test_predicted_variance_is_about_the_exact_one(size: int, people: int, tolerance: float) -> None:
    """Exact for two values and few people; the prediction of the specification would be 9% too small at 2 and 2."""
    noise = FixedSumNoise(size, 1 / TIMES_4)
    starts = np.array(list(product(range(-15, 16), repeat=size - 1)))
    drawn = np.column_stack([starts, -starts.sum(axis=1)])
    probabilities = float(noise.zero_probability) * float(noise.ratio) ** (np.abs(drawn).sum(axis=1) // 2)
    exact = 0.0
    for true, share in iter_shares(size, people):
        estimates = estimate_counts(noise, np.full(len(drawn), people), np.array(true) + drawn)
        exact += share * float(probabilities @ (estimates[:, 0] - true[0]) ** 2)
    assert predict_cell_variance(noise, people) == pytest.approx(exact, rel=tolerance)


def test_large_cells_have_the_variance_of_the_noise() -> None:
    noise = FixedSumNoise(17, 1 / TIMES_4)
    assert predict_cell_variance(noise, 10_000) == pytest.approx(float(noise.variance))
    assert noise.rounded_variance == pytest.approx(float(noise.variance), rel=1e-13)


@pytest.mark.parametrize("size", [2, 5, 46])
def test_subset_variances_are_those_of_its_sets(size: int) -> None:
    selection = SubsetSelection.from_bound(size, BreachBound("1/10", "1/3"))
    hold, other = float(selection.hold_probability), float(selection.other_probability)
    expected = [share * (1 - share) / (hold - other) ** 2 for share in (hold, other)]
    assert list(compute_subset_variances(size, TIMES_4)) == pytest.approx(expected)


@pytest.mark.parametrize(("size", "variance"), [(2, 0.37), (5, 0.78), (17, 1.25), (46, 1.39)])  # section 2
def test_subset_variance_is_that_of_the_specification(size: int, variance: float) -> None:
    assert compute_subset_variance(size, TIMES_4) == pytest.approx(variance, abs=0.005)


def test_error_ratio_weighs_crowds_and_other_people() -> None:
    noise, record = FixedSumNoise(17, 1 / TIMES_4), compute_subset_variance(17, TIMES_4)
    assert predict_error_ratio(noise, record, {1: 100}, 2) == 1
    assert predict_error_ratio(noise, record, {}, 2) == 1
    crowd = predict_cell_variance(noise, 50)
    assert predict_error_ratio(noise, record, {50: 3}, 2) == pytest.approx(math.sqrt(crowd / (50 * record)))
    mixed = (3 * crowd + 60 * record) / (210 * record)
    assert predict_error_ratio(noise, record, {50: 3, 1: 40, 2: 10}, 3) == pytest.approx(math.sqrt(mixed))


@pytest.mark.parametrize("size", [2, 17])
@pytest.mark.parametrize("class_sizes", [{1: 50, 20: 30}, {1: 500, 2: 100, 7: 30}, {400: 12}])
def test_equal_accuracy_is_equal_but_for_the_rounding(size: int, class_sizes: dict[int, int]) -> None:
    equal = find_equal_accuracy(size, TIMES_4, class_sizes)
    assert 1 < equal < TIMES_4
    target, people = compute_subset_variance(size, TIMES_4), sum(n * classes for n, classes in class_sizes.items())

    def predict(amplification: Fraction) -> float:
        noise, record = FixedSumNoise(size, 1 / amplification), compute_subset_variance(size, amplification)
        ratio = predict_error_ratio(noise, record, class_sizes, find_crowd(size, amplification))
        return ratio**2 * record * people

    assert predict(equal) >= target * people > predict(equal + Fraction(1, 1000))


def test_equal_accuracy_stays_within_its_limits() -> None:
    assert find_equal_accuracy(17, TIMES_4, {1: 10}) == TIMES_4
    assert find_equal_accuracy(17, Fraction(13, 3), {1: 10}) == Fraction(4333, 1000)
    assert find_equal_accuracy(2, TIMES_4, {10**7: 1}) == Fraction(1001, 1000)
