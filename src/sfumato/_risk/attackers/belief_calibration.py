"""Calibrates the beliefs of an attacker who knows all public columns, so that guesses are correct as often as expected.

Naive Bayes is overconfident where columns are correlated. The success rate is a rising function of the strength of a
belief. It is fitted to one half of the people and used for the other half, so no person's own value is used for that
person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats, Mask, Places
from sfumato._risk.attackers.attack_target import Target

MOST_STEPS = 200
LEAST_RIGHT_GUESSES = 20.0
"""The average number of correct beliefs that are expected at a step. With fewer, chance dominates."""
SMALLEST_RISE = 1e-9
"""The slope of a level line. It keeps a more likely value more likely."""

BeliefFunction = Callable[[Places], Floats]
"""The beliefs about some records, one row for each record, with the sum 1."""


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """The success rate of beliefs by their strength, as a rising line through some points."""

    belief_points: Floats
    success_points: Floats

    @classmethod
    def fit(cls, beliefs: Floats, is_right: Mask) -> IsotonicCurve:
        """Fits the line in steps. Most steps are for weak beliefs, because there are many of these."""
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
        """The calibrated beliefs. Rows again have the sum 1."""
        calibrated_beliefs = np.interp(beliefs, self.belief_points, self.success_points) + SMALLEST_RISE * beliefs
        return np.asarray(calibrated_beliefs / calibrated_beliefs.sum(axis=1, keepdims=True))


def pool_steps(sizes: Floats, *sums: Floats) -> Floats:
    """Pools steps until the means of the last sums rise. Returns the sizes and the sums of the steps in rows.

    Neighbours with falling means are pooled until there are none (the pool adjacent violators algorithm of Ayer and
    others 1955).
    """
    pools: list[Floats] = []
    for step in np.stack([sizes, *sums])[:, sizes > 0].T:
        pool = step
        while pools and pools[-1][-1] * pool[0] >= pool[-1] * pools[-1][0]:
            pool = pools.pop() + pool
        pools.append(pool)
    return np.array(pools).T


def calibrate_beliefs(target: Target, compute_beliefs: BeliefFunction, rows: Places) -> BeliefFunction:
    """Calibrates the beliefs of each half of the people by the success in the other half."""
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


def learn_all_columns(target: Target, rows: Places) -> BeliefFunction:
    """The calibrated beliefs of an attacker who knows all public columns. They are the same for every mechanism."""
    key = rows.tobytes()
    if key not in target.belief_cache:
        target.belief_cache[key] = calibrate_beliefs(target, target.learn_across_halves(tuple(target.columns)), rows)
    return target.belief_cache[key]
