"""Beliefs made as right as they are strong: what was believed of some people says how far to trust it of others.

Naive Bayes is too sure of itself where columns repeat each other. How often beliefs of each strength are right is a
rising line, fitted to one half of the people and used for the other, so that nobody's own value decides about him.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import Floats, Mask, Places
from sfumato._risk.attackers.planned_exposure import Target

MOST_STEPS = 200
LEAST_RIGHT_GUESSES = 20.0
"""So many right beliefs are expected at a step on average: fewer would be right by chance."""
SMALLEST_RISE = 1e-9
"""How much a level line rises all the same, so that a likelier value stays likelier."""

BeliefFunction = Callable[[Places], Floats]
"""What is believed of some records: a row each, which adds up to 1."""


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """How often beliefs are right, by how strong they are: a rising line through some points."""

    belief_points: Floats
    success_points: Floats

    @classmethod
    def fit(cls, beliefs: Floats, is_right: Mask) -> IsotonicCurve:
        """The line nearest to what was right, by steps; weak beliefs are many, and have most of the steps."""
        order = np.argsort(beliefs, axis=None, kind="stable")
        sums = np.cumsum(np.sqrt(beliefs.ravel()[order]))
        steps = int(np.clip(beliefs.sum() / LEAST_RIGHT_GUESSES, 1, MOST_STEPS))
        step = np.minimum((sums * (steps / sums[-1])).astype(np.int64), steps - 1)
        parts = [np.ones(beliefs.size), beliefs.ravel(), is_right.ravel().astype(np.float64)]
        sums_of = [np.bincount(step, weights=part[order]).astype(np.float64) for part in parts]
        sizes, belief_sums, right_sums = pool_steps(*sums_of)
        ends = [0.0, 1.0 + SMALLEST_RISE]
        return cls(
            np.concatenate([ends[:1], belief_sums / sizes, ends[1:]]),
            np.concatenate([[0.0], right_sums / sizes, [right_sums[-1] / sizes[-1] + SMALLEST_RISE]]),
        )

    def __call__(self, beliefs: Floats) -> Floats:
        """How far beliefs may be trusted; rows add up to 1 again."""
        calibrated_beliefs = np.interp(beliefs, self.belief_points, self.success_points) + SMALLEST_RISE * beliefs
        return np.asarray(calibrated_beliefs / calibrated_beliefs.sum(axis=1, keepdims=True))


def pool_steps(sizes: Floats, *sums: Floats) -> Floats:
    """Steps put together until the means of the last sums rise: sizes and sums of each, in rows.

    Neighbours that fall are pooled until none does (the pool adjacent violators of Ayer and others 1955).
    """
    pools: list[Floats] = []
    for step in np.stack([sizes, *sums])[:, sizes > 0].T:
        pool = step
        while pools and pools[-1][-1] * pool[0] >= pool[-1] * pools[-1][0]:
            pool = pools.pop() + pool
        pools.append(pool)
    return np.array(pools).T


def calibrate_beliefs(target: Target, compute_beliefs: BeliefFunction, rows: Places) -> BeliefFunction:
    """The same beliefs, those of each half of some people as far as they were right of the other half."""
    is_first, lines = target.is_first, []
    for others in (rows[~is_first[rows]], rows[is_first[rows]]):
        if not len(others):
            return compute_beliefs
        beliefs = compute_beliefs(others)
        lines.append(IsotonicCurve.fit(beliefs, target.true_codes[others][:, np.newaxis] == np.arange(target.size)))

    def compute_calibrated(selected_rows: Places) -> Floats:
        beliefs = compute_beliefs(selected_rows)
        for is_in_half, line in zip((is_first[selected_rows], ~is_first[selected_rows]), lines, strict=True):
            beliefs[is_in_half] = line(beliefs[is_in_half])
        return beliefs

    return compute_calibrated
