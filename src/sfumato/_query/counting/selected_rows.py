"""Finds the rows of a small table that satisfy each of many conditions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Codes, Indices, Mask
from sfumato._query.counting.bitmap_counts import select_records
from sfumato._query.counting.cell_keys import compute_keys, compute_volume
from sfumato._query.counting.cube_counts import group_by_columns
from sfumato._query.counting.record_blocks import Block, BlockMaker
from sfumato._query.counting.shared_conditions import Workload

LARGEST_TABLE = 1 << 22
"""The largest number of combinations of codes that are looked up in a table."""


def find_selected_rows(work: Workload, table: pa.Table, rows: int) -> tuple[Indices, Indices]:
    """For each combination of conditions, the rows that satisfy it.

    The second array has the first position of each combination. Its last item is the number of positions.
    """
    selected: list[Indices] = [np.zeros(0, dtype=np.int64)] * len(work.wheres)
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    block = BlockMaker(work, _read_nothing)(batch) if work.columns else Block(rows, [], {}, _read_nothing(batch))
    lists = {number for number, atom in work.atoms.items() if len(atom.codes) != 1}
    for columns, wheres in group_by_columns(work, range(len(work.wheres))).items():
        shape = tuple(int(block.codes[column].max(initial=0)) + 1 for column in columns)
        if not columns:
            selected[wheres[0]] = np.arange(rows)
        elif compute_volume(shape) > LARGEST_TABLE:
            _select_one_by_one(work, block, wheres, selected)
        else:
            simple = [where for where in wheres if lists.isdisjoint(work.wheres[where])]
            _look_up_rows(work, block, columns, shape, simple, selected)
            _select_one_by_one(work, block, sorted(set(wheres).difference(simple)), selected)
    sizes = np.array([len(part) for part in selected], dtype=np.int64)
    return np.concatenate([np.zeros(0, dtype=np.int64), *selected]), np.append(0, np.cumsum(sizes))


def list_whole_groups(work: Workload, are_selected: Mapping[int, Mask], groups: int) -> tuple[Indices, Indices]:
    """For each combination of conditions, the groups that it selects. The groups of each condition are given.

    A combination selects everybody in a group if each of its conditions does. The second array has the first position
    of each combination. Its last item is the number of positions.
    """
    everything = np.ones(groups, dtype=np.bool_)
    selected = [
        np.flatnonzero(np.logical_and.reduce([everything, *(are_selected[number] for number in where)]))
        for where in work.wheres
    ]
    starts = np.append(0, np.cumsum([len(part) for part in selected])).astype(np.int64)
    return np.concatenate([np.zeros(0, dtype=np.int64), *selected]), starts


def _read_nothing(batch: pa.RecordBatch) -> Codes:
    return np.zeros(batch.num_rows, dtype=np.uint8)


def _select_one_by_one(work: Workload, block: Block, wheres: list[int], selected: list[Indices]) -> None:
    for where in wheres:
        selected[where] = select_records(work, block, where)


def _look_up_rows(  # noqa: PLR0913, PLR0917 - the combinations, the rows, and the place for the result
    work: Workload,
    block: Block,
    columns: tuple[int, ...],
    shape: tuple[int, ...],
    wheres: list[int],
    selected: list[Indices],
) -> None:
    """Finds the rows for combinations of single values in the same columns. It uses a table of all combinations."""
    codes = np.array([[work.atoms[atom].codes[0] for atom in work.wheres[where]] for where in wheres], dtype=np.int64)
    codes = codes.reshape(-1, len(columns))
    occurs = (codes < np.array(shape)).all(axis=1)  # no row has any other combination
    asked = np.ravel_multi_index(tuple(codes[occurs].T), shape)
    table: npt.NDArray[np.int32] = np.full(int(compute_volume(shape)), -1, dtype=np.int32)
    table[asked] = np.arange(len(asked))
    numbers = table.take(compute_keys(block, columns, shape, slice(0, block.rows)))
    chosen = np.flatnonzero(numbers >= 0)
    numbers = numbers[chosen]
    order = np.argsort(numbers.astype(np.min_scalar_type(len(asked))), kind="stable")  # small numbers sort faster
    parts = np.split(chosen[order], np.cumsum(np.bincount(numbers, minlength=len(asked)))[:-1])
    for where, part in zip(np.array(wheres)[occurs].tolist(), parts, strict=False):
        selected[where] = part
