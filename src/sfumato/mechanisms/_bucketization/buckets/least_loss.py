"""The setting of least loss over any number of sizes, with a proof.

Claim: the setting is valid, no valid setting has less loss than `bound`, and both are established in integers. Where
`bound` equals the loss, the setting is optimal. Float solvers only propose.
Source: Wang 2014, section 6.1, states the problem with a variable per value and size; here it is projected on the
numbers of buckets (`capacity_cuts`), relaxed (`relaxation`), and solved by listing whole points near the relaxation's
corner (`corner_search`, `group_walk`) or, where that does not apply, by branch and bound (`branch_and_bound`).
Notation: b_S = buckets[S], S = size, |T| = total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.mechanisms._bucketization.buckets.branch_and_bound import WHOLE_TOLERANCE, Search
from sfumato.mechanisms._bucketization.buckets.bucket_problem import (
    NoBucketingError,
    NoCombination,
    NothingFits,
    Problem,
    pose,
)
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, fill, make_setting
from sfumato.mechanisms._bucketization.buckets.capacity_cuts import Cuts, make_cut
from sfumato.mechanisms._bucketization.buckets.corner_search import Corner, find_corner
from sfumato.mechanisms._bucketization.buckets.group_walk import (
    build_walks,
    find_free_directions,
    generate_whole_points,
)
from sfumato.mechanisms._bucketization.buckets.relaxation import Box, Relaxation, prove_empty, relax
from sfumato.mechanisms._bucketization.buckets.share_caps import Integers
from sfumato.mechanisms._bucketization.buckets.step_length import find_first_step

POINTS = 5_000
SIZES_TRIED = 400


@dataclass(frozen=True, slots=True)
class Optimum:
    """A valid setting, and a bound that no valid setting goes below."""

    setting: Setting
    bound: int

    @property
    def is_proven(self) -> bool:
        """Whether the setting is known to be the best."""
        return self.bound == self.setting.loss


def find_optimal_setting(problem: Problem) -> Optimum:
    """The valid setting of least loss, or as near to it as the search gets in bounded time."""
    sizes = problem.sizes.tolist()
    if not sizes:
        raise NoBucketingError(NothingFits(tuple(np.flatnonzero(problem.counts).tolist()), 0, None))
    if problem.total % math.gcd(*sizes):
        raise NoBucketingError(NoCombination(sizes[-1], None))
    relaxed = relax(problem)
    if relaxed.point is None:
        raise NoBucketingError(_explain_infeasibility(problem, relaxed.cuts))
    buckets = np.rint(relaxed.point.buckets).astype(np.int64)
    is_whole = (np.abs(relaxed.point.buckets - buckets) <= WHOLE_TOLERANCE).all()
    if is_whole and int(problem.sizes @ buckets) == problem.total:
        setting = make_setting(problem, buckets)
        if relaxed.bound == setting.loss and not fill(problem, buckets).is_stuck.any():
            return Optimum(setting, relaxed.bound)
    corner = find_corner(problem, relaxed.cuts, relaxed.point)
    nearby_optimum = None if corner is None else _search_near_corner(problem, relaxed, corner)
    if nearby_optimum is not None:
        return nearby_optimum
    search_result = Search(problem, relaxed.cuts).run(relaxed.bound)
    if search_result.buckets is None or search_result.bound is None:
        raise NoBucketingError(NoCombination(sizes[-1], None))
    return Optimum(make_setting(problem, search_result.buckets), search_result.bound)


def find_least_maximum(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> int | None:
    """The least maximum bucket size above `largest` that allows an answer; None if it is beyond what is tried.

    More sizes never hurt, so doubling finds one that works and bisection the least.
    """
    limit = min(sum(counts), smallest + SIZES_TRIED)
    failing_size, working_size = largest, largest
    while failing_size == working_size:
        working_size = min(2 * working_size, limit)
        if working_size <= failing_size:
            return None
        if not is_feasible(counts, caps, smallest, working_size):
            failing_size = working_size
    while working_size - failing_size > 1:
        middle = (failing_size + working_size) // 2
        failing_size, working_size = (
            (failing_size, middle) if is_feasible(counts, caps, smallest, middle) else (middle, working_size)
        )
    return working_size


def is_feasible(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> bool:
    """Whether some setting is found for these sizes."""
    try:
        find_optimal_setting(pose(counts, caps, smallest, largest))
    except NoBucketingError:
        return False
    return True


def add_remedy(
    blocked: NoBucketingError, counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int
) -> NoBucketingError:
    """Add to a failure which maximum bucket size would do, where that is what is missing."""
    reason = blocked.reason
    if not isinstance(reason, NothingFits | NoCombination):
        return blocked
    feasible = find_least_maximum(counts, caps, smallest, largest)
    return NoBucketingError(replace(reason, largest=largest, feasible=feasible))


def _explain_infeasibility(problem: Problem, cuts: Cuts) -> NothingFits | NoCombination:
    """Blame the set of values that weighs most in the proof that there is no room."""
    prices = prove_empty(problem, cuts, Box.of(problem))
    largest = int(problem.sizes[-1])
    if prices is None:
        return NoCombination(largest, None)
    heaviest = int(np.argmax(prices * cuts.needs))
    return NothingFits(tuple(np.flatnonzero(cuts.sets[heaviest]).tolist()), largest, None)


def _search_near_corner(problem: Problem, relaxed: Relaxation, corner: Corner) -> Optimum | None:
    """The first valid whole point near the corner; None if it is not among the first thousands."""
    walks = build_walks(corner)
    if walks is None:
        raise NoBucketingError(NoCombination(int(problem.sizes[-1]), None))
    cuts, bound = relaxed.cuts, relaxed.bound
    free_directions = find_free_directions(corner, walks)
    for number, point in enumerate(generate_whole_points(corner, walks)):
        if number == POINTS:
            return None
        if len(free_directions) <= 1:
            bound = point.loss  # all cheaper ones were looked at
        elif point.loss > bound:
            return None  # with several free directions, not every point is looked at
        buckets, cuts = _search_along(problem, cuts, point.buckets, free_directions)
        if buckets is not None:
            return Optimum(make_setting(problem, buckets), bound)
    raise NoBucketingError(NoCombination(int(problem.sizes[-1]), None))


def _search_along(
    problem: Problem, cuts: Cuts, start: Integers, free_directions: Integers
) -> tuple[Integers | None, Cuts]:
    """The first valid point on the way along a free direction; with none, the point itself.

    A point that the cuts so far allow and that is not valid teaches a cut, which moves the first allowed one on.
    """
    direction = free_directions[0] if len(free_directions) else np.zeros_like(start)
    while True:
        # No number of buckets is to be negative, and all cuts are to hold.
        surplus = np.concatenate([start, cuts.rows @ start - cuts.needs])
        step = find_first_step(surplus, np.concatenate([direction, cuts.rows @ direction]))
        if step is None:
            return None, cuts
        buckets = start + step * direction
        is_stuck = fill(problem, buckets).is_stuck
        if not is_stuck.any():
            return buckets, cuts
        cuts = cuts.join(make_cut(problem, is_stuck))
