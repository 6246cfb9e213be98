"""Buckets of many sizes by splitting in two again and again; a comparison for `optimal`, which is better and as fast.

Source: Wang 2014, Programs 5.1 and 6.1, repaired as in the errata: the leaves' settings are united, and a first split
must exist. The thesis leaves open in which order records move between parts, and the result depends on it; here it is
the order of the values.
Notation: T1, T2 = the records of the two sizes; a_i2 = min(c_i(S2) b2, o_i).
"""

from __future__ import annotations

import numpy as np

from sfumato.mechanisms.buckets.caps import Integers
from sfumato.mechanisms.buckets.problem import Blocked, Problem
from sfumato.mechanisms.buckets.setting import Setting
from sfumato.mechanisms.buckets.two_sizes import two_sizes


def top_down(problem: Problem) -> Setting:
    """Split the best two sizes further while a part gains by it."""
    return Setting.of(_refined(problem, two_sizes(problem)))


def _refined(problem: Problem, setting: Setting) -> list[tuple[int, int]]:
    """Divide the records among the sizes, and split each part that gains by it."""
    leaves: list[tuple[int, int]] = []
    for (size, count), part in zip(setting, _parts(problem, setting), strict=True):
        leaf = Setting.of([(size, count)])
        finer = _finer(part, leaf)
        leaves += leaf.pairs if finer is None else _refined(part, finer)
    return leaves


def _finer(part: Problem, leaf: Setting) -> Setting | None:
    """A setting of two sizes that loses less than buckets of one."""
    try:
        split = two_sizes(part)
    except Blocked:
        return None
    return split if split.loss < leaf.loss else None


def _parts(problem: Problem, setting: Setting) -> list[Problem]:
    """The records of each size of a setting of one or two sizes."""
    if len(setting.pairs) == 1:
        return [problem]
    second = _second_part(problem, setting)
    return [problem.part(problem.counts - second), problem.part(second)]


def _second_part(problem: Problem, setting: Setting) -> Integers:
    """Program 5.1: what has no room in the first size goes to the second, then values in order until it is full."""
    (small, first), (large, second) = setting.pairs
    columns = np.searchsorted(problem.sizes, [small, large])
    room = problem.floors[:, columns] * np.array([first, second])
    moved = np.maximum(problem.counts - room[:, 0], 0)
    further = np.minimum(room[:, 1], problem.counts) - moved
    before = np.cumsum(further) - further
    extra: Integers = np.clip(large * second - int(moved.sum()) - before, 0, further)
    second_part: Integers = moved + extra
    return second_part
