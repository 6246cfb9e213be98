"""The best whole numbers of buckets near a corner of the relaxation, listed in order of loss.

At a corner, some sizes (the basis) are fixed by as many tight conditions: B x = rhs. Every other point is reached by
moves: one bucket more of a size outside the basis, or one record more of room than a tight condition asks for. Each
move costs a known non-negative amount and shifts D x, D = |det B|, by a known whole vector. So x is whole if and only
if the moves together bring D x to 0 modulo D: a walk in a finite group of at most D elements. Shortest walks in it are
exact costs to go, and a best-first search with them lists all whole points in order of loss. The first that is valid is
the optimum.

The corner comes from a float solver. Its inverse is rounded to integers and checked as B * adjugate = D * 1, and all
costs are checked to be non-negative, in integers. If a check fails there is no corner, and others have to do the work.

Source: Gomory 1969, "Some polyhedra related to combinatorial problems".
Notation: B = basis matrix, D = modulus, adj = D * inverse(B) = adjugate, y = prices, all costs are in units of 1/D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.capacity_cuts import Cuts, Reals
from sfumato.mechanisms._bucketization.buckets.relaxation import Point, compute_bucket_losses
from sfumato.mechanisms._bucketization.buckets.share_caps import Integers

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
    """The corner that the solver stopped at, checked in integers; None if it is too large or does not check out."""
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
    # In Python's integers, which do not overflow: price all moves, and look whether the vectors fit into words.
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
    """Rows and columns of a basis: those in use, completed by tight rows or by sizes of zero reduced cost."""
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
    """Add rows that are independent of the chosen ones, up to the wanted number."""
    for candidate in candidates:
        if len(rows) >= row_count:
            break
        extended_rows = np.append(rows, candidate)
        if np.linalg.matrix_rank(matrix[extended_rows].astype(np.float64)) == len(extended_rows):
            rows = extended_rows
    return rows


def _compute_adjugate(basis: Integers) -> tuple[int, Objects] | None:
    """The positive determinant D and D * inverse, in integers and checked; None if there is none of a good size."""
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
