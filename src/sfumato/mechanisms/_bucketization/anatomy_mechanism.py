"""Anatomy: buckets of a few records with different values.

Claim: every bucket has at least `ell` records with different values. Consider an attacker who knows the bucket of a
record, and nothing that distinguishes the records in this bucket. This attacker gives no value of the record a
probability above 1/ell. Other knowledge is not covered, as for buckets of several sizes.
Source: Xiao and Tao 2006. Each remaining record joins a bucket that does not have its value, so no record is dropped.
Published: as for buckets of several sizes, with the cap 1/ell for every value.
Notation: l = ell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato._core.cell_values import display
from sfumato._core.random_draws import Draws
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._bucketization.buckets import Plan, deal_records
from sfumato.mechanisms._bucketization.buckets.bucket_problem import CapBelowShare, NoBucketingError, Problem
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting, assign
from sfumato.mechanisms._bucketization.buckets.record_assignment import DealingMethod
from sfumato.mechanisms._bucketization.buckets.size_methods import Choice

# Anatomy: makes buckets of at least l records with different values.
#
# The records stand in a row, value after value, and are dealt in turn to |T| div l buckets. A value with at most as
# many records as there are buckets meets each bucket at most once. Each bucket gets l records, and some buckets get one
# of the remaining records too. Bucket setting and dealing work as in the other methods, with the cap of one record of
# each value.
# Source: Xiao and Tao 2006, section 4. Because of the order of the row, the remaining records reach buckets without
# their value, and no search is needed.
# Notation: l = diversity, |T| = total.


def build_anatomy_buckets(counts: Sequence[int], diversity: int) -> tuple[Problem, Assignment]:
    """Makes buckets of `diversity` or `diversity + 1` records with different values."""
    total = sum(counts)
    buckets = total // diversity
    for place, count in enumerate(counts):
        if count > buckets:
            raise NoBucketingError(CapBelowShare(place, Fraction(count, total), Fraction(1, diversity)))
    size, residues = divmod(total, buckets)
    setting = Setting.of([(size, buckets - residues), (size + 1, residues)])
    sizes = np.array([size for size, _ in setting], dtype=np.int64)
    problem = Problem(np.array(counts, dtype=np.int64), sizes, np.ones((len(counts), len(sizes)), dtype=np.int64))
    return problem, assign(problem, setting)


# ---------------------------------------------------------------------------------------------------------------------

NAME = "anatomy"


@dataclass(frozen=True, slots=True)
class Options:
    """The option for dealing the records."""

    dealing: DealingMethod = DealingMethod.MIXED
    """The method that deals the records. Only reproductions of papers set another method."""


def plan(histogram: Histogram, spec: Diversity, options: Options, draws: Draws, /) -> Plan:
    """Deals the records into the largest number of buckets that the diversity allows."""
    largest_count = max(histogram.counts)
    if largest_count * spec.ell > histogram.total:
        value = histogram.values[histogram.counts.index(largest_count)]
        largest_diversity = histogram.total // largest_count
        remedy = (
            f"Use at most `diversity={largest_diversity}`"
            if largest_diversity > 1
            else "More than half of the records have it, so no diversity works: use caps (`spec=LinearCap(...)`)"
        )
        sentence = (
            f"has a share of {Fraction(largest_count, histogram.total)} of the records, too many for buckets of "
            f"{spec.ell} different values. {remedy}, or one bound (`spec=BreachBound(...)`)."
        )
        raise InfeasibleError(
            f"one value {sentence}",
            sentence_with_values=f"{display(value)!r} {sentence}",
            code="cap-below-share",
            fields={"share": str(Fraction(largest_count, histogram.total)), "cap": str(Fraction(1, spec.ell))},
        )
    problem, assignment = build_anatomy_buckets(histogram.counts, spec.ell)
    caps = (Fraction(1, spec.ell),) * histogram.domain_size
    choice = Choice(assignment, problem.floors, assignment.setting.loss)
    return deal_records(histogram, caps, choice, options.dealing, draws, NAME)


MECHANISM = buckets.make_bucket_mechanism(NAME, Diversity, Options, plan, Diversity.from_posterior)
