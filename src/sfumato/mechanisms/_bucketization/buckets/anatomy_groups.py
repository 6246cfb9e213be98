"""Anatomy: buckets of at least so many records, each with a value of its own.

The records stand in a row, value after value, and are dealt round and round to |T| div l buckets. A value with no more
records than there are buckets meets each bucket at most once, and the buckets end up with l records, or with one more
where a record was left over. Setting and dealing are those of the other methods, with the cap "one of each value".

Source: Xiao and Tao 2006, section 4; the residues go where their value is missing because of the row, without a search.
Notation: l = diversity, |T| = total.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.mechanisms._bucketization.buckets.bucket_problem import CapBelowShare, NoBucketingError, Problem
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Assignment, Setting, assign


def build_anatomy_buckets(counts: Sequence[int], diversity: int) -> tuple[Problem, Assignment]:
    """Buckets of `diversity` records, or one more, with all values different."""
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
