"""From the rank of a record among those of its value to a random slot, so that file order tells nothing of its cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.arrays import BLOCK_ROWS, Codes, Counts, Numbers, Places
from sfumato._core.random_draws import Draws, FeistelPermutation, FeistelPermutations, TablePermutation
from sfumato.errors import SourceError

EMPTY: Numbers = np.zeros(0, dtype=np.uint8)


class Slots:
    """A keyed permutation of the ranks of each value."""

    def __init__(self, draws: Draws, purpose: str, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        permutations = draws.make_permutations(f"{purpose}/slots", counts)
        networks = [permutation for permutation in permutations if isinstance(permutation, FeistelPermutation)]
        tables = [
            permutation.table if isinstance(permutation, TablePermutation) else EMPTY for permutation in permutations
        ]
        self._is_computed = np.array([isinstance(permutation, FeistelPermutation) for permutation in permutations])
        self._network_numbers = np.cumsum(self._is_computed) - 1
        self._networks = FeistelPermutations.from_networks(networks)
        self._tables = np.concatenate(tables)
        self._first_entries = np.cumsum([0, *map(len, tables[:-1])])

    def __call__(self, codes: Codes, ranks_before: Counts) -> Numbers:
        """The slot of each record of a batch, given how many records of each value there are before it."""
        value_counts = np.bincount(codes, minlength=len(self.counts))
        if (ranks_before + value_counts > self.counts).any():
            raise SourceError("the table changed while it was read: a value is more frequent than before.")
        permuted = np.empty(len(codes), dtype=np.min_scalar_type(self.counts.max()))
        ends = np.cumsum(value_counts)
        shifts = ranks_before + value_counts - ends  # from where a record stands among all, value by value, to its rank
        for start in range(0, len(codes), BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, len(codes))
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            values = np.arange(first, last + 1)
            limits = np.clip(ends[values], start, stop)
            inside = limits - np.append(start, limits[:-1])
            ranks = np.arange(start, stop) + np.repeat(shifts[values], inside)
            permuted[start:stop] = self._permute(values, inside, ranks)
        slots = np.empty_like(permuted)
        slots[np.argsort(codes, kind="stable")] = permuted
        return slots

    def _permute(self, values: Places, rank_counts: Counts, ranks: Numbers) -> Numbers:
        """What becomes of so many ranks of each value: some values have a table, those of many records are computed."""
        is_computed = self._is_computed[values]
        if is_computed.all():
            return self._networks(self._network_numbers[values], rank_counts, ranks)
        if not is_computed.any():
            return self._tables.take(np.repeat(self._first_entries[values], rank_counts) + ranks)
        permuted = np.empty_like(ranks)
        for is_chosen in (is_computed, ~is_computed):
            is_own_rank = np.repeat(is_chosen, rank_counts)
            permuted[is_own_rank] = self._permute(values[is_chosen], rank_counts[is_chosen], ranks[is_own_rank])
        return permuted
