"""The linear programme over numbers of buckets, and what its answer proves in integers.

The solver works in floating point, so its answer is a proposal. Its dual prices, rounded to multiples of 2^-40, are
worth a bound whatever they are: for y >= 0 and any z,
    loss = w b >= z |T| + y needs + (w - z S - y rows) b >= z |T| + y needs + sum of min(d low, d high)
where d = w - z S - y rows and low <= b <= high. That is evaluated in integers of any length.

Notation: w_S = (S-1)² = weights, b = buckets, y = prices of the cuts, z = price of a record, d = reduced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.capacity_cuts import (
    Cuts,
    Reals,
    find_violated_cuts,
    make_single_value_cuts,
)
from sfumato.mechanisms._bucketization.buckets.linear_programs import Programme, solve_programme
from sfumato.mechanisms._bucketization.buckets.share_caps import Integers

Objects = npt.NDArray[np.object_]

DIGITS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Bounds on the numbers of buckets of every size."""

    low: Integers
    high: Integers

    @staticmethod
    def of(problem: Problem) -> Box:
        """What the number of records allows."""
        return Box(np.zeros_like(problem.sizes), problem.total // problem.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A corner of the relaxation as the solver sees it: numbers of buckets and prices."""

    buckets: Reals
    prices: Reals
    record_price: float


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The relaxation's best point under all cuts, the cuts it took, and a proven bound; no point if there is none."""

    point: Point | None
    cuts: Cuts
    bound: int


def compute_bucket_losses(problem: Problem) -> Integers:
    """The loss of one bucket of every size."""
    return (problem.sizes - 1) ** 2


def relax(problem: Problem) -> Relaxation:
    """Solve the relaxation, adding cuts until none is violated."""
    cuts, box = make_single_value_cuts(problem), Box.of(problem)
    while True:
        point = solve(problem, cuts, box)
        if point is None:
            return Relaxation(None, cuts, 0)
        violated_cuts = find_violated_cuts(problem, point.buckets)
        if violated_cuts is None:
            return Relaxation(point, cuts, prove_lower_bound(problem, cuts, box, point))
        cuts = cuts.join(violated_cuts)


def solve(problem: Problem, cuts: Cuts, box: Box) -> Point | None:
    """The cheapest fractional numbers of buckets in the box."""
    return _call_solver(problem, cuts, box, compute_bucket_losses(problem), None)


def prove_lower_bound(problem: Problem, cuts: Cuts, box: Box, point: Point) -> int:
    """A whole number that no valid setting in the box can go below."""
    return _compute_dual_value(problem, cuts, box, point, compute_bucket_losses(problem))


def prove_empty(problem: Problem, cuts: Cuts, box: Box) -> Reals | None:
    """Prices of the cuts that prove that nothing in the box meets them; None if there is no such proof.

    Costs are 0 here, so whatever is valid costs 0, and a bound of 1 leaves nothing. The prices come from the programme
    that lets every cut fall short and pays 1 for each record that it lacks.
    """
    nothing = np.zeros_like(problem.sizes)
    point = _call_solver(problem, cuts, box, nothing, 1.0)
    if point is None or _compute_dual_value(problem, cuts, box, point, nothing) <= 0:
        return None
    return point.prices


def _call_solver(problem: Problem, cuts: Cuts, box: Box, costs: Integers, penalty: float | None) -> Point | None:
    """Call the solver; with a fine, cuts may fall short at that price per record."""
    sizes, slack_count = len(problem.sizes), 0 if penalty is None else len(cuts.needs)
    answer = solve_programme(
        Programme(
            np.concatenate([costs, np.full(slack_count, penalty or 0.0)]),
            (np.append(box.low, np.zeros(slack_count)), np.append(box.high, np.full(slack_count, np.inf))),
            np.vstack(
                [
                    np.hstack([cuts.rows, np.eye(len(cuts.needs), slack_count)]),
                    np.append(problem.sizes, np.zeros(slack_count)),
                ]
            ),
            (np.append(cuts.needs, problem.total), np.append(np.full(len(cuts.needs), np.inf), problem.total)),
        )
    )
    if answer is None:
        return None
    prices = np.maximum(answer.prices[:-1], 0.0)
    return Point(answer.numbers[:sizes], prices, float(answer.prices[-1]))


def _compute_dual_value(problem: Problem, cuts: Cuts, box: Box, point: Point, costs: Integers) -> int:
    """The dual value of rounded prices, rounded up: the loss is a whole number."""
    prices = np.array([round(price * 2**DIGITS) for price in point.prices.tolist()], dtype=object)
    record_price = round(point.record_price * 2**DIGITS)
    reduced = (
        _convert_to_exact(costs) * 2**DIGITS
        - record_price * _convert_to_exact(problem.sizes)
        - prices @ _convert_to_exact(cuts.rows)
    )
    ends = np.minimum(reduced * _convert_to_exact(box.low), reduced * _convert_to_exact(box.high))
    value: int = record_price * problem.total + int(prices @ _convert_to_exact(cuts.needs)) + int(ends.sum())
    return -(-value >> DIGITS)


def _convert_to_exact(integers: Integers) -> Objects:
    """Python's integers, which do not overflow."""
    return integers.astype(object)
