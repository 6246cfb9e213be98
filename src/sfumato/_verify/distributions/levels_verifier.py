"""The verifier of records at several levels: a record has a random level and a set of groups of this level.

All sets of a level have the same size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._core.array_types import Counts, Floats
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._records.level_set_records import LevelSetEncoding
from sfumato._records.sql_quoting import quote_name
from sfumato._request.hierarchy import Hierarchy
from sfumato._verify.check_results import Check
from sfumato._verify.distributions.any_prior_guarantee import check_any_prior, check_bounded_posteriors
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution, WeightTable
from sfumato._verify.distributions.score_tests import check_distribution, find_largest_deviation
from sfumato._verify.distributions.subset_verifier import (
    SetDistribution,
    compute_set_posteriors,
    count_published_members,
    match_sets,
)
from sfumato._verify.distributions.weight_checks import are_close, are_values
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import WHOLE, Connection, count_true_values, list_coarse_columns
from sfumato.errors import ReleaseFormatError

MOST_LEVELS = 8
MOST_BITS = 1 << 30
"""The largest number of bits for all pairs of values, levels and degrees of kinship. Larger weights are not written."""


@dataclass(frozen=True)
class LevelDistribution:
    """One level, with its probability, the group of each value, and the distribution of its sets."""

    name: str
    share: Fraction
    groups: Counts
    sets: SetDistribution
    level_weights: tuple[Fraction, ...]
    """The weight of the records of each level up to this one in estimates of its groups."""


def read_distributions(design: JsonView) -> list[LevelDistribution]:
    """The distribution of each level of a release, from the rationals of its manifest."""
    size, distributions = len(design["domain"]), []
    if not 0 < len(design["levels"]) <= MOST_LEVELS:
        raise ReleaseFormatError(
            "the design has no levels, or more than any valid release.", code="invalid-level-count"
        )
    for number, level in enumerate(design["levels"]):
        groups = np.array(level["groups"] if number else range(size), dtype=np.int64)
        sets = SetDistribution(
            len(np.unique(groups)), int(level["subset_size"]), parse_exact(level["hold_probability"])
        )
        level_weights = tuple(parse_exact(say) for say in level["says"])
        distributions.append(
            LevelDistribution(str(level["name"]), parse_exact(level["share"]), groups, sets, level_weights)
        )
        is_law = (
            0 < sets.subset_size < sets.domain_size
            and 0 < sets.hold_chance < 1
            and sets.hold_chance > sets.other_chance
        )
        if not is_law or len(groups) != size or groups.min() or groups.max() >= sets.domain_size:
            raise ReleaseFormatError(
                "the design is not a probability distribution that protects values.", code="invalid-distribution"
            )
        if len(level_weights) != number + 1 or sum(level_weights) != 1 or distributions[-1].share <= 0:
            raise ReleaseFormatError(
                "the design lacks the shares of its levels, or the weights that combine their counts.",
                code="missing-level-draws",
            )
    nested = (
        len(set(zip(low.groups.tolist(), up.groups.tolist(), strict=True))) == low.sets.domain_size
        for low, up in itertools.pairwise(distributions)
    )
    if sum(level.share for level in distributions) != 1 or not all(nested):
        raise ReleaseFormatError(
            "the levels of the design do not match the hierarchy, or are incomplete.", code="inconsistent-levels"
        )
    return distributions


def make_encoding(design: JsonView) -> LevelSetEncoding:
    """Each record publishes a level and a set."""
    distributions = read_distributions(design)
    return LevelSetEncoding(
        len(design["domain"]),
        False,
        tuple(distribution.name for distribution in distributions),
        tuple(tuple(distribution.groups.tolist()) for distribution in distributions),
        tuple(distribution.sets.subset_size for distribution in distributions),
    )


def check_domain(folder: Path, view: ManifestView) -> Check:
    """Checks that every record has a level of the design and a set with the right number of groups.

    The levels must match the published hierarchy, because queries use the names of the hierarchy.
    """
    hierarchy = Hierarchy.from_json(view.sfumato_json["hierarchies"][view.sensitive_names[0]])
    places = {name: hierarchy.list_group_places(number) for number, name in enumerate(hierarchy.levels)}
    if any(
        places.get(distribution.name) != tuple(distribution.groups.tolist())
        for distribution in read_distributions(view.design)
    ):
        return Check("domain", False, "the levels or the groups of the design do not match the hierarchy.")
    sets = make_encoding(view.design)
    for batch in view.read_batches(folder, view.published_names):
        try:
            sets.decode_records(batch.column(1), batch.column(0))
        except ReleaseFormatError:
            return Check(
                "domain", False, "a published set does not have the right number of whole groups of its level."
            )
    set_sizes = ", ".join(
        f"{distribution.sets.subset_size} of {distribution.sets.domain_size} at {distribution.name!r}"
        for distribution in read_distributions(view.design)
    )
    return Check("domain", True, f"every published set consists of groups of its level: {set_sizes}.")


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks the guarantee.

    The level is independent of the value, so odds rise at most by the largest amplification.
    """
    return check_any_prior(
        view.design, max(distribution.sets.amplification for distribution in read_distributions(view.design))
    )


