"""Counts by cubes. A cube counts the symbols of all combinations of some columns in one pass.

A cube costs the same for any number of queries, and also answers queries on some of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from sfumato._core.array_types import Counts
from sfumato._query.counting.cell_keys import compute_keys, compute_volume, split_rows
from sfumato._query.counting.record_blocks import Block
from sfumato._query.counting.shared_conditions import Workload


class Cube:
    """Some columns, with the combinations of conditions that the cube answers.

    Cells are ordered by columns, then symbols.
    """

    def __init__(self, columns: tuple[int, ...], shape: tuple[int, ...], wheres: Sequence[int], symbols: int) -> None:
        self.columns, self.shape, self.wheres, self.symbols = columns, shape, wheres, symbols
        self.size = int(compute_volume(shape)) * symbols

    def count(self, block: Block) -> Counts:
        """The number of records of a block in each cell."""
        cell_keys, kind = np.empty(block.rows, dtype=np.int64), np.min_scalar_type(self.size)
        for rows in split_rows(block.rows):
            cells = compute_keys(block, self.columns, self.shape, rows).astype(kind)
            cells *= kind.type(self.symbols)
            cells += block.published_codes[rows].astype(kind)
            cell_keys[rows] = cells
        return np.bincount(cell_keys, minlength=self.size)

    def iter_counts(self, work: Workload, cell_counts: Counts) -> Iterator[tuple[Sequence[int], Counts]]:
        """Yields the combinations of each column set with the symbol counts of their records."""
        margins: dict[tuple[int, ...], Counts] = {self.columns: cell_counts.reshape(*self.shape, self.symbols)}
        grouped = group_by_columns(work, self.wheres)
        lists = {number for number, atom in work.atoms.items() if len(atom.codes) != 1}
        for columns in sorted(grouped, key=len, reverse=True):
            margin = margins[columns] = _compute_margin(margins, columns)
            simple = [where for where in grouped[columns] if lists.isdisjoint(work.wheres[where])]
            codes = [[work.atoms[atom].codes[0] for atom in work.wheres[where]] for where in simple]
            if simple:
                yield simple, margin[tuple(np.array(codes, dtype=np.int64).T)]
            for where in sorted(set(grouped[columns]) - set(simple)):
                codes_of = [work.atoms[atom].codes for atom in work.wheres[where]]
                cells = np.array(list(product(*codes_of)), dtype=np.int64).reshape(-1, len(columns)).T
                yield [where], margin[tuple(cells)].sum(axis=0)[np.newaxis]


def _compute_margin(margins: Mapping[tuple[int, ...], Counts], columns: tuple[int, ...]) -> Counts:
    """The counts by fewer columns, summed from the smallest cube that contains these columns."""
    source = min(
        (margin_columns for margin_columns in margins if set(columns) <= set(margin_columns)),
        key=lambda margin_columns: margins[margin_columns].size,
    )
    others = tuple(place for place, column in enumerate(source) if column not in columns)
    return margins[source].sum(axis=others) if others else margins[source]


def group_by_columns(work: Workload, wheres: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
    """Groups combinations by the columns that they name, in column order."""
    grouped: dict[tuple[int, ...], list[int]] = {}
    for where in wheres:
        grouped.setdefault(work.list_columns(where), []).append(where)
    return grouped
