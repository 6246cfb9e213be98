"""The law of records of several levels: a coin for the level, and at each level sets of one size of its groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._core.arrays import Counts, Floats
from sfumato._core.exact_numbers import parse_exact
from sfumato._records.level_records import LeveledSets
from sfumato._records.sql_quoting import quote_name
from sfumato._request.hierarchy import Hierarchy
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import WHOLE, Connection, count_true_values, list_coarse_columns
from sfumato._verify.reference_distributions.any_prior import check_any_prior, check_bounded_posteriors
from sfumato._verify.reference_distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.reference_distributions.score_tests import check_distribution, find_largest_deviation
from sfumato._verify.reference_distributions.subset_distribution import (
    SetLaw,
    count_published_members,
    match_sets,
    set_posteriors,
)
from sfumato._verify.reference_distributions.weight_checks import are_close, are_values
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError

MOST_LEVELS = 8
MOST_BITS = 1 << 30
"""Of each pair of values, level and degree of kinship; there are no weights beyond so many."""


@dataclass(frozen=True)
class LevelLaw:
    """One level: the chance that a record is of it, the group of each value, and the law of its sets of groups."""

    name: str
    share: Fraction
    groups: Counts
    sets: SetLaw
    says: tuple[Fraction, ...]
    """How much of what is told of the groups of this level comes from the records of each level up to it."""


def read_distributions(design: Mapping[str, Any]) -> list[LevelLaw]:
    """The law of each level of a release, from the rationals of its manifest."""
    size, distributions = len(design["domain"]), []
    if not 0 < len(design["levels"]) <= MOST_LEVELS:
        raise ReleaseFormatError("the design has no levels, or more than any release.")
    for number, level in enumerate(design["levels"]):
        groups = np.array(level["groups"] if number else range(size), dtype=np.int64)
        sets = SetLaw(len(np.unique(groups)), int(level["subset_size"]), parse_exact(level["hold_probability"]))
        level_weights = tuple(parse_exact(say) for say in level["says"])
        distributions.append(LevelLaw(str(level["name"]), parse_exact(level["share"]), groups, sets, level_weights))
        is_law = 0 < sets.subset_size < sets.size and 0 < sets.hold < 1 and sets.hold > sets.other
        if not is_law or len(groups) != size or groups.min() or groups.max() >= sets.size:
            raise ReleaseFormatError("the design is no law of probability that protects anything.")
        if len(level_weights) != number + 1 or sum(level_weights) != 1 or distributions[-1].share <= 0:
            raise ReleaseFormatError("the design does not say how its levels are drawn or counted together.")
    nested = (
        len(set(zip(low.groups.tolist(), up.groups.tolist(), strict=True))) == low.sets.size
        for low, up in itertools.pairwise(distributions)
    )
    if sum(level.share for level in distributions) != 1 or not all(nested):
        raise ReleaseFormatError("the levels of the design are not those of a hierarchy, or not all there are.")
    return distributions


def make_encoding(design: Mapping[str, Any]) -> LeveledSets:
    """A level and a set for each record."""
    laws = read_distributions(design)
    return LeveledSets(
        len(design["domain"]),
        False,
        tuple(law.name for law in laws),
        tuple(tuple(law.groups.tolist()) for law in laws),
        tuple(law.sets.subset_size for law in laws),
    )


def check_domain(folder: Path, written: Written) -> Check:
    """Every record has a level of the design, and its set as many whole groups of it as the design says.

    The levels must be those of the hierarchy that is published beside the design, by which questions are asked.
    """
    hierarchy = Hierarchy.from_json(written.ours["hierarchies"][written.names[0]])
    places = {name: hierarchy.places(number) for number, name in enumerate(hierarchy.levels)}
    if any(places.get(law.name) != tuple(law.groups.tolist()) for law in read_distributions(written.design)):
        return Check("domain", False, "the levels of the design, or their groups, are not those of the hierarchy.")
    sets = make_encoding(written.design)
    for batch in written.batches(folder, written.shown_names):
        try:
            sets.entries(batch.column(1), batch.column(0))
        except ReleaseFormatError:
            return Check("domain", False, "a published set is not one of whole groups of its level, as many as it has.")
    set_sizes = ", ".join(
        f"{law.sets.subset_size} of {law.sets.size} at {law.name!r}" for law in read_distributions(written.design)
    )
    return Check("domain", True, f"every published set holds whole groups of its level: {set_sizes}.")


def check_promise(folder: Path, written: Written) -> Check:
    """The level is drawn whatever the value is, so that odds rise by the largest amplification of its sets at most."""
    return check_any_prior(written.design, max(law.sets.amplification for law in read_distributions(written.design)))


# -------------------------------------------------------------------------------------------------------------- weights


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """For each level and value: what a record adds, and which other groups its set may hold add something too."""
    laws = read_distributions(written.design)
    if explain_missing_weights(written) is not None:
        return False
    size, degrees = len(laws[0].groups), range(1, len(laws))
    endings = ["" if degree == 1 else f"_{degree}" for degree in degrees]
    numbers = ["place", "if_equal", "otherwise", *(f"per_sibling{ending}" for ending in endings)]
    expected, marks = [], []
    for level in range(len(laws)):
        otherwise, by_tier = _compute_level_weights(laws, level)
        mine = [[_mark_groups(laws, level, degree, value) for degree in degrees] for value in range(size)]
        has_any = np.array([[any(bits) for bits in value_marks] for value_marks in mine]).T
        per = [by_tier[level + degree :].sum(axis=0) * has_any[degree - 1] for degree in degrees]
        columns = [np.arange(size), otherwise + by_tier[level:].sum(axis=0), otherwise, *per]
        expected += list(zip(*(column.tolist() for column in columns), strict=True))
        marks += mine
        if table["level"][level * size : (level + 1) * size] != [laws[level].name] * size:
            return False
    is_marked = [
        list(value_marks) for value_marks in zip(*(table[f"siblings{ending}"] for ending in endings), strict=True)
    ] == marks
    places = list(range(size)) * len(laws)
    weight_rows = zip(*(table[name] for name in numbers), strict=True)
    return is_marked and are_close(weight_rows, expected) and are_values(written, table, {"value": places})


def _compute_level_weights(laws: Sequence[LevelLaw], level: int) -> tuple[Floats, Floats]:
    """What a record of a level adds to the count of a value: always, and for each group in the value's of each tier.

    From the whole down: a group has its part of what the group above it has, by its size, and what the record tells
    besides, if it can tell groups of this tier apart. Counted so often that over all levels it is told once.
    """
    size, own = len(laws[0].groups), laws[level]
    hold, other = float(own.sets.hold), float(own.sets.other)
    tiers = [*(law.groups for law in laws), np.zeros(size, dtype=np.int64)]
    units = [np.unique(np.stack((tier, own.groups)), axis=1)[0] for tier in tiers]  # a line for each group of the level
    sizes, unit_counts = (
        np.array([np.bincount(tier_groups)[tier] for tier_groups, tier in zip(lines, tiers, strict=True)], dtype=float)
        for lines in (tiers, units)
    )
    always, by_tier = np.ones(size), np.zeros((len(tiers), size))
    for tier in reversed(range(len(laws))):
        part = sizes[tier] / sizes[tier + 1]
        always, by_tier = part * always, part * by_tier
        if tier >= level:
            often = float(laws[tier].says[level] / own.share) / (hold - other)
            by_tier[tier] += often
            by_tier[tier + 1] -= often * part
            always += often * other * (part * unit_counts[tier + 1] - unit_counts[tier])
    always += by_tier[-1] * own.sets.subset_size  # every set has so many of the whole
    return always, by_tier[:-1]


def _mark_groups(laws: Sequence[LevelLaw], level: int, degree: int, value: int) -> bytes:
    """Bits of the first value of each group of a level that lies in a value's group so many levels up, not before."""
    own, top = laws[level].groups, level + degree
    is_marked = np.zeros(len(own), dtype=np.bool_)
    if top < len(laws):
        is_marked[np.unique(own, return_index=True)[1]] = True
        is_marked &= laws[top].groups == laws[top].groups[value]
        is_marked &= laws[top - 1].groups != laws[top - 1].groups[value]
    return np.packbits(is_marked).tobytes()


