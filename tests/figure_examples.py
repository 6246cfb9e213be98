"""One example of each figure, with numbers such as a hospital or a census would give."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from sfumato._figures import (
    AnswerRow,
    AttackSuccess,
    BeliefBound,
    BoundCost,
    BucketComposition,
    BucketSize,
    ClassSizeCurve,
    ColumnExposure,
    ErrorCurve,
    EstimateWithTruth,
    Figure,
    KnownOthersCurve,
    TradeOff,
    TradeOffCurve,
    draw_against_truth,
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
)

ERRORS = [
    ErrorCurve("subset", ((100, 0.62), (1000, 0.14), (10_000, 0.036), (100_000, 0.011)), "any-prior"),
    ErrorCurve("uniform", ((100, 1.9), (1000, 0.31), (10_000, 0.083), (100_000, 0.027)), "any-prior"),
    ErrorCurve("small-domain", ((100, 0.4), (1000, 0.1), (10_000, 0.03)), "marginal-prior", is_weaker=True),
    ErrorCurve("anatomy", ((100, 0.16), (1000, 0.052), (10_000, 0.014)), "bucket-only", is_weaker=True),
]
FREQUENCIES, EVERYTHING = "the frequencies of values", "all public columns"
GUESSES = [
    AttackSuccess(knows, release, without, with_release, control, (with_release - 0.012, with_release + 0.012))
    for knows, without, control, found in (
        (FREQUENCIES, 0.088, None, {"uniform": 0.135, "subset": 0.182, "small-domain": 0.356, "anatomy": 0.321}),
        ("Age", 0.112, 0.111, {"uniform": 0.168, "subset": 0.229, "small-domain": 0.356, "anatomy": 0.433}),
        (EVERYTHING, 0.203, 0.198, {"uniform": 0.241, "subset": 0.306, "small-domain": 0.442, "anatomy": 0.757}),
    )
    for release, with_release in found.items()
]
TRADE_OFFS = [
    TradeOffCurve(
        "subset",
        (
            TradeOff("1/4", 0.06, 0.31),
            TradeOff("1/3", 0.1, 0.14, is_proposed=True),
            TradeOff("1/2", 0.19, 0.07),
        ),
    ),
    TradeOffCurve("uniform", (TradeOff("1/4", 0.02, 0.75), TradeOff("1/3", 0.04, 0.31), TradeOff("1/2", 0.11, 0.15))),
    TradeOffCurve(
        "small-domain",
        (
            TradeOff("1/4", 0.14, 0.16, is_weaker=True),
            TradeOff("1/3", 0.24, 0.1, is_proposed=True, is_weaker=True),
            TradeOff("1/2", 0.35, 0.05, is_weaker=True),
        ),
    ),
]
DIAGNOSES = {
    "hypertension": 0.3, "diabetes": 0.17, "asthma": 0.11, "depression": 0.09, "COPD": 0.07, "migraine": 0.06,
    "gout": 0.05, "epilepsy": 0.02, "HIV": 0.008,
}  # fmt: skip
PROMISED = BeliefBound(Fraction(1, 13), Fraction(1, 3), Fraction(6), tuple(DIAGNOSES.items()))
EXPOSURES = [
    ColumnExposure("Education", 0.027, 0.027),
    ColumnExposure("Age", 0.011, 0.0185),
    ColumnExposure("Country of birth", 0.004, 0.0093),
    ColumnExposure("Race", 0.0, 0.0061),
    ColumnExposure("Sex", 0.0, 0.0),
    ColumnExposure("all 7 columns", 0.061, 0.097, is_single=False),
]
ALIKE = [
    ClassSizeCurve("after bins", ((1, 0.05), (4, 0.13), (10, 0.22))),
    ClassSizeCurve("before bins", ((1, 0.15), (4, 0.34), (10, 0.47))),
]
ANSWERS = [
    AnswerRow("hypertension, F", 4210, 3890, 4530, 0, 15_200),
    AnswerRow("hypertension, M", 3720, 3400, 4040, 0, 14_100),
    AnswerRow("diabetes, F", 2480, 2190, 2770, 0, 15_200),
    AnswerRow("diabetes, M", 2100, 1820, 2380, 0, 14_100),
    AnswerRow("asthma, F", 1650, 1390, 1910, 0, 15_200),
    AnswerRow("migraine, M", 410, 130, 690, 0, 14_100),
    AnswerRow("HIV, F", 90, 0, 310, 0, 15_200),
    AnswerRow("HIV, M", -60, 0, 180, 0, 14_100, "below zero by chance"),
    AnswerRow("epilepsy, aged 80 and over, living in the north", 38, 0, 260, 0, 220, is_unreliable=True),
    AnswerRow("share of gout among none", None, note="nobody is counted"),
    AnswerRow("ratio with a denominator near zero", 700, -math.inf, math.inf),
]


def truths(number: int) -> list[EstimateWithTruth]:
    """Counts from 1 to 30,000, with normal errors of about 60 records and 1%."""
    found = []
    for place, noise in enumerate(NormalDist().samples(number, seed=7)):
        truth = 10 ** (4.5 * ((place * 0.618033988749895) % 1))  # by the golden ratio: all sizes, in no order
        error = 60 + 0.01 * truth
        estimate = truth + error * noise
        found.append(
            EstimateWithTruth(truth, estimate, error, max(estimate - 1.96 * error, 0), estimate + 1.96 * error)
        )
    return found


TRUTHS = truths(5000)
COSTS = [
    BoundCost("HIV", "1/5", 0.0121, "1/4", 0.11),
    BoundCost("hepatitis C", "1/3", 0.0087),
    BoundCost("depression", "1/2", 0.0031),
    BoundCost("diabetes", "1/2", 0.0009),
    BoundCost("gout", "no bound", 0.0),
]
COMPOSITION = BucketComposition(
    (
        BucketSize(4, 9812, {"hypertension": 13_000, "diabetes": 9_000, "asthma": 7_000, "COPD": 5_248, "gout": 5_000}),
        BucketSize(6, 1204, {"diabetes": 1_900, "depression": 2_400, "migraine": 1_800, "epilepsy": 1_124}),
        BucketSize(9, 88, {"depression": 200, "migraine": 180, "HIV": 38, "epilepsy": 264, "gout": 110}),
    ),
    {value: Fraction(1, 20) if value == "HIV" else Fraction(1, 3) for value in DIAGNOSES},
)
KNOWN = (0.0, 0.1, 0.2, 0.4, 0.6)
CORRUPTIONS = [
    KnownOthersCurve("subset", tuple((share, 0.31) for share in KNOWN)),
    KnownOthersCurve("anatomy", tuple(zip(KNOWN, (0.33, 0.4, 0.48, 0.63, 0.78), strict=True))),
    KnownOthersCurve("decoys", tuple(zip(KNOWN, (0.33, 0.335, 0.34, 0.35, 0.37), strict=True))),
]

EXAMPLES: dict[str, Callable[[float], Figure]] = {
    "1-error-by-count": lambda width: draw_error_by_count(ERRORS, width),
    "2-attackers-ladder": lambda width: draw_attack_scenarios(GUESSES, width),
    "3-risk-utility": lambda width: draw_risk_utility(TRADE_OFFS, width, accepted_gain=0.1),
    "4-posterior-by-prior": lambda width: draw_posterior_by_prior(PROMISED, width),
    "5-exposure-by-column": lambda width: draw_exposure_by_column(EXPOSURES, width, bound="1/3", accepted_share=0.05),
    "6-uniqueness": lambda width: draw_uniqueness(ALIKE, width),
    "7-forest": lambda width: draw_forest_plot(ANSWERS, width),
    "8-against-truth": lambda width: draw_against_truth(TRUTHS, width),
    "9-cost-per-value": lambda width: draw_cost_per_value(COSTS, width),
    "10-bucket-composition": lambda width: draw_bucket_composition(COMPOSITION, width),
    "11-corruption": lambda width: draw_known_others(CORRUPTIONS, width),
}
"""By the number and the question of each."""
