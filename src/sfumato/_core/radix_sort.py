"""Sorts random 64-bit integers by counting instead of comparing."""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Places, RandomBits

LARGEST_WORD = np.uint64(2**64 - 1)


def find_sorted_positions(bits: RandomBits) -> Places:
    """The positions of the integers, from the smallest integer to the largest; equal integers keep their order.

    Integers that are sorted together mostly share their leading bits, so the next 32 bits distinguish nearly all of
    them. Two counting sorts by 16 bits each are faster than one comparison sort. The few integers that agree in all 32
    bits are sorted by all their bits. Several threads sort in parallel, so the sort has few and long steps.
    """
    offsets = bits - bits.min(initial=LARGEST_WORD)
    leading_bits = (offsets >> np.uint64(max(int(offsets.max(initial=0)).bit_length() - 32, 0))).astype(np.uint32)
    by_low = np.argsort(leading_bits.astype(np.uint16), kind="stable")
    high = (leading_bits >> np.uint32(16)).astype(np.uint16)
    positions = by_low.take(np.argsort(high.take(by_low), kind="stable"))
    sorted_bits = leading_bits.take(positions)
    is_tied = sorted_bits[1:] == sorted_bits[:-1]
    if is_tied.any():
        tied_positions = np.flatnonzero(np.append(is_tied, False) | np.append(False, is_tied))
        rows = positions[tied_positions]
        # Different groups of ties stay in order, because their leading bits differ.
        positions[tied_positions] = rows[np.argsort(bits[rows], kind="stable")]
    return positions
