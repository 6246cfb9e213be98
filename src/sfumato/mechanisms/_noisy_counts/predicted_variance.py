"""Predicts the variance that people add to a count, from the public sizes of groups alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.mechanisms._noisy_counts.crowd_size import predict_cell_variance
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

ClassSizes = Sequence[tuple[int, int]]
"""Sizes of groups of people with equal public columns, each with the number of such groups."""


@dataclass(frozen=True)
class PeopleByCrowd:
    """The share of people outside crowds, and the mean variance that a person in a crowd adds to a count."""

    share_outside: float
    crowd_variance: float

    @classmethod
    def of(
        cls, noise: FixedSumNoise, smallest_crowd: int, class_sizes: ClassSizes, people_outside: int = 0
    ) -> PeopleByCrowd:
        """Adds up the groups. `people_outside` are people in none of them. Without groups, nobody is in a crowd."""
        outside, inside, variance = people_outside, 0, 0.0
        for size, classes in class_sizes:
            if size < smallest_crowd:
                outside += size * classes
            else:
                inside += size * classes
                variance += classes * predict_cell_variance(noise, size)
        return cls(outside / (outside + inside) if outside else float(not inside), variance / inside if inside else 0.0)

    def average(self, outside_variance: float) -> float:
        """The mean variance of a person, given that of people outside crowds."""
        return self.share_outside * outside_variance + (1 - self.share_outside) * self.crowd_variance
