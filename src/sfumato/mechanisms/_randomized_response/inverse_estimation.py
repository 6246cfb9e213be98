"""Estimates the counts of the table from the counts of a release whose values were kept or redrawn within sub-tables.

Notation: p = retention, q = swap probability, R = rows, o = hits, k = wanted values, c = the true count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from sfumato._core.array_types import Amounts, Array, Codes, Floats, Indices
from sfumato._records.tally import Tally
from sfumato.errors import QueryError
from sfumato.mechanisms._randomized_response.perturbation_operators import Operator
from sfumato.mechanisms.estimator import Moments

LARGEST_SYSTEM = 5000
"""The largest number of equations for least squares.

There is one equation for each value, and memory grows with the square.
"""

COMPOSITION_STEPS = 100
"""The number of steps of iterative Bayes that makes a composition good enough for a variance."""


def estimate_closed_form(operator: Operator, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Estimates without bias how many tallied records have a wanted value, for each set of wanted values.

    If values have retentions of their own, the variance also depends on the values of the other records. Iterative
    Bayes estimates their composition, and never makes an expected count zero.
    """
    if operator.is_flat:
        return [estimate_flat_counts(operator, tally.counts, places) for places in value_sets]
    composition = estimate_by_iteration(operator, tally.counts, np.ones(len(operator.places)), COMPOSITION_STEPS)
    return [estimate_inverse_counts(operator, tally, composition, places) for places in value_sets]


def estimate_flat_counts(operator: Operator, counts: Amounts, places: Indices) -> Moments:
    """Sums (o - kRq) / p over the sub-tables with a wanted value, for each row of counts.

    A record with a wanted value publishes a wanted value with probability a = p + kq, and another record with b = kq.
    So the variance of a sub-table is [c a(1-a) + (R-c) b(1-b)] / p². The distribution of the wanted records over the
    sub-tables is unknown. It is assumed to be that of all rows. The count of a sub-table whose values are all wanted is
    certain.
    """
    is_wanted = np.zeros(operator.domain_size, dtype=np.bool_)
    is_wanted[places] = True
    entries = is_wanted[operator.places]
    values = operator.sum_by_cell(entries)
    cells = np.flatnonzero(values)  # sub-tables without a wanted value contribute nothing
    entry_numbers = np.flatnonzero(values[operator.cells])
    starts = np.searchsorted(operator.cells[entry_numbers], cells)
    entry_counts = np.ascontiguousarray(counts[:, entry_numbers])
    rows, hits = (
        _sum_stretches(numbers, starts) for numbers in (entry_counts, np.where(entries[entry_numbers], entry_counts, 0))
    )
    is_partial = values[cells] < operator.sizes[cells]
    certain = rows[:, ~is_partial].sum(axis=1)
    first = operator.first_entries[cells][is_partial]
    retention, swap, values = operator.retention[first], operator.swap[first], values[cells][is_partial]
    rows, hits = rows[:, is_partial], hits[:, is_partial]
    value = ((hits - values * rows * swap) / retention).sum(axis=1)
    base, slope = compute_flat_variance(retention, swap, rows, values)
    possible = rows.sum(axis=1)
    total_slope = (slope * rows / np.maximum(possible, 1.0)[:, np.newaxis]).sum(axis=1)
    base = base.sum(axis=1) - total_slope * certain
    moments = Moments(certain + value, base, total_slope, certain + possible, certain)
    if len(first) != 1:
        return moments
    other = values * swap
    return replace(moments, chances=np.repeat([retention + other, other], len(rows), axis=1))


def _sum_stretches(counts: Array, starts: Indices) -> Floats:
    """Sums each row of counts over runs that begin at `starts`."""
    if not len(starts):
        return np.zeros((len(counts), 0))
    return np.add.reduceat(counts, starts, axis=1).astype(np.float64)


def compute_flat_variance(retention: Floats, swap: Floats, rows: Floats, values: Floats | int) -> tuple[Floats, Floats]:
    """The exact variance [c a(1-a) + (R-c) b(1-b)] / p² of each sub-table's estimate, as base + slope * c."""
    other = values * swap
    own = retention + other
    base = rows * other * (1 - other) / retention**2
    slope = (own * (1 - own) - other * (1 - other)) / retention**2
    return base, slope


def compute_inverse_rows(operator: Operator, places: Indices) -> Floats:
    """The contribution of a record that publishes y to the unbiased count, for each y of a single sub-table."""
    return compute_unbiased_weights(operator, np.isin(operator.places, places).astype(np.float64))


