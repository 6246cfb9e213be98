"""The harmonic operator: one retention for all values, and replacements that favour values with strict bounds.

Claim: consider one value with a bound. If an attacker gives this value a probability of at most the bound's prior, the
published value raises the probability to at most the bound's posterior. The claim holds for single values only, and
does not limit how far a probability falls.
Source: our own. The operator meets each upward condition of the fine-grain paper with equality. So it keeps more
records than any other operator with one retention for all values.
Published: the domain, the bounds, the retention, and the probability of each value in a redraw. Only bounds that come
from a tolerance depend on counts: they contain shares that were rounded down.
Notation: m = domain_size, γ_j = amplification of the bound of value j, p = retention, b_j = swaps: the probability that
a record is redrawn as value j, whatever its own value is. So p + (sum of b_j) = 1. The condition of value j is p + b_j
<= γ_j b_j. The smallest b_j is p / (γ_j - 1), and p = 1 / (1 + sum of 1 / (γ_j - 1)). A value without a bound is never
drawn. For any value other than j, a record with value j is at most as likely to publish it as any other record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.cell_values import Value, make_labels, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._figures.number_format import format_upper_factor
from sfumato._records import PerturbedRecords
from sfumato._records.tally import Holdings, SideContents, Tally
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBoundPerValue
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.errors import InfeasibleError, ReleaseFormatError
from sfumato.mechanisms._randomized_response import value_bounds as per_value
from sfumato.mechanisms._randomized_response.estimation_weights import (
    Weighing,
    compute_count_variances,
    compute_set_variances,
    make_weighted_method,
)
from sfumato.mechanisms._randomized_response.estimators import DEFAULT, NO_ASSUMPTION
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    check_several,
    describe_odds_factor,
    format_factor,
    format_number,
    format_ratio,
)
from sfumato.mechanisms._randomized_response.inverse_estimation import compute_flat_variance
from sfumato.mechanisms._randomized_response.value_bounds import Bounds, Direction, compute_amplifications
from sfumato.mechanisms.capabilities import (
    AttackModel,
    Comparability,
    ErrorPrediction,
    EstimationWeights,
    PlanExplanation,
    ReleaseErrorPrediction,
    ValueColumn,
    WeightColumns,
)
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments, Weights
from sfumato.mechanisms.mechanism import Mechanism, make_design_error

NAME = "harmonic"

CERTAINTY_NOTE = "If a record publishes a value without a bound, the record certainly has this value."

MOST_KEEP_OUTCOMES = 1 << 40
"""The largest number of outcomes that keep a value if exact probabilities need more.

