"""Finds the setting of smallest loss over any number of sizes, with a proof.

Claim: the setting is valid, and no valid setting has less loss than `bound`. Both facts are proven in integers. If
`bound` equals the loss, the setting is optimal. Float solvers only propose solutions.
Source: Wang 2014, section 6.1, states the problem with a variable per value and size; here the problem is projected on
the numbers of buckets (`capacity_cuts`), relaxed (`relaxation`), and solved by listing whole points near the
relaxation's corner (`group_walk`), or by branch and bound if there is no usable corner.
Notation: b_S = buckets[S], S = size, |T| = total.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.mechanisms._bucketization.buckets.bucket_problem import (
    NoBucketingError,
    NoCombination,
    NothingFits,
    Problem,
    find_first_step,
    pose,
)
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, fill, make_setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.cutting_planes import Cuts, make_cut
from sfumato.mechanisms._bucketization.buckets.group_walk import (
    Corner,
    build_walks,
    find_corner,
    find_free_directions,
    generate_whole_points,
)
from sfumato.mechanisms._bucketization.buckets.relaxation import (
    Box,
    Relaxation,
    compute_bucket_losses,
    prove_empty,
    prove_lower_bound,
    relax,
    silence_output,
    solve,
)

# Branch and bound over numbers of buckets, used if the corner search is not possible.
#
# A float solver proposes a first setting and the point to branch at, but only bounds in integers discard boxes. The
# search ends when no better setting can remain, or after a fixed number of nodes. In the second case the answer has the
# bound of the open boxes. The search uses no clock, so the same problem always gets the same answer.

WHOLE_TOLERANCE = 1e-6
NODES = 200
PROPOSALS = 30
PROPOSAL_NODES = 100
PROPOSAL_GAP = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best valid numbers of buckets, if any, and a proven lower bound of the loss.

    There is no bound if nothing is valid.
    """

    buckets: Integers | None
    bound: int | None


class Search:
    """The state of the search: the open boxes in order of their bounds, the best answer and the cuts so far."""

    def __init__(self, problem: Problem, cuts: Cuts) -> None:
        self._problem = problem
        self._cuts = cuts
        self._best_buckets: Integers | None = None
        self._open_boxes: list[tuple[int, int, Box]] = []
        self._unsettled_bounds: list[int] = []
        self._box_count = 0

    def run(self, bound: int, nodes: int = NODES) -> SearchResult:
        """Starts the search with the whole problem, whose loss is at least `bound`."""
        self._best_buckets = self._propose()
        self._push(bound, Box.of(self._problem))
        while self._open_boxes and self._open_boxes[0][0] < self._find_loss_limit() and self._box_count < nodes:
            floor, _, box = heapq.heappop(self._open_boxes)
            self._explore_box(floor, box)
        lower_bounds = [floor for floor, _, _ in self._open_boxes] + self._unsettled_bounds
        if self._best_buckets is not None:
            lower_bounds.append(self._compute_loss(self._best_buckets))
        return SearchResult(self._best_buckets, min(lower_bounds) if lower_bounds else None)

    def _explore_box(self, floor: int, box: Box) -> None:
        """Settles a box, or splits it in two."""
        point = solve(self._problem, self._cuts, box)
        if point is None:
            # A solver that finds nothing does not prove that there is no solution.
            sizes, total = self._problem.sizes, self._problem.total
            is_empty = (box.low > box.high).any() or int(sizes @ box.high) < total or int(sizes @ box.low) > total
            if not is_empty and prove_empty(self._problem, self._cuts, box) is None:
                self._unsettled_bounds.append(floor)
            return
        bound = max(floor, prove_lower_bound(self._problem, self._cuts, box, point))
        if bound >= self._find_loss_limit():
            return
        fractional = np.flatnonzero(np.abs(point.buckets - np.rint(point.buckets)) > WHOLE_TOLERANCE)
        if not len(fractional):
            self._try_whole(bound, box, np.rint(point.buckets).astype(np.int64))
            return
        # Branch on the largest fractional size: rounding it up keeps the conditions of small caps satisfied.
        column = int(fractional[-1])
        middle = int(np.floor(point.buckets[column]))
        low, high = box.low.copy(), box.high.copy()
        low[column], high[column] = middle + 1, middle
        self._push(bound, Box(low, box.high))
        self._push(bound, Box(box.low, high))

    def _try_whole(self, bound: int, box: Box, buckets: Integers) -> None:
        """Takes valid numbers as the best answer. Invalid numbers give a new cut, and the box is tried again."""
        is_stuck = fill(self._problem, buckets).is_stuck
        if is_stuck.any():
            self._cuts = self._cuts.join(make_cut(self._problem, is_stuck))
            self._push(bound, box)
        elif int(self._problem.sizes @ buckets) == self._problem.total:
            if self._compute_loss(buckets) < self._find_loss_limit():
                self._best_buckets = buckets
            # Rounding may make the solver's optimum of this box slightly wrong; only the bound is certain.
            if bound < self._compute_loss(buckets):
                self._unsettled_bounds.append(bound)
        else:
            self._unsettled_bounds.append(bound)

    def _propose(self) -> Integers | None:
        """Whole numbers from a float solver that pass our own check. Each invalid proposal gives a new cut."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - scipy loads slowly, and is rarely needed

        problem, box = self._problem, Box.of(self._problem)
        for _ in range(PROPOSALS):
            with silence_output():
                answer = milp(
                    compute_bucket_losses(problem),
                    integrality=np.ones(len(problem.sizes), dtype=np.int64),
                    bounds=Bounds(box.low, box.high),
                    constraints=[
                        LinearConstraint(problem.sizes[None, :], problem.total, problem.total),
                        LinearConstraint(self._cuts.rows, self._cuts.needs, np.inf),
                    ],
                    options={"node_limit": PROPOSAL_NODES, "mip_rel_gap": PROPOSAL_GAP},
                )
            buckets = None if answer.x is None else np.rint(answer.x).astype(np.int64)
            if buckets is None or int(problem.sizes @ buckets) != problem.total:
                return None
            is_stuck = fill(problem, buckets).is_stuck
            if not is_stuck.any():
                return buckets
            self._cuts = self._cuts.join(make_cut(problem, is_stuck))
        return None

    def _push(self, bound: int, box: Box) -> None:
        self._box_count += 1
        heapq.heappush(self._open_boxes, (bound, -self._box_count, box))

    def _compute_loss(self, buckets: Integers) -> int:
        return int(compute_bucket_losses(self._problem) @ buckets)

    def _find_loss_limit(self) -> int:
        """The loss that an answer must stay below to be an improvement."""
        return 2**62 if self._best_buckets is None else self._compute_loss(self._best_buckets)


# ---------------------------------------------------------------------------------------------------------------------

POINTS = 5_000
SIZES_TRIED = 400


@dataclass(frozen=True, slots=True)
class Optimum:
    """A valid setting, and a lower bound of the loss of all valid settings."""

    setting: Setting
    bound: int

    @property
    def is_proven(self) -> bool:
        """Whether the setting is proven to be the best."""
        return self.bound == self.setting.loss


def find_optimal_setting(problem: Problem) -> Optimum:
    """Finds the valid setting of smallest loss, or the best setting that a bounded search finds."""
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
    """Finds the smallest maximum bucket size above `largest` that allows a solution. None if no tried size allows one.

    A larger maximum never rules out a solution. So doubling finds a maximum that works, and bisection finds the
    smallest.
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
    """Adds the maximum bucket size that would work to a failure, if a larger size is the remedy."""
    reason = blocked.reason
    if not isinstance(reason, NothingFits | NoCombination):
        return blocked
    feasible = find_least_maximum(counts, caps, smallest, largest)
    return NoBucketingError(replace(reason, largest=largest, feasible=feasible))


