"""The thesis' own integer programme for buckets of many sizes: a variable for each value and size.

It is solved by HiGHS in floating point within a time limit. What comes back is measured, not trusted: `optimal` proves
its answer in integers, and HiGHS was seen to call a setting optimal that is not.

Source: Wang 2014, section 6.1; u_ij = c_i(S_j) b_j is linear in b_j, and not a constant as printed
(docs/errata.md).
Notation: v_ij = records of value i in buckets of size S_j, b_j = buckets of that size, o_i = counts[i], c_i(S_j) =
floors[i, j], n = number of sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, eye_array, hstack, kron

from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting, make_setting

OPTIMAL, INFEASIBLE = 0, 2  # status codes of scipy.optimize.milp


@dataclass(frozen=True, slots=True)
class SolverResult:
    """The best setting that was found, a bound that the solver claims, and whether it ended before the limit."""

    setting: Setting | None
    bound: float
    is_finished: bool

    @property
    def loss(self) -> int | None:
        """The loss of the setting; None if there is none."""
        return None if self.setting is None else self.setting.loss

    @property
    def gap(self) -> float:
        """How far the bound may be below the loss, as a share of the loss."""
        return np.inf if self.setting is None else max(0.0, 1 - self.bound / max(self.setting.loss, 1))


def solve(problem: Problem, *, seconds: float, whole_records: bool = True) -> SolverResult:
    """Ask for the assignment of least loss; the variables are b_1..b_n, then v_11, v_12, ... value by value.

    The thesis wants v_ij whole. That is needless: whole b_j leave a transport problem, whose corners are whole.
    """
    values, sizes = problem.floors.shape
    if not sizes:
        return SolverResult(None, np.inf, is_finished=True)
    weights = np.concatenate([(problem.sizes - 1) ** 2, np.zeros(values * sizes)])
    integrality = np.full(len(weights), int(whole_records))
    integrality[:sizes] = 1
    result = milp(
        weights,
        integrality=integrality,
        bounds=Bounds(0, np.inf),
        constraints=_make_constraints(problem),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = -np.inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
    if result.x is None:
        return SolverResult(None, bound, result.status == INFEASIBLE)
    setting = make_setting(problem, np.rint(result.x[:sizes]).astype(np.int64))
    return SolverResult(setting, bound, result.status == OPTIMAL)


def _make_constraints(problem: Problem) -> list[LinearConstraint]:
    """Every record has a place, every bucket is full, and no value exceeds its cap; so the sizes hold all records."""
    values, sizes = problem.floors.shape
    cells = values * sizes
    by_value = kron(eye_array(values), np.ones((1, sizes)))
    by_size = kron(np.ones((1, values)), eye_array(sizes))
    size_of = (np.arange(cells), np.tile(np.arange(sizes), values))
    room = coo_array((problem.floors.ravel().astype(np.float64), size_of), shape=(cells, sizes))
    whole = coo_array(np.concatenate([problem.sizes, np.zeros(cells)])[None, :])
    return [
        LinearConstraint(hstack([coo_array((values, sizes)), by_value], format="csr"), problem.counts, problem.counts),
        LinearConstraint(hstack([coo_array(np.diag(-problem.sizes)), by_size], format="csr"), 0, 0),
        LinearConstraint(hstack([-room, eye_array(cells)], format="csr"), -np.inf, 0),
        LinearConstraint(whole.tocsr(), problem.total, problem.total),
    ]
