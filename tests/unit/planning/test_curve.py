"""How far off counts of a size are, and which bound makes them exact enough."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from selection import examples
from sfumato._planning.bound_for_error import bound_for_error, find_error_target
from sfumato._planning.mechanism_choice import choose
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato._request.histogram import Histogram
from sfumato.errors import ErrorField, InfeasibleError, SpecError
from sfumato.mechanisms.error_at_count import ErrorAtCount, predict_error

COUNTS = {"flu": 8000, "asthma": 1500, "gout": 400, "lupus": 100}
HELD = np.array([*COUNTS.values()], dtype=np.float64)
BOUND = BreachBound("1/10", "1/3")


def test_means_are_over_values_and_over_records() -> None:
    """Among 10,000 people, 400 of asthma lie in 2,667 rows and 400 of flu in 500: errors sqrt(rows)/400."""
    found = predict_error(HELD, lambda rows, counts: rows, 400)
    errors = [math.sqrt(400 * 10_000 / held) / 400 for held in (8000, 1500, 400)]
    assert found.values == 3
    assert found.evenly == pytest.approx(sum(errors) / 3)
    assert found.by_records == pytest.approx(np.dot(errors, [8000, 1500, 400]) / 9900)


@pytest.mark.parametrize("count", [8001, 0.5, 0])
def test_count_that_nothing_reaches_has_no_error(count: float) -> None:
    assert predict_error(HELD, lambda rows, counts: rows, count) == ErrorAtCount(count, None, None, 0)


def test_error_that_is_not_known_is_none() -> None:
    found = predict_error(HELD, lambda rows, counts: rows * math.nan, 100)
    assert (found.evenly, found.by_records, found.values) == (None, None, 4)


def test_plan_from_counts_alone() -> None:
    """A count of 100 of equally frequent values: both means are that of the closed form, (24 + 81·.) as for questions.

    Five values, odds times 6: p = 5/10, q = 1/10; 100 of 500 rows: [100·.6·.4 + 400·.1·.9] / .25 = 240.
    """
    chosen = choose(dict.fromkeys("abcde", 1000), BreachBound("1/7", "1/2"), mechanism="uniform")
    (found,) = chosen.predict_error_curve([100])
    assert found.evenly == found.by_records == pytest.approx(math.sqrt(240) / 100)
    assert chosen.to_json()["predicted"]["error_curve"][0] == found.to_json()


@given(
    prior=st.fractions("1/200", "1/3", max_denominator=200),
    error=st.fractions("1/100", 1, max_denominator=100),
    size=st.integers(2, 60),
    at=st.integers(10, 1000),
)
@settings(max_examples=examples(40))
def test_no_smaller_posterior_would_do(prior: Fraction, error: Fraction, size: int, at: int) -> None:
    """A step of two digits below it, the error is larger than asked for, or nothing can be planned."""
    histogram = Histogram.of(range(size), [10_000 // (place + 1) for place in range(size)])
    if at > 10_000:
        return
    try:
        found = bound_for_error(histogram, prior, error, at)
    except InfeasibleError:
        assert _error(histogram, BreachBound(prior, "99/100"), at) > error
        return
    assert _error(histogram, found, at) <= error
    assert found.posterior * 100 >= 10**-10
    step = Fraction(10) ** (math.floor(math.log10(found.posterior)) - 1)
    assert (found.posterior / step).denominator == 1
    if found.posterior - step > prior:
        assert _error(histogram, BreachBound(prior, found.posterior - step), at) > error


def _error(histogram: Histogram, bound: BreachBound, at: int) -> float:
    try:
        (found,) = choose(histogram, bound).predict_error_curve([at])
    except InfeasibleError:
        return math.inf
    return math.inf if found.evenly is None else found.evenly


def test_rows_of_a_person_take_a_larger_posterior() -> None:
    alone, shared = (bound_for_error(COUNTS, "1/10", "10%", 1000, rows=rows) for rows in (1, 3))
    assert shared.rows == 3
    assert shared.posterior > alone.posterior


@pytest.mark.parametrize(
    ("prior", "error", "at", "code", "fields"),
    [
        ("1/10", 0, 100, "error-out-of-range", {"given": "0"}),
        ("1/10", "10%", 0, "count-out-of-range", {"given": 0}),
        (0, "10%", 100, "belief-out-of-range", {"argument": "prior", "given": "0"}),
    ],
)
def test_wrong_question_is_refused(
    prior: object, error: object, at: int, code: str, fields: dict[str, ErrorField]
) -> None:
    with refuses(SpecError, code, **fields):
        bound_for_error(COUNTS, prior, error, at)  # type: ignore[arg-type]


def test_unknown_mechanism_is_refused_and_not_taken_for_a_tight_bound() -> None:
    with refuses(SpecError, "unknown-mechanism", mechanism="unifrom"):
        bound_for_error(COUNTS, "1/10", "10%", 100, "unifrom")


def test_question_without_an_answer_says_why() -> None:
    histogram = Histogram.of([*COUNTS], [*COUNTS.values()])
    assert find_error_target(histogram, BOUND, "1/100000", 100).sentence.startswith("No posterior up to 0.99 has")
    assert "no value has 9,000 records" in find_error_target(histogram, BOUND, "10%", 9000).reason


def test_answer_in_words_and_for_machines() -> None:
    found = find_error_target(Histogram.of([*COUNTS], [*COUNTS.values()]), BOUND, "10%", 1000)
    assert found.bound is not None
    assert f"use a posterior of {float(found.bound.posterior):.2g} (with the prior 1/10)" in found.sentence
    assert found.to_json() == {"error": "1/10", "at": 1000, "posterior": str(found.bound.posterior), "reason": None}


def test_curve_of_buckets_is_known_too() -> None:
    chosen = choose(dict.fromkeys("abcdef", 1000), Diversity(3))
    assert (chosen.predict_error_curve([100])[0].evenly or 0) > 0
