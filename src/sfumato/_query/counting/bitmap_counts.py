"""Counts by bitmaps, with one bit for each record and condition.

AND combines the bits, and the set bits are counted for each symbol. The records of a block are sorted by symbol, and
each symbol starts at a machine word. Counting the bits in a range of words then gives the number of selected records
with that symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Codes, Counts, Mask, Places
from sfumato._query.counting.record_blocks import Block
from sfumato._query.counting.shared_conditions import Workload, match_codes
from sfumato._records.bit_masks import WORD_BITS, BitWords, count_bits, pack_bits, pack_columns

COMBINATION_BATCH = 32
"""The number of combinations whose bits are counted in one call."""
MEMORY = 1 << 28
"""The largest size in bytes of the bitmaps of a block."""
LINES_MEMORY = 1 << 20
"""The size in bytes of the bitmaps that are processed together, so that they stay in the cache."""


class WordLayout:
    """The records of a block in the order of their symbols, each symbol padded to whole words."""

    def __init__(self, symbols: Codes, size: int) -> None:
        counts = np.bincount(symbols, minlength=size)
        word_counts = -(-counts // WORD_BITS)
        starts, firsts = np.cumsum(word_counts) - word_counts, np.cumsum(counts) - counts
        self.rows, self.size, self.counts = len(symbols), size, counts
        self.word_count = int(word_counts.sum())
        self.present_symbols = np.flatnonzero(counts)
        self.starts = starts[self.present_symbols]
        self.index = np.full(self.word_count * WORD_BITS, len(symbols), dtype=np.int64)
        targets = np.arange(len(symbols)) + np.repeat(starts * WORD_BITS - firsts, counts)
        self.index[targets] = np.argsort(symbols, kind="stable")


FEW_COMBINATIONS = 6
"""Up to this number of combinations, reading every record is faster than sorting the records first."""


def count_symbols(work: Workload, block: Block, wheres: Sequence[int], size: int) -> Iterator[tuple[list[int], Counts]]:
    """Counts the symbols of the records of each combination, some combinations at a time."""
    is_wasteful = size * WORD_BITS > 2 * block.rows  # most bits of the bitmaps would be padding
    count_function = count_row_symbols if is_wasteful or len(wheres) <= FEW_COMBINATIONS else count_symbol_bits
    return count_function(work, block, wheres, size)


class Bitmaps:
    """The bitmaps of some conditions in one block."""

    def __init__(self, work: Workload, codes: Sequence[Codes], ranges: Mapping[int, Mask]) -> None:
        self.work, self.codes, self.ranges = work, codes, ranges
        self.cache: dict[int, BitWords] = {}

    def __getitem__(self, number: int) -> BitWords:
        bitmap = self.cache.get(number)
        if bitmap is None:
            bitmap = self.cache[number] = pack_bits(compute_mask(self.work, number, self.codes, self.ranges))
        return bitmap

    def combine(self, where: Sequence[int], buffer: BitWords) -> BitWords:
        """The records that satisfy all of several conditions."""
        first, *others = where
        bitmap = self[first]
        for number in others:
            bitmap = np.bitwise_and(bitmap, self[number], out=buffer)
        return bitmap


NumberT = TypeVar("NumberT", bound=np.generic)


def split_combinations(work: Workload, wheres: Iterable[int], word_count: int) -> Iterator[list[int]]:
    """Splits combinations so that the bitmaps of each part fit into memory. Similar combinations stay together."""
    most = max(MEMORY // (8 * max(word_count, 1)), 1)
    part: list[int] = []
    atoms: set[int] = set()
    for number in sorted(wheres, key=lambda where: work.wheres[where]):
        atoms.update(work.wheres[number])
        if part and len(atoms) > most:
            yield part
            part, atoms = [], set(work.wheres[number])
        part.append(number)
    if part:
        yield part


def arrange_records(
    work: Workload, block: Block, index: Places, wheres: Sequence[int]
) -> tuple[list[Codes], dict[int, Mask]]:
    """The codes and ranges of the records at each index. An index past the last record satisfies no condition."""
    used = {number for where in wheres for number in work.wheres[where]}
    columns = {work.atoms[number].column for number in used}

    def take(array: npt.NDArray[NumberT], filling: int) -> npt.NDArray[NumberT]:
        return np.append(array, array.dtype.type(filling)).take(index)

    codes = [
        take(block_codes, column.size - 1) if number in columns else block_codes
        for number, (block_codes, column) in enumerate(zip(block.codes, work.columns, strict=True))
    ]
    return codes, {number: take(mask, False) for number, mask in block.ranges.items() if number in used}


def arrange_bits(
    work: Workload, block: Block, index: Places, wheres: Sequence[int]
) -> Iterator[tuple[list[int], BitWords]]:
    """Yields some combinations at a time. A bit for each index says whether the record satisfies the combination."""
    codes, ranges = arrange_records(work, block, index, wheres)
    word_count = -(-len(index) // WORD_BITS)
    batch_size = max(min(COMBINATION_BATCH, LINES_MEMORY // (8 * max(word_count, 1))), 1)
    all_records = pack_bits(index < block.rows)
    lines = np.empty((batch_size, word_count), dtype=np.uint64)
    for part in split_combinations(work, wheres, word_count):
        bitmaps = Bitmaps(work, codes, ranges)
        for first in range(0, len(part), batch_size):
            batch = part[first : first + batch_size]
            for line, number in zip(lines, batch, strict=False):
                where = work.wheres[number]
                line[:] = bitmaps.combine(where, line) if where else all_records
            yield batch, lines[: len(batch)]


def count_symbol_bits(
    work: Workload, block: Block, wheres: Sequence[int], size: int
) -> Iterator[tuple[list[int], Counts]]:
    """Counts the bits of combined bitmaps."""
    if not wheres:
        return
    layout = WordLayout(block.published_codes, size)
    codes, ranges = arrange_records(work, block, layout.index, wheres)
    narrow = np.uint16 if layout.counts.max(initial=0) < 1 << 16 else np.uint32
    buffer = np.empty(layout.word_count, dtype=np.uint64)
    bits = np.empty((COMBINATION_BATCH, layout.word_count), dtype=np.uint8)
    for part in split_combinations(work, wheres, layout.word_count):
        bitmaps = Bitmaps(work, codes, ranges)
        for first in range(0, len(part), COMBINATION_BATCH):
            batch = part[first : first + COMBINATION_BATCH]
            for line, number in enumerate(batch):
                np.bitwise_count(bitmaps.combine(work.wheres[number], buffer), out=bits[line])
            counts = np.zeros((len(batch), size), dtype=np.int64)
            counts[:, layout.present_symbols] = np.add.reduceat(bits[: len(batch)], layout.starts, axis=1, dtype=narrow)
            yield batch, counts


def count_row_symbols(
    work: Workload, block: Block, wheres: Sequence[int], size: int
) -> Iterator[tuple[list[int], Counts]]:
    """Counts the symbols of the selected records."""
    for number in wheres:
        yield (
            [number],
            np.bincount(block.published_codes[select_records(work, block, number)], minlength=size)[np.newaxis],
        )


def select_records(work: Workload, block: Block, where: int) -> npt.NDArray[np.int64]:
    """The row numbers of a block's records that satisfy a combination. A combination has at least one condition."""
    first, *others = (compute_mask(work, number, block.codes, block.ranges) for number in work.wheres[where])
    mask = first
    for other in others:
        mask = mask & other
    return np.flatnonzero(mask)


