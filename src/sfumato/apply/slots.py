"""From the rank of a record among those of its value to a random slot, so that file order tells nothing of its cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes, Counts, Numbers
from sfumato.draws import Draws, FeistelPermutation, FeistelPermutations, TablePermutation
from sfumato.errors import SourceError

EMPTY: Numbers = np.zeros(0, dtype=np.uint8)


class Slots:
    """A keyed permutation of the ranks of each value."""

    def __init__(self, draws: Draws, purpose: str, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        permutations = draws.permutations(f"{purpose}/slots", counts)
        networks = [each for each in permutations if isinstance(each, FeistelPermutation)]
        tables = [each.table if isinstance(each, TablePermutation) else EMPTY for each in permutations]
        self._is_computed = np.array([isinstance(each, FeistelPermutation) for each in permutations])
        self._network = np.cumsum(self._is_computed) - 1
        self._networks = FeistelPermutations.joined(networks)
        self._tables = np.concatenate(tables)
        self._first = np.cumsum([0, *map(len, tables[:-1])])

    def __call__(self, codes: Codes, ranks_before: Counts) -> Numbers:
        """The slot of each record of a batch, given how many records of each value there are before it."""
        held = np.bincount(codes, minlength=len(self.counts))
        if (ranks_before + held > self.counts).any():
            raise SourceError("the table changed while it was read: a value is more frequent than before.")
        by_value = np.repeat(np.arange(len(held), dtype=codes.dtype), held)
        ranks = np.arange(len(codes)) + (ranks_before - np.cumsum(held) + held).take(by_value)
        permuted = self._permuted(by_value, ranks)
        slots = np.empty_like(permuted)
        slots[np.argsort(codes, kind="stable")] = permuted
        return slots

    def _permuted(self, by_value: Codes, ranks: Numbers) -> Numbers:
        """What becomes of the ranks of records: values of few of them have a table, those of many are computed."""
        kind = np.min_scalar_type(self.counts.max())
        if self._is_computed.all():
            return self._computed(by_value, ranks).astype(kind, copy=False)
        if not self._is_computed.any():
            return self._listed(by_value, ranks).astype(kind, copy=False)
        is_computed = self._is_computed.take(by_value)
        is_listed = ~is_computed
        permuted = np.empty(len(ranks), dtype=kind)
        permuted[is_computed] = self._computed(by_value[is_computed], ranks[is_computed])
        permuted[is_listed] = self._listed(by_value[is_listed], ranks[is_listed])
        return permuted

    def _computed(self, by_value: Codes, ranks: Numbers) -> Numbers:
        return self._networks(self._network.take(by_value), ranks)

    def _listed(self, by_value: Codes, ranks: Numbers) -> Numbers:
        return self._tables.take(self._first.take(by_value) + ranks)
