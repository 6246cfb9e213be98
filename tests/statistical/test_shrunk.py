"""Shrunk counts are nearer to the truth than unbiased ones, by as much as the documents say, on a made-up table.

Of every condition and value with a true count of 10 to 50, the absolute error of the shrunk count is compared with a
multiple of that of another estimate. Conditions share no records, so their mean differences are independent, and the
mean of them is about normal.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._perturb.perturbation import Slots
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.histogram import Histogram
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response.empirical_bayes import shrink_counts
from statistical.support import ALPHA, keyed_draws

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

SIZE, CONDITIONS = 30, 240
SLOW = 30
"""Of decoys so many conditions are counted."""
SPECS: dict[str, PrivacySpec] = {
    "uniform": BreachBound("1/11", "1/3"),
    "subset": BreachBound("1/11", "1/3"),
    "decoys": DecoyGroups(5),
}


@cache
def truths() -> Numbers:
    """How many records of each condition hold each value: some values are rare, and conditions are related to them."""
    chance = np.random.default_rng(8)
    shares = 1 / np.arange(4, 4 + SIZE)
    lifts = chance.gamma(2.0, 0.5, size=(CONDITIONS, SIZE))
    parts = shares * lifts / (shares * lifts).sum(axis=1, keepdims=True)
    rows = chance.integers(300, 1500, CONDITIONS)
    return np.array([chance.multinomial(number, part) for number, part in zip(rows, parts, strict=True)])


@cache
def tally(name: str) -> tuple[Any, Tally]:
    """A release of the table, counted by condition."""
    mechanism: Any = REGISTRY[name]
    held = truths()
    codes = np.repeat(np.tile(np.arange(SIZE), CONDITIONS), held.ravel())
    condition = np.repeat(np.repeat(np.arange(CONDITIONS), SIZE), held.ravel())
    draws = keyed_draws(5).narrow_to_column("sensitive")
    counts = held.sum(axis=0).tolist()
    plan = mechanism.plan(Histogram.of(range(SIZE), counts), SPECS[name], mechanism.options(), draws)
    slots = Slots(draws, name, counts)(codes, np.zeros(SIZE, dtype=np.int64)) if mechanism.uses_slots else None
    shown = np.asarray(mechanism.perturb(plan, codes, slots, draws, 0).values)
    bits = np.eye(SIZE, dtype=np.int64)[shown] if shown.ndim == 1 else np.unpackbits(shown, axis=1, count=SIZE)
    lines = np.array([bits[condition == number].sum(axis=0, dtype=np.int64) for number in range(CONDITIONS)])
    whole = Tally.of_one(lines.sum(axis=0), len(codes))
    return mechanism.make_design(plan), Tally(lines, held.sum(axis=1)).attach_context(whole, None)


@cache
def counted(name: str, method: str) -> Floats:
    design, counts = tally(name)
    counts = counts.take(np.arange(SLOW if name == "decoys" else CONDITIONS))
    found = REGISTRY[name].estimators[method].count(design, counts, [np.array([place]) for place in range(SIZE)])
    return np.array([each.value for each in found]).T


def is_nearer(one: Floats, other: Floats, factor: float) -> bool:
    """Whether the errors of one are surely below a multiple of those of the other, but for a chance of ALPHA."""
    held = truths()[: len(one)]
    chosen = (held >= 10) & (held <= 50)
    gained = np.where(chosen, factor * np.abs(other - held) - np.abs(one - held), 0.0).sum(axis=1) / chosen.sum(axis=1)
    reach = -NormalDist().inv_cdf(ALPHA) * float(gained.std(ddof=1)) / math.sqrt(len(gained))
    return float(gained.mean()) > reach


@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_shrunk_counts_have_at_most_half_of_the_error_of_unbiased_ones(name: str) -> None:
    assert is_nearer(counted(name, "shrunk"), counted(name, "closed"), 0.5)


@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_neither_counts_without_negative_ones_nor_counts_pulled_a_little_have(name: str) -> None:
    """The power of the test: noise that is thought to be a tenth of what it is leaves most of it."""
    closed = counted(name, "closed")
    design, counts = tally(name)
    (moments,) = REGISTRY[name].estimators["closed"].count(design, counts, [np.array([0])])
    expected = truths().sum(axis=1, keepdims=True) * truths().sum(axis=0) / truths().sum()
    little = shrink_counts(closed, np.repeat(moments.base[:, np.newaxis] / 10, SIZE, axis=1), expected)
    for other in (np.maximum(closed, 0.0), little):
        assert not is_nearer(other, closed, 0.5)


PART = 6
"""The values are taken for those of a compound: of one column with 5 values, and another with so many."""


def count_part(name: str, method: str, *, is_whole: bool) -> Floats:
    """The counts of the first column by condition, or of each condition as if it were a whole release."""
    design, counts = tally(name)
    tallies = [counts]
    if is_whole:
        lines = [counts.take(np.array([number])) for number in range(CONDITIONS)]
        tallies = [line.attach_context(Tally(line.counts, line.rows), None) for line in lines]
    sets, count = list(np.arange(SIZE).reshape(-1, PART)), REGISTRY[name].estimators[method].count
    return np.concatenate([np.array([each.value for each in count(design, one, sets)]).T for one in tallies])


def is_part_nearer(one: Floats, other: Floats) -> bool:
    """Whether the squared errors of a column's counts are surely below the other's, but for a chance of ALPHA."""
    held = truths().reshape(CONDITIONS, -1, PART).sum(axis=2)
    gained = ((other - held) ** 2 - (one - held) ** 2).sum(axis=1)
    reach = -NormalDist().inv_cdf(ALPHA) * float(gained.std(ddof=1)) / math.sqrt(len(gained))
    return float(gained.mean()) > reach


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_shrunk_counts_of_one_column_of_a_compound_are_nearer_than_unbiased_ones(name: str, is_whole: bool) -> None:
    shrunk, closed = (count_part(name, method, is_whole=is_whole) for method in ("shrunk", "closed"))
    assert is_part_nearer(shrunk, closed)
    assert shrunk.sum(axis=1) == pytest.approx(truths().sum(axis=1), rel=0.1)


@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_sums_of_counts_without_negative_ones_are_not(name: str) -> None:
    """The power of the test: together these are more than there are people."""
    without = np.maximum(counted(name, "closed"), 0.0).reshape(CONDITIONS, -1, PART).sum(axis=2)
    assert not is_part_nearer(without, count_part(name, "closed", is_whole=False))
    assert (without.sum(axis=1) > truths().sum(axis=1)).all()


@pytest.mark.parametrize(("method", "factor"), [("fitted", 0.8), ("paper", 1.03)])
def test_shrunk_counts_of_decoys_are_nearer_than_the_default_and_than_the_papers(method: str, factor: float) -> None:
    assert is_nearer(counted("decoys", "shrunk"), counted("decoys", method), factor)
    assert not is_nearer(counted("decoys", method), counted("decoys", "shrunk"), factor)


def test_what_is_no_nearer_is_not_called_so() -> None:
    assert not is_nearer(counted("uniform", "shrunk"), counted("uniform", "shrunk"), 1.0)