Swaps are rounded up, towards privacy.
"""


Options = per_value.DirectionOptions


@dataclass(frozen=True)
class Plan:
    """The design and its draws.

    Of `words` outcomes, the first `keep_words` keep a value, and `swap_words` give each other value.
    """

    histogram: Histogram
    bounds: Bounds
    tolerance: Fraction | None
    keep_outcomes: int
    swap_outcomes: tuple[int, ...]

    @property
    def outcome_count(self) -> int:
        """The number of equally likely outcomes."""
        return self.keep_outcomes + sum(self.swap_outcomes)

    @cached_property
    def outcome_ends(self) -> UInts:
        """The index after the last outcome of each value."""
        return np.cumsum([self.keep_outcomes, *self.swap_outcomes], dtype=np.uint64)[1:]

    @cached_property
    def design(self) -> Design:
        """The published part of the plan."""
        outcome_count = self.outcome_count
        retention, *swaps = (
            Fraction(outcomes, outcome_count) for outcomes in (self.keep_outcomes, *self.swap_outcomes)
        )
        return Design(self.histogram.values, self.bounds, self.tolerance, retention, tuple(swaps))


@dataclass(frozen=True)
class Design:
    """The published part of a plan: the domain, the bounds, the retention, and the redraw probabilities."""

    domain: tuple[Value, ...]
    bounds: Bounds
    tolerance: Fraction | None
    retention: Fraction
    swaps: tuple[Fraction, ...]

    @cached_property
    def weighing(self) -> HarmonicWeights:
        """The probabilities of a redraw as floats."""
        return HarmonicWeights(float(self.retention), np.array([float(swap) for swap in self.swaps]))

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            **per_value.describe_bounds(self.bounds, self.tolerance),
            "retention": str(self.retention),
            "swaps": [str(swap) for swap in self.swaps],
        }


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: BreachBoundPerValue, options: Options, draws: Draws, /) -> Plan:
    """Chooses the largest retention, and redraws into each value as often as its bound demands."""
    check_several(histogram)
    bounds = per_value.list_bounds(histogram, spec)
    if options.direction is Direction.BOTH:
        raise InfeasibleError(
            "the harmonic operator bounds rising beliefs only; choose `mechanism='fine-grain'`, or "
            "`direction='upward'`.",
            code="direction-not-possible",
            fields={"mechanism": NAME, "direction": "both"},
        )
    gains = [None if bound is None else bound.amplification - 1 for bound in bounds]
    keep = math.lcm(*(gain.numerator for gain in gains if gain is not None))
    keep = min(keep, MOST_KEEP_OUTCOMES)
    while keep + sum(swaps := [_compute_least_swap(keep, gain) for gain in gains]) > LARGEST_BOUND:
        keep //= 2
    if not keep:
        raise InfeasibleError(
            "a posterior is so close to its prior that no value could ever be kept, so nothing could be counted; "
            "allow larger posteriors.",
            code="posterior-too-close",
        )
    return Plan(histogram, bounds, spec.tolerance, keep, tuple(swaps))


def _compute_least_swap(keep: int, gain: Fraction | None) -> int:
    """The number of outcomes that must give a value so that its bound holds: keep / (γ - 1), rounded up."""
    return 0 if gain is None else -(-keep * gain.denominator // gain.numerator)


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Perturbs a batch of codes; `first_row` is the number of the batch's first record."""
    outcomes = draws.get_stream(f"{NAME}/coins").draw_integers(first_row, len(codes), plan.outcome_count)
    swapped = np.searchsorted(plan.outcome_ends, outcomes, side="right")
    return PerturbedRecords(np.where(outcomes < plan.keep_outcomes, codes, swapped).astype(codes.dtype))


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan."""
    return plan.design


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    parsed_design = Design(
        values_from_json(design_json["domain"], types),
        *per_value.read_bounds(design_json),
        parse_exact(design_json["retention"], "the retention"),
        tuple(parse_exact(swap, "a swap") for swap in design_json["swaps"]),
    )
    size = len(set(parsed_design.domain))
    if not size == len(parsed_design.domain) == len(parsed_design.bounds) == len(parsed_design.swaps) or size == 1:
        raise make_design_error("the design's domain, bounds and swaps do not fit together.", "swaps")
    if (
        not 0 < parsed_design.retention < 1
        or min(parsed_design.swaps) < 0
        or parsed_design.retention + sum(parsed_design.swaps) != 1
    ):
        raise make_design_error("the design's retention or swaps are out of range.", "swaps")
    pairs = zip(compute_amplifications(parsed_design.bounds), parsed_design.swaps, strict=True)
    if any(bound is not None and parsed_design.retention > (bound - 1) * swap for bound, swap in pairs):
        raise ReleaseFormatError(
            "the design's retention is higher than its bounds allow, so its guarantee does not hold.",
            code="design-breaks-bound",
        )
    return parsed_design


# ------------------------------------------------------------------------------------------------------------- counting


@dataclass(frozen=True, slots=True)
class HarmonicWeights(Weighing):
    """Records that are kept with one probability, or redrawn from one distribution."""

    retention: float
    swaps: Floats

    def expand_to_entries(self, theta: Floats) -> Floats:
        """Returns theta: every index of the domain is an entry."""
        return theta

    def weigh_scores(self, scores: Floats) -> Weights:
        """The weight of a record that publishes y: (score_y - sum of b_j score_j) / p."""
        return Weights(scores / self.retention, -(scores * self.swaps).sum(axis=-1) / self.retention)

    def compute_variances(self, theta: Floats) -> Floats:
        """The variance of the published score of a record of y, divided by p².

        The score is that of y with probability p, and that of j with probability b_j. Adding a constant to the scores
        does not change the variance. The constant is chosen so that no large numbers cancel.
        """
        scores = theta - theta[..., :1]
        means, squares = ((numbers * self.swaps).sum(axis=-1, keepdims=True) for numbers in (scores, scores**2))
        variances = self.retention * scores**2 + squares - (self.retention * scores + means) ** 2
        return np.asarray(np.maximum(variances, 0.0) / self.retention**2)

    def bound_scores(self, scores: Floats) -> tuple[Weights, Weights]:
        """The smallest and the largest of all scores."""
        nothing = np.zeros_like(scores)
        return Weights(nothing, scores.min(axis=-1)), Weights(nothing, scores.max(axis=-1))


def make_encoding(design: Design, /) -> ValueEncoding:
    """Each record publishes one value of the domain."""
    return ValueEncoding(np.arange(len(design.domain)))


def make_weights(design: Design, /) -> WeightColumns:
    """The weights of rows that publish a value, and of rows that publish another value, in its unbiased count."""
    size, swaps = len(design.domain), design.weighing.swaps
    return {
        "cell": np.zeros(size, dtype=np.int32),
        "value": np.arange(size),
        "if_equal": (1 - swaps) / design.weighing.retention,
        "otherwise": -swaps / design.weighing.retention,
    }


def _estimate_closed_form(design: Design, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Estimates (o - R b) / p, where b is the probability to be redrawn into a wanted value.

    A record with a wanted value publishes a wanted value with probability p + b, and another record with b. Hits are
    the sum of two binomials, so their variance does not depend on the values of the other records.
    """
    rows, estimates = tally.rows.astype(np.float64), []
    retention, nothing = np.array(design.weighing.retention), np.zeros(len(rows))
    for places in value_sets:
        if len(places) in (0, len(design.domain)):
            estimates.append(Moments.exact(rows if len(places) else nothing))
            continue
        other = design.weighing.swaps[places].sum()
        value = (tally.counts[:, places].sum(axis=1) - rows * other) / retention
        base, slope = compute_flat_variance(retention, other, rows, 1)
        moments = Moments(value, base, np.full(len(rows), slope), rows, nothing)
        chances = np.repeat([[retention + other], [other]], len(rows), axis=1)
        estimates.append(dataclass_replace(moments, chances=chances))
    return estimates


