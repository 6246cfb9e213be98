"""Computes what the noisy counts of a crowd tell about the value of one of its people.

The attacker believes that each person of the crowd has each value with some probability. The attacker also believes
that people who are alike have more in common than these probabilities say. Before the release, the counts of the crowd
have a Dirichlet multinomial distribution. Its concentration is the number of imagined people with the believed shares.
With a small concentration, most people of a crowd have the same few values. With an infinite concentration, people are
independent.

All people of a crowd are exchangeable. So the probability of a value is its mean count given the noisy counts, divided
by the number of people. Each mean uses only the noisy counts of its own value, with the exact distribution of the noise
of one count. The means are then normalised. This method ignores what the other counts tell about the noise. It was
compared with a computation from all counts, for crowds of two to eight people with three values. On average, the
probabilities are off by 0.01 to 0.03. The share of correct guesses is lower by at most one percentage point, and mostly
by less than 0.1 points (`tests/unit/risk/attackers/test_crowd_posteriors.py`).

Notation: n = people, y = noisy count, h = true count, p = believed share; a = concentration times p; z = y - h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices
from sfumato._profile.equivalence_classes import number_combinations

CONCENTRATIONS = (math.inf, 30.0, 10.0, 3.0)
"""The strengths of the ties that an attacker may assume between people who are alike, weakest first."""
GRID_STEP = 0.25
"""The distance between log-odds of shares for which means are computed. Between them, they are interpolated."""
WIDEST = 256
"""The largest number of true counts that are tried for a noisy count.

In a longer range, this number of counts is tried at equal distances.
"""
MARGIN = 12.0
"""The largest distance between a tried true count and the count expected before the release.

The unit is one standard deviation plus one person.
"""
CHUNK_CELLS, CHUNK_PAIRS = 1 << 18, 1 << 14
SMALLEST = np.finfo(np.float64).tiny
SMALLEST_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class CountsOfRows:
    """For some people (rows), the people of their crowd whose values are unknown, and what is published about them."""

    people: Counts
    """The people of the crowd whose value the attacker does not know."""
    noisy: Sequence[Counts]
    """The noisy count of each value (columns) among these people; from each release."""
    known: Counts | None = None
    """The true counts of the other people of the crowd, if the attacker knows them."""


def compute_crowd_posteriors(
    beliefs: Floats, counts: CountsOfRows, noise: Floats, concentration: float = math.inf
) -> Floats:
    """The probabilities of the values (columns) of some people (rows), given the noisy counts of their crowds.

    `noise` has the probabilities of the noise of one count, from the most negative number to the most positive one.
    """
    rows, size = beliefs.shape
    if not rows:
        return beliefs.copy()
    shares, known_people = mix_with_known(beliefs, counts.known, concentration), np.zeros(rows, dtype=np.int64)
    if counts.known is not None and not math.isinf(concentration):
        known_people = counts.known.sum(axis=1)
    log_odds = np.log(shares / (1 - shares)) / GRID_STEP
    grid = np.floor(log_odds).astype(np.int64)
    people_of_pairs, known_of_pairs = (np.repeat(numbers, size) for numbers in (counts.people, known_people))
    pairs = _DistinctPairs.of([people_of_pairs, known_of_pairs, grid.ravel(), *(item.ravel() for item in counts.noisy)])
    low, high = (np.log(np.maximum(pairs.compute_means(step, noise, concentration), SMALLEST)) for step in (0, 1))
    part = (log_odds - grid).ravel()
    means = np.exp(low[pairs.numbers] * (1 - part) + high[pairs.numbers] * part).reshape(rows, size)
    return np.asarray(means / np.maximum(means.sum(axis=1, keepdims=True), SMALLEST))


def mix_with_known(beliefs: Floats, known: Counts | None, concentration: float) -> Floats:
    """The believed shares among people of a crowd after other people's values became known."""
    shares = np.clip(beliefs, SMALLEST_SHARE, 1 - SMALLEST_SHARE)
    if known is None or math.isinf(concentration):
        return shares
    weights = (concentration + known.sum(axis=1))[:, np.newaxis]
    return np.asarray(np.clip((concentration * shares + known) / weights, SMALLEST_SHARE, 1 - SMALLEST_SHARE))


