"""Confidence intervals of one estimate or of thousands, by the same rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from sfumato._core.array_types import Counts, Floats
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Moments

# Intervals from the exact distribution of a count, used if few hits are expected from other values.
#
# The hits of a count c among R records are a sum of two binomials: c records with the probability p, and R - c with q.
# The numbers of hits are ranked by their likelihood under c relative to their best count. A count is accepted if the
# better ranked numbers of hits together have a probability below the level. The interval is the hull of the accepted
# counts.
# Source: Feldman and Cousins 1998, for a Poisson number with a background; here for two binomials.
# Notation: p = wanted, q = other, R = rows, c = count.

FEW_EXPECTED_HITS = 10.0
"""The exact distribution is used below this number of expected hits from other values, so the outcome does not
matter.
"""
MOST_HITS = 512
"""From this number of hits on, the score interval is used.

With so many hits, it is as good as the exact interval. Exact tables grow with the square of the hits.
"""
SMALL_ROWS = 100
LARGE_CHANCE = 0.25
"""All distributions and counts are computed up to `SMALL_ROWS`, or above `LARGE_CHANCE`.

In other cases, only some are.
"""
SPACING = 0.04
"""The relative spacing of the selected numbers of rows. Only this share of the variance is neglected."""
WIDEST_SPACING = 0.1
ROUNDING = 1e-6
FEW_ROOT = 2.0
FINENESS = 16
"""The number of counts per standard deviation of the hits, if not all counts are computed."""
REACH = 5.0
"""The range of hits to compute, in standard deviations."""
NEGLIGIBLE_CHANCE = 1e-12
"""Probabilities below this are rounding errors and count as zero."""
EQUAL_DIGITS = 10
"""Ratios count as equal if they agree in this number of digits.

