"""Small domain randomization: divides the records into sub-tables of few values, and perturbs each separately.

Claim: take a value whose share of the table is at most the prior, and an attacker who knows only how the values are
distributed in the record's sub-table. After seeing the record's sub-table and published value, this attacker gives the
value a probability of at most the posterior. The claim holds for this one prior. It does not cover knowledge of other
columns, other people or other records of the sub-table (which add a little in small sub-tables). It does not cover
statements about several values, or falling probabilities.
Source: Chaytor and Wang, "Small Domain Randomization", and the thesis that follows it. The thesis claims more, but this
does not hold (docs/errata.md): for an attacker who knows each person's sex, the bound is broken for a quarter of the
records of a census table.
Published: the domain, the bound, and for each sub-table its values, its retention and the prior of the retention. This
prior is the largest share of a protected value in the sub-table. The claim assumes that the attacker knows these
shares. The counts of the sub-tables are published only on request.
Notation: ρ1 = prior, ρ2 = posterior, T_i = cell, ρ1i = the cell's prior, γ_i = its amplification, p_i = its retention,
θ = balance, w_i(x) = the share of the records with value x that is in cell i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from operator import index

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats, Indices, UInts
from sfumato._core.cell_values import Value, display, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import option
from sfumato._core.random_draws import Draws
from sfumato._records import PerturbedRecords
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.errors import InfeasibleError, InternalError, ReleaseFormatError
from sfumato.mechanisms._randomized_response import known_group_risk as belief
from sfumato.mechanisms._randomized_response.estimation_weights import OperatorWeights
from sfumato.mechanisms._randomized_response.estimators import SEVERAL_CELLS
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    BOUND_RISK,
    describe_sub_table,
    state_marginal_prior,
    summarize_sub_tables,
)
from sfumato.mechanisms._randomized_response.inverse_estimation import (
    compute_flat_variance,
    compute_published_likelihoods,
    estimate_shares,
)
from sfumato.mechanisms._randomized_response.perturbation_operators import (
    Cell,
    Operator,
    RetentionDraws,
    compute_retention,
    split_outcomes,
)
from sfumato.mechanisms._randomized_response.small_domain import merging
from sfumato.mechanisms._randomized_response.small_domain.balancing import Group, balance, find_protected_places
from sfumato.mechanisms._randomized_response.small_domain.sub_table_planning import (
    CellLayout,
    describe_groups,
    make_groups_table,
    rearrange_groups,
)
from sfumato.mechanisms.capabilities import (
    AttackModel,
    Comparability,
    ErrorPrediction,
    EstimationWeights,
    GroupRisk,
    PlanExplanation,
    PlanTable,
    Risk,
    WeightColumns,
)
from sfumato.mechanisms.mechanism import Mechanism, PlanRules, make_design_error

NAME = "small-domain"

USUAL_MINIMUM = 1000
"""Smaller sub-tables are merged.

In a small sub-table, knowing the values of some people reveals much about the others.
"""


class Merge(StrEnum):
    """What merging minimises: the variance of counts, or the error bound of the paper."""

    VARIANCE = "variance"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of merging: the aim, the smallest sub-table, and whether the counts are published."""

    merge: Merge = Merge.VARIANCE
    """The aim of merging. Only reproductions of papers set another aim."""
    min_cell: int | None = option(
        None, "min_cell", "The smallest number of records in a sub-table (1000).", metavar="N", minimum=0
    )
    publish_shares: bool = option(
        False, "publish_shares", "Publish the counts of the sub-tables; the estimators gls and em need them."
    )

    @property
    def minimum(self) -> int:
        """The size of the smallest sub-table, as requested or by default."""
        if self.min_cell is not None:
            return self.min_cell
        return USUAL_MINIMUM if self.merge is Merge.VARIANCE else 0


