"""A bucket setting (the number of buckets of each size): its loss, its validity, and its assignment of records.

A setting is valid if and only if its buckets hold exactly the records, and for every set of values
    sum of o_i over the set <= sum over sizes of b_S * min(S, sum of c_i(S) over the set).
This is the cut condition of a flow from values to sizes. So one largest flow decides whether the setting is valid. If
the setting is not valid, the smallest cut is a set of values without room. The condition replaces those of the thesis,
which hold for two sizes only (docs/errata.md).

Source: Wang 2014, Definition 6 and section 3.3 (loss), Lemma 3 (one size), Theorem 1 (two sizes); Gale 1957 for the
rest.
Notation: b_S = buckets of size S, o_i = counts[i], c_i(S) = floors[i, S], IL = information_loss, v_iS = assignment[i,
S].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InternalError
from sfumato.mechanisms._bucketization.buckets.bucket_problem import Problem
from sfumato.mechanisms._bucketization.buckets.cap_rounding import Integers
from sfumato.mechanisms._bucketization.buckets.max_flow import Flow, find_largest_flow


@dataclass(frozen=True, slots=True)
class Setting:
    """Pairs of a bucket size and a positive number of buckets, sizes ascending and distinct."""

    pairs: tuple[tuple[int, int], ...]

    @staticmethod
    def of(pairs: Iterable[tuple[int, int]]) -> Setting:
        """Adds up the buckets of equal size, and leaves out sizes that have no bucket."""
        buckets: dict[int, int] = {}
        for size, count in pairs:
            buckets[int(size)] = buckets.get(int(size), 0) + int(count)
        return Setting(tuple((size, count) for size, count in sorted(buckets.items()) if count))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.pairs)

    @property
    def record_count(self) -> int:
        """The number of records in the buckets."""
        return sum(size * count for size, count in self.pairs)

    @property
    def loss(self) -> int:
        """The sum of (size - 1)² over all buckets."""
        return sum(count * (size - 1) ** 2 for size, count in self.pairs)

    @property
    def information_loss(self) -> float:
        """The loss on a scale from 0 (all values in the clear) to 1 (all records in one bucket)."""
        return math.sqrt(self.loss) / (self.record_count - 1) if self.record_count > 1 else 0.0

    def to_vector(self, problem: Problem) -> Integers:
        """The number of buckets of every size of the problem."""
        return np.array([dict(self.pairs).get(int(size), 0) for size in problem.sizes], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A valid setting, with the number of records of each value (row) in its buckets of each size (column)."""

    setting: Setting
    records: Integers


def make_setting(problem: Problem, buckets: Integers) -> Setting:
    """Reads a vector over the problem's sizes as a setting."""
    return Setting.of(zip(problem.sizes.tolist(), buckets.tolist(), strict=True))


def fill(problem: Problem, buckets: Integers) -> Flow:
    """Sends as many records of every value to the sizes as caps and buckets allow."""
    return find_largest_flow(problem.counts, problem.floors * buckets, problem.sizes * buckets)


def find_blocking_set(problem: Problem, setting: Setting) -> tuple[int, ...]:
    """The indices of values whose records together do not fit into the setting; empty if all records fit."""
    return tuple(np.flatnonzero(fill(problem, setting.to_vector(problem)).is_stuck).tolist())


def is_valid(problem: Problem, setting: Setting) -> bool:
    """Whether the records can be put into exactly these buckets within the caps."""
    allowed_sizes = set(problem.sizes.tolist())
    if setting.record_count != problem.total or not all(size in allowed_sizes for size, _ in setting):
        return False
    return not find_blocking_set(problem, setting)


def assign(problem: Problem, setting: Setting) -> Assignment:
    """Divides the records of every value among the sizes of a valid setting."""
    buckets = setting.to_vector(problem)
    flow = fill(problem, buckets)
    if flow.is_stuck.any() or setting.record_count != problem.total:
        raise InternalError(
            "the records do not fit into the chosen bucket setting; please report this.", code="records-do-not-fit"
        )
    return Assignment(setting, flow.amounts[:, buckets > 0])
