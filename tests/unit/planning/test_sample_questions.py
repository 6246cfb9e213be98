"""Questions that people ask: about which value, with which error, and why there is none."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core.array_types import Floats
from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._planning.predicted_error import AMONG_SHARES, FREQUENCIES, QuestionPrediction, predict_questions
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato._request.histogram import Histogram

DRAWS = Draws.unsafe_test_key("07" * 32)


def asked(counts: Sequence[int], spread: float = 1.0) -> dict[tuple[str, str], QuestionPrediction]:
    """The questions about values x0, x1, ... by share and part, with a variance of so much a row."""
    histogram = Histogram.of([f"x{number}" for number in range(len(counts))], counts)
    found = predict_questions(histogram, lambda rows, counts: spread * rows, "toy")
    return {(each.share, each.among_share): each for each in found}


def test_questions_are_about_the_values_whose_shares_are_nearest() -> None:
    """Of 10,000: 13% is nearer to 10% than 7% is, by its ratio; of two values with 1% the first is asked about."""
    found = asked([7500, 1300, 700, 100, 100, 290, 9, 1])
    assert [found[share, "1"].value for share in FREQUENCIES] == ["x1", "x3", "x6"]
    assert [found[share, "1"].count for share in FREQUENCIES] == [1300, 100, 9]
    assert [found[share, "0.1"].count for share in ("0.1", "0.01")] == [130, 10]
    assert found["0.1", "1"].counted_text == "'x1' (13% of all people)"
    assert found["0.1", "0.1"].counted_text == "'x1' (13% of all people), counted in a tenth of the people"


def test_error_is_a_standard_error_by_the_true_count() -> None:
    """10,000 rows of variance 4 scatter by 200, and 1,000 by 63.2: 200 of 1300, 63.2 of 130."""
    found = asked([7500, 1300, 700, 100, 100, 290, 9, 1], spread=4.0)
    assert found["0.1", "1"].relative_error == 200 / 1300
    assert found["0.1", "0.1"].relative_error == pytest.approx(math.sqrt(4000) / 130)
    assert found["0.1", "1"].reason is None


def test_question_without_an_error_says_why() -> None:
    found = asked([600, 394, 6])
    assert found["0.1", "1"].value == "x1"
    assert found["0.01", "1"].value == "x2"
    assert found["0.01", "0.1"].reason == "fewer than one person has 'x2', counted in a tenth of the people"
    assert found["0.001", "1"].reason == "there is no value that 0.03% to 0.3% of all people have"
    assert found["0.001", "1"].counted_text == "a value that 0.03% to 0.3% of all people have"
    assert asked([10] * 100)["0.1", "1"].reason == "there is no value that 3% or more of all people have"
    for spread in (math.inf, math.nan):
        assert asked([600, 394, 6], spread)["0.1", "1"].reason == "toy predicts no error for such a count"


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=30).filter(any))
def test_every_question_has_an_error_or_a_reason(counts: list[int]) -> None:
    found = asked(counts)
    assert found.keys() == {(share, among) for share in FREQUENCIES for among in AMONG_SHARES}
    for each in found.values():
        assert (each.relative_error is None) != (each.reason is None)
        assert each.relative_error is None or (each.count or 0) >= 1
        assert json.loads(json.dumps(each.to_json(), allow_nan=False)) == each.to_json()
        assert each.to_json()["question"] == f"how many have {each.counted_text}"


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=30))
def test_every_value_that_is_not_very_rare_is_near_one_share(counts: list[int]) -> None:
    shares = np.array(counts) / sum(counts)
    near = [(shares >= least) & (shares < most) for least, most, _ in FREQUENCIES.values()]
    assert (sum(each.astype(int) for each in near) == (shares >= 0.0003)).all()


def test_infinite_variance_of_nobody_is_no_warning() -> None:
    def infinite(rows: Floats, counts: Floats) -> Floats:
        return np.full(len(rows), np.inf) * counts

    found = predict_questions(Histogram.of(["a", "b"], [100, 0]), infinite, "toy")
    assert found[0].reason == "toy predicts no error for such a count"


def test_error_of_one_coin_is_that_of_the_closed_form() -> None:
    """Five values, odds times 6: p = 5/10, q = 1/10. A count of 100 in 1,000 rows has the variance
    [100 (p+q)(1-p-q) + 900 q (1-q)] / p² = (24 + 81) / 0.25 = 420.
    """
    histogram = Histogram.of("abcde", [500, 200, 150, 100, 50])
    chosen = choose(histogram, BreachBound("1/7", "1/2"), DRAWS, "uniform")
    first = chosen.question_predictions[0]
    assert (first.value, first.count) == ("d", 100)
    assert first.relative_error == pytest.approx(math.sqrt(420) / 100)


def test_counts_that_are_published_are_exact() -> None:
    chosen = choose(Histogram.of("abcde", [50, 50, 40, 40, 20]), Diversity(3), DRAWS)
    assert chosen.question_predictions[0].relative_error == 0
    assert (chosen.question_predictions[3].relative_error or 0) > 0
