"""Learns from a release alone, by weighing published values with the public columns of the records.

The attacker starts from the published value of each record. The values of a bucket are equally likely for all its
people; a published value is true as often as the design says. Then the attacker counts how often each value occurs
with each value of a public column, weighs the values of every record by these counts, and repeats. Columns are
treated as independent given the value.

Source: Kifer 2009 (attacks on privacy and de Finetti's theorem); here naive Bayes by expectation and maximisation. The
weights in each bucket are balanced so that every value is assigned as often as it occurs in the bucket.
Notation: the candidates of a record are the values of its bucket, or all values; weights[record, candidate] has rows
with the sum 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats, Places
from sfumato._records.tally import Holdings

BALANCINGS = 10
"""The number of times that rows and columns of a bucket's weights are scaled to their sums."""
FIRST_ROUNDS, FIRST_RECORDS = 200, 10_000
"""The numbers of rounds and records for learning the shares of the values before any column is used."""


@dataclass(frozen=True, eq=False)
class CandidateBeliefs:
    """The possible values of each record, with their probabilities."""

    candidates: Places
    """The places of the candidate values; -1 if a bucket has fewer values."""
    weights: Floats
    size: int
    """The number of values."""

    @property
    def value_beliefs(self) -> Floats:
        """The belief in each value of the domain, with one row for each record."""
        belief_table = np.zeros((len(self.weights), self.size + 1))  # missing candidates go to the last column
        np.put_along_axis(belief_table, self.candidates, self.weights, axis=1)
        return belief_table[:, : self.size]

    @property
    def guesses(self) -> Places:
        """The most likely value of each record."""
        best: Places = self.candidates[np.arange(len(self.weights)), self.weights.argmax(axis=1)]
        return best


def learn_from_buckets(buckets: Places, holdings: Holdings, columns: Sequence[Places], rounds: int) -> CandidateBeliefs:
    """Learns from buckets, their contents and the public columns in the given number of rounds."""
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
    """Learns from separately published records that may have any value, and yields the beliefs of each round.

    Every round learns more noise too.
    """
    size = likelihoods.shape[1]
    shares = np.full(size, 1 / size)
    first, times = _count_distinct_rows(likelihoods[:: max(1, len(likelihoods) // FIRST_RECORDS)])
    for _ in range(FIRST_ROUNDS):  # total weight of each value, by matrix products for speed
        shares = shares * (first.T @ (times / (first @ shares))) / times.sum()
    weights = likelihoods * shares
    weights /= weights.sum(axis=1, keepdims=True)
    candidates = np.broadcast_to(np.arange(size), likelihoods.shape)
    yield CandidateBeliefs(candidates, weights, size)
    for _ in range(rounds):
        weights = _compute_value_weights(weights, columns) * likelihoods * weights.mean(axis=0)
        weights /= weights.sum(axis=1, keepdims=True)
        yield CandidateBeliefs(candidates, weights, size)


def learn_by_updates(
    update_beliefs: Callable[[Floats], Floats | None], columns: Sequence[Places], size: int, rounds: int
) -> Iterator[CandidateBeliefs]:
    """Learns from a release that updates the beliefs about all records together, such as counts of people.

    The first beliefs are those of equally likely values. Then every round counts the shares of the values, and how they
    occur with the public columns.
    """
    beliefs: Floats = np.full((len(columns[0]), size), 1 / size)
    candidates = np.broadcast_to(np.arange(size), beliefs.shape)
    for number in range(rounds + 2):
        posteriors = update_beliefs(beliefs)
        if posteriors is None:
            return
        if number:
            yield CandidateBeliefs(candidates, posteriors, size)
        shares = np.maximum(posteriors.mean(axis=0), np.finfo(np.float64).tiny)
        beliefs = np.tile(shares, (len(posteriors), 1)) * (
            _compute_value_weights(posteriors, columns) if number else 1.0
        )
        beliefs = np.maximum(beliefs, np.finfo(np.float64).tiny)
        beliefs /= beliefs.sum(axis=1, keepdims=True)


def _count_distinct_rows(likelihoods: Floats) -> tuple[Floats, Floats]:
    """The distinct rows and their numbers of records. Most published values repeat."""
    rows = np.ascontiguousarray(likelihoods)
    row_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, places, times = np.unique(row_bytes, return_index=True, return_counts=True)
    return likelihoods[places], times.astype(np.float64)


def learn_best_round(likelihoods: Floats, columns: Sequence[Places], rounds: int) -> CandidateBeliefs:
    """The beliefs of the round in which one half of the records best predicts the published values of the other half.

    The release suffices to find this round, so an attacker can stop in time.
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
    """The beliefs about other people from their public columns alone, learned from some records."""
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
    """The likelihood of each record's public columns for each of its candidates, up to a factor."""
    logarithms = np.zeros(weights.shape)
    for column in columns:
        width = int(column.max()) + 1
        pairs = np.maximum(candidates, 0) * width + column[:, np.newaxis]
        table = np.bincount(pairs.ravel(), weights=weights.ravel(), minlength=size * width).astype(np.float64)
        logarithms += np.log(_compute_smoothed_shares(table.reshape(size, width), column)).ravel().take(pairs)
    logarithms[candidates < 0] = -np.inf
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))


def _compute_value_weights(weights: Floats, columns: Sequence[Places]) -> Floats:
    """The likelihood of each record's public columns if every value is a candidate."""
    logarithms = np.zeros(weights.shape)
    for column in columns:
        table = _sum_weights_by_value(weights, column, int(column.max()) + 1)
        logarithms += np.log(_compute_smoothed_shares(table, column)).T[column]
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))


def _sum_weights_by_value(weights: Floats, column: Places, width: int) -> Floats:
    """For each value (row), its total weight with each value of a column."""
    return np.array([np.bincount(column, weights=value_weights, minlength=width) for value_weights in weights.T])


def _compute_smoothed_shares(table: Floats, column: Places) -> Floats:
    """Turns weights into shares: how often each value (row) occurs with each value of a column."""
    width = table.shape[1]
    # One record of each value is added, distributed like the whole column, so that every value stays possible.
    overall = (np.bincount(column, minlength=width) + 1 / width) / (len(column) + 1)
    return np.asarray((table + overall) / (table.sum(axis=1, keepdims=True) + 1))
