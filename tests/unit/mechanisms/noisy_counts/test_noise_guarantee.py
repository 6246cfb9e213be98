"""What noisy counts can teach about one person, by exact enumeration: the bounds of section 1, and variants that break.

A cell has a few people. What an attacker knows is a distribution over the value of one person and the counts of the
others. A ratio of two mixtures lies between the ratios of their parts. So distributions of two points are the worst,
and all pairs of points are tried. Ratios depend on the noisy counts only through the clamped counts, so noisy counts a
little beyond the possible ones show everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product

import pytest

from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

AMPLIFICATION = Fraction(4)
ROOT = Fraction(2)
"""The square root of the amplification; a whole number, so that everything stays exact."""

PEOPLE = 3
SIZES = [2, 3]

Values = tuple[int, ...]
Likelihood = Callable[[Values, Values], Fraction]
"""The probability of noisy counts, given true counts."""


def compute_likelihood(noisy: Values, true: Values) -> Fraction:
    """The distribution that is published."""
    noise = FixedSumNoise(len(noisy), 1 / AMPLIFICATION)
    units = sum(abs(one - other) for one, other in zip(noisy, true, strict=True)) // 2
    return noise.ratio**units * noise.zero_probability


def make_independent_likelihood(ratio: Fraction) -> Likelihood:
    """The wrong variant: every count gets two-sided geometric noise of its own."""

    def compute(noisy: Values, true: Values) -> Fraction:
        distance = sum(abs(one - other) for one, other in zip(noisy, true, strict=True))
        return ratio**distance * ((1 - ratio) / (1 + ratio)) ** len(noisy)

    return compute


def compute_without(noisy: Values, others: Values) -> Fraction:
    """The noisy counts read as if the person had not been counted, up to a factor that is the same for all."""
    return ROOT ** -sum(abs(one - other) for one, other in zip(noisy, others, strict=True))


def iter_counts(size: int, people: int) -> Iterator[Values]:
    """All true counts of so many people."""
    return (counts for counts in product(range(people + 1), repeat=size) if sum(counts) == people)


def iter_noisy(size: int, people: int) -> Iterator[Values]:
    """Noisy counts up to three units beyond the possible ones, that add up to the people."""
    for start in product(range(-3, people + 4), repeat=size - 1):
        yield (*start, people - sum(start))


def iter_free_noisy(size: int, people: int) -> Iterator[Values]:
    """Noisy counts that need not add up to anything."""
    return product(range(people + 1), repeat=size)


def add(counts: Values, value: int, people: int = 1) -> Values:
    """The counts with more people at one value."""
    return tuple(count + people * (place == value) for place, count in enumerate(counts))


def compare_values(likelihood: Likelihood, noisy: Iterator[Values], others: Sequence[Values]) -> Fraction:
    """T1: the largest ratio of likelihoods of two values of one person, if the others are known."""
    return max(
        likelihood(seen, add(rest, one)) / likelihood(seen, add(rest, other))
        for seen in noisy
        for rest in others
        for one in range(len(seen))
        for other in range(len(seen))
    )


def compare_with_reading(
    likelihood: Likelihood,
    reading: Callable[[Values, Values], Fraction],
    noisy: Iterator[Values],
    others: Sequence[Values],
) -> Fraction:
    """The largest factor by which odds differ from those of a reading without the person, under any ties."""
    largest = Fraction(0)
    for seen in noisy:
        factors = [
            [likelihood(seen, add(rest, value)) / reading(seen, rest) for rest in others] for value in range(len(seen))
        ]
        for one, other in permutations(range(len(seen)), 2):
            largest = max(largest, max(factors[one]) / min(factors[other]))
    return largest


def list_others(size: int) -> list[Values]:
    return list(iter_counts(size, PEOPLE - 1))


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
def test_attackers_who_know_all_others_learn_at_most_the_amplification(size: int) -> None:
    """T1, and T2: mixtures over the counts of the others, independent of the person, keep the ratio."""
    assert compare_values(compute_likelihood, iter_noisy(size, PEOPLE), list_others(size)) == AMPLIFICATION


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
def test_odds_rise_at_most_by_the_amplification_against_counts_without_the_person(size: int) -> None:
    """T3, under any ties between the person and the others."""
    largest = compare_with_reading(compute_likelihood, compute_without, iter_noisy(size, PEOPLE), list_others(size))
    assert largest == AMPLIFICATION


def test_reading_without_the_person_is_a_distribution_of_the_same_size_for_all_others() -> None:
    """The constant of T3 does not depend on the counts of the others."""
    sums = {
        sum(compute_without(noisy, others) for noisy in product(range(-20, 21), repeat=2) if sum(noisy) == 3)
        for others in [(1, 1), (2, 0), (0, 2)]
    }
    assert max(sums) - min(sums) < Fraction(1, 10**10)


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
def test_the_same_noise_without_the_person_bounds_the_odds_of_the_truth(size: int) -> None:
    """T4: against the same noise on the counts of the others. The person's true value is `true`."""
    truth = any_statement = Fraction(0)
    rests = list_others(size)
    for noisy, true in product(iter_noisy(size, PEOPLE), range(size)):
        without = add(noisy, true, -1)
        factors = [
            [compute_likelihood(noisy, add(rest, value)) / compute_likelihood(without, rest) for rest in rests]
            for value in range(size)
        ]
        assert set(factors[true]) == {1}
        for value in set(range(size)) - {true}:
            truth = max(truth, 1 / min(factors[value]), *factors[value])
        for one, other in permutations(range(size), 2):
            any_statement = max(any_statement, max(factors[one]) / min(factors[other]))
    assert truth == AMPLIFICATION
    assert any_statement == (AMPLIFICATION if size == 2 else AMPLIFICATION**2)


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tied", [1, 2, 3])
def test_tied_people_multiply_the_bound(size: int, tied: int) -> None:
    """T5: people who are known to share their value."""
    largest = max(
        compute_likelihood(noisy, add(rest, one, tied)) / compute_likelihood(noisy, add(rest, other, tied))
        for noisy in iter_noisy(size, PEOPLE)
        for rest in iter_counts(size, PEOPLE - tied)
        for one in range(size)
        for other in range(size)
    )
    assert largest == AMPLIFICATION**tied


