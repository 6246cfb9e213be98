"""Walks a finite group near a corner, with exact remaining costs, to list whole points in order of loss.

`to_go[k][g]` is the smallest cost to bring the element g to 0 with only the moves k, k+1, ... With these costs, a
search that takes the moves in order has no dead ends. Every entry of its queue ends in a whole point of exactly the
promised cost.

A move that costs nothing could be repeated for ever. The order of a move is the number of repetitions that lead back to
the same element. The walk repeats the move fewer times than its order. `find_slides` treats whole orders, which are
directions in which a point can be moved at no cost.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.cutting_planes import Cuts, Reals
from sfumato.mechanisms._bucketization.buckets.relaxation import Point, compute_bucket_losses

# Lists the best whole numbers of buckets near a corner of the relaxation, in order of loss.
#
# At a corner, some sizes (the basis) are fixed by as many tight conditions: B x = rhs. Every other point is reached by
# moves: one bucket more of a size outside the basis, or one record more of room than a tight condition demands. Each
# move costs a known non-negative amount and shifts D x, D = |det B|, by a known whole vector. So x is whole if and only
# if the moves together bring D x to 0 modulo D: a walk in a finite group of at most D elements. Shortest walks in this
# group are exact remaining costs, and a best-first search with these costs lists all whole points in order of loss. The
# first valid point is the optimum.
#
# The corner comes from a float solver. Its inverse is rounded to integers and checked as B * adjugate = D * 1, and all
# costs are checked to be non-negative, in integers. If a check fails, there is no usable corner, and branch and bound
# is used instead.
#
# Source: Gomory 1969, "Some polyhedra related to combinatorial problems".
# Notation: B = basis matrix, D = modulus, adj = D * inverse(B) = adjugate, y = prices, all costs are in units of 1/D.

Objects = npt.NDArray[np.object_]

LARGEST_MODULUS = 20_000
POSITIVE = 1e-7
LARGEST_WORD = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Corner:
    """A checked corner: whole vectors in units of 1/modulus, and the moves away from it, dearest first.

    `start` is D x at the corner. Move k costs `costs[k]`, shifts D x by `shifts[k]`, and adds `extras[k]` to the
    numbers of buckets outside the basis.
    """

    modulus: int
    basis: Integers
    start: Integers
    value: int
    costs: tuple[int, ...]
    shifts: Integers
    extras: Integers


def find_corner(problem: Problem, cuts: Cuts, point: Point) -> Corner | None:
    """The corner at which the solver stopped, checked in integers.

    None if the corner is too large or fails the check.
    """
    matrix = np.concatenate([problem.sizes[None, :], cuts.rows])
    right_side = np.concatenate([[problem.total], cuts.needs])
    basis_indices = _find_basis(matrix, right_side, compute_bucket_losses(problem), point)
    if basis_indices is None:
        return None
    rows, basis = basis_indices
    inverse = _compute_adjugate(matrix[np.ix_(rows, basis)])
    if inverse is None:
        return None
    modulus, adjugate = inverse
    # Prices all moves in Python's integers, which do not overflow, and tests whether the vectors fit into words.
    loss, exact, right_side = (
        integers.astype(object) for integers in (compute_bucket_losses(problem), matrix[rows], right_side[rows])
    )
    prices = loss[basis] @ adjugate
    others = np.setdiff1d(np.arange(len(loss)), basis)
    costs = np.concatenate([prices[1:], modulus * loss[others] - prices @ exact[:, others]])
    start = adjugate @ right_side
    shifts = np.concatenate([adjugate[:, 1:].T, -(adjugate @ exact[:, others]).T])
    longest = max(int(abs(shifts).max(initial=0)), int(abs(start).max()))
    if (costs < 0).any() or longest * modulus > LARGEST_WORD:
        return None
    extras = np.zeros((len(costs), len(loss)), dtype=np.int64)
    extras[np.arange(len(basis) - 1, len(costs)), others] = 1
    order = sorted(range(len(costs)), key=lambda move: -costs[move])
    return Corner(
        modulus,
        basis,
        start.astype(np.int64),
        int(prices @ right_side),
        tuple(int(costs[move]) for move in order),
        shifts.astype(np.int64)[order],
        extras[order],
    )


def _find_basis(
    matrix: Integers, right_side: Integers, loss: Integers, point: Point
) -> tuple[Integers, Integers] | None:
    """The rows and columns of a basis. Tight rows or sizes of zero reduced cost complete those in use."""
    prices = np.concatenate([[point.record_price], point.prices])
    is_priced = np.concatenate([[True], point.prices > POSITIVE])
    is_tight = np.abs(matrix @ point.buckets - right_side) <= POSITIVE * np.maximum(1, right_side)
    is_used = point.buckets > POSITIVE
    is_free = np.abs(loss - prices @ matrix) <= POSITIVE * np.maximum(1, loss)
    rows, columns = np.flatnonzero(is_priced), np.flatnonzero(is_used)
    rows = _add_independent_rows(matrix[:, columns], rows, np.flatnonzero(is_tight & ~is_priced), len(columns))
    columns = _add_independent_rows(matrix[rows].T, columns, np.flatnonzero(is_free & ~is_used), len(rows))
    return (rows, columns) if len(rows) == len(columns) else None


def _add_independent_rows(matrix: Integers, rows: Integers, candidates: Integers, row_count: int) -> Integers:
    """Adds rows that are independent of the chosen ones, up to the wanted number."""
    for candidate in candidates:
        if len(rows) >= row_count:
            break
        extended_rows = np.append(rows, candidate)
        if np.linalg.matrix_rank(matrix[extended_rows].astype(np.float64)) == len(extended_rows):
            rows = extended_rows
    return rows


def _compute_adjugate(basis: Integers) -> tuple[int, Objects] | None:
    """The positive determinant D and D * inverse, in integers and checked. None if D is zero or too large."""
    floats = basis.astype(np.float64)
    determinant = abs(float(np.linalg.det(floats)))
    if determinant > LARGEST_MODULUS:
        return None
    modulus = round(determinant)
    if not modulus:
        return None
    rounded: Reals = np.rint(np.linalg.inv(floats) * modulus)
    adjugate = rounded.astype(np.int64).astype(object)
    identity = np.eye(len(basis), dtype=np.int64).astype(object) * modulus
    return (modulus, adjugate) if (basis.astype(object) @ adjugate == identity).all() else None


# ---------------------------------------------------------------------------------------------------------------------

Trail = tuple[int, "Trail"] | None

UNREACHABLE = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """The group's elements by number: the target of each move, the remaining cost, each move's order, and the start."""

    next_elements: Integers
    remaining_costs: Integers
    orders: tuple[int, ...]
    start: int


def build_walks(corner: Corner) -> Walks | None:
    """Numbers the elements that moves can reach.

    None if 0 is not among these elements, because then no whole point exists.
    """
    elements, next_elements = _list_elements(corner)
    zero = np.flatnonzero(~elements.any(axis=1))
    if not len(zero):
        return None
    remaining_costs = np.full((len(corner.costs) + 1, len(elements)), UNREACHABLE, dtype=np.int64)
    remaining_costs[-1, zero[0]] = 0
    orders = tuple(_compute_order(step) for step in next_elements)
    for move in reversed(range(len(corner.costs))):
        # Finds the cheapest number of repetitions (0, 1, ..., order - 1) of a move. Each round doubles the covered
        # number.
        least, step, covered = remaining_costs[move + 1], next_elements[move], 1
        while covered < orders[move]:
            moved_costs = least[step]
            least = np.minimum(
                least, np.where(moved_costs >= UNREACHABLE, UNREACHABLE, moved_costs + corner.costs[move] * covered)
            )
            step, covered = step[step], 2 * covered
        remaining_costs[move] = least
    return Walks(next_elements, remaining_costs, orders, 0)


def _list_elements(corner: Corner) -> tuple[Integers, Integers]:
    """Lists all elements that can be reached from the start (number 0), and the element after each move."""
    shifts, shift_numbers = np.unique(corner.shifts % corner.modulus, axis=0, return_inverse=True)
    levels = [(corner.start % corner.modulus)[None, :]]
    numbers = {_make_keys(levels[0])[0]: 0}
    next_elements: list[Integers] = []
    while len(levels[-1]):
        reached_elements = ((levels[-1][:, None] + shifts) % corner.modulus).reshape(-1, shifts.shape[1])
        known_elements = len(numbers)
        places = np.array(
            [numbers.setdefault(key, len(numbers)) for key in _make_keys(reached_elements)], dtype=np.int64
        )
        next_elements.append(places.reshape(len(levels[-1]), len(shifts)))
        distinct, first = np.unique(places, return_index=True)
        levels.append(reached_elements[first[distinct >= known_elements]])
    return np.concatenate(levels), np.concatenate(next_elements).T[shift_numbers.ravel()]


def _make_keys(vectors: Integers) -> Sequence[object]:
    """Encodes each vector as bytes, as a key."""
    whole = np.ascontiguousarray(vectors, dtype=np.int32)
    return whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel().tolist()


def _compute_order(step: Integers) -> int:
    """The number of repetitions that bring a move back to its start. It is the same from every element."""
    place, count = int(step[0]), 1
    while place:
        place, count = int(step[place]), count + 1
    return count


class PartialWalk(NamedTuple):
    """An unfinished walk, in the order of the queue: smallest promised cost first, then the furthest one.

    `depth` falls with every completed move; `element` is reached, `paid` so far, by the moves of `trail`.
    """

    least_cost: int
    depth: int
    ticket: int
    move: int
    element: int
    paid_cost: int
    repeats: int
    trail: Trail


@dataclass(frozen=True, slots=True, eq=False)
class WholePoint:
    """A whole point by its number of buckets of every size (some may be negative), and its loss."""

    buckets: Integers
    loss: int


def generate_whole_points(corner: Corner, walks: Walks) -> Iterator[WholePoint]:
    """Generates all whole points in order of loss; points that differ by slides are generated once."""
    first = PartialWalk(int(walks.remaining_costs[0, walks.start]), 0, 0, 0, walks.start, 0, 0, None)
    queue, tickets = [first], itertools.count(1)
    while queue:
        _, depth, _, move, element, paid_cost, repeats, trail = heapq.heappop(queue)
        if move == len(corner.costs):
            yield _sum_moves(corner, paid_cost, trail)
            continue
        # Go on to the next move ...
        least_cost = paid_cost + int(walks.remaining_costs[move + 1, element])
        steps = [PartialWalk(least_cost, depth - 1, next(tickets), move + 1, element, paid_cost, 0, trail)]
        # ... or repeat this move, unless it costs nothing and would return to its start.
        cost, repeats = corner.costs[move], repeats + 1
        if cost or repeats < walks.orders[move]:
            next_element = int(walks.next_elements[move, element])
            least_cost = paid_cost + cost + int(walks.remaining_costs[move, next_element])
            steps.append(
                PartialWalk(
                    least_cost, depth, next(tickets), move, next_element, paid_cost + cost, repeats, (move, trail)
                )
            )
        for step in steps:
            if step.least_cost < UNREACHABLE:
                heapq.heappush(queue, step)


def _sum_moves(corner: Corner, paid_cost: int, trail: Trail) -> WholePoint:
    """Sums the moves of a walk."""
    scaled = corner.start.copy()
    buckets = np.zeros(corner.extras.shape[1], dtype=np.int64)
    while trail is not None:
        move, trail = trail
        scaled += corner.shifts[move]
        buckets += corner.extras[move]
    buckets[corner.basis] += scaled // corner.modulus
    return WholePoint(buckets, (corner.value + paid_cost) // corner.modulus)


def find_free_directions(corner: Corner, walks: Walks) -> Integers:
    """The whole directions that cost nothing, one for each move that costs nothing."""
    directions = []
    for move, cost in enumerate(corner.costs):
        if cost == 0:
            direction = corner.extras[move] * walks.orders[move]
            direction[corner.basis] += corner.shifts[move] * walks.orders[move] // corner.modulus
            directions.append(direction)
    return np.array(directions, dtype=np.int64).reshape(len(directions), corner.extras.shape[1])