def compute_unbiased_weights(operator: Operator, scores: Floats) -> Floats:
    """The weight of a record that publishes an entry, for each entry. The mean weight is the score of the true entry.

    A record of x adds w with mean q_x T + p_x w_x, where T is the sum of w over the m entries of its sub-table. So w_x
    is (score_x - q_x T) / p_x, and T is m (sum of score_j / p_j) / (sum of 1 / p_j). If one value z is never kept, its
    score is T / m. Its weight is then T minus the weights of the other values. Scores may also be an array of several
    scores, along its last axis.
    """
    retention = operator.retention
    never_kept = np.flatnonzero(retention == 0)
    if len(never_kept) == 0:
        inverse = 1 / retention
        means = np.add.reduceat(scores * inverse, operator.first_entries, axis=-1) / operator.sum_by_cell(inverse)
        return np.asarray(scores * inverse - (inverse - 1) * means[..., operator.cells])
    (zero,) = never_kept
    inverse = np.divide(1, retention, out=np.zeros_like(retention), where=retention > 0)
    beside = scores - scores[..., zero : zero + 1]
    weights = np.asarray(beside * inverse + scores[..., zero : zero + 1])
    weights[..., zero] -= beside @ inverse
    return weights


def estimate_inverse_counts(operator: Operator, tally: Tally, compositions: Floats, places: Indices) -> Moments:
    """Estimates by the inverse of a single sub-table, for each line; `compositions` has the values of its records.

    A record of x adds weights whose mean is 1 if x is wanted, and 0 if not. So its variance is E[w²] minus this mean.
    """
    rows = tally.rows.astype(np.float64)
    if len(places) in (0, operator.domain_size):
        return Moments.exact(rows if len(places) else np.zeros(len(rows)))
    is_wanted = np.isin(operator.places, places)
    weights = compute_unbiased_weights(operator, is_wanted.astype(np.float64))
    squares = weights**2
    variance = (operator.swap * squares.sum() + operator.retention * squares) - is_wanted
    inside, other = (_compute_weighted_means(variance[part], compositions[:, part]) for part in (is_wanted, ~is_wanted))
    return Moments(tally.counts @ weights, rows * other, inside - other, rows, np.zeros(len(rows)))


def _compute_weighted_means(numbers: Floats, weights: Floats) -> Floats:
    """The weighted mean of numbers, for each row of weights."""
    totals = weights.sum(axis=1)
    means = weights @ numbers / np.where(totals > 0, totals, 1.0)
    return np.where(totals > 0, means, numbers.mean())


# ------------------------------------------------------------------------------------------------------ iterative Bayes


def estimate_by_iteration(
    operator: Operator, counts: Amounts, shares: Floats, most_steps: int, tolerance: float = 0.0
) -> Floats:
    """Finds the most likely true counts for each line of counts, by iterative Bayes (EM) from equal counts.

    `shares` has the share of each value's records in each sub-table. A line stops when no count changes by more than
    `tolerance` times the number of its rows in a step.
    """
    rows = counts.sum(axis=1, dtype=np.float64)
    estimates = np.repeat(rows[:, np.newaxis] / operator.domain_size, operator.domain_size, axis=1)
    moving = np.flatnonzero(rows)
    for _ in range(most_steps):
        if not len(moving):
            break
        before = estimates[moving]
        expected = operator.compute_expected_counts(operator.expand_to_entries(before) * shares)
        ratio = np.divide(counts[moving], expected, out=np.zeros_like(expected), where=expected > 0)
        factors = operator.swap * operator.sum_own_cell(ratio) + operator.retention * ratio
        after = before * operator.sum_by_place(shares * factors)
        changes = np.abs(after - before).max(axis=1)
        estimates[moving] = after
        moving = moving[changes > tolerance * rows[moving]]
    return estimates


def estimate_shares(operator: Operator, counts: Floats) -> Floats:
    """The share of each value's records in each sub-table, from counts of the entries (equal without information)."""
    positive = np.maximum(counts, 0.0)
    totals = operator.sum_by_place(positive)[operator.places]
    even = 1 / operator.sum_by_place(np.ones(len(positive)))[operator.places]
    return np.where(totals > 0, positive / np.where(totals > 0, totals, 1.0), even)


class OperatorDesign(Protocol):
    """A design whose values are kept or redrawn within sub-tables."""

    @property
    def operator(self) -> Operator: ...


def compute_published_likelihoods(
    design: OperatorDesign, published_records: Codes, true_codes: Codes, rows: Indices, /
) -> tuple[Floats]:
    """The likelihood of some records' entries given each value, by the share of each value in their sub-table."""
    operator = design.operator
    size, entries = operator.domain_size, published_records.astype(np.int64)
    keys = operator.cells[entries] * size + true_codes
    counts = np.bincount(keys, minlength=len(operator.sizes) * size).reshape(-1, size).astype(np.float64)
    shares = estimate_shares(operator, counts[operator.cells, operator.places])
    return (operator.compute_likelihoods(shares, operator.places[entries[rows]], operator.cells[entries[rows]]),)


def estimate_entry_counts(operator: Operator, tally: Tally) -> Floats:
    """The unbiased count of each entry of a tally of one line, for each sub-table."""
    rows = operator.sum_by_cell(tally.counts)[:, operator.cells]
    return np.asarray(((tally.counts - rows * operator.swap) / operator.retention)[0])


# ------------------------------------------------------------------------------------------- generalised least squares