Without this rule, rounding would decide between mirrored outcomes.
"""
FIRST_HITS = 16


def invert_hits(chances: Floats, rows: Counts, hits: Counts, level: float) -> tuple[Floats, Floats]:
    """For each pair of hits and rows, the smallest and the largest count that agree with them.

    `chances` has two rows: the probability of a hit for a record with a wanted value, and for any other record.
    """
    all_ends = np.empty((2, len(rows)))
    tops = FIRST_HITS << np.maximum(np.ceil(np.log2((hits + 1) / FIRST_HITS)), 0).astype(np.int64)
    keys = np.stack([*chances, _select_row_numbers(rows, chances[0]), tops])
    distributions, groups = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(distributions.shape[1]))
    for (wanted_chance, other_chance, node, top), positions in zip(
        distributions.T.tolist(), np.split(order, starts[1:]), strict=True
    ):
        ends = find_accepted_counts(HitDistribution(wanted_chance, other_chance, int(node)), int(top), level)
        # A smaller count among more rows has the same expected number of hits.
        fewer = (rows[positions] - node) * other_chance / (wanted_chance - other_chance)
        all_ends[:, positions] = ends[:, np.minimum(hits[positions], ends.shape[1] - 1)] - fewer
    return all_ends[0], all_ends[1]


def _select_row_numbers(rows: Counts, wanted_chances: Floats) -> Counts:
    """The numbers of rows whose distributions represent all others.

    All small numbers are included. The larger numbers follow at a constant ratio.
    """
    ratio = np.log1p(np.minimum(SPACING / wanted_chances, WIDEST_SPACING))
    first = SMALL_ROWS + 1
    steps = np.floor(np.log(np.maximum(rows, first) / first) / ratio + ROUNDING)
    nodes = np.floor(first * np.exp(steps * ratio) + ROUNDING).astype(np.int64)
    return np.where((rows <= SMALL_ROWS) | (wanted_chances > LARGE_CHANCE), rows, np.minimum(nodes, rows))


@dataclass(frozen=True, slots=True)
class HitDistribution:
    """The distribution of hits among a number of rows. There is one distribution for each count."""

    wanted_chance: float
    other_chance: float
    rows: int

    @property
    def is_whole(self) -> bool:
        """Whether every count is computed."""
        return self.rows <= SMALL_ROWS or self.wanted_chance > LARGE_CHANCE

    def expect_hits(self, count: float) -> float:
        """The expected number of hits for a count."""
        return self.rows * self.other_chance + count * (self.wanted_chance - self.other_chance)

    def list_counts(self, most_hits: float) -> Floats:
        """The counts to compute. The largest count has this number of expected hits."""
        difference, first = self.wanted_chance - self.other_chance, self.expect_hits(0)
        most = math.ceil(max(most_hits - first, 0.0) / difference) + 1
        if self.is_whole:
            return np.arange(min(most, self.rows) + 1.0)
        # The limit has as many expected hits as a full table of the largest size that this distribution represents.
        # Above the number of rows, the generating function is not exactly that of a distribution, but close to one.
        largest = self.rows * (1 + WIDEST_SPACING) + 1
        most = min(most, math.ceil((largest * self.wanted_chance - first) / difference))
        # The square root of a number of hits has a nearly constant standard deviation of one half. If few hits are
        # expected, a single hit matters more, so the steps are half as long.
        low, high, step = math.sqrt(first), math.sqrt(self.expect_hits(most)), 0.5 / FINENESS
        roots = [np.arange(low, FEW_ROOT, step / 2), np.arange(max(low, FEW_ROOT), high + step, step)]
        return np.unique(np.rint(np.clip((np.concatenate(roots) ** 2 - first) / difference, 0, most)))

    def compute_chances(self, counts: Floats, size: int) -> Floats:
        """The probability of each number of hits below an odd size, from the generating function.

        Each count has one row.
        """
        turns = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
        log_wanted, log_other = (np.log1p(chance * (turns - 1)) for chance in (self.wanted_chance, self.other_chance))
        if self.is_whole:  # each further count multiplies the function by the same factor
            spectrum = np.tile(np.exp(log_wanted - log_other), (len(counts), 1))
            spectrum[0] = np.exp(self.rows * log_other)
            np.multiply.accumulate(spectrum, axis=0, out=spectrum)
        else:
            spectrum = np.exp(np.multiply.outer(counts, log_wanted - log_other) + self.rows * log_other)
        probabilities = np.fft.irfft(spectrum, size, axis=1)
        return np.where(probabilities < NEGLIGIBLE_CHANCE, 0.0, probabilities)


@lru_cache(maxsize=1024)
def find_accepted_counts(distribution: HitDistribution, top: int, level: float) -> Floats:
    """For each number of hits below the top, the two ends of the accepted counts."""
    counts = distribution.list_counts((REACH / 2 + math.sqrt(REACH**2 / 4 + top)) ** 2)
    expected_hits = distribution.expect_hits(float(counts[-1]))
    chances = distribution.compute_chances(
        counts, min(distribution.rows + 1, math.ceil(expected_hits + REACH * math.sqrt(expected_hits) + REACH**2)) | 1
    )
    best = chances.max(axis=0)
    # More hits than the largest count predicts would favour a larger count if one existed. Without this line, all such
    # outcomes would be the best outcomes of the largest count, and the upper ends would be too low.
    best[round(expected_hits) :] = best[round(expected_hits)]
    # Sorting one integer that packs rank and hits is many times faster than sorting ranks with their indices.
    ranks = np.rint((1 - chances / best) * 10**EQUAL_DIGITS).astype(np.int64)
    bits = chances.shape[1].bit_length()
    ordered = np.sort(ranks << bits | np.arange(chances.shape[1]), axis=1)
    cumulated_chances = np.cumsum(np.take_along_axis(chances, ordered & ((1 << bits) - 1), axis=1)[:, :-1], axis=1)
    last = (cumulated_chances < level - NEGLIGIBLE_CHANCE).sum(axis=1, keepdims=True)
    is_accepted = ranks <= np.take_along_axis(ordered, last, axis=1) >> bits  # equal outcomes are accepted together
    is_accepted[-1] |= ~is_accepted.any(axis=0)  # there are more hits than any count predicts
    first = is_accepted[:, :top].argmax(axis=0)
    last = len(counts) - 1 - is_accepted[::-1, :top].argmax(axis=0)
    if distribution.is_whole:
        return np.stack([counts[first], counts[last]])
    # The counts between two computed counts are divided equally between these two.
    edges = np.concatenate([counts[:1], (counts[1:] + counts[:-1]) / 2, counts[-1:]])
    return np.stack([edges[first], edges[last + 1]])


# ---------------------------------------------------------------------------------------------------------------------

DEFAULT_LEVEL = 0.95


def check_level(level: float) -> None:
    """Rejects a level outside (0, 1)."""
    if not 0 < level < (1 + level) / 2 < 1:
        raise QueryError(
            f"the level is {level}, but it must lie between 0 and 1, such as 0.95.",
            code="invalid-level",
            fields={"level": level},
        )


def compute_quantile(level: float) -> float:
    """How many standard errors an interval of this level extends to either side."""
    check_level(level)
    return NormalDist().inv_cdf((1 + level) / 2)


def compute_standard_errors(moments: Moments) -> Floats:
    """The standard errors at the estimates, which are clipped to the possible range of a count. NaN if unknown."""
    nearest = np.clip(moments.centre, moments.least, moments.most)
    return np.asarray(np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0)))


def compute_score_ends(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Solves (value - c)² <= z² (base + slope c) for c.

    These are the counts that a test at this level would not reject.

    Source: Wilson 1927 for one binomial; here for the sum of two.
    """
    value, squared = moments.centre, compute_quantile(level) ** 2
    shift = squared * moments.slope / 2
    # (value + shift)² - value² + z² base, written so that the square of a large sum does not hide the other terms.
    # Below zero no count fits, because the variance would be negative for every estimate.
    half = np.sqrt(np.maximum(shift * (2 * value + shift) + squared * moments.base, 0.0))
    return value + shift - half, value + shift + half


