"""Uniform perturbation: keeps a record's value with some probability, and otherwise redraws it from the whole domain.

Claim: (prior, posterior)-privacy for every record and every statement about its value, upward and downward. The prior
is the probability given all that an attacker knows except the record's own published value. This knowledge may include
all other columns and the true values of all other records.
Source: Evfimievski et al. 2003, Statement 1; the largest retention: Chaytor and Wang, section 3.
Published: the domain, the retention and the bound. Not published: the counts of the original table.
Notation: p = retention, m = domain_size, γ = amplification, q = swap_probability = (1-p)/m; Pr[kept] = p + q = γ q.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.cell_values import Value, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords
from sfumato._records.tally import SideContents
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, ReleaseFormatError
from sfumato.mechanisms._randomized_response.empirical_bayes import make_shrunk_method
from sfumato.mechanisms._randomized_response.estimation_weights import (
    OperatorWeights,
    compute_count_variances,
    compute_set_variances,
)
from sfumato.mechanisms._randomized_response.estimators import CLOSED, DEFAULT, EM
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    check_several,
    describe_choice,
    describe_sub_table,
    state_any_prior,
    summarize_sub_tables,
)
from sfumato.mechanisms._randomized_response.inverse_estimation import (
    compute_flat_variance,
    compute_published_likelihoods,
)
from sfumato.mechanisms._randomized_response.perturbation_operators import (
    Cell,
    Operator,
    compute_retention,
    split_outcomes,
)
from sfumato.mechanisms.capabilities import (
    AttackModel,
    Comparability,
    ErrorPrediction,
    EstimationWeights,
    PlanExplanation,
    ReleaseErrorPrediction,
    WeightColumns,
)
from sfumato.mechanisms.estimator import Method
from sfumato.mechanisms.mechanism import Mechanism, NoOptions, make_design_error

NAME = "uniform"


@dataclass(frozen=True)
class Plan:
    """The design and its draws. A draw below `keep_words + domain_size * swap_words` decides about a record.

    The first `keep_words` outcomes keep the value. Of the others, `swap_words` give each value of the domain.
    """

    histogram: Histogram
    bound: BreachBound
    keep_outcomes: int
    swap_outcomes: int

    @property
    def outcome_count(self) -> int:
        """The number of equally likely outcomes."""
        return self.keep_outcomes + self.histogram.domain_size * self.swap_outcomes

    @property
    def retention(self) -> Fraction:
        """The probability that a record keeps its value."""
        return compute_retention((self.keep_outcomes, self.swap_outcomes), self.histogram.domain_size)

    @cached_property
    def design(self) -> Design:
        """The published part of the plan, which does not depend on the counts."""
        return Design(self.histogram.values, self.retention, self.bound)


@dataclass(frozen=True)
class Design:
    """The published part of a plan: the domain, the retention, and the bound for which it was chosen."""

    domain: tuple[Value, ...]
    retention: Fraction
    bound: BreachBound

    @property
    def swap_probability(self) -> Fraction:
        """The probability that a record gets one given other value."""
        return (1 - self.retention) / len(self.domain)

    @cached_property
    def operator(self) -> Operator:
        """One sub-table of all values."""
        size = len(self.domain)
        return Operator([Cell.from_retention(range(size), self.retention)], size)

    @cached_property
    def cell_shares(self) -> Floats:
        """All records of every value are in the single sub-table."""
        return np.ones(len(self.domain))

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            "retention": str(self.retention),
            **self.bound.to_json(),
        }


def plan(histogram: Histogram, spec: BreachBound, options: NoOptions, draws: Draws, /) -> Plan:
    """Chooses the largest retention that the amplification allows."""
    check_several(histogram)
    keep, swap = split_outcomes(histogram.domain_size, spec.amplification)
    if not keep:
        raise InfeasibleError(
            f"the posterior {spec.posterior} is too close to the prior {spec.prior}: no value could ever be kept, so "
            "nothing could be counted. Allow a larger posterior.",
            code="posterior-too-close",
            fields={"prior": str(spec.prior), "posterior": str(spec.posterior)},
        )
    return Plan(histogram, spec, keep, swap)


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Perturbs a batch of codes; `first_row` is the number of the batch's first record."""
    outcomes = draws.get_stream(f"{NAME}/coins").draw_integers(first_row, len(codes), plan.outcome_count)
    published_codes = ((outcomes - np.uint64(plan.keep_outcomes)) // np.uint64(plan.swap_outcomes)).astype(codes.dtype)
    np.copyto(published_codes, codes, where=outcomes < plan.keep_outcomes)
    return PerturbedRecords(published_codes)


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan."""
    return plan.design


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    parsed_design = Design(
        values_from_json(design_json["domain"], types),
        parse_exact(design_json["retention"], "the retention"),
        BreachBound.from_json(design_json),
    )
    size = len(set(parsed_design.domain))
    if not 0 < parsed_design.retention < 1 or size in (0, 1) or size != len(parsed_design.domain):
        raise make_design_error("the design's retention or domain is out of range.", "retention")
    if parsed_design.retention > (parsed_design.bound.amplification - 1) * parsed_design.swap_probability:
        raise ReleaseFormatError(
            "the design's retention is higher than its bound allows, so its guarantee does not hold.",
            code="design-breaks-bound",
        )
    return parsed_design


def make_encoding(design: Design, /) -> ValueEncoding:
    """Each record publishes one value of the domain."""
    return design.operator.make_encoding()


METHODS: Mapping[str, Method[Design]] = {
    DEFAULT: CLOSED,
    "shrunk": make_shrunk_method(
        CLOSED,
        lambda design: (float(design.retention + design.swap_probability), float(design.swap_probability)),
    ),
    "em": EM,
}


def make_weights(design: Design, /) -> WeightColumns:
    """The weights of rows that publish a value, and of rows that publish another value, in its unbiased count."""
    size, retention, swap = len(design.domain), design.retention, design.swap_probability
    return {
        "cell": np.zeros(size, dtype=np.int32),
        "value": np.arange(size),
        "if_equal": np.full(size, float((1 - swap) / retention)),
        "otherwise": np.full(size, float(-swap / retention)),
    }


def predict_record_variances(design: Design, contents: SideContents | None = None, /) -> tuple[Floats, Floats]:
    """The variance that one record adds, the same for every value."""
    retention, swap = (np.array(float(number)) for number in (design.retention, design.swap_probability))
    base, slope = compute_flat_variance(retention, swap, np.ones(len(design.domain)), 1)
    return base + slope, base


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The exact variance of a count, the same for every value."""
    return compute_count_variances(predict_record_variances(plan.design), rows, counts)


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The exact variance of the count of each set of values."""
    return compute_set_variances(OperatorWeights(plan.design.operator), plan.histogram.counts, share, sets)


def explain(plan: Plan, /) -> Json:
    """One sub-table of all values."""
    histogram = plan.histogram
    cell = describe_sub_table(
        histogram, range(histogram.domain_size), histogram.counts, plan.bound.prior, plan.retention
    )
    return {"error_bound": cell["error_bound"], "cells": [cell]}


def summarize(plan: Plan, /) -> str:
    """Describes the retention in one line."""
    return summarize_sub_tables(explain(plan)["cells"])


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of each record, from the retention."""
    published_design, codes = plan.design, np.asarray(records.values)
    return (published_design.operator.compute_likelihoods(published_design.cell_shares, codes),)


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    keep_probability, others = design.retention + design.swap_probability, len(design.domain) - 1
    drawn = (
        f"The published value is the true value with probability {float(keep_probability):.4g}. "
        f"{'The other value' if others == 1 else f'Each of the {others} other values'} has probability "
        f"{float(design.swap_probability):.4g}."
    )
    return state_any_prior(design.bound, drawn, describe_choice(design.bound))


MECHANISM: Mechanism[BreachBound, NoOptions, Plan, Design] = Mechanism(
    name=NAME,
    guarantee=Guarantee.ANY_PRIOR,
    request=BreachBound,
    options=NoOptions,
    plan=plan,
    perturb=perturb,
    make_design=make_design,
    read_design=read_design,
    make_encoding=make_encoding,
    estimators=METHODS,
    state_guarantee=state_guarantee,
    further_requests=(BreachBoundPerValue,),
    covers_predicates=True,
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    release_error_prediction=ReleaseErrorPrediction(predict_record_variances=predict_record_variances),
    explanation=PlanExplanation(explain=explain, summarize=summarize),
    attack_model=AttackModel(
        compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
    ),
    comparability=Comparability(
        match_posterior=lambda bound, values: bound, read_request=lambda design: design.bound.belief_bound
    ),
    estimation_weights=EstimationWeights(make_weights=make_weights),
)
