"""Estimates counts from buckets: how many selected records have a value, if only their buckets are known.

Notation: for a bucket g: n = its size, q = its selected records, s = its records with a wanted value; o_y = all records
with value y, p_y = the share of them that is selected, W_xy = sum over buckets of s_x s_y / n. A sum is made of pieces;
in each, a record with value y adds z theta_y, where z is known: then q is the sum of z, and p_y the mean of z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sfumato._core.array_types import Amounts, Counts, Floats, Indices, Mask
from sfumato._records.tally import CONDITION_BATCH, Holdings, Tally, compute_certain_bounds
from sfumato.errors import InternalError
from sfumato.mechanisms._bucketization.buckets.shrinkage import SMALLEST, Smoothing
from sfumato.mechanisms._randomized_response.estimators import BIAS_NOTE
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments, SumPiece

SINGULAR = 1e-9
"""Directions with less than this share of information in the buckets are treated as lost."""
LARGEST_INVERSE = 1e6
"""Up to this condition number, ten digits of an inverse are right and no direction is lost."""

NOTHING = Moments.of(0.0, 0.0, 0.0, 0)
"""A sum over no records."""

MOST_KEPT = 4096
"""The number of sets of values whose weights are cached."""

SETS = 1024
"""The number of sets of values whose weights are computed at once."""
MOST_NUMBERS = 1 << 22
"""The largest product of the numbers of buckets and of sets of values that is in memory at once."""


def _read_holdings(tally: Tally) -> Holdings:
    if tally.holdings is None:
        raise InternalError("counts in buckets need the contents of the buckets.", code="no-bucket-contents")
    return tally.holdings


def estimate_uniform(design: object, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """The estimate of the papers: within a bucket every record is equally likely to have each of its values."""
    return [
        Moments.concatenate([_estimate_uniform_set(part, places) for part in _split_conditions(tally)])
        for places in value_sets
    ]


def _split_conditions(tally: Tally) -> list[Tally]:
    """Splits the conditions into parts, because the counts by bucket for all conditions could fill the memory."""
    if len(tally) <= CONDITION_BATCH:
        return [tally]
    lines = np.arange(len(tally))
    return [tally.take(lines[first : first + CONDITION_BATCH]) for first in range(0, len(tally), CONDITION_BATCH)]


def _estimate_uniform_set(tally: Tally, places: Indices) -> Moments:
    """The sum of q s / n. If all pairings are equally likely, each bucket's count is hypergeometric around q s / n."""
    size, marked, selected = tally.count_in_buckets(places)
    spread = selected * marked * (size - selected) * (size - marked)
    variance = (spread / (size**2 * np.maximum(size - 1, 1))).sum(axis=1)
    least, most = compute_certain_bounds(size, selected, marked)
    note = _describe_sensitivity(_read_holdings(tally), places)
    value = (selected * marked / size).sum(axis=1)
    return Moments(value, variance, np.zeros(len(tally)), most, least, [note] * len(tally))


def _describe_sensitivity(holdings: Holdings, places: Indices) -> str:
    """The additional variance if values and selection are associated: tau² times the squared length of c.

    c_y = [y is wanted] o_y - sum over wanted x of W_xy, and tau is the spread of the p_y.
    """
    share = holdings.count_matches(places) / holdings.sizes * holdings.repeats
    shared = np.bincount(
        holdings.places, weights=holdings.counts * share[holdings.buckets], minlength=holdings.domain_size
    )
    is_wanted = np.isin(np.arange(holdings.domain_size), places)
    lost = np.where(is_wanted, holdings.value_counts, 0) - shared
    return (
        "if the shares of the values that are selected have a standard deviation of tau, add tau² times "
        f"{float(lost @ lost):.4g} to n_se²"
    )


