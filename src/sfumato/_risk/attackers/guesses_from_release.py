"""What a release teaches by itself: what each record shows, weighed by what people look like.

Whoever has the release and nothing else starts from what a record shows (the values of a bucket are equally likely for
all its people; a published value is true as often as the design says), counts how often each value then goes with each
value of a public column, weighs the values of every record by that, and begins again. Each column is taken for itself,
given the value.

Source: Kifer 2009 (attacks on privacy and de Finetti's theorem); here naive Bayes by expectation and maximisation, with
weights balanced in each bucket so that every value in it is given away as often as it is there.
Notation: a record may have the candidates of its bucket, or any value; weights[record, candidate], rows sum to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats, Places
from sfumato._records.tally import Holdings

BALANCINGS = 10
"""How often rows and columns of the weights of a bucket are brought to their sums in turn."""
FIRST_ROUNDS, FIRST_RECORDS = 200, 10_000
"""In so many rounds, by about so many records, the shares of the values are learned before any column is looked at."""


@dataclass(frozen=True, eq=False)
class CandidateBeliefs:
    """For each record the values that it may have, and how much each is believed."""

    candidates: Places
    """Places of values; minus one where a bucket holds fewer."""
    weights: Floats
    size: int
    """How many values there are."""

    @property
    def value_beliefs(self) -> Floats:
        """How much each value of the domain is believed, a row for each record."""
        belief_table = np.zeros((len(self.weights), self.size + 1))  # what is no candidate goes to the last column
        np.put_along_axis(belief_table, self.candidates, self.weights, axis=1)
        return belief_table[:, : self.size]

    @property
    def guesses(self) -> Places:
        """The likeliest value of each record."""
        best: Places = self.candidates[np.arange(len(self.weights)), self.weights.argmax(axis=1)]
        return best


def learn_from_buckets(buckets: Places, holdings: Holdings, columns: Sequence[Places], rounds: int) -> CandidateBeliefs:
    """What the buckets of the records, their contents and the public columns teach in so many rounds."""
    order = np.argsort(holdings.buckets, kind="stable")
    numbers, places, counts = (array[order] for array in (holdings.buckets, holdings.places, holdings.counts))
    rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    bucket_counts = np.zeros((int(numbers.max()) + 1, int(rank.max()) + 1))
    values = np.full(bucket_counts.shape, -1, dtype=np.int64)
    bucket_counts[numbers, rank], values[numbers, rank] = counts, places
    candidates, candidate_counts = values[buckets], bucket_counts[buckets]
    weights = candidate_counts / candidate_counts.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        weights = _compute_candidate_weights(candidates, weights, columns, holdings.domain_size) * candidate_counts
        for _ in range(BALANCINGS):
            assigned_counts = np.zeros_like(bucket_counts)
            np.add.at(assigned_counts, buckets, weights)
            weights *= (bucket_counts / np.where(assigned_counts > 0, assigned_counts, 1.0))[buckets]
            weights /= weights.sum(axis=1, keepdims=True)
    return CandidateBeliefs(candidates, weights, holdings.domain_size)


def learn_by_rounds(likelihoods: Floats, columns: Sequence[Places], rounds: int) -> Iterator[CandidateBeliefs]:
    """The same where each record shows something for itself, and may have any value: what is believed by round.

    Noise is learned along with the rest, and more of it in every round.
    """
    size = likelihoods.shape[1]
    shares = np.full(size, 1 / size)
    first, times = _count_distinct_rows(likelihoods[:: max(1, len(likelihoods) // FIRST_RECORDS)])
    for _ in range(FIRST_ROUNDS):  # each value by what it has of every record; as products of matrices, which are quick
        shares = shares * (first.T @ (times / (first @ shares))) / times.sum()
    weights = likelihoods * shares
    weights /= weights.sum(axis=1, keepdims=True)
    candidates = np.broadcast_to(np.arange(size), likelihoods.shape)
    yield CandidateBeliefs(candidates, weights, size)
    for _ in range(rounds):
        weights = _compute_value_weights(weights, columns) * likelihoods * weights.mean(axis=0)
        weights /= weights.sum(axis=1, keepdims=True)
        yield CandidateBeliefs(candidates, weights, size)


def _count_distinct_rows(likelihoods: Floats) -> tuple[Floats, Floats]:
    """The different rows, and how many records have each: most records show what others show too."""
    rows = np.ascontiguousarray(likelihoods)
    row_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, places, times = np.unique(row_bytes, return_index=True, return_counts=True)
    return likelihoods[places], times.astype(np.float64)


def learn_best_round(likelihoods: Floats, columns: Sequence[Places], rounds: int) -> CandidateBeliefs:
    """The same after as many rounds as let one half of the records foretell best what the other half shows.

    The release itself tells that, so whoever has it can stop in time.
    """
    half, best_fit, best_round = len(likelihoods) // 2, -np.inf, 0
    one, other = [column[:half] for column in columns], [column[half:] for column in columns]
    for number, beliefs in enumerate(learn_by_rounds(likelihoods[:half], one, rounds)):
        fit = float(np.log((predict_others(beliefs, one, other) * likelihoods[half:]).sum(axis=1)).mean())
        if fit < best_fit:
            break
        best_fit, best_round = fit, number
    return list(learn_by_rounds(likelihoods, columns, best_round))[-1]


def predict_others(learned_beliefs: CandidateBeliefs, columns: Sequence[Places], others: Sequence[Places]) -> Floats:
    """What is believed of others, of whom nothing is known but their columns, by what was learned of some records."""
    value_beliefs = learned_beliefs.value_beliefs
    shares = value_beliefs.mean(axis=0)
    logarithms = np.tile(np.log(np.maximum(shares, np.finfo(np.float64).tiny)), (len(others[0]) if others else 0, 1))
    for column, other_codes in zip(columns, others, strict=True):
        width = int(max(column.max(initial=0), other_codes.max(initial=0))) + 1
        logarithms += np.log(_compute_smoothed_shares(_sum_weights_by_value(value_beliefs, column, width), column)).T[
            other_codes
        ]
    beliefs = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return np.asarray(beliefs / beliefs.sum(axis=1, keepdims=True))


def _compute_candidate_weights(candidates: Places, weights: Floats, columns: Sequence[Places], size: int) -> Floats:
    """How likely the public columns of each record are for each of its candidates, up to a factor."""
    logarithms = np.zeros(weights.shape)
    for column in columns:
        width = int(column.max()) + 1
        pairs = np.maximum(candidates, 0) * width + column[:, np.newaxis]
        table = np.bincount(pairs.ravel(), weights=weights.ravel(), minlength=size * width).astype(np.float64)
        logarithms += np.log(_compute_smoothed_shares(table.reshape(size, width), column)).ravel().take(pairs)
    logarithms[candidates < 0] = -np.inf
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))


def _compute_value_weights(weights: Floats, columns: Sequence[Places]) -> Floats:
    """The same where every value is a candidate."""
    logarithms = np.zeros(weights.shape)
    for column in columns:
        table = _sum_weights_by_value(weights, column, int(column.max()) + 1)
        logarithms += np.log(_compute_smoothed_shares(table, column)).T[column]
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))


def _sum_weights_by_value(weights: Floats, column: Places, width: int) -> Floats:
    """For each value (row) how much of it goes with each value of a column."""
    return np.array([np.bincount(column, weights=value_weights, minlength=width) for value_weights in weights.T])


def _compute_smoothed_shares(table: Floats, column: Places) -> Floats:
    """From how much goes together to shares: how often a value (row) goes with each value of a column."""
    width = table.shape[1]
    # One record more of each value, spread as the whole column is: nothing that occurs is taken to be impossible.
    overall = (np.bincount(column, minlength=width) + 1 / width) / (len(column) + 1)
    return np.asarray((table + overall) / (table.sum(axis=1, keepdims=True) + 1))