def explain_missing_weights(written: Written) -> str | None:
    """Weights have bits for each pair of values, and there may be too many."""
    levels = len(written.design["levels"])
    is_too_many = len(written.domain) ** 2 * levels * (levels - 1) > MOST_BITS
    return f"there are no weights for {levels} levels of {len(written.domain):,} values." if is_too_many else None


# --------------------------------------------------------------------------------------------------------- the original


def check_draws(connection: Connection, written: Written) -> Check:
    """Levels and members must be distributed as the design says, in the whole table and by each public column."""
    laws, worst = read_distributions(written.design), 0.0
    sets, column = make_encoding(written.design), _write_published_sql(written)
    for group in (WHOLE, *list_coarse_columns(connection, written)):
        truth = count_true_values(connection, written, group)
        if truth is None:
            return written.outside("draws")
        members = count_published_members(connection, written, group, sets, column)
        for key, true_counts in truth.items():
            member_counts = members.get(key, np.zeros(sets.width))
            for law, mine in zip(laws, _split_by_level(laws, member_counts), strict=True):
                worst = max(
                    worst,
                    _measure_deviation(law, np.bincount(law.groups, weights=true_counts).astype(np.float64), mine),
                )
    matched = np.zeros((len(laws), 3, len(laws[0].groups)))
    for places, entries in match_sets(connection, written, sets, column):
        for number, (law, mine) in enumerate(zip(laws, _split_by_level(laws, entries.T), strict=True)):
            own = mine[law.groups[places], np.arange(len(places))]
            for line, weights in enumerate((np.ones(len(places)), mine[-1], own)):
                matched[number, line] += np.bincount(places, weights=weights, minlength=len(law.groups))
    for law, (rows, drawn, agreed) in zip(laws, matched, strict=True):
        share, hold = float(law.share), float(law.sets.hold)
        worst = max(worst, find_largest_deviation(drawn - rows * share, rows * share * (1 - share)))
        variance = drawn.sum() * hold * (1 - hold)
        worst = max(worst, find_largest_deviation(np.array([agreed.sum() - drawn.sum() * hold]), np.array([variance])))
    return check_distribution(worst, int(matched[0, 0].sum()))


