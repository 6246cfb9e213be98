"""Computes the probability that each record of a group has each of the group's values, over all assignments.

A bucket discloses the values of its group. A group of decoys would disclose its values to an attacker who knew the
group. The published values would then add no information, because they are drawn evenly from the group.
"""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Codes, Floats, Numbers

LARGEST_EXACT = 10
"""In larger groups, rows and columns are scaled to their sums in turn. This approximates the exact posterior."""
BALANCINGS = 50
CHUNK = 1 << 21


def condition_on_groups(beliefs: Floats, groups: Numbers, true_codes: Codes) -> Floats:
    """Updates the probabilities of each record (row) with the values of its group.

    `beliefs` are the probabilities of each record alone. `groups` must be complete, because `true_codes` gives the
    values of their records.
    """
    posteriors = np.zeros_like(beliefs)
    order = np.argsort(groups, kind="stable")
    _, sizes = np.unique(groups, return_counts=True)
    firsts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        member_rows = order[firsts[sizes == size][:, np.newaxis] + np.arange(size)]
        is_exact = size <= LARGEST_EXACT
        step = max(1, CHUNK // (1 << size if is_exact else size * size))
        for first in range(0, len(member_rows), step):
            members = member_rows[first : first + step]
            values = true_codes[members]
            weights = beliefs[members[:, :, np.newaxis], values[:, np.newaxis, :]]
            weights = weights / np.maximum(weights.max(axis=2, keepdims=True), np.finfo(np.float64).tiny)
            chances = compute_assignment_chances(weights) if is_exact else balance_weights(weights)
            np.add.at(posteriors, (members[:, :, np.newaxis], values[:, np.newaxis, :]), chances)
    return posteriors


def compute_assignment_chances(weights: Floats) -> Floats:
    """The probability for each group (first axis) that each record (second axis) has each value (third axis).

    Each assignment has a probability proportional to the product of its weights. Sums over sets of used values replace
    the list of all assignments. The first records have used these values, and the last records get the remaining
    values.
    """
    number, size, _ = weights.shape
    first_ways, last_ways = np.zeros((1 << size, number)), np.zeros((1 << size, number))
    first_ways[0] = last_ways[0] = 1.0
    for values in range(1, 1 << size):
        value_count = values.bit_count()
        for value in range(size):
            if values >> value & 1:
                first_ways[values] += first_ways[values ^ (1 << value)] * weights[:, value_count - 1, value]
                last_ways[values] += last_ways[values ^ (1 << value)] * weights[:, size - value_count, value]
    chances, all_values = np.zeros(weights.shape), (1 << size) - 1
    for values in range(all_values):
        record = values.bit_count()
        for value in range(size):
            if not values >> value & 1:
                other_values = all_values ^ values ^ (1 << value)
                chances[:, record, value] += first_ways[values] * last_ways[other_values] * weights[:, record, value]
    return np.asarray(
        chances / np.maximum(first_ways[all_values], np.finfo(np.float64).tiny)[:, np.newaxis, np.newaxis]
    )


def balance_weights(weights: Floats) -> Floats:
    """Scales the rows and columns of the weights to one, in turn."""
    scaled_weights = weights + np.finfo(np.float64).tiny
    for _ in range(BALANCINGS):
        scaled_weights = scaled_weights / scaled_weights.sum(axis=1, keepdims=True)
        scaled_weights = scaled_weights / scaled_weights.sum(axis=2, keepdims=True)
    return scaled_weights
