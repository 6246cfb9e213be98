"""Many short columns sorted at once: whole rows are compared, in an order that sorts whatever they hold.

Source: the odd-even merge exchange of Batcher 1968.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from sfumato._core.arrays import UInts

FEW = 1 << 11
"""So few columns are sorted one by one: to compare rows would take as long for a single one."""


def sort_columns(rows: UInts) -> None:
    """Sort each column of a matrix, in its place."""
    if rows.shape[1] < FEW:
        rows.sort(axis=0)
        return
    smaller = np.empty_like(rows[0])
    for upper, lower in list_exchanges(len(rows)):
        np.minimum(rows[upper], rows[lower], out=smaller)
        np.maximum(rows[upper], rows[lower], out=rows[lower])
        rows[upper] = smaller


@cache
def list_exchanges(size: int) -> tuple[tuple[int, int], ...]:
    """The pairs of places to compare, one after the other, so that the smaller one comes first."""
    return tuple(_generate_exchanges(size))


def _generate_exchanges(size: int) -> Iterator[tuple[int, int]]:
    """Merge neighbours that are sorted, then neighbours twice as long; pairs in a merge come ever nearer."""
    merged_length = 1
    while merged_length < size:
        gap = merged_length
        while gap:
            for start in range(gap % merged_length, size - gap, 2 * gap):
                for place in range(start, min(start + gap, size - gap)):
                    if place // (2 * merged_length) == (place + gap) // (2 * merged_length):
                        yield place, place + gap
            gap //= 2
        merged_length *= 2
