"""Noise that adds up to zero: its exact distribution, and draws that depend on the number of a cell alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import cast

import numpy as np
import pytest

from sfumato._core.array_types import Bits64
from sfumato._core.random_draws import Draws, Stream
from sfumato.errors import InternalError
from sfumato.mechanisms._noisy_counts import fixed_sum_noise
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

RATIO = Fraction(2, 9)
DRAWS = Draws.unsafe_test_key("07" * 32).narrow_to_column("disease")
LARGEST = 2**64 - 1


def iter_noise(size: int, most: int) -> Iterator[tuple[int, ...]]:
    """All noise that moves at most this many units."""
    for start in product(range(-most, most + 1), repeat=size - 1):
        noise = (*start, -sum(start))
        if sum(map(abs, noise)) <= 2 * most:
            yield noise


@pytest.mark.parametrize(
    ("size", "variance"),
    [(2, Fraction(36, 49)), (3, Fraction(10008, 7693)), (5, Fraction(583344, 299047))],  # the specification, section 9
)
def test_variance_is_that_of_the_specification(size: int, variance: Fraction) -> None:
    assert FixedSumNoise(size, RATIO).variance == variance


def test_probability_of_no_noise_is_that_of_the_specification() -> None:
    assert FixedSumNoise(3, RATIO).zero_probability == Fraction(49, 157)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_distribution_is_that_of_all_noise(size: int) -> None:
    noise, most = FixedSumNoise(size, Fraction(1, 20)), 9
    moved = [Fraction(0)] * (most + 1)
    variance = set_variance = Fraction(0)
    for values in iter_noise(size, most):
        units = sum(map(abs, values)) // 2
        probability = noise.ratio**units * noise.zero_probability
        moved[units] += probability
        variance += probability * values[0] ** 2
        set_variance += probability * (values[0] + values[1]) ** 2
    assert noise.list_moved_probabilities(most) == pytest.approx([float(share) for share in moved], rel=1e-13)
    assert float(noise.variance) == pytest.approx(float(variance), rel=1e-8)
    assert noise.compute_set_variance(2) == pytest.approx(float(set_variance), rel=1e-8)


@pytest.mark.parametrize("size", [2, 5, 46])
def test_moved_units_have_the_probabilities_of_the_specification(size: int) -> None:
    noise, most = FixedSumNoise(size, RATIO), 60
    exact = [noise.zero_probability] + [
        RATIO**units
        * noise.zero_probability
        * sum(
            math.comb(size, up) * math.comb(units - 1, up - 1) * math.comb(units + size - up - 1, units)
            for up in range(1, size)
        )
        for units in range(1, most + 1)
    ]
    assert noise.list_moved_probabilities(most) == pytest.approx([float(share) for share in exact], rel=1e-12)
    assert noise.list_moved_probabilities(0) == pytest.approx([float(noise.zero_probability)])


def test_whole_sets_have_no_noise() -> None:
    noise = FixedSumNoise(5, RATIO)
    assert noise.compute_set_variance(0) == noise.compute_set_variance(5) == 0
    assert noise.compute_set_variance(1) == pytest.approx(float(noise.variance))


@pytest.mark.parametrize(("size", "ratio"), [(1, RATIO), (2, Fraction(1)), (2, Fraction(0))])
def test_noise_out_of_range_is_refused(size: int, ratio: Fraction) -> None:
    with pytest.raises(InternalError):
        FixedSumNoise(size, ratio)


# --------------------------------------------------------------------------------------------------------------- totals


def compute_total_probability(noise: FixedSumNoise, total: int) -> Fraction:
    """C(D+m-1, m-1)² r^D / B, section 3 of the specification."""
    size, ratio = noise.size, noise.ratio
    whole = (1 - ratio) ** (1 - 2 * size) * sum(math.comb(size - 1, j) ** 2 * ratio**j for j in range(size))
    return math.comb(total + size - 1, size - 1) ** 2 * ratio**total / whole


@pytest.mark.parametrize("size", [2, 3, 17])
def test_thresholds_are_the_rounded_probabilities_of_totals(size: int) -> None:
    noise, cumulative = FixedSumNoise(size, RATIO), Fraction(0)
    for total, threshold in islice(noise._iter_thresholds(64), 100):
        cumulative += compute_total_probability(noise, total)
        assert threshold == math.floor(cumulative * 2**64)
    assert (
        noise._thresholds.tolist()
        == [threshold for _, threshold in islice(noise._iter_thresholds(64), 100)][: len(noise._thresholds)]
    )
    assert noise._thresholds[-1] == LARGEST
    assert noise._thresholds[-2] < LARGEST


def test_totals_have_their_probabilities_whatever_the_bits() -> None:
    """A number of 6 bits decides the total or leaves it open; 6 more bits decide the same total, or leave it open."""
    noise = FixedSumNoise(3, Fraction(1, 4))
    for number in range(2**12):
        early, late = noise._find_total(number >> 6, 6), noise._find_total(number, 12)
        assert early in (None, late)
    decided = [noise._find_total(number, 12) for number in range(2**12)]
    for total in range(5):
        share = Fraction(decided.count(total), 2**12)
        assert 0 <= compute_total_probability(noise, total) - share <= Fraction(2, 2**12)


@dataclass
class ScriptedStream:
    """Gives the numbers of a script, one for each attempt of the only row."""

    script: list[int]

    def draw_bits(self, first_row: int, rows: int, attempt: int = 0) -> Bits64:
        assert (first_row, rows) == (5, 1)
        return np.array([self.script[attempt]], dtype=np.uint64)


def draw_total(noise: FixedSumNoise, *script: int) -> int:
    (total,) = noise._draw_totals(cast("Stream", ScriptedStream(list(script))), 5, 1).tolist()
    return int(total)


def test_numbers_beside_a_threshold_are_decided_at_once() -> None:
    noise = FixedSumNoise(3, RATIO)
    for total, threshold in enumerate(noise._thresholds[:5].tolist()):
        assert draw_total(noise, threshold - 1) == total
        assert draw_total(noise, threshold + 1) == total + 1
    assert draw_total(noise, 0) == 0


def test_a_number_at_a_threshold_is_decided_by_further_attempts() -> None:
    noise = FixedSumNoise(3, RATIO)
    (_, first), (_, fine) = (next(noise._iter_thresholds(bits)) for bits in (64, 128))
    low = fine - (first << 64)
    assert draw_total(noise, first, low - 1) == 0
    assert draw_total(noise, first, low + 1) == 1
    finest = next(noise._iter_thresholds(192))[1] - (fine << 64)
    assert draw_total(noise, first, low, finest - 1) == 0
    assert draw_total(noise, first, low, finest + 1) == 1


def test_the_largest_numbers_give_totals_beyond_all_thresholds() -> None:
    noise = FixedSumNoise(3, RATIO)
    assert draw_total(noise, LARGEST, LARGEST, 0) > draw_total(noise, LARGEST, 0) >= len(noise._thresholds) - 1


# ---------------------------------------------------------------------------------------------------------------- draws


@pytest.mark.parametrize("size", [2, 3, 17, 300])
def test_noise_adds_up_to_zero_and_is_that_of_any_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = FixedSumNoise(size, RATIO)
    whole = noise.draw(DRAWS, 1000, 50)
    assert (whole.dtype, whole.shape) == (np.int64, (50, size))
    assert not whole.sum(axis=1).any()
    assert len(np.unique(whole, axis=0)) > 5
    assert np.array_equal(whole, np.vstack([noise.draw(DRAWS, 1000, 7), noise.draw(DRAWS, 1007, 43)]))
    monkeypatch.setattr(fixed_sum_noise, "BLOCK_COUNTS", 1)
    monkeypatch.setattr(fixed_sum_noise, "FEWEST_BLOCK_CELLS", 3)
    assert np.array_equal(whole, noise.draw(DRAWS, 1000, 50))


def test_noise_of_no_cells_is_empty() -> None:
    assert FixedSumNoise(3, RATIO).draw(DRAWS, 10, 0).shape == (0, 3)


def test_noise_changes_with_the_column_and_the_key() -> None:
    noise = FixedSumNoise(5, RATIO)
    others = DRAWS.narrow_to_column("income"), Draws.unsafe_test_key("08" * 32).narrow_to_column("disease")
    for other in others:
        assert (noise.draw(DRAWS, 0, 20) != noise.draw(other, 0, 20)).any()


def test_every_way_to_share_units_out_is_equally_likely() -> None:
    """Enumerates the draws of an urn: 3 units among 3 values have 10 splits, each from 6 of the 60 sequences."""
    splits: Counter[tuple[int, ...]] = Counter()
    for script in product(range(3), range(4), range(5)):
        urn = cast("Draws", ScriptedUrn(script))
        shares = FixedSumNoise(3, RATIO)._share_units(urn, "noisy-counts/up", 0, np.array([3]))
        splits[tuple(shares[0].tolist())] += 1
    assert len(splits) == 10
    assert set(splits.values()) == {6}


@dataclass
class ScriptedUrn:
    """Gives one integer for each unit, whose purpose and bound it checks."""

    script: tuple[int, ...]
    unit: int = -1

    def get_stream(self, purpose: str) -> ScriptedUrn:
        self.unit += 1
        assert purpose == f"noisy-counts/up/{self.unit}"
        return self

    def draw_integers(self, first_row: int, rows: int, bound: int) -> Bits64:
        assert (first_row, rows, bound) == (0, 1, 3 + self.unit)
        return np.array([self.script[self.unit]], dtype=np.uint64)
