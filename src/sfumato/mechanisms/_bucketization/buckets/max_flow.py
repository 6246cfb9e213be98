"""A largest flow from values to bucket sizes, in integers.

Value i sends at most supplies[i] records, at most lanes[i, s] of them to size s, and size s takes at most drains[s].
There are few sizes and many values, so a path of the search is a row of sizes: going from one size to the next means
that records move over, whoever's they are. All values are worked on at once, and a search costs one look at the matrix
per size on its way. Paths are shortest first, which bounds their number by the number of sizes alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms._bucketization.buckets.share_caps import Integers

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """What was sent, and the values on the source's side of a smallest cut: none, if everything was sent."""

    sent: Integers
    stuck: Mask


def find_largest_flow(supplies: Integers, lanes: Integers, drains: Integers) -> Flow:
    """Send as much as possible; what is stuck proves that more is impossible."""
    sent = _guess_flow(supplies, lanes, drains)
    while True:
        left, free = supplies - sent.sum(axis=1), drains - sent.sum(axis=0)
        levels, stuck = _find_levels(sent, lanes, left, free)
        if not levels:
            return Flow(sent, stuck)
        _send_along(levels, sent, lanes, left, free)


def _guess_flow(supplies: Integers, lanes: Integers, drains: Integers) -> Integers:
    """Fill the sizes in ascending order: who has no room later gets all, the others even shares of what is left."""
    sent = np.zeros_like(lanes)
    left = supplies.copy()
    later = lanes.sum(axis=1)
    for size in range(lanes.shape[1]):
        later -= lanes[:, size]
        most = np.minimum(left, lanes[:, size])
        must = np.clip(left - later, 0, most)
        sent[:, size] = share_out(int(drains[size]), must)
        rest = int(drains[size] - sent[:, size].sum())
        sent[:, size] += _split_evenly(rest, most - must)
        left -= sent[:, size]
    return sent


def _split_evenly(amount: int, most: Integers) -> Integers:
    """The same part of everybody's most, as nearly as whole numbers allow."""
    upto = np.cumsum(most)
    wanted = int(upto[-1]) if len(upto) else 0
    if wanted <= amount:
        return most
    shared = (upto.astype(object) * amount // wanted).astype(np.int64)  # Python's integers: the product may be long
    shares: Integers = np.diff(shared, prepend=np.int64(0)).astype(np.int64)
    return shares


def share_out(amount: int | Integers, most: Integers) -> Integers:
    """Serve one after the other until the amount is gone; of several rows, each with an amount of its own."""
    before = np.cumsum(most, axis=-1) - most
    served: Integers = np.clip(np.asarray(amount)[..., None] - before, 0, most)
    return served


def _find_levels(sent: Integers, lanes: Integers, left: Integers, free: Integers) -> tuple[list[Integers], Mask]:
    """The sizes by distance from the source, up to one with free room; no levels if none can be reached."""
    values = left > 0
    open_lanes = sent < lanes
    is_reached = np.zeros(len(free), dtype=np.bool_)
    levels: list[Integers] = []
    while True:
        fresh = open_lanes[values].any(axis=0) & ~is_reached
        if not fresh.any():
            return [], values
        levels.append(np.flatnonzero(fresh))
        if (free[fresh] > 0).any():
            return levels, values
        is_reached |= fresh
        values = values | (sent[:, fresh] > 0).any(axis=1)


def _send_along(levels: list[Integers], sent: Integers, lanes: Integers, left: Integers, free: Integers) -> None:
    """Send as much as possible along one path through the levels.

    The path is found backwards: from the last level's size with most free room, each time to where most can move over.
    """
    last = levels[-1]
    path = [int(last[np.argmax(free[last])])]
    for level in reversed(levels[:-1]):
        room = (lanes - sent)[:, path[0]]
        path.insert(0, int(level[np.argmax(np.minimum(sent[:, level], room[:, None]).sum(axis=0))]))
    steps = [np.minimum(left, lanes[:, path[0]] - sent[:, path[0]])]
    for here, there in itertools.pairwise(path):
        steps.append(np.minimum(sent[:, here], lanes[:, there] - sent[:, there]))
    amount = min(int(free[path[-1]]), *(int(step.sum()) for step in steps))
    moved = [share_out(amount, step) for step in steps]
    for place, size in enumerate(path):
        sent[:, size] += moved[place]
        if place + 1 < len(path):
            sent[:, size] -= moved[place + 1]
