"""The verifier of noisy counts lets right noise pass, and notices noise that is wrong in one of several ways.

Right noise fails with a probability of at most two in a million: one for the sums and repetitions, and one for the
moved units. The keys are fixed, so that a failure can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from sfumato._verify.check_results import Check
from sfumato._verify.distributions.crowd_noise_distribution import CrowdNoise
from sfumato._verify.distributions.crowd_noise_tests import NoiseTests
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from statistical.support import Counts, keyed_draws

pytestmark = pytest.mark.statistical

RATIO = Fraction(2, 9)  # the ratio of an amplification of 4.5
BATCH = 1500
RELEASES = 25

Change = Callable[[Counts, Counts], Counts]
"""Makes noisy counts of true counts and noise."""


@cache
def true_counts_of(size: int, crowds: int) -> Counts:
    """Crowds of 2 to about 40 people. The last values are frequent, and the first values are rare."""
    chance = np.random.default_rng(size)
    shares = np.arange(1, size + 1) / np.arange(1, size + 1).sum()
    return chance.multinomial(1 + chance.geometric(0.1, crowds).clip(1, 40), shares)


def compare(size: int, crowds: int, key: int, *, change: Change | None = None, ratio: Fraction = RATIO) -> Check:
    """Checks counts whose noise was drawn with a ratio, and changed, against the noise of the usual ratio."""
    true_counts = true_counts_of(size, crowds)
    noise = FixedSumNoise(size, ratio).draw(keyed_draws(key), 0, crowds)
    noisy = true_counts + noise if change is None else change(true_counts, noise)
    numbers = np.arange(crowds)
    groupings = [np.zeros(crowds, dtype=np.int64), np.frexp(true_counts.sum(axis=1))[1].astype(np.int64)]
    tests = NoiseTests(CrowdNoise(size, RATIO), [*groupings, numbers % 2, numbers // 7 % 12])
    for first in range(0, crowds, BATCH):
        tests.add(true_counts[first : first + BATCH], noisy[first : first + BATCH])
    return tests.make_check()


@pytest.mark.parametrize(("size", "crowds"), [(2, 60), (2, 4000), (5, 1000), (17, 4000)])
def test_right_noise_passes(size: int, crowds: int) -> None:
    checks = [compare(size, crowds, key) for key in range(RELEASES)]
    assert [check.detail for check in checks if not check.has_passed] == []


@pytest.mark.parametrize(("size", "crowds"), [(2, 16_000), (5, 4000), (17, 4000)])
@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=["too little noise", "too much noise"])
def test_another_ratio_would_be_noticed(size: int, crowds: int, factor: Fraction) -> None:
    assert not compare(size, crowds, 1, ratio=RATIO * factor).has_passed


def drop_noise(share: float) -> Change:
    def change(true_counts: Counts, noise: Counts) -> Counts:
        is_missing = np.random.default_rng(3).random(len(noise)) < share
        return true_counts + np.where(is_missing[:, np.newaxis], 0, noise)

    return change


@pytest.mark.parametrize(("size", "crowds"), [(2, 40_000), (17, 1000), (17, 4000)])
def test_missing_noise_in_one_crowd_of_twenty_would_be_noticed(size: int, crowds: int) -> None:
    assert not compare(size, crowds, 2, change=drop_noise(0.05)).has_passed


def test_missing_noise_in_few_crowds_of_two_values_is_not_noticed() -> None:
    """This is the limit that the docstring states: most of these crowds would have had no noise anyway."""
    assert compare(2, 4000, 2, change=drop_noise(0.05)).has_passed


def drop_noise_of_large_crowds(true_counts: Counts, noise: Counts) -> Counts:
    return true_counts + np.where(true_counts.sum(axis=1, keepdims=True) >= 32, 0, noise)


def drop_noise_of_equal_people(true_counts: Counts, noise: Counts) -> Counts:
    return true_counts + np.where((true_counts > 0).sum(axis=1, keepdims=True) == 1, 0, noise)


@pytest.mark.parametrize("change", [drop_noise_of_large_crowds, drop_noise_of_equal_people])
def test_missing_noise_in_a_group_of_crowds_would_be_noticed_with_two_values_too(change: Change) -> None:
    assert not compare(2, 4000, 4, change=change).has_passed


def repeat_neighbours(true_counts: Counts, noise: Counts) -> Counts:
    return true_counts + np.repeat(noise[::2], 2, axis=0)


def repeat_batches(true_counts: Counts, noise: Counts) -> Counts:
    return true_counts + np.resize(noise[: len(noise) // 2], noise.shape)


@pytest.mark.parametrize(("size", "change"), [(2, repeat_neighbours), (17, repeat_neighbours), (17, repeat_batches)])
def test_noise_that_is_used_twice_would_be_noticed(size: int, change: Change) -> None:
    assert not compare(size, 1000, 5, change=change).has_passed


def clip(true_counts: Counts, noise: Counts) -> Counts:
    """No count is below zero; the largest count makes up for it."""
    noisy = np.maximum(true_counts + noise, 0)
    noisy[np.arange(len(noisy)), noisy.argmax(axis=1)] += true_counts.sum(axis=1) - noisy.sum(axis=1)
    return noisy


@pytest.mark.parametrize(("size", "crowds"), [(2, 10_000), (17, 1000)])
def test_clipped_counts_would_be_noticed(size: int, crowds: int) -> None:
    assert not compare(size, crowds, 6, change=clip).has_passed


def favour_first_value(true_counts: Counts, noise: Counts) -> Counts:
    """In one crowd of twenty, one person moves from the last value to the first."""
    noisy = true_counts + noise
    noisy[::20, 0] += 1
    noisy[::20, -1] -= 1
    return noisy


def test_a_bias_of_one_value_would_be_noticed() -> None:
    assert not compare(2, 40_000, 7, change=favour_first_value).has_passed


def move_many_people(true_counts: Counts, noise: Counts) -> Counts:
    """In a single crowd, forty people move from the last value to the first."""
    noisy = true_counts + noise
    noisy[7, 0] += 40
    noisy[7, -1] -= 40
    return noisy


@pytest.mark.parametrize(("size", "crowds"), [(2, 60), (2, 4000), (5, 1000), (17, 4000)])
def test_a_count_that_is_wrong_by_much_in_a_single_crowd_would_be_noticed(size: int, crowds: int) -> None:
    assert not compare(size, crowds, 8, change=move_many_people).has_passed
