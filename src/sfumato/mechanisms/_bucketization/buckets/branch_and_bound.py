"""Branch and bound over numbers of buckets, where the corner search does not apply.

A float solver proposes a first setting and the point to branch at; what is cut off is cut off by bounds in integers.
The search ends when nothing better can be left, or after a fixed number of nodes: then the answer carries the bound of
what was left open. No clock is looked at, so the same problem always gets the same answer.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.bucket_setting import fill
from sfumato.mechanisms._bucketization.buckets.capacity_cuts import Cuts, make_cut
from sfumato.mechanisms._bucketization.buckets.mute_solver import silence_output
from sfumato.mechanisms._bucketization.buckets.relaxation import (
    Box,
    compute_bucket_losses,
    prove_empty,
    prove_lower_bound,
    solve,
)
from sfumato.mechanisms._bucketization.buckets.share_caps import Integers

WHOLE_TOLERANCE = 1e-6
NODES = 200
PROPOSALS = 30
PROPOSAL_NODES = 100
PROPOSAL_GAP = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best valid numbers of buckets, if any, and a proven lower bound of the loss; no bound if nothing is valid."""

    buckets: Integers | None
    bound: int | None


class Search:
    """The open boxes in order of their bounds, the best so far, and the cuts learnt on the way."""

    def __init__(self, problem: Problem, cuts: Cuts) -> None:
        self._problem = problem
        self._cuts = cuts
        self._best_buckets: Integers | None = None
        self._open_boxes: list[tuple[int, int, Box]] = []
        self._unsettled_bounds: list[int] = []
        self._box_count = 0

    def run(self, bound: int, nodes: int = NODES) -> SearchResult:
        """Search from the whole problem, whose loss is at least `bound`."""
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
        """Settle a box, or split it in two."""
        point = solve(self._problem, self._cuts, box)
        if point is None:
            # That the solver finds nothing is no proof.
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
        """Take valid numbers as the best; learn a cut from others and look again."""
        is_stuck = fill(self._problem, buckets).is_stuck
        if is_stuck.any():
            self._cuts = self._cuts.join(make_cut(self._problem, is_stuck))
            self._push(bound, box)
        elif int(self._problem.sizes @ buckets) == self._problem.total:
            if self._compute_loss(buckets) < self._find_loss_limit():
                self._best_buckets = buckets
            # The solver's optimum of this box may be off by its rounding: only its bound is certain.
            if bound < self._compute_loss(buckets):
                self._unsettled_bounds.append(bound)
        else:
            self._unsettled_bounds.append(bound)

    def _propose(self) -> Integers | None:
        """Whole numbers from a float solver, valid by our own check; each refusal teaches a cut."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - scipy takes long to load, and few commands need it

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
        """What an answer must go below to be of interest."""
        return 2**62 if self._best_buckets is None else self._compute_loss(self._best_buckets)
