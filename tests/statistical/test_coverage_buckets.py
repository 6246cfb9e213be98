"""Intervals of counts in buckets hold the truth as often as they say, and where the plain estimate does not.

A table has many public columns of two values, drawn apart from each other; one value is counted under each, so that
trials are independent given how the records were dealt. With association, the share of a value's records that a column
selects depends on the value. Publishing is done in memory: plan, slots, buckets, and a tally of the selected records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._perturb.perturbation import Slots
from sfumato._records.tally import Holdings, Tally
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization.buckets import DealingMethod, Plan
from sfumato.mechanisms.estimator import Moments
from statistical.covering import assert_covers, assert_covers_too_rarely, halved, holds
from statistical.support import keyed_draws

pytestmark = pytest.mark.statistical

LEVEL = 0.95
LIMITS = (0.93, 0.985)
COLUMNS = 60
KEYS = 6
UNRELATED, STRONG = 0.0, 1.5
"""The spread, over the values, of the logarithm of the odds that a record is selected."""


@dataclass(frozen=True)
class Setting:
    """A table of so many rows and values, published by Anatomy."""

    rows: int
    values: int
    ell: int
    spread: float
    deal: DealingMethod = DealingMethod.MIXED

    def __str__(self) -> str:
        related = "related" if self.spread else "unrelated"
        return f"{self.rows} rows of {self.values} values, ell {self.ell}, {related}, {self.deal}"


@dataclass(frozen=True)
class Trial:
    """A count of the table, and what each method makes of its release."""

    truth: int
    uniform: Moments
    inverse: Moments


def table(setting: Setting, chance: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The value of each record, and whether each column (row) selects it; values differ in frequency."""
    weights = np.linspace(2, 1, setting.values)
    codes = chance.choice(setting.values, size=setting.rows, p=weights / weights.sum())
    odds = chance.normal(-1, 0.5, size=(COLUMNS, 1)) + setting.spread * chance.normal(size=(COLUMNS, setting.values))
    return codes, chance.random((COLUMNS, setting.rows)) < 1 / (1 + np.exp(-odds[:, codes]))


def published(plan: Plan, codes: npt.NDArray[np.int64], key: int) -> npt.NDArray[np.int64]:
    """The bucket of each record."""
    draws, size = keyed_draws(key), plan.histogram.domain_size
    slots = Slots(draws, anatomy.NAME, plan.histogram.counts)(codes, np.zeros(size, dtype=np.int64))
    cells = anatomy.MECHANISM.perturb(plan, codes, slots, draws, 0).cells
    assert cells is not None
    return cells


@cache
def trials(setting: Setting) -> list[Trial]:
    found = []
    for key in range(KEYS):
        codes, columns = table(setting, np.random.default_rng((key, setting.rows, setting.ell)))
        counts = np.bincount(codes, minlength=setting.values).tolist()
        histogram = Histogram.of(range(setting.values), counts)
        plan = anatomy.plan(histogram, Diversity(setting.ell), anatomy.Options(setting.deal), keyed_draws(key))
        cells = published(plan, codes, key)
        contents = anatomy.MECHANISM.bucket_table.list_contents(plan)
        assert contents is not None
        ((ids, places, numbers),) = contents.iter_batches(setting.rows)
        holdings = Holdings(ids, places, numbers, setting.values)
        for number, is_selected in enumerate(columns):
            value = number % setting.values
            selected = np.bincount(cells[is_selected], minlength=plan.bucket_count)
            tally, wanted = Tally.of_symbols(selected).attach_context(None, holdings), [np.array([value])]
            methods = (
                anatomy.MECHANISM.estimators[name].count(None, tally, wanted)[0] for name in ("uniform", "inverse")
            )
            found.append(Trial(int((codes[is_selected] == value).sum()), *methods))
    return found


def coverage(setting: Setting, method: str, *, is_halved: bool = False) -> float:
    """The share of trials whose interval holds the truth."""
    found = [(getattr(trial, method), trial.truth) for trial in trials(setting)]
    return float(np.mean([holds(halved(each) if is_halved else each, LEVEL, truth) for each, truth in found]))


def error(setting: Setting, method: str) -> float:
    """The root of the mean squared error."""
    errors = [getattr(trial, method).value[0] - trial.truth for trial in trials(setting)]
    return float(np.sqrt(np.mean(np.square(errors))))


SIZES = [(5000, 8, 3), (8000, 12, 4), (12_000, 10, 5)]
WITHOUT = [Setting(*size, UNRELATED) for size in SIZES]
WITH = [Setting(*size, STRONG) for size in SIZES]
TRIALS = COLUMNS * KEYS


@pytest.mark.parametrize("setting", [*WITHOUT, *WITH], ids=str)
def test_the_inverse_covers_whether_or_not_columns_go_with_values(setting: Setting) -> None:
    assert_covers(coverage(setting, "inverse"), TRIALS, LIMITS)


@pytest.mark.parametrize("setting", [*WITHOUT, *WITH], ids=str)
def test_intervals_of_half_the_width_would_be_noticed(setting: Setting) -> None:
    assert_covers_too_rarely(coverage(setting, "inverse", is_halved=True), TRIALS, LIMITS)


@pytest.mark.parametrize("setting", WITHOUT, ids=str)
def test_uniform_covers_where_columns_do_not_go_with_values(setting: Setting) -> None:
    assert_covers(coverage(setting, "uniform"), TRIALS, (0.93, 0.99))


@pytest.mark.parametrize("setting", WITH, ids=str)
def test_uniform_covers_far_too_rarely_where_columns_go_with_values(setting: Setting) -> None:
    """This is the assumption that it states."""
    assert_covers_too_rarely(coverage(setting, "uniform"), TRIALS, (0.7, 1.0))


@pytest.mark.parametrize("setting", WITH, ids=str)
def test_the_inverse_errs_far_less_than_uniform_where_columns_go_with_values(setting: Setting) -> None:
    assert 2 * error(setting, "inverse") < error(setting, "uniform")


def test_buckets_that_differ_serve_the_inverse_better_than_buckets_that_are_alike() -> None:
    """Dealt in turn, buckets are nearly alike, and tell less; still the intervals hold."""
    mixed = WITH[0]
    in_turn = replace(mixed, deal=DealingMethod.ROUND_ROBIN)
    assert 2 * error(mixed, "inverse") < error(in_turn, "inverse")
    assert_covers(coverage(in_turn, "inverse"), TRIALS, LIMITS)


@pytest.mark.parametrize("setting", [*WITHOUT, *WITH], ids=str)
def test_certain_bounds_hold_always(setting: Setting) -> None:
    for trial in trials(setting):
        for moments in (trial.uniform, trial.inverse):
            assert moments.least <= trial.truth <= moments.most