def compute_one_error_interval(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """One standard error around the clipped estimates, or less for a lower level."""
    nearest = np.clip(moments.centre, moments.least, moments.most)
    reach = min(compute_quantile(level), 1.0) * compute_standard_errors(moments)
    low, high = (np.clip(end, moments.least, moments.most) for end in (nearest - reach, nearest + reach))
    return low, high


def compute_intervals(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """The intervals within the possible ranges of counts. NaN if no error is known.

    They contain the counts that a test at this level would not reject. If few hits are expected from other values, the
    test uses the exact distribution. If not, it uses the score. This choice depends only on the design and the number
    of rows. There is one exception: for very many hits the score is used. Both tests then agree, and the exact
    distribution would fill the memory. One standard error around the estimate is included. Without it, an estimate far
    outside its range would look certain.
    """
    low, high = compute_score_ends(moments, level)
    wanted_chances, other_chances = moments.hit_chances
    rows = moments.most - moments.least
    hits = np.clip(
        np.rint((moments.centre - moments.least) * (wanted_chances - other_chances) + rows * other_chances), 0, rows
    )
    (few_hits,) = np.nonzero(
        (rows * other_chances < FEW_EXPECTED_HITS) & (rows > 0) & (wanted_chances > other_chances) & (hits < MOST_HITS)
    )
    if len(few_hits):
        whole = rows[few_hits].astype(np.int64), hits[few_hits].astype(np.int64)
        ends = invert_hits(moments.hit_chances[:, few_hits], *whole, level)
        low[few_hits], high[few_hits] = (end + moments.least[few_hits] for end in ends)
    _insert_known_intervals(moments, level, low, high)
    least, most = compute_one_error_interval(moments, level)
    low, high = (np.clip(end, moments.least, moments.most) for end in (low, high))
    return np.minimum(low, least), np.maximum(high, most)


def _insert_known_intervals(moments: Moments, level: float, low: Floats, high: Floats) -> None:
    """Replaces the intervals of counts whose noise has a known distribution."""
    known = moments.known
    if known is None:
        return
    rows = np.rint(moments.most).astype(np.int64)
    keys = np.stack([known.wanted, known.crowds, known.noisy, rows])
    (used,) = np.nonzero(known.crowds)
    distinct_keys, numbers = np.unique(keys[:, used], axis=1, return_inverse=True)
    ends = np.array([known.compute_interval(*map(int, key), level=level) for key in distinct_keys.T]).reshape(-1, 2)
    low[used], high[used] = ends[numbers.ravel()].T