@dataclass(frozen=True)
class Plan:
    """The sub-tables with their exact counts."""

    histogram: Histogram
    bound: BreachBound
    options: Options
    balance: int
    protected_places: tuple[int, ...]
    groups: tuple[Group, ...]
    """The groups that balancing made."""
    parts: tuple[merging.Part, ...]
    """The groups of each sub-table, in their order."""
    cells: tuple[merging.CountedCell, ...]

    @cached_property
    def outcome_splits(self) -> tuple[tuple[int, int], ...]:
        """How the outcomes of the draw are divided, for each sub-table."""
        return tuple(split_outcomes(cell.domain_size, self._compute_amplification(cell)) for cell in self.cells)

    def _compute_amplification(self, cell: merging.CountedCell) -> Fraction:
        amplification = cell.compute_amplification(self.bound.posterior)
        if amplification is None:
            raise InternalError("a sub-table has no protected value.", code="nothing-protected")
        return amplification

    @cached_property
    def layout(self) -> CellLayout:
        """The sub-table for each slot of each value."""
        return CellLayout(tuple(cell.counts for cell in self.cells))

    @cached_property
    def retention_draws(self) -> RetentionDraws:
        """The retention of each sub-table, as draws."""
        return RetentionDraws.of(self.outcome_splits, [cell.domain_size for cell in self.cells])

    @cached_property
    def shares(self) -> Floats:
        """The share of each value's records in each sub-table."""
        operator = self.design.operator
        counts = np.array([cell.counts for cell in self.cells], dtype=np.float64)
        return estimate_shares(operator, counts[operator.cells, operator.places])

    @cached_property
    def design(self) -> Design:
        """The sub-tables, without their counts unless the data steward publishes them."""
        cells = []
        for cell, outcome_split in zip(self.cells, self.outcome_splits, strict=True):
            counts = tuple(cell.counts[place] for place in cell.places) if self.options.publish_shares else None
            retention = compute_retention(outcome_split, cell.domain_size)
            cells.append(PublishedCell(cell.places, retention, cell.prior or Fraction(0), counts))
        return Design(self.histogram.values, self.bound, tuple(cells))


@dataclass(frozen=True)
class PublishedCell:
    """A published sub-table with its values, its retention, its prior, and perhaps its counts."""

    places: tuple[int, ...]
    retention: Fraction
    prior: Fraction
    counts: tuple[int, ...] | None

    @property
    def amplification(self) -> Fraction:
        """The likelihood of a published value if it is true, divided by that if another value is true."""
        swap = (1 - self.retention) / len(self.places)
        return (self.retention + swap) / swap

    def to_json(self) -> Json:
        """Writes the sub-table as JSON."""
        entry = {"places": list(self.places), "prior": str(self.prior), "retention": str(self.retention)}
        return entry if self.counts is None else {**entry, "counts": list(self.counts)}


@dataclass(frozen=True)
class Design:
    """The published part of a plan: the domain, the bound, and the sub-tables."""

    domain: tuple[Value, ...]
    bound: BreachBound
    cells: tuple[PublishedCell, ...]

    @cached_property
    def operator(self) -> Operator:
        """The sub-tables as arrays."""
        return Operator([Cell.from_retention(cell.places, cell.retention) for cell in self.cells], len(self.domain))

    @cached_property
    def cell_shares(self) -> Floats | None:
        """The share of each value's records in each sub-table, if the counts are published."""
        groups = [cell.counts for cell in self.cells]
        if None in groups:
            return None
        counts = [count for cell in self.cells for count in cell.counts or ()]
        return estimate_shares(self.operator, np.array(counts, dtype=np.float64))

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        return {
            "domain": values_to_json(self.domain),
            "prior": str(self.bound.prior),
            "posterior": str(self.bound.posterior),
            "cells": [cell.to_json() for cell in self.cells],
        }


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: BreachBound, options: Options, draws: Draws, /) -> Plan:
    """Balances the records into groups of few values, and merges groups into sub-tables."""
    counts = histogram.counts
    protected = find_protected_places(counts, spec.prior)
    if not protected:
        raise InfeasibleError(
            f"every value that occurs has a share of the records above the prior {spec.prior}, so no value would be "
            "protected; choose a prior above the shares of the values to protect.",
            code="no-value-below-prior",
            fields={"prior": str(spec.prior)},
        )
    balanced = balance(counts, protected)
    groups = balanced.groups
    if options.merge is Merge.PAPER:
        parts = merging.merge_by_bound(groups, rearrange_groups(groups), protected, spec.posterior, options.minimum)
    else:
        parts = merging.merge_by_variance(groups, protected, spec.posterior, options.minimum)
    cells = tuple(merging.merge_groups([groups[number] for number in part], protected) for part in parts)
    draft_plan = Plan(histogram, spec, options, balanced.balance, protected, groups, parts, cells)
    if not all(keep for keep, _ in draft_plan.outcome_splits):
        raise InfeasibleError(
            f"the posterior {spec.posterior} is too close to the share of a value in its sub-table: no value could "
            "ever be kept, so nothing could be counted. Allow a larger posterior.",
            code="posterior-too-close",
            fields={"posterior": str(spec.posterior)},
        )
    return draft_plan


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Finds the sub-table of each record by its slot, and perturbs it among the values of that sub-table."""
    if slots is None:
        raise InternalError("small-domain needs the slots of the records.", code="no-slots")
    operator = plan.design.operator
    cells = plan.layout.find_cells(codes, slots)
    is_kept, swapped = plan.retention_draws.draw(draws.get_stream(f"{NAME}/coins"), first_row, cells)
    redrawn_codes = operator.places.take(operator.first_entries.take(cells) + swapped).astype(codes.dtype)
    return PerturbedRecords(np.where(is_kept, codes, redrawn_codes), cells)


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan."""
    return plan.design


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    domain = values_from_json(design_json["domain"], types)
    bound = BreachBound(design_json["prior"], design_json["posterior"])
    cells = tuple(_read_cell(cell, len(domain), bound) for cell in design_json["cells"])
    if len(set(domain)) != len(domain) or not 0 < len(cells) <= len(domain) + 1:  # balancing never makes more groups
        raise make_design_error("the design's domain or sub-tables are out of range.", "cells")
    return Design(domain, bound, cells)


