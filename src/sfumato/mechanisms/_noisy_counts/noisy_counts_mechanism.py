"""Noisy counts: people with equal public columns publish their counts together, with noise that adds up to zero.

Claim: for every attacker and every statement about a person's value, the odds rise and fall by at most the
amplification, compared with what the attacker concludes from the counts read as if that person had not been counted.
For attackers who know all other people, or who think that people's values are independent, this is what they knew
before the release. People outside crowds publish sets with the same amplification.
Source: the geometric mechanism (Ghosh, Roughgarden and Sundararajan 2009) with a fixed sum, which is the K-norm
mechanism (Hardt and Talwar 2010) on whole numbers.
Published: the domain, the bound, the probability ratio of the noise, the size of the smallest crowd, and the design of
the sets. Coarse tables publish their columns and the ratio of their noise. None of these depends on the counts of the
original table.
Notation: m = domain_size, r = ratio = 1/γ, γ = amplification, n = people of a crowd, h = true counts, y = noisy counts,
z = y - h = noise; P(z) is proportional to r^d, where d is the number of units that z moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats, Indices, Mask, UInts
from sfumato._core.cell_values import Value
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import option
from sfumato._core.random_draws import Draws
from sfumato._figures.number_format import format_upper_percent
from sfumato._records import PerturbedRecords
from sfumato._records.count_tables import MOST_COARSE_TABLES
from sfumato._records.crowd_lines import MOST_COUNTS, CrowdTable, make_too_many_counts_error
from sfumato._records.crowd_records import CrowdEncoding
from sfumato._records.tally import SideContents
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice, NoticeNumber
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._noisy_counts.budget_shares import CoarseShare, divide_budget, parse_shares
from sfumato.mechanisms._noisy_counts.clamped_estimation import estimate_counts
from sfumato.mechanisms._noisy_counts.coarse_gains import list_gains
from sfumato.mechanisms._noisy_counts.crowd_attack_model import (
    compute_count_likelihoods,
    list_moved_probabilities,
    list_noise_probabilities,
)
from sfumato.mechanisms._noisy_counts.crowd_estimators import METHODS
from sfumato.mechanisms._noisy_counts.crowd_size import (
    compute_subset_variance,
    find_equal_accuracy,
    find_smallest_crowd,
    predict_error_ratio,
)
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import PURPOSE, FixedSumNoise
from sfumato.mechanisms._noisy_counts.guarantee_in_words import state_counted_guarantee
from sfumato.mechanisms._noisy_counts.predicted_variance import PeopleByCrowd
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    check_several,
    describe_odds_factor,
    format_ratio,
)
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.capabilities import (
    AttackModel,
    CoarseCounts,
    Comparability,
    CrowdAttackModel,
    CrowdCounts,
    ErrorPrediction,
    EstimationWeights,
    PlanExplanation,
    PlanTable,
    ReleaseErrorPrediction,
    WeightColumns,
)
from sfumato.mechanisms.mechanism import Mechanism, make_design_error

NAME = "noisy-counts"
LARGEST_CROWD_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class Options:
    """The options for the size of the smallest crowd, and for coarse tables."""

    smallest_crowd: int | None = option(
        None,
        "smallest_crowd",
        "Publish counts where at least N people have equal public columns (default: the size with the least error).",
        metavar="N",
        minimum=2,
    )
    also_by: str | None = option(
        None,
        "also_by",
        "Also count everybody by these columns, with this share of the budget; separate tables with semicolons.",
        metavar="COL,COL=SHARE",
    )

    def __post_init__(self) -> None:
        self.list_coarse_shares()  # refuses what cannot be read

    def list_coarse_shares(self) -> tuple[CoarseShare, ...]:
        """The coarse tables, each with its share of the budget."""
        return () if self.also_by is None else parse_shares(self.also_by)


@dataclass(frozen=True, slots=True)
class CoarseNoise:
    """The columns and the noise of a coarse table, which counts all people by some of the public columns."""

    columns: tuple[str, ...]
    noise: FixedSumNoise

    def to_json(self) -> Json:
        """Writes the table as JSON."""
        return {"columns": list(self.columns), "ratio": str(self.noise.ratio)}


@dataclass(frozen=True, slots=True)
class Plan:
    """The noise of the counts, the smallest crowd, the sets of people outside crowds, and the coarse tables."""

    histogram: Histogram
    noise: FixedSumNoise
    smallest_crowd: int
    sets: subset.Plan
    coarse: tuple[CoarseNoise, ...] = ()

    @property
    def crowd_amplification(self) -> Fraction:
        """The factor of the counts of crowds. Without coarse tables it is that of the bound."""
        return 1 / self.noise.ratio


@dataclass(frozen=True, slots=True)
class Design:
    """The published part of a plan."""

    noise: FixedSumNoise
    smallest_crowd: int
    sets: subset.Design
    coarse: tuple[CoarseNoise, ...] = ()

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values that the sensitive column may have."""
        return self.sets.domain

    @property
    def bound(self) -> BreachBound:
        """The bound of the guarantee."""
        return self.sets.bound

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        entries = {key: entry for key, entry in self.sets.to_json().items() if key != "form"}
        coarse = {"also_by": [table.to_json() for table in self.coarse]} if self.coarse else {}
        return {**entries, "ratio": str(self.noise.ratio), "smallest_crowd": self.smallest_crowd, **coarse}


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: BreachBound, options: Options, draws: Draws, /) -> Plan:
    """Chooses the smallest crowd from the bound and the size of the domain. The choice uses no count."""
    check_several(histogram)
    _check_column(histogram)
    shares = options.list_coarse_shares()
    factor, coarse_factors = divide_budget(spec.amplification, shares)
    sets = subset.plan(histogram, BreachBound.from_odds(factor) if shares else spec, subset.Options(), draws)
    (own, *_), (other, *_) = subset.predict_record_variances(subset.make_design(sets))
    size = histogram.domain_size
    smallest = options.smallest_crowd or find_smallest_crowd(size, factor, float(own), float(other))
    coarse = tuple(
        CoarseNoise(share.columns, FixedSumNoise(size, 1 / coarse_factor))
        for share, coarse_factor in zip(shares, coarse_factors, strict=True)
    )
    _check_size(histogram, smallest)
    return Plan(histogram, FixedSumNoise(size, 1 / factor), smallest, replace(sets, bound=spec), coarse)


