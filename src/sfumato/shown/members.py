"""Counting what the records of a release show: members of sets, group by group."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ReleaseFormatError
from sfumato.shown.columns import unpacked
from sfumato.shown.tally import Counts, Floats, Members


def member_counts(batches: Iterable[pa.RecordBatch], groups: int, shown: Members, domain: pa.Array) -> Counts:
    """How many sets of each group hold each value of the domain.

    Each batch has two columns: the number of the group, and the sets as they are published.
    """
    counts, _ = member_sums(batches, (groups, 1), shown, domain)
    return np.asarray(np.rint(counts[:, 0]).astype(np.int64))


def member_sums(
    batches: Iterable[pa.RecordBatch], shape: tuple[int, int], shown: Members, domain: pa.Array
) -> tuple[Floats, Floats]:
    """For each group and weight: the sum of the weights of the sets that hold each value, and of all sets.

    Each batch has the number of the group, the sets, and a column for each weight but the first, which is one.
    """
    groups, width = shape
    sums, rows = np.zeros((groups, width, shown.size)), np.zeros((groups, width))
    for batch in batches:
        numbers = batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64)
        members = membership(batch.column(1), shown, domain)
        weights = [np.ones(len(numbers)), *(each.to_numpy(zero_copy_only=False) for each in batch.columns[2:])]
        for place, weight in enumerate(weights):
            rows[:, place] += weight.sum() if groups == 1 else np.bincount(numbers, weights=weight, minlength=groups)
        _add_members(sums, numbers, members, weights)
    return sums, rows


def _add_members(sums: Floats, numbers: Counts, members: np.ndarray, weights: list[np.ndarray]) -> None:
    """Add the sets of one batch."""
    if len(sums) == 1:
        sums[0, 0] += members.sum(axis=0, dtype=np.int64)
        for place, weight in enumerate(weights[1:], 1):
            sums[0, place] += weight @ members
        return
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    if not len(present):
        return
    ordered = members[order]
    sums[present, 0] += np.add.reduceat(ordered.astype(np.int32), starts, axis=0)
    for place, weight in enumerate(weights[1:], 1):
        sums[present, place] += np.add.reduceat(ordered * weight[order, None], starts, axis=0)


def membership(column: pa.Array, shown: Members, domain: pa.Array) -> np.ndarray:
    """A row of zeros and ones for each set."""
    try:
        if column.null_count or pa.types.is_list(column.type) != shown.as_list:
            raise ValueError("a set is missing, or lists are not bits")
        return _listed(column, domain) if shown.as_list else unpacked(column, shown.size)
    except (pa.ArrowException, ValueError) as error:
        raise ReleaseFormatError(
            "the release holds sets that are not of its domain; get it again from its publisher."
        ) from error


def _listed(column: pa.Array, domain: pa.Array) -> np.ndarray:
    places = pc.index_in(column.flatten().cast(domain.type), domain)
    if places.null_count:
        raise ValueError("a member is outside the domain")
    members = np.zeros((len(column), len(domain)), dtype=np.uint8)
    rows = np.repeat(np.arange(len(column)), pc.list_value_length(column).to_numpy(zero_copy_only=False))
    members[rows, places.to_numpy(zero_copy_only=False)] = 1
    return members
