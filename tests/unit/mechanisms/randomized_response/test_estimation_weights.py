"""Sums of z * theta[true value]: every publication of a few records, with the exact law of each record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enumeration import Law, Shown, whole_law
from selection import examples
from sfumato._core.random_draws import Draws
from sfumato._records.tally import Tally
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._randomized_response.estimation_weights import OperatorWeights, SetWeights, Weighing
from sfumato.mechanisms._randomized_response.fine_grain import Design as FineGrainDesign
from sfumato.mechanisms._randomized_response.fine_grain.amplification_order import Direction
from sfumato.mechanisms._randomized_response.small_domain import Merge
from sfumato.mechanisms._randomized_response.small_domain import Options as SmallDomainOptions
from sfumato.mechanisms.estimator import Method, SumPiece, Weights
from sfumato.mechanisms.mechanism import AnyMechanism
from single import Single, counted

Floats = npt.NDArray[np.float64]

DRAWS = Draws.unsafe_test_key("70" * 32)
PIECES = 2


@dataclass(frozen=True)
class Release:
    """A design, and the exact chance of all that a record can show, for each true value."""

    words: str
    name: str
    design: Any
    law: Law

    def __str__(self) -> str:
        return f"{self.name}: {self.words}"

    @property
    def mechanism(self) -> AnyMechanism:
        return REGISTRY[self.name]

    @property
    def method(self) -> Method[Any]:
        return self.mechanism.estimators["closed"]

    @property
    def weighing(self) -> Weighing:
        if self.name == "harmonic":
            made: Weighing = self.design.weighing
            return made
        if self.name != "subset":
            return OperatorWeights(self.design.operator)
        hold, other = float(self.design.hold_probability), float(self.design.other_probability)
        return SetWeights(len(self.law), self.design.subset_size, hold, other)

    def weights(self, theta: Floats) -> Weights:
        """What each record adds, as the method says."""
        assert self.method.compute_weights is not None
        return self.method.compute_weights(self.design, theta)

    def variance(self, theta: Floats) -> Weights:
        """What each record adds to the unbiased estimate of the variance."""
        return self.weighing.weigh_scores(self.weighing.compute_variances(theta))

    def least_variance(self, theta: Floats) -> Weights:
        """What each record adds to the variance at least."""
        least, _ = self.weighing.bound_scores(self.weighing.compute_variances(theta))
        return least

    def total(self, pieces: Sequence[SumPiece]) -> Single:
        assert self.method.total is not None
        return Single.of(self.method.total(self.design, pieces))

    def tally(self, shown: Sequence[Shown], factors: Sequence[float]) -> Tally:
        """What is counted of records that show this, each with its factor; symbol by symbol, or member by member."""
        observation = self.mechanism.make_encoding(self.design)
        if not isinstance(observation, ValueEncoding):
            counts = np.zeros(len(self.law))
            for members, factor in zip(shown, factors, strict=True):
                counts[list(members)] += factor  # type: ignore[arg-type]
            return Tally.of_one(counts, sum(factors))
        places, cells = observation.symbols.tolist(), observation.cells
        symbols: list[Any] = places if cells is None else list(zip(cells.tolist(), places, strict=True))
        counts = np.zeros(len(symbols))
        for symbol, factor in zip(shown, factors, strict=True):
            counts[symbols.index(symbol)] += factor
        return Tally.of_one(counts, sum(factors))


def _planned(words: str, name: str, counts: tuple[int, ...], spec: Any, options: Any = None) -> Release:
    mechanism = REGISTRY[name]
    histogram = Histogram(tuple(range(len(counts))), counts)
    plan = mechanism.plan(histogram, spec, options or mechanism.options(), DRAWS)
    return Release(words, name, mechanism.make_design(plan), whole_law(mechanism, plan, counts))


def _bound(amplification: int | str) -> BreachBound:
    odds = Fraction(amplification)
    return BreachBound("1/2", odds / (1 + odds))


def _never_kept() -> Release:
    """A design in which the second value is never kept, with its law from the definition."""
    kept = (Fraction(1, 2), Fraction(0), Fraction(1, 4), Fraction(1, 3))
    law: Law = [{y: (1 - p) / 4 + p * (x == y) for y in range(4)} for x, p in enumerate(kept)]
    return Release(
        "a value never kept", "fine-grain", FineGrainDesign((0, 1, 2, 3), (None,) * 4, Direction.UPWARD, kept), law
    )


@cache
def releases() -> tuple[Release, ...]:
    bounds = {value: BreachBound("1/10", top) for value, top in enumerate(("1/4", "1/2", "3/10"))}
    return (
        _planned("three values", "uniform", (2, 3, 1), _bound(4)),
        _planned("two values", "uniform", (2, 3), _bound(2)),
        _planned("pairs of five", "subset", (1,) * 5, _bound("3/2")),
        _planned("two of seven", "subset", (1,) * 7, _bound("5/2")),
        _planned("one of two", "subset", (2, 3), _bound(3)),
        _planned(
            "two cells", "small-domain", (2, 2, 1, 1), BreachBound("1/3", "3/4"), SmallDomainOptions(Merge.VARIANCE, 0)
        ),
        _planned("a coin each", "fine-grain", (2, 3, 1, 2), BreachBoundPerValue(bounds)),
        _never_kept(),
        _planned("drawn by their bounds", "harmonic", (2, 3, 1, 2), BreachBoundPerValue(bounds)),
        _planned("all bounded", "harmonic", (2, 3, 1), BreachBoundPerValue({**bounds})),
    )


EVERY = pytest.mark.parametrize("release", releases(), ids=str)


def test_the_cases_are_what_they_say() -> None:
    """Sets of two members, several cells that share values, and coins of different strength."""
    by_words = {release.words: release.design for release in releases()}
    assert by_words["pairs of five"].subset_size > 1
    assert by_words["two of seven"].subset_size > 1
    operator = by_words["two cells"].operator
    assert len(operator.sizes) > 1
    assert len(operator.places) > len(set(operator.places.tolist()))
    assert len(set(by_words["a coin each"].retentions)) > 1


# ------------------------------------------------------------------------------------------------------------ questions


@dataclass(frozen=True)
class Question:
    """A theta for each piece; and for each record its true value, its factor, and its piece."""

    thetas: tuple[Floats, ...]
    records: tuple[tuple[int, float, int], ...]

    @property
    def truth(self) -> float:
        return sum(factor * float(self.thetas[piece][value]) for value, factor, piece in self.records)

    def pieces(self, release: Release, shown: Sequence[Shown], *, is_positive: bool = False) -> list[SumPiece]:
        found = []
        for number, theta in enumerate(self.thetas):
            mine = [place for place, record in enumerate(self.records) if record[2] == number]
            seen, factors = [shown[place] for place in mine], [self.records[place][1] for place in mine]
            first, second = (release.tally(seen, [factor**power for factor in factors]) for power in (1, 2))
            found.append(SumPiece(theta, first, second, is_positive))
        return found

    def publications(self, release: Release) -> Iterator[tuple[float, tuple[Shown, ...]]]:
        """Everything that the records can show together, with its chance."""
        for each in itertools.product(*(release.law[value].items() for value, _, _ in self.records)):
            yield math.prod(float(chance) for _, chance in each), tuple(shown for shown, _ in each)


def numbers() -> st.SearchStrategy[float]:
    return st.integers(-40, 40).map(lambda number: number / 8)


@st.composite
def questions(draw: st.DrawFn, release: Release, factors: st.SearchStrategy[float]) -> Question:
    size = len(release.law)
    thetas = tuple(np.array(draw(st.lists(numbers(), min_size=size, max_size=size))) for _ in range(PIECES))
    record = st.tuples(st.integers(0, size - 1), factors, st.integers(0, PIECES - 1))
    return Question(thetas, tuple(draw(st.lists(record, min_size=1, max_size=2))))


def _added(weights: Sequence[Weights], tallies: Sequence[Tally]) -> float:
    return sum(each.sum_tally(tally) for each, tally in zip(weights, tallies, strict=True))


@EVERY
@settings(max_examples=examples(25))
@given(data=st.data())
def test_a_total_is_right_on_average_and_varies_as_much_as_it_says_on_average(
    release: Release, data: st.DataObject
) -> None:
    question = data.draw(questions(release, numbers()))
    variances = [release.variance(theta) for theta in question.thetas]
    mean = square = claimed = 0.0
    for chance, shown in question.publications(release):
        pieces = question.pieces(release, shown)
        found = release.total(pieces)
        unbiased = _added(variances, [piece.squared_tally for piece in pieces])
        assert found.base is not None
        assert found.base >= unbiased
        mean, square = mean + chance * found.value, square + chance * (found.value - question.truth) ** 2
        claimed += chance * unbiased
    assert mean == pytest.approx(question.truth, abs=1e-8)
    assert claimed == pytest.approx(square, rel=1e-8, abs=1e-6)


@EVERY
@settings(max_examples=examples(25))
@given(data=st.data())
def test_what_a_variance_is_at_least_it_is_whatever_the_records_hold(release: Release, data: st.DataObject) -> None:
    """With one record: the exact variance of its weight, from the law, is never below what its publication claims."""
    question = data.draw(questions(release, numbers()))
    for value, factor, piece in question.records:
        theta = question.thetas[piece]
        weights, least = release.weights(theta), release.least_variance(theta)
        alone = [(float(chance), release.tally([shown], [1.0])) for shown, chance in release.law[value].items()]
        second = sum(chance * weights.sum_tally(tally) ** 2 for chance, tally in alone)
        expected = sum(chance * least.sum_tally(tally) for chance, tally in alone)
        assert factor**2 * expected <= factor**2 * (second - theta[value] ** 2) + 1e-8


@EVERY
@settings(max_examples=examples(25))
@given(data=st.data())
def test_a_total_of_positive_factors_lies_within_its_certain_bounds(release: Release, data: st.DataObject) -> None:
    question = data.draw(questions(release, st.integers(0, 9).map(float)))
    lowest, highest = (
        sum(factor * float(extreme(question.thetas[piece])) for _, factor, piece in question.records)
        for extreme in (np.min, np.max)
    )
    for _, shown in question.publications(release):
        found = release.total(question.pieces(release, shown, is_positive=True))
        assert lowest - 1e-9 <= found.least <= question.truth + 1e-9
        assert question.truth - 1e-9 <= found.most <= highest + 1e-9


@EVERY
def test_bounds_are_infinite_where_a_factor_may_be_negative(release: Release) -> None:
    shown = [next(iter(release.law[0]))]
    first, second = (release.tally(shown, [factor]) for factor in (-2.0, 4.0))
    found = release.total([SumPiece(np.arange(len(release.law)) * 1.0, first, second)])
    assert (found.least, found.most) == (-math.inf, math.inf)
    low, high = found.estimate().interval()
    assert low < found.value < high
    assert math.isfinite(low)
    assert math.isfinite(high)


@EVERY
def test_a_total_over_nothing_is_zero(release: Release) -> None:
    found = release.total([])
    assert (found.value, found.base, found.least, found.most) == (0, 0, 0, 0)


@EVERY
@settings(max_examples=examples(25))
@given(data=st.data())
def test_a_constant_theta_is_the_sum_of_the_factors_without_error(release: Release, data: st.DataObject) -> None:
    question = data.draw(questions(release, numbers()))
    constant = data.draw(numbers())
    theta = np.full(len(release.law), constant)
    for _, shown in question.publications(release):
        factors = [factor for _, factor, _ in question.records]
        first, second = (release.tally(shown, [factor**power for factor in factors]) for power in (1, 2))
        found = release.total([SumPiece(theta, first, second)])
        assert found.value == pytest.approx(constant * sum(factors), abs=1e-9)
        assert found.base == 0


# --------------------------------------------------------------------------------------------------- counts and weights


@EVERY
@settings(max_examples=examples(50))
@given(data=st.data())
def test_a_total_of_zeros_and_ones_is_the_count(release: Release, data: st.DataObject) -> None:
    """In value for every release; in its error where one cell leaves nothing to assume about the other records.

    Outside the range of a count the error of a count is taken at its nearest end; that of a total is at least that.
    """
    size = len(release.law)
    symbols = list({shown: None for row in release.law for shown in row})
    seen = data.draw(st.lists(st.sampled_from(symbols), min_size=1, max_size=60))
    wanted = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1))))
    theta = np.zeros(size)
    theta[wanted] = 1
    weighted = release.tally(seen, [1.0] * len(seen))
    tally = Tally(weighted.counts.astype(np.int64), np.array([len(seen)]))
    total = release.total([SumPiece(theta, tally, tally)])
    (count,) = counted(release.method, release.design, tally, wanted.tolist())
    assert total.value == pytest.approx(count.value, abs=1e-9)
    assert total.least == pytest.approx(count.least)
    assert total.most == pytest.approx(count.most)
    if release.name not in ("uniform", "subset"):
        return
    ours, theirs = (each.estimate().standard_error for each in (total, count))
    assert ours is not None
    assert theirs is not None
    if 0 <= total.value <= len(seen):
        assert ours == pytest.approx(theirs, rel=1e-9)
    else:
        assert ours >= theirs * (1 - 1e-9)


@EVERY
def test_the_weights_of_one_value_are_those_that_are_published(release: Release) -> None:
    written = release.mechanism.estimation_weights.make_weights(release.design)
    assert written is not None
    symbols = {shown for row in release.law for shown in row}
    for value in range(len(release.law)):
        theta = np.zeros(len(release.law))
        theta[value] = 1
        weights = release.weights(theta)
        for shown in symbols:
            assert weights.sum_tally(release.tally([shown], [1.0])) == pytest.approx(_published(written, value, shown))


def _published(written: Any, value: int, shown: Shown) -> float:
    """The weight of a line of weights.parquet: by symbol, by cell, or by whether a set has the value."""
    table = [dict(zip(written, line, strict=True)) for line in zip(*(map(list, written.values())), strict=True)]
    if "weight" in written:
        (line,) = (each for each in table if (each["value"], each["published"]) == (value, shown))
        return float(line["weight"])
    cell, seen = shown if isinstance(shown, tuple) else (0, shown)
    lines = [each for each in table if each["value"] == value and each.get("cell", 0) == cell]
    holds = value in seen if isinstance(seen, frozenset) else value == seen
    return sum(float(line["if_equal"] if holds else line["otherwise"]) for line in lines)


@EVERY
def test_many_thetas_at_once_are_as_one_by_one(release: Release) -> None:
    chance = np.random.default_rng(11)
    thetas = chance.normal(size=(5, len(release.law)))
    spread = release.weighing.compute_variances
    assert spread(thetas) == pytest.approx(np.array([spread(theta) for theta in thetas]))
    for asked in (release.weights, release.weighing.weigh_values, release.variance, release.least_variance):
        together, alone = asked(thetas), [asked(theta) for theta in thetas]
        assert together.entry_weights == pytest.approx(np.array([each.entry_weights for each in alone]))
        assert together.constant == pytest.approx(np.array([each.constant for each in alone]))


def test_methods_that_know_no_error_give_no_totals() -> None:
    """Only what is unbiased, or adds up over values whatever its bias is."""
    has_total = {
        (name, key) for name, each in REGISTRY.items() for key, method in each.estimators.items() if method.total
    }
    assert has_total == {
        *(
            (name, "closed")
            for name in ("uniform", "subset", "levels", "small-domain", "fine-grain", "harmonic", "noisy-counts")
        ),
        *((name, key) for name in ("buckets", "anatomy") for key in ("inverse", "shrunk", "uniform")),
        *(("decoys", key) for key in ("fitted", "closed", "inverse")),
    }
