"""Intervals of counts under coins of different values hold the truth as often as they say.

What the rows that satisfy a condition show is simulated with numpy by the published law: each value has a row of the
transition matrix. The variance of an estimate depends on what the other rows hold, which the estimator has to guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import pytest

from refusals import refuses
from sfumato._core.array_types import Places
from sfumato._query.estimate import Estimate
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato.errors import QueryError
from sfumato.mechanisms._randomized_response import fine_grain
from sfumato.mechanisms._randomized_response.fine_grain import Objective, Options
from sfumato.mechanisms._randomized_response.fine_grain.amplification_order import Direction
from sfumato.mechanisms.estimator import Moments
from statistical.covering import (
    LEVELS,
    MEANS,
    RANGES,
    assert_covers,
    assert_covers_too_rarely,
    halved,
    share_held,
)
from statistical.support import keyed_draws

pytestmark = pytest.mark.statistical

TRIALS = 300
EM_TRIALS = 10
FEW_HITS = 5

SKEWED = (50, 20, 12, 9, 6, 3)
ZIPF = tuple(100_000 // rank for rank in range(1, 31))


def _bounds(limits: str) -> BreachBoundPerValue:
    """A bound for each value with the given amplification."""
    odds = [Fraction(each) for each in limits.split()]
    return BreachBoundPerValue({value: BreachBound("1/2", each / (1 + each)) for value, each in enumerate(odds)})


@cache
def _plan(name: str) -> fine_grain.Plan:
    skewed, zipf = Histogram.of(range(6), SKEWED), Histogram.of(range(30), ZIPF)
    asked = {
        "record": (skewed, _bounds("12 9 7 5 4 3"), Options()),
        "aggregate": (skewed, _bounds("12 9 7 5 4 3"), Options(objective=Objective.AGGREGATE)),
        "both": (skewed, _bounds("12 9 7 5 4 3"), Options(direction=Direction.BOTH)),
        "never kept": (Histogram.of(range(4), [1] * 4), _bounds("3/2 3 19/2 18"), Options()),
        "zipf": (zipf, BreachBoundPerValue.from_tolerance(zipf, 8), Options(objective=Objective.AGGREGATE)),
    }
    return fine_grain.plan(*asked[name], keyed_draws(0))


@dataclass(frozen=True)
class Condition:
    """A plan; how many rows a condition selects, and whether it likes the last value."""

    plan_name: str
    rows: int
    is_last_liked: bool = False

    def __str__(self) -> str:
        return f"{self.plan_name}, {self.rows} rows, {'much of the last' if self.is_last_liked else 'as the table'}"

    @property
    def plan(self) -> fine_grain.Plan:
        return _plan(self.plan_name)

    @cached_property
    def held(self) -> npt.NDArray[np.int64]:
        """How many of the selected rows hold each value; a third of them the last one, if it is liked."""
        shares = self.plan.shares.copy()
        if self.is_last_liked:
            shares *= 2 / 3
            shares[-1] += 1 / 3
        held = np.floor(self.rows * shares).astype(np.int64)
        held[0] += self.rows - held.sum()
        return held

    @property
    def wanted(self) -> list[Places]:
        """Single values, the most and the least protected, and sets of values."""
        size = len(self.plan.keep_numerators)
        lists = [[0], [size // 2], [size - 1], [0, size - 1], [*range(size // 2)]]
        return [np.array(places) for places in lists]

    @cached_property
    def asked(self) -> list[tuple[int, int]]:
        """Which of the wanted sets have a few hits and a few misses, and the truth about them."""
        truths = [(number, int(self.held[places].sum())) for number, places in enumerate(self.wanted)]
        return [(number, truth) for number, truth in truths if FEW_HITS <= truth <= self.rows - FEW_HITS]

    def tallies(self, trials: int, seed: int) -> Tally:
        """What the selected rows may show, a line for each trial."""
        rng, retention = np.random.default_rng(seed), np.array([float(each) for each in self.plan.retentions])
        size = len(retention)
        law = np.tile((1 - retention)[:, None] / size, (1, size)) + np.diag(retention)
        shown = sum(rng.multinomial(count, law[value], size=trials) for value, count in enumerate(self.held))
        return Tally.of_symbols(np.asarray(shown))

    def estimates(self, method: str, trials: int, wanted: list[Places]) -> list[Moments]:
        """For each wanted set, the estimates of all trials."""
        return fine_grain.MECHANISM.estimators[method].count(self.plan.design, self.tallies(trials, seed=1), wanted)


CONDITIONS = [
    Condition("record", 200),
    Condition("record", 5000, is_last_liked=True),
    Condition("aggregate", 50, is_last_liked=True),
    Condition("aggregate", 1000),
    Condition("both", 500, is_last_liked=True),
    Condition("never kept", 200, is_last_liked=True),
    Condition("never kept", 5000),
    Condition("zipf", 1000, is_last_liked=True),
]


@cache
def closed(condition: Condition) -> list[Moments]:
    return condition.estimates("closed", TRIALS, condition.wanted)


@cache
def covered(condition: Condition, level: float) -> list[float]:
    """How often the intervals of each asked set hold the truth."""
    return [share_held(closed(condition)[number], level, truth) for number, truth in condition.asked]


def mean_share_of_half_the_width(condition: Condition, found: list[Moments], level: float) -> float:
    """How often the asked sets would be covered if all intervals had half their width."""
    shares = [share_held(halved(found[number]), level, truth) for number, truth in condition.asked]
    return float(np.mean(shares))


def test_the_plans_of_these_tests_can_be_counted_with_and_have_different_coins() -> None:
    for condition in CONDITIONS:
        fine_grain.check_countable(condition.plan)
        assert len(set(condition.plan.keep_numerators)) > 1
    assert _plan("never kept").keep_numerators[0] == 0
    assert _plan("both").keep_numerators[-1] == 0


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(condition: Condition) -> None:
    for level in LEVELS:
        for share in covered(condition, level):
            assert_covers(share, TRIALS, RANGES[level])


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_hold_the_truth_as_often_as_they_say_on_average(level: float) -> None:
    """Counts of several values from one release depend on each other: as many trials as releases are counted."""
    shares = [share for condition in CONDITIONS for share in covered(condition, level)]
    assert_covers(float(np.mean(shares)), TRIALS * len(CONDITIONS), MEANS[level])


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_intervals_of_half_the_width_would_be_noticed(condition: Condition) -> None:
    """On average over the wanted sets: a rare value, whose intervals are cut at zero, loses few of them."""
    for level in LEVELS:
        share = mean_share_of_half_the_width(condition, closed(condition), level)
        assert_covers_too_rarely(share, TRIALS, RANGES[level])


def test_iterative_bayes_errs_no_more_than_the_unbiased_estimate() -> None:
    """With coins that keep one record in five and 1000 rows, noise is large: measured, a quarter less error."""
    condition = Condition("zipf", 1000)
    wanted = [np.array([value]) for value in range(len(ZIPF))]
    errors = {
        method: np.mean(
            [
                np.abs(found.value - truth)
                for found, truth in zip(condition.estimates(method, EM_TRIALS, wanted), condition.held, strict=True)
            ]
        )
        for method in ("closed", "em")
    }
    assert errors["em"] < 0.85 * errors["closed"]


def test_iterative_bayes_tells_no_error_and_so_has_no_interval() -> None:
    condition = Condition("record", 200)
    (moments,) = condition.estimates("em", 1, [np.array([0])])
    estimate = Estimate.of(moments, "method", "assumption")
    assert estimate.standard_error is None
    with refuses(QueryError, "method-without-errors", operation="interval"):
        estimate.interval(0.8)
