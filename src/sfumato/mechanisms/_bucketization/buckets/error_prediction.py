"""Predicts the errors of counts in buckets from the contents of the buckets alone.

The contents follow from the sizes, the caps and the exact counts of the values, and all of these are published. So a
choice based on these predictions discloses nothing more.

Notation: o, W, p as in `bucket_estimation`; the inverse estimate of a count of value x has the variance p(1-p) (o_x²
(W^-1)_xx - o_x) if a share p of every value is selected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Floats, Indices
from sfumato.mechanisms._bucketization.buckets.bucket_estimation import SINGULAR, compute_growth, invert
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.record_assignment import Dealing
from sfumato.mechanisms._bucketization.buckets.shrinkage import Smoothing
from sfumato.mechanisms.error_at_count import ErrorAtCount, predict_error

SELECTIVITIES = (0.001, 0.01)
"""Buckets are compared for counts that select these shares of all records."""

SCATTER = 0.5
"""The assumption for predictions of `shrunk`: the selected shares of the values differ by half of their mean."""

LEAST_BUCKETS = 1 << 14
BUCKETS_PER_VALUE = 12
"""The largest number of sampled buckets. The other buckets are similar to these."""
MOST_DENSE = 128
"""The largest number of values for which a dense row for each bucket is faster than a list."""
BLOCK = 1 << 10
"""The number of rows in one step, chosen so that they stay in the cache of a core."""


class CountErrors:
    """The errors of counts for one way to deal the buckets."""

    def __init__(self, dealing: Dealing, counts: Integers) -> None:
        self.counts = counts.astype(np.float64)
        self.total = float(self.counts.sum())
        weights = _count_meetings(dealing)
        row_sums = weights.sum(axis=1)
        self.present_places = np.flatnonzero(row_sums > 0)
        self.weights, self.present_counts = (
            weights[np.ix_(self.present_places, self.present_places)],
            row_sums[self.present_places],
        )

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """The information in the buckets about each direction of counts, on the scale of their roots."""
        eigenvalues, directions = np.linalg.eigh(self._scaled_weights)
        return eigenvalues, directions

    @cached_property
    def _scaled_weights(self) -> Floats:
        roots = np.sqrt(self.present_counts)
        return np.asarray(self.weights / np.outer(roots, roots))

    @cached_property
    def growth(self) -> Floats:
        """The factor by which the inverse multiplies each value's sampling variance; infinite for values nobody has."""
        factors = np.full(len(self.counts), np.inf)
        factors[self.present_places] = self._present_growth
        return factors

    @property
    def _present_growth(self) -> Floats:
        """The same factor for the values that occur. It uses the inverse where it is numerically sound."""
        inverse = invert(self._scaled_weights)
        return compute_growth(*self._spectrum) if inverse is None else np.asarray(np.maximum(np.diag(inverse) - 1, 0.0))

    def predict_variances(self, rows: Floats) -> Floats:
        """The variance of the inverse estimate of each value, if rows have the same share of every value."""
        return self._compute_variances(rows, np.where(np.isfinite(self.growth), self.growth, self.total))

    def predict_set_variances(self, share: float, sets: Sequence[Indices]) -> Floats:
        """The variance of the inverse estimate of each set of values, if a share of every value is selected.

        The variance is p(1-p) times a difference: the sum of o_x o_y (W^-1)_xy over the set, minus the sum of o over
        the set. If buckets do not determine the set, the variance is at most that for single values.
        """
        eigenvalues, directions = self._spectrum
        is_kept = eigenvalues > SINGULAR
        growths = []
        for places in sets:
            roots = np.where(np.isin(self.present_places, places), np.sqrt(self.counts[self.present_places]), 0.0)
            along = roots @ directions
            is_lost = bool((np.abs(along[~is_kept]) > SINGULAR * max(float(roots.max(initial=0)), 1.0)).any())
            growth_sum = float(along[is_kept] ** 2 @ (1 / eigenvalues[is_kept]) - roots @ roots)
            growths.append(float(roots @ roots) * self.total if is_lost else max(growth_sum, 0.0))
        return share * (1 - share) * np.array(growths)

    def _compute_variances(self, rows: Floats, growth: Floats) -> Floats:
        share = np.clip(rows / self.total, 0.0, 1.0)
        return np.asarray(share * (1 - share) * self.counts * growth)

    def predict_shrunk_variances(self, rows: Floats) -> Floats:
        """The expected squared error of `shrunk` under the same conditions, if the shares of the values scatter."""
        smoothing = self._smoothing
        share = np.clip(rows / self.total, 0.0, 1.0)[self.present_places]
        scatter = float(smoothing.scatter @ self.present_counts) / self.total
        ratios = SCATTER**2 * share / np.maximum(1 - share, 1 / self.total) / scatter
        errors = smoothing.predict_variances(ratios, np.arange(len(self.present_places)))
        squared_errors = np.minimum(rows, self.counts) ** 2
        squared_errors[self.present_places] = share * (1 - share) * self.counts[self.present_places] ** 2 * errors
        return squared_errors

    @cached_property
    def _smoothing(self) -> Smoothing:
        return Smoothing(self.weights, self.present_counts)

    def _predict_errors(self, variances: Callable[[Floats], Floats]) -> tuple[ErrorAtCount, ...]:
        """The errors at each selectivity.

        If no value is frequent enough, they are the errors of counts of single records.
        """
        counts = {max(part * self.total, 1.0): None for part in SELECTIVITIES}
        possible_counts = [count for count in counts if count <= self.counts.max()]
        return tuple(self._predict_error(count, variances) for count in possible_counts or [1.0])

    def _predict_error(self, count: float, variances: Callable[[Floats], Floats]) -> ErrorAtCount:
        return predict_error(self.counts, lambda rows, counts: variances(rows), count)

    @cached_property
    def inverse_errors(self) -> tuple[ErrorAtCount, ...]:
        """The errors of the default estimator."""
        return self._predict_errors(self.predict_variances)

    @cached_property
    def shrunk_errors(self) -> tuple[ErrorAtCount, ...]:
        """The errors of `shrunk`."""
        return self._predict_errors(self.predict_shrunk_variances)

    @cached_property
    def score(self) -> float:
        """The quantity to minimise: the mean error of the default estimator, on the scale of sampling noise.

        Single records are counted too, so that rare values are not sacrificed for frequent ones. The factor of each
        variance is limited to the number of records, because beyond it a count has no information.
        """
        limited_growth = np.minimum(self.growth, self.total)

        def variances(rows: Floats) -> Floats:
            return self._compute_variances(rows, limited_growth)

        errors = (self._predict_error(1.0, variances), *self._predict_errors(variances))
        means = [(error.by_records, error.evenly) for error in errors]
        both = [math.inf if one is None or other is None else (one + other) / 2 for one, other in means]
        return float(np.mean([math.sqrt(error.count) * mean for error, mean in zip(errors, both, strict=True)]))


