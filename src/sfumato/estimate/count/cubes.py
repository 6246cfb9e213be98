"""Counting by cubes: the records of all combinations of some columns, and what they show, counted at once.

A cube costs the same however many queries it answers. Columns that are asked about together are put into one cube as
long as it stays small; a cube is made only if the bitmaps that it saves would take longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from sfumato.arrays import Counts
from sfumato.estimate.count.blocks import Block
from sfumato.estimate.count.workload import Workload

LARGEST_CUBE = 1 << 19
"""The cells up to which columns are put together in a cube, symbols included."""
MOST_CELLS = 1 << 25
"""The cells of all cubes: 256 MiB."""
MOST_CELLS_READ = 64
"""A combination of longer lists than this is left to the bitmaps."""

# Measured on one core, in nanoseconds; only their ratios matter.
CELL, RECORD, RECORD_AND_COLUMN = 2.5, 2.5, 1.2
COMBINATION, WORD, WORD_AND_CONDITION = 4000.0, 1.2, 0.5


@dataclass(frozen=True, eq=False)
class Cube:
    """Some columns, the combinations of conditions that it answers, and its counts: symbols first, then the columns."""

    columns: tuple[int, ...]
    shape: tuple[int, ...]
    wheres: Sequence[int]
    counts: Counts = field(repr=False)

    def counted(self, block: Block) -> Counts:
        """How many records of a block are in each cell."""
        keys = block.shown.astype(np.int64)
        for column, size in zip(self.columns, self.shape[1:], strict=True):
            keys *= size
            keys += block.codes[column]
        return np.bincount(keys, minlength=self.counts.size)

    def answers(self, work: Workload) -> Iterator[tuple[list[int], Counts]]:
        """For the combinations of each set of columns: how many of their records show each symbol."""
        margins: dict[tuple[int, ...], Counts] = {self.columns: self.counts}
        grouped = by_columns(work, self.wheres)
        lists = {number for number, atom in work.atoms.items() if len(atom.codes) != 1}
        for columns in sorted(grouped, key=len, reverse=True):
            margin = margins[columns] = _margin(margins, columns)
            simple = [where for where in grouped[columns] if lists.isdisjoint(work.wheres[where])]
            codes = [[work.atoms[atom].codes[0] for atom in work.wheres[where]] for where in simple]
            if simple:
                yield simple, margin[:, *np.array(codes, dtype=np.int64).T].T
            for where in sorted(set(grouped[columns]) - set(simple)):
                codes_of = [work.atoms[atom].codes for atom in work.wheres[where]]
                cells = np.array(list(product(*codes_of)), dtype=np.int64).reshape(-1, len(columns)).T
                yield [where], margin[:, *cells].sum(axis=1)[np.newaxis]


def _margin(margins: Mapping[tuple[int, ...], Counts], columns: tuple[int, ...]) -> Counts:
    """The counts by fewer columns, added up from the smallest counts that have them."""
    source = min((each for each in margins if set(columns) <= set(each)), key=lambda each: margins[each].size)
    others = tuple(1 + place for place, column in enumerate(source) if column not in columns)
    return margins[source].sum(axis=others) if others else margins[source]


def by_columns(work: Workload, wheres: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
    """Combinations by the columns that they name, in the order of the columns."""
    grouped: dict[tuple[int, ...], list[int]] = {}
    for where in wheres:
        grouped.setdefault(work.columns_of(where), []).append(where)
    return grouped


def _is_short(work: Workload, where: int) -> bool:
    """Whether a combination of lists has no range, and few cells to add up."""
    atoms = [work.atoms[number] for number in work.wheres[where]]
    return all(atom.range is None for atom in atoms) and _volume(len(atom.codes) for atom in atoms) <= MOST_CELLS_READ


def chosen(work: Workload, wheres: Sequence[int], symbols: int, rows: int) -> tuple[list[Cube], list[int]]:
    """The cubes that are worth making, and the combinations that are left to the bitmaps."""
    lists = {number for number, atom in work.atoms.items() if len(atom.codes) != 1}
    left = [where for where in wheres if not lists.isdisjoint(work.wheres[where]) and not _is_short(work, where)]
    grouped = by_columns(work, sorted(set(wheres).difference(left)))
    cubes: list[Cube] = []
    room = float(MOST_CELLS)
    for columns, served in _covers(work, grouped, symbols):
        mine = [where for each in served for where in grouped[each]]
        shape = (symbols, *(work.columns[column].size for column in columns))
        saved = sum(len(grouped[each]) * _bitmap_cost(len(each), rows) for each in served)
        if _volume(shape) <= room and _cube_cost(shape, rows) < saved:
            cubes.append(Cube(columns, shape, mine, np.zeros(shape, dtype=np.int64)))
            room -= _volume(shape)
        else:
            left += mine
    return cubes, sorted(left)


def _volume(shape: Iterable[int]) -> float:
    """The number of cells, as a number that cannot overflow."""
    return math.prod(map(float, shape))


def _covers(
    work: Workload, grouped: Mapping[tuple[int, ...], Sequence[int]], symbols: int
) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Sets of columns whose cubes stay small, and the combinations of columns that each of them answers."""
    sizes = [column.size for column in work.columns]

    def cells(columns: frozenset[int]) -> float:
        return symbols * _volume(sizes[column] for column in columns)

    covers: list[tuple[frozenset[int], list[tuple[int, ...]]]] = []
    for columns in sorted(grouped, key=lambda each: (cells(frozenset(each)), each)):
        wanted = frozenset(columns)
        fitting = [place for place, (union, _) in enumerate(covers) if cells(union | wanted) <= LARGEST_CUBE]
        if fitting:
            place = min(fitting, key=lambda each: cells(covers[each][0] | wanted))
            covers[place] = (covers[place][0] | wanted, [*covers[place][1], columns])
        elif cells(wanted) <= LARGEST_CUBE:
            covers.append((wanted, [columns]))
    served = {each for _, several in covers for each in several}
    alone = [(each, [each]) for each in grouped if each not in served]
    return [(tuple(sorted(union)), several) for union, several in covers] + alone


def _cube_cost(shape: Sequence[int], rows: int) -> float:
    """The time to count the records of a block by all cells."""
    return CELL * _volume(shape) + rows * (RECORD + RECORD_AND_COLUMN * (len(shape) - 1))


def _bitmap_cost(conditions: int, rows: int) -> float:
    """The time to count the records of a block that satisfy one combination."""
    return COMBINATION + rows / 64 * (WORD + WORD_AND_CONDITION * (conditions - 1))
