"""Buckets of one size: the best setting is the smallest size that works.

Source: Wang 2014, Lemma 3: b buckets of size S are valid if and only if o_i <= c_i(S) * b for every value and S * b =
|T|.
Notation: o_i = counts[i], c_i(S) = floors[i, S], S = size, b = buckets.
"""

from __future__ import annotations

from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, TooFewSizes
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting


def find_best_size(problem: Problem) -> Setting:
    """The valid setting of one size with the least loss."""
    for column, size in enumerate(problem.sizes.tolist()):
        buckets, rest = divmod(problem.total, size)
        if not rest and (problem.counts <= problem.floors[:, column] * buckets).all():
            return Setting.of([(size, buckets)])
    raise NoBucketingError(TooFewSizes("one"))
