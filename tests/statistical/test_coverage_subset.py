"""Intervals of counts in released sets hold the truth as often as they say.

The law of the number of wanted members is exact: each record adds a number of its own, with one law if its value is
wanted and with another if not, so a product of generating functions gives the chances of all outcomes. Coverage is
computed, not sampled: the sum of the chances of those whose interval holds the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import pytest
from scipy import stats

from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response.estimators import DEFAULT
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.estimator import Moments
from single import Single
from statistical.covering import LEVELS, MEANS, RANGES, Floats, halved, holds
from statistical.support import keyed_draws

pytestmark = pytest.mark.statistical

NEGLIGIBLE = 1e-12


@cache
def design_of(domain_size: int, amplification: str) -> subset.Design:
    odds = Fraction(amplification)
    histogram = Histogram.of(range(domain_size), [1] * domain_size)
    plan = subset.plan(histogram, BreachBound("1/2", odds / (1 + odds)), subset.Options(), keyed_draws(0))
    return subset.make_design(plan)


def members_law(design: subset.Design, values: int, *, is_wanted: bool) -> Floats:
    """The law of how many of the wanted values the set of one record holds, by whether its own value is wanted."""
    others, members = len(design.domain) - 1, design.subset_size
    hold, numbers = float(design.hold_probability), np.arange(values + 1)
    marked = values - is_wanted
    beside = stats.hypergeom(others, marked, members - 1).pmf(numbers - is_wanted)
    return np.asarray(hold * beside + (1 - hold) * stats.hypergeom(others, marked, members).pmf(numbers))


@dataclass(frozen=True)
class Setting:
    """How many of the rows hold one of so many wanted values, out of how many, at which odds."""

    domain_size: int
    amplification: str
    values: int
    rows: int
    truth: int

    def __str__(self) -> str:
        return f"{self.truth} of {self.rows} rows hold {self.values} of {self.domain_size} values"

    @property
    def design(self) -> subset.Design:
        return design_of(self.domain_size, self.amplification)

    @cached_property
    def law(self) -> Floats:
        """The chance of each number of wanted members in all sets."""
        size = self.rows * self.values + 1
        wanted, other = (
            np.fft.rfft(members_law(self.design, self.values, is_wanted=each), size) for each in (True, False)
        )
        return np.fft.irfft(wanted**self.truth * other ** (self.rows - self.truth), size)

    @cached_property
    def outcomes(self) -> list[tuple[float, Moments]]:
        """What can happen, with its chance: what the estimator makes of it."""
        return [(float(self.law[hits]), self.moments(int(hits))) for hits in np.flatnonzero(self.law > NEGLIGIBLE)]

    def moments(self, hits: int) -> Moments:
        """The estimate from so many wanted members; how they are spread over the wanted values does not matter."""
        counts = np.zeros(self.domain_size, dtype=np.int64)
        counts[: self.values] = np.bincount(np.arange(hits) % self.values, minlength=self.values)
        tally = Tally.of_one(counts, self.rows)
        (found,) = subset.MECHANISM.estimators[DEFAULT].count(self.design, tally, [np.arange(self.values)])
        return found

    def coverage(self, level: float, *, is_halved: bool = False) -> float:
        """The chance that the interval holds the truth."""
        return sum(
            chance
            for chance, moments in self.outcomes
            if holds(halved(moments) if is_halved else moments, level, self.truth)
        )


DESIGNS = [(2, "3"), (14, "3"), (50, "12/5")]
SETTINGS = [
    Setting(domain_size, amplification, values, rows, round(rows * share))
    for domain_size, amplification in DESIGNS
    for values in sorted({1, min(3, domain_size - 1), domain_size // 2})
    for rows in (100, 1000)
    for share in (0.05, 0.2, 0.6)
]
LARGE = [
    Setting(50, "12/5", 1, 20_000, 1000),
    Setting(717, "12/5", 1, 2000, 100),
    Setting(717, "12/5", 20, 2000, 600),
]
ENDS = [
    Setting(domain_size, amplification, values, 500, truth)
    for domain_size, amplification in DESIGNS
    for values in sorted({1, domain_size // 2})
    for truth in (0, 500)
]


def test_the_law_of_the_members_has_the_mean_of_the_design() -> None:
    design = design_of(50, "12/5")
    hold, other = float(design.hold_probability), float(design.other_probability)
    for values in (1, 7, 49):
        for is_wanted in (True, False):
            law = members_law(design, values, is_wanted=is_wanted)
            assert law.sum() == pytest.approx(1)
            mean = hold + (values - 1) * other if is_wanted else values * other
            assert law @ np.arange(values + 1) == pytest.approx(mean)


def test_estimates_are_right_on_average_and_scatter_as_much_as_they_say() -> None:
    for setting in (SETTINGS[0], SETTINGS[-1], LARGE[2]):
        chances, moments = zip(*setting.outcomes, strict=True)
        values = np.array([each.value[0] for each in moments])
        assert values @ chances == pytest.approx(setting.truth, rel=1e-6)
        assert (values - setting.truth) ** 2 @ chances == pytest.approx(
            Single.of(moments[0]).variance_at(setting.truth), rel=1e-6
        )


@pytest.mark.parametrize("setting", [*SETTINGS, *LARGE], ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(setting: Setting) -> None:
    """Where one standard error, which is always within, is most of the range of a count, little is left to miss."""
    error = math.sqrt(Single.of(setting.outcomes[0][1]).variance_at(setting.truth))
    for level in LEVELS:
        low, high = RANGES[level]
        assert low <= setting.coverage(level) <= (1 if error > setting.rows / 2 else high)


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_hold_the_truth_as_often_as_they_say_on_average(level: float) -> None:
    low, high = MEANS[level]
    assert low <= float(np.mean([setting.coverage(level) for setting in SETTINGS])) <= high


@pytest.mark.parametrize("setting", [*SETTINGS, *LARGE], ids=str)
def test_intervals_of_half_the_width_would_be_noticed(setting: Setting) -> None:
    for level in LEVELS:
        assert setting.coverage(level, is_halved=True) < RANGES[level][0]


@pytest.mark.parametrize("setting", ENDS, ids=str)
def test_where_nobody_or_everybody_has_a_value_intervals_miss_on_one_side_only(setting: Setting) -> None:
    """An interval at 95% then misses half of the time that it is allowed to miss."""
    for level in LEVELS:
        assert setting.coverage(level) == pytest.approx((1 + level) / 2, abs=0.025)


def test_intervals_of_few_rows_do_not_cover_much_too_rarely() -> None:
    for domain_size, amplification in DESIGNS:
        for truth in (1, 4, 10):
            setting = Setting(domain_size, amplification, 1, 20, truth)
            assert all(setting.coverage(level) >= RANGES[level][0] - 0.02 for level in LEVELS)
