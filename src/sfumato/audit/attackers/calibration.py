"""Beliefs made as right as they are strong: what was believed of some people says how far to trust it of others.

Naive Bayes is too sure of itself where columns repeat each other. How often beliefs of each strength are right is a
rising line, fitted to one half of the people and used for the other, so that nobody's own value decides about him.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats, Mask, Places
from sfumato.audit.attackers.exposure import Target

MOST_STEPS = 200
LEAST_RIGHT = 20.0
"""So many right beliefs are expected at each step: fewer would be right by chance."""
BARELY = 1e-9
"""How much a level line rises all the same, so that a likelier value stays likelier."""

Believing = Callable[[Places], Floats]
"""What is believed of some records: a row each, which adds up to 1."""


@dataclass(frozen=True, eq=False)
class Isotonic:
    """How often beliefs are right, by how strong they are: a rising line through some points."""

    believed: Floats
    right: Floats

    @classmethod
    def fitted(cls, beliefs: Floats, is_right: Mask) -> Isotonic:
        """The line nearest to what was right; steps of equally much belief, of which those that fall are put together.

        Neighbours that fall are pooled until none does (the pool adjacent violators of Ayer and others 1955).
        """
        order = np.argsort(beliefs, axis=None, kind="stable")
        sums = np.cumsum(beliefs.ravel()[order])
        steps = int(np.clip(sums[-1] / LEAST_RIGHT, 1, MOST_STEPS))
        step = np.minimum((sums * (steps / sums[-1])).astype(np.int64), steps - 1)
        many = np.bincount(step).astype(np.float64)
        parts = np.stack(
            [np.bincount(step, weights=each.ravel()[order]) for each in (beliefs, is_right.astype(np.float64))]
        )
        pools: list[tuple[float, float, float]] = []
        for size, believed, right in zip(many[many > 0], *parts[:, many > 0], strict=True):
            pool = (size, believed, right)
            while pools and pools[-1][2] * pool[0] >= pool[2] * pools[-1][0]:
                last = pools.pop()
                pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
            pools.append(pool)
        sizes, believed_sums, right_sums = np.array(pools).T
        believed, right = believed_sums / sizes, right_sums / sizes
        last = right[-1] + max((1 - right[-1]) * BARELY, BARELY)
        return cls(np.concatenate([[0.0], believed, [1.0 + BARELY]]), np.concatenate([[0.0], right, [last]]))

    def __call__(self, beliefs: Floats) -> Floats:
        """How far beliefs may be trusted; rows add up to 1 again."""
        trusted = np.interp(beliefs, self.believed, self.right) + BARELY * beliefs
        return np.asarray(trusted / trusted.sum(axis=1, keepdims=True))


def calibrated(target: Target, believing: Believing, rows: Places) -> Believing:
    """The same beliefs, those of each half of some people as far as they were right of the other half."""
    is_first, lines = target.is_first, []
    for others in (rows[~is_first[rows]], rows[is_first[rows]]):
        if not len(others):
            return believing
        beliefs = believing(others)
        lines.append(Isotonic.fitted(beliefs, target.held[others][:, np.newaxis] == np.arange(target.size)))

    def believed(wanted: Places) -> Floats:
        beliefs = believing(wanted)
        for which, line in zip((is_first[wanted], ~is_first[wanted]), lines, strict=True):
            beliefs[which] = line(beliefs[which])
        return beliefs

    return believed
