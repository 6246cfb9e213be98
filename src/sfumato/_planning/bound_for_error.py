"""The inverse question: which bound lets counts be as exact as they must be."""

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
from sfumato._request.histogram import Histogram
from sfumato._request.requirements import BreachBound
from sfumato.errors import InfeasibleError, SpecError


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """How exact a count must be, and the smallest posterior that allows it; or why there is none."""

    error: Fraction
    count: int
    bound: BreachBound | None
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The answer, in one line."""
        if self.bound is None:
            return self.reason[:1].upper() + self.reason[1:]
        return (
            f"A standard error of at most {_format_error(self.error)} at counts of {self.count:,}, of a value chosen "
            f"evenly, takes a posterior of {float(self.bound.posterior):.2g} (with the prior {self.bound.prior})."
        )

    def to_json(self) -> Json:
        """For machines."""
        posterior = None if self.bound is None else str(self.bound.posterior)
        return {"error": str(self.error), "at": self.count, "posterior": posterior, "reason": self.reason or None}


def _format_error(error: Fraction) -> str:
    """An error as it was asked for."""
    return f"{100 * float(error):.3g}%" if error < 1 else format_relative_error(float(error))


DEFAULT_COUNT, DEFAULT_ERROR = 1_000, "10%"
"""What is asked where nothing else is: the posterior that gives a tenth at a count of a thousand."""


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
    """The bound of the smallest posterior under which a count of `at` records has at most this standard error.

    The error is relative, and the mean over values chosen evenly, as `Chosen.error_curve` has it. A posterior has two
    significant digits, rounded up: it is published, and finer ones would tell more of the counts it was chosen by.
    """
    limit, exact_prior = parse_exact(error, "the error"), parse_exact(prior, "the prior")
    if limit <= 0:
        raise SpecError(
            f"the error is {limit}, and must be above 0: it is the standard error divided by the count, as in 10%."
        )
    if at < 1:
        raise SpecError(f"the count is {at}, and must be at least 1: it is the count whose error is asked for.")
    if not 0 < exact_prior < 1:
        raise SpecError(f"the prior is {exact_prior}, and must be between 0 and 1, such as 1/10.")
    posteriors = [share for share in list_two_digit_shares(exact_prior) if share > exact_prior]

    def is_reached(posterior: Fraction) -> bool:
        if rows > 1 and find_root_below(posterior * (1 - exact_prior) / (exact_prior * (1 - posterior)), rows) == 1:
            return False  # shared out among so many rows, nothing is left that a row may tell
        spec = BreachBound(exact_prior, posterior, rows)
        try:
            chosen = choose(histogram, spec, None, mechanism, guarantee=guarantee, options=options)
        except InfeasibleError:
            return False
        (curve_point,) = chosen.predict_error_curve([at])
        if not curve_point.values:
            raise InfeasibleError(f"no value has {at:,} records, so there is no such count; ask about a smaller one.")
        return curve_point.evenly is not None and curve_point.evenly <= limit

    number = bisect_left(posteriors, True, key=is_reached)
    if number == len(posteriors):
        raise InfeasibleError(
            f"no posterior up to {float(posteriors[-1]) if posteriors else float(exact_prior):.4g} has an error of "
            f"at most {_format_error(limit)} at a count of {at:,}; allow a larger error, or ask about a larger count."
        )
    return BreachBound(exact_prior, posteriors[number], rows)


def list_two_digit_shares(above: Fraction) -> list[Fraction]:
    """The shares of two significant digits below 1, from the decade of a share on."""
    smallest = math.floor(math.log10(above))
    return [
        Fraction(digits) * Fraction(10) ** (decade - 1) for decade in range(smallest, 0) for digits in range(10, 100)
    ]


def find_error_target(histogram: Histogram, bound: BreachBound, error: Exact, at: int, **how: Any) -> ErrorTarget:
    """The smallest posterior from the prior of a bound that lets a count be so exact; `how` as for the bound itself."""
    limit = parse_exact(error, "the error")
    try:
        return ErrorTarget(limit, at, bound_for_error(histogram, bound.prior, limit, at, rows=bound.rows, **how))
    except InfeasibleError as refusal:
        return ErrorTarget(limit, at, None, str(refusal))
