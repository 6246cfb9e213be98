"""The harmonic operator does what its design says: one coin, and redraws that do not look at the original."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato._query.estimate import Estimate
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from statistical.covering import LEVELS, RANGES, assert_covers, assert_covers_too_rarely, halved, share_held
from statistical.support import (
    assert_different,
    assert_same_distribution,
    counts_of,
    joint_counts_of,
    keyed_draws,
    product_law,
)

pytestmark = pytest.mark.statistical

RECORDS = 200_000
TRIALS = 300


def _plan(limits: str) -> harmonic.Plan:
    """A plan with the given amplifications, one for each value; `-` where there is none."""
    bounds = {
        value: BreachBound("1/2", Fraction(limit) / (1 + Fraction(limit)))
        for value, limit in enumerate(limits.split())
        if limit != "-"
    }
    size = len(limits.split())
    histogram = Histogram.of(range(size), [1] * size)
    return harmonic.plan(histogram, BreachBoundPerValue(bounds), harmonic.Options(), keyed_draws(0))


PLANS = {
    "several": _plan("12 9 7 5 4 3"),
    "one free": _plan("5 - 3"),
    "too fine": _plan("1000003/70001 1000033/110017 999983/17011 3"),
}


def _law(plan: harmonic.Plan, original: int, factor: Fraction = Fraction(1)) -> list[Fraction]:
    """The law of an original value, with the retention multiplied by a factor."""
    made = plan.design
    kept = factor * made.retention
    return [
        (1 - kept) / (1 - made.retention) * swap + kept * (value == original) for value, swap in enumerate(made.swaps)
    ]


def _shown(plan: harmonic.Plan, original: int) -> np.ndarray:
    codes = np.full(RECORDS, original, dtype=np.uint8)
    return harmonic.perturb(plan, codes, None, keyed_draws(original).narrow_to_column("disease"), 0).values.astype(
        np.int64
    )


@pytest.mark.parametrize("name", PLANS)
def test_published_values_follow_the_law_of_their_original_and_no_other(name: str) -> None:
    plan = PLANS[name]
    size = plan.histogram.domain_size
    for original in range(size):
        observed = counts_of(_shown(plan, original), size)
        assert_same_distribution(observed, _law(plan, original))
        for factor in (Fraction(9, 10), Fraction(11, 10)):
            assert_different(observed, _law(plan, original, factor))
        assert_different(observed, _law(plan, (original + 1) % size))


def test_neighbouring_rows_and_columns_are_independent() -> None:
    plan, size = PLANS["several"], 6
    shown = harmonic.perturb(plan, np.full(RECORDS, 4, dtype=np.uint8), None, keyed_draws(21), 0).values
    law = product_law(_law(plan, 4), _law(plan, 4))
    assert_same_distribution(joint_counts_of(shown[::2], shown[1::2], size), law)
    other = harmonic.perturb(
        plan, np.full(RECORDS, 4, dtype=np.uint8), None, keyed_draws(21).narrow_to_column("b"), 0
    ).values
    assert_same_distribution(joint_counts_of(shown, other, size), law)
    assert_different(joint_counts_of(shown, shown, size), law)


@pytest.mark.parametrize(("name", "rows"), [("several", 300), ("several", 4000), ("one free", 200)])
def test_intervals_hold_the_truth_as_often_as_they_say(name: str, rows: int) -> None:
    """A third of the rows have the last value; the score interval is judged on average over the wanted sets."""
    plan, rng = PLANS[name], np.random.default_rng(rows)
    size = plan.histogram.domain_size
    held = np.full(size, rows * 2 // 3 // size)
    held[-1] += rows - held.sum()
    laws = [np.array([float(each) for each in _law(plan, value)]) for value in range(size)]
    tally = Tally.of_symbols(
        np.asarray(sum(rng.multinomial(held[value], laws[value], size=TRIALS) for value in range(size)))
    )
    wanted = [np.array([0]), np.array([size - 1]), np.arange(size // 2 + 1)]
    found = harmonic.METHODS["closed"].count(plan.design, tally, wanted)
    for level in LEVELS:
        for moments, places in zip(found, wanted, strict=True):
            truth = int(held[places].sum())
            assert_covers(share_held(moments, level, truth), TRIALS, RANGES[level])
        narrow = [share_held(halved(each), level, int(held[at].sum())) for each, at in zip(found, wanted, strict=True)]
        assert_covers_too_rarely(float(np.mean(narrow)), TRIALS, RANGES[level])


def test_a_count_has_the_error_that_it_says() -> None:
    """The standard error of an estimate is that of many: within a seventh, at 300 trials."""
    plan, rng, held = PLANS["several"], np.random.default_rng(5), np.array([500, 100, 300, 50, 0, 50])
    laws = [np.array([float(each) for each in _law(plan, value)]) for value in range(6)]
    shown = np.asarray(sum(rng.multinomial(held[value], laws[value], size=TRIALS) for value in range(6)))
    (moments,) = harmonic.METHODS["closed"].count(plan.design, Tally.of_symbols(shown), [np.array([2])])
    told = Estimate.of(moments.take(np.array([0])), "method", "assumption").standard_error
    assert told is not None
    assert abs(np.mean(moments.value) - 300) < 5 * told / np.sqrt(TRIALS)
    assert np.std(moments.value) == pytest.approx(told, rel=1 / 7)