def _make_twin(design: Design, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
    """The estimator for the browser, from the retention and the probability to redraw each value."""
    weighing = design.weighing
    return BrowserEstimator(
        Path(__file__).with_name("harmonic.js"), {"retention": weighing.retention, "swaps": weighing.swaps}
    )


METHODS: Mapping[str, Method[Design]] = {
    DEFAULT: make_weighted_method(
        lambda design: design.weighing,
        "unbiased count, with an exact or a score confidence interval",
        NO_ASSUMPTION,
        _estimate_closed_form,
        needs_hits_only=lambda design: True,
        twin=_make_twin,
    )
}


def predict_record_variances(design: Design, contents: SideContents | None = None, /) -> tuple[Floats, Floats]:
    """The variance that one record adds, from the retention and the probability to redraw each value."""
    weighing = design.weighing
    base, slope = compute_flat_variance(np.array(weighing.retention), weighing.swaps, np.ones(len(design.domain)), 1)
    return base + slope, base


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The exact variance of a count of each value."""
    return compute_count_variances(predict_record_variances(plan.design), rows, counts)


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The exact variance of the count of each set of values."""
    return compute_set_variances(plan.design.weighing, plan.histogram.counts, share, sets)


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the retention, the probability to draw each value, and the bound of each value."""
    published_design, names = plan.design, make_labels(plan.histogram.values)
    limits = compute_amplifications(plan.bounds)
    return {
        "direction": Direction.UPWARD.value,
        "retention": format_ratio(published_design.retention),
        "swap": dict(zip(names, map(format_ratio, published_design.swaps), strict=True)),
        "amplification": {name: limit and format_ratio(limit) for name, limit in zip(names, limits, strict=True)},
    }


def summarize(plan: Plan, /) -> str:
    """Describes the retention in one line."""
    factors = [factor for factor in compute_amplifications(plan.bounds) if factor is not None]
    return (
        f"retention {format_number(format_ratio(plan.design.retention))}; {describe_odds_factor(min(factors))} "
        f"for the strictest bound, and of at most {format_upper_factor(max(factors))} for the loosest"
    )


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes which values have no bound, and that beliefs may fall."""
    notices = per_value.list_remarks(plan.histogram.values, plan.bounds, may_fall=True)
    return [
        dataclass_replace(notice, sentence=f"{notice.sentence} {CERTAINTY_NOTE}")
        if notice.code == "values-unprotected"
        else notice
        for notice in notices
    ]


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of each record. It is equal for all values except the published value, for which it is larger."""
    codes = np.asarray(records.values)
    return compute_published_likelihoods(plan.design, codes, codes, np.arange(len(codes)))


def compute_published_likelihoods(
    design: Design, published_records: Codes, true_codes: Codes, rows: Indices, /
) -> tuple[Floats]:
    """The likelihood of each record, from the design alone."""
    weighing, published_codes = design.weighing, published_records[rows]
    chances = np.repeat(weighing.swaps[published_codes][:, np.newaxis], len(weighing.swaps), axis=1)
    chances[np.arange(len(published_codes)), published_codes] += weighing.retention
    return (chances,)


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    statement = per_value.state_guarantee(design.domain, design.bounds, design.tolerance, may_fall=True)
    return statement if all(design.bounds) else statement.add_details([CERTAINTY_NOTE])


MECHANISM = Mechanism(
    name=NAME,
    guarantee=Guarantee.SINGLE_VALUES,
    request=BreachBoundPerValue,
    options=Options,
    plan=plan,
    perturb=perturb,
    make_design=make_design,
    read_design=read_design,
    make_encoding=make_encoding,
    estimators=METHODS,
    state_guarantee=state_guarantee,
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    release_error_prediction=ReleaseErrorPrediction(predict_record_variances=predict_record_variances),
    explanation=PlanExplanation(
        explain=explain,
        summarize=summarize,
        list_remarks=list_remarks,
        remark_codes=per_value.REMARK_CODES,
        value_columns=(
            ValueColumn("swap", "drawn", format_number),
            ValueColumn("amplification", "largest factor of the odds", format_factor, "no bound"),
        ),
    ),
    attack_model=AttackModel(
        compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
    ),
    comparability=Comparability(
        match_posterior=BreachBoundPerValue.from_bound,
        read_request=lambda design: BreachBoundPerValue.from_bounds(design.domain, design.bounds),
    ),
    estimation_weights=EstimationWeights(make_weights=make_weights),
)
