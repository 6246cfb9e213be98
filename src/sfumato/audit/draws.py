"""Whether the published values are distributed as the design says: a test against the original, for its holder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.audit.counted import (
    WHOLE,
    Connection,
    Numbers,
    held_counts,
    outside,
    public_columns,
    shown_counts,
    shown_members,
)
from sfumato.audit.promise import cell_laws, set_law
from sfumato.audit.verify import Check

MOST_GROUPS = 100
SMALLEST_VARIANCE = 100
MOST_DEVIATION = 8
"""With a variance of at least 100, Bernstein's inequality puts a deviation of 8 below 1e-10, and one in 10,000 counts
below 1e-6: the chance of a false alarm."""


def check_draws(connection: Connection, written: Mapping[str, Any]) -> Check:
    """The published values must be distributed as the design says, in the whole table and by each public column."""
    worst = 0.0
    for group in (WHOLE, *_coarse(connection, written)):
        truth = held_counts(connection, written, group)
        if truth is None:
            return outside(written, "draws")
        worst = max(worst, _deviation(connection, written, group, truth))
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate by {worst:.1f} standard deviations from what the design says."
        return Check("draws", False, detail)
    return Check("draws", True, f"the published values are distributed as the design says (within {worst:.1f} sd).")


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
    if len(laws) == 1:
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
