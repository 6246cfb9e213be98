"""What a release of buckets teaches by itself: the values of a bucket, weighed by what its people look like.

Whoever has the release and nothing else starts from the promise (the values of a bucket are equally likely for all its
people), counts how often each value then goes with each value of a public column, weighs the values of every bucket by
that, and begins again. Each column is taken for itself, given the value.

Source: Kifer 2009 (attacks on privacy and de Finetti's theorem); here naive Bayes by expectation and maximisation, with
weights balanced in each bucket so that every value in it is given away as often as it is there.
Notation: a record may have the candidates of its bucket; weights[record, candidate], rows summing to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats, Places
from sfumato.shown.tally import Holdings

BALANCINGS = 10
"""How often rows and columns of the weights of a bucket are brought to their sums in turn."""


@dataclass(frozen=True, eq=False)
class Beliefs:
    """For each record the values that its bucket holds, and how much each is believed."""

    candidates: Places
    """Places of values; minus one where a bucket holds fewer."""
    weights: Floats

    @property
    def guesses(self) -> Places:
        """The likeliest value of each record."""
        best: Places = self.candidates[np.arange(len(self.weights)), self.weights.argmax(axis=1)]
        return best


def learned(buckets: Places, holdings: Holdings, columns: Sequence[Places], rounds: int) -> Beliefs:
    """What the buckets of the records, their contents and the public columns teach in so many rounds."""
    order = np.argsort(holdings.buckets, kind="stable")
    numbers, places, counts = (each[order] for each in (holdings.buckets, holdings.places, holdings.counts))
    rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    held = np.zeros((int(numbers.max()) + 1, int(rank.max()) + 1))
    values = np.full(held.shape, -1, dtype=np.int64)
    held[numbers, rank], values[numbers, rank] = counts, places
    candidates, room = values[buckets], held[buckets]
    weights = room / room.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        weights = _weighed(candidates, weights, columns, holdings.domain_size) * room
        for _ in range(BALANCINGS):
            given = np.zeros_like(held)
            np.add.at(given, buckets, weights)
            weights *= (held / np.where(given > 0, given, 1.0))[buckets]
            weights /= weights.sum(axis=1, keepdims=True)
    return Beliefs(candidates, weights)


def _weighed(candidates: Places, weights: Floats, columns: Sequence[Places], size: int) -> Floats:
    """How likely the public columns of each record are for each of its candidates, up to a factor."""
    logarithms = np.zeros(weights.shape)
    for column in columns:
        width = int(column.max()) + 1
        pairs = np.maximum(candidates, 0) * width + column[:, np.newaxis]
        table = np.bincount(pairs.ravel(), weights=weights.ravel(), minlength=size * width).reshape(size, width)
        # One record more of each value, spread as the whole column is: nothing is ever taken to be impossible.
        overall = np.bincount(column, minlength=width) / len(column)
        table = (table + overall) / (table.sum(axis=1, keepdims=True) + 1)
        logarithms += np.log(table).ravel().take(pairs)
    logarithms[candidates < 0] = -np.inf
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))
