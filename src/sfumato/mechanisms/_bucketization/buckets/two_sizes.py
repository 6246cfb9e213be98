"""Finds the best buckets of at most two sizes, without a search over the numbers of buckets.

For sizes S1 < S2, the settings that hold exactly the records form a row. Each of t steps trades D1 buckets of S1 for D2
buckets of S2. Every condition of Theorem 1 is linear in t, because the minima in it are redundant. So each condition
leaves a half-line of steps. The best setting is the first step in the intersection, because every trade to larger
buckets raises the loss. The thesis searches these rows by bisection.

Source: Wang 2014, Theorem 1, section 5.3, Lemma 5; repaired as docs/errata.md says: Best starts at infinity, one size
counts.
Notation: S1, S2 = sizes; b1, b2 = buckets; D1 = S2/gcd, D2 = S1/gcd = `given`, `taken` per step; PC = every value has
room in both together; FC = each size can be filled, b <= lim(S); CC = exactly the records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.mechanisms._bucketization.buckets.bucket_problem import (
    NoBucketingError,
    Problem,
    TooFewSizes,
    find_first_step,
)
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers


@dataclass(frozen=True, slots=True)
class Trades:
    """The pairs (first - t * given, second + t * taken) of numbers of buckets, t = 0..steps."""

    first: int
    second: int
    small_step: int
    large_step: int
    steps: int


def find_best_two_sizes(problem: Problem) -> Setting:
    """Finds the valid setting of at most two sizes with the smallest loss. Small sizes are preferred in a tie."""
    limits, total = count_fillable_buckets(problem).tolist(), problem.total
    best = None
    if len(problem.sizes) == 1:  # there is no pair to try
        size = int(problem.sizes[0])
        buckets, rest = divmod(total, size)
        if not rest and (problem.counts <= problem.floors[:, 0] * buckets).all():
            best = Setting.of([(size, buckets)])
    for low, size in enumerate(problem.sizes.tolist()):
        if best is not None and total * (size - 1) ** 2 >= best.loss * size:
            break  # a larger bucket has a larger loss for each record
        for high in range(low + 1, len(problem.sizes)):
            better = _find_best_of_pair(problem, total, (low, high), limits, best)
            best = best if better is None else better
    if best is None:
        raise NoBucketingError(TooFewSizes("two"))
    return best


def list_pairs(total: int, small: int, large: int) -> Trades | None:
    """Lists all pairs of numbers of buckets of two sizes with exactly the records."""
    divisor = math.gcd(small, large)
    small_step, large_step = large // divisor, small // divisor
    if total % divisor:
        return None
    second = total // divisor * pow(small_step, -1, large_step) % large_step
    if second * large > total:
        return None
    first = (total - second * large) // small
    return Trades(first, second, small_step, large_step, first // small_step)


def count_fillable_buckets(problem: Problem) -> Integers:
    """The largest number of buckets that the records can fill within the caps, for each size alone.

    Other records are ignored.

    The sum of min(c_i * b, o_i) - S * b is concave in b and 0 at b = 0. So the sum is at least 0 up to some b.
    Bisection finds this b, for all sizes at once.
    """
    sizes, counts = problem.sizes, problem.counts[:, None]
    low, high = np.zeros_like(sizes), problem.total // sizes
    while (low < high).any():
        middle = (low + high + 1) // 2
        is_filled = np.minimum(problem.floors * middle, counts).sum(axis=0) >= sizes * middle
        low, high = np.where(is_filled, middle, low), np.where(is_filled, high, middle - 1)
    return low


def _find_best_of_pair(
    problem: Problem, total: int, columns: tuple[int, int], limits: list[int], best: Setting | None
) -> Setting | None:
    """The first step of the pair's row that is valid, if it beats the best so far."""
    small, large = (int(problem.sizes[column]) for column in columns)
    trades = list_pairs(total, small, large)
    if trades is None:
        return None
    low = max(0, _divide_rounding_up(trades.first - limits[columns[0]], trades.small_step))
    high = min(trades.steps, (limits[columns[1]] - trades.second) // trades.large_step)
    if (
        best is not None
    ):  # the loss grows by the same amount with every step, and must stay below the smallest loss so far
        start = trades.first * (small - 1) ** 2 + trades.second * (large - 1) ** 2
        growth = trades.large_step * (large - 1) ** 2 - trades.small_step * (small - 1) ** 2
        high = min(high, _divide_rounding_up(best.loss - start, growth) - 1)
    if low > high:
        return None
    # PC: c_i(S1) * b1 + c_i(S2) * b2 >= o_i
    room = tuple(problem.floors[:, column] for column in columns)
    surplus = room[0] * trades.first + room[1] * trades.second - problem.counts
    step = find_first_step(surplus, room[1] * trades.large_step - room[0] * trades.small_step, low, high)
    if step is None:
        return None
    return Setting.of(
        [(small, trades.first - step * trades.small_step), (large, trades.second + step * trades.large_step)]
    )


def _divide_rounding_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