# -------------------------------------------------------------------------------------------------------------- weights


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks what a record of each level contributes to each value, and what the other groups in its set contribute."""
    distributions = read_distributions(view.design)
    if explain_missing_weights(view) is not None:
        return False
    size, degrees = len(distributions[0].groups), range(1, len(distributions))
    endings = ["" if degree == 1 else f"_{degree}" for degree in degrees]
    numbers = ["place", "if_equal", "otherwise", *(f"per_sibling{ending}" for ending in endings)]
    expected, marks = [], []
    for level in range(len(distributions)):
        otherwise, by_tier = _compute_level_weights(distributions, level)
        level_marks = [
            [_mark_groups(distributions, level, degree, value) for degree in degrees] for value in range(size)
        ]
        has_any = np.array([[any(bits) for bits in value_marks] for value_marks in level_marks]).T
        sibling_weights = [by_tier[level + degree :].sum(axis=0) * has_any[degree - 1] for degree in degrees]
        columns = [np.arange(size), otherwise + by_tier[level:].sum(axis=0), otherwise, *sibling_weights]
        expected += list(zip(*(column.tolist() for column in columns), strict=True))
        marks += level_marks
        if table["level"][level * size : (level + 1) * size] != [distributions[level].name] * size:
            return False
    is_marked = [
        list(value_marks) for value_marks in zip(*(table[f"siblings{ending}"] for ending in endings), strict=True)
    ] == marks
    places = list(range(size)) * len(distributions)
    weight_rows = zip(*(table[name] for name in numbers), strict=True)
    return is_marked and are_close(weight_rows, expected) and are_values(view, table, {"value": places})


def _compute_level_weights(distributions: Sequence[LevelDistribution], level: int) -> tuple[Floats, Floats]:
    """What a record of a level contributes to a value's count: a constant, and a number for each group in its set.

    From the whole domain downwards, a group gets its share (by size) of the group above. If the record distinguishes
    groups of this tier, the group also gets the information of the record. The weights ensure that each piece of
    information counts once over all levels.
    """
    size, own_distribution = len(distributions[0].groups), distributions[level]
    hold, other = float(own_distribution.sets.hold_chance), float(own_distribution.sets.other_chance)
    tiers = [*(distribution.groups for distribution in distributions), np.zeros(size, dtype=np.int64)]
    # A line for each group of the level.
    units = [np.unique(np.stack((tier, own_distribution.groups)), axis=1)[0] for tier in tiers]
    sizes, unit_counts = (
        np.array([np.bincount(tier_groups)[tier] for tier_groups, tier in zip(lines, tiers, strict=True)], dtype=float)
        for lines in (tiers, units)
    )
    constant_weights, by_tier = np.ones(size), np.zeros((len(tiers), size))
    for tier in reversed(range(len(distributions))):
        part = sizes[tier] / sizes[tier + 1]
        constant_weights, by_tier = part * constant_weights, part * by_tier
        if tier >= level:
            weight = float(distributions[tier].level_weights[level] / own_distribution.share) / (hold - other)
            by_tier[tier] += weight
            by_tier[tier + 1] -= weight * part
            constant_weights += weight * other * (part * unit_counts[tier + 1] - unit_counts[tier])
    constant_weights += (
        by_tier[-1] * own_distribution.sets.subset_size
    )  # every set has this number of groups of the whole level
    return constant_weights, by_tier[:-1]


def _mark_groups(distributions: Sequence[LevelDistribution], level: int, degree: int, value: int) -> bytes:
    """Marks the first value of each group whose lowest common group with a value is this number of levels higher."""
    own_groups, top = distributions[level].groups, level + degree
    is_marked = np.zeros(len(own_groups), dtype=np.bool_)
    if top < len(distributions):
        is_marked[np.unique(own_groups, return_index=True)[1]] = True
        is_marked &= distributions[top].groups == distributions[top].groups[value]
        is_marked &= distributions[top - 1].groups != distributions[top - 1].groups[value]
    return np.packbits(is_marked).tobytes()


def explain_missing_weights(view: ManifestView) -> str | None:
    """Returns the reason for missing weights: they have bits for each pair of values, which may be too many."""
    levels = len(view.design["levels"])
    is_too_many = len(view.domain) ** 2 * levels * (levels - 1) > MOST_BITS
    return f"{levels} levels of {len(view.domain):,} values are too many for weights." if is_too_many else None


# --------------------------------------------------------------------------------------------------------- the original


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks that levels and members are distributed as designed, in the whole table and by each public column."""
    distributions, worst = read_distributions(view.design), 0.0
    sets, column = make_encoding(view.design), _write_published_sql(view)
    for group in (WHOLE, *list_coarse_columns(connection, view)):
        truth = count_true_values(connection, view, group)
        if truth is None:
            return view.fail_outside_domain("draws")
        members = count_published_members(connection, view, group, sets, column)
        for key, true_counts in truth.items():
            member_counts = members.get(key, np.zeros(sets.width))
            for distribution, level_counts in zip(
                distributions, _split_by_level(distributions, member_counts), strict=True
            ):
                worst = max(
                    worst,
                    _measure_deviation(
                        distribution,
                        np.bincount(distribution.groups, weights=true_counts).astype(np.float64),
                        level_counts,
                    ),
                )
    matched_counts = np.zeros((len(distributions), 3, len(distributions[0].groups)))
    for places, entries in match_sets(connection, view, sets, column):
        for number, (distribution, level_counts) in enumerate(
            zip(distributions, _split_by_level(distributions, entries.T), strict=True)
        ):
            own_members = level_counts[distribution.groups[places], np.arange(len(places))]
            for line, weights in enumerate((np.ones(len(places)), level_counts[-1], own_members)):
                matched_counts[number, line] += np.bincount(places, weights=weights, minlength=len(distribution.groups))
    for distribution, (rows, level_records, agreements) in zip(distributions, matched_counts, strict=True):
        share, hold = float(distribution.share), float(distribution.sets.hold_chance)
        worst = max(worst, find_largest_deviation(level_records - rows * share, rows * share * (1 - share)))
        variance = level_records.sum() * hold * (1 - hold)
        worst = max(
            worst,
            find_largest_deviation(np.array([agreements.sum() - level_records.sum() * hold]), np.array([variance])),
        )
    return check_distribution(worst, int(matched_counts[0, 0].sum()))


