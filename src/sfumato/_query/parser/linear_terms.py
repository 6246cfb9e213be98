"""Splits linear combinations of sums into pieces of records with the same score.

If the score of a piece does not depend on the sensitive value, the piece is known exactly. Several factors may have
scores that are not multiples of each other. The pieces then form layers. The sum of the layers' standard errors is an
upper bound for the standard error of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._records.tally import COUNT, Tally, WeightTallies
from sfumato.mechanisms.estimator import SumPiece

ROUNDING = 1e-12
"""Scores are equal if they differ by less than this share of the largest score."""


def make_weight(factor: str | None) -> str:
    """The weight of a record for a factor. The weight is 1 without a factor."""
    return COUNT if factor is None else f"CAST({factor} AS DOUBLE)"


def multiply_weights(one: str, other: str) -> str:
    """The product of two weights."""
    if COUNT in (one, other):
        return other if one == COUNT else one
    return " * ".join(sorted((one, other)))


def list_products(weights: Iterable[str]) -> list[str]:
    """The products of weights whose sums are needed to estimate combinations of the weights and their errors."""
    distinct_weights = sorted(set(weights))
    all_products = [
        *distinct_weights,
        *(
            multiply_weights(one, other)
            for place, one in enumerate(distinct_weights)
            for other in distinct_weights[place:]
        ),
    ]
    return [weight for weight in dict.fromkeys(all_products) if weight != COUNT]


@dataclass(frozen=True)
class Term:
    """The contribution of one group and signature, with a score of the sensitive value for each weight."""

    tallies: WeightTallies
    scores: Mapping[str, Floats]


@dataclass
class Combination:
    """A linear combination of sums."""

    constant: float
    """The part that public columns alone determine."""
    layers: list[list[SumPiece]]


def combine_terms(terms: Sequence[Term], nonnegative_weights: frozenset[str]) -> Combination:
    """Gathers the terms of a linear combination. `nonnegative_weights` are the weights that are never negative."""
    total_constant = 0.0
    layers: list[dict[tuple[str, bytes], list[SumPiece]]] = []
    for term in terms:
        directions, constant = _find_directions(term)
        total_constant += constant
        for number, direction in enumerate(directions):
            if number == len(layers):
                layers.append({})
            piece = _make_piece(term.tallies, direction, nonnegative_weights)
            key = (" ".join(direction.factors), piece.theta.tobytes())
            layers[number].setdefault(key, []).append(piece)
    return Combination(total_constant, [[_merge_pieces(pieces) for pieces in layer.values()] for layer in layers])


@dataclass
class _Direction:
    """A score, with its factor for each weight."""

    theta: Floats
    factors: dict[str, float]


def _find_directions(term: Term) -> tuple[list[_Direction], float]:
    """The scores of a term without their constant parts. Scores that are multiples of each other are merged."""
    directions: list[_Direction] = []
    constant = 0.0
    for weight, theta in term.scores.items():
        spread = float(theta.max() - theta.min())
        if spread <= ROUNDING * float(np.abs(theta).max(initial=0.0)):
            constant += float(theta[0]) * float(term.tallies[weight].rows[0])
            continue
        for direction in directions:
            factor, shift = _find_multiple(theta, direction.theta)
            if np.abs(theta - factor * direction.theta - shift).max() <= ROUNDING * spread:
                direction.factors[weight] = factor
                constant += shift * float(term.tallies[weight].rows[0])
                break
        else:
            directions.append(_Direction(theta, {weight: 1.0}))
    return directions, constant


def _find_multiple(theta: Floats, other: Floats) -> tuple[float, float]:
    """The factor and the shift that map one score to another, if they exist."""
    low, high = int(other.argmin()), int(other.argmax())
    factor = float((theta[high] - theta[low]) / (other[high] - other[low]))
    return factor, float(theta[low] - factor * other[low])


def _make_piece(tallies: WeightTallies, direction: _Direction, nonnegative_weights: frozenset[str]) -> SumPiece:
    weights = list(direction.factors)
    if weights == [COUNT]:
        return SumPiece(direction.theta, tallies[COUNT], tallies[COUNT])
    if len(weights) == 1:
        (weight,) = weights
        squares = tallies[multiply_weights(weight, weight)]
        return SumPiece(direction.theta, tallies[weight], squares, weight in nonnegative_weights)
    first = Tally.combine([(tallies[weight], factor) for weight, factor in direction.factors.items()])
    second = Tally.combine(
        [
            (tallies[multiply_weights(one, other)], by_one * by_other)
            for one, by_one in direction.factors.items()
            for other, by_other in direction.factors.items()
        ]
    )
    return SumPiece(direction.theta, first, second)


def _merge_pieces(pieces: Sequence[SumPiece]) -> SumPiece:
    """Merges pieces with the same scores."""
    if len(pieces) == 1:
        return pieces[0]
    first = Tally.combine([(piece.tally, 1) for piece in pieces])
    if all(piece.tally is piece.squared_tally for piece in pieces):
        return SumPiece(pieces[0].theta, first, first)
    second = Tally.combine([(piece.squared_tally, 1) for piece in pieces])
    return SumPiece(pieces[0].theta, first, second, all(piece.is_positive for piece in pieces))