class RandomDeal:
    """The variance of a sum over records that are dealt at random, within groups, to places with numbers.

    Each of `counts` places of a group has a line. The line has a number for each piece, with mean zero in the group,
    and adds z times that number if a record of the piece comes there. Source: Hoeffding 1951, theorem 2.
    """

    def __init__(self, groups: Counts, counts: Counts, sizes: Counts) -> None:
        self.groups, self.counts, self.sizes = groups, counts, sizes
        self.squares, self.means = np.zeros(len(groups)), np.zeros(len(groups))

    def add(self, numbers: Floats, first: Floats, second: Floats) -> None:
        """Adds a piece, given the means of z and z² over all records of each group.

        Records outside the piece count as 0.
        """
        self.squares += second[self.groups] * numbers**2
        self.means += first[self.groups] * numbers

    def compute_variances(self) -> Floats:
        """The variance of each group."""
        added = self.counts * (self.squares - self.means**2)
        sums = np.bincount(self.groups, weights=added, minlength=len(self.sizes))
        return np.asarray(sums * self.sizes / np.maximum(self.sizes - 1, 1))


def estimate_uniform_total(design: object, pieces: Sequence[SumPiece]) -> Moments:
    """The sum of q times the mean theta of the bucket. If all pairings are equally likely, the variance is exact."""
    if not pieces:
        return NOTHING
    single = [
        replace(piece, tally=piece.tally.single_tally, squared_tally=piece.squared_tally.single_tally)
        for piece in pieces
    ]
    holdings = _read_holdings(single[0].tally)
    deal = RandomDeal(holdings.buckets, holdings.counts, holdings.sizes)
    for piece in single:
        first, second = (tally.counts[0] / holdings.sizes for tally in (piece.tally, piece.squared_tally))
        deal.add(piece.theta[holdings.places] - _compute_mean_scores(holdings, piece)[holdings.buckets], first, second)
    return _estimate_random_pairing(pieces, float(deal.compute_variances().sum()))


def _compute_mean_scores(holdings: Holdings, piece: SumPiece) -> Floats:
    """The mean theta of each bucket."""
    added = np.bincount(holdings.buckets, weights=holdings.counts * piece.theta[holdings.places])
    return np.asarray(added / holdings.sizes)


def _estimate_random_pairing(pieces: Sequence[SumPiece], variance: float | None = None) -> Moments:
    """Estimates the sum if all pairings are equally likely.

    If there is no variance, the error is half the certain range of the sum.
    """
    holdings = _read_holdings(pieces[0].tally)
    value = sum(float(_compute_mean_scores(holdings, piece) @ piece.tally.counts[0]) for piece in pieces)
    least, most = _compute_certain_bounds(holdings, pieces)
    return Moments.of(value, (most - least) ** 2 if variance is None else max(variance, 0.0), 0.0, most, least)


def _compute_certain_bounds(holdings: Holdings, pieces: Sequence[SumPiece]) -> tuple[float, float]:
    """The certain bounds of a sum, whatever the true values are.

    In a bucket theta lies between two numbers. Where a z may be negative, the sum of |z| is at most the root of n times
    the sum of z².
    """
    least, most = 0.0, 0.0
    for piece in pieces:
        low, high = holdings.find_ranges(piece.theta)
        reach = piece.tally.counts[0]
        if not piece.has_bounds:
            reach = (
                np.sqrt(holdings.sizes)
                * piece.squared_tally.sum_over_buckets(lambda squares: np.sqrt(np.maximum(squares, 0.0)))[0]
            )
        middle, half = float((low + high) / 2 @ piece.tally.counts[0]), float((high - low) / 2 @ reach)
        least, most = least + middle - half, most + middle + half
    return least, most


def compute_growth(eigenvalues: Floats, directions: Floats) -> Floats:
    """The factor by which the inverse multiplies the sampling variance of each value; infinite without information.

    In numbers it is o (W^-1)_xx - 1; given the share of each direction in the buckets, on the scale of the roots of
    counts.
    """
    is_kept = eigenvalues > SINGULAR
    growths = directions[:, is_kept] ** 2 @ (1 / eigenvalues[is_kept]) - 1
    is_lost = (np.abs(directions[:, ~is_kept]) > SINGULAR).any(axis=1)
    return np.where(is_lost, np.inf, np.maximum(growths, 0.0))


