"""Random words in rising order, by counting instead of comparing."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Places, Words

LARGEST_WORD = np.uint64(2**64 - 1)

CACHED_WORDS = 1 << 14
"""So many words are put in order at once; more are divided first, so that each part stays in the cache of a core."""

MOST_BITS = 8
"""They are divided by so many bits at most, which fit into a byte."""


def positions_in_order(words: Words) -> Places:
    """The positions of words in rising order; equal words stay in the order they have.

    Many words are divided by their leading bits, and each part is put in order by itself.
    """
    if len(words) <= CACHED_WORDS:
        return _counted(words)
    lowest, highest = words.min(), words.max()
    if lowest == highest:
        return np.arange(len(words))
    bits = min((2 * len(words) // CACHED_WORDS).bit_length(), MOST_BITS)
    part = ((words - lowest) >> np.uint64(max(int(highest - lowest).bit_length() - bits, 0))).astype(np.uint8)
    positions = np.argsort(part, kind="stable")
    divided, start = words.take(positions), 0
    for end in np.cumsum(np.bincount(part)).tolist():
        positions[start:end] = positions[start:end].take(positions_in_order(divided[start:end]))
        start = end
    return positions


def _counted(words: Words) -> Places:
    """Put a few words in order.

    Words of a part begin alike, so the 32 bits after that tell nearly all of them apart. Two counting sorts by 16 bits
    each are faster than one sort that compares; the few words that agree in all 32 are sorted as a whole.
    """
    within = words - words.min(initial=LARGEST_WORD)
    leading = within >> np.uint64(max(int(within.max(initial=0)).bit_length() - 32, 0))
    by_low = np.argsort(leading.astype(np.uint16), kind="stable")
    high = (leading >> np.uint64(16)).astype(np.uint16)
    positions = by_low.take(np.argsort(high.take(by_low), kind="stable"))
    in_order = leading.take(positions)
    is_tied = in_order[1:] == in_order[:-1]
    if is_tied.any():
        tied = np.flatnonzero(np.append(is_tied, False) | np.append(False, is_tied))
        rows = positions[tied]
        # Words of different ties stay apart, because they differ in the leading bits already.
        positions[tied] = rows[np.argsort(words[rows], kind="stable")]
    return positions
