"""Fine-grain perturbation: each value has a bound and a retention of its own.

Claim: consider one value with a bound. If an attacker gives this value a probability of at most the bound's prior, the
published value raises the probability to at most the bound's posterior. With direction `both`, a probability of at
least the posterior also stays at least the prior. The claim holds for single values, not for statements about several
values.
Source: the fine-grain model of the paper on per-value bounds. Theorem 1 of the paper is true upward and false downward:
in its Figure 2(b) a belief of 1/7 falls to 1/13, below 1/10 (docs/errata.md). So the direction is an option here.
Published: the domain, the bounds, the direction and the retentions. Bounds that come from a tolerance contain shares
that were rounded down to two digits or coarser. The retentions of the `aggregate` objective follow shares in
hundredths. For the `record` objective, the exact shares select one of finitely many optimal retentions. An attacker who
knows all values but one may learn this value from the retentions (docs/limits.md says how often).
Notation: ρ1i = prior, ρ2i = posterior and γ_i = amplification of the bound of value i; p_i = its retention, q_i =
(1-p_i)/m = its swap probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.cell_values import (
    Value,
    display,
    format_value_count,
    format_values,
    make_labels,
    values_from_json,
    values_to_json,
)
from sfumato._core.exact_numbers import count_coarse_steps, parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import option
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords
from sfumato._records.tally import SideContents
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBoundPerValue
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.errors import InfeasibleError, ReleaseFormatError
from sfumato.mechanisms._randomized_response import value_bounds as per_value
from sfumato.mechanisms._randomized_response.estimation_weights import OperatorWeights, compute_set_variances
from sfumato.mechanisms._randomized_response.estimators import ONE_CELL
from sfumato.mechanisms._randomized_response.fine_grain import retention_solver
from sfumato.mechanisms._randomized_response.fine_grain.shadow_prices import compute_shadow_prices
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    check_several,
    format_factor,
    format_number,
    format_ratio,
)
from sfumato.mechanisms._randomized_response.inverse_estimation import (
    compute_inverse_rows,
    compute_inverse_variances,
    compute_published_likelihoods,
)
from sfumato.mechanisms._randomized_response.perturbation_operators import Cell, Operator, RetentionDraws
from sfumato.mechanisms._randomized_response.value_bounds import NAMED_VALUES, Bounds, compute_amplifications
from sfumato.mechanisms._randomized_response.value_bounds import Direction as Direction
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
from sfumato.mechanisms.mechanism import Mechanism, PlanRules, make_design_error

NAME = "fine-grain"

MOST_DENOMINATOR = 1 << 40
"""The largest denominator of retentions. Retentions with a larger one are rounded down, towards privacy."""

MOST_WEIGHTS = 1000
"""The largest domain for which weights are written. They take a line for each pair of values."""

WORST_LOSS = 10
"""The largest permitted error of counts, as a multiple of the error of uniform perturbation under the same bounds."""


class Objective(StrEnum):
    """The aim of the retentions: records that keep their value, or accurate counts."""

    RECORD = "record"
    AGGREGATE = "aggregate"


@dataclass(frozen=True, slots=True)
class Options(per_value.DirectionOptions):
    """The options: the direction of the bounds, and the aim of the retentions."""

    objective: Objective = option(
        Objective.RECORD,
        "objective",
        "Keep as many records as possible (record), or make counts as accurate as possible (aggregate).",
    )


@dataclass(frozen=True)
class Plan:
    """The retention of each value, in whole outcomes: `kept[i]` of `finest` keep value i."""

    histogram: Histogram
    bounds: Bounds
    options: Options
    keep_numerators: tuple[int, ...]
    denominator: int
    tolerance: Fraction | None = None
    """The tolerance that produced the bounds from shares, if there was one."""

    @property
    def amplifications(self) -> tuple[Fraction | None, ...]:
        """The bound of each value on the odds; None for a value without one."""
        return compute_amplifications(self.bounds)

    @property
    def retentions(self) -> tuple[Fraction, ...]:
        """The retention of each value."""
        return tuple(Fraction(numerator, self.denominator) for numerator in self.keep_numerators)

    @cached_property
    def retention_draws(self) -> RetentionDraws:
        """The draws. Each of the m values has one outcome in each of the `finest - kept` blocks of m outcomes."""
        size = len(self.keep_numerators)
        return RetentionDraws.of(
            [(size * numerator, self.denominator - numerator) for numerator in self.keep_numerators], [size] * size
        )

    @cached_property
    def design(self) -> Design:
        """The published part of the plan."""
        return Design(self.histogram.values, self.bounds, self.options.direction, self.retentions, self.tolerance)

    @cached_property
    def shares(self) -> Floats:
        """The share of each value."""
        return np.array(self.histogram.counts, dtype=np.float64) / self.histogram.total


@dataclass(frozen=True)
class Design:
    """The published part of a plan: the domain, the bounds, the direction and the retention of each value."""

    domain: tuple[Value, ...]
    bounds: Bounds
    direction: Direction
    retentions: tuple[Fraction, ...]
    tolerance: Fraction | None = None

    @cached_property
    def operator(self) -> Operator:
        """A single sub-table with all values and the retention of each."""
        size = len(self.domain)
        return Operator([Cell(tuple(range(size)), self.retentions)], size)

    @cached_property
    def cell_shares(self) -> Floats:
        """All records of every value are in the single sub-table."""
        return np.ones(len(self.domain))

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            "direction": self.direction.value,
            **per_value.describe_bounds(self.bounds, self.tolerance),
            "retentions": [str(retention) for retention in self.retentions],
        }


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: BreachBoundPerValue, options: Options, draws: Draws, /) -> Plan:
    """Chooses the best retentions for the objective within the bounds."""
    check_several(histogram)
    bounds = per_value.list_bounds(histogram, spec)
    limits, direction = compute_amplifications(bounds), options.direction
    if options.objective is Objective.RECORD:
        best = retention_solver.solve(histogram.shares, limits, direction)
    else:
        best = retention_solver.solve_aggregate(_round_shares(histogram), limits, direction)
    denominator = _find_denominator(best)
    # A smaller retention breaks no bound, because the value is kept less often and redrawn into other values more
    # often.
    keep_numerators = tuple(math.floor(retention * denominator) for retention in best)
    return Plan(histogram, bounds, options, keep_numerators, denominator, spec.tolerance)


def _round_shares(histogram: Histogram) -> tuple[Fraction, ...]:
    """Rounds the shares to coarse steps (at least one for each value), because published retentions depend on them."""
    steps = count_coarse_steps(histogram.total)
    return tuple(max(Fraction(math.floor(share * steps), steps), Fraction(1, 2 * steps)) for share in histogram.shares)


def _find_denominator(retentions: Sequence[Fraction]) -> int:
    """Returns the common denominator of the retentions, or the largest one that draws allow."""
    common = 1
    for retention in retentions:
        common = math.lcm(common, retention.denominator)
        if common > MOST_DENOMINATOR:
            return MOST_DENOMINATOR
    return common


def check_countable(plan: Plan, /) -> None:
    """Refuses retentions that cannot be inverted, or only with an error too large for any count."""
    values = plan.histogram.values
    never_kept = [display(values[place]) for place, numerator in enumerate(plan.keep_numerators) if not numerator]
    advice = "choose `objective='aggregate'`, or relax a bound."
    if len(never_kept) > 1:
        sentence = f"would never be kept, so the counts of these values could not be distinguished; {advice}"
        named = ", ".join(map(repr, never_kept[:NAMED_VALUES]))
        raise InfeasibleError(
            f"{format_value_count(never_kept)} {sentence}",
            sentence_with_values=f"{named} {sentence}",
            code="values-never-kept",
            fields={"values": len(never_kept)},
        )
    amplification = min(retentions for retentions in plan.amplifications if retentions is not None)
    uniform = (amplification - 1) / (len(values) - 1 + amplification)
    own_variance, uniform_variance = (
        retention_solver.compute_total_variance(plan.histogram.shares, retentions)
        for retentions in (plan.retentions, [uniform] * len(values))
    )
    if own_variance > WORST_LOSS**2 * uniform_variance:
        least = display(values[min(range(len(values)), key=plan.keep_numerators.__getitem__)])
        sentence = (
            "would be kept very rarely, and the error of counts would be "
            f"{math.sqrt(own_variance / uniform_variance):.0f} times the error of uniform perturbation under the same "
            f"bounds; {advice}"
        )
        raise InfeasibleError(
            f"one value {sentence}",
            sentence_with_values=f"{least!r} {sentence}",
            code="value-rarely-kept",
            fields={"factor": round(math.sqrt(own_variance / uniform_variance))},
        )


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Perturbs a batch of codes, each by the retention of its value."""
    is_kept, swapped = plan.retention_draws.draw(draws.get_stream(f"{NAME}/coins"), first_row, codes)
    return PerturbedRecords(np.where(is_kept, codes, swapped).astype(codes.dtype))


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan."""
    return plan.design


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    bounds, tolerance = per_value.read_bounds(design_json)
    parsed_design = Design(
        values_from_json(design_json["domain"], types),
        bounds,
        Direction(design_json["direction"]),
        tuple(parse_exact(retention, "a retention") for retention in design_json["retentions"]),
        tolerance,
    )
    size = len(set(parsed_design.domain))
    if not size == len(parsed_design.domain) == len(parsed_design.bounds) == len(parsed_design.retentions) or size == 1:
        raise make_design_error("the design's domain, bounds and retentions do not fit together.", "retentions")
    if (
        not all(0 <= retention <= 1 for retention in parsed_design.retentions)
        or sum(not retention for retention in parsed_design.retentions) > 1
    ):
        raise make_design_error("the design's retentions are out of range.", "retentions")
    if (
        retention_solver.find_violation(
            compute_amplifications(parsed_design.bounds), parsed_design.retentions, parsed_design.direction
        )
        is not None
    ):
        raise ReleaseFormatError(
            "a retention is higher than the design's bounds allow, so its guarantee does not hold.",
            code="design-breaks-bound",
        )
    return parsed_design


# ------------------------------------------------------------------------------------------------------------- counting


def make_encoding(design: Design, /) -> ValueEncoding:
    """Each record publishes one value of the domain."""
    return design.operator.make_encoding()


def make_weights(design: Design, /) -> WeightColumns | None:
    """The contribution of a row that publishes `published` to the unbiased count of `value`."""
    size = len(design.domain)
    if size > MOST_WEIGHTS:
        return None
    rows = [compute_inverse_rows(design.operator, np.array([place])) for place in range(size)]
    return {
        "value": np.repeat(np.arange(size), size),
        "published": np.tile(np.arange(size), size),
        "weight": np.concatenate(rows),
    }


def predict_record_variances(design: Design, contents: SideContents | None = None, /) -> tuple[Floats, Floats]:
    """The variance that one record adds, if the values are equally frequent."""
    size = len(design.domain)
    return compute_inverse_variances(design.operator, np.full(size, 1 / size))


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The variance of a count of each value, if the other rows have the same shares of values as the table."""
    own, other = compute_inverse_variances(plan.design.operator, plan.shares)
    if np.isinf(own).any():  # two values that are never kept cannot be distinguished, even if few records have them
        return own
    return own * counts + other * (rows - counts)


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The exact variance of the count of each set of values; infinite where several values are never kept."""
    if sum(not retention for retention in plan.retentions) > 1:
        return np.full(len(sets), np.inf)
    return compute_set_variances(OperatorWeights(plan.design.operator), plan.histogram.counts, share, sets)


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the retention of each value, its effect, and the shadow price of each bound."""
    shares, limits, direction = plan.histogram.shares, plan.amplifications, plan.options.direction
    names = make_labels(plan.histogram.values)
    explanation: Json = {
        "direction": direction.value,
        "objective": plan.options.objective.value,
        "retention": dict(zip(names, map(format_ratio, plan.retentions), strict=True)),
        "amplification": {name: limit and format_ratio(limit) for name, limit in zip(names, limits, strict=True)},
        "record_utility": float(retention_solver.compute_record_utility(shares, plan.retentions)),
        "aggregate_error": _compute_aggregate_error(plan),
    }
    if plan.options.objective is Objective.RECORD:
        prices = compute_shadow_prices(shares, limits, plan.retentions, direction)
        explanation["shadow_price"] = dict(zip(names, prices, strict=True))
    return explanation