def estimate_least_squares(
    operator: Operator, tally: Tally, shares: Floats, value_sets: Sequence[Indices]
) -> list[Moments]:
    """Combines the information of all sub-tables about all values, weighted by its precision.

    With B = (A'VA)^-1 A'V and BA = 1, the estimate Bo has the variance B diag(E[o]) B' minus the counts themselves. The
    reason is that each record publishes one entry, and so adds 1 on average to the count of its own value.
    """
    if operator.domain_size > LARGEST_SYSTEM:
        raise QueryError(
            f"this method is for domains of at most {LARGEST_SYSTEM} values; use the default method.",
            code="domain-too-large-for-method",
            fields={"largest": LARGEST_SYSTEM},
        )
    composition = estimate_by_iteration(operator, tally.counts, shares, COMPOSITION_STEPS)
    present = np.unique(operator.places)
    moments_by_set: list[list[Moments]] = [[] for _ in value_sets]
    for counts, rows, value_counts in zip(tally.counts, tally.rows.tolist(), composition, strict=True):
        expected = operator.compute_expected_counts(operator.expand_to_entries(value_counts) * shares)
        precision = np.divide(1.0, expected, out=np.zeros(len(expected)), where=expected > 0)
        information, observed = _build_normal_equations(operator, counts, shares, precision)
        covariance = np.linalg.pinv(information[np.ix_(present, present)], hermitian=True)
        estimates = np.zeros(operator.domain_size)
        estimates[present] = covariance @ observed[present]
        for number, places in enumerate(value_sets):
            inside = np.isin(present, places).astype(np.float64)
            variance = float(inside @ covariance @ inside) - float(value_counts[places].sum())
            moments_by_set[number].append(Moments.of(float(estimates[places].sum()), max(variance, 0.0), 0.0, rows))
    return [Moments.concatenate(moments) for moments in moments_by_set]


def _build_normal_equations(
    operator: Operator, counts: Amounts, shares: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """A'VA and A'Vo for the map A from counts of values to expected entries, for each sub-table."""
    information = np.zeros((operator.domain_size, operator.domain_size))
    observed = np.zeros(operator.domain_size)
    for cell in range(len(operator.sizes)):
        is_in_cell = operator.cells == cell
        places, share = operator.places[is_in_cell], shares[is_in_cell]
        # A = (diag(p) + 1 q') diag(share). The formula is written out, so that no product of matrices is needed.
        keep, swap, weight = (
            operator.retention[is_in_cell] * share,
            operator.swap[is_in_cell] * share,
            precision[is_in_cell],
        )
        cross = np.outer(keep * weight, swap)
        information[np.ix_(places, places)] += (
            np.diag(keep**2 * weight) + cross + cross.T + weight.sum() * np.outer(swap, swap)
        )
        weighted_counts = counts[is_in_cell] * weight
        observed[places] += keep * weighted_counts + swap * weighted_counts.sum()
    return information, observed


def compute_inverse_variances(operator: Operator, shares: Floats) -> tuple[Floats, Floats]:
    """The variance that one record adds to each value's count, if it has the value, and if it has another.

    `shares` gives the composition of the other records. A record with the value z that is published as y adds the
    weight W(y). E[W²] is q_z times the sum of all W², plus p_z times the W² of z itself. The form of the inverse gives
    both terms without computing a matrix.
    """
    retention, swap = operator.retention, operator.swap
    never_kept = np.flatnonzero(retention == 0)
    if len(never_kept) > 1:
        nothing = np.full(len(retention), np.inf)
        return nothing, nothing
    if len(never_kept) == 1:
        return _compute_variances_beside(operator, shares, int(never_kept[0]))
    inverse = 1 / retention
    weights = (inverse - 1) / inverse.sum()
    squares = inverse**2 * (1 - 2 * weights + weights @ weights)
    own = swap * squares + retention * (inverse * (1 - weights)) ** 2
    rest = inverse**2 * (shares * retention @ weights**2 - shares * retention * weights**2)
    return _subtract_mean(own, (shares @ swap - shares * swap) * squares + rest, shares)


def _compute_variances_beside(operator: Operator, shares: Floats, zero: int) -> tuple[Floats, Floats]:
    """The same variances if one value is never kept.

    The others are (o_x - o_zero) / p_x, and this value has the rest.
    """
    retention, swap = operator.retention, operator.swap
    inverse = np.divide(1.0, retention, out=np.zeros_like(retention), where=retention > 0)
    squares = 2 * inverse**2
    own = swap * squares + retention * inverse**2
    others = (shares @ swap - shares * swap) * squares
    weights = 1 - inverse
    weights[zero] = 1 + inverse.sum()
    squares_of_zero = float(weights @ weights)
    own[zero] = swap[zero] * squares_of_zero
    others[zero] = (shares @ swap - shares[zero] * swap[zero]) * squares_of_zero + shares * retention @ weights**2
    return _subtract_mean(own, others, shares)


def _subtract_mean(own: Floats, others: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Turns second moments into variances.

    The mean contribution of a record is 1 if it has the value, and otherwise 0.
    """
    rest = shares.sum() - shares
    return own - 1, np.divide(others, rest, out=np.zeros_like(others), where=rest > 0)