def compute_mask(work: Workload, number: int, codes: Sequence[Codes], ranges: Mapping[int, Mask]) -> Mask:
    """Whether each record satisfies a condition."""
    atom = work.atoms[number]
    if atom.range is not None:
        return ranges[number]
    return match_codes(codes[atom.column], atom, work.columns[atom.column].size)


def count_members(
    work: Workload, block: Block, places_by_where: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int, Sequence[int], Counts]]:
    """Yields each combination, its number of records, and how many of their sets have each requested value."""
    places = sorted({place for wanted_places in places_by_where.values() for place in wanted_places})
    sets = dict(zip(places, pack_columns(block.published_codes, places), strict=True))
    word_count = -(-block.rows // WORD_BITS)
    all_records = pack_bits(np.ones(block.rows, dtype=np.bool_))
    buffer, both = np.empty(word_count, dtype=np.uint64), np.empty(word_count, dtype=np.uint64)
    for part in split_combinations(work, places_by_where, word_count):
        bitmaps = Bitmaps(work, block.codes, block.ranges)
        for number in part:
            where = work.wheres[number]
            bitmap = bitmaps.combine(where, buffer) if where else all_records
            counts = [count_bits(np.bitwise_and(bitmap, sets[place], out=both)) for place in places_by_where[number]]
            yield number, count_bits(bitmap), places_by_where[number], np.array(counts, dtype=np.int64)