def _compute_aggregate_error(plan: Plan) -> float | None:
    """The mean error of the shares of all values; None if the shares cannot be estimated."""
    if sum(not numerator for numerator in plan.keep_numerators) > 1:
        return None
    total, size = float(plan.histogram.total), plan.histogram.domain_size
    count_variances = predict_variances(plan, np.full(size, total), np.array(plan.histogram.counts, dtype=np.float64))
    return float(math.sqrt(2 / math.pi) * np.sqrt(np.maximum(count_variances, 0.0)).mean() / total)


def summarize(plan: Plan, /) -> str:
    """Describes the effect of the retentions in one line."""
    error = _compute_aggregate_error(plan)
    error_text = "counts cannot be estimated" if error is None else f"the mean error of a share is {error:.3%}"
    kept_share = float(retention_solver.compute_record_utility(plan.histogram.shares, plan.retentions))
    return f"a record keeps its value with probability {kept_share:.4f} on average; {error_text}"


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes which values have no bound, which are never kept, and whether beliefs may fall."""
    values, may_fall = plan.histogram.values, plan.options.direction is Direction.UPWARD
    notices = per_value.list_remarks(values, plan.bounds, may_fall=may_fall)
    never_kept = [value for value, numerator in zip(values, plan.keep_numerators, strict=True) if not numerator]
    if never_kept:
        sentence = (
            "these values are never kept under the bounds, so they are published only as random replacements of "
            f"other values: {format_values(never_kept)}."
        )
        notices.append(Notice("values-never-kept", sentence, numbers={"values": len(never_kept)}))
    return notices


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of each record, from the retention of each value."""
    published_design, codes = plan.design, np.asarray(records.values)
    return (published_design.operator.compute_likelihoods(published_design.cell_shares, codes),)


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    may_fall = design.direction is Direction.UPWARD
    return per_value.state_guarantee(design.domain, design.bounds, design.tolerance, may_fall=may_fall)


MECHANISM: Mechanism[BreachBoundPerValue, Options, Plan, Design] = Mechanism(
    name=NAME,
    guarantee=Guarantee.SINGLE_VALUES,
    request=BreachBoundPerValue,
    options=Options,
    plan=plan,
    perturb=perturb,
    make_design=make_design,
    read_design=read_design,
    make_encoding=make_encoding,
    estimators=ONE_CELL,
    state_guarantee=state_guarantee,
    plan_rules=PlanRules(check_countable=check_countable),
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    release_error_prediction=ReleaseErrorPrediction(predict_record_variances=predict_record_variances),
    explanation=PlanExplanation(
        explain=explain,
        summarize=summarize,
        list_remarks=list_remarks,
        remark_codes=(*per_value.REMARK_CODES, "values-never-kept"),
        value_columns=(
            ValueColumn("retention", "retention", format_number),
            ValueColumn("amplification", "largest factor of the odds", format_factor, "no bound"),
            ValueColumn("shadow_price", "shadow price", format_number),
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
