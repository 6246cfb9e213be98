"""Buckets of many sizes by splitting in two again and again; a comparison for `optimal`, which is better and as fast.

Source: Wang 2014, Programs 5.1 and 6.1, repaired as docs/errata.md says: the leaves' settings are united, and a first
split must exist. The thesis leaves open in which order records move between parts, and the result depends on it;
here it is the order of the values.
Notation: T1, T2 = the records of the two sizes; a_i2 = min(c_i(S2) b2, o_i).
"""

from __future__ import annotations

import numpy as np

from sfumato.mechanisms.buckets.caps import Integers
from sfumato.mechanisms.buckets.flow import share_out
from sfumato.mechanisms.buckets.problem import Blocked, Problem
from sfumato.mechanisms.buckets.setting import Setting
from sfumato.mechanisms.buckets.two_sizes import two_sizes


def top_down(problem: Problem) -> Setting:
    """Split the best two sizes further while a part gains by it."""
    return Setting.of(_refined(problem, two_sizes(problem)))


def _refined(problem: Problem, setting: Setting) -> list[tuple[int, int]]:
    """Divide the records among the sizes, and split each part that gains by it."""
    parts = [problem]
    if len(setting.pairs) > 1:
        second = _second_part(problem, setting)
        parts = [problem.part(problem.counts - second), problem.part(second)]
    leaves: list[tuple[int, int]] = []
    for pair, part in zip(setting, parts, strict=True):
        leaf = Setting.of([pair])
        try:
            finer = two_sizes(part)
        except Blocked:
            finer = leaf
        leaves += _refined(part, finer) if finer.loss < leaf.loss else leaf.pairs
    return leaves


def _second_part(problem: Problem, setting: Setting) -> Integers:
    """Program 5.1: what has no room in the first size goes to the second, then values in order until it is full."""
    (small, first), (large, second) = setting.pairs
    columns = np.searchsorted(problem.sizes, [small, large])
    room = problem.floors[:, columns] * np.array([first, second])
    moved = np.maximum(problem.counts - room[:, 0], 0)
    further = np.minimum(room[:, 1], problem.counts) - moved
    second_part: Integers = moved + share_out(large * second - int(moved.sum()), further)
    return second_part
