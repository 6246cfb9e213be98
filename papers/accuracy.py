"""How far the answers to a pool of queries are off, and how often their intervals hold the truth.

The error is relative: |estimate - truth| / truth. So it is in the papers on small domain randomization (section 6.1),
SPLU (section 6.1) and F'-privacy (section 7.2.2). They set no sanity bound, because their queries find at least one
record; others divide by a bound, here `at_least`, where the truth is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from papers.query_pools import Band, Pool
from sfumato._core.array_types import Counts, Floats
from sfumato._query.estimate import Estimates
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato.errors import SpecError


@dataclass(frozen=True)
class Accuracy:
    """The errors of some queries over one or more releases; not-a-number where there is nothing to say."""

    queries: int
    mean: float
    median: float
    coverage: float
    """The share of intervals that hold the true count, of those that there are."""


def compute_relative_errors(estimated: Floats, truths: Counts, at_least: float = 1) -> Floats:
    """How far each estimate is off, relative to the truth or to the sanity bound, whichever is more."""
    if at_least <= 0:
        raise SpecError(
            f"the sanity bound is {at_least}, and must be above 0.",
            code="sanity-bound-out-of-range",
            fields={"given": str(at_least)},
        )
    return np.asarray(np.abs(estimated - truths) / np.maximum(truths, at_least))


def compute_accuracy(
    pool: Pool,
    releases: Sequence[Estimates],
    band: Band | None = None,
    *,
    at_least: float = 1,
    level: float = DEFAULT_LEVEL,
) -> Accuracy:
    """The errors of the queries of a pool, or of a band of it, over the answers of each release."""
    is_in_band = np.ones(len(pool), dtype=np.bool_) if band is None else band.holds(pool.truths)
    truths = pool.truths[is_in_band]
    if not releases or not len(truths):
        return Accuracy(len(truths), np.nan, np.nan, np.nan)
    errors = np.array(
        [compute_relative_errors(estimates.value[is_in_band], truths, at_least) for estimates in releases]
    )
    covered_count, interval_count = 0, 0
    for estimates in releases:
        low, high = (end[is_in_band] for end in estimates.interval(level))
        covered_count += int(np.count_nonzero((low <= truths) & (truths <= high)))
        interval_count += int(np.count_nonzero(~np.isnan(low)))
    return Accuracy(
        len(truths),
        float(errors.mean()),
        float(np.median(errors)),
        covered_count / interval_count if interval_count else np.nan,
    )
