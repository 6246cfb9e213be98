"""The thesis' searches for the best two bucket sizes; `two_sizes` finds the same without a search.

All go through all pairs of sizes and, for each, through the feasible pairs of numbers of buckets, cheapest first.
Program 5.2 checks one after the other, as far as these beat the best so far; Program 5.3 finds the first valid one by
bisection; and what the thesis compares them with checks the whole list. Nothing is shared with `two_sizes`, so that
each can judge the other.

Source: Wang 2014, Theorem 1, Programs 5.2 and 5.3, Lemmas 4 to 7; repaired as docs/errata.md says: Best starts at
infinity, a single size (M = M') is tried, no feasible pair is no crash, and the cutoff (5.7) stays within the list.
Notation: S1 < S2 = sizes; b1, b2 = buckets; Γ = the feasible pairs, number t of 0..k; Δ1, Δ2 = given, taken per step;
Λj = where size j can be filled; Ωi = where value i has room; c_i(S) = floors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem, TooFewSizes
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class BucketSize:
    """A bucket size, and how many records of each value fit into such a bucket."""

    size: int
    floors: Integers


@dataclass(frozen=True, slots=True, eq=False)
class FeasiblePairs:
    """Γ: the pairs (first - t * given, second + t * taken) of numbers of buckets, t = 0..last, that are to be tried."""

    counts: Integers
    small: BucketSize
    large: BucketSize
    most_small: int
    least_large: int
    small_step: int
    large_step: int
    last_step: int

    def count_small(self, steps: Integers) -> Integers:
        """The numbers of small buckets at these steps."""
        return self.most_small - steps * self.small_step

    def count_large(self, steps: Integers) -> Integers:
        """The numbers of large buckets at these steps."""
        return self.least_large + steps * self.large_step

    def make_setting(self, step: int) -> Setting:
        """The setting at a step."""
        return Setting.of(
            [
                (self.small.size, self.most_small - step * self.small_step),
                (self.large.size, self.least_large + step * self.large_step),
            ]
        )


FirstValid = Callable[[FeasiblePairs], int | None]


def search_unpruned(problem: Problem) -> Setting:
    """Without pruning: check all feasible pairs one after the other, also those that lose more than the best."""
    return _find_best(problem, _find_first_in_turn, is_pruned=False)


def search_loss_pruned(problem: Problem) -> Setting:
    """Program 5.2: check the feasible pairs one after the other."""
    return _find_best(problem, _find_first_in_turn)


def search_fully_pruned(problem: Problem) -> Setting:
    """Program 5.3: find the first valid pair by bisection."""
    return _find_best(problem, _find_first_by_bisection)


def _find_best(problem: Problem, first_valid: FirstValid, *, is_pruned: bool = True) -> Setting:
    """The frame of all programs."""
    sizes = [BucketSize(int(size), problem.floors[:, column]) for column, size in enumerate(problem.sizes)]
    best: Setting | None = None
    if len(sizes) == 1:  # M = M', which the programs leave out: all buckets of the only size (Lemma 3)
        buckets, remainder = divmod(problem.total, sizes[0].size)
        if not remainder and (sizes[0].floors * buckets >= problem.counts).all():
            best = Setting.of([(sizes[0].size, buckets)])
    for small, large in itertools.combinations(sizes, 2):
        feasible = _find_feasible(problem, small, large, best if is_pruned else None)
        step = None if feasible is None else first_valid(feasible)
        if feasible is not None and step is not None:
            # If pruned, it has less loss: the list was cut off where it would not.
            setting = feasible.make_setting(step)
            best = setting if best is None or setting.loss < best.loss else best
    if best is None:
        raise NoBucketingError(TooFewSizes("two"))
    return best


def _find_feasible(
    problem: Problem, small: BucketSize, large: BucketSize, best: Setting | None
) -> FeasiblePairs | None:
    """The feasible pairs that have less loss than the best so far; None if there are none."""
    common = math.lcm(small.size, large.size)
    small_step, large_step = common // small.size, common // large.size
    # The least number of large buckets that leaves a multiple of the small size; it repeats after `taken`.
    numbers = range(min(large_step, problem.total // large.size + 1))
    least_large = next((number for number in numbers if (problem.total - number * large.size) % small.size == 0), None)
    if least_large is None:
        return None
    most_small = (problem.total - least_large * large.size) // small.size
    last_step = most_small // small_step
    if best is not None:
        start = most_small * (small.size - 1) ** 2 + least_large * (large.size - 1) ** 2
        growth = large_step * (large.size - 1) ** 2 - small_step * (small.size - 1) ** 2
        last_step = min(last_step, (best.loss - start - 1) // growth)  # Eq. (5.7)
    return (
        None
        if last_step < 0
        else FeasiblePairs(problem.counts, small, large, most_small, least_large, small_step, large_step, last_step)
    )


# ---------------------------------------------------------------------------------------------------------- Program 5.2


def _find_first_in_turn(feasible: FeasiblePairs) -> int | None:
    """The first valid step, by looking at one after the other."""
    return next((step for step in range(feasible.last_step + 1) if _is_valid(feasible, step)), None)


def _is_valid(feasible: FeasiblePairs, step: int) -> bool:
    """Theorem 1; that the buckets hold exactly the records (5.3) is true of every pair in the list."""
    small, large, counts = feasible.small, feasible.large, feasible.counts
    first, second = feasible.most_small - step * feasible.small_step, feasible.least_large + step * feasible.large_step
    in_small = np.minimum(small.floors * first, counts)
    if int(in_small.sum()) < small.size * first:  # Eq. (5.2), j = 1
        return False
    in_large = np.minimum(large.floors * second, counts)
    if int(in_large.sum()) < large.size * second:  # Eq. (5.2), j = 2
        return False
    return bool((in_small + in_large >= counts).all())  # Eq. (5.1)


# ---------------------------------------------------------------------------------------------------------- Program 5.3


def _find_first_by_bisection(feasible: FeasiblePairs) -> int | None:
    """The first step in Λ1, Λ2 and all Ωi."""
    low, end = _find_fillable_steps(feasible)
    prefixes, suffixes = _find_room_steps(feasible)
    while low < end:
        lacking = (prefixes <= low) & (low < suffixes)
        if not lacking.any():
            return low
        low = int(suffixes[lacking].max())  # between its prefix and its suffix a value has no room
    return None


def _find_fillable_steps(feasible: FeasiblePairs) -> tuple[int, int]:
    """Where Λ1, a suffix, begins and where Λ2, a prefix, ends (Lemma 5)."""
    counts, small, large = feasible.counts[:, None], feasible.small, feasible.large

    def is_small_filled(steps: Integers) -> Booleans:
        buckets = feasible.count_small(steps)
        return _sum_filled(small.floors[:, None] * buckets, counts) >= small.size * buckets  # Eq. (5.8)

    def is_large_unfilled(steps: Integers) -> Booleans:
        buckets = feasible.count_large(steps)
        return _sum_filled(large.floors[:, None] * buckets, counts) < large.size * buckets  # Eq. (5.9) fails

    begin, end = np.array([0]), np.array([feasible.last_step + 1])
    return int(_find_first_true(is_small_filled, begin, end)[0]), int(
        _find_first_true(is_large_unfilled, begin, end)[0]
    )


def _find_room_steps(feasible: FeasiblePairs) -> tuple[Integers, Integers]:
    """Where each value has room, Ωi: before the first and from the second of two steps (Lemma 7)."""
    counts, small, large = feasible.counts, feasible.small.floors, feasible.large.floors

    def lacks_in_small(steps: Integers) -> Booleans:
        return small * feasible.count_small(steps) < counts

    def fits_in_large(steps: Integers) -> Booleans:
        return large * feasible.count_large(steps) >= counts

    rising = large * feasible.large_step >= small * feasible.small_step  # Eq. (5.12)

    def has_turned(steps: Integers) -> Booleans:
        fits = small * feasible.count_small(steps) + large * feasible.count_large(steps) >= counts  # Eq. (5.11)
        return np.equal(fits, rising)

    begin, end = np.zeros_like(counts), np.full_like(counts, feasible.last_step + 1)
    prefixes = _find_first_true(lacks_in_small, begin, end)
    suffixes = np.maximum(_find_first_true(fits_in_large, begin, end), prefixes)
    turns = _find_first_true(has_turned, prefixes, suffixes)
    return np.where(rising, prefixes, turns), np.where(rising, turns, suffixes)


def _find_first_true(holds: Callable[[Integers], Booleans], begin: Integers, end: Integers) -> Integers:
    """The first step from `begin` on at which a monotone property holds, else `end`; for all values at once."""
    low, high = begin.copy(), end.copy()
    while (low < high).any():
        middle = (low + high) // 2
        is_true = holds(middle)
        is_open = low < high
        high = np.where(is_open & is_true, middle, high)
        low = np.where(is_open & ~is_true, middle + 1, low)
    return low


def _sum_filled(room: Integers, counts: Integers) -> Integers:
    """What the records of all values fill of the room."""
    filled: Integers = np.minimum(room, counts).sum(axis=0)
    return filled
