"""From the counts of a release back to those of the table, where records were kept or redrawn within their cells.

Notation: p = retention, q = swap probability, R = rows, o = hits, k = wanted values, c = the true count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.errors import QueryError
from sfumato.mechanisms.operators import Floats, Operator, Places
from sfumato.tally import Moments, Numbers, Tally

LARGEST_SYSTEM = 5000
"""Least squares solve as many equations as there are values, which takes their square in memory."""

COMPOSITION_STEPS = 100
"""Steps of iterative Bayes after which a composition is good enough to take a variance from."""


def closed(operator: Operator, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    """Estimate without bias how many of the tallied records hold a value of each set of wanted places."""
    if not operator.is_flat:
        return _by_inverse(operator, tally, wanted)
    rows = operator.by_cell(tally.counts)
    return [_flat(operator, tally.counts, rows, places) for places in wanted]


def _flat(operator: Operator, counts: Numbers, rows: Floats, places: Places) -> Moments:
    """Add up (o - kRq) / p over the cells that hold a wanted value.

    A wanted record shows a wanted value with a = p + kq and another one with b = kq, so the variance of a cell is
    [c a(1-a) + (R-c) b(1-b)] / p². How the wanted records are spread over the cells is not known: they are taken to be
    spread as all rows are.
    """
    is_wanted = np.zeros(operator.domain_size, dtype=np.bool_)
    is_wanted[places] = True
    entries = is_wanted[operator.places]
    values = operator.by_cell(entries)
    hits = operator.by_cell(np.where(entries, counts, 0))
    is_whole, is_part = values == operator.sizes, (values > 0) & (values < operator.sizes)
    certain = int(rows[is_whole].sum())  # every value of these cells is wanted: nothing is estimated
    retention, swap = operator.retention[operator.first][is_part], operator.swap[operator.first][is_part]
    values, hits, rows = values[is_part], hits[is_part], rows[is_part]
    value = float(((hits - values * rows * swap) / retention).sum())
    base, slope = flat_variance(retention, swap, rows, values)
    spread = rows / max(float(rows.sum()), 1.0)
    total_slope = float((slope * spread).sum())
    possible = certain + int(rows.sum())
    return Moments(certain + value, float(base.sum()) - total_slope * certain, total_slope, possible, certain)


def flat_variance(retention: Floats, swap: Floats, rows: Floats, values: Floats | int) -> tuple[Floats, Floats]:
    """The exact variance [c a(1-a) + (R-c) b(1-b)] / p² of each cell's estimate, as base + slope * c."""
    other = values * swap
    wanted = retention + other
    base = rows * other * (1 - other) / retention**2
    slope = (wanted * (1 - wanted) - other * (1 - other)) / retention**2
    return base, slope


def inverse_rows(operator: Operator, wanted: Places) -> Floats:
    """What a record that shows y adds to the unbiased count of the wanted values, for each y of a single cell."""
    return unmixed(operator, np.isin(operator.places, wanted).astype(np.float64))


def unmixed(operator: Operator, scores: Floats) -> Floats:
    """What a record that shows an entry adds, so that the mean is the score of its true entry; for each entry.

    A record of x adds w with mean q_x T + p_x w_x, where T is the sum of w over the m entries of its cell. So w_x is
    (score_x - q_x T) / p_x, and T is m (sum of score_j / p_j) / (sum of 1 / p_j). If one value z is never kept, its
    score is T / m, and its weight is what the others leave of T. Scores may be an array of several, in its last axis.
    """
    retention = operator.retention
    never = np.flatnonzero(retention == 0)
    if len(never) == 0:
        inverse = 1 / retention
        means = np.add.reduceat(scores * inverse, operator.first, axis=-1) / operator.by_cell(inverse)
        return np.asarray(scores * inverse - (inverse - 1) * means[..., operator.cells])
    (zero,) = never
    inverse = np.divide(1, retention, out=np.zeros_like(retention), where=retention > 0)
    beside = scores - scores[..., zero : zero + 1]
    found = np.asarray(beside * inverse + scores[..., zero : zero + 1])
    found[..., zero] -= beside @ inverse
    return found


