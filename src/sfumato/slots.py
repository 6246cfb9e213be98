"""From the rank of a record among those of its value to a random slot, so that file order tells nothing of its cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import Draws, Numbers, Permutation
from sfumato.errors import SourceError
from sfumato.tally import Codes, Counts


class Slots:
    """A keyed permutation of the ranks of each value."""

    def __init__(self, draws: Draws, purpose: str, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        self.permutations: list[Permutation] = [
            draws.permutation(f"{purpose}/slots", code, count) for code, count in enumerate(counts)
        ]

    def __call__(self, codes: Codes, ranks_before: Counts) -> Numbers:
        """The slot of each record of a batch, given how many records of each value there are before it."""
        held = np.bincount(codes, minlength=len(self.counts))
        if (ranks_before + held > self.counts).any():
            raise SourceError("the table changed while it was read: a value is more frequent than before.")
        by_value = np.empty(len(codes), dtype=np.min_scalar_type(self.counts.max()))
        ends = np.cumsum(held)
        for code in np.flatnonzero(held):
            ranks = np.arange(ranks_before[code], ranks_before[code] + held[code])
            by_value[ends[code] - held[code] : ends[code]] = self.permutations[code](ranks)
        slots = np.empty_like(by_value)
        slots[np.argsort(codes, kind="stable")] = by_value
        return slots
