"""Decoys: every record publishes a value drawn from a secret group of records with different values.

Claim: consider an attacker who knows the shares of the values, and nothing else about a person. This attacker gives the
published value a probability of at most 1/group_size of being the person's own value. Other knowledge is not covered. A
published value multiplies the odds of this value by its likelihood ratio, which has no limit for rare values.
Source: Fu, Wang, Wong, Wang and Jiang 2014 (SPLU-Gen), corrected as docs/errata.md says. The mixed groups, the closed
form and the errors are our own.
Published: the domain, the group size, the method that makes groups, and the rare values that were merged. Not
published: the groups, and the counts of the original table.
Notation: gamma = group_size, f = count of a value, N = total.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats, Indices, UInts
from sfumato._core.cell_values import (
    Value,
    display,
    format_values,
    make_labels,
    split_value,
    values_from_json,
    values_to_json,
)
from sfumato._core.json_types import Json, JsonView
from sfumato._core.random_draws import Draws
from sfumato._figures.number_format import format_upper_factor
from sfumato._records import Naming, PerturbedRecords
from sfumato._records.tally import Tally
from sfumato._records.value_records import ValueEncoding
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.decoy_count_errors import compute_error_probability, find_accurate_count, find_chebyshev_count
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram, compute_margins
from sfumato._request.warnings import Notice, NoticeNumber
from sfumato.errors import InternalError
from sfumato.mechanisms._decoys import leak_matrix, likelihood_ratios
from sfumato.mechanisms._decoys.decoy_estimators import (
    METHODS,
    SELECTED_SHARE,
    describe_shrunk_gain,
    format_closed_form,
    propose_estimator,
)
from sfumato.mechanisms._decoys.decoy_options import Options as Options
from sfumato.mechanisms._decoys.decoy_options import RareTreatment as RareTreatment
from sfumato.mechanisms._decoys.decoy_options import merge_rare_values
from sfumato.mechanisms._decoys.group_creation import Groups
from sfumato.mechanisms._decoys.leak_matrix import FEW_VALUES, EvenDistribution, create_groups, recompute_distribution
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation as GroupCreation
from sfumato.mechanisms._randomized_response.guarantee_sentences import format_factor
from sfumato.mechanisms.capabilities import (
    AttackModel,
    Coarsening,
    Comparability,
    ErrorPrediction,
    PlanExplanation,
    ReleaseErrorPrediction,
    SeveralColumns,
    ValueColumn,
)
from sfumato.mechanisms.mechanism import EstimationRules, Mechanism, make_design_error

NAME = "decoys"

MOST_COMBINATIONS = 1 << 18  # of the values of several columns: the time of every answer grows with it

NEAR_LIMIT = Fraction(4, 5)
"""A value whose share is above this fraction of the largest possible one can hardly be counted under a condition."""

ERROR, RISK = Fraction(1, 10), Fraction(1, 20)
"""A count of all records with a value is accurate if its error is below ERROR with a probability of at least 1 -
RISK.
"""

SMALL_ERROR, SMALL_COUNT = Fraction(3, 10), 10  # the counts for which plans show how unreliable small counts are


def choose_estimator(design: Design, /) -> str:
    """Chooses the estimator.

    For many values in mixed groups, the group size is enough to estimate. If there are few values, they meet less
    evenly.
    """
    return "fitted" if design.creation is GroupCreation.MIXED and max(design.sizes) > FEW_VALUES else "inverse"


@dataclass(frozen=True, eq=False)
class GroupedColumn:
    """The groups of one sensitive column."""

    values: tuple[Value, ...]
    counts: tuple[int, ...]
    groups: Groups


@dataclass(frozen=True, eq=False)
class Plan:
    """The groups of each sensitive column, made independently."""

    histogram: Histogram
    group_size: int
    creation: GroupCreation
    ratio_limit: Fraction | None
    columns: tuple[GroupedColumn, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(len(column.values) for column in self.columns)


@dataclass(frozen=True)
class Design:
    """The published part of a plan: the domain of each column, and the method that made its groups."""

    domains: tuple[tuple[Value, ...], ...]
    group_size: int
    creation: GroupCreation

    @cached_property
    def domain(self) -> tuple[Value, ...]:
        """The values of a single column, or all combinations of those of several."""
        return self.domains[0] if len(self.domains) == 1 else tuple(itertools.product(*self.domains))  # type: ignore[arg-type]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(len(domain) for domain in self.domains)

    def to_json(self) -> Json:
        """Writes the design as JSON."""
        domain_lists = [values_to_json(domain) for domain in self.domains]
        return {
            **({"domain": domain_lists[0]} if len(domain_lists) == 1 else {"domains": domain_lists}),
            "group_size": self.group_size,
            "groups": self.creation.value,
        }


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: DecoyGroups, options: Options, draws: Draws, /) -> Plan:
    """Makes the groups of each column; refuses a value that is too frequent for them."""
    sizes = histogram.axes or (histogram.domain_size,)
    if math.prod(sizes) != histogram.domain_size:
        raise InternalError("the columns do not have the combinations of the domain.", code="columns-do-not-fit-domain")
    columns = []
    for number, margin in enumerate(compute_margins(histogram.counts, sizes)):
        counts = margin.tolist()
        values = _list_column_values(histogram.values, sizes, number)
        likelihood_ratios.check_eligible(values, counts, spec.group_size)
        groups = create_groups(counts, spec.group_size, options.groups, draws, f"{NAME}/{number}")
        columns.append(GroupedColumn(values, tuple(counts), groups))
    return Plan(histogram, spec.group_size, options.groups, options.limit, tuple(columns))


def _list_column_values(domain: Sequence[Value], sizes: Sequence[int], number: int) -> tuple[Value, ...]:
    """Lists the values of one column, from all combinations in the order of the domain."""
    if len(sizes) == 1:
        return tuple(domain)
    step = math.prod(sizes[number + 1 :])
    return tuple(split_value(domain[code * step])[number] for code in range(sizes[number]))


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Draws a value of each record's group, uniformly and independently, for each column."""
    if slots is None:
        raise InternalError("decoys need the slots of the records.", code="no-slots")
    published = np.zeros(1, dtype=np.int64)
    for number, (column, own_codes, own_slots) in enumerate(
        zip(plan.columns, split_codes(codes, plan.sizes), np.atleast_2d(slots), strict=True)
    ):
        groups = column.groups
        run = groups.find_runs(own_codes, own_slots)
        stream = draws.get_stream(f"{NAME}/{number}/seats")
        seats = stream.draw_integers(first_row, len(codes), groups.sizes.take(run).astype(np.uint64))
        published = published * len(column.values) + groups.find_values(run, seats)
    return PerturbedRecords(published.astype(codes.dtype))