@dataclass(frozen=True, eq=False)
class _DistinctPairs:
    """The distinct pairs of a person and a value. Pairs are equal if their mean counts follow from equal numbers."""

    columns: Sequence[Counts]
    """The people of the crowd, the known people, the share as a position on the grid, and the noisy counts."""
    numbers: Indices
    """The distinct pair of each pair."""

    @classmethod
    def of(cls, columns: Sequence[Counts]) -> _DistinctPairs:
        numbers = number_combinations([column - column.min() for column in columns])
        first = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
        first[numbers] = np.arange(len(numbers))
        return cls([column[first] for column in columns], numbers)

    def compute_means(self, step: int, noise: Floats, concentration: float) -> Floats:
        """The mean count of each pair, with the share at its position on the grid or one step above."""
        people, known, grid, *noisy = self.columns
        odds = np.exp(GRID_STEP * (grid + step))
        concentrations: Floats = np.asarray(concentration + known, dtype=np.float64)
        return compute_count_means(people, noisy, np.asarray(odds / (1 + odds)), concentrations, noise)


def compute_count_means(
    people: Counts, noisy: Sequence[Counts], shares: Floats, concentrations: Floats, noise: Floats
) -> Floats:
    """The mean of each true count, given its noisy counts, from a beta-binomial distribution (binomial if infinite)."""
    first, last = _find_ranges(people, noisy, shares, concentrations, len(noise) // 2)
    means, lengths = np.empty(len(people)), last - first + 1
    log_noise = np.log(np.maximum(noise, SMALLEST))
    order, start = np.argsort(lengths, kind="stable"), 0
    while start < len(order):  # ranges of similar length together
        longest = int(lengths[order[min(start + CHUNK_PAIRS, len(order)) - 1]])
        part = order[start : start + min(CHUNK_PAIRS, max(1, CHUNK_CELLS // min(longest, WIDEST)))]
        counts = _list_counts(first[part], last[part])
        logs = _compute_log_priors(counts, people[part], shares[part], concentrations[part])
        for column in noisy:
            offsets = column[part, np.newaxis] - counts + len(noise) // 2
            logs += log_noise.take(np.clip(offsets, 0, len(noise) - 1))
        logs[counts > last[part, np.newaxis]] = -np.inf
        logs -= logs.max(axis=1, keepdims=True)
        weights = np.exp(logs, out=logs)
        means[part] = (weights * counts).sum(axis=1) / weights.sum(axis=1)
        start += len(part)
    return means


def _list_counts(first: Counts, last: Counts) -> Counts:
    """The true counts to try (columns) for each row; those after the last one are to be ignored."""
    longest = int((last - first).max()) + 1
    if longest < WIDEST:
        return np.asarray(first[:, np.newaxis] + np.arange(longest))
    steps = np.rint(np.linspace(0, 1, WIDEST) * (last - first)[:, np.newaxis]).astype(np.int64)
    return np.asarray(first[:, np.newaxis] + steps)


def _find_ranges(
    people: Counts, noisy: Sequence[Counts], shares: Floats, concentrations: Floats, reach: int
) -> tuple[Counts, Counts]:
    """The true counts that are likely both before the release and with it. If there are none, the counts in between."""
    with np.errstate(invalid="ignore"):
        tie = np.where(np.isinf(concentrations), 1.0, (concentrations + people) / (concentrations + 1))
    deviation = np.sqrt(people * shares * (1 - shares) * tie)
    expected, margin = people * shares, MARGIN * (deviation + 1)
    low = np.maximum(np.max(noisy, axis=0) - reach, np.floor(expected - margin))
    high = np.minimum(np.min(noisy, axis=0) + reach, np.ceil(expected + margin))
    ends = [np.clip(end, 0, people).astype(np.int64) for end in (np.minimum(low, high), np.maximum(low, high))]
    return ends[0], ends[1]


def _compute_log_priors(counts: Counts, people: Counts, shares: Floats, concentrations: Floats) -> Floats:
    """The logarithm of the probability of each count (columns) before the release, up to a constant for each row."""
    limits, chances = people[:, np.newaxis], shares[:, np.newaxis]
    rest = np.maximum(limits - counts, 0)  # the people without this value
    is_tied = not np.isinf(concentrations).all()
    own, others = (concentrations[:, np.newaxis] * part for part in (chances, 1 - chances))
    if counts.shape[1] == WIDEST:  # not all counts of a range may be listed
        from scipy.special import gammaln  # noqa: PLC0415 - scipy takes long to load, and only wide noise needs it

        logs = -gammaln(counts + 1) - gammaln(rest + 1)
        if is_tied:
            return np.asarray(logs + gammaln(own + counts) + gammaln(others + rest))
        return np.asarray(logs + counts * np.log(chances / (1 - chances)))
    ratios = np.log(rest + 1.0) - np.log(np.maximum(counts, 1))  # from the count that is smaller by one
    if is_tied:
        ratios += np.log(own + np.maximum(counts - 1, 0)) - np.log(others + rest)
    else:
        ratios += np.log(chances / (1 - chances))
    ratios[:, 0] = 0.0
    return np.asarray(np.cumsum(ratios, axis=1))
