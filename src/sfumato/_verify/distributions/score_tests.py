"""How far counts may be from what a law says, before somebody speaks of it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._verify.check_results import Check

SMALLEST_VARIANCE = 100
MOST_DEVIATION = 8
"""With a variance of at least 100, Bernstein's inequality puts a deviation of 8 below 1e-10, and one in 10,000 counts
below 1e-6: the chance of a false alarm."""

LARGEST_TRANSITION = 2000
"""Domains up to this size have their whole matrix of chances looked at."""


def find_largest_deviation(error: Floats, variance: Floats) -> float:
    """By how many standard deviations a count is off at most, where the normal law is good enough to tell."""
    is_large_enough = variance >= SMALLEST_VARIANCE
    return float((np.abs(error[is_large_enough]) / np.sqrt(variance[is_large_enough])).max(initial=0.0))


def measure_agreement(rows: int, agreements: float, expected: float, variance: float) -> tuple[int, float]:
    """How many records could be matched, and by how many standard deviations they agree too often or too rarely."""
    if variance < SMALLEST_VARIANCE:
        return 0, 0.0
    return rows, abs(agreements - expected) / math.sqrt(variance)


def describe_matched(matched_rows: int) -> str:
    """How many records could be found again in the original, in words."""
    return (
        f"{matched_rows:,} of them matched with the original"
        if matched_rows
        else "none could be matched with the original"
    )


def check_distribution(worst: float, matched_rows: int) -> Check:
    """Whether what is published is distributed as the design says."""
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate by {worst:.1f} standard deviations from what the design says."
        return Check("draws", False, detail)
    sentence = "the published values are distributed as the design says"
    return Check("draws", True, f"{sentence} (within {worst:.1f} sd; {describe_matched(matched_rows)}).")


def compute_expected_weights(same: Fraction, other: Fraction) -> tuple[float, float]:
    """Two equations, two unknowns: what a record adds if it shows a value, and otherwise.

    A record of another value must count as 0 on average, and one of the value itself as 1.
    """
    gain = same - other
    return float((1 - other) / gain), float(-other / gain)
