"""Baselines for mechanisms. One redraws all values, and one publishes a table of noisy counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.json_types import Json
from sfumato._figures.number_format import format_percent
from sfumato._profile.record_sample import Sample
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers.known_column_beliefs import count_cooccurrences
from sfumato.errors import SpecError
from sfumato.mechanisms.error_at_count import predict_error

SIZE_FACTOR = 2.0
"""Counts from half to twice a size are taken as counts of that size."""
MOST_HEIGHT = 1000
"""Columns with more values are skipped, because most of their counts are small."""
SENSITIVITY = 1.0
"""One record changes a count by at most one."""
CHANGED_COUNTS = 2
"""If a person's value changes, two counts change: that of the old value and that of the new value."""
MARGIN = 2.0**-50
"""OpenDP rounds epsilon up. With this factor on the noise, it confirms the requested epsilon."""


@dataclass(frozen=True)
class Baseline:
    """A simple alternative to a mechanism. A mechanism should outperform it, or it serves another purpose."""

    name: str
    error: float
    """The standard error of a count of the given size, divided by the count."""
    gain: float | None
    """The attacker's gain; None if no values of people are published."""
    description: str

    def to_json(self) -> Json:
        """The baseline as JSON."""
        return {"name": self.name, "relative_error": self.error, "gain": self.gain, "words": self.description}


def redraw_values(sample: Sample, histogram: Histogram, at: int) -> Baseline | None:
    """Redraws each value from the table's own distribution, which discloses nothing about a person.

    The error is measured on counts of about `at` records, each of one public value with one protected value. The
    error is mainly a bias, because the association of columns is lost. The result is None if there are no such counts.
    """
    total, size = histogram.total, histogram.domain_size
    shares = np.array(histogram.counts) / total
    errors = []
    for codes in sample.columns.values():
        if int(codes.max(initial=0)) >= MOST_HEIGHT:
            continue
        value_counts = np.asarray(count_cooccurrences(codes, sample.sensitive, size)[0]) * (total / sample.records)
        expected = value_counts.sum(axis=1, keepdims=True) * shares
        is_near = (value_counts >= at / SIZE_FACTOR) & (value_counts < at * SIZE_FACTOR)
        squares = (expected - value_counts) ** 2 + expected * (1 - shares)
        errors.append(np.sqrt(squares[is_near]) / value_counts[is_near])
    if not errors or not sum(map(len, errors)):
        return None
    error = float(np.concatenate(errors).mean())
    sentence = (
        "each value is drawn from the frequencies in the table, independent of the person. It discloses nothing about "
        f"a single person. Counts of about {at:,} people who share a value of one public column are off by "
        f"{format_percent(error)} on average, because the association between columns is lost. "
        "This error is a bias, so answers cannot state it as a standard error."
    )
    return Baseline("redrawn values", error, 0.0, sentence)


def compute_laplace_scale(epsilon: float) -> float:
    """Returns the scale of Laplace noise for a count, which is also its mean absolute error."""
    if not 0 < epsilon < math.inf:
        raise SpecError(
            f"epsilon is {epsilon}; it must be a finite number above 0.",
            code="epsilon-out-of-range",
            fields={"given": str(epsilon)},
        )
    return SENSITIVITY / epsilon * (1 + MARGIN)


def estimate_laplace_table(bound: BreachBound, histogram: Histogram, at: int) -> Baseline | None:
    """A table with the count of each value in each group of equal public columns, each with its own Laplace noise.

    One table answers all counts. The odds of any statement about a person rise by at most the bound. If a person's
    value changes, two counts change by one, so the noise has twice the usual scale. The result is None without a table
    of people, or if no value has enough records.
    """
    groups = sum(number for _, number in histogram.class_sizes)
    if not groups:
        return None
    epsilon = math.log(bound.person_amplification)
    scale = CHANGED_COUNTS * bound.rows * compute_laplace_scale(epsilon)

    def predict_variances(rows: Floats, counts: Floats) -> Floats:
        return rows / histogram.total * groups * 2 * scale**2

    error = predict_error(np.array(histogram.counts, dtype=np.float64), predict_variances, at).evenly
    if error is None:
        return None
    sentence = (
        f"each value of each of the {groups:,} groups of people with equal public columns has a count with its own "
        f"Laplace noise (epsilon {epsilon:.2f}), as libraries for noisy contingency tables do it. One table "
        f"answers all counts. Counts of about {at:,} people are typically off by {format_percent(error)}. No row is "
        "published for a person."
    )
    return Baseline("Laplace table", error, None, sentence)
