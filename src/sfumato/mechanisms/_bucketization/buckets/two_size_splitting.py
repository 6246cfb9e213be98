"""Makes buckets of many sizes by repeated splits into two sizes.

This method serves for comparison only. The method `optimal` is better and as fast.

Source: Wang 2014, Programs 5.1 and 6.1, repaired as docs/errata.md says: the leaves' settings are united, and a first
split must exist. The thesis leaves open in which order records move between parts, and the result depends on it; here
it is the order of the values.
Notation: T1, T2 = the records of the two sizes; a_i2 = min(c_i(S2) b2, o_i).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.max_flow import share_out
from sfumato.mechanisms._bucketization.buckets.two_sizes import find_best_two_sizes

Part = tuple[Problem, Setting]
"""Some of the records, in buckets of one size."""


def split_top_down(problem: Problem) -> Setting:
    """Starts with the best two sizes, and splits a part further as long as this lowers its loss."""
    *_, last = generate_rounds(problem)
    return last


def generate_rounds(problem: Problem) -> Iterator[Setting]:
    """Generates the best two sizes and the results of splitting them, until no split lowers the loss."""
    leaves: list[Setting] = []
    open_parts = _divide_records(problem, find_best_two_sizes(problem))
    while open_parts:
        yield Setting.of(pair for setting in [*leaves, *(part for _, part in open_parts)] for pair in setting)
        split = [(setting, _split(part, setting)) for part, setting in open_parts]
        leaves += [setting for setting, parts in split if not parts]
        open_parts = [part for _, parts in split for part in parts]


def _split(problem: Problem, setting: Setting) -> list[Part]:
    """Splits some records into two parts with a smaller loss; returns nothing if no split has a smaller loss."""
    try:
        finer = find_best_two_sizes(problem)
    except NoBucketingError:
        return []
    return _divide_records(problem, finer) if finer.loss < setting.loss else []


def _divide_records(problem: Problem, setting: Setting) -> list[Part]:
    """The records of each size."""
    if len(setting.pairs) == 1:
        return [(problem, setting)]
    second = fill_second_part(problem, setting)
    parts = [problem.counts - second, second]
    return [(problem.replace_counts(part), Setting.of([pair])) for part, pair in zip(parts, setting, strict=True)]


def fill_second_part(problem: Problem, setting: Setting) -> Integers:
    """Program 5.1: records without room in the first size go to the second size.

    Then values follow in order until the second size is full.
    """
    (small, first), (large, second) = setting.pairs
    columns = np.searchsorted(problem.sizes, [small, large])
    room = problem.floors[:, columns] * np.array([first, second])
    moved = np.maximum(problem.counts - room[:, 0], 0)
    further = np.minimum(room[:, 1], problem.counts) - moved
    records: Integers = moved + share_out(large * second - int(moved.sum()), further)
    return records
