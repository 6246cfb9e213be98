"""Truth values as bits in machine words: 64 of them are combined and counted at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.arrays import Mask

Words = npt.NDArray[np.uint64]
WORD = 64


def packed(mask: Mask) -> Words:
    """Truth values as words of bits, filled up with zeros."""
    bits = np.packbits(mask)
    short = -len(bits) % 8
    return (np.append(bits, np.zeros(short, dtype=np.uint8)) if short else bits).view(np.uint64)


def bit_count(words: Words) -> int:
    """How many bits are set."""
    return int(np.bitwise_count(words).sum(dtype=np.uint32))
