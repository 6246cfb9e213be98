"""A plan with the mechanism that made it, and the error of its answers, predicted before anything is published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from sfumato.draws import Draws
from sfumato.errors import InfeasibleError
from sfumato.mechanisms.mechanism import AnyMechanism
from sfumato.plan.questions import Prediction, questions
from sfumato.request.digest import json_digest
from sfumato.request.histogram import Histogram
from sfumato.request.values import values_to_json

SELECTIVITIES = ("0.001", "0.005", "0.01")
EVEN_RECORDS = 1000
"""Of each value, in the table in which mechanisms are compared by the error of a value that hardly anybody has."""


@dataclass(frozen=True)
class Chosen:
    """A plan, with the mechanism that made it and the histogram it was made from. Secret."""

    mechanism: AnyMechanism
    plan: Any
    histogram: Histogram
    reason: str = ""
    """Why this mechanism was chosen, in one line; empty if it was asked for."""
    others: tuple[Chosen, ...] = field(default=(), repr=False)
    """The other plans that meet the request, each under the guarantee it gives."""

    @cached_property
    def design(self) -> Any:
        """What would be published of the plan."""
        return self.mechanism.design(self.plan)

    @cached_property
    def digest(self) -> str:
        """The digest of all that decides the rows besides the key and the table; the same for the same plan."""
        return json_digest({"design": self.design.to_json(), "decided": self.mechanism.decided(self.plan)})

    @cached_property
    def predicted(self) -> Mapping[str, float | None]:
        """The expected relative error of a count, by the share of the table's records that the count finds."""
        return {text: self._relative_error(float(text)) for text in SELECTIVITIES}

    @cached_property
    def questions(self) -> tuple[Prediction, ...]:
        """What people ask, each with the error of its answer."""
        return questions(self.histogram, partial(self.mechanism.variances, self.plan), self.mechanism.name)

    def _relative_error(self, selectivity: float) -> float | None:
        """Average the expected error over the records.

        A query about a value x finds count = selectivity * total records among count / share(x) rows, and its error is
        about normal, so the mean of |error| is sqrt(2/pi) standard errors. Values rarer than the selectivity cannot be
        found that often, and are left out; and no count finds less than one record.
        """
        total, held = self.histogram.total, np.array(self.histogram.counts, dtype=np.float64)
        count = selectivity * total
        is_found = (held >= count) & (count >= 1)
        if not is_found.any():
            return None
        rows = np.where(is_found, count * total / np.where(held > 0, held, 1), total)
        variances = self.mechanism.variances(self.plan, rows, np.full(len(held), count))[is_found]
        errors = np.sqrt(2 / math.pi * np.maximum(variances, 0.0)) / count
        found = float(held[is_found] @ errors / held[is_found].sum())
        return found if math.isfinite(found) else None

    def to_json(self) -> dict[str, Any]:
        """The plan for its holder: it contains the counts."""
        histogram = self.histogram
        return {
            "mechanism": self.mechanism.name,
            "feasible": True,
            "guarantee": self.mechanism.guarantee,
            "scope": self.mechanism.promise(self.design),
            **({"reason": self.reason} if self.reason else {}),
            "total": histogram.total,
            "domain_size": histogram.domain_size,
            "values": values_to_json(histogram.values),
            "counts": list(histogram.counts),
            **self.mechanism.explain(self.plan),
            "predicted": {
                "relative_error": dict(self.predicted),
                "questions": [each.to_json() for each in self.questions],
            },
            "remarks": [str(remark) for remark in self.mechanism.remarks(self.plan)],
            "alternatives": [other.to_json() for other in self.others],
        }


def even_error(mechanism: AnyMechanism, request: Any, options: Any, draws: Draws, histogram: Histogram) -> float | None:
    """The error of the count of a rare value, averaged evenly over the values, where others are equally frequent.

    Which mechanism is taken is published, so it must not follow the counts: one person's value could decide it. None
    where the request cannot be met for such a table; infinite where nothing is known of the error.
    """
    size = histogram.domain_size
    even = Histogram(histogram.values, (EVEN_RECORDS,) * size, histogram.axes)
    try:
        plan = mechanism.plan(even, request, options, draws)
    except InfeasibleError:
        return None
    rows = np.full(size, float(even.total))
    error = math.sqrt(max(float(mechanism.variances(plan, rows, np.zeros(size)).mean()), 0.0)) / EVEN_RECORDS
    return error if math.isfinite(error) else math.inf
