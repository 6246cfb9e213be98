"""Tests whether counts are close enough to their expected distribution."""

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
"""The largest domain whose whole matrix of chances is checked."""


def find_largest_deviation(error: Floats, variance: Floats) -> float:
    """The largest deviation of a count in standard deviations, where the normal approximation is good enough."""
    is_large_enough = variance >= SMALLEST_VARIANCE
    return float((np.abs(error[is_large_enough]) / np.sqrt(variance[is_large_enough])).max(initial=0.0))


def measure_agreement(rows: int, agreements: float, expected: float, variance: float) -> tuple[int, float]:
    """The number of matched records, and the deviation of their agreement in standard deviations."""
    if variance < SMALLEST_VARIANCE:
        return 0, 0.0
    return rows, abs(agreements - expected) / math.sqrt(variance)


def describe_matched(matched_rows: int) -> str:
    """The number of records matched with the original, in words."""
    return (
        f"{matched_rows:,} of them matched with the original"
        if matched_rows
        else "none could be matched with the original"
    )


def check_distribution(worst: float, matched_rows: int) -> Check:
    """Checks that the published values are distributed as the design says."""
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate from the design by {worst:.1f} standard deviations."
        return Check("draws", False, detail)
    sentence = "the published values are distributed as the design says"
    return Check("draws", True, f"{sentence} (within {worst:.1f} sd; {describe_matched(matched_rows)}).")


def compute_expected_weights(same: Fraction, other: Fraction) -> tuple[float, float]:
    """Solves two equations for two unknowns: the contributions of a record that publishes a value, and of others.

    A record of another value must count as 0 on average, and one of the value itself as 1.
    """
    gain = same - other
    return float((1 - other) / gain), float(-other / gain)
