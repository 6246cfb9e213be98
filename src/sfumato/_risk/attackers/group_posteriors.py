"""Who of a group has which value, if it is known which values the group has: exactly, by all ways to give them away.

This is what a bucket tells, and what the groups of decoys would tell to somebody who knew them: the values that are
shown are drawn evenly from those of the group, whoever holds which, and so add nothing.
"""

from __future__ import annotations

import numpy as np

from sfumato._core.arrays import Codes, Floats, Numbers

LARGEST_EXACT = 10
"""In larger groups, rows and columns are brought to their sums in turn, which is near to the exact belief."""
BALANCINGS = 50
CHUNK = 1 << 21


def condition_on_groups(beliefs: Floats, groups: Numbers, true_codes: Codes) -> Floats:
    """What is believed of each record once it is known which values its group holds; a row each, as before.

    `beliefs` are those of each record for itself; `groups` must be whole, so that `true_codes` says what each of them
    holds.
    """
    posteriors = np.zeros_like(beliefs)
    order = np.argsort(groups, kind="stable")
    _, sizes = np.unique(groups, return_counts=True)
    firsts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        whole = order[firsts[sizes == size][:, np.newaxis] + np.arange(size)]
        exactly = size <= LARGEST_EXACT
        step = max(1, CHUNK // (1 << size if exactly else size * size))
        for first in range(0, len(whole), step):
            members = whole[first : first + step]
            values = true_codes[members]
            weights = beliefs[members[:, :, np.newaxis], values[:, np.newaxis, :]]
            weights = weights / np.maximum(weights.max(axis=2, keepdims=True), np.finfo(np.float64).tiny)
            chances = compute_assignment_chances(weights) if exactly else balance_weights(weights)
            np.add.at(posteriors, (members[:, :, np.newaxis], values[:, np.newaxis, :]), chances)
    return posteriors


def compute_assignment_chances(weights: Floats) -> Floats:
    """For each group (first axis) the chance that each record (second) has each of as many values (third).

    Every way to give the values away is as likely as the product of its weights. Ways are added up by which values the
    first records have taken, and which are left for the last ones; no way is looked at by itself.
    """
    number, size, _ = weights.shape
    taken, left = np.zeros((1 << size, number)), np.zeros((1 << size, number))
    taken[0] = left[0] = 1.0
    for values in range(1, 1 << size):
        many = values.bit_count()
        for value in range(size):
            if values >> value & 1:
                taken[values] += taken[values ^ (1 << value)] * weights[:, many - 1, value]
                left[values] += left[values ^ (1 << value)] * weights[:, size - many, value]
    chances, everything = np.zeros(weights.shape), (1 << size) - 1
    for values in range(everything):
        record = values.bit_count()
        for value in range(size):
            if not values >> value & 1:
                rest = everything ^ values ^ (1 << value)
                chances[:, record, value] += taken[values] * left[rest] * weights[:, record, value]
    return np.asarray(chances / np.maximum(taken[everything], np.finfo(np.float64).tiny)[:, np.newaxis, np.newaxis])


def balance_weights(weights: Floats) -> Floats:
    """The weights with rows and columns brought to one in turn."""
    scaled_weights = weights + np.finfo(np.float64).tiny
    for _ in range(BALANCINGS):
        scaled_weights = scaled_weights / scaled_weights.sum(axis=1, keepdims=True)
        scaled_weights = scaled_weights / scaled_weights.sum(axis=2, keepdims=True)
    return scaled_weights
