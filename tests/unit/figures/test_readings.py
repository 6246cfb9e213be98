"""What figures say of the numbers at hand: exact sentences, and what plans, attacks and estimates give them."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figure_examples import EXAMPLES
from selection import examples
from sfumato import Answer, BreachBound, Estimate, ShareCap, choose
from sfumato._figures import (
    AnswerRow,
    AttackSuccess,
    BeliefBound,
    BoundCost,
    BucketComposition,
    ClassSizeCurve,
    ColumnExposure,
    ErrorCurve,
    EstimateWithTruth,
    Figure,
    KnownOthersCurve,
    TradeOff,
    TradeOffCurve,
    draw_attack_scenarios,
    draw_bucket_composition,
    draw_cost_per_value,
    draw_error_by_count,
    draw_exposure_by_column,
    draw_forest_plot,
    draw_known_others,
    draw_posterior_by_prior,
    draw_risk_utility,
    draw_uniqueness,
    list_answer_rows,
    list_costs,
    make_answer_rows,
)
from sfumato._profile.equivalence_classes import ClassSizeShares
from sfumato._query.estimate import Estimates
from sfumato._risk.attackers.attack_result import Attack, BeliefSummary
from sfumato.mechanisms.estimator import Moments

READINGS = {
    "1-error-by-count": "With subset, a count of 1,000 has a standard error of 14%; "
    "from counts of about 1,800 on, the standard error is at most 10%.",
    "2-attackers-ladder": "An attacker who knows all public columns guesses the value of 20% of people correctly "
    "without the release, and of 24% with the release (uniform).",
    "3-risk-utility": "Of the settings shown, subset with 1/3 has the smallest error for a gain of at most "
    "10 points (14%, gain 10 points).",
    "4-posterior-by-prior": "Confidence in a value can rise from 7.7% to at most 33.4%; confidence in "
    "hypertension can rise from 30% to at most 72%.",
    "5-exposure-by-column": "Knowing Education alone puts 2.7% of records above the bound; the release "
    "adds no records.",
    "6-uniqueness": "5% of records are unique on the public columns after bins (15% before bins).",
    "7-forest": "6 of 9 intervals exclude zero, at 95%; 1 unreliable answer.",
    "8-against-truth": "95.0% of 5,000 intervals cover the truth (95% expected).",
    "9-cost-per-value": "HIV's bound costs most: loosening it to 1/4 saves 11% of the error.",
    "10-bucket-composition": "9,812 buckets of 4 records, and 2 other sizes; no value exceeds its cap, "
    "and epilepsy comes closest: 33% of the 88 buckets of 9, with a cap of 33.4%.",
    "11-corruption": "An attacker who knows the values of 20% of the other people guesses correctly for 31% of "
    "people (subset; unchanged), 48% of people (anatomy) and 34% of people (decoys).",
}


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_reading_says_what_the_example_shows(name: str) -> None:
    assert EXAMPLES[name](760).reading == READINGS[name]


def test_truth_table_adds_up_to_its_reading() -> None:
    rows = EXAMPLES["8-against-truth"](760).table.rows
    number = sum(row[1] for row in rows)
    assert number == 5000
    assert sum(row[1] * row[2] for row in rows) / number == pytest.approx(0.95, abs=0.0005)


@pytest.mark.parametrize(
    ("errors", "end"),
    [
        (((100, 0.05), (1000, 0.01)), "every size shown has at most 10%."),
        (((100, 0.5), (1000, 0.2)), "no size shown has 10% or less."),
        (((100, 0.05), (1000, 0.2)), "no size shown has 10% or less."),  # it rises again: nothing holds "from on"
        (((100, 1.0), (10_000, 0.01)), "from counts of about 1,000 on, the standard error is at most 10%."),
    ],
)
def test_error_is_within_the_target_from_where_it_stays_there(
    errors: tuple[tuple[float, float], ...], end: str
) -> None:
    assert draw_error_by_count([ErrorCurve("a", errors)]).reading.endswith(end)


def test_readings_say_no_more_than_is_known() -> None:
    told = {
        "the share with the release is unknown": draw_attack_scenarios([AttackSuccess("sex", "a", 0.2, None)]),
        "the release adds no records": draw_exposure_by_column([ColumnExposure("Education", 0.027, 0.027)]),
        "with the release is unknown": draw_exposure_by_column([ColumnExposure("Education", 0.027, None)]),
        "About 5%": draw_uniqueness([ClassSizeCurve("after", ((1, 0.05),), is_exact=False)]),
        "nothing is guaranteed": draw_posterior_by_prior(
            BeliefBound(Fraction(1, 13), Fraction(1, 3), None, (("flu", 0.3),))
        ),
        "weaker guarantee than requested": draw_risk_utility(
            [TradeOffCurve("a", (TradeOff("1/3", 0.1, 0.1, is_weaker=True),))], accepted_gain=0.2
        ),
        "No setting keeps the gain within 5 points": draw_risk_utility(
            [TradeOffCurve("a", (TradeOff("1/3", 0.1, 0.1),))], accepted_gain=0.05
        ),
        "No bound has a cost": draw_cost_per_value([BoundCost("a", "1/3", 0.0)]),
        "No share of known others": draw_known_others(
            [KnownOthersCurve("a", ((0.1, 0.5),)), KnownOthersCurve("b", ((0.2, 0.5),))]
        ),
        "0 of 1 interval exclude zero": draw_forest_plot(
            [AnswerRow("a", 3, -1, 4), AnswerRow("b", 9), AnswerRow("c", math.nan)]
        ),
    }
    assert {words for words, figure in told.items() if words not in figure.reading} == set()


def rows_of(figure: Figure) -> list[tuple[object, ...]]:
    return list(figure.table.rows)


def test_error_curve_is_that_of_the_plan() -> None:
    chosen = choose({"flu": 5000, "gout": 1200, "HIV": 300}, BreachBound("1/10", "1/3"))
    sizes = [100, 1000]
    expected = [(each.count, each.evenly) for each in chosen.predict_error_curve(sizes)]
    curve = ErrorCurve.of(
        chosen.mechanism.name, chosen.predict_error_curve([*sizes, 10**6]), guarantee=chosen.mechanism.guarantee
    )
    assert curve.known_points == expected
    shown = [row[2:] for row in rows_of(draw_error_by_count([curve]))]
    assert shown[:2] == expected


def test_ladder_and_exposures_are_those_of_attacks() -> None:
    without = BeliefSummary(0.2, (0.19, 0.21), 0.1, 0.5, 0.03, 0.01)
    with_release = BeliefSummary(0.31, (0.3, 0.32), 0.2, 0.6, 0.05, 0.02)
    attacks = [
        Attack("one column", ("age",), "diagnosis", 100, without, with_release),
        Attack("all columns", ("age", "sex"), "diagnosis", 100, without, None),
    ]
    ladder = draw_attack_scenarios([AttackSuccess.of(each, "subset") for each in attacks])
    assert rows_of(ladder) == [
        ("age", "subset", 0.2, 0.31, (0.3, 0.32), None),
        ("all 2 public columns", "subset", 0.2, None, None, None),
    ]
    exposure = draw_exposure_by_column([ColumnExposure.of(each) for each in attacks])
    assert rows_of(exposure) == [("age", 0.01, 0.02), ("all 2 columns", 0.01, None)]
    assert "age alone puts 1% of records above the bound; with the release, the share is 2%." in exposure.reading


def test_uniqueness_is_that_of_the_table() -> None:
    figure = draw_uniqueness([ClassSizeCurve.of("after bins", ClassSizeShares(0.05, 0.2, 0.3))])
    assert rows_of(figure) == [("after bins", 1, 0.05), ("after bins", 4, 0.2), ("after bins", 10, 0.3)]


def test_belief_is_that_of_the_bound() -> None:
    promised = BeliefBound.of(BreachBound("1/13", "1/3"), {"flu": 0.3}, is_any_prior=True)
    assert promised.odds_factor == 6
    assert promised.compute_posterior(1 / 13) == pytest.approx(1 / 3)
    assert rows_of(draw_posterior_by_prior(promised))[1][2] == pytest.approx(0.72)


def test_forest_is_that_of_estimates() -> None:
    size = 3
    moments = Moments(
        np.array([50.0, -5.0, 7.0]), np.array([100.0, 100.0, 0.0]), np.zeros(size), np.full(size, 90.0), np.zeros(size)
    )
    estimates = Estimates(moments, "closed", "none: a test")
    answers = make_answer_rows(["a", "b", "c"], estimates)
    low, high = estimates.interval()
    assert [each.value for each in answers] == [50.0, -5.0, 7.0]
    assert [(each.low, each.high) for each in answers] == list(zip(low.tolist(), high.tolist(), strict=True))
    assert answers[1].note == "below zero by chance"
    assert (answers[0].least, answers[0].most) == (0.0, 90.0)
    beside = EstimateWithTruth.of(48, estimates[0])
    assert (beside.low, beside.high) == (low[0], high[0])
    assert beside.is_covered
    missing = AnswerRow.of("none", Estimate.missing("nothing is counted"))
    assert not missing.has_interval
    assert "2 of 3 intervals exclude zero" in draw_forest_plot([*answers, missing]).reading


def test_forest_is_that_of_an_answer() -> None:
    first, second = Estimate.exact(5), Estimate.exact(7)
    rows = ({"sex": "F", "n": first, "mean": second}, {"sex": None, "n": second, "mean": first})
    answer = Answer(("sex", "n", "mean"), ("n", "mean"), rows, "exact", "none")
    assert [each.label for each in list_answer_rows(answer)] == ["F: n", "F: mean", "(missing): n", "(missing): mean"]
    assert [each.value for each in list_answer_rows(answer)] == [5, 7, 7, 5]
    whole = Answer(("n",), ("n",), ({"n": first},), "exact", "none")
    assert [(each.label, each.low, each.high) for each in list_answer_rows(whole)] == [("n", 5, 5)]
    assert list_answer_rows(Answer(("n",), ("n",), (), "exact", "none")) == []


def test_costs_are_those_of_a_plan() -> None:
    explained = {"amplification": {"a": "6/1", "b": None}, "shadow_price": {"a": 0.5, "b": 0.0}}
    assert list_costs(explained) == [BoundCost("a", "odds ×6", 0.5), BoundCost("b", "no bound", 0.0)]
    assert list_costs({"amplification": "9/2"}) == []


@pytest.mark.slow
def test_composition_is_that_of_a_plan() -> None:
    counts = {"a": 40, "b": 40, "c": 40, "d": 40}
    plan = choose(counts, ShareCap(dict.fromkeys(counts, Fraction(1, 3))), mechanism="buckets").to_json()
    composition = BucketComposition.of(plan["buckets"], plan["caps"])
    assert sum(each.size * each.bucket_count for each in composition.sizes) == 160
    figure = draw_bucket_composition(composition)
    assert sum(int(str(row[2])) for row in rows_of(figure)) == 160
    assert "no value exceeds its cap" in figure.reading


shares = st.floats(0, 1)
anything = st.floats(allow_nan=True, allow_infinity=True)
names = st.text(max_size=30)


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(names, anything, anything, anything), max_size=6),
    st.lists(st.tuples(names, shares, shares), max_size=6),
    st.integers(200, 900),
)
def test_any_numbers_and_names_make_a_picture(
    answers: list[tuple[str, float, float, float]], guesses: list[tuple[str, float, float]], width: int
) -> None:
    found = [
        draw_forest_plot([AnswerRow(label, value, *sorted(ends)) for label, value, *ends in answers], width),
        draw_error_by_count(
            [ErrorCurve(label, ((abs(one), abs(two)), (three, 0.1))) for label, one, two, three in answers], width
        ),
        draw_attack_scenarios([AttackSuccess("sex", label, one, two) for label, one, two in guesses], width),
        draw_risk_utility(
            [TradeOffCurve(label, (TradeOff("p", one - two, two),)) for label, one, two in guesses], width
        ),
        draw_cost_per_value([BoundCost(label, "", value) for label, value, *_ in answers], width),
        draw_known_others([KnownOthersCurve(label, ((0.0, one), (0.5, two))) for label, one, two in guesses], width),
    ]
    for figure in found:
        root = ET.fromstring(figure.svg)
        right, bottom = (float(each) for each in root.attrib["viewBox"].split()[2:])
        for each in root.iter():
            assert 0 <= float(each.get("cx", 0)) <= right
            assert 0 <= float(each.get("cy", 0)) <= bottom
