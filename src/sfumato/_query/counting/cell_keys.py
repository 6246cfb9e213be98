"""Combines the codes of a record in several columns into one integer, which is the record's cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from sfumato._core.array_types import Codes, Places
from sfumato._query.counting.record_blocks import Block
from sfumato._query.counting.shared_conditions import Workload

SLICE_ROWS = 1 << 16
"""The number of integers that fit into the cache of a core."""


def compute_volume(shape: Iterable[int]) -> float:
    """The number of cells, as a float that cannot overflow."""
    return math.prod(map(float, shape))


def split_rows(rows: int) -> Iterator[slice]:
    """Splits the rows of a block into slices."""
    return (slice(start, min(start + SLICE_ROWS, rows)) for start in range(0, rows, SLICE_ROWS))


def compute_keys(block: Block, columns: Sequence[int], shape: Sequence[int], rows: slice) -> Codes:
    """The cells of some records, in the narrowest type.

    Operations on equal types use vector instructions.
    """
    kind = np.min_scalar_type(int(compute_volume(shape)) - 1)
    cell_keys = np.zeros(rows.stop - rows.start, dtype=kind)
    for place, (column, size) in enumerate(zip(columns, shape, strict=True)):
        codes = block.codes[column][rows]
        if place == 0:
            cell_keys = codes.astype(kind)
        else:
            cell_keys *= kind.type(size)
            cell_keys += codes if codes.dtype.itemsize <= kind.itemsize else codes.astype(kind)
    return cell_keys


def list_cells(work: Workload, wheres: Sequence[int], shape: Sequence[int]) -> tuple[Places, Places]:
    """The cells of each combination of conditions, and the numbers of these cells.

    Every combination has conditions on all these columns. No condition is a range.
    """
    codes = [[work.atoms[number].codes for number in work.wheres[where]] for where in wheres]
    products = [list(product(*code_lists)) for code_lists in codes]
    combinations = np.array([combined for code_lists in products for combined in code_lists], dtype=np.int64).reshape(
        -1, len(shape)
    )
    sizes = np.array([len(code_lists) for code_lists in products], dtype=np.int64)
    return np.asarray(np.ravel_multi_index(tuple(combinations.T), tuple(shape))), sizes
