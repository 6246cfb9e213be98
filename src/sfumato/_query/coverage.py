"""Estimates from a release the share of its people whom the bound covers in full."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato._core.cell_values import Value, format_values
from sfumato._core.json_types import Json
from sfumato._figures.number_format import format_percent
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release

MOST_NAMED = 5


@dataclass(frozen=True)
class Coverage:
    """The estimated share of people whose value is within the prior, and the values above the prior."""

    share: float
    standard_error: float | None
    uncovered_values: tuple[Value, ...]
    prior: Fraction
    unit: str
    """The unit of the counts (people or rows)."""

    @property
    def sentence(self) -> str:
        """The coverage in one or two sentences."""
        if not self.uncovered_values:
            return (
                f"By its own estimates, this release covers all {self.unit} in full, because no value is more "
                f"frequent than the prior {self.prior}."
            )
        error = "" if self.standard_error is None else f" (± {100 * self.standard_error:.1f} points)"
        return (
            f"By its own estimates, this release covers {format_percent(self.share)} of {self.unit} in full{error}. "
            f"These values are more frequent than the prior {self.prior}, so only their odds are bounded: "
            f"{format_values(self.uncovered_values, MOST_NAMED)}."
        )

    def to_json(self) -> Json:
        """Writes the coverage for programs."""
        return {
            "share": self.share,
            "standard_error": self.standard_error,
            "uncovered_values": len(self.uncovered_values),
            "prior": str(self.prior),
        }


def estimate_coverage(release: Release) -> Coverage | None:
    """Estimates the coverage of a release with one bound for all values. Returns None for other guarantees."""
    manifest = release.manifest
    comparability = manifest.mechanism.comparability
    spec = None if comparability is None else comparability.read_request(manifest.design)
    if spec is None or spec.bound is None or not release.rows:
        return None
    domain, rows, prior = manifest.domain, release.rows, spec.bound.prior
    counts = release.count_many([CountQuery(values=[value]) for value in domain]).value
    uncovered = tuple(value for value, count in zip(domain, counts, strict=True) if count > prior * rows)
    if not uncovered:
        return Coverage(1.0, None, (), prior, manifest.count_unit)
    total = release.count_many([CountQuery(values=uncovered)])[0]
    error = None if total.standard_error is None else total.standard_error / rows
    share = min(max(1 - (total.value or 0.0) / rows, 0.0), 1.0)
    return Coverage(share, error, uncovered, prior, manifest.count_unit)
