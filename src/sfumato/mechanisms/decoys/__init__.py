"""Decoys: every record publishes a value drawn from a group of records with different values. Groups are withheld.

Claim: whoever knows the shares of the values, and nothing else of a person, believes the published value to be the
person's own with at most 1/group_size. Other knowledge is not covered: a published value multiplies the odds of that
value by its likelihood ratio, which has no limit for rare values.
Source: Fu, Wang, Wong, Wang and Jiang 2014 (SPLU-Gen), corrected. The mixed groups, the closed form and the errors are
ours.
Published: the domain, the group size and how groups are made, and which values were merged because they are rare. Not
published: groups, or any count of the original.
Notation: gamma = group_size, f = count of a value, N = total.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.draws import Draws, Numbers
from sfumato.errors import InfeasibleError, InternalError, ReleaseFormatError, SpecError
from sfumato.mechanisms.coins.operators import Floats
from sfumato.mechanisms.decoys import bounds, estimation
from sfumato.mechanisms.decoys.groups import Groups
from sfumato.mechanisms.decoys.law import FEW_VALUES, EvenLaw, created
from sfumato.mechanisms.decoys.law import Creation as Creation
from sfumato.request.histogram import Histogram
from sfumato.request.schema import Merged
from sfumato.request.spec import DecoyGroups, Exact, exact
from sfumato.request.values import Value, display, parts, values_from_json, values_to_json
from sfumato.shown.tally import Codes, Counts, Replaced, Risk, Symbols, margins

NAME = "decoys"
GUARANTEE = "decoys-only"
SPEC = DecoyGroups
USES_SLOTS = True
COVERS_PREDICATES = False
METHODS = estimation.METHODS

MOST_COMBINATIONS = 1 << 18
"""Of the values of several columns: every answer goes through all of them."""

NEAR_LIMIT = Fraction(4, 5)
"""A value whose share is above this part of the largest possible one can hardly be counted under a condition."""

LIKELY = 0.5
NAMED_VALUES = 5
MERGED_LABEL = "(rare)"

ERROR, RISK = Fraction(1, 10), Fraction(1, 20)
"""A count of all records with a value is called accurate if it is off by less than ERROR but for a chance of RISK."""

SMALL_ERROR, SMALL_COUNT = Fraction(3, 10), 10
"""How unreliable small counts are is said for errors of SMALL_ERROR and counts up to SMALL_COUNT."""


class Rare(StrEnum):
    """What is done with values above the ratio limit."""

    KEEP = "keep"
    MERGE = "merge"
    SUPPRESS = "suppress"


@dataclass(frozen=True, slots=True, init=False)
class Options:
    """How groups are made, from which likelihood ratio on a value is too rare, and what is done with it then."""

    groups: Creation
    ratio_limit: Fraction | None
    rare: Rare

    def __init__(
        self, groups: Creation = Creation.MIXED, ratio_limit: Exact | None = None, rare: Rare = Rare.KEEP
    ) -> None:
        object.__setattr__(self, "groups", Creation(groups))
        object.__setattr__(self, "rare", Rare(rare))
        limit = None if ratio_limit is None else exact(ratio_limit, "the ratio limit")
        if limit is not None and limit <= 1:
            raise SpecError(f"the ratio limit is {limit}, and must be above 1: a ratio of 1 says nothing.")
        if limit is None and self.rare is not Rare.KEEP:
            raise SpecError("say from which likelihood ratio on a value is rare, such as --ratio-limit 100.")
        object.__setattr__(self, "ratio_limit", limit)


def default_method(design: Design, /) -> str:
    """Of many values that are mixed no more need be known than the group size; few do not meet as evenly."""
    return "fitted" if design.creation is Creation.MIXED and max(design.sizes) > FEW_VALUES else "inverse"


@dataclass(frozen=True, eq=False)
class Column:
    """The groups of one sensitive column."""

    values: tuple[Value, ...]
    counts: tuple[int, ...]
    groups: Groups


@dataclass(frozen=True, eq=False)
class Plan:
    """Groups for each sensitive column, made independently of each other."""

    histogram: Histogram
    group_size: int
    creation: Creation
    ratio_limit: Fraction | None
    columns: tuple[Column, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(len(column.values) for column in self.columns)


@dataclass(frozen=True)
class Design:
    """What the analyst needs to count: the domain of each column, and how its groups were made."""

    domains: tuple[tuple[Value, ...], ...]
    group_size: int
    creation: Creation

    @cached_property
    def domain(self) -> tuple[Value, ...]:
        """The values of the one column, or all combinations of those of several."""
        return self.domains[0] if len(self.domains) == 1 else tuple(itertools.product(*self.domains))  # type: ignore[arg-type]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(len(domain) for domain in self.domains)

    def to_json(self) -> dict[str, Any]:
        """Write the design down."""
        written = [values_to_json(domain) for domain in self.domains]
        return {
            **({"domain": written[0]} if len(written) == 1 else {"domains": written}),
            "group_size": self.group_size,
            "groups": self.creation.value,
        }


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: DecoyGroups, options: Options, draws: Draws, /) -> Plan:
    """Make the groups of each column, if no value is too frequent for them."""
    sizes = spec.sizes or (histogram.domain_size,)
    if math.prod(sizes) != histogram.domain_size:
        raise InternalError("the columns do not have the combinations of the domain.")
    columns = []
    for number, held in enumerate(margins(histogram.counts, sizes)):
        counts = held.tolist()
        values = _values(histogram.values, sizes, number)
        _check_eligible(values, counts, spec.group_size)
        groups = created(counts, spec.group_size, options.groups, draws, f"{NAME}/{number}")
        columns.append(Column(values, tuple(counts), groups))
    return Plan(histogram, spec.group_size, options.groups, options.ratio_limit, tuple(columns))


def merged_values(
    columns: Mapping[str, tuple[Sequence[Value], Sequence[int]]], group_size: int, options: Options
) -> dict[str, Merged]:
    """For each column the values to merge: those above the ratio limit, and more until together they are not.

    A count f has a ratio of at most L if it is at least N / (1 + (gamma - 1) L).
    """
    found = {}
    for name, (values, counts) in columns.items():
        if options.ratio_limit is None:
            continue
        least = Fraction(sum(counts)) / (1 + (group_size - 1) * options.ratio_limit)
        rising = sorted((count, place) for place, count in enumerate(counts) if count)
        chosen: list[int] = []
        held = 0
        for count, place in rising:
            if count >= least and (not chosen or held >= least):
                break
            chosen.append(place)
            held += count
        if chosen:
            # With those that nobody has: that a value is among the merged must not tell that it occurs.
            chosen += [place for place, count in enumerate(counts) if not count]
            label = None if options.rare is Rare.SUPPRESS else _label(values)
            found[name] = Merged(frozenset(values[place] for place in chosen), label)
    return found


def _label(values: Sequence[Value]) -> str:
    """A label that no value has."""
    label = MERGED_LABEL
    while label in values:
        label += "_"
    return label


def _values(domain: Sequence[Value], sizes: Sequence[int], number: int) -> tuple[Value, ...]:
    """The values of one column, from all combinations in the order of the domain."""
    if len(sizes) == 1:
        return tuple(domain)
    step = math.prod(sizes[number + 1 :])
    return tuple(parts(domain[code * step])[number] for code in range(sizes[number]))


def _check_eligible(values: Sequence[Value], counts: Sequence[int], group_size: int) -> None:
    most, total = max(counts), sum(counts)
    if most * group_size <= total:
        return
    largest = bounds.largest_group_size(counts)
    value = display(values[list(counts).index(most)])
    what = (
        f"ask for a group size of at most {largest}, or merge values so that none is as frequent"
        if largest > 1
        else "more than half of the records hold it, so no group size works"
    )
    raise InfeasibleError(
        f"{value!r} is held by {most:,} of {total:,} records, and with groups of {group_size} no value may be held by "
        f"more than {total // group_size:,}; {what}."
    )


def check_countable(plan: Plan, /) -> None:
    """Every plan lets somebody count: of each value at least how many records have it."""


def replace(plan: Plan, codes: Codes, slots: Numbers | None, draws: Draws, first_row: int, /) -> Replaced:
    """Draw a value of each record's group, uniformly and independently; column by column if there are several."""
    if slots is None:
        raise InternalError("decoys need slots.")
    published = np.zeros(1, dtype=np.int64)
    for number, (column, held, own_slots) in enumerate(
        zip(plan.columns, column_codes(codes, plan.sizes), np.atleast_2d(slots), strict=True)
    ):
        groups = column.groups
        run = groups.run_of(held, own_slots)
        stream = draws.stream(f"{NAME}/{number}/seats")
        seats = stream.integers(first_row, len(codes), groups.sizes.take(run).astype(np.uint64))
        shown = groups.members.ravel().take(run * groups.members.shape[1] + seats.astype(np.int64))
        published = published * len(column.values) + shown
    return Replaced(published.astype(codes.dtype))


