"""Tests whether counts are close enough to their expected distribution."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._verify.check_results import Check

SMALLEST_VARIANCE = 100
MOST_DEVIATION = 8
"""With a variance of at least 100, the probability of a deviation of 8 is below 1e-10 by Bernstein's inequality.

For 10,000 counts together, this probability is below 1e-6, which limits the probability of a false alarm.
"""

LARGEST_TRANSITION = 2000
"""The largest domain whose whole transition matrix is checked."""


def find_largest_deviation(error: Floats, variance: Floats) -> float:
    """The largest deviation in standard deviations, among counts for which the normal approximation is good enough."""
    is_large_enough = variance >= SMALLEST_VARIANCE
    return float((np.abs(error[is_large_enough]) / np.sqrt(variance[is_large_enough])).max(initial=0.0))


def measure_agreement(rows: int, agreements: float, expected: float, variance: float) -> tuple[int, float]:
    """The number of matched records, and how far their agreement is from its expectation, in standard deviations."""
    if variance < SMALLEST_VARIANCE:
        return 0, 0.0
    return rows, abs(agreements - expected) / math.sqrt(variance)


def describe_matched(matched_rows: int) -> str:
    """A phrase with the number of records that were matched with the original."""
    return (
        f"{matched_rows:,} records were matched with the original"
        if matched_rows
        else "no records could be matched with the original"
    )


def check_distribution(worst: float, matched_rows: int) -> Check:
    """Checks that the published values are distributed as the design says."""
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate from the design by {worst:.1f} standard deviations."
        return Check("draws", False, detail)
    sentence = "the published values are distributed as the design says"
    return Check(
        "draws",
        True,
        f"{sentence} (largest deviation: {worst:.1f} standard deviations; {describe_matched(matched_rows)}).",
    )


def compute_expected_weights(same: Fraction, other: Fraction) -> tuple[float, float]:
    """Solves two equations for the contributions of a record that publishes a value, and of a record that does not.

    On average, a record of the value itself must count as 1, and a record of another value as 0.
    """
    gain = same - other
    return float((1 - other) / gain), float(-other / gain)
