"""Whether the published values are distributed as the design says: a test against the original, for its holder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.audit import decoys
from sfumato.audit.counted import (
    WHOLE,
    Connection,
    Numbers,
    held_counts,
    matched_sets,
    matched_values,
    outside,
    public_columns,
    shown_counts,
    shown_members,
)
from sfumato.audit.promise import cell_laws, set_law
from sfumato.audit.written import Check, is_bucketed, resource_of, sensitive_domain, sensitive_names
from sfumato.release.manifest import BUCKETS
from sfumato.shown.quoting import quoted

MOST_GROUPS = 100
ID_PARTS = 8
"""Into so many parts the ids of buckets are cut to see whether they tell anything."""
LARGEST_TRANSITION = 2000
"""Domains up to this size have their whole matrix of chances looked at."""
SMALLEST_VARIANCE = 100
MOST_DEVIATION = 8
"""With a variance of at least 100, Bernstein's inequality puts a deviation of 8 below 1e-10, and one in 10,000 counts
below 1e-6: the chance of a false alarm."""


def check_draws(connection: Connection, written: Mapping[str, Any]) -> Check:
    """The published values must be distributed as the design says, in the whole table and by each public column."""
    if is_bucketed(written):
        return _check_dealing(connection, written)
    if written["sfumato"]["mechanism"] == "decoys":
        return decoys.check_draws(connection, written)
    worst = 0.0
    for group in (WHOLE, *_coarse(connection, written)):
        truth = held_counts(connection, written, group)
        if truth is None:
            return outside(written, "draws")
        worst = max(worst, _deviation(connection, written, group, truth))
    alone, agreement = _agreement(connection, written)
    worst = max(worst, agreement)
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate by {worst:.1f} standard deviations from what the design says."
        return Check("draws", False, detail)
    told = f"{alone:,} of them matched with the original" if alone else "none could be matched with the original"
    detail = f"the published values are distributed as the design says (within {worst:.1f} sd; {told})."
    return Check("draws", True, detail)


def _agreement(connection: Connection, written: Mapping[str, Any]) -> tuple[int, float]:
    """How many records can be matched, and by how many standard deviations they agree too often or too rarely.

    Records that share their public columns with few others are found again in the release. Each shows its own value,
    or holds it in its set, by a coin of its own; counts alone would not tell whether the coins were thrown where values
    are equally frequent.
    """
    if written["sfumato"]["mechanism"] == "subset":
        hold, (rows, held) = float(set_law(written["sfumato"]).hold), matched_sets(connection, written)
        agreed, expected, variance = float(held), rows * hold, rows * hold * (1 - hold)
    elif len(sensitive_domain(written)) > LARGEST_TRANSITION:
        return 0, 0.0
    else:
        rows, agreed, expected, variance = matched_values(connection, written, _transition(connection, written))
    if variance < SMALLEST_VARIANCE:
        return 0, 0.0
    return rows, abs(agreed - expected) / math.sqrt(variance)


def _transition(connection: Connection, written: Mapping[str, Any]) -> Numbers:
    """The chance that each value (row) shows as each other; how values are spread over cells is estimated."""
    size, laws = len(sensitive_domain(written)), cell_laws(written["sfumato"])
    shown = shown_counts(connection, written, WHOLE).get(None, {})
    held = np.zeros((len(laws), size))
    for number, law in enumerate(laws):
        places = list(law.places)
        counts = shown.get(number, np.zeros(size))[places]
        same, other = (np.array([float(each) for each in numbers]) for numbers in (law.same, law.other))
        # One cell holds everything; of several, each has one coin for all its values.
        kept = same - other if len(laws) > 1 else np.ones(len(places))
        held[number, places] = np.maximum((counts - counts.sum() * other) / kept, 0.0) if len(laws) > 1 else 1.0
    shares = held / np.maximum(held.sum(axis=0), 1e-300)
    found = np.zeros((size, size))
    for number, law in enumerate(laws):
        places = list(law.places)
        same, other = (np.array([float(each) for each in numbers]) for numbers in (law.same, law.other))
        block = np.tile(other[:, None], (1, len(places)))
        np.fill_diagonal(block, same)
        found[np.ix_(places, places)] += shares[number, places][:, None] * block
    return found


def _check_dealing(connection: Connection, written: Mapping[str, Any]) -> Check:
    """The buckets must hold the values of the original, and records must be dealt to them whatever their columns are.

    Bucket ids are random, so a column that the dealing does not depend on is spread evenly over any part of them.
    """
    names = ", ".join(map(quoted, sensitive_names(written)))
    fields = resource_of(written, BUCKETS)["schema"]["fields"]
    held = f"SELECT {names}, SUM({quoted(fields[-1]['name'])})::BIGINT FROM buckets GROUP BY ALL"
    truth = f"SELECT {names}, COUNT(*) FROM original GROUP BY ALL"
    if connection.execute(
        f"SELECT COUNT(*) FROM (({held} EXCEPT {truth}) UNION ALL ({truth} EXCEPT {held}))"
    ).fetchall()[0][0]:
        return Check("draws", False, "the buckets do not hold the values of the original.")
    bucket, worst = quoted(written["sfumato"]["cell_column"]), 0.0
    ((buckets,),) = connection.execute(f"SELECT MAX({bucket}) + 1 FROM release").fetchall()
    for column in _coarse(connection, written):
        part = f"FLOOR({bucket} * {ID_PARTS} / {buckets})"
        rows = connection.execute(f"SELECT {part}, {column}, COUNT(*) FROM release GROUP BY ALL").fetchall()
        worst = max(worst, _unevenness(rows))
    if worst > MOST_DEVIATION:
        return Check("draws", False, f"the ids of buckets go with a public column ({worst:.1f} standard deviations).")
    return Check(
        "draws", True, f"the buckets hold the values of the original; their ids tell nothing (within {worst:.1f} sd)."
    )


def _unevenness(rows: Sequence[tuple[Any, Any, int]]) -> float:
    """By how many standard deviations a value of a column is unevenly spread over parts of the bucket ids at most."""
    totals: dict[Any, int] = {}
    sizes: dict[Any, int] = {}
    for part, value, count in rows:
        totals[value] = totals.get(value, 0) + count
        sizes[part] = sizes.get(part, 0) + count
    everyone = sum(sizes.values())
    worst = 0.0
    for part, value, count in rows:
        share = totals[value] / everyone
        variance = sizes[part] * share * (1 - share)
        if variance >= SMALLEST_VARIANCE:
            worst = max(worst, abs(count - sizes[part] * share) / math.sqrt(variance))
    return worst


def _deviation(connection: Connection, written: Mapping[str, Any], group: str, truth: Mapping[Any, Numbers]) -> float:
    """By how many standard deviations a published count is off at most, over all groups."""
    worst = 0.0
    if written["sfumato"]["mechanism"] == "subset":
        law = set_law(written["sfumato"])
        shown = shown_members(connection, written, group)
        for key, held in truth.items():
            found = shown.get(key, np.zeros(len(held)))
            worst = max(worst, largest_deviation(held, found, float(law.hold), float(law.other)))
        return worst
    cells = shown_counts(connection, written, group)
    for key, held in truth.items():
        worst = max(worst, _cells_deviation(written, held, cells.get(key, {})))
    return worst


def largest_deviation(held: Numbers, shown: Numbers, same: float, other: float) -> float:
    """By how many standard deviations a count is off at most, where the normal law is good enough to tell.

    Of n records with a value and R - n without, each shows it by a coin of its own: binomial mean and variance.
    """
    rows = held.sum()
    variance = held * same * (1 - same) + (rows - held) * other * (1 - other)
    return _largest(shown - held * same - (rows - held) * other, variance)


def _largest(error: Numbers, variance: Numbers) -> float:
    known = variance >= SMALLEST_VARIANCE
    return float((np.abs(error[known]) / np.sqrt(variance[known])).max(initial=0.0))


def _cells_deviation(written: Mapping[str, Any], held: Numbers, shown: Mapping[int, Numbers]) -> float:
    """The same where values are shown, perhaps by cells.

    How the records of a value are spread over cells is not known from outside. What is known: each cell's unbiased
    counts add up to the truth. Their variance is at most what it would be if each cell held as many of the value as
    make it largest, and no more than there are.
    """
    laws = cell_laws(written["sfumato"])
    if len(laws) == 1 and len(laws[0].places) == len(held):
        same, other = (np.array([float(each) for each in numbers]) for numbers in (laws[0].same, laws[0].other))
        expected = held @ other + held * (same - other)
        variance = held @ (other * (1 - other)) + held * (same * (1 - same) - other * (1 - other))
        return _largest(shown.get(0, np.zeros(len(held))) - expected, variance)
    total, variance = np.zeros(len(held)), np.zeros(len(held))
    for number, law in enumerate(laws):
        places = list(law.places)
        counts = shown.get(number, np.zeros(len(held)))[places]
        rows, kept, swapped = counts.sum(), float(law.same[0]), float(law.other[0])
        total[places] += (counts - rows * swapped) / (kept - swapped)
        noise = rows * swapped * (1 - swapped) + np.minimum(held[places], rows) * kept * (1 - kept)
        variance[places] += noise / (kept - swapped) ** 2
    return _largest(total - held, variance)


def _coarse(connection: Connection, written: Mapping[str, Any]) -> list[str]:
    """The public columns of few values."""
    columns = public_columns(written)
    counts = ", ".join(f"APPROX_COUNT_DISTINCT({column})" for column in columns)
    sizes = connection.execute(f"SELECT {counts} FROM original").fetchall()[0]
    return [column for column, size in zip(columns, sizes, strict=True) if size <= MOST_GROUPS]
