"""Intervals of counts in released cells hold the truth as often as they say.

A condition on public columns selects some records of each value. They are dealt to the cells at random, as all records
of their value are, and perturbed there by the published law; this is simulated with numpy, many times for each
condition. Only the conditions differ in what they select: all values as the table has them, or one of them more often.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import pytest

from refusals import refuses
from sfumato._core.array_types import Places
from sfumato._query.estimate import Estimate
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.errors import QueryError
from sfumato.mechanisms._randomized_response import small_domain
from sfumato.mechanisms._randomized_response.estimators import BIAS_NOTE, PLUG_IN_NOTE
from sfumato.mechanisms._randomized_response.perturbation_operators import Operator
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

Numbers = npt.NDArray[np.int64]

TRIALS = 400
GLS_TRIALS = 200
EM_TRIALS = 6
FEW_HITS = 5

EXAMPLE = tuple(1000 * count for count in (12, 8, 6, 5, 4, 3, 1, 1, 1, 1))
# Like the occupations of a census: each value is 93% as frequent as the one before.
OCCUPATIONS = tuple(round(22_500 * 0.9266**place) for place in range(50))
DEGREES = tuple(round(24_000 * 0.8**place) for place in range(14))


@cache
def plan_of(counts: tuple[int, ...], prior: str, posterior: str, *, is_public: bool = False) -> small_domain.Plan:
    histogram, bound = Histogram.of(range(len(counts)), counts), BreachBound(prior, posterior)
    return small_domain.plan(histogram, bound, small_domain.Options(publish_shares=is_public), keyed_draws(0))


@dataclass(frozen=True)
class Condition:
    """A table and what is asked of it; how many rows a condition selects, and which value it likes."""

    counts: tuple[int, ...]
    prior: str
    posterior: str
    rows: int
    liked: int | None = None

    def __str__(self) -> str:
        liked = "as the table" if self.liked is None else f"much of {self.liked}"
        return f"{len(self.counts)} values to {self.posterior}, {self.rows} rows, {liked}"

    def make_design(self, *, is_public: bool = False) -> small_domain.Design:
        """What is published, with or without the counts of the cells."""
        return plan_of(self.counts, self.prior, self.posterior, is_public=is_public).design

    @property
    def operator(self) -> Operator:
        return self.make_design().operator

    @cached_property
    def held(self) -> Numbers:
        """How many of the selected rows hold each value; a fifth of them the liked one."""
        shares = np.array(self.counts) / sum(self.counts)
        if self.liked is not None:
            shares = 0.8 * shares
            shares[self.liked] += 0.2
        held = np.floor(self.rows * shares).astype(np.int64)
        held[0] += self.rows - held.sum()
        return held

    @property
    def wanted(self) -> list[Places]:
        """Single values, frequent and rare, and sets of values."""
        size = len(self.counts)
        lists = [[0], [size // 2], [size - 1], [0, size // 2, size - 1], [*range(size // 2)], [*range(size - 3, size)]]
        return [np.array(places) for places in lists]

    @cached_property
    def asked(self) -> list[tuple[int, int]]:
        """Which of the wanted sets have a few hits and a few misses, and the truth about them."""
        truths = [(number, int(self.held[places].sum())) for number, places in enumerate(self.wanted)]
        return [(number, truth) for number, truth in truths if FEW_HITS <= truth <= self.rows - FEW_HITS]

    def tallies(self, trials: int, seed: int) -> list[Tally]:
        """What the selected rows may show, and all rows of the same release."""
        rng, operator = np.random.default_rng(seed), self.operator
        plan = plan_of(self.counts, self.prior, self.posterior)
        planned = np.array([cell.counts for cell in plan.cells])
        dealt = np.zeros((trials, len(operator.places)), dtype=np.int64)
        for place, count in enumerate(self.held):
            entries = np.flatnonzero(operator.places == place)
            cells = operator.cells[entries]
            dealt[:, entries] = rng.multivariate_hypergeometric(planned[cells, place], count, size=trials)
        shown = perturbed(operator, dealt, rng)
        others = perturbed(operator, planned[operator.cells, operator.places] - dealt, rng)
        pairs = zip(shown, map(Tally.of_symbols, shown + others), strict=True)
        return [Tally.of_one(counts, self.rows).attach_context(whole, None) for counts, whole in pairs]

    def estimates(self, method: str, trials: int, *, is_public: bool = False, seed: int = 1) -> list[Moments]:
        """For each wanted set, the estimates of all trials."""
        design, wanted = self.make_design(is_public=is_public), self.wanted
        count = small_domain.MECHANISM.estimators[method].count
        found = [count(design, tally, wanted) for tally in self.tallies(trials, seed)]
        return [Moments.concatenate(each) for each in zip(*found, strict=True)]


def perturbed(operator: Operator, held: Numbers, rng: np.random.Generator) -> Numbers:
    """Keep each record by the coin of its cell, or draw from the values of the cell; a row for each trial."""
    shown = rng.binomial(held, operator.retention)
    redrawn = held - shown
    for cell, size in enumerate(operator.sizes):
        mine = operator.cells == cell
        shown[:, mine] += rng.multinomial(redrawn[:, mine].sum(axis=1), np.full(size, 1 / size))
    return np.asarray(shown)


CONDITIONS = [
    *(Condition(EXAMPLE, "1/3", "2/3", rows, liked) for rows in (200, 2000) for liked in (None, 0, 5)),
    *(Condition(OCCUPATIONS, "1/13", "1/3", rows, liked) for rows in (1000, 10_000) for liked in (None, 25)),
    *(Condition(OCCUPATIONS, "1/13", "1/6", rows, liked) for rows, liked in ((1000, 0), (10_000, None), (10_000, 25))),
]


@cache
def closed(condition: Condition) -> list[Moments]:
    return condition.estimates("closed", TRIALS)


@cache
def covered(condition: Condition, level: float) -> list[float]:
    """How often the intervals of each asked set hold the truth."""
    return [share_held(closed(condition)[number], level, truth) for number, truth in condition.asked]


def mean_share_of_half_the_width(condition: Condition, found: list[Moments], level: float) -> float:
    """How often the asked sets would be covered if all intervals had half their width."""
    shares = [share_held(halved(found[number]), level, truth) for number, truth in condition.asked]
    return float(np.mean(shares))


def test_the_plans_of_these_tests_have_several_cells() -> None:
    assert len({(each.counts, each.posterior): each for each in CONDITIONS}) == 3
    assert all(len(each.make_design().cells) > 3 for each in CONDITIONS)


# ------------------------------------------------------------------------------------------------ the unbiased estimate


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


def test_a_value_that_no_selected_row_holds_is_rarely_counted_away_from_zero() -> None:
    condition = Condition(OCCUPATIONS, "1/13", "1/3", 50)
    assert condition.held[-1] == 0
    assert_covers(share_held(condition.estimates("closed", TRIALS)[2], 0.95, 0), TRIALS, (0.92, 0.99))


# ------------------------------------------------------------------------------------------- generalised least squares


@cache
def least_squares(condition: Condition, is_public: bool) -> list[Moments]:
    return condition.estimates("gls", GLS_TRIALS, is_public=is_public)


GLS_CONDITIONS = [
    Condition(EXAMPLE, "1/3", "2/3", 500),
    Condition(EXAMPLE, "1/3", "2/3", 1000, 5),
    Condition(DEGREES, "1/4", "2/5", 2000, 7),
]
every_gls_condition = pytest.mark.parametrize("condition", GLS_CONDITIONS, ids=str)


@every_gls_condition
def test_least_squares_intervals_hold_the_truth_nearly_as_often_as_they_say(condition: Condition) -> None:
    """Normal intervals with weights from the same release: they may lose two points more."""
    for number, truth in condition.asked:
        for level in LEVELS:
            low, high = RANGES[level]
            share = share_held(least_squares(condition, is_public=True)[number], level, truth)
            assert_covers(share, GLS_TRIALS, (low - 0.02, high))


def test_least_squares_tell_no_error_where_shares_are_estimated() -> None:
    """Estimated shares taken for known were seen to cover 61% at a level of 95%."""
    condition, method = GLS_CONDITIONS[0], small_domain.MECHANISM.estimators["gls"]
    (moments,) = method.count(condition.make_design(), condition.tallies(1, seed=4)[0], [np.array([0])])
    assert np.isnan(moments.base).tolist() == [True]


@every_gls_condition
def test_least_squares_intervals_of_half_the_width_would_be_noticed(condition: Condition) -> None:
    for level in (0.8, 0.95):  # at 99%, the misses of 200 trials are too few to be sure
        low, high = RANGES[level]
        share = mean_share_of_half_the_width(condition, least_squares(condition, is_public=True), level)
        assert_covers_too_rarely(share, GLS_TRIALS, (low - 0.02, high))


def deviations(condition: Condition, found: list[Moments]) -> list[float]:
    """How far estimates lie from the truth, as a root of the mean square, for each wanted set that is asked."""
    return [float(np.sqrt(np.mean((found[number].value - truth) ** 2))) for number, truth in condition.asked]


@pytest.mark.parametrize("condition", GLS_CONDITIONS, ids=str)
def test_least_squares_is_never_much_worse_and_somewhere_better_than_the_unbiased_estimate(
    condition: Condition,
) -> None:
    plain = deviations(condition, condition.estimates("closed", GLS_TRIALS))
    for is_public in (True, False):
        ratios = np.divide(deviations(condition, least_squares(condition, is_public)), plain)
        assert ratios.max() < 1.03
        assert ratios.min() < 0.85


# ------------------------------------------------------------------------------------------------------ iterative Bayes


@cache
def mean_errors(method: str, *, is_public: bool = False) -> float:
    """The mean distance from the truth over all values, where noise is large: 5000 rows, 50 values, odds times 2.4."""
    condition = Condition(OCCUPATIONS, "1/13", "1/6", 5000)
    wanted = [np.array([place]) for place in range(len(OCCUPATIONS))]
    count, design = small_domain.MECHANISM.estimators[method].count, condition.make_design(is_public=is_public)
    tallies = condition.tallies(EM_TRIALS, seed=2)
    found = [[moments.value[0] for moments in count(design, tally, wanted)] for tally in tallies]
    return float(np.abs(np.array(found) - condition.held).mean())


@pytest.mark.parametrize("is_public", [True, False], ids=["public shares", "estimated shares"])
def test_iterative_bayes_errs_less_where_the_noise_is_large(is_public: bool) -> None:
    """Measured: 22% less than the unbiased estimate with public shares, 19% with estimated ones."""
    assert mean_errors("em", is_public=is_public) < 0.9 * mean_errors("closed")


def test_iterative_bayes_tells_no_error_and_so_has_no_interval() -> None:
    condition = Condition(EXAMPLE, "1/3", "2/3", 500)
    method = small_domain.MECHANISM.estimators["em"]
    (moments,) = method.count(condition.make_design(), condition.tallies(1, seed=3)[0], [np.array([0])])
    estimate = Estimate.of(moments, method.label, method.assumption, method.note)
    assert estimate.standard_error is None
    with refuses(QueryError, "method-without-errors", operation="interval"):
        estimate.interval()


def test_methods_that_are_biased_say_so() -> None:
    notes = {name: method.note for name, method in small_domain.MECHANISM.estimators.items()}
    assert notes == {"closed": None, "gls": PLUG_IN_NOTE, "em": BIAS_NOTE}
    assert [name for name, method in small_domain.MECHANISM.estimators.items() if method.needs_whole] == ["gls", "em"]
    assert all(method.label and method.assumption for method in small_domain.MECHANISM.estimators.values())
