"""Intervals of estimates: for one or for thousands, by the same rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from sfumato._core.array_types import Counts, Floats
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Moments

# Intervals by inversion of the exact law of a count, where few hits are expected from other values.
#
# The hits of a count c among R records are a sum of two binomials, of c records at the chance p and of R - c at the
# chance q. A count is accepted at a number of hits if the numbers that speak better for it, compared with the count
# that each speaks best for, have together less than the level; the interval is the hull of what is accepted.
# Source: Feldman and Cousins 1998, for a Poisson number with a background; here for two binomials.
# Notation: p = wanted, q = other, R = rows, c = count.

FEW_EXPECTED_HITS = 10.0
"""Expected hits from other values below which the exact law is inverted: known beforehand, so no outcome decides it."""
MOST_HITS = 512
"""From so many on the score is as good, and the law of every count would fill the memory: it has their square."""
SMALL_ROWS = 100
LARGE_CHANCE = 0.25
"""Up to so many rows, or above such a chance, every law and every count is gone through; else some stand for all."""
SPACING = 0.04
"""How far apart the numbers of rows are that stand for those up to the next: so little of the variance is missed."""
WIDEST_SPACING = 0.1
ROUNDING = 1e-6
FEW_ROOT = 2.0
FINENESS = 16
"""How many counts to a standard deviation of the hits are gone through, where not all are."""
REACH = 5.0
"""Standard deviations beyond which a number of hits is not looked for."""
NEGLIGIBLE_CHANCE = 1e-12
"""A chance that is taken for none, being no larger than what rounding leaves."""
EQUAL_DIGITS = 10
"""Ratios that agree in so many are equal: rounding does not decide between outcomes that are mirrored."""
FIRST_HITS = 16


def invert_hits(chances: Floats, rows: Counts, hits: Counts, level: float) -> tuple[Floats, Floats]:
    """The least and the largest count that the hits among the rows do not speak against, for each pair of the two.

    `chances` are those of a hit, of a record with a wanted value and of another one, a line each.
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
        # The same number of hits is expected of a smaller count among more rows.
        fewer = (rows[positions] - node) * other_chance / (wanted_chance - other_chance)
        all_ends[:, positions] = ends[:, np.minimum(hits[positions], ends.shape[1] - 1)] - fewer
    return all_ends[0], all_ends[1]


def _select_row_numbers(rows: Counts, wanted_chances: Floats) -> Counts:
    """The numbers of rows whose laws stand for those of others: all that are small, then at a constant ratio."""
    ratio = np.log1p(np.minimum(SPACING / wanted_chances, WIDEST_SPACING))
    first = SMALL_ROWS + 1
    steps = np.floor(np.log(np.maximum(rows, first) / first) / ratio + ROUNDING)
    nodes = np.floor(first * np.exp(steps * ratio) + ROUNDING).astype(np.int64)
    return np.where((rows <= SMALL_ROWS) | (wanted_chances > LARGE_CHANCE), rows, np.minimum(nodes, rows))


@dataclass(frozen=True, slots=True)
class HitDistribution:
    """How many hits there are among so many rows, by how many of them hold a wanted value."""

    wanted_chance: float
    other_chance: float
    rows: int

    @property
    def is_whole(self) -> bool:
        """Whether every count is gone through."""
        return self.rows <= SMALL_ROWS or self.wanted_chance > LARGE_CHANCE

    def expect_hits(self, count: float) -> float:
        """The hits to expect of a count."""
        return self.rows * self.other_chance + count * (self.wanted_chance - self.other_chance)

    def list_counts(self, most_hits: float) -> Floats:
        """The counts to go through, up to one of which so many hits are expected."""
        difference, first = self.wanted_chance - self.other_chance, self.expect_hits(0)
        most = math.ceil(max(most_hits - first, 0.0) / difference) + 1
        if self.is_whole:
            return np.arange(min(most, self.rows) + 1.0)
        # So many counts that no more are expected to hit than do if all of the rows hold a wanted value that this law
        # stands for. Above its own rows the generating function is that of no law, but close to one.
        largest = self.rows * (1 + WIDEST_SPACING) + 1
        most = min(most, math.ceil((largest * self.wanted_chance - first) / difference))
        # The square root of a number of hits has nearly the same standard deviation, one half, wherever it is. Where
        # few are expected, one of them is much, and the steps are half as long.
        low, high, step = math.sqrt(first), math.sqrt(self.expect_hits(most)), 0.5 / FINENESS
        roots = [np.arange(low, FEW_ROOT, step / 2), np.arange(max(low, FEW_ROOT), high + step, step)]
        return np.unique(np.rint(np.clip((np.concatenate(roots) ** 2 - first) / difference, 0, most)))

    def compute_chances(self, counts: Floats, size: int) -> Floats:
        """The chance of each number of hits below an odd size, a line for each count; by the generating function."""
        turns = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
        log_wanted, log_other = (np.log1p(chance * (turns - 1)) for chance in (self.wanted_chance, self.other_chance))
        if self.is_whole:  # one count more is one factor more
            spectrum = np.tile(np.exp(log_wanted - log_other), (len(counts), 1))
            spectrum[0] = np.exp(self.rows * log_other)
            np.multiply.accumulate(spectrum, axis=0, out=spectrum)
        else:
            spectrum = np.exp(np.multiply.outer(counts, log_wanted - log_other) + self.rows * log_other)
        probabilities = np.fft.irfft(spectrum, size, axis=1)
        return np.where(probabilities < NEGLIGIBLE_CHANCE, 0.0, probabilities)


