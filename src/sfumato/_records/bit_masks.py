"""Packs booleans into machine words. One operation then combines or counts 64 booleans at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Codes, Mask

BitWords = npt.NDArray[np.uint64]
WORD_BITS, BYTE, WORD_BYTES = 64, 8, 8
ROWS = 1 << 13
"""The number of table rows in one step, chosen to give whole words of each column."""


def pack_bits(mask: Mask) -> BitWords:
    """Packs booleans into words of bits, padded with zeros."""
    bits = np.packbits(mask)
    short = -len(bits) % 8
    return (np.append(bits, np.zeros(short, dtype=np.uint8)) if short else bits).view(np.uint64)


def pack_columns(matrix: Codes, columns: Sequence[int]) -> BitWords:
    """Packs some columns of zeros and ones into words of bits, with one row for each column.

    It transposes some rows at a time. These rows stay in the cache, but whole columns would not.
    """
    packed_bytes = np.zeros((len(columns), -(-len(matrix) // WORD_BITS) * WORD_BYTES), dtype=np.uint8)
    for start in range(0, len(matrix), ROWS):
        bits = np.packbits(matrix[start : start + ROWS].T[list(columns)], axis=1)
        packed_bytes[:, start // BYTE : start // BYTE + bits.shape[1]] = bits
    return packed_bytes.view(np.uint64)


def count_bits(bit_words: BitWords) -> int:
    """The number of set bits."""
    return int(np.bitwise_count(bit_words).sum(dtype=np.uint32))