def _check_column(histogram: Histogram) -> None:
    """Refuses several columns, a domain from the table, and counts without public columns."""
    if histogram.axes or isinstance(histogram.values[0], tuple):
        raise InfeasibleError(
            "noisy counts protect one sensitive column; choose one column, or publish records (`records=True`).",
            code="counts-of-several-columns",
        )
    if not histogram.is_declared:
        raise InfeasibleError(
            "noisy counts need the list of all possible values, "
            "because even values that nobody has get a count. "
            "Declare the list (`domains=`), or publish records (`records=True`).",
            code="counts-without-domain",
        )


def _check_size(histogram: Histogram, smallest_crowd: int) -> None:
    """Refuses tables with too many counts, if the sizes of the groups show this."""
    crowds = sum(classes for size, classes in histogram.class_sizes if size >= smallest_crowd)
    if crowds * histogram.domain_size > MOST_COUNTS:
        raise make_too_many_counts_error(crowds, histogram.domain_size)


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Draws a set for each record outside crowds."""
    return subset.perturb(plan.sets, codes, slots, draws, first_row)


def is_crowd(plan: Plan, people: Counts, /) -> Mask:
    """Whether groups of these sizes publish counts."""
    return people >= plan.smallest_crowd


def draw_noise(plan: Plan, first_crowd: int, crowds: int, draws: Draws, /) -> Counts:
    """The noise of each value (columns) in some crowds (rows). It does not depend on any record."""
    return plan.noise.draw(draws, first_crowd, crowds)


def list_coarse_counts(plan: Plan, /) -> list[CoarseCounts]:
    """The coarse tables.

    Each has its own draws, because the difference of two tables with equal noise would be exact.
    """
    return [
        CoarseCounts(
            table.columns,
            partial(_draw_coarse_noise, table.noise, f"{PURPOSE}/also/{number}"),
            partial(estimate_counts, table.noise),
        )
        for number, table in enumerate(plan.coarse, 1)
    ]


def _draw_coarse_noise(noise: FixedSumNoise, purpose: str, first_group: int, groups: int, draws: Draws, /) -> Counts:
    return noise.draw(draws, first_group, groups, purpose)


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan, which does not depend on the counts."""
    return Design(plan.noise, plan.smallest_crowd, subset.make_design(plan.sets), plan.coarse)


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    sets = subset.read_design({**design_json, "form": subset.Form.BITS.value}, types)
    ratio = parse_exact(design_json["ratio"], "the probability ratio of the noise")
    smallest = design_json["smallest_crowd"]
    if not 0 < ratio < 1 or type(smallest) is not int or not 2 <= smallest <= LARGEST_CROWD_LIMIT:  # noqa: PLR2004
        raise make_design_error("the design's noise or smallest crowd is out of range.", "noise")
    coarse = tuple(_read_coarse_noise(entry, len(sets.domain)) for entry in design_json.get("also_by", ()))
    if len(coarse) > MOST_COARSE_TABLES or len({frozenset(table.columns) for table in coarse}) < len(coarse):
        raise make_design_error("the design has too many coarse tables, or one of them twice.", "coarse-tables")
    # the ratio for people in a crowd, and the ratio for all others
    smallest_ratio = min(ratio, 1 / sets.selection.amplification)
    if prod((table.noise.ratio for table in coarse), start=smallest_ratio) * sets.bound.amplification < 1:
        raise make_design_error("the design has less noise than its bound needs.", "noise")
    return Design(FixedSumNoise(len(sets.domain), Fraction(ratio)), smallest, sets, coarse)


