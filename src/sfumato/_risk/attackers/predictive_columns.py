"""Finds public columns that disclose the protected column. Perturbation does not change what other columns disclose.

The guess for a record is the most frequent value among the other records of its class. A column is too predictive if
this guess closes half of the distance between the best blind guess and certainty. The same rule applies to pairs of
columns and to all columns together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._core.cell_values import format_values
from sfumato._core.ordered_threads import map_arrays
from sfumato._records.column_codes import encode_batch_values
from sfumato._risk.attackers.attack_result import compute_wilson_interval

COARSER_DOUBT = 0.1
"""A column is a coarser form of the protected column if the protected column removes all but this share of its
uncertainty.
"""
GUESS_ERRORS = 3.0
"""A guess must be better than a blind guess by this number of standard errors."""
MOST_TOGETHER = 2
"""The number of columns that are tried in pairs. For all columns together, naive Bayes is used."""
MOST_WORK, LEAST_RECORDS = 1 << 27, 20_000
"""The largest product of column combinations and records, and the smallest number of records."""
MOST_CELLS = 1 << 21
"""The largest number of pairs of groups and values that are counted in a table. More pairs are sorted."""
DENSE_FACTOR = 4
"""Up to this number of cells per record, a table of all groups and values is faster than a list."""
SMALLEST_GROUP = 20
"""Smaller groups are not reported, because a share in them is often large by chance."""

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnPrediction:
    """The success of guessing a protected column from other columns."""

    columns: tuple[str, ...]
    protected_column: str
    success: float
    blind_success: float
    records: int
    is_coarser: bool = False
    """Whether the column is almost a function of the protected column, so that a coarser form of the protected column
    is public.
    """

    @property
    def is_predictive(self) -> bool:
        """Whether the guess closes half of the distance to certainty, beyond chance."""
        is_better = (
            self.blind_success < 1
            and compute_wilson_interval(self.success, self.records, GUESS_ERRORS)[0] > self.blind_success
        )
        return is_better and 2 * self.success >= 1 + self.blind_success

    @property
    def sentence(self) -> str:
        """A sentence with the success of the guess, without a verdict."""
        column_text = " and ".join(map(repr, self.columns))
        if len(self.columns) > MOST_TOGETHER:
            column_text = f"all public columns together (mainly {format_values(self.columns, MOST_TOGETHER)})"
        return (
            f"guesses of {self.protected_column!r} from {column_text} are correct for {self.success:.1%} of the "
            f"records (without these columns: {self.blind_success:.1%})"
        )


def measure_blind_guess(true_codes: Codes) -> float:
    """The share of records with the most frequent value."""
    return float(np.bincount(true_codes).max(initial=0)) / max(len(true_codes), 1)


def measure_best_guess(groups: Keys, true_codes: Codes, size: int) -> float:
    """The share of records whose value is the most frequent value among the other records of their group.

    If several values are equally frequent, one of them is guessed. For a unique record, the guess is blind. Let a group
    have n1 records of the most frequent value and n2 records of the next most frequent value. Then the guess is correct
    for these n1 records if n1 - 1 > n2, and for no others.
    """
    keys = groups * size + true_codes
    cells = (int(groups.max(initial=0)) + 1) * size
    tops = (
        _find_tops_by_table(keys, cells, size)
        if cells <= min(MOST_CELLS, DENSE_FACTOR * len(keys))
        else _find_tops_by_list(keys, size)
    )
    largest = tops.largest
    right = largest * (
        (largest - 1 > tops.second_largest)
        + ((largest - 1 == tops.second_largest) & ~tops.is_single_record) / tops.ties
    )
    single_right = 0
    if tops.is_single_record.any():
        single_right = int((tops.value[tops.is_single_record] == np.bincount(true_codes).argmax()).sum())
    return (float(right.sum()) + single_right) / len(true_codes)


@dataclass(frozen=True, slots=True)
class _TopValues:
    """The most frequent value and the next most frequent value of each group with records."""

    value: Keys
    """The first of the most frequent values."""
    largest: Keys
    """The number of records of this value."""
    second_largest: Keys
    """The number of records of the next value; 0 if there is none."""
    ties: Keys
    """The number of values with the same number of records as the next value, and with one record more."""

    @property
    def is_single_record(self) -> npt.NDArray[np.bool_]:
        """Whether the group has a single record."""
        return np.asarray((self.largest == 1) & (self.second_largest == 0))


def _find_tops_by_table(keys: Keys, cells: int, size: int) -> _TopValues:
    """Finds the two values in a table of all groups and values."""
    table = np.bincount(keys, minlength=cells).reshape(-1, size)
    if not (has_records := table.any(axis=1)).all():
        table = table[has_records]
    lines, value = np.arange(len(table)), table.argmax(axis=1)
    largest = table[lines, value]
    table[lines, value] = 0
    second_largest = table.max(axis=1)
    return _TopValues(value, largest, second_largest, 1 + (table == second_largest[:, None]).sum(axis=1))


def _find_tops_by_list(keys: Keys, size: int) -> _TopValues:
    """Finds the two values in a list of the pairs of groups and values that occur."""
    keys, counts = count_keys(keys)
    group, value = np.divmod(keys, size)
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    largest = np.maximum.reduceat(counts, firsts)
    lines = np.diff(firsts, append=len(group))
    # The next value is the largest after removing one of the largest.
    is_largest = counts == np.repeat(largest, lines)
    top_lines = np.minimum.reduceat(np.where(is_largest, np.arange(len(counts)), len(counts)), firsts)
    other_counts = counts.copy()
    other_counts[top_lines] = 0
    second_largest = np.maximum.reduceat(other_counts, firsts)
    ties = 1 + np.add.reduceat(other_counts == np.repeat(second_largest, lines), firsts)
    return _TopValues(value[top_lines], largest, second_largest, ties)


def count_keys(keys: Keys) -> tuple[Keys, Keys]:
    """The distinct numbers in rising order, with their counts. Small ranges are counted in a table."""
    if int(keys.max(initial=0)) < MOST_CELLS:
        table = np.bincount(keys)
        distinct_keys = np.flatnonzero(table)
        return distinct_keys, table[distinct_keys]
    keys = np.sort(keys)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    return keys[starts], np.diff(starts, append=len(keys))


def measure_guesses(
    columns: Mapping[str, Codes], true_codes: Codes, size: int, protected_column: str, *, together: int
) -> list[ColumnPrediction]:
    """The success of guessing the protected column from each column or each combination."""
    blind_success, records = measure_blind_guess(true_codes), len(true_codes)
    if (ways := math.comb(len(columns), together)) > 1:  # a random sample is enough for large tables
        records = min(records, max(LEAST_RECORDS, MOST_WORK // ways))
    true_codes = true_codes[:records]
    wide = {name: codes[:records].astype(np.int64) for name, codes in columns.items()}

    def guess(names: tuple[str, ...]) -> ColumnPrediction:
        groups = wide[names[0]]
        for name in names[1:]:
            groups = groups * (int(wide[name].max(initial=0)) + 1) + wide[name]
        return ColumnPrediction(
            names, protected_column, measure_best_guess(groups, true_codes, size), blind_success, len(true_codes)
        )

    def guess_both_ways(names: tuple[str, ...]) -> ColumnPrediction:
        """Also measures the reverse: another column is disclosed too if the protected column determines its values."""
        column = wide[names[0]]
        reverse_blind = measure_blind_guess(column)
        reverse_success = measure_best_guess(true_codes.astype(np.int64), column, int(column.max(initial=0)) + 1)
        is_sure = compute_wilson_interval(reverse_success, records, GUESS_ERRORS)[0] > reverse_blind
        return replace(guess(names), is_coarser=is_sure and 1 - reverse_success <= COARSER_DOUBT * (1 - reverse_blind))

    return map_arrays(guess_both_ways if together == 1 else guess, itertools.combinations(wide, together), records)


def find_predictive_columns(rows: pa.Table, columns: Sequence[str], protected_column: str) -> list[str]:
    """Finds the columns of a table that disclose another column, or are a coarser form of it."""
    column_codes = {
        name: encode_batch_values(rows.column(name).combine_chunks())[0] for name in (*columns, protected_column)
    }
    true_codes = column_codes.pop(protected_column)
    predictions = measure_guesses(
        column_codes, true_codes, int(true_codes.max(initial=0)) + 1, protected_column, together=1
    )
    return [prediction.columns[0] for prediction in predictions if prediction.is_predictive or prediction.is_coarser]


def count_disclosed_records(codes: Codes, true_codes: Codes, size: int, prior: float, posterior: float) -> int:
    """Counts records whose value is within the prior in the table and above the posterior in their group."""
    keys, counts = count_keys(codes.astype(np.int64) * size + true_codes)
    group, value = np.divmod(keys, size)
    sizes = np.bincount(group, weights=counts).astype(np.int64).take(group)
    is_rare = np.bincount(true_codes, minlength=size).take(value) <= len(true_codes) * prior
    return int(counts[is_rare & (counts > sizes * posterior) & (sizes >= SMALLEST_GROUP)].sum())


def list_disclosing_columns(predictions: Sequence[ColumnPrediction]) -> tuple[ColumnPrediction, list[str]] | None:
    """The best prediction of a protected column, and the columns that need a decision. Single columns come first."""
    predictive = sorted(
        (prediction for prediction in predictions if prediction.is_predictive),
        key=lambda prediction: (len(prediction.columns), -prediction.success),
    )
    if not predictive:
        return None
    # If columns disclose only together, accepting the first is enough. Columns that disclose alone must all be
    # accepted.
    single_columns = [prediction.columns[0] for prediction in predictive if len(prediction.columns) == 1]
    return predictive[0], list(dict.fromkeys(single_columns)) or list(predictive[0].columns[:1])
