"""Estimates sums over independently perturbed records, by weights of their published values.

A sum is requested by theta, a number for each value of the domain. Each record adds a weight that depends on its
published value; the mean of the weight is the theta of the record's true value. The variance of that weight also
depends on the true value, so a second set of weights estimates it. A theta may also be an array of several thetas,
along its last axis.

Notation: y = the true value, w = the weight of a record, V(y) = E[w² | y] - theta_y²; p and q as for operators, a, b, d
and m as for subsets; S, Q = the sum and the sum of squares of theta.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sfumato._core.array_types import Floats, Indices
from sfumato._records.tally import Holdings, Tally
from sfumato.mechanisms._randomized_response.inverse_estimation import compute_unbiased_weights
from sfumato.mechanisms._randomized_response.perturbation_operators import Operator
from sfumato.mechanisms.estimator import BrowserEstimator, Method, Moments, SumPiece, Weights

DesignT = TypeVar("DesignT")


class Weighing(ABC):
    """Turns scores into weights of published entries: values of the domain, or a sub-table and a value in it."""

    @abstractmethod
    def expand_to_entries(self, theta: Floats) -> Floats:
        """The theta of each entry."""

    @abstractmethod
    def weigh_scores(self, scores: Floats) -> Weights:
        """The weights of published entries. The mean weight of a record is the score of its true entry."""

    @abstractmethod
    def compute_variances(self, theta: Floats) -> Floats:
        """For each entry, the variance of the weight of a record with this true entry."""

    @abstractmethod
    def bound_scores(self, scores: Floats) -> tuple[Weights, Weights]:
        """The certain bounds of the score of a record, by its published value."""

    def weigh_values(self, theta: Floats) -> Weights:
        """The weights for the sum of z * theta[true value]."""
        return self.weigh_scores(self.expand_to_entries(theta))

    def sum_set_variances(self, entry_counts: Floats, sets: Sequence[Indices], size: int) -> Floats:
        """The variance of the count of each set of values, given the number of records of each entry."""
        variances = []
        for places in sets:
            theta = np.zeros(size)
            theta[places] = 1.0
            variances.append(float(self.compute_variances(theta) @ entry_counts))
        return np.array(variances)


@dataclass(frozen=True, slots=True)
class OperatorWeights(Weighing):
    """Records whose values are kept or redrawn within their sub-tables."""

    operator: Operator

    def expand_to_entries(self, theta: Floats) -> Floats:
        """The theta of the value of each entry."""
        return np.asarray(theta[..., self.operator.places])

    def weigh_scores(self, scores: Floats) -> Weights:
        """Inverts the operator: gives a weight for each entry."""
        return self._wrap_weights(compute_unbiased_weights(self.operator, scores))

    def compute_variances(self, theta: Floats) -> Floats:
        """V(y) = q_y (sum of w² over the sub-table) + p_y w_y² - theta_y².

        Adding a constant to theta within a sub-table does not change it. The constant is chosen so that no large
        numbers cancel.
        """
        operator = self.operator
        scores = self.expand_to_entries(theta)
        scores = scores - scores[..., operator.first_entries[operator.cells]]
        squares = compute_unbiased_weights(operator, scores) ** 2
        sums = np.add.reduceat(squares, operator.first_entries, axis=-1)[..., operator.cells]
        return np.asarray(np.maximum(operator.swap * sums + operator.retention * squares - scores**2, 0.0))

    def bound_scores(self, scores: Floats) -> tuple[Weights, Weights]:
        """The smallest and the largest score of the sub-table."""
        first, cells = self.operator.first_entries, self.operator.cells
        least, most = (extreme.reduceat(scores, first, axis=-1) for extreme in (np.minimum, np.maximum))
        return self._wrap_weights(least[..., cells]), self._wrap_weights(most[..., cells])

    @staticmethod
    def _wrap_weights(weights: Floats) -> Weights:
        return Weights(weights, np.zeros(weights.shape[:-1]))


@dataclass(frozen=True, slots=True)
class SetWeights(Weighing):
    """Records that publish random sets of values."""

    size: int
    members: int
    hold: float
    """The probability that a set holds the true value."""
    other: float
    """The probability that a set holds one given value other than the true value."""

    def expand_to_entries(self, theta: Floats) -> Floats:
        """Returns theta: every index of the domain is an entry."""
        return theta

    def weigh_scores(self, scores: Floats) -> Weights:
        """The weight of a set: (the sum of its scores - b S) / (a - b)."""
        gain = self.hold - self.other
        return Weights(scores / gain, -self.other * scores.sum(axis=-1) / gain)

    def compute_variances(self, theta: Floats) -> Floats:
        """The variance of the sum of the scores in a set, over (a - b)².

        There are n = m - 1 values other than y. A set holds k of these: k = d - 1 if it holds y, and k = d if not. They
        are drawn without replacement. The variance of their summed scores is k (n-k) / (n-1) times the variance of the
        others' scores. The value y itself moves the mean by theta_y less the mean of the others. All sets have d
        members, so a constant changes nothing.
        """
        scores = theta - theta[..., :1]
        others = self.size - 1
        mean = (scores.sum(axis=-1, keepdims=True) - scores) / others
        scatter = ((scores**2).sum(axis=-1, keepdims=True) - scores**2) / others - mean**2
        draw_factor = sum(
            chance * number * (others - number)
            for chance, number in ((self.hold, self.members - 1), (1 - self.hold, self.members))
        ) / max(others - 1, 1)
        variances = draw_factor * np.maximum(scatter, 0.0) + self.hold * (1 - self.hold) * (scores - mean) ** 2
        return np.asarray(variances / (self.hold - self.other) ** 2)

    def bound_scores(self, scores: Floats) -> tuple[Weights, Weights]:
        """The smallest and the largest of all scores."""
        nothing = np.zeros_like(scores)
        return Weights(nothing, scores.min(axis=-1)), Weights(nothing, scores.max(axis=-1))


def estimate_total(weighing: Weighing, pieces: Sequence[SumPiece]) -> Moments:
    """Estimates the sum over all pieces, and its variance without bias, but at least its certain minimum."""
    value, variance, floor = 0.0, 0.0, 0.0
    for piece in pieces:
        spread = weighing.compute_variances(piece.theta)
        value += weighing.weigh_values(piece.theta).sum_tally(piece.tally)
        variance += weighing.weigh_scores(spread).sum_tally(piece.squared_tally)
        floor += weighing.bound_scores(spread)[0].sum_tally(piece.squared_tally)
    least, most = compute_certain_bounds(weighing, pieces)
    return Moments.of(value, max(variance, floor, 0.0), 0.0, most, least)


def make_weighted_method(  # noqa: PLR0913, PLR0917 - the parts of a method
    weighing: Callable[[DesignT], Weighing],
    label: str,
    assumption: str,
    count: Callable[[DesignT, Tally, Sequence[Indices]], list[Moments]],
    needs_hits_only: Callable[[DesignT], bool] | None = None,
    twin: Callable[[DesignT, Tally, Holdings | None], BrowserEstimator] | None = None,
) -> Method[DesignT]:
    """Makes the unbiased method for a design whose records have weights.

    Sums and weights work in the same way for all designs.
    """
    return Method(
        label,
        assumption,
        count,
        total=lambda design, pieces: estimate_total(weighing(design), pieces),
        compute_weights=lambda design, theta: weighing(design).weigh_values(theta),
        needs_hits_only=needs_hits_only,
        twin=twin,
    )


def compute_set_variances(weighing: Weighing, counts: Sequence[int], share: float, sets: Sequence[Indices]) -> Floats:
    """The exact variance of the count of each set of values, if a share of the records of each value is counted."""
    return weighing.sum_set_variances(share * np.array(counts, dtype=np.float64), sets, len(counts))


def compute_count_variances(records: tuple[Floats, Floats], rows: Floats, counts: Floats) -> Floats:
    """The variance of the count of each value, from the variances of records with and without the value."""
    own, other = records
    return own * counts + other * (rows - counts)


def compute_certain_bounds(weighing: Weighing, pieces: Sequence[SumPiece]) -> tuple[float, float]:
    """The certain bounds of the sum, whatever the true values are."""
    if not all(piece.has_bounds for piece in pieces):
        return -math.inf, math.inf
    ranges = [(weighing.bound_scores(weighing.expand_to_entries(piece.theta)), piece.tally) for piece in pieces]
    return sum(least.sum_tally(tally) for (least, _), tally in ranges), sum(
        most.sum_tally(tally) for (_, most), tally in ranges
    )
