"""A plan with its mechanism, and predictions of the errors that answers would have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.cell_values import Value, display, to_json, values_to_json
from sfumato._core.digests import compute_json_digest
from sfumato._core.json_types import Json
from sfumato._core.random_draws import Draws
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.errors import InfeasibleError
from sfumato.mechanisms.error_at_count import ErrorAtCount, predict_error
from sfumato.mechanisms.mechanism import AnyMechanism

# Example questions, with the predicted errors of their answers.

FREQUENCIES = {
    "0.1": (0.03, math.inf, "3% or more"),
    "0.01": (0.003, 0.03, "0.3% to 3%"),
    "0.001": (0.0003, 0.003, "0.03% to 0.3%"),
}
"""The approximate shares of people with the values in example questions: lower limit, upper limit, and text."""

AMONG_SHARES = {"1": "", "0.1": ", counted in a tenth of the people"}
"""The people in the example questions: all, or a tenth that is unrelated to the value."""


@dataclass(frozen=True)
class QuestionPrediction:
    """An example question, "how many have this value", with its typical error. Secret, because it holds a count."""

    share: str
    """The approximate share of all people who have the value."""
    among_share: str
    """The share of all people among whom the question counts."""
    counted_text: str
    """The counted people in words: the value with its share of all people, and the people among whom it is counted."""
    value: Value = None
    count: float | None = None
    """The true answer. None if no value has about that share."""
    relative_error: float | None = None
    """The standard error divided by the true answer. For two of three answers, the relative error is smaller."""
    reason: str | None = None
    """The reason for a missing error."""

    def to_json(self) -> Json:
        """The JSON form."""
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
    """Predicts the errors of example questions, one for each frequency among all people and among a tenth of them.

    Each question is about the value whose share is nearest to the frequency, judged by their ratio. `variances` maps
    numbers of rows and counts of values to the variances of the estimated counts.
    """
    value_counts = np.array(histogram.counts, dtype=np.float64)
    shares = value_counts / histogram.total
    predictions = []
    for among_share, among_text in AMONG_SHARES.items():
        counts = float(among_share) * value_counts
        # Indistinguishable values have an infinite variance, also where the count is zero.
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.maximum(variances(np.full(len(value_counts), counts.sum()), counts), 0.0))
        for share, (least, most, frequency) in FREQUENCIES.items():
            near = np.flatnonzero((shares >= least) & (shares < most))
            if not len(near):
                absence = f"there is no value that {frequency} of all people have"
                predictions.append(
                    QuestionPrediction(
                        share, among_share, f"a value that {frequency} of all people have{among_text}", reason=absence
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
            counted_text = f"{display(value)!r} ({100 * shares[place]:.3g}% of all people){among_text}"
            predictions.append(
                QuestionPrediction(
                    share, among_share, counted_text, value, count, None if reason else error / count, reason
                )
            )
    return tuple(predictions)


# ---------------------------------------------------------------------------------------------------------------------

SELECTIVITIES = ("0.001", "0.005", "0.01")
CURVE_COUNTS = (100, 1_000, 10_000, 100_000)
"""The counts whose errors are always reported."""
EVEN_RECORDS = 1000
"""The number of records per value in the imagined table by which mechanisms are compared for rare values."""


@dataclass(frozen=True)
class ChosenMechanism:
    """A plan, with its mechanism and the histogram from which it was made. Secret."""

    mechanism: AnyMechanism
    plan: object
    histogram: Histogram
    reason: str = ""
    """The reason for choosing this mechanism, in one line. Empty if it was named."""
    alternatives: tuple[ChosenMechanism, ...] = field(default=(), repr=False)
    """The other plans that meet the request, each under its own guarantee."""

    @cached_property
    def design(self) -> Any:
        """The published part of the plan."""
        return self.mechanism.make_design(self.plan)

    @property
    def has_readable_values(self) -> bool:
        """Whether each record publishes one readable value of the domain."""
        return self.mechanism.make_encoding(self.design).IS_READABLE_VALUE

    @property
    def has_counts(self) -> bool:
        """Whether people with equal public columns publish counts and not records."""
        return self.mechanism.crowd_counts is not None

    @property
    def remarks(self) -> list[Notice]:
        """The mechanism's notices about this plan."""
        explanation = self.mechanism.explanation
        return explanation.list_remarks(self.plan) if explanation else []

    @cached_property
    def digest(self) -> str:
        """A digest of everything that determines the rows, except the key and the table.

        Equal plans have equal digests.
        """
        return compute_json_digest(
            {"design": self.design.to_json(), "decided": self.mechanism.plan_rules.fingerprint(self.plan)}
        )

    @cached_property
    def predicted_errors(self) -> Mapping[str, float | None]:
        """The expected relative error of a count, by the share of the table's records that the count covers.

        The error is averaged over the counted records. Errors are approximately normal, so the mean absolute error is
        sqrt(2/pi) standard errors.
        """
        standard_errors = {
            text: self._predict_error_at(float(text) * self.histogram.total).by_records for text in SELECTIVITIES
        }
        return {
            text: None if error is None else math.sqrt(2 / math.pi) * error for text, error in standard_errors.items()
        }

    @cached_property
    def question_predictions(self) -> tuple[QuestionPrediction, ...]:
        """The example questions, each with the error of its answer."""
        return predict_questions(
            self.histogram, partial(predict_variances, self.mechanism, self.plan), self.mechanism.name
        )

    def predict_error_curve(self, counts: Sequence[float] = CURVE_COUNTS) -> tuple[ErrorAtCount, ...]:
        """The errors of counts of these sizes, averaged evenly over values and over records."""
        return tuple(self._predict_error_at(count) for count in counts)

    def _predict_error_at(self, count: float) -> ErrorAtCount:
        value_counts = np.array(self.histogram.counts, dtype=np.float64)
        return predict_error(value_counts, partial(predict_variances, self.mechanism, self.plan), count)

    def to_json(self) -> Json:
        """The plan in JSON for the data steward, with the counts."""
        histogram, explanation = self.histogram, self.mechanism.explanation
        return {
            "mechanism": self.mechanism.name,
            "feasible": True,
            "guarantee": self.mechanism.guarantee,
            "in_short": self.mechanism.state_guarantee(self.design).short,
            "scope": self.mechanism.state_guarantee(self.design).text,
            **({"reason": self.reason} if self.reason else {}),
            "total": histogram.total,
            "domain_size": histogram.domain_size,
            "values": values_to_json(histogram.values),
            "counts": list(histogram.counts),
            **(explanation.explain(self.plan) if explanation else {}),
            "predicted": {
                "relative_error": dict(self.predicted_errors),
                "error_curve": [item.to_json() for item in self.predict_error_curve()],
                "questions": [item.to_json() for item in self.question_predictions],
            },
            "remarks": [str(remark) for remark in self.remarks],
            "alternatives": [other.to_json() for other in self.alternatives],
        }


def predict_variances(mechanism: AnyMechanism, plan: object, rows: Floats, counts: Floats) -> Floats:
    """The variances that a mechanism predicts; NaN where it predicts no variance."""
    if mechanism.error_prediction is None:
        return np.full(len(counts), np.nan)
    return mechanism.error_prediction.predict_variances(plan, rows, counts)


def compute_even_error(
    mechanism: AnyMechanism, request: PrivacySpec | None, options: object, draws: Draws, histogram: Histogram
) -> float | None:
    """The error of a rare value's count, in a table whose values are equally frequent, averaged evenly over the values.

    The choice of a mechanism is published, so it must not depend on the counts: one person's value could decide the
    choice. None if the request cannot be met for such a table; infinite if the mechanism predicts no error.
    """
    size = histogram.domain_size
    even_histogram = replace(histogram, counts=(EVEN_RECORDS,) * size)
    try:
        plan = mechanism.plan(even_histogram, request, options, draws)
    except InfeasibleError:
        return None
    rows = np.full(size, float(even_histogram.total))
    error = math.sqrt(max(float(predict_variances(mechanism, plan, rows, np.zeros(size)).mean()), 0.0)) / EVEN_RECORDS
    return error if math.isfinite(error) else math.inf
