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
from sfumato._core.exact_numbers import exact
from sfumato._records.level_records import LeveledSets
from sfumato._records.sql_quoting import quoted
from sfumato._request.hierarchy import Hierarchy
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import WHOLE, Connection, coarse_columns, held_counts
from sfumato._verify.reference_distributions.any_prior import bounded_posteriors, check_any_prior
from sfumato._verify.reference_distributions.reference_distribution import Law
from sfumato._verify.reference_distributions.score_tests import distributed, largest
from sfumato._verify.reference_distributions.subset_distribution import (
    SetLaw,
    matched_sets,
    set_posteriors,
    shown_members,
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


def laws_of(design: Mapping[str, Any]) -> list[LevelLaw]:
    """The law of each level of a release, from the rationals of its manifest."""
    size, found = len(design["domain"]), []
    if not 0 < len(design["levels"]) <= MOST_LEVELS:
        raise ReleaseFormatError("the design has no levels, or more than any release.")
    for number, each in enumerate(design["levels"]):
        groups = np.array(each["groups"] if number else range(size), dtype=np.int64)
        sets = SetLaw(len(np.unique(groups)), int(each["subset_size"]), exact(each["hold_probability"]))
        told = tuple(exact(say) for say in each["says"])
        found.append(LevelLaw(str(each["name"]), exact(each["share"]), groups, sets, told))
        is_law = 0 < sets.subset_size < sets.size and 0 < sets.hold < 1 and sets.hold > sets.other
        if not is_law or len(groups) != size or groups.min() or groups.max() >= sets.size:
            raise ReleaseFormatError("the design is no law of probability that protects anything.")
        if len(told) != number + 1 or sum(told) != 1 or found[-1].share <= 0:
            raise ReleaseFormatError("the design does not say how its levels are drawn or counted together.")
    nested = (
        len(set(zip(low.groups.tolist(), up.groups.tolist(), strict=True))) == low.sets.size
        for low, up in itertools.pairwise(found)
    )
    if sum(each.share for each in found) != 1 or not all(nested):
        raise ReleaseFormatError("the levels of the design are not those of a hierarchy, or not all there are.")
    return found


def shown(design: Mapping[str, Any]) -> LeveledSets:
    """A level and a set for each record."""
    laws = laws_of(design)
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
    known = Hierarchy.from_json(written.ours["hierarchies"][written.names[0]])
    places = {name: known.places(number) for number, name in enumerate(known.levels)}
    if any(places.get(law.name) != tuple(law.groups.tolist()) for law in laws_of(written.design)):
        return Check("domain", False, "the levels of the design, or their groups, are not those of the hierarchy.")
    sets = shown(written.design)
    for batch in written.batches(folder, written.shown_names):
        try:
            sets.entries(batch.column(1), batch.column(0))
        except ReleaseFormatError:
            return Check("domain", False, "a published set is not one of whole groups of its level, as many as it has.")
    said = ", ".join(f"{law.sets.subset_size} of {law.sets.size} at {law.name!r}" for law in laws_of(written.design))
    return Check("domain", True, f"every published set holds whole groups of its level: {said}.")


def check_promise(folder: Path, written: Written) -> Check:
    """The level is drawn whatever the value is, so that odds rise by the largest amplification of its sets at most."""
    return check_any_prior(written.design, max(law.sets.amplification for law in laws_of(written.design)))


# -------------------------------------------------------------------------------------------------------------- weights


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """For each level and value: what a record adds, and which other groups its set may hold add something too."""
    laws = laws_of(written.design)
    if no_weights(written) is not None:
        return False
    size, degrees = len(laws[0].groups), range(1, len(laws))
    endings = ["" if degree == 1 else f"_{degree}" for degree in degrees]
    numbers = ["place", "if_equal", "otherwise", *(f"per_sibling{ending}" for ending in endings)]
    expected, marks = [], []
    for level in range(len(laws)):
        otherwise, by_tier = _expected(laws, level)
        mine = [[_marked(laws, level, degree, value) for degree in degrees] for value in range(size)]
        has_any = np.array([[any(bits) for bits in each] for each in mine]).T
        per = [by_tier[level + degree :].sum(axis=0) * has_any[degree - 1] for degree in degrees]
        columns = [np.arange(size), otherwise + by_tier[level:].sum(axis=0), otherwise, *per]
        expected += list(zip(*(column.tolist() for column in columns), strict=True))
        marks += mine
        if table["level"][level * size : (level + 1) * size] != [laws[level].name] * size:
            return False
    is_marked = [list(each) for each in zip(*(table[f"siblings{ending}"] for ending in endings), strict=True)] == marks
    places = list(range(size)) * len(laws)
    found = zip(*(table[name] for name in numbers), strict=True)
    return is_marked and are_close(found, expected) and are_values(written, table, {"value": places})


def _expected(laws: Sequence[LevelLaw], level: int) -> tuple[Floats, Floats]:
    """What a record of a level adds to the count of a value: always, and for each group in the value's of each tier.

    From the whole down: a group has its part of what the group above it has, by its size, and what the record tells
    besides, if it can tell groups of this tier apart. Counted so often that over all levels it is told once.
    """
    size, own = len(laws[0].groups), laws[level]
    hold, other = float(own.sets.hold), float(own.sets.other)
    tiers = [*(law.groups for law in laws), np.zeros(size, dtype=np.int64)]
    units = [np.unique(np.stack((tier, own.groups)), axis=1)[0] for tier in tiers]  # a line for each group of the level
    sizes, held = (
        np.array([np.bincount(each)[tier] for each, tier in zip(lines, tiers, strict=True)], dtype=float)
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
            always += often * other * (part * held[tier + 1] - held[tier])
    always += by_tier[-1] * own.sets.subset_size  # every set has so many of the whole
    return always, by_tier[:-1]


def _marked(laws: Sequence[LevelLaw], level: int, degree: int, value: int) -> bytes:
    """Bits of the first value of each group of a level that lies in a value's group so many levels up, not before."""
    own, top = laws[level].groups, level + degree
    found = np.zeros(len(own), dtype=np.bool_)
    if top < len(laws):
        found[np.unique(own, return_index=True)[1]] = True
        found &= laws[top].groups == laws[top].groups[value]
        found &= laws[top - 1].groups != laws[top - 1].groups[value]
    return np.packbits(found).tobytes()


def no_weights(written: Written) -> str | None:
    """Weights have bits for each pair of values, and there may be too many."""
    levels = len(written.design["levels"])
    is_too_many = len(written.domain) ** 2 * levels * (levels - 1) > MOST_BITS
    return f"there are no weights for {levels} levels of {len(written.domain):,} values." if is_too_many else None


# --------------------------------------------------------------------------------------------------------- the original


def check_draws(connection: Connection, written: Written) -> Check:
    """Levels and members must be distributed as the design says, in the whole table and by each public column."""
    laws, worst = laws_of(written.design), 0.0
    sets, column = shown(written.design), _column(written)
    for group in (WHOLE, *coarse_columns(connection, written)):
        truth = held_counts(connection, written, group)
        if truth is None:
            return written.outside("draws")
        members = shown_members(connection, written, group, sets, column)
        for key, held in truth.items():
            found = members.get(key, np.zeros(sets.width))
            for law, mine in zip(laws, _by_level(laws, found), strict=True):
                worst = max(worst, _off(law, np.bincount(law.groups, weights=held).astype(np.float64), mine))
    matched = np.zeros((len(laws), 3, len(laws[0].groups)))
    for places, entries in matched_sets(connection, written, sets, column):
        for number, (law, mine) in enumerate(zip(laws, _by_level(laws, entries.T), strict=True)):
            own = mine[law.groups[places], np.arange(len(places))]
            for line, weights in enumerate((np.ones(len(places)), mine[-1], own)):
                matched[number, line] += np.bincount(places, weights=weights, minlength=len(law.groups))
    for law, (rows, drawn, agreed) in zip(laws, matched, strict=True):
        share, hold = float(law.share), float(law.sets.hold)
        worst = max(worst, largest(drawn - rows * share, rows * share * (1 - share)))
        variance = drawn.sum() * hold * (1 - hold)
        worst = max(worst, largest(np.array([agreed.sum() - drawn.sum() * hold]), np.array([variance])))
    return distributed(worst, int(matched[0, 0].sum()))


def _off(law: LevelLaw, held: Floats, found: Floats) -> float:
    """By how many standard deviations the records of a level, and their members, are off at most."""
    share, rows = float(law.share), held.sum()
    same, other = share * float(law.sets.hold), share * float(law.sets.other)
    expected = np.append(held * same + (rows - held) * other, rows * share)
    variance = np.append(held * same * (1 - same) + (rows - held) * other * (1 - other), rows * share * (1 - share))
    return largest(found - expected, variance)


def _by_level(laws: Sequence[LevelLaw], entries: Any) -> Iterator[Any]:
    """The lines of each level: of its groups, and last that of the level itself."""
    ends = list(itertools.accumulate(law.sets.size + 1 for law in laws))
    return (entries[start:end] for start, end in itertools.pairwise([0, *ends]))


def _column(written: Written) -> str:
    """SQL of what a record shows."""
    held, level = map(quoted, written.shown_names)
    return f"{{'level': {level}, 'held': {held}}}"


def check_posteriors(connection: Connection, written: Written) -> Check:
    """A value is believed as its group is, which stands beside the rarest others, by its part of the group."""
    laws = laws_of(written.design)

    def believed(counts: Sequence[int]) -> list[Fraction]:
        worst = [Fraction(0)] * len(counts)
        for law in laws:
            held = np.bincount(law.groups, weights=counts).astype(np.int64).tolist()
            groups = set_posteriors(held, law.sets)
            for value, (count, group) in enumerate(zip(counts, law.groups.tolist(), strict=True)):
                if count:
                    worst[value] = max(worst[value], groups[group] * Fraction(count, held[group]))
        return worst

    return bounded_posteriors(connection, written, believed)


LAW = Law(
    guarantees=("any-prior",),
    shown=shown,
    domain=check_domain,
    promise=check_promise,
    weights=are_weights,
    without_weights=no_weights,
    draws=check_draws,
    posteriors=check_posteriors,
)
