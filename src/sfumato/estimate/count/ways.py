"""Which way counts which combinations of conditions: cubes, tables of cells, or bitmaps; whichever takes least time.

A cube costs the same however many queries it answers, so columns that are asked about together are put into one as long
as it stays small. Where one set of columns has many combinations but no cube is worth it, a table says which of its
cells are asked about; where several sets of columns with such tables share two columns, records are first chosen by
these. All others, and ranges and long lists always, are left to the bitmaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sfumato.estimate.count.asked import AskedCells, SharedPair, pairs_of
from sfumato.estimate.count.bitmaps import FEW
from sfumato.estimate.count.blocks import Block
from sfumato.estimate.count.cubes import Cube, by_columns
from sfumato.estimate.count.keys import volume
from sfumato.estimate.count.workload import Workload

LARGEST_CUBE = 1 << 20
"""The cells up to which columns are put together in a cube, symbols included."""
MOST_CELLS = 1 << 25
"""The cells of all cubes: 256 MiB."""
LARGEST_TABLE = 1 << 22
"""The cells of a table."""
MOST_CELLS_READ = 64
"""A combination of longer lists than this is left to the bitmaps."""

# Measured on one core, in nanoseconds; only their ratios matter.
CELL, RECORD, RECORD_AND_COLUMN = 2.0, 2.2, 0.15
ASKED, TABLE_CELL, CHOSEN = 1.1, 1e-6, 6.0
COMBINATION, WORD, WORD_AND_CONDITION = 4000.0, 1.2, 0.5
TAKEN = 2.0
BITMAPS, BITMAP = 15.0, 0.06
"""For each record, before the first combination is counted; and for each condition."""

Columns = tuple[int, ...]
Pair = tuple[int, int]
Way = Cube | AskedCells | SharedPair


@dataclass(frozen=True, eq=False)
class ChosenWays:
    """The ways that are worth it, and the combinations that are left to the bitmaps."""

    ways: Sequence[Way]
    left: Sequence[int]
    sizes: Sequence[int]
    """The codes of each column that cubes and tables have room for."""

    def holds(self, block: Block) -> bool:
        """Whether there is room for all codes of a block."""
        return all(codes.max(initial=0) < size for codes, size in zip(block.codes, self.sizes, strict=True))


def chosen(work: Workload, wheres: Sequence[int], symbols: int, block: Block) -> ChosenWays:
    """How to count combinations in blocks like this one; of the codes that are not asked about, only if they occur."""
    pricing = _Pricing(work, symbols, block)
    listed = {number for number, atom in work.atoms.items() if len(atom.codes) != 1}
    short = [where for where in wheres if listed.isdisjoint(work.wheres[where]) or _is_short(work, where)]
    grouped = by_columns(work, short)
    ways: list[Way] = []
    rest: list[Columns] = []
    room = float(MOST_CELLS)
    for columns, served in pricing.covers(grouped):
        cells, saved = pricing.cells(columns), sum(pricing.cheapest(each, grouped[each]) for each in served)
        if cells <= room and pricing.cube(columns) < saved:
            mine = [where for each in served for where in grouped[each]]
            ways.append(Cube(columns, pricing.shape(columns), mine, symbols))
            room -= cells
        else:
            rest += served
    left = sorted(set(wheres).difference(short))
    tables = pricing.tables({columns: grouped[columns] for columns in rest}, has_bitmaps=bool(left))
    made = {each: AskedCells(work, each, pricing.shape(each), grouped[each], symbols) for each in tables}
    for pair, several in pricing.shared_pairs({columns: grouped[columns] for columns in tables}):
        ways.append(SharedPair(work, pair, pricing.shape(pair), [made.pop(columns) for columns in several]))
    ways += made.values()
    left += [where for each in rest if each not in tables for where in grouped[each]]
    return ChosenWays(ways, sorted(left), pricing.sizes)


def _is_short(work: Workload, where: int) -> bool:
    """Whether a combination has no range, and few cells to add up."""
    atoms = [work.atoms[number] for number in work.wheres[where]]
    return all(atom.range is None for atom in atoms) and volume(len(atom.codes) for atom in atoms) <= MOST_CELLS_READ


class _Pricing:
    """What each way would cost in one block."""

    def __init__(self, work: Workload, symbols: int, block: Block) -> None:
        self.work, self.symbols, self.rows = work, symbols, block.rows
        asked = [len(column.mentioned) for column in work.columns]
        for atom in work.atoms.values():
            asked[atom.column] = max(asked[atom.column], *(code + 1 for code in atom.codes), 1)
        self.sizes = [max(size, int(codes.max(initial=0)) + 1) for size, codes in zip(asked, block.codes, strict=True)]

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return tuple(self.sizes[column] for column in columns)

    def cells(self, columns: Columns) -> float:
        """The cells of a cube, symbols included."""
        return self.symbols * volume(self.shape(columns))

    def cube(self, columns: Columns) -> float:
        return CELL * self.cells(columns) + self.rows * (RECORD + RECORD_AND_COLUMN * len(columns))

    def table(self, columns: Columns, wheres: Sequence[int]) -> float:
        size = volume(self.shape(columns))
        if size > LARGEST_TABLE:
            return float("inf")
        share = min(len(wheres) / size, 1)
        return self.rows * (ASKED + RECORD_AND_COLUMN * len(columns) + TABLE_CELL * size + CHOSEN * share)

    def bitmaps(self, columns: Columns, wheres: Sequence[int]) -> float:
        each = COMBINATION + self.rows / 64 * (WORD + WORD_AND_CONDITION * (len(columns) - 1))
        return len(wheres) * each

    def cheapest(self, columns: Columns, wheres: Sequence[int]) -> float:
        """Without a cube."""
        return min(self.table(columns, wheres), self.bitmaps(columns, wheres))

    def tables(self, grouped: Mapping[Columns, Sequence[int]], *, has_bitmaps: bool) -> list[Columns]:
        """The sets of columns whose cells are looked up: where it costs less, or saves making any bitmap."""
        cheaper = [each for each in grouped if self.table(each, grouped[each]) < self.bitmaps(each, grouped[each])]
        others = {each: grouped[each] for each in grouped if each not in cheaper}
        are_few = sum(map(len, others.values())) <= FEW  # these are found without a bitmap
        first = 0.0 if are_few else self.rows * (BITMAPS + BITMAP * len(self.work.atoms))
        by_bitmaps = first + sum(self.bitmaps(*each) for each in others.items())
        if not has_bitmaps and sum(self.table(*each) for each in others.items()) < by_bitmaps:
            return [*grouped]
        return cheaper

    def shared_pairs(self, grouped: Mapping[Columns, Sequence[int]]) -> list[tuple[Pair, list[Columns]]]:
        """Pairs of columns by which records are chosen first, and the sets of columns that this is worth it for."""
        left, found = dict(grouped), list[tuple[Pair, list[Columns]]]()
        while True:
            sharing: dict[Pair, list[Columns]] = {}
            for columns in left:
                for pair in combinations(columns, 2):
                    if pair != columns:
                        sharing.setdefault(pair, []).append(columns)
            saved = {
                pair: self.saved(pair, {each: left[each] for each in several}) for pair, several in sharing.items()
            }
            best = max(saved, key=lambda pair: saved[pair], default=None)
            if best is None or saved[best] <= 0:
                return found
            found.append((best, sharing[best]))
            left = {columns: wheres for columns, wheres in left.items() if columns not in sharing[best]}

    def saved(self, pair: Pair, grouped: Mapping[Columns, Sequence[int]]) -> float:
        """What is saved if only those records are looked at that have one of the asked pairs."""
        asked = pairs_of(self.work, pair, [where for wheres in grouped.values() for where in wheres])
        cells = sum(len(self.work.atoms[first].codes) * len(self.work.atoms[second].codes) for first, second in asked)
        share = min(cells / volume(self.shape(pair)), 1)
        taken = 1 + len({column for columns in grouped for column in columns})
        first = self.rows * (ASKED + 2 * RECORD_AND_COLUMN + TAKEN * taken * share)
        return (1 - share) * sum(self.table(*each) for each in grouped.items()) - first

    def covers(self, grouped: Mapping[Columns, Sequence[int]]) -> list[tuple[Columns, list[Columns]]]:
        """Sets of columns whose cubes stay small, and the combinations of columns that each of them answers."""
        covers: list[tuple[Columns, list[Columns]]] = []
        for columns in sorted(grouped, key=lambda each: (self.cells(each), each)):
            unions = [tuple(sorted({*cover, *columns})) for cover, _ in covers]
            fitting = [place for place, union in enumerate(unions) if self.cells(union) <= LARGEST_CUBE]
            if fitting:
                place = min(fitting, key=lambda each: self.cells(unions[each]))
                covers[place] = (unions[place], [*covers[place][1], columns])
            else:
                covers.append((columns, [columns]))
        return covers
