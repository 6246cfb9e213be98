"""What noisy counts tell about one person of a crowd, against all counts that the crowd could have."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato._core.array_types import Floats
from sfumato._risk.attackers.crowd_posteriors import (
    CONCENTRATIONS,
    CountsOfRows,
    compute_count_means,
    compute_crowd_posteriors,
)
from sfumato.mechanisms._noisy_counts.crowd_attack_model import list_noise_probabilities
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

RATIO, SIZE = 2 / 9, 3
NOISE = list_noise_probabilities(FixedSumNoise(SIZE, Fraction(2, 9)))
MEAN_DIFFERENCE, LOST_GUESSES = 0.035, 0.01
BELIEFS = ((0.5, 0.3, 0.2), (0.8, 0.15, 0.05), (0.1, 0.45, 0.45))


def list_counts(people: int) -> list[tuple[int, ...]]:
    return [counts for counts in itertools.product(range(people + 1), repeat=SIZE) if sum(counts) == people]


def compute_prior(counts: tuple[int, ...], beliefs: Floats, concentration: float) -> float:
    """The Dirichlet multinomial probability of counts, up to a constant; multinomial for independent people."""
    orders = math.factorial(sum(counts)) / math.prod(map(math.factorial, counts))
    if math.isinf(concentration):
        return orders * math.prod(share**count for share, count in zip(beliefs, counts, strict=True))
    return orders * math.prod(
        math.gamma(concentration * share + count) / math.gamma(concentration * share)
        for share, count in zip(beliefs, counts, strict=True)
    )


def compute_joint(people: int, noisy: Floats, beliefs: Floats, concentration: float) -> Floats:
    """The probability of each value with the noisy counts, up to a constant, from the noise of all counts together."""
    total = np.zeros(SIZE)
    for counts in list_counts(people):
        moved = sum(abs(one - other) for one, other in zip(noisy, counts, strict=True)) // 2
        total += compute_prior(counts, beliefs, concentration) * RATIO**moved * np.array(counts) / people
    return total


def list_noisy_counts(people: int) -> list[tuple[int, ...]]:
    """All noisy counts that are at most three units away from some true counts."""
    numbers = range(-3, people + 4)
    return [noisy for noisy in itertools.product(numbers, repeat=SIZE) if sum(noisy) == people]


@pytest.mark.parametrize("concentration", CONCENTRATIONS)
def test_posteriors_are_close_to_the_exact_ones(concentration: float) -> None:
    """On average over noisy counts as the attacker expects them; guesses are hardly worse than the best ones."""
    for people, beliefs in itertools.product((2, 4), BELIEFS):
        noisy = np.array(list_noisy_counts(people))
        exact = np.array([compute_joint(people, item, np.array(beliefs), concentration) for item in noisy])
        weights = exact.sum(axis=1) / exact.sum()
        exact /= exact.sum(axis=1, keepdims=True)
        rows = np.tile(beliefs, (len(noisy), 1))
        found = compute_crowd_posteriors(rows, CountsOfRows(np.full(len(noisy), people), [noisy]), NOISE, concentration)
        guesses = exact[np.arange(len(noisy)), found.argmax(axis=1)]
        assert weights @ np.abs(found - exact).mean(axis=1) < MEAN_DIFFERENCE
        assert weights @ (exact.max(axis=1) - guesses) < LOST_GUESSES


def test_count_means_are_exact_for_one_count() -> None:
    """By all counts of one value. Two releases have two noisy counts of it."""
    people, concentration, share = 7, 4.0, 0.3
    reach = len(NOISE) // 2
    for noisy in ([3], [-1], [9], [2, 4]):
        own, others = concentration * share, concentration * (1 - share)
        weights = np.array(
            [
                math.comb(people, count)
                * math.gamma(own + count)
                * math.gamma(others + people - count)
                * math.prod(NOISE[reach + number - count] for number in noisy)
                for count in range(people + 1)
            ]
        )
        found = compute_count_means(
            np.array([people]),
            [np.array([number]) for number in noisy],
            np.array([share]),
            np.array([concentration]),
            NOISE,
        )
        assert found[0] == pytest.approx(weights @ np.arange(people + 1) / weights.sum(), rel=1e-6)


def test_wide_noise_is_as_exact() -> None:
    """Of more counts than can be listed, some are tried at equal distances."""
    noise = list_noise_probabilities(FixedSumNoise(SIZE, Fraction(99, 100)))
    people, share, concentration, noisy = 2000, 0.3, 10.0, 900
    reach, counts = len(noise) // 2, np.arange(people + 1)
    own, others = concentration * share, concentration * (1 - share)
    logs = np.array(
        [
            math.lgamma(own + count)
            + math.lgamma(others + people - count)
            - math.lgamma(count + 1)
            - math.lgamma(people - count + 1)
            for count in counts
        ]
    )
    weights = np.exp(logs - logs.max()) * noise[np.clip(reach + noisy - counts, 0, len(noise) - 1)]
    arguments = np.array([people]), [np.array([noisy])], np.array([share]), np.array([concentration])
    assert compute_count_means(*arguments, noise)[0] == pytest.approx(weights @ counts / weights.sum(), rel=0.01)


def test_known_people_leave_the_crowd_and_tell_what_is_frequent() -> None:
    """With all others known and independent people, the counts of the rest are the noisy ones minus the known ones."""
    beliefs = np.array([BELIEFS[0]])
    known = np.array([[0, 4, 0]])
    rest = CountsOfRows(np.array([2]), [np.array([[1, 1, 0]])])
    with_known = CountsOfRows(np.array([2]), [np.array([[1, 1, 0]])], known)
    independent = [compute_crowd_posteriors(beliefs, item, NOISE) for item in (rest, with_known)]
    assert independent[0] == pytest.approx(independent[1])
    tied = [compute_crowd_posteriors(beliefs, item, NOISE, 3.0) for item in (rest, with_known)]
    assert tied[1][0, 1] > tied[0][0, 1]


def test_no_people_have_no_posteriors() -> None:
    empty = np.zeros((0, SIZE))
    nobody = CountsOfRows(np.zeros(0, dtype=np.int64), [np.zeros((0, SIZE), dtype=np.int64)])
    assert compute_crowd_posteriors(empty, nobody, NOISE).shape == (0, SIZE)
