"""Draws each record at one level of a hierarchy and publishes a set of the groups of that level.

Claim: (prior, posterior)-privacy for every record and every statement about its value, upward and downward, as with
subset selection. The level of a record is drawn independently of its value, and is published. At each level, the odds
between two values rise by at most the amplification. Counts of groups have a much smaller error than with sets of
values alone, and counts of values have a slightly larger error.
Source: subset selection (Ye and Barg 2018, Wang et al. 2016) at each level; the combination of levels is our own.
Published: the domain; the groups of each level, its share of the records, the size of its sets, and the probability
that a set contains the true group; the weight of each level in each count; the bound; the level of each record. Nothing
published depends on the counts of the original table.
Notation: n = groups of a level, d = subset_size, γ = amplification; a = hold, b = other as for subset selection; w =
share, λ = says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as dataclass_replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.json_types import Json
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._records import PerturbedRecords
from sfumato._records.level_set_records import LevelSetEncoding
from sfumato._records.tally import Holdings, SideContents, Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, SpecError
from sfumato.mechanisms._randomized_response.estimation_weights import compute_set_variances, make_weighted_method
from sfumato.mechanisms._randomized_response.estimators import DEFAULT, NO_ASSUMPTION
from sfumato.mechanisms._randomized_response.guarantee_sentences import (
    check_several,
    describe_odds_factor,
    format_ratio,
    state_any_prior,
)
from sfumato.mechanisms._subset_selection.levels.level_options import Options
from sfumato.mechanisms._subset_selection.levels.level_shares import (
    Variances,
    build_tiers,
    compute_contrast_weights,
    compute_level_variances,
    find_best_shares,
    group_by_kind,
)
from sfumato.mechanisms._subset_selection.levels.levels_design import (
    MOST_LEVELS,
    Design,
    Level,
    LevelWeights,
    make_sibling_weights,
    read_design,
)
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection
from sfumato.mechanisms.capabilities import (
    AttackModel,
    Comparability,
    ErrorPrediction,
    EstimationWeights,
    PlanExplanation,
    PlanTable,
    ReleaseErrorPrediction,
    WeightColumns,
)
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments
from sfumato.mechanisms.mechanism import Mechanism, PlanRules

NAME = "levels"

MOST_BITS = 1 << 24
"""The number of bits of the rows that are drawn at once."""

COMPARED_SHARES = (Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
"""For comparison, a plan also shows the errors for these shares of the levels above the values."""


@dataclass(frozen=True)
class Plan:
    """The published design, and the distributions from which sets are drawn."""

    histogram: Histogram
    design: Design
    selections: tuple[SubsetSelection, ...]
    """The sets of each level, with the outcomes of the draw that decide each set."""


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: BreachBound, options: Options, draws: Draws, /) -> Plan:
    """Chooses the requested shares or those with the smallest error, and the best sets of each level."""
    check_several(histogram)
    hierarchy = histogram.hierarchy
    if hierarchy is None:
        raise InfeasibleError(
            "this mechanism draws records at several levels of a hierarchy, but the values have no groups. Declare "
            "them with `hierarchies={'COL': Path('FILE')}`.",
            code="no-hierarchy",
            fields={"mechanism": NAME},
        )
    requested_shares = options.list_shares(hierarchy)
    importance = {} if requested_shares is not None else options.list_importance(hierarchy)
    numbers = list(importance if requested_shares is None else requested_shares)
    groups = [hierarchy.list_group_places(number) for number in numbers]
    _check_levels(hierarchy, numbers, groups)
    selections = tuple(SubsetSelection.from_bound(max(places) + 1, spec) for places in groups)
    level_variances = compute_level_variances(build_tiers(groups), selections)
    shares = (
        find_best_shares(list(importance.values()), level_variances)
        if requested_shares is None
        else list(requested_shares.values())
    )
    if _count_outcomes(shares) > LARGEST_BOUND:
        raise SpecError(
            "the shares of the levels have too many digits to be drawn exactly; round them.", code="shares-too-fine"
        )
    names = [hierarchy.levels[number] for number in numbers]
    levels = itertools.starmap(
        Level, zip(names, shares, groups, (selection.lowest_terms for selection in selections), strict=True)
    )
    design = Design(
        histogram.values, tuple(levels), tuple(map(tuple, compute_contrast_weights(shares, level_variances))), spec
    )
    return Plan(histogram, design, selections)


def _check_levels(hierarchy: Hierarchy, numbers: Sequence[int], groups: Sequence[Sequence[int]]) -> None:
    """Refuses uninformative levels, or too many of them."""
    first = hierarchy.levels[0]
    if len(numbers) > MOST_LEVELS:
        raise InfeasibleError(
            f"records can be drawn at no more than {MOST_LEVELS} levels; name fewer levels with `levels=`.",
            code="too-many-levels",
            fields={"largest": MOST_LEVELS},
        )
    if len(numbers) == 1:
        raise InfeasibleError(
            f"no level above {first!r} has both a share and several groups; give a share to such a level, or use the "
            "mechanism 'subset'.",
            code="too-few-levels",
            fields={"level": first},
        )
    for (lower, below), (upper, above) in itertools.pairwise(zip(numbers, groups, strict=True)):
        if max(above) == max(below):
            raise InfeasibleError(
                f"the levels {hierarchy.levels[lower]!r} and {hierarchy.levels[upper]!r} have the same groups; leave "
                f"out one of these levels, as in `levels={f'{first}=4/5,...'!r}` with the remaining levels.",
                code="levels-alike",
                fields={"first": hierarchy.levels[lower], "second": hierarchy.levels[upper]},
            )
    if not max(groups[-1]):
        raise InfeasibleError(
            f"the level {hierarchy.levels[numbers[-1]]!r} has only one group, so it gives no information; leave out "
            f"this level, as in `levels={f'{first}=4/5,...'!r}` with the remaining levels.",
            code="one-group-level",
            fields={"level": hierarchy.levels[numbers[-1]]},
        )


def _count_outcomes(shares: Sequence[Fraction]) -> int:
    """The number of outcomes of the draw that decides a record's level."""
    return math.lcm(*(share.denominator for share in shares))


