"""Measures the risk from an attacker who knows a public column, from the joint counts of the table."""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Counts, Floats
from sfumato.mechanisms._randomized_response.perturbation_operators import Operator
from sfumato.mechanisms.capabilities import Risk

ROUNDING = 1e-9
"""A belief that exceeds a bound by at most this number is a rounding error."""


def measure_risk(operator: Operator, shares: Floats, groups: Counts, priors: Floats, posteriors: Floats) -> Risk:
    """The risk from an attacker who knows a record's group in the table and the counts of its values.

    `groups` has a row for each group and a column for each value. The bound of a value is broken if the value's share
    of the group is within the prior, but its probability given the sub-table and the published value is above the
    posterior. By Bayes' rule this probability is g(x) P(y|x) / sum of g(z) P(y|z). Here g(x) is the group's count of x
    times the share of x in the sub-table.
    """
    sizes = groups.sum(axis=1, keepdims=True)
    is_covered = (groups <= sizes * priors * (1 + ROUNDING)) & (posteriors < 1)
    limits = posteriors * (1 + ROUNDING)
    worst, breached = 0.0, 0.0
    for cell in range(len(operator.sizes)):
        is_in_cell = operator.cells == cell
        places, retention, swap = operator.places[is_in_cell], operator.retention[is_in_cell], operator.swap[is_in_cell]
        entry_counts = groups[:, places] * shares[is_in_cell]
        covered_counts = np.where(is_covered[:, places], entry_counts, 0.0)
        # Each published value y has a column with the expected number of records that publish it.
        expected_counts = (entry_counts @ swap)[:, None] + entry_counts * retention
        own = covered_counts * (retention + swap) / np.where(expected_counts > 0, expected_counts, 1.0)
        other = _find_other_posteriors(covered_counts * swap, expected_counts)
        excess = _find_other_posteriors(covered_counts * swap / limits[places], expected_counts)
        worst = max(worst, float(own.max(initial=0.0)), float(other.max(initial=0.0)))
        breached += float(expected_counts[(own > limits[places]) | (excess > 1.0)].sum())
    return Risk(worst, breached / float(sizes.sum()))


def _find_other_posteriors(weights: Floats, expected_counts: Floats) -> Floats:
    """For each published value, the largest weight among the other values."""
    width = weights.shape[1]
    if width == 1:
        return np.zeros_like(weights)
    order = np.argpartition(weights, width - 2, axis=1)
    first, second = order[:, -1:], order[:, -2:-1]
    is_own = np.arange(width) == first
    best = np.where(is_own, np.take_along_axis(weights, second, axis=1), np.take_along_axis(weights, first, axis=1))
    return np.asarray(best / np.where(expected_counts > 0, expected_counts, 1.0))
