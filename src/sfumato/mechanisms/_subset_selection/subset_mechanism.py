"""Subset selection: publishes a random set of values, which contains the true value more often than any other value.

Claim: (prior, posterior)-privacy for every record and every statement about its value, upward and downward, as with
uniform perturbation. The error is much smaller if the domain is large.
Source: Ye and Barg 2018 and Wang et al. 2016, here for the amplification of a (prior, posterior) bound.
Published: the domain, the size of the sets, the probability that a set contains the true value, and the bound. Not
published: the counts of the original table.
Notation: m = domain_size, d = subset_size, γ = amplification; a = Pr[the set contains the true value] = γd / (γd + m -
d), b = Pr[it contains one given other value] = (d - a) / (m - 1). All sets of size d that contain the true value are
equally likely. All other sets of size d are equally likely too. A set with the true value is γ times as likely as a set
without it. Sets of one value are uniform perturbation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as dataclass_replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.cell_values import Value, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import option
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords
from sfumato._records.member_columns import MemberColumnEncoding
from sfumato._records.set_records import SetEncoding
from sfumato._records.tally import Holdings, SideContents, Tally
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.mechanisms._randomized_response.empirical_bayes import make_shrunk_method
from sfumato.mechanisms._randomized_response.estimation_weights import (
    compute_count_variances,
    compute_set_variances,
    make_weighted_method,
)
from sfumato.mechanisms._randomized_response.estimators import DEFAULT, NO_ASSUMPTION
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    check_several,
    describe_choice,
    describe_odds_factor,
    format_ratio,
    state_any_prior,
)
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection
from sfumato.mechanisms.capabilities import (
    AttackModel,
    Comparability,
    ErrorPrediction,
    EstimationWeights,
    PlanExplanation,
    ReleaseErrorPrediction,
    WeightColumns,
)
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments
from sfumato.mechanisms.mechanism import Mechanism, make_design_error

NAME = "subset"

MOST_BITS = 1 << 24
"""The number of bits of the rows that are drawn at once."""


class Form(StrEnum):
    """The encodings of a set: bits, a list of values, or a Boolean column for each value."""

    BITS = "bits"
    LIST = "list"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class Options:
    """The option for the encoding of the sets."""

    form: Form = option(
        Form.BITS, "subset_form", "Write the sets as bits, as lists of values, or as a column for each value."
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """The sets and their draws."""

    histogram: Histogram
    bound: BreachBound
    selection: SubsetSelection
    form: Form

    @property
    def subset_size(self) -> int:
        """The number of values in a set."""
        return self.selection.members


@dataclass(frozen=True, slots=True)
class Design:
    """The published part of a plan: the domain, the size of the sets, their probabilities, and the bound."""

    domain: tuple[Value, ...]
    selection: SubsetSelection
    bound: BreachBound
    form: Form

    @property
    def subset_size(self) -> int:
        """The number of values in a set."""
        return self.selection.members

    @property
    def hold_probability(self) -> Fraction:
        """The probability that a set holds the true value."""
        return self.selection.hold_probability

    @property
    def other_probability(self) -> Fraction:
        """The probability that a set holds one given value that is not the true one."""
        return self.selection.other_probability

    @property
    def amplification(self) -> Fraction:
        """The likelihood of a set given a value in the set, divided by its likelihood given a value outside."""
        return self.selection.amplification

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            "subset_size": self.subset_size,
            "hold_probability": str(self.hold_probability),
            "form": self.form.value,
            **self.bound.to_json(),
        }


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: BreachBound, options: Options, draws: Draws, /) -> Plan:
    """Chooses the set size that gives the rarest value the smallest error."""
    check_several(histogram)
    return Plan(histogram, spec, SubsetSelection.from_bound(histogram.domain_size, spec), options.form)


# ------------------------------------------------------------------------------------------------------------- sampling


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Draws a set for each record, as bits. The first value is the highest bit of the first byte."""
    size = plan.histogram.domain_size
    step = max(1, MOST_BITS // size)
    blocks = [
        plan.selection.draw_bits(codes[start : start + step], draws, NAME, first_row + start)
        for start in range(0, len(codes), step)
    ]
    if len(blocks) == 1:
        return PerturbedRecords(blocks[0])
    return PerturbedRecords(np.concatenate([*blocks, np.zeros((0, -(-size // 8)), dtype=np.uint8)]))


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan, which does not depend on the counts."""
    return Design(plan.histogram.values, plan.selection.lowest_terms, plan.bound, plan.form)


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    domain, bound = values_from_json(design_json["domain"], types), BreachBound.from_json(design_json)
    if len(set(domain)) != len(domain):
        raise make_design_error("the design's sets or domain are out of range.", "sets")
    hold = parse_exact(design_json["hold_probability"], "the probability that a set holds the true value")
    selection = SubsetSelection.read(len(domain), int(design_json["subset_size"]), hold, bound)
    return Design(domain, selection, bound, Form(design_json["form"]))


# ------------------------------------------------------------------------------------------------------------- counting


def make_encoding(design: Design, /) -> SetEncoding:
    """Each record publishes a set of values."""
    size = len(design.domain)
    if design.form is Form.COLUMNS:
        return MemberColumnEncoding(size, False, design.subset_size)
    return SetEncoding(size, design.form is Form.LIST)


def make_weights(design: Design, /) -> WeightColumns:
    """What a row adds to the unbiased count of a value: if the row's set contains this value, and if it does not."""
    size, hold, other = len(design.domain), design.hold_probability, design.other_probability
    return {
        "place": np.arange(size, dtype=np.int32),
        "value": np.arange(size),
        "if_equal": np.full(size, float((1 - other) / (hold - other))),
        "otherwise": np.full(size, float(-other / (hold - other))),
    }


def _estimate_closed_form(design: Design, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Estimates (o - kRb) / (a - b), where o counts the wanted members of all sets.

    The variance that a record adds depends on whether its own value is wanted.
    """
    weighing, rows = design.selection.weighing, tally.rows.astype(np.float64)
    nothing, estimates = np.zeros(len(rows)), []
    for places in value_sets:
        is_wanted = np.isin(np.arange(len(design.domain)), places)
        if len(places) in (0, len(design.domain)):
            estimates.append(Moments.exact(rows if len(places) else nothing))
            continue
        theta = is_wanted.astype(np.float64)
        weights, spread = weighing.weigh_values(theta), weighing.compute_variances(theta)
        inside, outside = float(spread[is_wanted][0]), float(spread[~is_wanted][0])
        value = tally.counts @ weights.entry_weights + weights.constant * rows
        moments = Moments(value, rows * outside, np.full(len(rows), inside - outside), rows, nothing)
        estimates.append(dataclass_replace(moments, chances=_compute_hit_chances(design, len(places), len(rows))))
    return estimates


def _compute_hit_chances(design: Design, value_count: int, lines: int) -> Floats | None:
    """The probabilities of a hit, if sets contain at most one wanted value or lack at most one.

    In the second case all values but one are wanted, and a hit is a set without this value.
    """
    hold, other = float(design.hold_probability), float(design.other_probability)
    if value_count == len(design.domain) - 1:
        return np.repeat([[1 - other], [1 - hold]], lines, axis=1)
    if value_count == 1 or design.subset_size == 1:
        return np.repeat([[hold + (value_count - 1) * other], [value_count * other]], lines, axis=1)
    return None


SET_SCRIPT = "sets.js"
"""Counts sets in a browser."""


def _make_twin(design: Design, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
    """The estimator for the browser, from the sets and their probabilities."""
    here = Path(__file__)
    numbers = asdict(design.selection.weighing)
    return BrowserEstimator(here.with_name("subset.js"), numbers, helpers=(here.with_name(SET_SCRIPT),))


CLOSED: Method[Design] = make_weighted_method(
    lambda design: design.selection.weighing,
    "unbiased count, with an exact or a score confidence interval",
    NO_ASSUMPTION,
    _estimate_closed_form,
    needs_hits_only=lambda design: True,  # all wanted members add the same number
    twin=_make_twin,
)
METHODS: Mapping[str, Method[Design]] = {
    DEFAULT: CLOSED,
    "shrunk": make_shrunk_method(
        CLOSED, lambda design: (float(design.hold_probability), float(design.other_probability))
    ),
}


def predict_record_variances(design: Design, contents: SideContents | None = None, /) -> tuple[Floats, Floats]:
    """The variance that one record adds, the same for every value."""
    hold, other = float(design.hold_probability), float(design.other_probability)
    alike = np.ones(len(design.domain)) / (hold - other) ** 2
    return hold * (1 - hold) * alike, other * (1 - other) * alike


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The exact variance [c a(1-a) + (R-c) b(1-b)] / (a-b)² of a count, the same for every value."""
    return compute_count_variances(predict_record_variances(make_design(plan)), rows, counts)


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The exact variance of the count of each set of values."""
    return compute_set_variances(plan.selection.weighing, plan.histogram.counts, share, sets)


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the sets and their guarantee, in JSON."""
    published_design = make_design(plan)
    return {
        "subset_size": published_design.subset_size,
        "hold_probability": format_ratio(published_design.hold_probability),
        "other_probability": format_ratio(published_design.other_probability),
        "amplification": format_ratio(published_design.amplification),
    }


def summarize(plan: Plan, /) -> str:
    """Describes the sets in one line."""
    published_design = make_design(plan)
    return f"sets of {published_design.subset_size} values; {describe_odds_factor(published_design.amplification)}"


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes that sets of one value are uniform perturbation."""
    if plan.subset_size > 1:
        return []
    sentence = "sets of one value have the smallest error here. This is uniform perturbation, written as sets."
    return [Notice("sets-of-one", sentence)]


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of a set. It is larger by the amplification for the values in the set."""
    bits = np.unpackbits(np.asarray(records.values), axis=1, count=plan.histogram.domain_size)
    return compute_published_likelihoods(make_design(plan), bits, bits, np.arange(len(bits)))


def compute_published_likelihoods(
    design: Design, published_records: Codes, true_codes: Codes, rows: Indices, /
) -> tuple[Floats]:
    """The likelihood of each record, from the design and rows of zeros and ones."""
    return (np.where(published_records[rows], float(design.amplification), 1.0),)


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    drawn = (
        f"Each record publishes a set of {design.subset_size} of the {len(design.domain)} values. The set contains "
        f"the true value with probability {float(design.hold_probability):.4g}, and each other value with probability "
        f"{float(design.other_probability):.4g}."
    )
    return state_any_prior(design.bound, drawn, describe_choice(design.bound))


MECHANISM = Mechanism(
    name=NAME,
    guarantee=Guarantee.ANY_PRIOR,
    request=BreachBound,
    options=Options,
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
    explanation=PlanExplanation(
        explain=explain, summarize=summarize, list_remarks=list_remarks, remark_codes=("sets-of-one",)
    ),
    attack_model=AttackModel(
        compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
    ),
    comparability=Comparability(
        match_posterior=lambda bound, values: bound, read_request=lambda design: design.bound.belief_bound
    ),
    estimation_weights=EstimationWeights(make_weights=make_weights),
)
