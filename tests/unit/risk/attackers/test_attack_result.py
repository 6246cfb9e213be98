"""What is believed, added up: right guesses, the mean, the worst, and how many are beyond a limit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato._risk.attackers.attack_result import Attack, BeliefSum, BeliefSummary, compute_wilson_interval

LIMITS = (Fraction(1, 2), Fraction(1, 3), Fraction(1))


def row(parts: Sequence[int]) -> list[Fraction]:
    return [Fraction(part, sum(parts)) for part in parts]


def slow_sum(beliefs: Sequence[Sequence[Fraction]], held: Sequence[int]) -> list[Fraction]:
    """By definition, in exact numbers: right, mean, worst, above, well above."""
    own = [row[value] for row, value in zip(beliefs, held, strict=True)]
    right = sum(
        Fraction(1, row.count(max(row))) for row, value in zip(beliefs, held, strict=True) if row[value] == max(row)
    )
    above = sum(believed > LIMITS[value] for believed, value in zip(own, held, strict=True))
    lifted = [Fraction(11, 10) * limit / (1 - limit + Fraction(11, 10) * limit) for limit in LIMITS]
    well_above = sum(believed > lifted[value] for believed, value in zip(own, held, strict=True))
    many = len(held)
    return [Fraction(right) / many, sum(own) / many, max(own), Fraction(above, many), Fraction(well_above, many)]


RECORDS = st.lists(
    st.tuples(st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any), st.integers(0, 2)),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.integers(0, 20))
def test_beliefs_are_added_up_by_definition_however_they_come(records: list[tuple[list[int], int]], cut: int) -> None:
    beliefs, held = [row(parts) for parts, _ in records], [value for _, value in records]
    added = BeliefSum(np.array([float(limit) for limit in LIMITS]))
    numbers = np.array([[float(each) for each in parts] for parts in beliefs])
    for part in (slice(0, cut), slice(cut, None)):
        added.add(numbers[part], np.array(held)[part])
    found = added.summarize()
    expected = slow_sum(beliefs, held)
    assert [
        found.success,
        found.mean_belief,
        found.worst_belief,
        found.share_above,
        found.share_well_above,
    ] == pytest.approx([float(each) for each in expected])
    assert found.interval == compute_wilson_interval(found.success, len(held))


def test_of_equally_likely_values_one_is_guessed() -> None:
    added = BeliefSum(np.ones(4))
    added.add(np.full((8, 4), 0.25), np.arange(8) % 4)
    assert added.summarize().success == 1 / 4


def test_belief_at_its_limit_is_not_above_it_whatever_floating_point_numbers_do() -> None:
    added = BeliefSum(np.array([1 / 3, 1 / 3, 1 / 3]))
    added.add(np.full((1, 3), 0.1 + 0.2 + 1 / 30), np.array([0]))
    assert added.summarize().share_above == 0


def test_value_that_is_not_protected_is_never_beyond() -> None:
    added = BeliefSum(np.ones(2))
    added.add(np.array([[1.0, 0.0]]), np.array([0]))
    found = added.summarize()
    assert (found.worst_belief, found.share_above, found.share_well_above) == (1, 0, 0)


def test_well_above_is_a_tenth_of_the_odds() -> None:
    """Odds of 1 may become 1.1: a belief of 11/21."""
    for belief, is_well in ((0.52, False), (11 / 21 + 1e-6, True)):
        added = BeliefSum(np.array([0.5, 0.5]))
        added.add(np.array([[belief, 1 - belief]]), np.array([0]))
        assert (added.summarize().share_above, added.summarize().share_well_above) == (1, is_well)


def test_nobody_is_believed_nothing_of() -> None:
    found = BeliefSum(np.array([0.5])).summarize()
    assert (found.success, found.mean_belief, found.worst_belief, found.share_above, found.share_well_above) == (
        0,
        0,
        0,
        0,
        0,
    )


def test_attack_is_json_of_plain_numbers() -> None:
    belief = BeliefSummary(0.5, (0.4, 0.6), 0.3, 0.9, 0.1, 0.05)
    written = json.loads(json.dumps(Attack("one column", ("sex",), "disease", 10, belief, None).to_json()))
    numbers = {"right": 0.5, "right_low": 0.4, "right_high": 0.6, "mean_belief": 0.3, "worst_belief": 0.9}
    assert written == {
        "who": "one column",
        "told": ["sex"],
        "about": "disease",
        "records": 10,
        "without": {**numbers, "above": 0.1, "well_above": 0.05},
        "with_release": None,
    }
    assert Attack("one column", ("sex",), "disease", 10, belief, belief).to_json()["with_release"] == belief.to_json()


def test_what_is_more_than_the_columns_is_written_too() -> None:
    belief = BeliefSummary(0.5, (0.4, 0.6), 0.3, 0.9, 0.1, 0.05)
    attack = Attack("others", ("sex",), "disease", 10, belief, None, "sex and others", belief, 7)
    written = attack.to_json()
    assert (written["knows"], written["control"], written["seed"]) == ("sex and others", belief.to_json(), 7)
    assert [Attack("one column", told, "disease", 1, belief, None).knowledge for told in ((), ("a",), ("a", "b"))] == [
        "the frequencies of values",
        "a",
        "all 2 public columns",
    ]


def test_surprise_is_counted_in_standard_deviations_of_what_is_expected() -> None:
    """Four people, of whom one value is believed with 0.8: 3.2 are expected to be right, with a variance of 0.64."""
    for right in range(5):
        added = BeliefSum(np.ones(2))
        added.add(np.tile([0.8, 0.2], (4, 1)), np.array([0] * right + [1] * (4 - right)))
        found = added.summarize()
        assert found.expected_success == pytest.approx(0.8)
        assert found.surprise == pytest.approx((right - 3.2) / 0.8)
    added = BeliefSum(np.ones(2))
    added.add(np.eye(2), np.array([0, 1]))
    assert added.summarize().surprise == 0


# ------------------------------------------------------------------------------------------------------------- interval


def coverage(records: int, share: float, errors: float) -> float:
    """How likely the interval holds the share, exactly: over all numbers of right guesses that there can be."""
    chances = stats.binom.pmf(np.arange(records + 1), records, share)
    ends = [compute_wilson_interval(right / records, records, errors) for right in range(records + 1)]
    return float(sum(chance for chance, (low, high) in zip(chances, ends, strict=True) if low <= share <= high))


@pytest.mark.parametrize("records", [20, 200, 1000])
def test_interval_holds_the_share_as_often_as_it_says_on_average(records: int) -> None:
    """Wilson's interval is 95% on average over shares, and for no share from 5% to 95% below 92%."""
    found = [coverage(records, share, 1.959963984540054) for share in np.linspace(0.05, 0.95, 61)]
    assert np.mean(found) == pytest.approx(0.95, abs=0.01)
    assert min(found) > 0.92


def test_interval_of_fewer_errors_holds_the_share_more_rarely() -> None:
    """The twin: 1.64 standard errors are 90%."""
    assert np.mean([coverage(200, share, 1.6448536) for share in np.linspace(0.05, 0.95, 61)]) == pytest.approx(
        0.90, abs=0.01
    )


@given(st.floats(0, 1), st.integers(1, 10**6))
def test_interval_is_within_0_and_1_and_around_the_share(share: float, records: int) -> None:
    low, high = compute_wilson_interval(share, records)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1


def test_interval_solves_the_score_equation() -> None:
    """At both ends the share is 1.96 standard errors away, by the standard error that the end has."""
    share, records = 0.3, 50
    for end in compute_wilson_interval(share, records):
        assert abs(share - end) / math.sqrt(end * (1 - end) / records) == pytest.approx(1.959963984540054)
