"""Estimates from a release the share of its people whom the bound covers in full."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato._core.cell_values import Value, format_values
from sfumato._core.json_types import Json
from sfumato._figures.number_format import format_percent
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release
from sfumato._request.guarantee import Guarantee

MOST_NAMED = 5


@dataclass(frozen=True)
class BoundCoverage:
    """The share of people whose value is within the prior, and the values above it, as the release estimates them."""

    share: float
    standard_error: float | None
    uncovered_values: tuple[Value, ...]
    prior: Fraction
    unit: str
    """What is counted: people or rows."""
    has_odds_bound: bool = True
    """Whether the odds of uncovered values are bounded; they are not if the guarantee is for the marginal prior."""

    @property
    def sentence(self) -> str:
        """The coverage in one or two sentences."""
        if not self.uncovered_values:
            return (
                f"By its own estimates, this release covers all {self.unit} in full: no value is more frequent than "
                f"the prior {self.prior}."
            )
        rest = "For these values only the odds are bounded" if self.has_odds_bound else "These values are not protected"
        error = "" if self.standard_error is None else f" (± {100 * self.standard_error:.1f} points)"
        return (
            f"By its own estimates, this release covers {format_percent(self.share)} of {self.unit} in full{error}. "
            f"Not covered, because they are more frequent than the prior {self.prior}: "
            f"{format_values(self.uncovered_values, MOST_NAMED)}. {rest}."
        )

    def to_json(self) -> Json:
        """Writes the coverage for programs."""
        return {
            "share": self.share,
            "standard_error": self.standard_error,
            "uncovered_values": len(self.uncovered_values),
            "prior": str(self.prior),
        }


def estimate_bound_coverage(release: Release) -> BoundCoverage | None:
    """Estimates the coverage of a release with one bound for all values; None for other guarantees."""
    manifest = release.manifest
    comparability = manifest.mechanism.comparability
    spec = None if comparability is None else comparability.read_request(manifest.design)
    if spec is None or spec.bound is None or not release.rows:
        return None
    domain, rows, prior = manifest.domain, release.rows, spec.bound.prior
    counts = release.count_many([CountQuery(values=[value]) for value in domain]).value
    uncovered = tuple(value for value, count in zip(domain, counts, strict=True) if count > prior * rows)
    if not uncovered:
        return BoundCoverage(1.0, None, (), prior, manifest.count_unit)
    total = release.count_many([CountQuery(values=uncovered)])[0]
    error = None if total.standard_error is None else total.standard_error / rows
    share = min(max(1 - (total.value or 0.0) / rows, 0.0), 1.0)
    has_odds_bound = manifest.mechanism.guarantee is Guarantee.ANY_PRIOR
    return BoundCoverage(share, error, uncovered, prior, manifest.count_unit, has_odds_bound)