def _read_cell(cell_json: JsonView, domain_size: int, bound: BreachBound) -> PublishedCell:
    counts = cell_json.get("counts")
    cell = PublishedCell(
        tuple(index(place) for place in cell_json["places"]),
        parse_exact(cell_json["retention"], "the retention of a sub-table"),
        parse_exact(cell_json["prior"], "the prior of a sub-table"),
        None if counts is None else tuple(index(count) for count in counts),
    )
    places = set(cell.places)
    if len(places) != len(cell.places) or len(places) < 2 or not places <= set(range(domain_size)):  # noqa: PLR2004
        raise make_design_error("a sub-table of the design has values out of range.", "values")
    if not 0 < cell.retention < 1 or not 0 < cell.prior < bound.posterior:
        raise make_design_error("a sub-table of the design has a retention or a prior out of range.", "retention")
    if cell.counts is not None and (len(cell.counts) != len(places) or min(cell.counts) < 1):
        raise make_design_error("a sub-table of the design has counts out of range.", "counts")
    if cell.amplification > BreachBound(cell.prior, bound.posterior).amplification:
        raise ReleaseFormatError(
            "a sub-table's retention is higher than its bound allows, so its guarantee does not hold.",
            code="design-breaks-bound",
        )
    return cell


# ------------------------------------------------------------------------------------------------------------- counting


def make_encoding(design: Design, /) -> ValueEncoding:
    """Each record publishes its sub-table and one value of this sub-table."""
    return ValueEncoding(design.operator.places, design.operator.cells)


