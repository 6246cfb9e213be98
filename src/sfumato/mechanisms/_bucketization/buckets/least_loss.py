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

from sfumato.mechanisms._bucketization.buckets.branch_and_bound import WHOLE, Search
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Blocked, NoCombination, NothingFits, Problem, pose
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, as_setting, fill
from sfumato.mechanisms._bucketization.buckets.capacity_cuts import Cuts, cut_of
from sfumato.mechanisms._bucketization.buckets.corner_search import Corner, corner_of
from sfumato.mechanisms._bucketization.buckets.group_walk import slides, walks_of, whole_points
from sfumato.mechanisms._bucketization.buckets.relaxation import Box, Relaxed, proves_empty, relax
from sfumato.mechanisms._bucketization.buckets.share_caps import Integers
from sfumato.mechanisms._bucketization.buckets.step_length import first_step

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


def optimal(problem: Problem) -> Optimum:
    """The valid setting of least loss, or as near to it as the search gets in bounded time."""
    sizes = problem.sizes.tolist()
    if not sizes:
        raise Blocked(NothingFits(tuple(np.flatnonzero(problem.counts).tolist()), 0, None))
    if problem.total % math.gcd(*sizes):
        raise Blocked(NoCombination(sizes[-1], None))
    relaxed = relax(problem)
    if relaxed.point is None:
        raise Blocked(_nothing_fits(problem, relaxed.cuts))
    buckets = np.rint(relaxed.point.buckets).astype(np.int64)
    is_whole = (np.abs(relaxed.point.buckets - buckets) <= WHOLE).all()
    if is_whole and int(problem.sizes @ buckets) == problem.total:
        setting = as_setting(problem, buckets)
        if relaxed.bound == setting.loss and not fill(problem, buckets).stuck.any():
            return Optimum(setting, relaxed.bound)
    corner = corner_of(problem, relaxed.cuts, relaxed.point)
    near = None if corner is None else _near(problem, relaxed, corner)
    if near is not None:
        return near
    found = Search(problem, relaxed.cuts).run(relaxed.bound)
    if found.buckets is None or found.bound is None:
        raise Blocked(NoCombination(sizes[-1], None))
    return Optimum(as_setting(problem, found.buckets), found.bound)


def smallest_largest(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> int | None:
    """The least maximum bucket size above `largest` that allows an answer; None if it is beyond what is tried.

    More sizes never hurt, so doubling finds one that works and bisection the least.
    """
    limit = min(sum(counts), smallest + SIZES_TRIED)
    fails, works = largest, largest
    while fails == works:
        works = min(2 * works, limit)
        if works <= fails:
            return None
        if not is_feasible(counts, caps, smallest, works):
            fails = works
    while works - fails > 1:
        middle = (fails + works) // 2
        fails, works = (fails, middle) if is_feasible(counts, caps, smallest, middle) else (middle, works)
    return works


def is_feasible(counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int) -> bool:
    """Whether some setting is found for these sizes."""
    try:
        optimal(pose(counts, caps, smallest, largest))
    except Blocked:
        return False
    return True


def with_remedy(
    blocked: Blocked, counts: Sequence[int], caps: Sequence[Fraction], smallest: int, largest: int
) -> Blocked:
    """Add to a failure which maximum bucket size would do, where that is what is missing."""
    reason = blocked.reason
    if not isinstance(reason, NothingFits | NoCombination):
        return blocked
    feasible = smallest_largest(counts, caps, smallest, largest)
    return Blocked(replace(reason, largest=largest, feasible=feasible))


def _nothing_fits(problem: Problem, cuts: Cuts) -> NothingFits | NoCombination:
    """Blame the set of values that weighs most in the proof that there is no room."""
    prices = proves_empty(problem, cuts, Box.of(problem))
    largest = int(problem.sizes[-1])
    if prices is None:
        return NoCombination(largest, None)
    heaviest = int(np.argmax(prices * cuts.needs))
    return NothingFits(tuple(np.flatnonzero(cuts.sets[heaviest]).tolist()), largest, None)


def _near(problem: Problem, relaxed: Relaxed, corner: Corner) -> Optimum | None:
    """The first valid whole point near the corner; None if it is not among the first thousands."""
    walks = walks_of(corner)
    if walks is None:
        raise Blocked(NoCombination(int(problem.sizes[-1]), None))
    cuts, bound = relaxed.cuts, relaxed.bound
    free = slides(corner, walks)
    for number, point in enumerate(whole_points(corner, walks)):
        if number == POINTS:
            return None
        if len(free) <= 1:
            bound = point.loss  # all cheaper ones were looked at
        elif point.loss > bound:
            return None  # with several free directions, not every point is looked at
        buckets, cuts = _slid(problem, cuts, point.buckets, free)
        if buckets is not None:
            return Optimum(as_setting(problem, buckets), bound)
    raise Blocked(NoCombination(int(problem.sizes[-1]), None))


def _slid(problem: Problem, cuts: Cuts, start: Integers, free: Integers) -> tuple[Integers | None, Cuts]:
    """The first valid point on the way along a free direction; with none, the point itself.

    A point that the cuts so far allow and that is not valid teaches a cut, which moves the first allowed one on.
    """
    direction = free[0] if len(free) else np.zeros_like(start)
    while True:
        # No number of buckets is to be negative, and all cuts are to hold.
        have = np.concatenate([start, cuts.rows @ start - cuts.needs])
        step = first_step(have, np.concatenate([direction, cuts.rows @ direction]))
        if step is None:
            return None, cuts
        buckets = start + step * direction
        stuck = fill(problem, buckets).stuck
        if not stuck.any():
            return buckets, cuts
        cuts = cuts.joined(cut_of(problem, stuck))