def _measure_deviation(distribution: LevelDistribution, true_counts: Floats, published_counts: Floats) -> float:
    """The largest deviation of the number of a level's records and of their members, in standard deviations."""
    share, rows = float(distribution.share), true_counts.sum()
    same, other = share * float(distribution.sets.hold_chance), share * float(distribution.sets.other_chance)
    expected = np.append(true_counts * same + (rows - true_counts) * other, rows * share)
    variance = np.append(
        true_counts * same * (1 - same) + (rows - true_counts) * other * (1 - other), rows * share * (1 - share)
    )
    return find_largest_deviation(published_counts - expected, variance)


def _split_by_level(distributions: Sequence[LevelDistribution], entries: Any) -> Iterator[Any]:
    """The lines of each level. The last line is that of the level itself, and the others are those of its groups."""
    ends = list(itertools.accumulate(distribution.sets.domain_size + 1 for distribution in distributions))
    return (entries[start:end] for start, end in itertools.pairwise([0, *ends]))


def _write_published_sql(view: ManifestView) -> str:
    """SQL for the published value of a record."""
    set_column, level = map(quote_name, view.published_names)
    return f"{{'level': {level}, 'held': {set_column}}}"


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks the belief in a value, which is the belief in its group times the value's share of the group."""
    distributions = read_distributions(view.design)

    def compute_posteriors(counts: Sequence[int]) -> list[Fraction]:
        worst = [Fraction(0)] * len(counts)
        for distribution in distributions:
            group_counts = np.bincount(distribution.groups, weights=counts).astype(np.int64).tolist()
            groups = compute_set_posteriors(group_counts, distribution.sets)
            for value, (count, group) in enumerate(zip(counts, distribution.groups.tolist(), strict=True)):
                if count:
                    worst[value] = max(worst[value], groups[group] * Fraction(count, group_counts[group]))
        return worst

    return check_bounded_posteriors(connection, view, compute_posteriors)


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior",),
    make_encoding=make_encoding,
    check_domain=check_domain,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    explain_missing_weights=explain_missing_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
)