def make_weights(design: Design, /) -> WeightColumns:
    """The weights of rows that publish a value, and of rows that publish another value, in its unbiased count.

    A row of a sub-table without the value adds nothing, so such sub-tables have no line.
    """
    operator = design.operator
    return {
        "cell": operator.cells.astype(np.int32),
        "value": operator.places,
        "if_equal": (1 - operator.swap) / operator.retention,
        "otherwise": -operator.swap / operator.retention,
    }


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The exact variance of a count of each value, if the rows are spread over the sub-tables like the whole table."""
    operator = plan.design.operator
    sizes = np.array([cell.total for cell in plan.cells], dtype=np.float64)
    cell_rows = rows[operator.places] * (sizes / sizes.sum())[operator.cells]
    base, slope = compute_flat_variance(operator.retention, operator.swap, cell_rows, 1)
    return operator.sum_by_place(base + slope * plan.shares * counts[operator.places])


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The exact variance of the count of each set of values."""
    operator, counts = plan.design.operator, np.array(plan.histogram.counts, dtype=np.float64)
    entry_counts = share * plan.shares * counts[operator.places]
    return OperatorWeights(operator).sum_set_variances(entry_counts, sets, len(counts))


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the sub-tables with their counts and the groups in them, and the error bound of the paper."""
    cells = []
    for cell, published_cell, part in zip(plan.cells, plan.design.cells, plan.parts, strict=True):
        counts = [cell.counts[place] for place in cell.places]
        description = describe_sub_table(
            plan.histogram, cell.places, counts, published_cell.prior, published_cell.retention
        )
        cells.append({**description, "groups": [number + 1 for number in part]})
    return {
        "balance": plan.balance,
        "error_bound": merging.compute_error_bound(plan.cells, plan.bound.posterior),
        "error_bound_risk": BOUND_RISK,
        "groups": describe_groups(plan.histogram, plan.groups, plan.parts),
        "cells": cells,
    }


def list_tables(plan: Plan, /) -> list[PlanTable]:
    """The groups in their order, and the sub-table of each group."""
    return [make_groups_table(plan.groups, plan.parts, merging.compute_error_bound(plan.cells, plan.bound.posterior))]


def summarize(plan: Plan, /) -> str:
    """Describes the sub-tables in one line."""
    return summarize_sub_tables(explain(plan)["cells"])


def fingerprint_plan(plan: Plan, /) -> list[list[int]]:
    """The number of records of each value in each sub-table."""
    return [list(cell.counts) for cell in plan.cells]


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes which limits of the mechanism matter for this plan."""
    notices = []
    posterior = plan.bound.posterior
    occurring = sum(map(bool, plan.histogram.counts))
    protected = {"protected": len(plan.protected_places), "occurring": occurring}
    if len(plan.protected_places) == 1:
        value = plan.histogram.values[plan.protected_places[0]]
        alone = (
            f"only {display(value)!r} has a share of at most the prior {plan.bound.prior}; no other value is protected."
        )
        notices.append(Notice("values-unprotected", alone, numbers=protected))
    elif len(plan.protected_places) < occurring:
        some = (
            f"{len(plan.protected_places)} of the {occurring} values that occur have a share of at most the prior "
            f"{plan.bound.prior}; the other values are not protected."
        )
        notices.append(Notice("values-unprotected", some, numbers=protected))
    if plan.balance == 1 and len(plan.protected_places) > 1:
        lone = (
            "one protected value is more frequent than all other protected values together, so balancing is impossible."
        )
        notices.append(Notice("nothing-balances", lone))
    elif plan.balance > 1 and posterior <= Fraction(1, plan.balance):
        merged = (
            f"the posterior {posterior} is not above 1/{plan.balance}, the share of a value in the smallest groups, "
            "so these groups had to be merged. A larger posterior would allow smaller sub-tables and a smaller error."
        )
        notices.append(Notice("groups-merged", merged, numbers={"posterior": str(posterior), "balance": plan.balance}))
    if len(plan.cells) == 1:
        whole = (
            "a single sub-table with all values has the smallest error here. This is uniform perturbation, but with "
            "a guarantee only against attackers who know the shares of the table. The mechanisms subset and uniform "
            "would cover every attacker."
        )
        notices.append(Notice("one-cell", whole))
    small_totals = [cell.total for cell in plan.cells if cell.total < USUAL_MINIMUM]
    if small_totals:
        few = (
            f"{len(small_totals)} of {len(plan.cells)} sub-tables have fewer than {USUAL_MINIMUM} records (the "
            f"smallest has {min(small_totals)}). An attacker who knows the values of some people in such a sub-table "
            "learns much about the other people in it."
        )
        notices.append(Notice("small-cells", few, numbers={"cells": len(small_totals), "smallest": min(small_totals)}))
    return notices


def measure_group_risk(plan: Plan, groups: Counts, /) -> Risk:
    """The additional risk from a known public column. It can be large, because the guarantee does not cover it."""
    size = plan.histogram.domain_size
    posteriors = np.ones(size)
    posteriors[list(plan.protected_places)] = float(plan.bound.posterior)
    priors = np.full(size, float(plan.bound.prior))
    return belief.measure_risk(plan.design.operator, plan.shares, groups, priors, posteriors)


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of each record, from the retention of its sub-table and the share of each value in it."""
    return (plan.design.operator.compute_likelihoods(plan.shares, np.asarray(records.values), records.cells),)


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    bound, cells = design.bound, design.cells
    sizes = [len(cell.places) for cell in cells]
    width = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return state_marginal_prior(bound, len(cells), width)


MECHANISM: Mechanism[BreachBound, Options, Plan, Design] = Mechanism(
    name=NAME,
    guarantee=Guarantee.MARGINAL_PRIOR,
    request=BreachBound,
    options=Options,
    plan=plan,
    perturb=perturb,
    make_design=make_design,
    read_design=read_design,
    make_encoding=make_encoding,
    estimators=SEVERAL_CELLS,
    state_guarantee=state_guarantee,
    uses_slots=True,
    plan_rules=PlanRules(fingerprint=fingerprint_plan),
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    explanation=PlanExplanation(
        explain=explain,
        summarize=summarize,
        list_remarks=list_remarks,
        remark_codes=("values-unprotected", "nothing-balances", "groups-merged", "one-cell", "small-cells"),
        list_tables=list_tables,
    ),
    attack_model=AttackModel(
        compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
    ),
    group_risk=GroupRisk(measure=measure_group_risk),
    comparability=Comparability(
        match_posterior=lambda bound, values: bound, read_request=lambda design: design.bound.belief_bound
    ),
    estimation_weights=EstimationWeights(make_weights=make_weights),
)
