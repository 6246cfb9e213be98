"""Finds a largest flow from values to bucket sizes, in integers.

Value i sends at most supplies[i] records, and at most lanes[i, s] of these to size s. Size s takes at most drains[s]
records. There are few sizes and many values, so a path of the search is a sequence of sizes. A step from one size to
the next moves records of any values. All values are processed at once, and a search reads the matrix once for each size
on the path. Shortest paths come first, so the number of paths is bounded by the number of sizes alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """The sent records, and the values on the source's side of a smallest cut (none if everything was sent)."""

    amounts: Integers
    is_stuck: Mask


def find_largest_flow(supplies: Integers, lanes: Integers, drains: Integers) -> Flow:
    """Sends as many records as possible. The remaining records prove that no more can be sent."""
    amounts = _guess_flow(supplies, lanes, drains)
    while True:
        remaining, free = supplies - amounts.sum(axis=1), drains - amounts.sum(axis=0)
        levels, is_stuck = _find_levels(amounts, lanes, remaining, free)
        if not levels:
            return Flow(amounts, is_stuck)
        _send_along(levels, amounts, lanes, remaining, free)


def _guess_flow(supplies: Integers, lanes: Integers, drains: Integers) -> Integers:
    """Fills the sizes in ascending order.

    Values without room in later sizes are sent completely, and the others share the remaining room evenly.
    """
    amounts = np.zeros_like(lanes)
    remaining = supplies.copy()
    later = lanes.sum(axis=1)
    for size in range(lanes.shape[1]):
        later -= lanes[:, size]
        most = np.minimum(remaining, lanes[:, size])
        must = np.clip(remaining - later, 0, most)
        amounts[:, size] = share_out(int(drains[size]), must)
        rest = int(drains[size] - amounts[:, size].sum())
        amounts[:, size] += _split_evenly(rest, most - must)
        remaining -= amounts[:, size]
    return amounts


def _split_evenly(amount: int, most: Integers) -> Integers:
    """Gives every value the same share of its maximum, as nearly as whole numbers allow."""
    upto = np.cumsum(most)
    total_room = int(upto[-1]) if len(upto) else 0
    if total_room <= amount:
        return most
    shared = (upto.astype(object) * amount // total_room).astype(np.int64)  # Python's integers: the product may be long
    shares: Integers = np.diff(shared, prepend=np.int64(0)).astype(np.int64)
    return shares


def share_out(amount: int | Integers, most: Integers) -> Integers:
    """Serves the entries of each row in order, until the amount of the row is used up."""
    before = np.cumsum(most, axis=-1) - most
    served: Integers = np.clip(np.asarray(amount)[..., None] - before, 0, most)
    return served


def _find_levels(
    amounts: Integers, lanes: Integers, remaining: Integers, free: Integers
) -> tuple[list[Integers], Mask]:
    """The sizes by distance from the source, up to one with free room; no levels if none can be reached."""
    values = remaining > 0
    open_lanes = amounts < lanes
    is_reached = np.zeros(len(free), dtype=np.bool_)
    levels: list[Integers] = []
    while True:
        is_new = open_lanes[values].any(axis=0) & ~is_reached
        if not is_new.any():
            return [], values
        levels.append(np.flatnonzero(is_new))
        if (free[is_new] > 0).any():
            return levels, values
        is_reached |= is_new
        values = values | (amounts[:, is_new] > 0).any(axis=1)


def _send_along(
    levels: list[Integers], amounts: Integers, lanes: Integers, remaining: Integers, free: Integers
) -> None:
    """Sends as much as possible along one path through the levels.

    The path is found backwards. It starts at the size of the last level with most free room, and goes each time to the
    size from which most records can move.
    """
    last = levels[-1]
    path = [int(last[np.argmax(free[last])])]
    for level in reversed(levels[:-1]):
        room = (lanes - amounts)[:, path[0]]
        path.insert(0, int(level[np.argmax(np.minimum(amounts[:, level], room[:, None]).sum(axis=0))]))
    steps = [np.minimum(remaining, lanes[:, path[0]] - amounts[:, path[0]])]
    for here, there in itertools.pairwise(path):
        steps.append(np.minimum(amounts[:, here], lanes[:, there] - amounts[:, there]))
    amount = min(int(free[path[-1]]), *(int(step.sum()) for step in steps))
    moved = [share_out(amount, step) for step in steps]
    for place, size in enumerate(path):
        amounts[:, size] += moved[place]
        if place + 1 < len(path):
            amounts[:, size] -= moved[place + 1]