def _by_inverse(operator: Operator, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    """Estimate by the inverse of the operator; the variance also depends on what the other records hold.

    That composition is estimated by iterative Bayes, which never lets an expected count be zero.
    """
    composition = iterated(operator, tally.counts, np.ones(len(operator.places)), COMPOSITION_STEPS)
    return [_inverse(operator, tally, composition, places) for places in wanted]


def _inverse(operator: Operator, tally: Tally, composition: Floats, places: Places) -> Moments:
    if len(places) in (0, operator.domain_size):
        known = tally.rows if len(places) else 0
        return Moments(float(known), 0.0, 0.0, known, known)
    weights = inverse_rows(operator, places)
    is_wanted = np.isin(operator.places, places)
    # A record of x adds weights whose mean is 1 if x is wanted and 0 if not: its variance is E[w²] less that mean.
    squares = weights**2
    variance = (operator.swap * squares.sum() + operator.retention * squares) - is_wanted
    wanted_variance = _weighted(variance[is_wanted], composition[is_wanted])
    other_variance = _weighted(variance[~is_wanted], composition[~is_wanted])
    base, slope = tally.rows * other_variance, wanted_variance - other_variance
    return Moments(float(weights @ tally.counts), base, slope, tally.rows)


def _weighted(numbers: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float(weights @ numbers) / total if total > 0 else float(numbers.mean())


# ------------------------------------------------------------------------------------------------------ iterative Bayes


def iterated(  # noqa: PLR0913 - the model, the data, and when to stop
    operator: Operator,
    counts: Numbers,
    shares: Floats,
    most_steps: int,
    *,
    tolerance: float = 0.0,
    start: Floats | None = None,
) -> Floats:
    """Iterative Bayes (EM): the counts of the values under which the tally is likeliest, from an even start.

    `shares` says which part of each value's records is in each cell. Stops when no count moves by more than
    `tolerance` of all rows in a step.
    """
    rows = float(counts.sum())
    held = np.full(operator.domain_size, rows / operator.domain_size) if start is None else start
    for _ in range(most_steps if rows else 0):
        stepped = _step(operator, counts, shares, held)
        moved = float(np.abs(stepped - held).max())
        held = stepped
        if moved <= tolerance * rows:
            break
    return held


def _step(operator: Operator, counts: Numbers, shares: Floats, held: Floats) -> Floats:
    expected = operator.expected(held[operator.places] * shares)
    ratio = np.divide(counts, expected, out=np.zeros(len(expected)), where=expected > 0)
    told = operator.swap * operator.by_cell(ratio)[operator.cells] + operator.retention * ratio
    return held * operator.by_place(shares * told)


def shares_from(operator: Operator, counts: Floats) -> Floats:
    """Which part of each value's records is in each cell, from counts of the entries; even where nothing is known."""
    positive = np.maximum(counts, 0.0)
    totals = operator.by_place(positive)[operator.places]
    even = 1 / operator.by_place(np.ones(len(positive)))[operator.places]
    return np.where(totals > 0, positive / np.where(totals > 0, totals, 1.0), even)


def entry_counts(operator: Operator, tally: Tally) -> Floats:
    """The unbiased count of each entry, cell by cell."""
    rows = operator.by_cell(tally.counts)[operator.cells]
    return np.asarray((tally.counts - rows * operator.swap) / operator.retention)


# ------------------------------------------------------------------------------------------- generalised least squares


def least_squares(operator: Operator, tally: Tally, shares: Floats, wanted: Sequence[Places]) -> list[Moments]:
    """Weigh what all cells say about all values by its precision, given the share of each value in each cell.

    With B = (A'VA)^-1 A'V and BA = 1, the estimate Bo has the variance B diag(E[o]) B' less the counts themselves,
    because each record shows one entry: what it adds to its own value's count is 1 on average.
    """
    if operator.domain_size > LARGEST_SYSTEM:
        raise QueryError(f"this method is for domains of at most {LARGEST_SYSTEM} values; use the default one.")
    held = iterated(operator, tally.counts, shares, COMPOSITION_STEPS)
    expected = operator.expected(held[operator.places] * shares)
    precision = np.divide(1.0, expected, out=np.zeros(len(expected)), where=expected > 0)
    present = np.unique(operator.places)
    information, observed = _normal_equations(operator, tally.counts, shares, precision)
    covariance = np.linalg.pinv(information[np.ix_(present, present)], hermitian=True)
    estimates = np.zeros(operator.domain_size)
    estimates[present] = covariance @ observed[present]
    found = []
    for places in wanted:
        inside = np.isin(present, places).astype(np.float64)
        variance = float(inside @ covariance @ inside) - float(held[places].sum())
        found.append(Moments(float(estimates[places].sum()), max(variance, 0.0), 0.0, tally.rows))
    return found


def _normal_equations(operator: Operator, counts: Numbers, shares: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """A'VA and A'Vo for the map A from counts of values to expected entries, cell by cell."""
    information = np.zeros((operator.domain_size, operator.domain_size))
    observed = np.zeros(operator.domain_size)
    for cell in range(len(operator.sizes)):
        mine = operator.cells == cell
        places, share = operator.places[mine], shares[mine]
        # A = (diag(p) + 1 q') diag(share); written out, so that no product of matrices is needed.
        keep, swap, weight = operator.retention[mine] * share, operator.swap[mine] * share, precision[mine]
        cross = np.outer(keep * weight, swap)
        information[np.ix_(places, places)] += (
            np.diag(keep**2 * weight) + cross + cross.T + weight.sum() * np.outer(swap, swap)
        )
        shown = counts[mine] * weight
        observed[places] += keep * shown + swap * shown.sum()
    return information, observed


def inverse_variances(operator: Operator, shares: Floats) -> tuple[Floats, Floats]:
    """What one record adds to the variance of each value's count: if it holds the value, and if it holds another.

    The other records are composed as `shares` says. A record of z that shows y adds W(y): E[W²] is q_z times the sum of
    all W² and p_z times the W² of z itself, which the form of the inverse gives without a matrix.
    """
    retention, swap = operator.retention, operator.swap
    never = np.flatnonzero(retention == 0)
    if len(never) > 1:
        nothing = np.full(len(retention), np.inf)
        return nothing, nothing
    if len(never) == 1:
        return _variances_beside(operator, shares, int(never[0]))
    inverse = 1 / retention
    told = (inverse - 1) / inverse.sum()
    squares = inverse**2 * (1 - 2 * told + told @ told)
    own = swap * squares + retention * (inverse * (1 - told)) ** 2
    rest = inverse**2 * (shares * retention @ told**2 - shares * retention * told**2)
    return _less_mean(own, (shares @ swap - shares * swap) * squares + rest, shares)


def _variances_beside(operator: Operator, shares: Floats, zero: int) -> tuple[Floats, Floats]:
    """The same where one value is never kept: the others are (o_x - o_zero) / p_x, and it has what they leave."""
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
    return _less_mean(own, others, shares)


def _less_mean(own: Floats, others: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """From second moments to variances: a record counts 1 on average if it holds the value, and else 0."""
    rest = shares.sum() - shares
    return own - 1, np.divide(others, rest, out=np.zeros_like(others), where=rest > 0)
