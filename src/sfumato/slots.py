"""From the rank of a record among those of its value to a random slot, so that file order tells nothing of its cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, Permutation, Words
from sfumato.errors import SourceError
from sfumato.tally import Codes, Counts


class Slots:
    """A keyed permutation of the ranks of each value."""

    def __init__(self, draws: Draws, purpose: str, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        self.permutations: list[Permutation] = [
            draws.permutation(f"{purpose}/slots", code, count) for code, count in enumerate(counts)
        ]

    def __call__(self, codes: Codes, ranks_before: Counts) -> Words:
        """The slot of each record of a batch, given how many records of each value there are before it."""
        order = np.argsort(codes, kind="stable")
        held = np.bincount(codes, minlength=len(self.counts))
        if (ranks_before + held > self.counts).any():
            raise SourceError("the table changed while it was read: a value is more frequent than before.")
        slots = np.empty(len(codes), dtype=np.uint64)
        start = 0
        for code in np.flatnonzero(held):
            mine: npt.NDArray[np.int64] = order[start : start + held[code]]
            ranks = np.arange(ranks_before[code], ranks_before[code] + held[code], dtype=np.uint64)
            slots[mine] = self.permutations[code](ranks)
            start += int(held[code])
        return slots