def _read_coarse_noise(entry: JsonView, size: int) -> CoarseNoise:
    columns, ratio = entry["columns"], parse_exact(entry["ratio"], "the probability ratio of a coarse table")
    is_list = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    if not is_list or not columns or len(set(columns)) < len(columns) or not 0 < ratio < 1:
        raise make_design_error("a coarse table of the design has invalid columns or noise.", "coarse-tables")
    return CoarseNoise(tuple(columns), FixedSumNoise(size, ratio))


def make_encoding(design: Design, /) -> CrowdEncoding:
    """Crowds publish counts, and all other people publish sets."""
    return CrowdEncoding(
        len(design.domain),
        coarse_columns=tuple(table.columns for table in design.coarse),
        coarse_variances=tuple(table.noise.rounded_variance for table in design.coarse),
    )


def make_weights(design: Design, /) -> WeightColumns:
    """What a row outside crowds adds to the unbiased count of a value."""
    return subset.make_weights(design.sets)


# ----------------------------------------------------------------------------------------------------------- predicting


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The variance of a count in a random part of the groups of people with equal public columns."""
    people = PeopleByCrowd.of(plan.noise, plan.smallest_crowd, plan.histogram.class_sizes)
    outside = subset.predict_variances(plan.sets, rows, counts)
    return people.share_outside * outside + (1 - people.share_outside) * people.crowd_variance * rows


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The variance of the count of each set of values, if a share of the records of every value is counted."""
    people = PeopleByCrowd.of(plan.noise, plan.smallest_crowd, plan.histogram.class_sizes)
    size, rows = plan.noise.size, share * plan.histogram.total
    wanted = np.array([len(values) for values in sets], dtype=np.float64)
    inside = rows * people.crowd_variance * wanted * (size - wanted) / (size - 1)
    outside = subset.predict_set_variances(plan.sets, share, sets)
    return np.asarray(people.share_outside * outside + (1 - people.share_outside) * inside)


def predict_record_variances(design: Design, contents: SideContents | None = None, /) -> tuple[Floats, Floats] | None:
    """The variance that one person adds on average, the same for every value."""
    if not isinstance(contents, CrowdTable):
        return None
    sizes, classes = np.unique(contents.people, return_counts=True)
    class_sizes = tuple(zip(sizes.tolist(), classes.tolist(), strict=True))
    people = PeopleByCrowd.of(design.noise, 0, class_sizes, contents.people_outside)
    own, other = subset.predict_record_variances(design.sets)
    return np.array([people.average(each) for each in own]), np.array([people.average(each) for each in other])


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the noise, the crowds and the sets, in JSON."""
    return {
        "smallest_crowd": plan.smallest_crowd,
        "people_in_crowds": sum(
            size * classes for size, classes in plan.histogram.class_sizes if size >= plan.smallest_crowd
        ),
        "ratio": format_ratio(plan.noise.ratio),
        "subset_size": plan.sets.subset_size,
        "amplification": format_ratio(plan.sets.bound.amplification),
        **({"also_by": [table.to_json() for table in plan.coarse]} if plan.coarse else {}),
    }


def summarize(plan: Plan, /) -> str:
    """Describes the counts in one line."""
    also = "".join(f", and of everybody by {', '.join(table.columns)}" for table in plan.coarse)
    factor = describe_odds_factor(plan.sets.bound.amplification)
    return f"counts of groups of at least {plan.smallest_crowd} people{also}; {factor}"


def list_tables(plan: Plan, /) -> list[PlanTable]:
    """The errors of counts with and without the coarse tables."""
    return list_gains(
        plan.histogram, plan.sets.bound.amplification, plan.crowd_amplification, plan.smallest_crowd, plan.coarse
    )


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes the ways to use the gain in accuracy, and the tables that the attacks do not use."""
    return [*_compare_with_records(plan), *([NOT_ATTACKED] if plan.coarse else [])]