def _count_meetings(dealing: Dealing) -> Floats:
    """W: how often each two values meet in a bucket, weighted by the size of the bucket.

    If there are many buckets, a sample is used.
    """
    values = dealing.counts.shape[1]
    tranches, buckets, weights = _sample_buckets(dealing, max(LEAST_BUCKETS, BUCKETS_PER_VALUE * values))
    roots = np.sqrt(weights)
    if values <= MOST_DENSE:
        meetings = np.zeros((values, values))
        for start in range(0, len(roots), BLOCK):
            part = slice(start, start + BLOCK)
            scaled = dealing.count_values(tranches[part], buckets[part]) * roots[part, None]
            meetings += scaled.T @ scaled
        return meetings
    from scipy import sparse  # noqa: PLC0415 - scipy takes long to load, and few commands need it

    lines, bucket_values, counts = dealing.list_contents(dealing.number_buckets(tranches, buckets))
    entries = (counts * np.repeat(roots, lines), bucket_values.astype(np.int64), np.append(0, np.cumsum(lines)))
    rows = sparse.csr_array(entries, shape=(len(roots), values))
    return np.asarray((rows.T @ rows).toarray())


def _sample_buckets(dealing: Dealing, most: int) -> tuple[Integers, Integers, Floats]:
    """Samples buckets evenly from every tranche.

    Returns their tranches and places, and the number of buckets that each represents, divided by its size.
    """
    sizes, buckets = dealing.tranche_sizes, dealing.buckets
    _, of_size, tranches = np.unique(sizes, return_inverse=True, return_counts=True)
    sample_sizes = np.minimum(buckets, np.maximum(1, most // len(tranches) // tranches.take(of_size)))
    tranche = np.repeat(np.arange(len(sample_sizes)), sample_sizes)
    number = np.arange(len(tranche)) - (np.cumsum(sample_sizes) - sample_sizes).take(tranche)
    # The first buckets of all tranches are similar, so the sample of each tranche begins at another place.
    places = (tranche + number * buckets.take(tranche) // sample_sizes.take(tranche)) % buckets.take(tranche)
    return tranche, places, (buckets / sample_sizes / sizes).take(tranche)
