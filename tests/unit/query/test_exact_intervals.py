"""Intervals of counts told by two binomials: every outcome of every law of a grid is gone through."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from sfumato._core.array_types import Floats, Mask
from sfumato._query.intervals import (
    FEW_EXPECTED_HITS,
    LARGE_CHANCE,
    MOST_HITS,
    SMALL_ROWS,
    compute_intervals,
    compute_score_ends,
    invert_hits,
)
from sfumato.mechanisms.estimator import Moments

LEVELS = (0.3, 0.5, 0.68, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999)
MOST_COUNT = 50


@dataclass(frozen=True)
class Setting:
    """So many rows of a release: a record shows its own value with the chance `wanted`, another with `other`."""

    wanted: float
    other: float
    rows: int

    def __str__(self) -> str:
        return f"{self.wanted:.4g}, {self.other:.4g}, {self.rows} rows"

    @property
    def kept(self) -> float:
        return self.wanted - self.other

    @property
    def is_exact(self) -> bool:
        return self.rows * self.other < FEW_EXPECTED_HITS

    @property
    def is_table(self) -> bool:
        return self.is_exact and self.rows > SMALL_ROWS and self.wanted <= LARGE_CHANCE

    @cached_property
    def moments(self) -> Moments:
        """Of every number of hits."""
        ones, hits = np.ones(self.rows + 1), np.arange(self.rows + 1)
        at_none, at_all = (self.rows * each * (1 - each) / self.kept**2 for each in (self.wanted, self.other))
        value, slope = (hits - self.rows * self.other) / self.kept, (at_none - at_all) / self.rows
        chances = np.stack([self.wanted * ones, self.other * ones])
        return Moments(value, at_all * ones, slope * ones, self.rows * ones, 0 * ones, chances=chances)

    def ends(self, level: float = 0.95) -> tuple[Floats, Floats]:
        return compute_intervals(self.moments, level)

    def chances(self, counts: Floats) -> Floats:
        """Of every number of hits, a line for each count: by convolution."""
        hits = np.arange(self.rows + 1)
        own = binom.pmf(hits, counts[:, np.newaxis], self.wanted)
        others = binom.pmf(hits, self.rows - counts[:, np.newaxis], self.other)
        size = 2 * self.rows + 1
        product = np.fft.rfft(own, size, axis=1) * np.fft.rfft(others, size, axis=1)
        return np.maximum(np.fft.irfft(product, size, axis=1)[:, : self.rows + 1], 0.0)

    @cached_property
    def small_counts(self) -> Floats:
        return np.arange(min(self.rows, MOST_COUNT) + 1.0)

    @cached_property
    def small_chances(self) -> Floats:
        return self.chances(self.small_counts)


def uniform(size: int, amplification: float) -> tuple[float, float]:
    """The chances that a record shows its own value, and a given other one."""
    return amplification / (size - 1 + amplification), 1 / (size - 1 + amplification)


def subset(size: int, amplification: float) -> tuple[float, float]:
    members = max(1, round(size / (1 + amplification)))
    hold = members * amplification / (members * amplification + size - members)
    return hold, (members - hold) / (size - 1)


CHANCES = sorted(
    {
        (round(wanted, 12), round(other, 12))
        for size in (2, 3, 5, 10, 20, 50, 100, 300, 1000)
        for amplification in (2, 3, 4.5, 7, 10, 20)
        for wanted, other in (uniform(size, amplification), subset(size, amplification))
    }
)
ROWS = (5, 8, 10, 15, 20, 30, 50, 70, 100, 101, 109, 150, 230, 400, 700, 1000)
GRID = [Setting(*chances, rows) for chances in CHANCES for rows in ROWS]


def coverage(setting: Setting) -> Floats:
    """How often the interval of 95% holds each small count."""
    low, high = setting.ends()
    counts = setting.small_counts[:, np.newaxis]
    return (setting.small_chances * ((low <= counts + 1e-9) & (high >= counts - 1e-9))).sum(axis=1)


def is_monotone_and_slow(setting: Setting, level: float) -> bool:
    """Whether both ends rise with the hits, and none by more than three hits would."""
    moves = np.diff(np.stack(setting.ends(level)), axis=1) * setting.kept
    return bool(moves.min() >= -1e-9 and moves.max() <= 3)


@pytest.mark.slow
def test_intervals_cover_every_small_count_of_the_grid() -> None:
    """At least 95% by the exact law, 94.5% where one law stands for others, and 93% by the score."""
    worst = {"law": 1.0, "table": 1.0, "score": 1.0}
    for setting in GRID:
        rule = "table" if setting.is_table else "law" if setting.is_exact else "score"
        worst[rule] = min(worst[rule], float(coverage(setting).min()))
    assert worst["law"] >= 0.95
    assert worst["table"] >= 0.945
    assert worst["score"] >= 0.93


def test_score_interval_alone_would_not_cover_few_hits() -> None:
    """The grid would notice: five rows, two values, amplification 20, a count of 2."""
    setting = Setting(*uniform(2, 20), 5)
    low, high = (np.clip(end, 0, 5) for end in compute_score_ends(setting.moments, 0.95))
    assert setting.small_chances[2, (low <= 2) & (high >= 2)].sum() == pytest.approx(0.795, abs=0.001)
    assert coverage(setting).min() >= 0.95


@pytest.mark.slow
def test_ends_rise_with_the_hits_and_no_hit_moves_them_far() -> None:
    assert [str(each) for each in GRID if not is_monotone_and_slow(each, 0.95)] == []


@pytest.mark.slow
def test_exact_intervals_are_little_wider_than_by_mid_p_which_may_be_empty() -> None:
    ratios = []
    for setting in [each for each in GRID if each.is_exact and each.rows <= 150]:
        low, high = setting.ends()
        width = high - low
        chances = setting.chances(np.arange(setting.rows + 1.0))
        below = chances.cumsum(axis=1) - chances / 2
        fits = (below > 0.025) & (below < 0.975)
        first, last = fits.argmax(axis=0), setting.rows - fits[::-1].argmax(axis=0)
        by_mid_p = np.where(fits.any(axis=0), last - first, 0)
        ratios.append((setting.small_chances @ width).mean() / (setting.small_chances @ by_mid_p).mean())
    assert np.mean(ratios) <= 1.05


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.slow
def test_ends_rise_at_every_level(level: float) -> None:
    some = [each for each in GRID[::7] if each.rows <= 230]
    moves = [np.diff(np.stack(each.ends(level)), axis=1).min() * each.kept for each in some]
    assert min(moves) >= -1e-9


@pytest.mark.slow
def test_intervals_are_nested_over_levels() -> None:
    for setting in [each for each in GRID[::5] if each.rows <= 230]:
        ends = [setting.ends(level) for level in LEVELS]
        for (low, high), (lower, higher) in pairwise(ends):
            assert (lower <= low + 1e-9).all(), str(setting)
            assert (higher >= high - 1e-9).all(), str(setting)


@pytest.mark.slow
def test_two_rules_differ_by_at_most_three_hits_where_one_follows_the_other() -> None:
    for wanted, other in CHANCES:
        setting = Setting(wanted, other, int(FEW_EXPECTED_HITS / other - 1e-9))
        by_law, by_score = setting.ends(), compute_intervals(replace(setting.moments, chances=None), 0.95)
        assert setting.is_exact
        assert np.abs(np.stack(by_law) - np.stack(by_score)).max() * setting.kept <= 3, str(setting)


def accepted_by_definition(setting: Setting, level: float) -> Mask:
    """Which counts (lines) are accepted at which hits: take in the best hits until they have the level.

    More hits than expected if all rows were counted are compared with what those expected have.
    """
    chances = setting.chances(np.arange(setting.rows + 1.0))
    best, is_accepted = chances.max(axis=0), np.zeros(chances.shape, dtype=np.bool_)
    expected = round(setting.rows * setting.wanted)
    best[expected:] = best[expected]
    for count, line in enumerate(chances):
        ratios, total = np.round(line / best, 10), 0.0
        for ratio in sorted(set(ratios.tolist()), reverse=True):
            if total >= level - 1e-12:
                break
            is_accepted[count, ratios == ratio] = True
            total += line[ratios == ratio].sum()
    return is_accepted


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("chances", [(0.6, 0.1), (0.875, 0.125), (0.37, 0.21), (0.05, 0.01)], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 7, 30])
def test_ends_are_the_hull_of_what_is_accepted_by_definition(
    rows: int, chances: tuple[float, float], level: float
) -> None:
    setting = Setting(*chances, rows)
    hits = np.arange(rows + 1)
    is_accepted = accepted_by_definition(setting, level)
    is_any = is_accepted.any(axis=0)
    found = invert_hits(setting.moments.hit_chances, np.full(rows + 1, rows), hits, level)
    expected = is_accepted.argmax(axis=0), rows - is_accepted[::-1].argmax(axis=0)
    for end, right in zip(found, expected, strict=True):
        assert end[is_any].tolist() == right[is_any].tolist()
        assert (end[~is_any] == rows).all()


def test_interval_by_the_law_holds_what_is_within_one_standard_error() -> None:
    """Of 20 rows none shows the value, though two would by chance: the law alone accepts no count but 0."""
    setting = Setting(0.9, 0.1, 20)
    (by_law,) = invert_hits(np.array([[0.9], [0.1]]), np.array([20]), np.array([0]), 0.95)[1]
    (low, *_), (high, *_) = setting.ends()
    assert (low, by_law) == (0, 0)
    assert high == pytest.approx(np.sqrt(20 * 0.09) / 0.8)


def test_known_records_move_the_interval_and_nothing_else() -> None:
    """Five rows that count for certain, beside 30 of which hits tell."""
    setting = Setting(0.5, 0.1, 30)
    plain = setting.moments
    moved = replace(
        plain,
        value=plain.value + 5,
        base=plain.base - 5 * plain.slope,
        most=plain.most + 5,
        least=plain.least + 5,
    )
    for end, other in zip(compute_intervals(plain, 0.95), compute_intervals(moved, 0.95), strict=True):
        assert other == pytest.approx(end + 5, abs=1e-9)


def test_a_count_is_answered_alike_alone_and_among_many() -> None:
    settings = [each for each in GRID[:: len(GRID) // 40] if each.rows <= 230]
    many = compute_intervals(Moments.concatenate([each.moments for each in settings]), 0.95)
    alone = [np.concatenate(ends) for ends in zip(*(each.ends() for each in settings), strict=True)]
    for end, other in zip(many, alone, strict=True):
        assert (end == other).all()


@pytest.mark.parametrize("value", np.arange(-120.0, 40.0, 0.5).tolist())
def test_an_estimate_below_zero_is_never_almost_certain(value: float) -> None:
    """With a standard error of 39, an estimate of -73 was said to be 0 to 4.3, and one of -80 to be 0 to 77."""
    moments = Moments.of(value, 39.0**2, 0.0, 10_000)
    (low,), (high,) = compute_intervals(moments, 0.95)
    assert low == max(0, compute_score_ends(moments, 0.95)[0][0])
    assert high == pytest.approx(max(39.0, value + 39 * 1.959964), rel=1e-6)


def told(wanted: float, other: float, rows: int, hits: Floats) -> Moments:
    """Counts that so many hits among the rows tell of."""
    gain, number = wanted - other, len(hits)
    base, slope = rows * other * (1 - other) / gain**2, (wanted * (1 - wanted) - other * (1 - other)) / gain**2
    moments = Moments(
        (hits - rows * other) / gain,
        np.full(number, base),
        np.full(number, slope),
        np.full(number, float(rows)),
        0 * hits,
    )
    return replace(moments, chances=np.repeat([[wanted], [other]], number, axis=1))


@pytest.mark.parametrize(("wanted", "other"), [(0.9, 1e-6), (0.5, 1e-5), (0.26, 2e-5), (0.2, 2e-5)])
def test_many_hits_of_very_many_rows_are_told_by_the_score_which_is_then_as_good(wanted: float, other: float) -> None:
    """The law of 100,000 hits and as many counts has ten thousand million numbers; at the switch both rules agree."""
    rows, hits = 400_000, np.arange(MOST_HITS - 8, MOST_HITS + 8, dtype=np.float64)
    assert rows * other < FEW_EXPECTED_HITS
    low, high = compute_intervals(told(wanted, other, rows, hits), 0.95)
    for ends in (low, high):
        steps = np.diff(ends) * (wanted - other)
        assert (steps >= 0).all()
        assert steps.max() <= 3
    many = compute_intervals(told(wanted, other, rows, np.array([60_000.0])), 0.95)
    assert many[0] < 60_000 / wanted < many[1]