def column_codes(codes: Codes, sizes: Sequence[int]) -> list[Codes]:
    """The codes of each column, from the places of combinations."""
    if len(sizes) == 1:
        return [codes]
    steps = [math.prod(sizes[number + 1 :]) for number in range(len(sizes))]
    return [codes.astype(np.int64) // step % size for step, size in zip(steps, sizes, strict=True)]


def design(plan: Plan, /) -> Design:
    """What is published of the plan: no count is."""
    return Design(tuple(column.values for column in plan.columns), plan.group_size, plan.creation)


def read_design(written: Mapping[str, Any], types: Sequence[str], /) -> Design:
    """Read a design back, given the Data Package types of its columns."""
    if "domains" in written:
        pairs = zip(written["domains"], types, strict=True)
        domains = tuple(values_from_json(domain, [kind]) for domain, kind in pairs)
    else:
        domains = (values_from_json(written["domain"], types),)
    read = Design(domains, int(written["group_size"]), Creation(written["groups"]))
    if any(len(set(domain)) != len(domain) or len(domain) < read.group_size for domain in domains):
        raise ReleaseFormatError("a domain of the design is too small for its groups, or names a value twice.")
    if read.group_size < 2 or math.prod(read.sizes) > MOST_COMBINATIONS:  # noqa: PLR2004
        raise ReleaseFormatError("the design's groups are too small, or its domain is too large.")
    return read


# ------------------------------------------------------------------------------------------------------------- counting


def observe(design: Design, /) -> Symbols:
    """Each record shows a value, or one of each column."""
    return Symbols(np.arange(math.prod(design.sizes)))


def weights(design: Design, /) -> None:
    """What a record adds to a count depends on the published histogram: there are no weights to write down."""
    return


def variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The variance of the closed form: contrast noise without what all records share, and the noise of the whole."""
    if len(plan.columns) > 1:
        return np.full(plan.histogram.domain_size, np.nan)
    held, size = np.array(plan.histogram.counts, dtype=np.float64), plan.group_size
    total = held.sum()
    law = EvenLaw(held / total, size)
    selected = np.clip(rows / total, 0.0, 1.0)
    own, other = (1 / size) * (1 - 1 / size), law.leaks * (1 - law.leaks)
    noise = (counts * own + (rows - counts) * other) / np.where(law.is_told, law.gains, np.nan) ** 2
    return np.asarray((1 - selected) * noise + selected**2 * held * (1 - 1 / size))


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> dict[str, Any]:
    """The groups, and for each value how much its being published tells and how much its counts are blurred."""
    columns = [_column_json(column, plan.group_size) for column in plan.columns]
    return {
        "group_size": plan.group_size,
        "creation": plan.creation.value,
        "groups": plan.columns[0].groups.number,
        **(columns[0] if len(columns) == 1 else {"columns": columns, **_products(plan)}),
        "accurate_count": bounds.accurate_count(plan.group_size, ERROR, RISK),
        "accurate_count_by_chebyshev": bounds.chebyshev_count(plan.group_size, ERROR, RISK),
        "small_count_error_probability": float(bounds.error_probability(SMALL_COUNT, plan.group_size, SMALL_ERROR)),
    }


def _column_json(column: Column, group_size: int) -> dict[str, Any]:
    total = sum(column.counts)
    present = [(value, count) for value, count in zip(column.values, column.counts, strict=True) if count]
    noise = {display(value): float(bounds.amplification(count, total, group_size)) for value, count in present}
    return {
        "likelihood_ratio": {
            display(value): float(bounds.likelihood_ratio(count, total, group_size)) for value, count in present
        },
        # JSON has no infinity: a value in every group has no amplification that could be given.
        "amplification": {value: factor if math.isfinite(factor) else None for value, factor in noise.items()},
    }


def _products(plan: Plan) -> dict[str, Any]:
    """The worst over all combinations of the columns' values: ratios multiply where columns are correlated."""
    ratios, noises = [], []
    for column in plan.columns:
        total = sum(column.counts)
        present = [count for count in column.counts if count]
        ratios.append(float(max(bounds.likelihood_ratio(count, total, plan.group_size) for count in present)))
        noises.append(float(min(bounds.amplification(count, total, plan.group_size) for count in present)))
    return {"largest_joint_likelihood_ratio": math.prod(ratios), "least_joint_amplification": math.prod(noises)}


def remarks(plan: Plan, /) -> list[str]:
    """Which values are too frequent to be counted under a condition, and which too rare to be hidden."""
    said = [said for column in plan.columns for said in (*_frequent(column, plan), *_rare(column, plan))]
    if plan.creation is Creation.ANATOMY:
        said.append(
            "groups of the kind 'anatomy' always bring the same values together, which anybody can recompute; they are "
            "for comparison with the literature, not for publishing."
        )
    if len(plan.columns) > 1:
        told = _products(plan)
        said.append(
            "each sensitive column is protected for itself. Where they are related, what they tell multiplies: the "
            f"odds of a combination by up to {told['largest_joint_likelihood_ratio']:,.0f}; and noise is amplified at "
            f"least {told['least_joint_amplification']:.3g} times in counts of combinations."
        )
    return said


def _named(values: Sequence[Value]) -> str:
    named = ", ".join(repr(display(value)) for value in values[:NAMED_VALUES])
    return f"{named} and {len(values) - NAMED_VALUES} more" if len(values) > NAMED_VALUES else named


def _frequent(column: Column, plan: Plan) -> list[str]:
    total = sum(column.counts)
    near = [
        value
        for value, count in zip(column.values, column.counts, strict=True)
        if plan.group_size * count > NEAR_LIMIT * total
    ]
    if not near:
        return []
    return [
        f"in more than {float(NEAR_LIMIT):.0%} of the groups, and so hardly to be counted under a condition: "
        f"{_named(near)}; ask for smaller groups if that matters."
    ]


def _rare(column: Column, plan: Plan) -> list[str]:
    total = sum(column.counts)
    ratios = {
        value: bounds.likelihood_ratio(count, total, plan.group_size)
        for value, count in zip(column.values, column.counts, strict=True)
        if count
    }
    worst = max(ratios, key=lambda value: ratios[value])
    said = [
        f"whoever sees {display(worst)!r} published finds it {float(ratios[worst]):,.1f} times likelier than before, "
        "by its odds: the rarer a value, the more its being published tells."
    ]
    if plan.ratio_limit is None:
        return said
    above = [value for value, ratio in ratios.items() if ratio > plan.ratio_limit]
    if not above:
        return []
    return [
        *said,
        f"above the likelihood ratio of {plan.ratio_limit}: {_named(above)}; merge rare values (--rare merge) or "
        "leave them blank (--rare suppress).",
    ]


def risk(plan: Plan, groups: Counts, /) -> Risk:
    """What knowing a public column adds to a published value, if that value is not likely in the group already.

    By Bayes' rule a value with the share p of a group, when published, is the true one with p/gamma of p/gamma + a
    (1-p). A record is breached if that comes above one half.
    """
    worst, breached = 0.0, 0.0
    table = groups.reshape(len(groups), *plan.sizes)
    for number, column in enumerate(plan.columns):
        rest = tuple(axis + 1 for axis in range(len(plan.sizes)) if axis != number)
        counts = table.sum(axis=rest).astype(np.float64)
        found = _column_risk(counts, np.array(column.counts, dtype=np.float64), plan.group_size)
        worst, breached = max(worst, found.worst), max(breached, found.breached)
    return Risk(worst, breached)


def _column_risk(groups: Floats, held: Floats, group_size: int) -> Risk:
    law = EvenLaw(held / held.sum(), group_size)
    sizes = np.maximum(groups.sum(axis=1, keepdims=True), 1.0)
    own, leaked = groups / group_size, (sizes - groups) * law.leaks
    chance = own / np.where(own > 0, own + leaked, 1.0)
    is_covered = groups <= LIKELY * sizes
    worst = float(np.where(is_covered, chance, 0.0).max(initial=0.0))
    breached = float(np.where(is_covered & (chance > LIKELY), own + leaked, 0.0).sum())
    return Risk(worst, breached / float(sizes.sum()))


def promise(design: Design, /) -> str:
    """The guarantee in plain words, with the numbers of this design."""
    size = design.group_size
    several = (
        " This holds for each sensitive column alone; what several of them tell together multiplies."
        if len(design.domains) > 1
        else ""
    )
    return (
        f"Every record was put into a group of at least {size} records with different values, and publishes one of "
        "these values, drawn at random; the groups are not published. Somebody who knows how frequent the values are, "
        "and nothing else of a person, believes the published value to be the person's own with a chance of at most "
        f"1/{size}. Other knowledge is not covered: whoever already suspects a rare value and sees it published may "
        "become nearly certain, and that somebody in the table has a value that is published is certain. The number of "
        f"people with a value is published with an error below {float(ERROR):.0%}, but for a chance of "
        f"{float(RISK):.0%}, where at least {bounds.accurate_count(size, ERROR, RISK):,} people have it; smaller "
        f"numbers are deliberately unreliable.{several}"
    )
