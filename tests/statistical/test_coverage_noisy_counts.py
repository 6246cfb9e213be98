"""Intervals of noisy counts hold the truth as often as they say, over releases.

Answers of one release share cells, so they are not independent. Here each trial is a release of its own: all releases
are lines of one table of counts, and a question has one interval in each. An assertion fails with probability ALPHA if
coverage lies within its limits. Each has a twin in which the variance is 30% too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from sfumato import BreachBound, CountQuery, Request, Schema, publish
from sfumato._core.array_types import Counts
from sfumato._records.crowd_lines import CrowdLines, CrowdTable
from sfumato._records.tally import Tally
from sfumato.mechanisms._noisy_counts.clamped_estimation import estimate_counts
from sfumato.mechanisms._noisy_counts.crowd_estimators import CLOSED, MOST_KNOWN_CROWDS
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise
from sfumato.mechanisms._noisy_counts.noisy_counts_mechanism import Design
from sfumato.mechanisms.estimator import Moments
from statistical.covering import Floats, assert_covers, assert_covers_too_rarely, share_held
from statistical.support import LARGEST_SCORE, keyed_draws
from statistical.test_coverage_subset import design_of

pytestmark = pytest.mark.statistical

LEVEL, LIMITS = 0.95, (0.94, 0.98)
RELEASES = 4500
SIZE, RATIO = 12, Fraction(2, 9)
SHARES = np.arange(SIZE, 0, -1) / np.arange(1, SIZE + 1).sum()
CROWD_SIZES = (2, 3, 5, 9, 17, 33)
TOO_SMALL = Fraction(7, 10)


@dataclass(frozen=True)
class Setting:
    """A condition that selects some crowds, and some people outside crowds, and the wanted values."""

    crowds: int
    outside: int
    values: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.crowds} crowds, {self.outside} people outside, {len(self.values)} values"

    @property
    def is_known(self) -> bool:
        """Whether the exact distribution of the noise gives the interval."""
        return not self.outside and self.crowds <= MOST_KNOWN_CROWDS

    @property
    def people(self) -> Counts:
        return np.resize(np.array(CROWD_SIZES), self.crowds)

    @property
    def true_counts(self) -> Counts:
        """The true counts of each crowd, and last those of the people outside."""
        generator = np.random.default_rng(self.crowds)
        return np.array([generator.multinomial(people, SHARES) for people in [*self.people, self.outside]])

    @property
    def truth(self) -> int:
        return int(self.true_counts[:, list(self.values)].sum())


FEW = [Setting(3, 0, (0,)), Setting(8, 0, (5,)), Setting(19, 0, (1, 4, 9))]
MANY = [Setting(40, 0, (0,)), Setting(40, 0, (2, 3, 7, 8, 10))]
MIXED = [Setting(6, 12, (0,)), Setting(30, 8, (1, 4, 9))]
SETTINGS = [*FEW, *MANY, *MIXED]


def make_design() -> Design:
    return Design(FixedSumNoise(SIZE, RATIO), 2, design_of(SIZE, "9/2"))


@cache
def find_wider_noise() -> FixedSumNoise:
    """Noise of which the design would state a variance that is 30% too small."""
    wanted = FixedSumNoise(SIZE, RATIO).variance / TOO_SMALL
    candidates = (FixedSumNoise(SIZE, Fraction(thousandths, 1000)) for thousandths in range(222, 1000))
    return next(noise for noise in candidates if noise.variance >= wanted)


def count_members(setting: Setting) -> Counts:
    """How many sets of the people outside hold each value, for each release; drawn by the definition of the sets."""
    generator, sets = np.random.default_rng(7), make_design().sets
    own = np.repeat(np.arange(SIZE), setting.true_counts[-1])
    order = generator.random((RELEASES, len(own), SIZE))
    holds_own = generator.random((RELEASES, len(own))) < float(sets.hold_probability)
    order[:, np.arange(len(own)), own] = np.where(holds_own, -1, 2)
    limits = np.sort(order, axis=2)[:, :, [sets.subset_size - 1]]
    return (order <= limits).sum(axis=1)


@cache
def estimate(setting: Setting, noise: FixedSumNoise) -> Moments:
    """The estimate of each release, whose noise may be another one than that of the design."""
    design, crowds = make_design(), setting.crowds
    drawn = noise.draw(keyed_draws(crowds).narrow_to_column("disease"), 0, RELEASES * crowds)
    noisy = np.tile(setting.true_counts[:-1], (RELEASES, 1)) + drawn
    people = np.tile(setting.people, RELEASES)
    table = CrowdTable(pa.table({}), people, noisy, estimate_counts(design.noise, people, noisy))
    lines = CrowdLines(np.arange(RELEASES * crowds), np.arange(RELEASES + 1) * crowds, table=table)
    outside = np.full(RELEASES, setting.outside)
    counts = np.column_stack([count_members(setting), outside])
    tally = Tally(counts, outside + int(setting.people.sum()), crowds=lines)
    (moments,) = CLOSED.count(design, tally, [np.array(setting.values)])
    assert (moments.known is not None) == setting.is_known
    return moments


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(setting: Setting) -> None:
    moments = estimate(setting, make_design().noise)
    assert_covers(share_held(moments, LEVEL, setting.truth), RELEASES, LIMITS)


@pytest.mark.parametrize("setting", [*MANY, *MIXED], ids=str)
def test_a_variance_that_is_too_small_would_be_noticed(setting: Setting) -> None:
    moments = estimate(setting, make_design().noise)
    moments = replace(moments, base=moments.base * float(TOO_SMALL))
    assert_covers_too_rarely(share_held(moments, LEVEL, setting.truth), RELEASES, LIMITS)


@pytest.mark.parametrize("setting", FEW[1:], ids=str)
def test_noise_with_a_larger_variance_would_be_noticed(setting: Setting) -> None:
    """The interval of few crowds follows from the distribution of the noise, not from its variance.

    Whole numbers make the interval of three crowds so wide that such noise stays within the limits.
    """
    moments = estimate(setting, find_wider_noise())
    assert_covers_too_rarely(share_held(moments, LEVEL, setting.truth), RELEASES, LIMITS)


# ------------------------------------------------------------------------------------------------------ whole releases


PUBLISHED = 200


def make_people() -> pa.Table:
    """Invented people, of whom some are alone with their public values."""
    generator = np.random.default_rng(3)
    shares = 1 / np.arange(1, 13)
    columns = {
        "age": generator.choice(np.arange(20, 80, 10), 2000),
        "sex": generator.choice(["F", "M"], 2000),
        "town": generator.choice([f"town {place}" for place in range(12)], 2000, p=shares / shares.sum()),
        "disease": generator.choice([f"disease {place:02d}" for place in range(SIZE)], 2000, p=SHARES),
    }
    return pa.table(columns)


def list_questions(table: pa.Table) -> tuple[list[CountQuery], Floats]:
    """Counts of one and of three diseases under one to three public columns, and their true counts."""
    columns = {name: np.array(table.column(name).to_pylist()) for name in table.column_names}
    generator, queries, truths = np.random.default_rng(4), list[CountQuery](), list[float]()
    for record in generator.integers(table.num_rows, size=200).tolist():
        names = generator.choice(["age", "sex", "town"], generator.integers(1, 4), replace=False).tolist()
        where = {name: columns[name][record].item() for name in names}
        values = [f"disease {place:02d}" for place in generator.choice(SIZE, generator.choice([1, 3]), replace=False)]
        is_selected = np.logical_and.reduce([columns[name] == value for name, value in where.items()])
        queries.append(CountQuery(where, values))
        truths.append(float(np.isin(columns["disease"][is_selected], values).sum()))
    return queries, np.array(truths)


@pytest.mark.full
def test_intervals_of_published_counts_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    table = make_people()
    queries, truths = list_questions(table)
    domains = {"disease": [f"disease {place:02d}" for place in range(SIZE)]}
    request = Request(
        table,
        schema=Schema.of("disease", public="*", domains=domains),
        spec=BreachBound("1/10", "1/3"),
        mechanism="noisy-counts",
        accept_disclosing=give_reasons(["age", "sex", "town"]),
        **ALL_ACCEPTED,
    )
    shares = []
    for number in range(PUBLISHED):
        release = publish(request, tmp_path / str(number), unsafe_test_key=f"{number:064x}").release
        low, high = release.count_many(queries).interval(LEVEL)
        shares.append(float(((low <= truths) & (truths <= high)).mean()))
    mean, error = np.mean(shares), np.std(shares, ddof=1) / math.sqrt(PUBLISHED)
    assert LIMITS[0] - LARGEST_SCORE * error <= mean <= LIMITS[1] + LARGEST_SCORE * error
