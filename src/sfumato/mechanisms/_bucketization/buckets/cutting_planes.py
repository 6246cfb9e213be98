"""Makes conditions on the numbers of buckets from sets of values that have too little room.

A vector b of numbers of buckets is valid if and only if it has exactly the records and every set I of values has room:
    sum over sizes of r_S(I) * b_S >= o(I),   r_S(I) = min(S, sum of c_i(S) over I).
There are too many sets to list, but few matter: single values, and mostly the values with the smallest caps. These sets
are tried first, and a smallest cut finds the others.

Notation: rows[k] = r(I_k), needs[k] = o(I_k), sets[k] = I_k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Mask
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.max_flow import find_largest_flow

Reals = npt.NDArray[np.float64]

TOLERANCE = 1e-6
PREFIXES_AT_ONCE = 3
LARGEST_WORD = 2**61


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Rows of the system rows @ buckets >= needs, and the set of values of each."""

    rows: Integers
    needs: Integers
    sets: tuple[Mask, ...]

    def join(self, other: Cuts) -> Cuts:
        """Joins both systems."""
        return Cuts(
            np.concatenate([self.rows, other.rows]), np.concatenate([self.needs, other.needs]), self.sets + other.sets
        )

    def is_met_by(self, buckets: Integers) -> bool:
        """Whether these whole numbers of buckets have room for every set that was found so far."""
        return bool((self.rows @ buckets >= self.needs).all())


def make_cut(problem: Problem, values: Mask) -> Cuts:
    """Makes the condition of one set of values."""
    row = np.minimum(problem.sizes, problem.floors[values].sum(axis=0))
    return Cuts(row[None, :], np.array([problem.counts[values].sum()]), (values,))


def make_single_value_cuts(problem: Problem) -> Cuts:
    """Makes the conditions of single values; of values with the same floors, the most frequent one is enough."""
    order = np.argsort(-problem.counts, kind="stable")
    rows, first = np.unique(problem.floors[order], axis=0, return_index=True)
    most_frequent = order[first]
    masks = tuple(np.arange(len(problem.counts)) == place for place in most_frequent)
    return Cuts(rows, problem.counts[most_frequent], masks)


def find_violated_cuts(problem: Problem, buckets: Reals) -> Cuts | None:
    """Finds sets of values that have too little room in these fractional numbers of buckets. None if all have room."""
    floors_first = np.lexsort((-problem.counts, problem.floors.sum(axis=1)))
    tight_first = np.argsort(problem.floors @ buckets / np.maximum(problem.counts, 1), kind="stable")
    masks = [mask for order in (floors_first, tight_first) for mask in _find_prefixes(problem, buckets, order)]
    if not masks:
        masks = _find_smallest_cut(problem, buckets)
    cuts: Cuts | None = None
    for mask in masks:
        cut = make_cut(problem, mask)
        cuts = cut if cuts is None else cuts.join(cut)
    return cuts


def _find_prefixes(problem: Problem, buckets: Reals, order: Integers) -> list[Mask]:
    """Selects the first values of an order, at the lengths where they lack the most room (worst first)."""
    rows = np.minimum(problem.sizes, np.cumsum(problem.floors[order], axis=0))
    needs = np.cumsum(problem.counts[order])
    lacking = needs - rows @ buckets
    around = np.concatenate([[-np.inf], lacking, [-np.inf]])
    is_extreme = (lacking >= around[:-2]) & (lacking > around[2:]) & (lacking > _compute_slack(needs))
    places = np.flatnonzero(is_extreme)
    worst = places[np.argsort(-lacking[places], kind="stable")][:PREFIXES_AT_ONCE]
    rank = np.argsort(order)
    return [rank <= place for place in worst]


def _find_smallest_cut(problem: Problem, buckets: Reals) -> list[Mask]:
    """Finds the set that lacks the most room, by a flow in integers with scaled and rounded numbers of buckets."""
    scale = 2 ** max(0, (LARGEST_WORD // (problem.total * int(problem.sizes.max()))).bit_length() - 1)
    scale = min(scale, 2**24)
    scaled = np.rint(buckets * scale).astype(np.int64)
    flow = find_largest_flow(problem.counts * scale, problem.floors * scaled, problem.sizes * scaled)
    if not flow.is_stuck.any():
        return []
    cut = make_cut(problem, flow.is_stuck)
    lacking = float(cut.needs[0] - cut.rows[0] @ buckets)
    return [flow.is_stuck] if lacking > _compute_slack(cut.needs)[0] else []


def _compute_slack(needs: Integers) -> Reals:
    """The tolerance for the solver's rounding."""
    return np.asarray(TOLERANCE + 1e-9 * needs, dtype=np.float64)