NOT_ATTACKED = Notice(
    "coarse-tables-not-attacked",
    "the attackers of sfumato do not use the coarse tables, so their success is understated. The guarantee covers all "
    "tables together. To see attackers who use the whole bound, plan without coarse tables (leave out `also_by=`).",
)


def _compare_with_records(plan: Plan) -> list[Notice]:
    """The two ways to use the gain in accuracy: less error at this bound, or the same error at a stricter bound."""
    class_sizes, bound, size = dict(plan.histogram.class_sizes), plan.sets.bound, plan.noise.size
    if not class_sizes:
        return []
    set_variance = compute_subset_variance(size, plan.crowd_amplification)
    ratio = predict_error_ratio(plan.noise, set_variance, class_sizes, plan.smallest_crowd)
    ratio *= math.sqrt(set_variance / compute_subset_variance(size, bound.amplification))
    factor = find_equal_accuracy(size, bound.amplification, class_sizes) ** bound.rows
    posterior = factor * bound.prior / (1 - bound.prior + factor * bound.prior)
    smaller_error = f"the error of a count is about {ratio:.2f} times what it would be with one record for each person"
    if plan.coarse:  # the stricter bound would be without them
        sentence = f"where no coarse table helps, {smaller_error}. The tables of standard errors show where they help."
        return [Notice("counts-published", sentence, None, {"error_ratio": ratio})]
    if posterior >= bound.posterior:
        return [Notice("counts-published", f"{smaller_error}.", None, {"error_ratio": ratio})]
    rounded = format_upper_percent(posterior)
    sentence = (
        f"{smaller_error}, at the same bound. Or keep the error of records at a stricter bound: a confidence of "
        f"{bound.prior} could rise to only {rounded} instead of {bound.posterior} "
        f"(`posterior={float(posterior):.3f}`)."
    )
    numbers: dict[str, NoticeNumber] = {"error_ratio": ratio, "posterior": float(posterior)}
    return [Notice("counts-published", sentence, None, numbers)]


MECHANISM = Mechanism(
    name=NAME,
    guarantee=Guarantee.ANY_PRIOR_COUNTED,
    request=BreachBound,
    options=Options,
    plan=plan,
    perturb=perturb,
    make_design=make_design,
    read_design=read_design,
    make_encoding=make_encoding,
    estimators=METHODS,
    state_guarantee=lambda design: state_counted_guarantee(
        design.bound, design.smallest_crowd, design.sets, [table.columns for table in design.coarse]
    ),
    covers_predicates=True,
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    release_error_prediction=ReleaseErrorPrediction(predict_record_variances=predict_record_variances),
    explanation=PlanExplanation(
        explain=explain,
        summarize=summarize,
        list_remarks=list_remarks,
        remark_codes=("counts-published", "coarse-tables-not-attacked"),
        list_tables=list_tables,
    ),
    comparability=Comparability(
        match_posterior=lambda bound, values: bound, read_request=lambda design: design.bound.belief_bound
    ),
    estimation_weights=EstimationWeights(make_weights=make_weights),
    crowd_counts=CrowdCounts(
        is_crowd=is_crowd,
        draw_noise=draw_noise,
        estimate=lambda plan, people, noisy: estimate_counts(plan.noise, people, noisy),
        list_coarse_columns=lambda options: [share.columns for share in options.list_coarse_shares()],
        list_coarse_counts=list_coarse_counts,
    ),
    attack_model=AttackModel(
        compute_likelihoods=lambda plan, records: subset.compute_likelihoods(plan.sets, records),
        compute_published_likelihoods=lambda design, published, true_codes, rows: subset.compute_published_likelihoods(
            design.sets, published, true_codes, rows
        ),
    ),
    crowd_attack_model=CrowdAttackModel(
        list_noise_probabilities=lambda design: list_noise_probabilities(design.noise),
        list_moved_probabilities=lambda design: list_moved_probabilities(design.noise),
        compute_count_likelihoods=lambda design, residuals: compute_count_likelihoods(design.noise, residuals),
    ),
)