# ------------------------------------------------------------------------------------------------------------- sampling


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Draws a level and a set of its groups for each record.

    Returns the set as bits of values, and the level's number.
    """
    size = plan.histogram.domain_size
    step = max(1, MOST_BITS // size)
    shares = [level.share for level in plan.design.levels]
    outcome_count = _count_outcomes(shares)
    ends = np.array([int(share * outcome_count) for share in itertools.accumulate(shares)], dtype=np.uint64)
    outcomes = draws.get_stream(f"{NAME}/level").draw_integers(first_row, len(codes), outcome_count)
    numbers = np.searchsorted(ends, outcomes, side="right").astype(np.uint8)
    bits = np.zeros((len(codes), -(-size // 8)), dtype=np.uint8)
    for start in range(0, len(codes), step):
        block = slice(start, start + step)
        level_sets = [
            selection.draw_members(tier.places[codes[block]], draws, f"{NAME}/{number}", first_row + start)
            for number, (tier, selection) in enumerate(zip(plan.design.tiers[:-1], plan.selections, strict=True))
        ]
        own_sets = level_sets[0]  # the groups of the first level are the values
        for number, tier in enumerate(plan.design.tiers[1:-1], 1):
            rows = np.flatnonzero(numbers[block] == number)
            own_sets[rows] = level_sets[number][rows].take(tier.places, axis=1)
        bits[block] = np.packbits(own_sets, axis=1)
    return PerturbedRecords(bits, numbers)


def make_design(plan: Plan, /) -> Design:
    """The published part of the plan, which does not depend on the counts."""
    return plan.design


# ------------------------------------------------------------------------------------------------------------- counting


def make_encoding(design: Design, /) -> LevelSetEncoding:
    """Each record publishes its level and a set of values."""
    return LevelSetEncoding(
        len(design.domain),
        False,
        tuple(level.name for level in design.levels),
        tuple(level.groups for level in design.levels),
        tuple(level.selection.members for level in design.levels),
    )


def make_weights(design: Design, /) -> WeightColumns | None:
    """What a row of each level adds to the unbiased count of a value, depending on the row's set."""
    return make_sibling_weights(design.weighing, [level.name for level in design.levels])


