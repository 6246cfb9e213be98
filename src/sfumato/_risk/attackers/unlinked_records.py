"""Computes what the records of alike people tell about one of them, if nobody knows whose record is whose.

Rows of a release have a random order. So of n people with equal public columns, each record is equally likely to be a
person's own. Suppose the attacker believes that these people are independent. Then the probability of a value is the
mean of its probabilities given each record alone, which is exact. Suppose the attacker believes that these people are
tied. Then the records also tell which values are frequent in the class. The weight of a value has two parts. The first
is its believed share, as a number of imagined people (the concentration). The second is the sum of the probabilities
that the other records have this value. These probabilities are updated in turn (collapsed variational inference). For
one person, both methods equal Bayes' rule. For classes of two to five people, all assignments of values give the exact
probabilities. The approximation differs from these by at most 0.03, and by 0.005 on average
(`tests/unit/risk/attackers/test_unlinked_records.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices

CONCENTRATIONS = (math.inf, 30.0, 10.0)
"""The strengths of the ties that an attacker may assume between people who are alike, weakest first.

With stronger ties, the updates would often find only one of several explanations of the records.
"""
ROUNDS = 12
"""The number of updates of the probabilities of tied people."""
SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class ClassRecords:
    """The published records of some equivalence classes, class after class."""

    likelihoods: Floats
    """The likelihood of each record (rows) for each value (columns), up to a factor for each record."""
    sizes: Counts
    """The number of records of each class, at least 1."""

    def compute_posteriors(self, beliefs: Floats, concentration: float = math.inf) -> Floats:
        """The probability of each value (columns) for a person of each class (rows), given the beliefs about it."""
        weights = self._normalize(self.likelihoods * np.repeat(beliefs, self.sizes, axis=0))
        is_tied = np.repeat(self.sizes > 1, self.sizes)
        if not math.isinf(concentration) and is_tied.any():
            tied = ClassRecords(self.likelihoods[is_tied], self.sizes[self.sizes > 1])
            weights[is_tied] = tied.update_tied(weights[is_tied], concentration * beliefs[self.sizes > 1])
        return np.asarray(self._sum_classes(weights) / self.sizes[:, np.newaxis])

    def update_tied(self, weights: Floats, imagined_people: Floats) -> Floats:
        """Updates the probabilities of the values of all records in turn."""
        classes = np.repeat(np.arange(len(self.sizes)), self.sizes)
        for _ in range(ROUNDS):
            shares = (imagined_people + self._sum_classes(weights)).take(classes, axis=0)
            shares -= weights
            shares *= self.likelihoods
            weights = self._normalize(shares)
        return weights

    def _sum_classes(self, weights: Floats) -> Floats:
        return np.add.reduceat(weights, self.starts, axis=0)

    @property
    def starts(self) -> Indices:
        """The first record of each class."""
        return np.cumsum(self.sizes) - self.sizes

    @staticmethod
    def _normalize(weights: Floats) -> Floats:
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), SMALLEST)
        return weights