def _explain_infeasibility(problem: Problem, cuts: Cuts) -> NothingFits | NoCombination:
    """Returns the set of values with the largest weight in the proof that there is no room."""
    prices = prove_empty(problem, cuts, Box.of(problem))
    largest = int(problem.sizes[-1])
    if prices is None:
        return NoCombination(largest, None)
    heaviest = int(np.argmax(prices * cuts.needs))
    return NothingFits(tuple(np.flatnonzero(cuts.sets[heaviest]).tolist()), largest, None)


def _search_near_corner(problem: Problem, relaxed: Relaxation, corner: Corner) -> Optimum | None:
    """The first valid whole point near the corner; None if it is not among the first few thousand points."""
    walks = build_walks(corner)
    if walks is None:
        raise NoBucketingError(NoCombination(int(problem.sizes[-1]), None))
    cuts, bound = relaxed.cuts, relaxed.bound
    free_directions = find_free_directions(corner, walks)
    for number, point in enumerate(generate_whole_points(corner, walks)):
        if number == POINTS:
            return None
        if len(free_directions) <= 1:
            bound = point.loss  # all cheaper points were tried
        elif point.loss > bound:
            return None  # with several free directions, not every point is tried
        buckets, cuts = _search_along(problem, cuts, point.buckets, free_directions)
        if buckets is not None:
            return Optimum(make_setting(problem, buckets), bound)
    raise NoBucketingError(NoCombination(int(problem.sizes[-1]), None))


def _search_along(
    problem: Problem, cuts: Cuts, start: Integers, free_directions: Integers
) -> tuple[Integers | None, Cuts]:
    """The first valid point along a free direction. Without a free direction, the point itself.

    A point that meets all cuts but is not valid gives a new cut, so the first allowed point lies further on.
    """
    direction = free_directions[0] if len(free_directions) else np.zeros_like(start)
    while True:
        # No number of buckets may be negative, and all cuts must hold.
        surplus = np.concatenate([start, cuts.rows @ start - cuts.needs])
        step = find_first_step(surplus, np.concatenate([direction, cuts.rows @ direction]))
        if step is None:
            return None, cuts
        buckets = start + step * direction
        is_stuck = fill(problem, buckets).is_stuck
        if not is_stuck.any():
            return buckets, cuts
        cuts = cuts.join(make_cut(problem, is_stuck))
