"""Small numbers packed into as few bits as they need: the lowest bit first, and eight of them in whole bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato._core.arrays import Codes, RandomBits

Bytes = npt.NDArray[np.uint8]

GROUP = 8
"""So many numbers are packed together."""
BYTE, WIDEST, WORD_BITS = 8, 16, 64
"""Bits: numbers have no more than the second."""


def pack_codes(codes: Codes, width: int) -> Bytes:
    """Numbers below 2^width in `width` bits each; zeros fill up the last group of eight.

    A word of the machine holds several numbers: neighbours are shifted together, then pairs of them, until nothing is
    between the bits of a word.
    """
    gap = BYTE if width <= BYTE else WIDEST  # from the beginning of a number to that of the next one
    padded = np.ascontiguousarray(codes, dtype=f"u{gap // BYTE}")
    if len(codes) % GROUP:
        padded = np.append(padded, np.zeros(-len(codes) % GROUP, dtype=padded.dtype))
    if width == gap:
        return padded.view(np.uint8)
    if width == 1:
        return np.packbits(padded, bitorder="little")
    packed_words: RandomBits = padded.view(np.uint64)
    size = width
    while gap < WORD_BITS:
        packed_words = _join_neighbours(packed_words, size, gap)
        gap, size = 2 * gap, 2 * size
    if width > BYTE:  # a word has four numbers, and two of them have more bits than a word
        low, high = packed_words[0::2], packed_words[1::2]
        packed_words = np.stack([low | (high << np.uint64(size)), high >> np.uint64(WORD_BITS - size)], axis=1)
    groups = packed_words.reshape(len(padded) // GROUP, -(-width // BYTE)).view(np.uint8)
    group_bytes = np.empty((len(groups), width), dtype=np.uint8)
    for place in range(width):  # twice as fast as all at once, because there are few of them in a group
        group_bytes[:, place] = groups[:, place]
    return group_bytes.reshape(-1)


def _join_neighbours(packed_words: RandomBits, size: int, gap: int) -> RandomBits:
    """Of numbers of `size` bits that begin every `gap` bits, shift each second one to the one before it."""
    mask = sum(((1 << size) - 1) << place for place in range(0, WORD_BITS, 2 * gap))
    joined_words = packed_words >> np.uint64(gap - size)
    joined_words &= np.uint64(mask << size)
    joined_words |= packed_words & np.uint64(mask)
    return joined_words
