"""Choosing a plan from a histogram, and predicting the error of its answers before anything is published."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.draws import Draws
from sfumato.errors import SpecError
from sfumato.histogram import Histogram
from sfumato.mechanisms import REGISTRY, AnyMechanism
from sfumato.spec import BreachBound
from sfumato.values import values_to_json

AUTO = "auto"
GUARANTEES = ("any-prior", "marginal-prior")
SELECTIVITIES = ("0.001", "0.005", "0.01")
RISK = 0.05
"""The error bound of the small-domain paper (its Theorem 2) holds with probability 1 - RISK."""


@dataclass(frozen=True)
class Chosen:
    """A plan, with the mechanism that made it and the histogram it was made from. Secret."""

    mechanism: AnyMechanism
    plan: Any
    histogram: Histogram

    @property
    def design(self) -> Any:
        """What would be published of the plan."""
        return self.mechanism.design(self.plan)

    def predicted(self) -> dict[str, float | None]:
        """The expected relative error of a count, by the share of the table's records that the count finds."""
        return {text: self._relative_error(float(text)) for text in SELECTIVITIES}

    def _relative_error(self, selectivity: float) -> float | None:
        """Average the expected error over the records.

        A query about a value x finds count = selectivity * total records among count / share(x) rows, and its error is
        about normal, so the mean of |error| is sqrt(2/pi) standard errors. Values rarer than the selectivity cannot be
        found that often, and are left out; and no count finds less than one record.
        """
        total, design = self.histogram.total, self.design
        count = selectivity * total
        found, weight = 0.0, 0
        for held in self.histogram.counts:
            if not 1 <= count <= held:
                continue
            base, slope = self.mechanism.count_variance(design, round(count * total / held))
            found += held * math.sqrt(2 / math.pi * (base + slope * count)) / count
            weight += held
        return found / weight if weight else None

    def to_json(self) -> dict[str, Any]:
        """The plan for its holder: it contains the counts."""
        design, histogram = self.design, self.histogram
        bound = _error_bound(histogram.total, float(design.retention))
        cell = {
            "values": values_to_json(histogram.values),
            "counts": list(histogram.counts),
            "prior": _ratio(design.bound.prior),
            "amplification": _ratio(design.bound.amplification),
            "retention": _ratio(design.retention),
            "error_bound": bound,
        }
        return {
            "mechanism": self.mechanism.NAME,
            "feasible": True,
            "guarantee": self.mechanism.GUARANTEE,
            "scope": self.mechanism.promise(design),
            "total": histogram.total,
            "domain_size": histogram.domain_size,
            "error_bound": bound,
            "cells": [cell],
            "predicted": {"relative_error": self.predicted()},
            "alternatives": [],
        }


def _error_bound(total: int, retention: float) -> float:
    """Theorem 2 of the small-domain paper: the largest error of any share, loose by a factor of 5 to 14."""
    return 2 * math.sqrt(math.log(2 / RISK)) / (math.sqrt(total) * retention)


def _ratio(number: Any) -> str:
    return f"{number.numerator}/{number.denominator}"


def choose(
    histogram: Histogram,
    spec: BreachBound,
    draws: Draws,
    mechanism: str = AUTO,
    guarantee: str = GUARANTEES[0],
) -> Chosen:
    """Plan with the named mechanism, or with the best one that gives the guarantee."""
    if guarantee not in GUARANTEES:
        raise SpecError(f"the guarantee {guarantee!r} is unknown; ask for {' or '.join(GUARANTEES)}.")
    name = next(iter(REGISTRY)) if mechanism == AUTO else mechanism
    if name not in REGISTRY:
        raise SpecError(f"the mechanism {name!r} is unknown; there are {', '.join((AUTO, *REGISTRY))}.")
    module = REGISTRY[name]
    return Chosen(module, module.plan(histogram, spec, None, draws), histogram)