@lru_cache(maxsize=1024)
def find_accepted_counts(distribution: HitDistribution, top: int, level: float) -> Floats:
    """The ends of the accepted counts, for every number of hits below the top."""
    counts = distribution.list_counts((REACH / 2 + math.sqrt(REACH**2 / 4 + top)) ** 2)
    expected_hits = distribution.expect_hits(float(counts[-1]))
    chances = distribution.compute_chances(
        counts, min(distribution.rows + 1, math.ceil(expected_hits + REACH * math.sqrt(expected_hits) + REACH**2)) | 1
    )
    best = chances.max(axis=0)
    # More hits than the largest count lets expect would speak for a larger one, if there were any. Compared with the
    # largest alone they would all be its best, it would be accepted at few others, and upper ends would come too low.
    best[round(expected_hits) :] = best[round(expected_hits)]
    # A rank and a number of hits in one whole number are sorted many times as fast as ranks with their places.
    ranks = np.rint((1 - chances / best) * 10**EQUAL_DIGITS).astype(np.int64)
    bits = chances.shape[1].bit_length()
    ordered = np.sort(ranks << bits | np.arange(chances.shape[1]), axis=1)
    cumulated_chances = np.cumsum(np.take_along_axis(chances, ordered & ((1 << bits) - 1), axis=1)[:, :-1], axis=1)
    last = (cumulated_chances < level - NEGLIGIBLE_CHANCE).sum(axis=1, keepdims=True)
    is_accepted = ranks <= np.take_along_axis(ordered, last, axis=1) >> bits  # equals are taken in together
    is_accepted[-1] |= ~is_accepted.any(axis=0)  # more hits than any count lets expect
    first = is_accepted[:, :top].argmax(axis=0)
    last = len(counts) - 1 - is_accepted[::-1, :top].argmax(axis=0)
    if distribution.is_whole:
        return np.stack([counts[first], counts[last]])
    # Of the counts between two that are gone through, half go with either.
    edges = np.concatenate([counts[:1], (counts[1:] + counts[:-1]) / 2, counts[-1:]])
    return np.stack([edges[first], edges[last + 1]])


# ---------------------------------------------------------------------------------------------------------------------

DEFAULT_LEVEL = 0.95


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < (1 + level) / 2 < 1:
        raise QueryError(f"the level is {level}, and must lie between 0 and 1, such as 0.95.")


def compute_quantile(level: float) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    check_level(level)
    return NormalDist().inv_cdf((1 + level) / 2)


def compute_standard_errors(moments: Moments) -> Floats:
    """The standard errors at the estimates, moved into the range that a count can have; not a number if unknown."""
    nearest = np.clip(moments.centre, moments.least, moments.most)
    return np.asarray(np.sqrt(np.maximum(moments.base + moments.slope * nearest, 0.0)))


def compute_score_ends(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Solve (value - c)² <= z² (base + slope c) for c: all counts that a test at this level would not reject.

    Source: Wilson 1927 for one binomial; here for the sum of two.
    """
    value, squared = moments.centre, compute_quantile(level) ** 2
    shift = squared * moments.slope / 2
    # (value + shift)² - value² + z² base, written so that the square of a large sum does not swallow the rest. Below
    # zero no count fits: the variance would be negative wherever the estimate lies.
    half = np.sqrt(np.maximum(shift * (2 * value + shift) + squared * moments.base, 0.0))
    return value + shift - half, value + shift + half


def compute_one_error_interval(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """One standard error around the estimates moved into the ranges of counts, or less if the level asks for less."""
    nearest = np.clip(moments.centre, moments.least, moments.most)
    reach = min(compute_quantile(level), 1.0) * compute_standard_errors(moments)
    low, high = (np.clip(end, moments.least, moments.most) for end in (nearest - reach, nearest + reach))
    return low, high


def compute_intervals(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """The intervals within the ranges that counts can have; not a number where no error is known.

    They hold the counts that a test at this level would not reject: by the exact law where few hits are expected from
    other values, by the score elsewhere. Which of the two it is depends on the design and the number of rows alone, but
    for so many hits that both agree, of which the exact law would fill the memory. One standard error around the
    estimate is joined, so that an estimate far outside its range is not taken for a certain one.
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
    least, most = compute_one_error_interval(moments, level)
    low, high = (np.clip(end, moments.least, moments.most) for end in (low, high))
    return np.minimum(low, least), np.maximum(high, most)
