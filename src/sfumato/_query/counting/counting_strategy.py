"""Chooses the fastest way to count each combination of conditions: cubes, tables of cells, or bitmaps.

A cube costs the same for any number of queries. So columns that are queried together share a cube as long as the cube
stays small. A cube may be too expensive for a set of columns with many combinations. A table then maps each cell to its
query. If the tables of several column sets have two columns in common, records are first filtered by these columns.
Bitmaps count all other combinations. Ranges and long lists always use bitmaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sfumato._query.counting.bitmap_counts import FEW_COMBINATIONS
from sfumato._query.counting.cell_keys import compute_volume
from sfumato._query.counting.cube_counts import Cube, group_by_columns
from sfumato._query.counting.queried_cells import CellLookup, SharedPair
from sfumato._query.counting.record_blocks import Block
from sfumato._query.counting.shared_conditions import Workload

LARGEST_CUBE = 1 << 20
"""The largest cube that combines columns, in cells including symbols."""
MOST_CELLS = 1 << 25
"""The largest number of cells of all cubes (256 MiB). The limit for all tables together is a quarter of this number."""
LARGEST_TABLE = 1 << 22
"""The largest table, in cells."""
MOST_TRIED = 64
"""The number of cubes that are tried for a merge. Trying thousands of cubes would take too long."""
MOST_CELLS_READ = 64
"""Combinations with longer lists than this are counted by bitmaps."""

# These costs were measured on one core in nanoseconds. Only their ratios matter.
CELL, RECORD, RECORD_AND_COLUMN = 1.0, 2.2, 0.15
LOOKUP_RECORD, TABLE_CELL, FOUND_RECORD = 1.1, 1e-6, 6.0
COMBINATION, BITMAP_WORD, WORD_AND_CONDITION = 4000.0, 1.2, 0.5
CHOSEN_CODE = 2.0
"""The cost of each column of each record that a pair selects."""
BITMAPS, BITMAP = 15.0, 0.06
"""The cost of each record before the first combination is counted, and the cost of each condition."""

Columns = tuple[int, ...]
Pair = tuple[int, int]
CellCounter = Cube | CellLookup | SharedPair


@dataclass(frozen=True, eq=False)
class CountingStrategy:
    """The selected cubes and tables, and the combinations that bitmaps count."""

    cell_counters: Sequence[CellCounter]
    bitmap_wheres: Sequence[int]
    sizes: Sequence[int]
    """The number of codes for which cubes and tables have room, by column."""

    def has_room(self, block: Block) -> bool:
        """Whether all codes of a block fit."""
        return all(codes.max(initial=0) < size for codes, size in zip(block.codes, self.sizes, strict=True))


def choose_strategy(work: Workload, wheres: Sequence[int], symbols: int, block: Block) -> CountingStrategy:
    """Chooses how to count in blocks like this one. Codes that no query names are counted only if they occur."""
    pricing = _Pricing(work, symbols, block)
    listed = {number for number, atom in work.atoms.items() if len(atom.codes) != 1}
    short = [where for where in wheres if listed.isdisjoint(work.wheres[where]) or _is_short(work, where)]
    grouped = group_by_columns(work, short)
    cell_counters: list[CellCounter] = []
    rest: list[Columns] = []
    room = float(MOST_CELLS)
    for columns, served in pricing.build_covers(grouped):
        cells, saved = (
            pricing.count_cells(columns),
            sum(pricing.price_cheapest(column_set, grouped[column_set]) for column_set in served),
        )
        if cells <= room and pricing.price_cube(columns) < saved:
            cube_wheres = [where for column_set in served for where in grouped[column_set]]
            cell_counters.append(Cube(columns, pricing.get_shape(columns), cube_wheres, symbols))
            room -= cells
        else:
            rest += served
    bitmap_wheres = sorted(set(wheres).difference(short))
    tables = pricing.choose_tables({columns: grouped[columns] for columns in rest}, has_bitmaps=bool(bitmap_wheres))
    cell_tables = {
        column_set: CellLookup(work, column_set, pricing.get_shape(column_set), grouped[column_set], symbols)
        for column_set in tables
    }
    for pair, several, _ in pricing.choose_shared_pairs({columns: grouped[columns] for columns in tables}):
        sizes = (pricing.sizes[pair[0]], pricing.sizes[pair[1]])
        cell_counters.append(SharedPair(pair, sizes, [cell_tables.pop(columns) for columns in several]))
    cell_counters += cell_tables.values()
    bitmap_wheres += [where for column_set in set(rest).difference(tables) for where in grouped[column_set]]
    return CountingStrategy(cell_counters, sorted(bitmap_wheres), pricing.sizes)


def _is_short(work: Workload, where: int) -> bool:
    """Whether a combination has no range and only a few cells to add up."""
    atoms = [work.atoms[number] for number in work.wheres[where]]
    return (
        all(atom.range is None for atom in atoms)
        and compute_volume(len(atom.codes) for atom in atoms) <= MOST_CELLS_READ
    )


class _Pricing:
    """The cost of each way to count in one block."""

    def __init__(self, work: Workload, symbols: int, block: Block) -> None:
        self.work, self.symbols, self.rows = work, symbols, block.rows
        self.codes = {number: len(atom.codes) for number, atom in work.atoms.items()}
        mentioned_counts = [len(column.codes_by_value) for column in work.columns]
        for atom in work.atoms.values():
            mentioned_counts[atom.column] = max(mentioned_counts[atom.column], *(code + 1 for code in atom.codes), 1)
        self.sizes = [
            max(size, int(codes.max(initial=0)) + 1) for size, codes in zip(mentioned_counts, block.codes, strict=True)
        ]

    def get_shape(self, columns: Columns) -> tuple[int, ...]:
        return tuple(self.sizes[column] for column in columns)

    def count_cells(self, columns: Columns) -> float:
        """The cells of a cube, symbols included."""
        return self.symbols * compute_volume(self.get_shape(columns))

    def price_cube(self, columns: Columns) -> float:
        return CELL * self.count_cells(columns) + self.rows * (RECORD + RECORD_AND_COLUMN * len(columns))

    def price_table(self, columns: Columns, wheres: Sequence[int]) -> float:
        size = compute_volume(self.get_shape(columns))
        share = min(len(wheres) / size, 1)
        return self.rows * (LOOKUP_RECORD + RECORD_AND_COLUMN * len(columns) + TABLE_CELL * size + FOUND_RECORD * share)

    def price_bitmaps(self, columns: Columns, wheres: Sequence[int]) -> float:
        price = COMBINATION + self.rows / 64 * (BITMAP_WORD + WORD_AND_CONDITION * (len(columns) - 1))
        return len(wheres) * price

    def price_cheapest(self, columns: Columns, wheres: Sequence[int]) -> float:
        """The cost of the cheapest way without a cube."""
        by_bitmaps = self.price_bitmaps(columns, wheres)
        return min(self.price_table(columns, wheres), by_bitmaps) if self.select_fitting([columns]) else by_bitmaps

    def choose_tables(self, grouped: Mapping[Columns, Sequence[int]], *, has_bitmaps: bool) -> list[Columns]:
        """The column sets that get a table.

        These are the sets for which a table costs less. If tables for all sets cost less in total, all sets get one.
        """
        fitting = self.select_fitting(grouped)
        prices = {columns: self.price_table(columns, grouped[columns]) for columns in fitting}
        by_bitmaps = {columns: self.price_bitmaps(columns, grouped[columns]) for columns in fitting}
        cheaper = [columns for columns in fitting if prices[columns] < by_bitmaps[columns]]
        if has_bitmaps or len(fitting) < len(grouped):
            return cheaper
        others = sum(len(grouped[columns]) for columns in fitting if prices[columns] >= by_bitmaps[columns])
        # Bitmaps must be built first, unless there are only a few combinations.
        first = self.rows * (BITMAPS + BITMAP * len(self.work.atoms)) if others > FEW_COMBINATIONS else 0.0
        mixed = first + sum(min(prices[columns], by_bitmaps[columns]) for columns in fitting)
        shared = sum(
            saved for _, _, saved in self.choose_shared_pairs({columns: grouped[columns] for columns in fitting})
        )
        return fitting if sum(prices.values()) - shared < mixed else cheaper

    def select_fitting(self, several: Iterable[Columns]) -> list[Columns]:
        """The column sets whose tables fit into memory. Small tables come first."""
        fitting_columns, room = [], float(MOST_CELLS)
        for columns in sorted(several, key=lambda candidate: (compute_volume(self.get_shape(candidate)), candidate)):
            size = compute_volume(self.get_shape(columns))
            if size <= min(room, LARGEST_TABLE):
                fitting_columns.append(columns)
                room -= size
        return fitting_columns

    def choose_shared_pairs(self, grouped: Mapping[Columns, Sequence[int]]) -> list[tuple[Pair, list[Columns], float]]:
        """Pairs of columns that select records first.

        Each has the column sets that contain the pair, and the saved cost.
        """
        pairs_by_columns: dict[Pair, dict[Columns, set[Pair]]] = {}
        for columns, wheres in grouped.items():
            for pair in combinations(columns, 2):
                if pair != columns:
                    first, second = (columns.index(column) for column in pair)
                    conditions = {(where[first], where[second]) for where in map(self.work.wheres.__getitem__, wheres)}
                    pairs_by_columns.setdefault(pair, {})[columns] = conditions
        prices = {columns: self.price_table(columns, wheres) for columns, wheres in grouped.items()}
        promising = sorted(
            pairs_by_columns, key=lambda pair: self.compute_saving(pair, pairs_by_columns[pair], prices), reverse=True
        )
        priced_pairs: list[tuple[Pair, list[Columns], float]] = []
        done: set[Columns] = set()
        for pair in promising:
            several = {columns: pairs for columns, pairs in pairs_by_columns[pair].items() if columns not in done}
            saved = self.compute_saving(pair, several, prices) if several else 0.0
            if saved > 0:
                priced_pairs.append((pair, list(several), saved))
                done.update(several)
        return priced_pairs

    def compute_saving(
        self, pair: Pair, pairs_by_columns: Mapping[Columns, set[Pair]], prices: Mapping[Columns, float]
    ) -> float:
        """The cost that is saved by reading only the records with one of the queried pairs."""
        codes = self.codes
        cells = sum(codes[first] * codes[second] for first, second in set[Pair]().union(*pairs_by_columns.values()))
        share = min(cells / compute_volume(self.get_shape(pair)), 1)
        column_count = 1 + len({column for columns in pairs_by_columns for column in columns})
        first = self.rows * (LOOKUP_RECORD + 2 * RECORD_AND_COLUMN + CHOSEN_CODE * column_count * share)
        return (1 - share) * sum(prices[columns] for columns in pairs_by_columns) - first

    def build_covers(self, grouped: Mapping[Columns, Sequence[int]]) -> list[tuple[Columns, list[Columns]]]:
        """Column sets whose cubes stay small. Each has the column combinations that its cube answers."""
        covers: list[tuple[Columns, list[Columns]]] = []
        for columns in sorted(grouped, key=lambda candidate: (self.count_cells(candidate), candidate)):
            first = max(len(covers) - MOST_TRIED, 0)
            unions = {place: tuple(sorted({*covers[place][0], *columns})) for place in range(first, len(covers))}
            sizes = {place: self.count_cells(union) for place, union in unions.items()}
            place = min(sizes, key=lambda candidate: sizes[candidate], default=None)
            if place is None or sizes[place] > LARGEST_CUBE:
                covers.append((columns, [columns]))
            else:
                covers[place] = (unions[place], [*covers[place][1], columns])
        return covers