# ------------------------------------------------------------------------------------------------------- wrong variants


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
def test_independent_noise_of_the_same_ratio_breaks_the_bound(size: int) -> None:
    """T2 and T3 with a = 1 / amplification; noise of its root would keep the bound, with more variance."""
    others = list_others(size)

    def measure(ratio: Fraction) -> tuple[Fraction, Fraction]:
        likelihood = make_independent_likelihood(ratio)
        return (
            compare_values(likelihood, iter_free_noisy(size, PEOPLE), others),
            compare_with_reading(likelihood, likelihood, iter_free_noisy(size, PEOPLE), others),
        )

    assert measure(1 / AMPLIFICATION) == (AMPLIFICATION**2, AMPLIFICATION**2)
    assert measure(1 / ROOT) == (AMPLIFICATION, AMPLIFICATION)


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
def test_noise_of_a_smaller_ratio_breaks_the_bound(size: int) -> None:
    """The ratio 1 / amplification is the smallest that keeps the bound; a ratio one percent smaller does not."""
    noise = FixedSumNoise(size, Fraction(99, 100) / AMPLIFICATION)

    def compute(noisy: Values, true: Values) -> Fraction:
        units = sum(abs(one - other) for one, other in zip(noisy, true, strict=True)) // 2
        return noise.ratio**units * noise.zero_probability

    assert compare_values(compute, iter_noisy(size, PEOPLE), list_others(size)) > AMPLIFICATION


@pytest.mark.light
@pytest.mark.parametrize("size", SIZES)
def test_another_value_in_the_place_of_the_person_is_no_reading_without_it(size: int) -> None:
    """Under ties, the promise must not be worded against a release with another value, or with a random one."""
    others = list_others(size)

    def read_with_first(noisy: Values, rest: Values) -> Fraction:
        return compute_likelihood(noisy, add(rest, 0))

    def read_with_random(noisy: Values, rest: Values) -> Fraction:
        return sum((compute_likelihood(noisy, add(rest, value)) for value in range(size)), Fraction(0)) / size

    replaced = compare_with_reading(compute_likelihood, read_with_first, iter_noisy(size, PEOPLE), others)
    random = compare_with_reading(compute_likelihood, read_with_random, iter_noisy(size, PEOPLE), others)
    assert replaced == (AMPLIFICATION if size == 2 else AMPLIFICATION**2)
    assert random == AMPLIFICATION * ((size - 1) * AMPLIFICATION + 1) / (AMPLIFICATION + size - 1)
