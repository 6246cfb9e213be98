"""Finds the bound with the smallest posterior for which counts have a requested accuracy."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato._core.cell_values import Value, format_relative_error
from sfumato._core.exact_numbers import Exact, find_root_below, parse_exact
from sfumato._core.json_types import Json
from sfumato._core.option_fields import OptionValues
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS, choose
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, SpecError


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """The requested accuracy of a count, with the smallest posterior that gives it. If there is none, the reason."""

    error: Fraction
    count: int
    bound: BreachBound | None
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The answer, in one sentence."""
        if self.bound is None:
            return self.reason[:1].upper() + self.reason[1:]
        return (
            f"For a standard error of at most {_format_error(self.error)} at counts of {self.count:,} (averaged "
            f"evenly over the values), use a posterior of {float(self.bound.posterior):.2g} (with the prior "
            f"{self.bound.prior})."
        )

    def to_json(self) -> Json:
        """The JSON form."""
        posterior = None if self.bound is None else str(self.bound.posterior)
        return {"error": str(self.error), "at": self.count, "posterior": posterior, "reason": self.reason or None}


def _format_error(error: Fraction) -> str:
    """Formats an error in the form of the request."""
    return f"{100 * float(error):.3g}%" if error < 1 else format_relative_error(float(error))


DEFAULT_COUNT, DEFAULT_ERROR = 1_000, "10%"
"""The default target: a standard error of 10% at a count of 1,000."""


def bound_for_error(  # noqa: PLR0913 - a request has this many parts
    histogram: Histogram | Mapping[Value, int],
    prior: Exact,
    error: Exact,
    at: int,
    mechanism: str = AUTO,
    *,
    rows: int = 1,
    guarantee: str | None = None,
    options: OptionValues = NO_OPTIONS,
) -> BreachBound:
    """The bound with the smallest posterior under which a count of `at` records has at most this standard error.

    The error is relative, and averaged evenly over the values, as in `ChosenMechanism.predict_error_curve`. A posterior
    is published, so it is rounded up to two significant digits. More digits would disclose more about the counts behind
    it.
    """
    limit, exact_prior = parse_exact(error, "the error"), parse_exact(prior, "the prior")
    if limit <= 0:
        raise SpecError(
            f"the error is {limit} and must be above 0. The error is the standard error divided by the count, such "
            "as 10%.",
            code="error-out-of-range",
            fields={"given": str(limit)},
        )
    if at < 1:
        raise SpecError(
            f"the count is {at} and must be at least 1. Give the size of the counts that should have this error.",
            code="count-out-of-range",
            fields={"given": at},
        )
    if not 0 < exact_prior < 1:
        raise SpecError(
            f"the prior is {exact_prior} and must be between 0 and 1, such as 1/10.",
            code="belief-out-of-range",
            fields={"argument": "prior", "given": str(exact_prior)},
        )
    posteriors = [share for share in list_two_digit_shares(exact_prior) if share > exact_prior]

    def is_reached(posterior: Fraction) -> bool:
        if rows > 1 and find_root_below(posterior * (1 - exact_prior) / (exact_prior * (1 - posterior)), rows) == 1:
            return False  # with this many rows, the share of the bound for one row is too small
        spec = BreachBound(exact_prior, posterior, rows)
        try:
            chosen = choose(histogram, spec, None, mechanism, guarantee=guarantee, options=options)
        except InfeasibleError:
            return False
        (curve_point,) = chosen.predict_error_curve([at])
        if not curve_point.values:
            raise InfeasibleError(
                f"no value has {at:,} records; ask for the error of a smaller count.",
                code="no-such-count",
                fields={"count": at},
            )
        return curve_point.evenly is not None and curve_point.evenly <= limit

    number = bisect_left(posteriors, True, key=is_reached)
    if number == len(posteriors):
        raise InfeasibleError(
            f"no posterior up to {float(posteriors[-1]) if posteriors else float(exact_prior):.4g} has an error of "
            f"at most {_format_error(limit)} at a count of {at:,}; allow a larger error, or ask for a larger count.",
            code="error-unreachable",
            fields={"error": str(limit), "count": at},
        )
    return BreachBound(exact_prior, posteriors[number], rows)


def list_two_digit_shares(above: Fraction) -> list[Fraction]:
    """The shares below 1 with two significant digits, from the power of ten at or below a share upwards."""
    smallest = math.floor(math.log10(above))
    return [
        Fraction(digits) * Fraction(10) ** (decade - 1) for decade in range(smallest, 0) for digits in range(10, 100)
    ]


def find_error_target(histogram: Histogram, bound: BreachBound, error: Exact, at: int, **how: Any) -> ErrorTarget:
    """The smallest posterior for which a count has at most the given error. The prior is that of the bound."""
    limit = parse_exact(error, "the error")
    try:
        return ErrorTarget(limit, at, bound_for_error(histogram, bound.prior, limit, at, rows=bound.rows, **how))
    except InfeasibleError as refusal:
        return ErrorTarget(limit, at, None, str(refusal))
