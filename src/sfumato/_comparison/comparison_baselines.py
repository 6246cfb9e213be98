"""What mechanisms are held against: values drawn afresh, and answers with noise where no table is published."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato._core.json_types import Json
from sfumato._figures.number_format import format_percent
from sfumato._profile.record_sample import Sample
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers.known_column_beliefs import count_cooccurrences
from sfumato.errors import SpecError

SIZE_FACTOR = 2.0
"""Counts from half of a size to twice as much are taken as counts of that size."""
MOST_HEIGHT = 1000
"""Columns of more values have hardly a count of any size."""
SENSITIVITY = 1.0
"""One record changes a count by at most one."""
MARGIN = 2.0**-50
"""OpenDP rounds epsilon up; so much more noise makes it confirm the epsilon that was asked for."""


@dataclass(frozen=True)
class Baseline:
    """Something simple that a mechanism should beat, or that does another thing."""

    name: str
    error: float
    """The standard error of a count of the size in question, divided by the count."""
    gain: float | None
    """What an attacker gains; None where nothing is shown of a person."""
    description: str

    def to_json(self) -> Json:
        """For machines."""
        return {"name": self.name, "relative_error": self.error, "gain": self.gain, "words": self.description}


def redraw_values(sample: Sample, histogram: Histogram, at: int) -> Baseline | None:
    """Each record shows a value of the table's own distribution, whatever it holds: nobody learns of a person by it.

    The error is that of counts of about this size in the table: of a value of one public column and one protected
    value. It is no error by chance alone, because how these go together is lost. None where there are no such counts.
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
        f"values drawn afresh from those of the table, whatever a person has: they show nothing of a single person, "
        f"and counts of about {at:,} people with a value of one public column are off by {format_percent(error)} "
        "(mean over such counts of this table), because how columns go together is lost: chance does not even "
        "that out, and no answer could say how far off it is."
    )
    return Baseline("redrawn values", error, 0.0, sentence)


def compute_laplace_scale(epsilon: float) -> float:
    """Returns the scale of Laplace noise for a count, which is also its mean absolute error."""
    if not 0 < epsilon < math.inf:
        raise SpecError(f"epsilon is {epsilon}; it must be a finite number above 0.")
    return SENSITIVITY / epsilon * (1 + MARGIN)


def estimate_laplace_answers(bound: BreachBound, at: int, beside: tuple[str, float] | None) -> Baseline:
    """Counts answered with noise, so that one answer moves odds by no more than the bound; no table is published.

    Beside a mechanism with its error it is told from how many answers on the mechanism is closer.
    """
    epsilon = math.log(bound.person_amplification)
    noise = math.sqrt(2) * bound.rows * compute_laplace_scale(epsilon)
    sentence = (
        "no table is published: each count is answered with Laplace noise of its own. One answer, moving odds by as "
        f"much as the bound allows, is off by {format_percent(noise / at)} at {at:,} records; the noise of each "
        "grows with the number of answers"
    )
    if beside is not None:
        name, error = beside
        sentence += f", and from about {max(2, math.ceil(error * at / noise)):,} answers on {name} is closer"
    return Baseline("Laplace answers", noise / at, None, f"{sentence}.")
