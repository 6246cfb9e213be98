"""The joint distribution of several columns, each of which acts along its own axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Floats, Mask
from sfumato.mechanisms._decoys.leak_matrix import DecoyDistribution

MOST_AMPLIFIED = 64
"""The amplification of noise is computed for this many values of a column."""

MOST_COMPOSED = 64
"""The number of conditions whose composition is cached."""
COMPOSITION_STEPS = 30
"""The number of steps of iterative Bayes that makes a composition good enough for a variance."""


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """The distributions of the columns of a query: each acts along its own axis."""

    distributions: tuple[DecoyDistribution, ...]
    _compositions: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    @cached_property
    def shares(self) -> Floats:
        """The shares of all combinations if the columns were unrelated."""
        products = np.ones(())
        for distribution in self.distributions:
            products = np.multiply.outer(products, distribution.shares)
        return np.asarray(products)

    def solve(self, theta: Floats) -> Floats:
        """The contribution of a record, by its published combination."""
        return self._apply_along_axes([distribution.solve for distribution in self.distributions], theta)

    def average(self, numbers: Floats) -> Floats:
        """The average of the numbers that a record of each combination publishes."""
        return self._apply_along_axes([distribution.average for distribution in self.distributions], numbers)

    def expect_published(self, true_counts: Floats) -> Floats:
        """The expected number of records that publish each combination, given the true counts."""
        return self._apply_along_axes(
            [distribution.expect_published for distribution in self.distributions], true_counts
        )

    @staticmethod
    def _apply_along_axes(steps: Sequence[Callable[[Floats], Floats]], numbers: Floats) -> Floats:
        if len(steps) == 1:
            return steps[0](numbers)
        for axis, step in enumerate(steps):
            numbers = np.moveaxis(step(np.moveaxis(numbers, axis, -1)), -1, axis)
        return numbers

    def compute_covariance(self, one: Floats, other: Floats) -> Floats:
        """The covariance of two numbers published by the record of each combination."""
        return np.asarray(self.average(one * other) - self.average(one) * self.average(other))

    def estimate_composition(self, counts: Floats) -> Floats:
        """Approximates the composition of the records by a few steps of iterative Bayes.

        The first step assumes unrelated columns.
        """
        key = counts.tobytes()
        if key not in self._compositions:  # queries often ask for many values of the same records
            if len(self._compositions) >= MOST_COMPOSED:
                self._compositions.clear()
            expected_counts = counts.sum() * self.shares
            for _ in range(COMPOSITION_STEPS):
                expected = self.expect_published(expected_counts)
                ratio = np.divide(counts, expected, out=np.zeros_like(expected), where=expected > 0)
                expected_counts = expected_counts * self.average(ratio)
            self._compositions[key] = np.asarray(expected_counts)
        return self._compositions[key]

    def compute_amplification(self, is_wanted: Mask) -> float:
        """The largest amplification of noise for the wanted combinations, as the product over the columns."""
        product = 1.0
        for distribution, places in zip(self.distributions, np.nonzero(is_wanted), strict=True):
            first_places = np.unique(places)[:MOST_AMPLIFIED]
            indicators = np.zeros((len(first_places), len(distribution.shares)))
            indicators[np.arange(len(first_places)), first_places] = 1.0
            factors = distribution.solve(indicators)[np.arange(len(first_places)), first_places]
            product *= float(np.abs(factors).max(initial=0.0))
        return product

    def is_estimable(self, theta: Floats) -> bool:
        """Whether published values have any information about the wanted numbers."""
        return all(
            distribution.is_estimable(np.moveaxis(theta, axis, -1))
            for axis, distribution in enumerate(self.distributions)
        )