def _estimate_least_squares(design: Design, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Sums the weights of all records.

    The variance of a record depends on the lowest level at which its value and a wanted value share a group. The
    variance is the same for all values in other groups of the last level. For the remaining values, weights estimate
    the difference.
    """
    rows = tally.rows.astype(np.float64)
    nothing, top, estimates = np.zeros(len(rows)), design.tiers[-2].places, []
    for places in value_sets:
        if len(places) in (0, len(design.domain)):
            estimates.append(Moments.exact(rows if len(places) else nothing))
            continue
        theta = np.isin(np.arange(len(design.domain)), places).astype(np.float64)
        is_kin, spread = np.isin(top, top[places]), design.weighing.compute_variances(theta)
        is_other = theta == 0 if is_kin.all() else ~is_kin
        inside, outside = float(spread[theta == 1].mean()), float(spread[is_other].mean())
        slope = inside - outside
        rest = np.where(is_kin, spread - outside - slope * theta, 0.0)
        value, further = (tally.counts @ design.weighing.weigh_values(scores).entry_weights for scores in (theta, rest))
        base = rows * outside + np.clip(further, rows * rest.min(), rows * rest.max())
        # No record can have a smaller variance than this, so the variance of the estimate is at least the sum of these.
        base = np.maximum(base, rows * float(spread.min()) - slope * np.clip(value, 0.0, rows))
        estimates.append(Moments(value, base, np.full(len(rows), slope), rows, nothing))
    return estimates


def _make_twin(design: Design, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
    """The estimator for the browser, from the groups, sets, shares and contrast weights of the levels."""
    weighing = design.weighing
    numbers = {
        "groups": np.concatenate([tier.places for tier in weighing.tiers[:-1]]),
        "sets": [asdict(set_weights) for set_weights in weighing.sets],
        "shares": weighing.shares,
        "says": weighing.contrast_weights,
    }
    return BrowserEstimator(Path(__file__).with_name("counting.js"), numbers)


METHODS: Mapping[str, Method[Design]] = {
    DEFAULT: make_weighted_method(
        lambda design: design.weighing,
        "unbiased count from the records of all levels, with a score confidence interval",
        NO_ASSUMPTION,
        _estimate_least_squares,
        twin=_make_twin,
    )
}


def predict_record_variances(design: Design, contents: SideContents | None = None, /) -> tuple[Floats, Floats]:
    """The variance that one record adds, if the values are equally frequent."""
    size, own, other = len(design.domain), np.zeros(len(design.domain)), np.zeros(len(design.domain))
    for first, alike in group_by_kind(design.tiers, 0):
        spread = design.weighing.compute_variances((design.tiers[0].places == first).astype(np.float64))
        own[alike], other[alike] = spread[first], (spread.sum() - spread[first]) / (size - 1)
    return own, other


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The variance of the count of each value, if the other rows are composed like the table."""
    tiers, value_counts = plan.design.tiers, np.array(plan.histogram.counts, dtype=np.float64)
    inside, outside = np.zeros(len(value_counts)), np.zeros(len(value_counts))
    for first, alike in group_by_kind(tiers, 0):
        spread = plan.design.weighing.compute_variances((tiers[0].places == first).astype(np.float64))
        inside[alike] = spread[first]
        for below, tier in itertools.pairwise(tiers):  # values with the same lowest common group have the same variance
            is_kin = (tier.places == tier.places[first]) & (below.places != below.places[first])
            records = [
                np.bincount(level_tier.places, weights=value_counts)[level_tier.places[alike]]
                for level_tier in (below, tier)
            ]
            outside[alike] += (records[1] - records[0]) * (spread[is_kin].mean() if is_kin.any() else 0.0)
    others = value_counts.sum() - value_counts
    return np.asarray(counts * inside + (rows - counts) * outside / np.where(others > 0, others, 1.0))


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The exact variance of the count of each set of values."""
    return compute_set_variances(plan.design.weighing, plan.histogram.counts, share, sets)


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the levels with their sets, and their errors at other shares relative to subset selection."""
    return {
        "levels": [
            {
                "name": level.name,
                "share": format_ratio(level.share),
                "groups": level.selection.size,
                "subset_size": level.selection.members,
                "hold_probability": format_ratio(level.selection.hold_probability),
                "other_probability": format_ratio(level.selection.other_probability),
                "amplification": format_ratio(level.selection.amplification),
            }
            for level in plan.design.levels
        ],
        "errors": [
            {"above": format_ratio(above), "relative_to_subset": errors}
            for above, errors in _compute_relative_errors(plan).items()
        ],
    }


def _compute_relative_errors(plan: Plan) -> dict[Fraction, dict[str, float]]:
    """The errors of each level divided by those of subset selection, for several shares of the higher levels."""
    design, level_variances = plan.design, compute_level_variances(plan.design.tiers, plan.selections)
    subset_errors = _compute_errors(_reweigh_levels(design, Fraction(0), level_variances))
    errors_by_share = {}
    for above in sorted({*COMPARED_SHARES, 1 - design.levels[0].share}):
        errors = zip(
            design.levels, _compute_errors(_reweigh_levels(design, above, level_variances)), subset_errors, strict=True
        )
        errors_by_share[above] = {level.name: error / beside for level, error, beside in errors}
    return errors_by_share


def _reweigh_levels(design: Design, above: Fraction, level_variances: Variances) -> LevelWeights:
    """The weights of records for another share of the higher levels, divided among them as in a design."""
    levels = design.levels
    shares = [1 - above, *(above * level.share / (1 - levels[0].share) for level in levels[1:])]
    lines = compute_contrast_weights(shares, level_variances)
    return dataclass_replace(
        design.weighing,
        shares=[float(share) for share in shares],
        contrast_weights=[[float(say) for say in line] for line in lines],
    )


def _compute_errors(weighing: LevelWeights) -> list[float]:
    """The standard error that one record adds to the count of a rare group, for the groups of each level."""
    errors = []
    for number, tier in enumerate(weighing.tiers[:-1]):
        variance = 0.0
        for first, alike in group_by_kind(weighing.tiers, number):
            is_wanted = tier.places == first
            spread = weighing.compute_variances(is_wanted.astype(np.float64))
            variance += len(alike) * float(spread[~is_wanted].mean())
        errors.append(math.sqrt(variance / tier.group_count))
    return errors


def list_tables(plan: Plan, /) -> list[PlanTable]:
    """Makes the table of each level's error for several shares."""
    finest, *_ = levels = plan.design.levels
    rows = [
        (
            f"{float(above):.0%}{' (this plan)' if above == 1 - finest.share else ''}",
            *(f"{error:.2f}" for error in errors.values()),
        )
        for above, errors in _compute_relative_errors(plan).items()
    ]
    title = (
        "Error of a count divided by the error of subset selection, for several shares of records drawn above the "
        f"level {finest.name!r}:"
    )
    return [PlanTable(title, ("share above", *(level.name for level in levels)), rows)]


def summarize(plan: Plan, /) -> str:
    """Describes the levels in one line."""
    levels = plan.design.levels
    share_list = ", ".join(
        f"{float(level.share):.3g} of the records as sets of {level.selection.members} of {level.selection.size} "
        f"{level.name}"
        for level in levels
    )
    return f"{share_list}; {describe_odds_factor(max(level.selection.amplification for level in levels))}"


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of a set. It is larger by the amplification for values in the set; the level gives no evidence."""
    bits = np.unpackbits(np.asarray(records.values), axis=1, count=plan.histogram.domain_size)
    factors = np.array([float(selection.amplification) for selection in plan.selections])[np.asarray(records.cells)]
    return (np.where(bits, factors[:, np.newaxis], 1.0),)


def compute_published_likelihoods(
    design: Design, published_records: Codes, true_codes: Codes, rows: Indices, /
) -> tuple[Floats]:
    """The likelihood of each record, from the design and from rows of zeros and ones for all groups."""
    chances = np.ones((len(rows), len(design.domain)))
    for level, (start, places, first) in zip(design.levels, make_encoding(design).layout, strict=True):
        is_mine = published_records[rows, start + len(first)] == 1
        factor = float(level.selection.amplification)
        chances[is_mine] = np.where(published_records[rows[is_mine]][:, start + places], factor, 1.0)
    return (chances,)


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    drawn = [
        f"Of the records, {float(level.share):.4g} publish a set of {level.selection.members} of the "
        f"{level.selection.size} groups of level {level.name!r}. Such a set contains the true group with probability "
        f"{float(level.selection.hold_probability):.4g}, and each other group with probability "
        f"{float(level.selection.other_probability):.4g}."
        for level in design.levels
    ]
    return state_any_prior(
        design.bound,
        "Each record publishes a level and a set of groups of this level. The level is drawn independently of the "
        "record's value.",
        *drawn,
    )


def _has_level_settings(options: Options) -> bool:
    return options.has_level_settings


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
    covers_predicates=True,
    plan_rules=PlanRules(is_implied_by=_has_level_settings),
    error_prediction=ErrorPrediction(predict_variances=predict_variances, predict_set_variances=predict_set_variances),
    release_error_prediction=ReleaseErrorPrediction(predict_record_variances=predict_record_variances),
    explanation=PlanExplanation(explain=explain, summarize=summarize, list_tables=list_tables),
    attack_model=AttackModel(
        compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
    ),
    comparability=Comparability(
        match_posterior=lambda bound, values: bound, read_request=lambda design: design.bound.belief_bound
    ),
    estimation_weights=EstimationWeights(make_weights=make_weights),
)
