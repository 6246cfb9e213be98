"""Estimates from a release which share of its people the bound covers in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato._core.cell_values import Value, format_values
from sfumato._core.json_types import Json
from sfumato._figures.number_format import format_percent, format_upper_factor
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release

MOST_NAMED = 5
SURE_ERRORS = 2.0
"""A value is clearly above or below the prior if its estimate is more than this number of standard errors away."""


@dataclass(frozen=True)
class BoundCoverage:
    """The share of people whose value is within the prior, and the values above the prior. Both are estimates."""

    share: float
    low: float
    """The smallest share, which leaves out the values that may be above the prior."""
    high: float
    """The largest share, which leaves out only the values that are clearly above the prior."""
    uncovered_values: tuple[Value, ...]
    """The values that are clearly above the prior."""
    borderline_values: tuple[Value, ...]
    """The values that are too close to the prior: the release does not show whether they are above or below it."""
    prior: Fraction
    unit: str
    """What is counted: people or rows."""
    odds_factor: Fraction | None = None
    """The largest factor by which the odds of a value can rise. None if the guarantee is for the marginal prior."""

    @property
    def sentence(self) -> str:
        """The coverage in a few sentences."""
        if not (self.uncovered_values or self.borderline_values):
            return (
                f"By its own estimates, this release covers all {self.unit} in full: no value is more frequent than "
                f"the prior {self.prior}."
            )
        shares = list(dict.fromkeys(map(format_percent, (self.low, self.high))))
        parts = [f"By its own estimates, this release covers {' to '.join(shares)} of {self.unit} in full."]
        if self.uncovered_values:
            names = format_values(self.uncovered_values, MOST_NAMED)
            rest = (
                "These values are not protected."
                if self.odds_factor is None
                else "There is no fixed limit on the confidence in these values; only the factor by which the odds can "
                f"rise is limited ({format_upper_factor(self.odds_factor)})."
            )
            parts.append(f"Not covered, because they are more frequent than the prior {self.prior}: {names}. {rest}")
        if self.borderline_values:
            names = format_values(self.borderline_values, MOST_NAMED)
            parts.append(f"Perhaps not covered, because they are close to the prior {self.prior}: {names}.")
        return " ".join(parts)

    def to_json(self) -> Json:
        """Writes the coverage for programs."""
        return {
            "share": self.share,
            "low": self.low,
            "high": self.high,
            "uncovered_values": len(self.uncovered_values),
            "borderline_values": len(self.borderline_values),
            "prior": str(self.prior),
        }


def estimate_bound_coverage(release: Release) -> BoundCoverage | None:
    """Estimates the coverage of a release. None if the guarantee has no single bound for all values."""
    manifest = release.manifest
    comparability = manifest.mechanism.comparability
    spec = None if comparability is None else comparability.read_request(manifest.design)
    if spec is None or spec.bound is None or not release.rows:
        return None
    domain, prior = manifest.domain, spec.bound.prior
    limit = float(prior) * release.rows
    estimates = list(release.count_many([CountQuery(values=[value]) for value in domain]))
    above, sure, possible = [], [], []
    for value, estimate in zip(domain, estimates, strict=True):
        count, margin = estimate.value or 0.0, SURE_ERRORS * (estimate.standard_error or 0.0)
        above += [value] if count > limit else []
        sure += [value] if count - margin > limit else []
        possible += [value] if count + margin > limit else []
    share, low, high = _compute_rests(release, [(above, 0.0), (possible, SURE_ERRORS), (sure, -SURE_ERRORS)])
    return BoundCoverage(
        share,
        low,
        high,
        tuple(sure),
        tuple(value for value in possible if value not in sure),
        prior,
        manifest.count_unit,
        spec.bound.person_amplification if manifest.mechanism.guarantee.covers_all_statements else None,
    )


def _compute_rests(release: Release, groups: Sequence[tuple[Sequence[Value], float]]) -> list[float]:
    """The share of records outside each group of values.

    Each group's count is first raised by a number of standard errors.
    """
    totals = iter(release.count_many([CountQuery(values=values) for values, _ in groups if values]))
    rests = []
    for values, errors in groups:
        total = next(totals) if values else None
        count = 0.0 if total is None else (total.value or 0.0) + errors * (total.standard_error or 0.0)
        rests.append(min(max(1 - count / release.rows, 0.0), 1.0))
    return rests
