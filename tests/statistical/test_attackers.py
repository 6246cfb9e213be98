"""Attackers are right as often as they believe to be, and learn nothing from what has nothing to do with the value."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sfumato._core.array_types import Codes, Floats
from sfumato._planning.mechanism_choice import choose
from sfumato._records.column_codes import CodedColumn, SensitiveColumns
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers.attack_result import compute_wilson_interval
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.known_column_beliefs import Knowledge
from sfumato._risk.attackers.planned_exposure import ONE_COLUMN, attack
from sfumato._risk.attackers.planned_values import draw_published_values
from sfumato.mechanisms import REGISTRY
from statistical.support import LARGEST_SCORE, assert_mean, assert_other_mean, keyed_draws

pytestmark = pytest.mark.statistical

RECORDS = 20_000
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
SIZE = len(SHARES)


def _held(seed: int) -> Codes:
    return np.random.default_rng(seed).choice(SIZE, RECORDS, p=SHARES)


def _telling(held: Codes, how_much: float, seed: int) -> Codes:
    """A column that has the value of so many of the records, and of the others any."""
    chance = np.random.default_rng(seed)
    return np.where(chance.random(RECORDS) < how_much, held, chance.integers(0, SIZE, RECORDS))


def _target(held: Codes, *columns: Codes) -> Target:
    return Target("y", held, np.ones(SIZE), dict(zip("xabcd", columns, strict=False)))


# ------------------------------------------------------------------------------------------------- what tells nothing


def _right(column: Codes, held: Codes) -> float:
    return attack(ONE_COLUMN, ("x",), _target(held, column), lambda rows: None).without_release.success


@pytest.mark.parametrize("values", [1, 2, 30, 1000, 10_000])
def test_column_that_has_nothing_to_do_with_the_value_is_no_better_than_a_blind_guess(values: int) -> None:
    """Beyond the interval of the right guesses, but for a chance below 1e-9."""
    held = _held(1)
    blind = float(np.bincount(held).max()) / RECORDS
    right = _right(np.random.default_rng(2).integers(0, values, RECORDS), held)
    assert compute_wilson_interval(right, RECORDS, LARGEST_SCORE)[0] <= blind


@pytest.mark.parametrize("how_much", [0.5, 0.9])
def test_column_that_has_something_to_do_with_it_is_better(how_much: float) -> None:
    """The twin."""
    held = _held(1)
    right = _right(_telling(held, how_much, 3), held)
    assert compute_wilson_interval(right, RECORDS, LARGEST_SCORE)[0] > float(np.bincount(held).max()) / RECORDS


# ---------------------------------------------------------------------------------------------------------- calibration

TOLERANCE = 0.02
"""How far the share that is right may be from what is believed on average, beside the error of a few records."""
LEAST_RECORDS = 300


def _miscalibration(beliefs: Floats, held: Codes) -> float:
    """The largest distance between what is believed and what is right, beyond the error of the records it is seen on.

    Each record and each value gives a belief; those of each tenth are looked at together.
    """
    believed, is_right = beliefs.ravel(), (held[:, None] == np.arange(SIZE)).ravel()
    worst = 0.0
    for tenth in range(10):
        here = (believed >= tenth / 10) & (believed < (tenth + 1) / 10 + (tenth == 9))
        if here.sum() >= LEAST_RECORDS:
            share, mean = float(is_right[here].mean()), float(believed[here].mean())
            error = np.sqrt(mean * (1 - mean) / (here.sum() / SIZE))  # the beliefs of one record go together
            worst = max(worst, abs(share - mean) - LARGEST_SCORE * float(error))
    return worst


def _columns(kind: str, held: Codes) -> list[Codes]:
    one = _telling(held, 0.5, 4)
    if kind == "one column":
        return [one]
    if kind == "the same five times":
        return [one] * 5
    if kind == "nearly the same five times":
        chance = np.random.default_rng(5)
        return [np.where(chance.random(RECORDS) < 0.9, one, chance.integers(0, SIZE, RECORDS)) for _ in range(5)]
    return [_telling(held, 0.3, 10 + number) for number in range(5)]


KINDS = ["one column", "the same five times", "nearly the same five times", "five that go their own ways"]


@pytest.mark.parametrize("kind", KINDS)
def test_beliefs_are_right_as_often_as_they_are_believed(kind: str) -> None:
    """Fails with a probability below 1e-8 if beliefs are off by no more than the tolerance."""
    held = _held(6)
    columns = _columns(kind, held)
    beliefs = _target(held, *columns).learn("xabcd"[: len(columns)]).compute_beliefs(np.arange(RECORDS))
    assert _miscalibration(beliefs, held) <= TOLERANCE


@pytest.mark.parametrize("kind", ["the same five times", "nearly the same five times"])
def test_columns_that_repeat_each_other_would_be_believed_too_much_without_a_temper(kind: str) -> None:
    """The twin."""
    held = _held(6)
    learned = _target(held, *_columns(kind, held)).learn("xabcd")
    assert learned.temper < 0.5
    whole = Knowledge(learned.shares, learned.true_codes, learned.evidence, temper=1.0)
    assert _miscalibration(whole.compute_beliefs(np.arange(RECORDS)), held) > 2 * TOLERANCE


# ----------------------------------------------------------------------------------------------------- with the release


@pytest.mark.parametrize("posterior", ["1/2", "3/4", "9/10"])
def test_right_guesses_by_uniform_are_those_of_the_closed_form(posterior: str) -> None:
    """Sum over y of max over x of f(x) P(y|x), where everybody is alone; ten per cent off would be noticed."""
    held = _held(7)
    counts = np.bincount(held, minlength=SIZE)
    values = [f"value {number}" for number in range(SIZE)]
    chosen = choose(Histogram.of(values, counts.tolist()), BreachBound("1/5", posterior), keyed_draws(1), "uniform")
    sensitive = SensitiveColumns.of_column(CodedColumn("y", pa.array(values), False))
    seen = draw_published_values(chosen, sensitive, held, keyed_draws(2))

    def likely(rows: Codes) -> Floats:
        (found,) = REGISTRY["uniform"].attack_model.compute_likelihoods(
            chosen.plan, type(seen)(np.asarray(seen.values)[rows])
        )
        return found

    found = attack(ONE_COLUMN, ("x",), _target(held, np.arange(RECORDS)), likely)
    retention = Fraction(chosen.plan.retention)
    law = np.array([[float((1 - retention) / SIZE + retention * (x == y)) for y in range(SIZE)] for x in range(SIZE)])
    expected = float((counts[:, None] / RECORDS * law).max(axis=0).sum())
    assert found.with_release is not None
    guessed = np.arange(RECORDS) < round(found.with_release.success * RECORDS)
    deviation = float(np.sqrt(expected * (1 - expected)))
    assert_mean(guessed.tolist(), expected, deviation)
    for factor in (0.9, 1.1):
        assert_other_mean(guessed.tolist(), min(expected * factor, 1.0), deviation)
