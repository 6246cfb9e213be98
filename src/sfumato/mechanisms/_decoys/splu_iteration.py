"""The reconstruction as printed in the paper, for comparison only.

The reconstruction is wrong in two ways (docs/errata.md). Its leak also counts the places of a value's own records, so
it does not even reproduce the whole table. It also stops when no state changes by more than 1%. For large groups, this
often happens in the first round.

Source: Fu et al. 2014, section 5.2; notation: gamma = group size, f = records of the value, N = all records. States are
numbered by bits: the condition first, then one bit for each sensitive value. Many tables are processed at once, each in
its own line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices
from sfumato._records.tally import Tally
from sfumato.mechanisms._decoys.decoy_estimation import DecoyDesign, count_published_values, find_axes
from sfumato.mechanisms._randomized_response.estimators import make_moments_without_error
from sfumato.mechanisms.estimator import Moments

STOP = 0.01
MOST_ROUNDS = 4000
MOST_TABLES = 1 << 16
"""The largest number of tables in one iteration."""


def estimate_by_paper(design: DecoyDesign, tally: Tally, value_sets: Sequence[Indices]) -> list[Moments]:
    """Runs the iteration of the paper with its 1% rule for each wanted value.

    The result is biased and for comparison only.

    With several sensitive columns, the iteration uses the columns of the query and one value of each.
    """
    moments = [make_moments_without_error(np.zeros(len(tally)), tally) for _ in value_sets]
    sets_by_axes: dict[tuple[int, ...], list[tuple[int, Indices]]] = {}  # the sets of wanted values, by their columns
    for number, places in enumerate(value_sets):
        theta = np.zeros(math.prod(design.sizes))
        theta[places] = 1.0
        if axes := find_axes(design.sizes, [theta]):
            first = tuple(slice(None) if axis in axes else 0 for axis in range(len(design.sizes)))
            sets_by_axes.setdefault(axes, []).append((number, np.argwhere(theta.reshape(design.sizes)[first])))
        else:
            moments[number] = Moments.exact(tally.rows * theta[0])
    for axes, sets in sets_by_axes.items():
        rest = tuple(1 + axis for axis in range(len(design.sizes)) if axis not in axes)
        counts = np.concatenate([tally.counts, count_published_values(tally)[np.newaxis]])
        margins = counts.reshape(-1, *design.sizes).sum(axis=rest)
        estimates = _estimate_counts(
            margins[:-1], margins[-1:], np.concatenate([values for _, values in sets]), design.group_size
        )
        parts = np.split(estimates, np.cumsum([len(values) for _, values in sets])[:-1], axis=1)
        for (number, _), part in zip(sets, parts, strict=True):
            moments[number] = make_moments_without_error(part.sum(axis=1), tally)
    return moments


def _estimate_counts(lines: Counts, whole: Counts, values: Indices, group_size: int) -> Floats:
    """The number of records of each value, for each line of selected records; a value has an index in each column."""
    columns = values.shape[1]
    estimates, step = np.zeros((len(lines), len(values))), max(1, MOST_TABLES // len(values))
    for start in range(0, len(lines), step):
        part = slice(start, start + step)
        inside = _count_states(lines[part], values)
        states = np.concatenate([_count_states(whole, values) - inside, inside], axis=2)
        estimates[part] = run_iteration(states.astype(np.float64), (group_size,) * columns)[0][..., -1]
    return estimates


def _count_states(counts: Counts, values: Indices) -> Counts:
    """For each line and value, counts the records by whether they publish the value's part of each column.

    Bits number the cases.
    """
    columns = range(values.shape[1])
    state_counts = []
    for bits in itertools.product((0, 1), repeat=len(columns)):  # a column whose bit is not set may have any value
        margin = counts.sum(axis=tuple(1 + column for column in columns if not bits[column]))
        value_places = tuple(values[:, column] for column in columns if bits[column])
        state_counts.append(
            margin[:, *value_places] if value_places else np.repeat(margin[:, np.newaxis], len(values), axis=1)
        )
    states = np.stack(state_counts, axis=2)
    for column in columns:
        either = states.reshape(len(counts) * len(values), 1 << column, 2, -1)
        either[:, :, 0] -= either[:, :, 1]
    return states


def run_iteration(
    published_counts: Floats, group_sizes: Sequence[int], stop: float = STOP, most_rounds: int = MOST_ROUNDS
) -> tuple[Floats, Counts]:
    """The states of each table after the printed iteration, and the number of rounds before it stopped.

    The states of a table are in the last axis. Tables that have stopped do not change while others go on.
    """
    tables = published_counts.reshape(-1, published_counts.shape[-1]).astype(np.float64)
    estimates, rounds = tables.copy(), np.full(len(tables), most_rounds)
    active_tables: Indices = np.arange(len(tables))
    for number in range(1, most_rounds + 1):
        before, observed = estimates[active_tables], tables[active_tables]
        chances = _compute_chances(before, group_sizes)
        expected, factors = before, np.zeros_like(before)
        for bit, (leak, retention) in enumerate(chances):
            expected = _apply_along_bit(bit, expected, ((1 - leak, leak), (1 - retention, retention)))
        np.divide(observed, expected, out=factors, where=observed > 0)
        for bit, (leak, retention) in enumerate(chances):
            factors = _apply_along_bit(bit, factors, ((1 - leak, 1 - retention), (leak, retention)))
        after = before * factors
        is_moving = (np.abs(after - before) > stop * before).any(axis=1)
        estimates[active_tables] = after
        rounds[active_tables[~is_moving]] = number
        active_tables = active_tables[is_moving]
        if not len(active_tables):
            break
    return estimates.reshape(published_counts.shape), rounds.reshape(published_counts.shape[:-1])


def _compute_chances(true_counts: Floats, group_sizes: Sequence[int]) -> list[tuple[Floats, float]]:
    """The printed probabilities to publish each sensitive value, for records without and with the value."""
    total = np.maximum(true_counts.sum(axis=1), 1.0)
    chances = []
    for bit, group_size in enumerate(group_sizes):
        # This differs from the leak, because a record has only one place in its own group.
        leak = true_counts.reshape(len(true_counts), 2 << bit, 2, -1)[:, :, 1].sum(axis=(1, 2)) / total
        chances.append((leak[:, np.newaxis, np.newaxis], 1 / group_size))
    return chances


def _apply_along_bit(bit: int, tables: Floats, chances: Sequence[Sequence[Floats | float]]) -> Floats:
    """Applies a matrix to the states of each table with and without a sensitive value.

    The condition stays unchanged.
    """
    states = tables.reshape(len(tables), 2 << bit, 2, -1)
    without_value, with_value = states[:, :, 0], states[:, :, 1]
    (to_without, to_having), (from_without, from_having) = chances
    state_sums = (
        without_value * to_without + with_value * from_without,
        without_value * to_having + with_value * from_having,
    )
    return np.stack(state_sums, axis=2).reshape(tables.shape)
