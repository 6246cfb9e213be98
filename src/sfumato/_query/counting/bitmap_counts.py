"""Counting by bitmaps: a bit for each record and condition, combined by AND, and counted symbol by symbol.

The records of a block are sorted by their symbol, each symbol at the start of a machine word: then one count of bits
tells how many of the selected records show each symbol.
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
"""Combinations whose bits are counted in one call."""
MEMORY = 1 << 28
"""The bytes that the bitmaps of a block may take."""
LINES_MEMORY = 1 << 20
"""The bytes of the bitmaps that are handed over together: what is done with them is done in the cache."""


class WordLayout:
    """The records of a block in the order of their symbols, each symbol filled up to whole words."""

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
"""Combinations that are counted faster by looking at every record than by sorting them first."""


def count_symbols(work: Workload, block: Block, wheres: Sequence[int], size: int) -> Iterator[tuple[list[int], Counts]]:
    """Some combinations at a time: how many of their records show each symbol."""
    is_wasteful = size * WORD_BITS > 2 * block.rows  # most of the bits would only fill words up
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
    """Split combinations so that the bitmaps of each part fit into the memory; those alike stay together."""
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
    """The codes and ranges of the records at each index; no condition holds where it is one more than the last."""
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
    """Some combinations at a time: a line of bits for each, whether the record at each index satisfies it."""
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
    """Count the bits of combined bitmaps."""
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
    """Count the symbols of the selected records."""
    for number in wheres:
        yield (
            [number],
            np.bincount(block.published_codes[select_records(work, block, number)], minlength=size)[np.newaxis],
        )


def select_records(work: Workload, block: Block, where: int) -> npt.NDArray[np.int64]:
    """The records of a block that satisfy a combination of at least one condition, by their numbers."""
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
    """For each combination and its wanted places: its number, its records, and how many of their sets hold each."""
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
