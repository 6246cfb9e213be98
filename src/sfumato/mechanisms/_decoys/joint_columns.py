"""The laws of several columns together: each acts along an axis of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato._core.arrays import Floats, Mask
from sfumato.mechanisms._decoys.leak_matrix import DecoyLaw

MOST_AMPLIFIED = 64
"""Of so many values of a column it is looked at how much noise is amplified."""

MOST_COMPOSED = 64
"""Of the records of so many conditions it is remembered what they hold."""
COMPOSITION_STEPS = 30
"""Steps of iterative Bayes after which a composition is good enough to take a variance from."""


@dataclass(frozen=True, eq=False)
class Joint:
    """The laws of the columns that a question is about: each acts along its own axis."""

    laws: tuple[DecoyLaw, ...]
    _composed: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    @cached_property
    def shares(self) -> Floats:
        """The shares of all combinations if the columns were unrelated."""
        products = np.ones(())
        for law in self.laws:
            products = np.multiply.outer(products, law.shares)
        return np.asarray(products)

    def solve(self, wanted: Floats) -> Floats:
        """What a record adds, by the combination it shows."""
        return self._along([law.solve for law in self.laws], wanted)

    def mean(self, numbers: Floats) -> Floats:
        """The average of the numbers that a record of each combination shows."""
        return self._along([law.mean for law in self.laws], numbers)

    def shown(self, held: Floats) -> Floats:
        """How many records are expected to show each combination if so many hold it."""
        return self._along([law.shown for law in self.laws], held)

    @staticmethod
    def _along(steps: Sequence[Callable[[Floats], Floats]], numbers: Floats) -> Floats:
        if len(steps) == 1:
            return steps[0](numbers)
        for axis, step in enumerate(steps):
            numbers = np.moveaxis(step(np.moveaxis(numbers, axis, -1)), -1, axis)
        return numbers

    def covariance(self, one: Floats, other: Floats) -> Floats:
        """The covariance of two numbers that the record of each combination shows."""
        return np.asarray(self.mean(one * other) - self.mean(one) * self.mean(other))

    def composition(self, counts: Floats) -> Floats:
        """What the records hold, about: a few steps of iterative Bayes from unrelated columns."""
        key = counts.tobytes()
        if key not in self._composed:  # many values are asked of the same records
            if len(self._composed) >= MOST_COMPOSED:
                self._composed.clear()
            expected_counts = counts.sum() * self.shares
            for _ in range(COMPOSITION_STEPS):
                expected = self.shown(expected_counts)
                ratio = np.divide(counts, expected, out=np.zeros_like(expected), where=expected > 0)
                expected_counts = expected_counts * self.mean(ratio)
            self._composed[key] = np.asarray(expected_counts)
        return self._composed[key]

    def amplification(self, wanted: Mask) -> float:
        """How much noise is amplified for the wanted combinations at most: the product over the columns."""
        product = 1.0
        for law, places in zip(self.laws, np.nonzero(wanted), strict=True):
            chosen = np.unique(places)[:MOST_AMPLIFIED]
            single = np.zeros((len(chosen), len(law.shares)))
            single[np.arange(len(chosen)), chosen] = 1.0
            undone = law.solve(single)[np.arange(len(chosen)), chosen]
            product *= float(np.abs(undone).max(initial=0.0))
        return product

    def tells(self, wanted: Floats) -> bool:
        """Whether what records show tells anything of the wanted numbers."""
        return all(law.tells(np.moveaxis(wanted, axis, -1)) for axis, law in enumerate(self.laws))
