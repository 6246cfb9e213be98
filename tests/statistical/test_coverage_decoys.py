"""Intervals of counts in decoys hold the truth as often as they say, whether or not public columns go with values.

A table has many public columns of two values, drawn apart from each other. Under each column three things are counted:
one value among many selected records, a set of several values among them, and one value among few selected records.
With association, the share of a value's records that a column selects depends on the value. Publishing is done in
memory, under several keys.

Error rate: an assertion about coverage fails with probability ALPHA if coverage lies within LIMITS. Its twins must fail
the same judgement: intervals of half their width.
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
from sfumato._query.estimate import Estimate
from sfumato._records.tally import Tally
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.histogram import Histogram
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._decoys import Plan
from sfumato.mechanisms._decoys.decoy_options import Options
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from sfumato.mechanisms.estimator import Moments
from statistical.covering import Range, assert_covers, assert_covers_too_rarely, halved, holds
from statistical.support import assert_mean, assert_other_mean, keyed_draws

pytestmark = pytest.mark.statistical

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

LEVEL = 0.95
COLUMNS = 45
KEYS = 8
TRIALS = COLUMNS * KEYS
UNRELATED, STRONG = 0.0, 1.5
"""The spread, over the values, of the logarithm of the odds that a record is selected."""

MIXED, RANDOM_TIES = GroupCreation.MIXED, GroupCreation.ANATOMY_RANDOM


class Wanted(StrEnum):
    """What is counted under a column."""

    ONE = "one value"
    SEVERAL = "several values"
    FEW = "one value of few records"


LIMITS: dict[Wanted, Range] = {
    Wanted.ONE: (0.93, 0.975),
    Wanted.SEVERAL: (0.93, 0.975),
    Wanted.FEW: (0.92, 0.995),
}
"""Among few records a count is often nobody, where an interval can miss on one side only."""


@dataclass(frozen=True)
class Setting:
    """A table of so many rows and values, and how its groups are made and its counts estimated."""

    rows: int
    values: int
    group_size: int
    creation: GroupCreation
    method: str
    spread: float = UNRELATED
    frequent: float = 0.0
    """The share of one more value, as a part of the largest possible share."""

    def __str__(self) -> str:
        related = "related" if self.spread else "unrelated"
        more = f", a value in {self.frequent:.0%} of the groups" if self.frequent else ""
        table = f"{self.rows} rows of {self.values} in groups of {self.group_size}{more}"
        return f"{table}, {self.creation.value}, {self.method}, {related}"

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """The first value is eight times as frequent as the last; a frequent one comes before."""
        weights, first = np.geomspace(8, 1, self.values), self.frequent / self.group_size
        shares = (1 - first) * weights / weights.sum()
        return np.append(first, shares) if self.frequent else shares

    def wanted(self, column: int) -> dict[Wanted, Integers]:
        """Another value, and another set of two values up to all but one, for each column."""
        chance, size = np.random.default_rng((7, column)), len(self.shares)
        some = np.sort(chance.choice(size, 2 + column % (size - 2), replace=False))
        return {Wanted.ONE: np.array([column % size]), Wanted.SEVERAL: some, Wanted.FEW: np.array([column % size])}


@dataclass(frozen=True)
class Trial:
    """A count of the table, and what is made of its release."""

    truth: int
    moments: Moments


def table(setting: Setting, key: int) -> tuple[Integers, Booleans, Booleans]:
    """The value of each record, and whether each column (row) selects it: among many, and among few."""
    chance, shares = np.random.default_rng((key, setting.rows, setting.values)), setting.shares
    codes = chance.choice(len(shares), size=setting.rows, p=shares)
    odds = chance.normal(-1, 0.5, size=(COLUMNS, 1)) + setting.spread * chance.normal(size=(COLUMNS, len(shares)))
    words = chance.random((COLUMNS, setting.rows))
    many, few = (words < 1 / (1 + np.exp(-each[:, codes])) for each in (odds, odds - 3.5))
    return codes, many, few


def published(setting: Setting, codes: Integers, key: int) -> tuple[Plan, Integers]:
    """The plan, and what each record shows."""
    counts = np.bincount(codes, minlength=len(setting.shares)).tolist()
    draws, histogram = keyed_draws(key), Histogram.of(range(len(counts)), counts)
    plan = _decoys.plan(histogram, DecoyGroups(setting.group_size), Options(setting.creation), draws)
    slots = Slots(draws, _decoys.NAME, counts)(codes, np.zeros(len(counts), dtype=np.int64))
    shown = _decoys.perturb(plan, codes, slots, draws, 0).values
    assert shown is not None
    return plan, shown.astype(np.int64)


@cache
def trials(setting: Setting) -> dict[Wanted, list[Trial]]:
    found: dict[Wanted, list[Trial]] = {wanted: [] for wanted in Wanted}
    size = len(setting.shares)
    for key in range(KEYS):
        codes, many, few = table(setting, key)
        plan, shown = published(setting, codes, key)
        whole, design = Tally.of_symbols(np.bincount(shown, minlength=size)), _decoys.make_design(plan)
        for column in range(COLUMNS):
            for wanted, places in setting.wanted(column).items():
                is_selected = few[column] if wanted is Wanted.FEW else many[column]
                counts = np.bincount(shown[is_selected], minlength=size)
                tally = Tally.of_symbols(counts).attach_context(whole, None)
                (moments,) = _decoys.MECHANISM.estimators[setting.method].count(design, tally, [places])
                truth = int(np.isin(codes[is_selected], places).sum())
                found[wanted].append(Trial(truth, moments))
    return found


def coverage(
    setting: Setting, wanted: Wanted, claimed: Callable[[Moments], Moments] = lambda moments: moments
) -> float:
    """The share of trials whose interval holds the truth."""
    return float(np.mean([holds(claimed(trial.moments), LEVEL, trial.truth) for trial in trials(setting)[wanted]]))


CLOSED = [Setting(6000, 30, 5, MIXED, "closed"), Setting(10_000, 40, 3, MIXED, "fitted")]
INVERSE = [Setting(6000, 30, 5, RANDOM_TIES, "inverse"), Setting(6000, 12, 3, RANDOM_TIES, "inverse")]
FREQUENT = Setting(6000, 20, 2, MIXED, "fitted", STRONG, 0.8)
"""A value that is in eight of ten groups: its own leaks are not those of the others."""

SETTINGS = [
    CLOSED[0],
    INVERSE[0],
    *(replace(each, spread=STRONG) for each in (*CLOSED, *INVERSE)),
    FREQUENT,
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=str)
every_wanted = pytest.mark.parametrize("wanted", Wanted)


@every_wanted
@every_setting
def test_intervals_cover_whether_or_not_columns_go_with_values(setting: Setting, wanted: Wanted) -> None:
    assert_covers(coverage(setting, wanted), TRIALS, LIMITS[wanted])


@every_wanted
@every_setting
def test_intervals_of_a_quarter_of_the_width_would_be_noticed(setting: Setting, wanted: Wanted) -> None:
    assert_covers_too_rarely(coverage(setting, wanted, lambda moments: halved(halved(moments))), TRIALS, LIMITS[wanted])


def test_the_closed_form_covers_far_too_rarely_beside_a_value_that_is_in_most_groups() -> None:
    """This is the assumption that it states: beside so frequent a value, leaks are not alike even in mixed groups."""
    closed = replace(FREQUENT, method="closed")
    assert_covers_too_rarely(coverage(closed, Wanted.SEVERAL), TRIALS, (0.8, 1.0))


@every_setting
def test_there_are_large_counts_and_small_ones(setting: Setting) -> None:
    large = [trial.truth for trial in trials(setting)[Wanted.ONE]]
    small = [trial.truth for trial in trials(setting)[Wanted.FEW]]
    assert np.median(large) > 10 * max(np.median(small), 1)
    assert np.mean(np.array(small) <= 10) > 0.6


@every_wanted
@every_setting
def test_certain_bounds_hold_always(setting: Setting, wanted: Wanted) -> None:
    for trial in trials(setting)[wanted]:
        assert trial.moments.least <= trial.truth <= trial.moments.most


# ----------------------------------------------------------------------------------------------------- right on average

AVERAGED = 300
FIXED = [Setting(1200, 15, 3, MIXED, "closed", STRONG), Setting(1200, 15, 3, RANDOM_TIES, "inverse", STRONG)]


@pytest.mark.parametrize("setting", FIXED, ids=str)
def test_estimates_are_right_on_average_up_to_a_fraction_of_their_error(setting: Setting) -> None:
    """One table under many keys: the mean of errors, each by its own standard error, is nothing.

    Fails with probability ALPHA if the bias is nothing. The twins would notice a bias of six tenths of it.
    """
    codes, many, _ = table(setting, 0)
    scores = []
    for key in range(AVERAGED):
        plan, shown = published(setting, codes, key)
        whole = Tally.of_symbols(np.bincount(shown, minlength=setting.values))
        column, place = key % COLUMNS, key % setting.values
        counts = np.bincount(shown[many[column]], minlength=setting.values)
        tally = Tally.of_symbols(counts).attach_context(whole, None)
        method = _decoys.MECHANISM.estimators[setting.method]
        (moments,) = method.count(_decoys.make_design(plan), tally, [np.array([place])])
        error = Estimate.of(moments, "", "").standard_error
        assert error is not None
        scores.append((moments.value[0] - int((codes[many[column]] == place).sum())) / error)
    assert_mean(scores, 0, 1)
    assert_other_mean(scores, 0.6, 1)
    assert_other_mean(scores, -0.6, 1)
    assert 0.8 < np.std(scores) < 1.2
