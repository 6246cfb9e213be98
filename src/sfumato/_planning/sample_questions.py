"""Questions that people ask, and how far off the answers of a plan will be, told before anything is published."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import Floats
from sfumato._core.cell_values import Value, display, to_json
from sfumato._core.json_types import Json
from sfumato._request.histogram import Histogram

FREQUENCIES = {
    "0.1": (0.03, math.inf, "3% or more"),
    "0.01": (0.003, 0.03, "0.3% to 3%"),
    "0.001": (0.0003, 0.003, "0.03% to 0.3%"),
}
"""It is asked how many have a value of about these shares: from the least on, below the largest, and both in words."""

AMONG_SHARES = {"1": "", "0.1": " among a tenth of the people"}
"""Of whom it is asked: of everybody, or of a part that has nothing to do with the value."""


@dataclass(frozen=True)
class QuestionPrediction:
    """How many have a value, and how far off the answer typically is. Secret: it names a value and its count."""

    share: str
    """About which share of the people have the value."""
    among_share: str
    """The part of the people that is asked about."""
    counted_text: str
    """What is counted, in words: the value with its share, and of whom it is asked."""
    value: Value = None
    count: float | None = None
    """The true answer; None where no value has about that share."""
    relative_error: float | None = None
    """The standard error of the answer by the true one: two answers in three are nearer to the truth than this."""
    reason: str | None = None
    """Why there is no error, where there is none."""

    def to_json(self) -> Json:
        """For machines."""
        question = {
            "question": f"how many have {self.counted_text}",
            "share": self.share,
            "among": self.among_share,
            "value": to_json(self.value),
        }
        return {**question, "count": self.count, "relative_error": self.relative_error, "reason": self.reason}


def predict_questions(
    histogram: Histogram, variances: Callable[[Floats, Floats], Floats], name: str
) -> tuple[QuestionPrediction, ...]:
    """A question for each frequency, about everybody and about some, with the errors of the mechanism of this name.

    Each is about the value whose share is nearest, by its ratio; the first of equals. `variances` has the variance of
    the count of each value, if it is held by so many of so many rows.
    """
    value_counts = np.array(histogram.counts, dtype=np.float64)
    shares = value_counts / histogram.total
    predictions = []
    for among_share, among_text in AMONG_SHARES.items():
        counts = float(among_share) * value_counts
        with np.errstate(invalid="ignore"):  # what cannot be told apart has an infinite variance, also where it is none
            errors = np.sqrt(np.maximum(variances(np.full(len(value_counts), counts.sum()), counts), 0.0))
        for share, (least, most, frequency) in FREQUENCIES.items():
            near = np.flatnonzero((shares >= least) & (shares < most))
            if not len(near):
                absence = f"no value has {frequency} of the people"
                predictions.append(
                    QuestionPrediction(
                        share, among_share, f"a value of {frequency} of the people{among_text}", reason=absence
                    )
                )
                continue
            place = int(near[np.abs(np.log(shares[near] / float(share))).argmin()])
            value, count, error = histogram.values[place], float(counts[place]), float(errors[place])
            reason = None
            if count < 1:
                reason = f"fewer than one person has {display(value)!r}{among_text}"
            elif not math.isfinite(error):
                reason = f"{name} predicts no error for such a count"
            counted_text = f"{display(value)!r} ({100 * shares[place]:.3g}%){among_text}"
            predictions.append(
                QuestionPrediction(
                    share, among_share, counted_text, value, count, None if reason else error / count, reason
                )
            )
    return tuple(predictions)
