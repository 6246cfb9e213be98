"""Tests randomness by betting against it, with an exact false alarm rate for tables of any size.

A gambler reads the rows and bets on the next value at the odds of a random order, in which each remaining row is
equally likely to come next. In a random order no strategy gains on average. So a capital of 1 reaches 1/a or more with
probability at most a (Markov). Nothing is approximated, even for small tables or rare values.

The capital is stored as a logarithm. Several strategies, each with a part of the capital, form one strategy.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats

FALSE_ALARMS = 1e-6
"""The largest probability of a finding about the order, if a table is in random order."""

REPEAT_FACTORS = np.array([1 / 16, 1 / 4, 2 / 3, 0.9, 0.98, 1.02, 1.1, 1.5, 3.0, 10.0, 100.0, 1e4])
"""The bet is that a repeat of the previous row is this number of times as likely as by chance."""

DRIFTS = np.array([-16.0, -4.0, -1.0, -0.25, -0.05, 0.05, 0.25, 1.0, 4.0, 16.0])
"""The bet, as a logarithm, on how much more likely small values are than middle values at the beginning of a table."""

MOST_BINS = 16
MOST_STRETCHES = 64
BLOCK_ROWS = 16
PRIOR_RECORDS = 3.0
"""The weight of independence, as a number of unrelated records, compared with the observed pairs."""


def compute_shared_capital(capitals: Floats) -> float:
    """The logarithm of a capital that is divided equally among several strategies."""
    largest = capitals.max()
    return float(largest + np.log(np.exp(capitals - largest).mean()))


def bin_codes(codes: Codes, size: int) -> Codes:
    """Codes of an ordered column in a limited number of bins with about equal rows."""
    if size <= MOST_BINS:
        return codes
    counts = np.bincount(codes, minlength=size)
    middles = (np.cumsum(counts) - counts / 2) / max(len(codes), 1)
    return (middles * MOST_BINS).astype(np.uint8).clip(max=MOST_BINS - 1).take(codes)


def compute_repeats_capital(codes: Codes, size: int) -> float:
    """The capital of bets that rows repeat the previous row, and of bets that they do not."""
    rows = len(codes)
    if rows < 2:  # noqa: PLR2004 - there is no next row
        return 0.0
    counts = np.bincount(codes, minlength=size)
    order = np.argsort(codes, kind="stable")
    ranks: Counts = np.empty(rows, dtype=np.int64)
    ranks[order] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    remaining_counts = counts.take(codes[:-1]) - ranks[:-1] - 1
    chances = remaining_counts / np.arange(rows - 1, 0, -1)
    hits = int((codes[1:] == codes[:-1]).sum())
    capitals = [hits * math.log(factor) - np.log1p((factor - 1) * chances).sum() for factor in REPEAT_FACTORS]
    return compute_shared_capital(np.array(capitals))


def compute_drift_capital(bins: Codes) -> float:
    """The capital of bets that values rise, or fall, from the first row to the last."""
    if not len(bins):
        return 0.0
    remaining_counts = np.bincount(bins, minlength=MOST_BINS)
    scores = (np.cumsum(remaining_counts) - remaining_counts / 2) * 2 / len(bins) - 1
    capitals = np.zeros(len(DRIFTS))
    stretches = min(MOST_STRETCHES, len(bins))
    for stretch, piece in enumerate(np.array_split(bins, stretches)):
        # If values rise, each row is below the mean of the remaining rows. The difference becomes smaller towards the
        # end.
        place = (stretch + 0.5) / stretches - 1
        weights = np.exp(np.outer(scores * place, DRIFTS))
        indicators = np.eye(MOST_BINS)[piece]
        remaining = remaining_counts - (np.cumsum(indicators, axis=0) - indicators)
        rows_left = remaining_counts.sum() - np.arange(len(piece))
        expected = remaining @ weights  # multiplied by the number of remaining rows
        stretch_counts = indicators.sum(axis=0)
        capitals += stretch_counts @ np.log(weights) - np.log(expected).sum(axis=0) + np.log(rows_left).sum()
        remaining_counts = remaining_counts - stretch_counts
    return compute_shared_capital(capitals)


def compute_order_capital(codes: Codes, size: int) -> float:
    """The capital of all bets that row order depends on an ordered column."""
    bins = bin_codes(codes, size)
    capitals = [compute_drift_capital(bins), compute_repeats_capital(bins, min(size, MOST_BINS))]
    if MOST_BINS < size < len(codes):
        capitals.append(compute_repeats_capital(codes, size))
    return compute_shared_capital(np.array(capitals))


def compute_pairing_capital(one: Codes, other: Codes, blocks: Codes) -> float:
    """The capital of bets that the rows of two tables correspond within blocks of rows.

    From every second block the gambler learns which values correspond. In the other blocks, the next row of the other
    table may be any remaining row of its block. Blocks are numbered in order and have at most `BLOCK` rows each.
    """
    is_learned = blocks % 2 == 0
    pair_counts = np.zeros((MOST_BINS, MOST_BINS))
    np.add.at(pair_counts, (one[is_learned], other[is_learned]), 1)
    shares = (pair_counts.sum(axis=0) + 1) / (pair_counts.sum() + MOST_BINS)
    weights = (pair_counts + PRIOR_RECORDS * shares) / (pair_counts.sum(axis=1, keepdims=True) + PRIOR_RECORDS) / shares
    one, other, blocks = one[~is_learned], other[~is_learned], blocks[~is_learned]
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    lengths = np.diff(starts, append=len(blocks))
    capital = 0.0
    for length in np.unique(lengths[lengths > 1]):
        rows = starts[lengths == length][:, None] + np.arange(length)
        bets = weights[one[rows][:, :, None], other[rows][:, None, :]]
        is_remaining = np.triu(np.ones((length, length)))
        expected = (bets * is_remaining).sum(axis=2) / is_remaining.sum(axis=1)
        capital += float(np.log(np.diagonal(bets, axis1=1, axis2=2) / expected).sum())
    return capital


def bound_chance(capital: float, tests: int) -> float:
    """The largest probability that a bet on a random order gains this amount in one of several tests."""
    return math.exp(min(max(math.log(tests) - capital, -690.0), 0.0))