def invert(scaled: Floats) -> Floats | None:
    """The inverse of the meeting matrix, if it is sound. None if the buckets hardly determine some direction.

    Computing the directions would take twenty times as long, because numpy starts all threads of its library.
    """
    try:
        inverse: Floats = np.asarray(np.linalg.inv(scaled), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.abs(inverse).sum(axis=1).max(initial=0.0) < LARGEST_INVERSE else None


class MeetingMatrix:
    """The matrix of how often pairs of values meet in buckets, and its inverse."""

    def __init__(self, holdings: Holdings) -> None:
        from scipy import sparse  # noqa: PLC0415 - scipy takes long to load, and few commands need it

        shape = (len(holdings.sizes), holdings.domain_size)
        entries = (holdings.counts.astype(np.float64), (holdings.buckets, holdings.places))
        self.sizes, self.repeats = (numbers.astype(np.float64) for numbers in (holdings.sizes, holdings.repeats))
        self.record_count = float(self.sizes @ self.repeats)
        self.present_places = np.flatnonzero(holdings.value_counts)
        self.line_places = np.searchsorted(self.present_places, holdings.places)
        self.line_counts = holdings.counts * holdings.repeats[holdings.buckets]
        self.bucket_counts: Any = sparse.csr_array(entries, shape=shape)[:, self.present_places]
        self.counts: Floats = holdings.value_counts[self.present_places].astype(np.float64)
        scaled = sparse.diags_array(np.sqrt(self.repeats / self.sizes)) @ self.bucket_counts
        self.weights: Floats = (scaled.T @ scaled).toarray()
        # On the scale of the counts the matrix has eigenvalues between 0 and 1: the share of each direction in the
        # buckets.
        self.roots = np.sqrt(self.counts)
        self.scaled_weights: Floats = self.weights / np.outer(self.roots, self.roots)
        self._weights_by_set: dict[bytes, tuple[Floats, Floats | None]] = {}

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """The share of information about each direction in the buckets, and the directions."""
        eigenvalues, directions = np.linalg.eigh(self.scaled_weights)
        return eigenvalues, directions

    @cached_property
    def stable_inverse(self) -> Floats | None:
        """The inverse on the scale of the roots; None if a direction is lost or nearly lost. See `invert`."""
        return invert(self.scaled_weights)

    @cached_property
    def inverse(self) -> Floats:
        """The matrix that reverses the mixing, on the scale of the roots.

        One product with it is faster than many small products.
        """
        if self.stable_inverse is not None:
            return self.stable_inverse
        eigenvalues, directions = self.spectrum
        inverse_eigenvalues = np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=eigenvalues > SINGULAR)
        return np.asarray((directions * inverse_eigenvalues) @ directions.T)

    def expect_counts(self, selected: Amounts) -> Floats:
        """The expected counts of each value among the selected records of each line: the sum of q s / n."""
        return np.asarray((self.bucket_counts.T @ (selected / self.sizes).T).T)

    def sum_by_value(self, numbers: Floats) -> Floats:
        """Sums a number of each bucket over the records of each value."""
        return np.asarray(self.bucket_counts.T @ (numbers * self.repeats))

    def sum_by_bucket(self, numbers: Floats) -> Floats:
        """Sums a number of each value over the records of each bucket."""
        return np.asarray(self.bucket_counts @ numbers)

    def get_weights(self, places: Indices) -> tuple[Floats, Floats | None]:
        """The weights that reverse the mixing for a count of some values, and their effect on each value's variance.

        The effect is None if the buckets do not determine the count. Weights and effect are the same for every
        condition, so they are cached.
        """
        key = places.tobytes()
        if key not in self._weights_by_set:
            self.compute_weights([places])
        return self._weights_by_set[key]

    def compute_weights(self, value_sets: Sequence[Indices]) -> None:
        """Computes the weights of up to SETS sets of values at once. Sets in the cache are skipped."""
        if len(self._weights_by_set) + len(value_sets) > MOST_KEPT:
            self._weights_by_set.clear()
        new_sets = {key: places for places in value_sets if (key := places.tobytes()) not in self._weights_by_set}
        targets = np.array([self.counts * np.isin(self.present_places, places) for places in new_sets.values()])
        weights, is_estimable = self.solve(targets.reshape(len(new_sets), len(self.present_places)))
        step = max(MOST_NUMBERS // len(self.sizes), 1)
        for number, (key, target) in enumerate(zip(new_sets, targets, strict=True)):
            if number % step == 0:
                by_bucket = self.sum_by_bucket(weights[number : number + step].T) / self.sizes[:, np.newaxis]
                squares = np.asarray(self.bucket_counts.T @ (by_bucket**2 * self.repeats[:, np.newaxis])).T
            lengths = np.maximum(squares[number % step] - target, 0.0) if is_estimable[number] else None
            self._weights_by_set[key] = (weights[number], lengths)

    @cached_property
    def smoothing(self) -> Smoothing:
        """The model that shrinks the shares of the values towards each other."""
        return Smoothing(self.weights, self.counts)

    def estimate_shares(self, expected_counts: Floats, rows: Amounts) -> Floats:
        """The shrunk share of each value's records that each condition selects."""
        means = rows / max(self.record_count, 1)
        return self.smoothing.estimate_shares(
            expected_counts, means, self.smoothing.estimate_ratios(expected_counts, means, means * (1 - means))
        )

    def solve(self, targets: Floats) -> tuple[Floats, Mask]:
        """The solution v of W v = target for each line, and whether there is one."""
        # If one value is requested, there are few targets.
        (target_places,) = np.nonzero(targets.reshape(-1, len(self.roots)).any(axis=0))
        scaled = (targets / self.roots)[..., target_places]
        solved = np.asarray(scaled @ self.inverse[target_places] / self.roots)
        if self.stable_inverse is not None:
            return solved, np.ones(targets.shape[:-1], dtype=np.bool_)
        eigenvalues, directions = self.spectrum
        along = scaled @ directions[target_places]
        scale = np.maximum(1.0, np.abs(along).max(axis=-1, initial=0.0, keepdims=True))
        is_lost = (np.abs(along[..., eigenvalues <= SINGULAR]) > SINGULAR * scale).any(axis=-1)
        return solved, np.asarray(~is_lost)


def estimate_inverse(design: object, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Reverses the mixing of the buckets.

    The records of a value were dealt to buckets at random, independently of all else.

    With e_x = sum of q s_x / n, the expectation of e is W p, so o_x (W^-1 e)_x is unbiased for the selected records
    with value x.
    """
    meeting = _read_holdings(tally).derive(MeetingMatrix)
    expected_counts = meeting.expect_counts(tally.counts)
    shares = meeting.estimate_shares(expected_counts, tally.rows)
    spread = _compute_value_variances(meeting, shares, shares)
    estimates = []
    for number, places in enumerate(value_sets):
        if number % SETS == 0:
            meeting.compute_weights(value_sets[number : number + SETS])
        estimates.append(_estimate_inverse_set(meeting, tally, expected_counts, spread, places))
    return estimates


def _compute_value_variances(meeting: MeetingMatrix, first: Floats, second: Floats) -> Floats:
    """For each value, the variance of z over its records, from likely means of z and z²; never negative.

    Unbiased means are unsuitable. If buckets keep little information about a value, the squared error of the mean is
    larger than any variance of z. Truncated at zero, this variance would be far too large on average.
    """
    correction = meeting.counts / np.maximum(meeting.counts - 1, 1)
    return np.asarray(np.maximum(second - first**2, 0.0) * correction)


def _estimate_inverse_set(
    meeting: MeetingMatrix, tally: Tally, expected_counts: Floats, spread: Floats, places: Indices
) -> Moments:
    """Estimates the count of one set of values, under each condition.

    With v = W^-1 (o on the wanted values) and u = v s / n by bucket, the variance of v e is the sum over values y of
    p_y (1-p_y) [sum over buckets of s_y u² - o_y if y is wanted]: the deal is hypergeometric.
    """
    weights, lengths = meeting.get_weights(places)
    least, most = tally.find_bounds(places)
    nothing = np.zeros(len(tally))
    if lengths is None:  # the buckets determine nothing of this count beyond its certain bounds
        uniform_estimate = tally.counts @ (_read_holdings(tally).count_matches(places) / meeting.sizes)
        return Moments(uniform_estimate, (most - least) ** 2, nothing, most, least)
    value = expected_counts @ weights
    # The count is certain, except for floating-point noise.
    value = np.where((least == most) & np.isclose(value, least), least, value)
    return Moments(value, spread @ lengths, nothing, most, least)


def estimate_inverse_total(design: object, pieces: Sequence[SumPiece]) -> Moments:
    """Reverses the mixing of the buckets, piece by piece.

    With v = W^-1 (o theta) and u = v s / n by bucket, the sum of q u is unbiased: the mean of u over the records of a
    value y is theta_y. These are dealt at random to places with the numbers u, so the variance is that of a deal.
    """
    if not pieces:
        return NOTHING
    holdings = _read_holdings(pieces[0].tally)
    meeting = holdings.derive(MeetingMatrix)
    solved = [meeting.solve(meeting.counts * piece.theta[meeting.present_places]) for piece in pieces]
    # The buckets determine nothing of this sum beyond its certain bounds.
    if not all(is_estimable for _, is_estimable in solved):
        return _estimate_random_pairing(pieces)
    by_bucket = [meeting.sum_by_bucket(weights) / meeting.sizes for weights, _ in solved]
    value = sum(
        float(bucket_weights @ piece.tally.counts[0]) for bucket_weights, piece in zip(by_bucket, pieces, strict=True)
    )
    if len(pieces) == 1:
        variance = _compute_single_variance(meeting, by_bucket[0], pieces[0])
    else:
        variance = _compute_joint_variance(holdings, meeting, by_bucket, pieces)
    least, most = _compute_certain_bounds(holdings, pieces)
    return Moments.of(value, variance, 0.0, most, least)


def _compute_single_variance(meeting: MeetingMatrix, by_bucket: Floats, piece: SumPiece) -> float:
    """The variance of one piece.

    Its numbers are the same for all records, so it is their variance times the variance of z.
    """
    ((first, second),) = _estimate_means(meeting, [piece])
    squares = meeting.sum_by_value(by_bucket**2) - meeting.counts * piece.theta[meeting.present_places] ** 2
    return float(_compute_value_variances(meeting, first, second) @ np.maximum(squares, 0.0))


def _compute_joint_variance(
    holdings: Holdings, meeting: MeetingMatrix, by_bucket: Sequence[Floats], pieces: Sequence[SumPiece]
) -> float:
    """The variance of several pieces, as of a deal in which each record takes the number of its own piece."""
    deal = RandomDeal(meeting.line_places, meeting.line_counts, holdings.value_counts[meeting.present_places])
    for numbers, piece, (first, second) in zip(by_bucket, pieces, _estimate_means(meeting, pieces), strict=True):
        deal.add(numbers[holdings.buckets] - piece.theta[holdings.places], first, second)
    return float(np.maximum(deal.compute_variances(), 0.0).sum())


def _estimate_means(meeting: MeetingMatrix, pieces: Sequence[SumPiece]) -> list[tuple[Floats, Floats]]:
    """The means of z and z² over the records of each value, for each piece.

    All means are shrunk by the same factor as z.
    """
    expected_counts = np.array(
        [[meeting.expect_counts(tally.counts[0]) for tally in (piece.tally, piece.squared_tally)] for piece in pieces]
    )
    means = expected_counts.sum(axis=2) / meeting.record_count
    first, second = means.sum(axis=0)
    ratio = meeting.smoothing.estimate_ratios(
        expected_counts[:, :1].sum(axis=0), np.array([first]), np.array([second - first**2])
    )
    mean_pairs = [
        meeting.smoothing.estimate_shares(tally, mean, np.repeat(ratio, 2))
        for tally, mean in zip(expected_counts, means, strict=True)
    ]
    return [(first, second) for first, second in mean_pairs]


def estimate_shrunk(design: object, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Interpolates between the inverse and the estimate of the papers.

    The weights depend on how strongly the condition and the values are associated.
    """
    meeting = _read_holdings(tally).derive(MeetingMatrix)
    counts = meeting.estimate_shares(meeting.expect_counts(tally.counts), tally.rows) * meeting.counts
    unbiased_estimates = zip(estimate_inverse(design, tally, value_sets), value_sets, strict=True)
    return [
        _replace_values(moments, counts[:, np.isin(meeting.present_places, places)].sum(axis=1))
        for moments, places in unbiased_estimates
    ]


def estimate_shrunk_total(design: object, pieces: Sequence[SumPiece]) -> Moments:
    """The interpolated estimate of a sum: likely means of z, times the contribution of records with z."""
    if not pieces:
        return NOTHING
    meeting = _read_holdings(pieces[0].tally).derive(MeetingMatrix)
    means = zip(pieces, _estimate_means(meeting, pieces), strict=True)
    value = sum(float((piece.theta[meeting.present_places] * meeting.counts) @ first) for piece, (first, _) in means)
    return _replace_values(estimate_inverse_total(design, pieces), np.array([value]))


def _replace_values(moments: Moments, values: Floats) -> Moments:
    """Replaces the values within the same certain bounds. Their error is unknown, unless they are exact."""
    is_certain = moments.least == moments.most
    return replace(moments, value=np.where(is_certain, moments.least, values), base=np.where(is_certain, 0.0, np.nan))


def _make_twin(design: object, whole: Tally, holdings: Holdings | None) -> BrowserEstimator:
    """The browser version: the contents of buckets, the inverse of their mixing, and the model of shrinkage."""
    if holdings is None:
        raise InternalError("counts in buckets need the contents of the buckets.", code="no-bucket-contents")
    meeting = holdings.derive(MeetingMatrix)
    eigenvalues, directions = meeting.spectrum
    is_lost = bool((eigenvalues <= SINGULAR).any())
    numbers = {
        "buckets": holdings.buckets,
        "places": holdings.places,
        "counts": holdings.counts,
        "present": meeting.present_places,
        "inverse": meeting.inverse,
        "directions": directions if is_lost else np.zeros(0),  # used only to find lost directions
        "kept": eigenvalues,
        "smoothing": meeting.smoothing.directions,
        "smoothed": meeting.smoothing.eigenvalues,
        "scatter": meeting.smoothing.scatter,
        "ratios": meeting.smoothing.ratios,
        "singular": SINGULAR,
        "smallest": SMALLEST,
    }
    return BrowserEstimator(Path(__file__).with_name("counting.js"), numbers)


UNIFORM: Method[object] = Method(
    "sum over buckets (Anatomy), with a normal confidence interval within certain bounds",
    "values are unrelated to the public columns within a bucket (otherwise the interval is too short)",
    estimate_uniform,
    total=estimate_uniform_total,
)
INVERSE: Method[object] = Method(
    "inverse of the mixing by buckets, with a normal confidence interval within certain bounds",
    "none, because the records of a value were dealt to buckets at random",
    estimate_inverse,
    total=estimate_inverse_total,
    twin=_make_twin,
)
SHRUNK: Method[object] = Method(
    "inverse shrunk towards the sum over buckets (empirical Bayes), biased",
    "the condition selects similar shares of most values; a value with a very different share is shrunk towards the "
    "others",
    estimate_shrunk,
    note=BIAS_NOTE,
    total=estimate_shrunk_total,
)
METHODS: Mapping[str, Method[object]] = MappingProxyType({"inverse": INVERSE, "shrunk": SHRUNK, "uniform": UNIFORM})
