"""The two tables of the thesis' experiments, with its caps and its range of bucket sizes (Wang 2014, chapter 7).

OCC has occupations and EDU education as the sensitive column; of their shares only the largest and the smallest are
published.
Notation: θ = factor; M, M' = the least and the largest size; l = diversity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from papers.experiment import Conditions
from sfumato._figures.line_chart import Axis
from sfumato._request.bucket_and_decoy_requirements import ShareCap
from sfumato._request.histogram import Histogram
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import compute_least_size

OFFSET = "0.02"
FACTORS = (2, 4, 8, 16, 32)
DEFAULT_FACTOR = 8
LARGEST = 50
FACTOR_AXIS = Axis("θ: a cap is θ times the share, plus 0.02", is_logarithmic=True)


@dataclass(frozen=True)
class Census:
    """A table of the thesis: its name there and ours, and its published smallest and largest share."""

    name: str
    table: str
    smallest_share: Fraction
    largest_share: Fraction

    def get_counts(self, conditions: Conditions, rows: int) -> tuple[int, ...]:
        """How many of so many records hold each value."""
        return conditions.tables.get_counts(self.table, rows, conditions.seed)


OCCUPATIONS = Census("OCC", "occupations", Fraction("0.0018"), Fraction("0.075"))
EDUCATION = Census("EDU", "education", Fraction("0.0044"), Fraction("0.273"))
CENSUSES = (OCCUPATIONS, EDUCATION)


def compute_caps(counts: Sequence[int], factor: int) -> tuple[Fraction, ...]:
    """The cap of each value."""
    histogram = Histogram.of(range(len(counts)), counts)
    return ShareCap.from_shares(histogram, factor, OFFSET).list_caps(histogram.values)


def pose_problem(counts: Sequence[int], factor: int = DEFAULT_FACTOR) -> Problem:
    """Buckets from M, the least size that a cap allows, to M'."""
    caps = compute_caps(counts, factor)
    return pose(counts, caps, min(map(compute_least_size, caps)), LARGEST)


def compute_diversity(smallest: Fraction, factor: int) -> int:
    """The diversity that keeps every cap: one over the least of them, rounded up."""
    return compute_least_size(min(factor * smallest + Fraction(OFFSET), Fraction(1)))


def make_anatomy_setting(rows: int, ell: int) -> Setting:
    """Buckets of l records and of one more, whether or not the values could be put into them so."""
    buckets, rest = divmod(rows, ell)
    return Setting.of([(ell, buckets - rest), (ell + 1, rest)])