def split_codes(codes: Codes, sizes: Sequence[int]) -> list[Codes]:
    """The codes of each column, from the indices of combinations."""
    if len(sizes) == 1:
        return [codes]
    steps = [math.prod(sizes[number + 1 :]) for number in range(len(sizes))]
    return [codes.astype(np.int64) // step % size for step, size in zip(steps, sizes, strict=True)]


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan, without any count."""
    return Design(tuple(column.values for column in plan.columns), plan.group_size, plan.creation)


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    if "domains" in design_json:
        pairs = zip(design_json["domains"], types, strict=True)
        domains = tuple(values_from_json(domain, [kind]) for domain, kind in pairs)
    else:
        domains = (values_from_json(design_json["domain"], types),)
    parsed_design = Design(domains, int(design_json["group_size"]), GroupCreation(design_json["groups"]))
    if any(len(set(domain)) != len(domain) or len(domain) < parsed_design.group_size for domain in domains):
        raise make_design_error(
            "a domain of the design is too small for its groups, or names a value twice.", "domains"
        )
    if parsed_design.group_size < 2 or math.prod(parsed_design.sizes) > MOST_COMBINATIONS:  # noqa: PLR2004
        raise make_design_error("the design's groups are too small, or its domain is too large.", "groups")
    return parsed_design


# ------------------------------------------------------------------------------------------------------------- counting


def make_encoding(design: Design, /) -> ValueEncoding:
    """Each record publishes a value, or a value of each column."""
    return ValueEncoding(np.arange(math.prod(design.sizes)))


def write_manual_sql(design: Design, naming: Naming, /) -> str:
    """Writes the closed form for the first sensitive column."""
    return format_closed_form(naming, design.domains[0], design.group_size, make_encoding(design).FILES[0])


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The variance of the closed form: contrast noise (without the shared part) and noise of the total."""
    if len(plan.columns) > 1:
        return np.full(plan.histogram.domain_size, np.nan)
    value_counts = np.array(plan.histogram.counts, dtype=np.float64)
    return leak_matrix.compute_closed_variances(value_counts, plan.group_size, plan.creation, rows, counts)


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The error of the default count if records publish each value as often as they truly have it."""
    if len(plan.columns) > 1:
        return np.full(len(sets), np.nan)
    published_design, value_counts = make_design(plan), np.array(plan.histogram.counts, dtype=np.float64)
    tally = Tally.of_symbols(share * value_counts).attach_context(Tally.of_symbols(value_counts), None)
    estimates = METHODS[choose_estimator(published_design)].count(published_design, tally, sets)
    true_counts = [share * value_counts[places].sum() for places in sets]
    return np.array(
        [
            (estimate.base + estimate.slope * count).item()
            for estimate, count in zip(estimates, true_counts, strict=True)
        ]
    )


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the groups. Gives the likelihood ratio of each value, and the amplification of noise in its counts."""
    columns = [_describe_column(column, plan.group_size) for column in plan.columns]
    return {
        "group_size": plan.group_size,
        "creation": plan.creation.value,
        "groups": plan.columns[0].groups.group_count,
        **(columns[0] if len(columns) == 1 else {"columns": columns, **_compute_products(plan)}),
        "accurate_count": find_accurate_count(plan.group_size, ERROR, RISK),
        "accurate_count_by_chebyshev": find_chebyshev_count(plan.group_size, ERROR, RISK),
        "small_count_error_probability": float(compute_error_probability(SMALL_COUNT, plan.group_size, SMALL_ERROR)),
    }


def _describe_column(column: GroupedColumn, group_size: int) -> Json:
    total = sum(column.counts)
    present = [(name, count) for name, count in zip(make_labels(column.values), column.counts, strict=True) if count]
    noise = {name: float(likelihood_ratios.compute_amplification(count, total, group_size)) for name, count in present}
    return {
        "likelihood_ratio": {
            name: float(likelihood_ratios.compute_likelihood_ratio(count, total, group_size)) for name, count in present
        },
        # JSON has no infinity: a value in every group has no finite amplification.
        "amplification": {value: factor if math.isfinite(factor) else None for value, factor in noise.items()},
    }


def _compute_products(plan: Plan) -> Json:
    """The worst case over all combinations of the columns' values, in which the likelihood ratios multiply."""
    ratios, noises = [], []
    for column in plan.columns:
        total = sum(column.counts)
        present = [count for count in column.counts if count]
        ratios.append(
            float(max(likelihood_ratios.compute_likelihood_ratio(count, total, plan.group_size) for count in present))
        )
        noises.append(
            float(min(likelihood_ratios.compute_amplification(count, total, plan.group_size) for count in present))
        )
    return {"largest_joint_likelihood_ratio": math.prod(ratios), "least_joint_amplification": math.prod(noises)}


def summarize(plan: Plan, /) -> str:
    """The groups and the accuracy of their counts, in one line."""
    accurate = find_accurate_count(plan.group_size, ERROR, RISK)
    groups = f"{plan.columns[0].groups.group_count:,} groups of {plan.group_size} or {plan.group_size + 1} records"
    return f"{groups}; if at least {accurate:,} people have a value, their number is accurate within 10%"


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes values too frequent to be counted under a condition, and values too rare to be protected."""
    notices = [
        notices
        for column in plan.columns
        for notices in (*_warn_frequent_values(column, plan), *_warn_rare_values(column, plan))
    ]
    if plan.creation is GroupCreation.ANATOMY:
        sentence = (
            "groups of the kind 'anatomy' always combine the same values, and anyone can recompute them. Counts "
            "under a condition have no interval. Use such groups for comparisons, not for a publication."
        )
        notices.append(Notice("groups-recomputable", sentence))
    if len(plan.columns) > 1:
        products = _compute_products(plan)
        product_sentence = (
            "each sensitive column is protected on its own. If columns are related, their likelihood ratios "
            "multiply, so the odds of a combination of values can rise by a factor of up to "
            f"{format_upper_factor(products['largest_joint_likelihood_ratio'])}. The noise in counts of combinations "
            "grows "
            f"by a factor of at least {products['least_joint_amplification']:.3g}."
        )
        notices.append(Notice("columns-multiply", product_sentence, numbers=products))
    counts = SELECTED_SHARE * np.array(plan.histogram.counts, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # there is no prediction for several columns
        errors = np.sqrt(predict_variances(plan, np.full(len(counts), counts.sum()), counts))
    return [*notices, *describe_shrunk_gain(counts, errors)]


def _warn_frequent_values(column: GroupedColumn, plan: Plan) -> list[Notice]:
    total = sum(column.counts)
    frequent_values = [
        value
        for value, count in zip(column.values, column.counts, strict=True)
        if plan.group_size * count > NEAR_LIMIT * total
    ]
    if not frequent_values:
        return []
    sentence = (
        f"these values are in more than {float(NEAR_LIMIT):.0%} of the groups, so they can hardly be counted under a "
        f"condition: {format_values(frequent_values)}. Use smaller groups if you need such counts."
    )
    return [Notice("hardly-countable", sentence, numbers={"values": len(frequent_values)})]


def _warn_rare_values(column: GroupedColumn, plan: Plan) -> list[Notice]:
    total = sum(column.counts)
    ratios = {
        value: likelihood_ratios.compute_likelihood_ratio(count, total, plan.group_size)
        for value, count in zip(column.values, column.counts, strict=True)
        if count
    }
    worst = max(ratios, key=lambda value: ratios[value])
    sentence = (
        f"if {display(worst)!r} is published for a person, the odds that the person has this value rise "
        f"by a factor of {format_upper_factor(ratios[worst])}. The rarer a value is, the more its publication "
        "discloses."
    )
    notices = [Notice("rare-values-tell", sentence, numbers={"largest_likelihood_ratio": float(ratios[worst])})]
    if plan.ratio_limit is None:
        return notices
    rare_values = [value for value, ratio in ratios.items() if ratio > plan.ratio_limit]
    if not rare_values:
        return []
    sentence = (
        f"these values have a likelihood ratio above {plan.ratio_limit}: {format_values(rare_values)}. Merge rare "
        "values (`rare='merge'`) or leave them blank (`rare='suppress'`)."
    )
    numbers: dict[str, NoticeNumber] = {"values": len(rare_values), "ratio_limit": str(plan.ratio_limit)}
    return [*notices, Notice("above-ratio-limit", sentence, numbers=numbers)]


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> list[Floats]:
    """The likelihood of each record.

    It is one over the group size for the published value, and the leak for each other value.
    """
    pairs = zip(plan.columns, split_codes(np.asarray(records.values), plan.sizes), strict=True)
    published_design = make_design(plan)
    return [
        _compute_leaks(published_design, np.array(column.counts), published_codes) for column, published_codes in pairs
    ]


def compute_published_likelihoods(
    design: Design, release_codes: Codes, true_codes: Codes, rows: Indices, /
) -> list[Floats]:
    """The likelihood of each record, from the design and the frequencies of the values."""
    pairs = zip(
        split_codes(release_codes[rows], design.sizes), split_codes(true_codes, design.sizes), design.sizes, strict=True
    )
    return [
        _compute_leaks(design, np.bincount(own_codes, minlength=size), published_codes)
        for published_codes, own_codes, size in pairs
    ]


def _compute_leaks(design: Design, value_counts: Counts, published_codes: Codes) -> Floats:
    """The leaks. For mixed groups they are averages; an attacker with the frequencies recomputes other groups."""
    if design.creation is not GroupCreation.MIXED:
        return recompute_distribution(value_counts, design.group_size, design.creation).average(
            np.eye(len(value_counts))
        )[published_codes]
    likelihoods = np.repeat(
        EvenDistribution(value_counts / value_counts.sum(), design.group_size).leaks.take(published_codes)[:, None],
        len(value_counts),
        axis=1,
    )
    likelihoods[np.arange(len(published_codes)), published_codes] = 1 / design.group_size
    return likelihoods


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    size = design.group_size
    several = (
        "This guarantee holds for each sensitive column alone. If an attacker uses several columns of a person, "
        "their effects on the odds multiply."
    )
    return GuaranteeStatement(
        f"An attacker who knows only how frequent the values are gives a probability of at most 1/{size} that a "
        "published value is the person's own value.",
        f"Every record was put into a group of at least {size} records with different values. The record publishes "
        "one of these values, drawn at random. The groups are not published. An attacker who knows how frequent the "
        f"values are, and nothing else about a person, gives a probability of at most 1/{size} that the published "
        "value is the person's own value.",
        (
            "Other knowledge is not covered. If an attacker already suspects that a person has a rare value, and "
            "this value is published for the person, the attacker may become nearly certain.",
            "If a value is published, at least one person in the table has it.",
            f"If at least {find_accurate_count(size, ERROR, RISK):,} people have a value, the error of their "
            "estimated number "
            f"is below {float(ERROR):.0%} with a probability of {1 - float(RISK):.0%}. Smaller numbers are "
            "unreliable by design.",
            *([several] if len(design.domains) > 1 else []),
        ),
    )


MECHANISM = Mechanism(
    name=NAME,
    guarantee=Guarantee.DECOYS_ONLY,
    request=DecoyGroups,
    options=Options,
    plan=plan,
    perturb=perturb,
    make_design=make_design,
    read_design=read_design,
    make_encoding=make_encoding,
    estimators=METHODS,
    state_guarantee=state_guarantee,
    uses_slots=True,
    estimation_rules=EstimationRules(
        choose_estimator=choose_estimator, propose_estimator=propose_estimator, write_manual_sql=write_manual_sql
    ),
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    release_error_prediction=ReleaseErrorPrediction(
        predict_record_variances=lambda design, _: leak_matrix.compute_even_variances(design.sizes, design.group_size)
    ),
    explanation=PlanExplanation(
        explain=explain,
        summarize=summarize,
        list_remarks=list_remarks,
        remark_codes=(
            "hardly-countable",
            "rare-values-tell",
            "above-ratio-limit",
            "groups-recomputable",
            "columns-multiply",
            "shrunk-is-closer",
        ),
        value_columns=(
            ValueColumn("amplification", "noise in counts grows by", format_factor),
            ValueColumn("likelihood_ratio", "odds rise by, if published", format_factor),
        ),
    ),
    attack_model=AttackModel(
        compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
    ),
    comparability=Comparability(
        match_posterior=DecoyGroups.from_posterior, read_request=lambda design: DecoyGroups(design.group_size)
    ),
    coarsening=Coarsening(merge_rare_values=merge_rare_values),
    several_columns=SeveralColumns(max_combinations=MOST_COMBINATIONS),
)
