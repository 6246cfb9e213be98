"""Intervals of counts in buckets of several sizes, with caps from the shares of the table, hold the truth as often.

A table has many public columns of two values, drawn apart from each other. Under each column one value is counted, and
one set of several values; so trials of the same kind are independent given how the records were dealt. With
association, the share of a value's records that a column selects depends on the value. Publishing is done in memory.

Error rate: an assertion about coverage fails with probability ALPHA if coverage lies within LIMITS. Its twins must fail
the same judgement: intervals of half and of twice their width, and the error of the plain estimate around the inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._perturb.perturbation import Slots
from sfumato._records.tally import Holdings, Tally
from sfumato._request.bucket_and_decoy_requirements import ShareCap
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._bucketization.buckets import DealingMethod, Options, Plan, Sizes
from sfumato.mechanisms.estimator import Moments
from statistical.covering import assert_covers, assert_covers_too_rarely, halved, holds
from statistical.support import keyed_draws

pytestmark = pytest.mark.statistical

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

LEVEL = 0.95
LIMITS = (0.93, 0.97)
COLUMNS = 120
KEYS = 8
TRIALS = COLUMNS * KEYS
UNRELATED, STRONG = 0.0, 1.5
"""The spread, over the values, of the logarithm of the odds that a record is selected."""


class Wanted(StrEnum):
    """What is counted under a column."""

    ONE = "one value"
    SEVERAL = "several values"


@dataclass(frozen=True)
class Setting:
    """A table of so many rows and values, published with caps of factor * share + offset."""

    rows: int
    values: int
    factor: str
    offset: str
    options: Options
    spread: float = UNRELATED

    def __str__(self) -> str:
        related = "related" if self.spread else "unrelated"
        caps = f"caps {self.factor} share + {self.offset}"
        return f"{self.rows} rows of {self.values}, {caps}, {self.options.sizes}, {self.options.dealing}, {related}"

    def wanted(self, column: int) -> list[Integers]:
        """Another value, and another set of two values up to all but one, for each column."""
        chance = np.random.default_rng((7, column))
        size = 2 + column % (self.values - 2)
        return [np.array([column % self.values]), np.sort(chance.choice(self.values, size, replace=False))]


@dataclass(frozen=True)
class Trial:
    """A count of the table, and what each method makes of its release."""

    truth: int
    uniform: Moments
    inverse: Moments
    shrunk: Moments


def table(setting: Setting, key: int) -> tuple[Integers, Booleans]:
    """The value of each record, and whether each column (row) selects it; the first value is eight times the last."""
    chance = np.random.default_rng((key, setting.rows, setting.values))
    weights = np.geomspace(8, 1, setting.values)
    codes = chance.choice(setting.values, size=setting.rows, p=weights / weights.sum())
    odds = chance.normal(-1, 0.5, size=(COLUMNS, 1)) + setting.spread * chance.normal(size=(COLUMNS, setting.values))
    return codes, chance.random((COLUMNS, setting.rows)) < 1 / (1 + np.exp(-odds[:, codes]))


def planned(setting: Setting, codes: Integers, key: int) -> Plan:
    counts = np.bincount(codes, minlength=setting.values).tolist()
    histogram = Histogram.of(range(setting.values), counts)
    caps = ShareCap.from_shares(histogram, setting.factor, setting.offset)
    return buckets.plan(histogram, caps, setting.options, keyed_draws(key))


def published(plan: Plan, codes: Integers, key: int) -> Integers:
    """The bucket of each record."""
    draws, size = keyed_draws(key), plan.histogram.domain_size
    slots = Slots(draws, buckets.NAME, plan.histogram.counts)(codes, np.zeros(size, dtype=np.int64))
    cells = buckets.perturb(plan, codes, slots, draws, 0).cells
    assert cells is not None
    return cells


@cache
def trials(setting: Setting) -> dict[Wanted, list[Trial]]:
    found: dict[Wanted, list[Trial]] = {wanted: [] for wanted in Wanted}
    for key in range(KEYS):
        codes, columns = table(setting, key)
        plan = planned(setting, codes, key)
        cells = published(plan, codes, key)
        contents = buckets.MECHANISM.bucket_table.list_contents(plan)
        assert contents is not None
        ((ids, places, numbers),) = contents.iter_batches(setting.rows)
        holdings = Holdings(ids, places, numbers, setting.values)
        for column, is_selected in enumerate(columns):
            selected = np.bincount(cells[is_selected], minlength=plan.bucket_count)
            tally, sets = Tally.of_symbols(selected).attach_context(None, holdings), setting.wanted(column)
            names = ("uniform", "inverse", "shrunk")
            methods = [buckets.MECHANISM.estimators[name].count(None, tally, sets) for name in names]
            held = np.bincount(codes[is_selected], minlength=setting.values)
            for wanted, places, *moments in zip(Wanted, sets, *methods, strict=True):
                found[wanted].append(Trial(int(held[places].sum()), *moments))
    return found


def coverage(setting: Setting, wanted: Wanted, claimed: Callable[[Trial], Moments]) -> float:
    """The share of trials whose interval holds the truth."""
    return float(np.mean([holds(claimed(trial), LEVEL, trial.truth) for trial in trials(setting)[wanted]]))


def inverse(trial: Trial) -> Moments:
    return trial.inverse


def uniform(trial: Trial) -> Moments:
    return trial.uniform


def shrunk(trial: Trial) -> Moments:
    return trial.shrunk


def doubled(moments: Moments) -> Moments:
    """An estimate that claims twice its standard error."""
    assert not np.isnan(moments.base).any()
    return replace(moments, base=moments.base * 4)


def plain_error(trial: Trial) -> Moments:
    """The inverse, with the error that the plain estimate has."""
    return replace(trial.inverse, base=trial.uniform.base)


def error(setting: Setting, wanted: Wanted, method: Callable[[Trial], Moments]) -> float:
    """The root of the mean squared error."""
    errors = [method(trial).value[0] - trial.truth for trial in trials(setting)[wanted]]
    return float(np.sqrt(np.mean(np.square(errors))))


WITHOUT = [
    Setting(4000, 8, "3/2", "1/20", Options(Sizes.OPTIMAL)),
    Setting(5000, 10, "2", "1/50", Options(Sizes.TWO)),
    Setting(5000, 10, "6", "1/50", Options(Sizes.OPTIMAL, min_bucket=1)),
]
"""The last caps end at 1 for the frequent values, and 2,000 records are in the clear."""
WITH = [replace(setting, spread=STRONG) for setting in WITHOUT]
IN_TURN = replace(WITH[0], options=Options(Sizes.MULTI, dealing=DealingMethod.ROUND_ROBIN))

every_setting = pytest.mark.parametrize("setting", [*WITHOUT, *WITH, IN_TURN], ids=str)
unrelated = pytest.mark.parametrize("setting", WITHOUT, ids=str)
related = pytest.mark.parametrize("setting", [*WITH, IN_TURN], ids=str)
every_wanted = pytest.mark.parametrize("wanted", Wanted)


@every_setting
def test_buckets_have_several_sizes_and_caps_that_differ(setting: Setting) -> None:
    """Otherwise Anatomy would have been tried again."""
    plan = planned(setting, table(setting, 0)[0], 0)
    assert len(plan.choice.assignment.setting.pairs) > 1
    assert len(set(plan.caps)) > 1
    assert bool(plan.dealing.clear_records) == (setting.factor == "6")


@every_wanted
@every_setting
def test_the_inverse_covers_whether_or_not_columns_go_with_values(setting: Setting, wanted: Wanted) -> None:
    assert_covers(coverage(setting, wanted, inverse), TRIALS, LIMITS)


@every_wanted
@every_setting
def test_intervals_of_half_the_width_would_be_noticed(setting: Setting, wanted: Wanted) -> None:
    assert_covers_too_rarely(coverage(setting, wanted, lambda trial: halved(trial.inverse)), TRIALS, LIMITS)


@every_wanted
@pytest.mark.parametrize("setting", [*WITHOUT[:2], *WITH[:2], IN_TURN], ids=str)
def test_intervals_of_twice_the_width_would_be_noticed(setting: Setting, wanted: Wanted) -> None:
    with pytest.raises(AssertionError, match="too often"):
        assert_covers(coverage(setting, wanted, lambda trial: doubled(trial.inverse)), TRIALS, LIMITS)


@every_wanted
@every_setting
def test_the_error_of_the_plain_estimate_would_be_too_small_for_the_inverse(setting: Setting, wanted: Wanted) -> None:
    assert_covers_too_rarely(coverage(setting, wanted, plain_error), TRIALS, LIMITS)


@every_wanted
@unrelated
def test_uniform_covers_where_columns_do_not_go_with_values(setting: Setting, wanted: Wanted) -> None:
    assert_covers(coverage(setting, wanted, uniform), TRIALS, LIMITS)


@every_wanted
@unrelated
def test_uniform_intervals_of_another_width_would_be_noticed(setting: Setting, wanted: Wanted) -> None:
    assert_covers_too_rarely(coverage(setting, wanted, lambda trial: halved(trial.uniform)), TRIALS, LIMITS)
    with pytest.raises(AssertionError, match="too often"):
        assert_covers(coverage(setting, wanted, lambda trial: doubled(trial.uniform)), TRIALS, LIMITS)


@every_wanted
@related
def test_uniform_covers_far_too_rarely_where_columns_go_with_values(setting: Setting, wanted: Wanted) -> None:
    """This is the assumption that it states."""
    assert_covers_too_rarely(coverage(setting, wanted, uniform), TRIALS, (0.7, 1.0))


@every_wanted
@pytest.mark.parametrize("setting", WITH[:2], ids=str)
def test_the_inverse_errs_far_less_than_uniform_where_columns_go_with_values(setting: Setting, wanted: Wanted) -> None:
    """Where many records are in the clear, the plain estimate has less to be misled about."""
    assert 2 * error(setting, wanted, inverse) < error(setting, wanted, uniform)


@every_wanted
@unrelated
def test_uniform_errs_less_than_the_inverse_where_columns_do_not_go_with_values(
    setting: Setting, wanted: Wanted
) -> None:
    """What the inverse pays for assuming nothing."""
    assert error(setting, wanted, uniform) < error(setting, wanted, inverse)


@every_wanted
@every_setting
def test_shrunk_errs_little_more_than_the_better_of_both_at_most(setting: Setting, wanted: Wanted) -> None:
    better = min(error(setting, wanted, uniform), error(setting, wanted, inverse))
    assert error(setting, wanted, shrunk) < 1.25 * better


@every_wanted
@every_setting
def test_certain_bounds_hold_always(setting: Setting, wanted: Wanted) -> None:
    for trial in trials(setting)[wanted]:
        for moments in (trial.uniform, trial.inverse):
            assert moments.least <= trial.truth <= moments.most