def _measure_deviation(law: LevelLaw, true_counts: Floats, published_counts: Floats) -> float:
    """By how many standard deviations the records of a level, and their members, are off at most."""
    share, rows = float(law.share), true_counts.sum()
    same, other = share * float(law.sets.hold), share * float(law.sets.other)
    expected = np.append(true_counts * same + (rows - true_counts) * other, rows * share)
    variance = np.append(
        true_counts * same * (1 - same) + (rows - true_counts) * other * (1 - other), rows * share * (1 - share)
    )
    return find_largest_deviation(published_counts - expected, variance)


def _split_by_level(laws: Sequence[LevelLaw], entries: Any) -> Iterator[Any]:
    """The lines of each level: of its groups, and last that of the level itself."""
    ends = list(itertools.accumulate(law.sets.size + 1 for law in laws))
    return (entries[start:end] for start, end in itertools.pairwise([0, *ends]))


def _write_published_sql(written: Written) -> str:
    """SQL of what a record shows."""
    set_column, level = map(quote_name, written.shown_names)
    return f"{{'level': {level}, 'held': {set_column}}}"


def check_posteriors(connection: Connection, written: Written) -> Check:
    """A value is believed as its group is, which stands beside the rarest others, by its part of the group."""
    laws = read_distributions(written.design)

    def believed(counts: Sequence[int]) -> list[Fraction]:
        worst = [Fraction(0)] * len(counts)
        for law in laws:
            group_counts = np.bincount(law.groups, weights=counts).astype(np.int64).tolist()
            groups = set_posteriors(group_counts, law.sets)
            for value, (count, group) in enumerate(zip(counts, law.groups.tolist(), strict=True)):
                if count:
                    worst[value] = max(worst[value], groups[group] * Fraction(count, group_counts[group]))
        return worst

    return check_bounded_posteriors(connection, written, believed)


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior",),
    shown=make_encoding,
    domain=check_domain,
    promise=check_promise,
    weights=are_weights,
    without_weights=explain_missing_weights,
    draws=check_draws,
    posteriors=check_posteriors,
)
