"""Finds public columns that disclose the protected one: perturbation does not change what another column reveals.

The guess for a record is the most frequent value among the others in its class. A column is too predictive if this
guess closes half of the distance between the best blind guess and certainty. The same holds for pairs and for all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._core.cell_values import format_values
from sfumato._records.column_codes import encode_batch_values
from sfumato._risk.attackers.attack_result import compute_wilson_interval
from sfumato.errors import InfeasibleError

COARSER_DOUBT = 0.1
"""A column is a coarser form of the protected one if that leaves at most this share of its uncertainty."""
GUESS_ERRORS = 3.0
"""The standard errors by which a guess must be better than a blind one."""
MOST_TOGETHER = 2
"""The number of columns tried in pairs; for all columns together naive Bayes is used."""
MOST_WORK, LEAST_RECORDS = 1 << 27, 20_000
"""The most combinations of columns times records for each, and the fewest records."""
MOST_CELLS = 1 << 21
"""The most pairs of groups and values that are counted in a table; more are sorted."""
DENSE_FACTOR = 4
"""A table of all groups and values is faster than a list up to this number of cells per record."""
SMALLEST_GROUP = 20
"""In smaller groups a share is too often large by chance to be worth a notice."""

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnPrediction:
    """The success of guessing a protected column from others."""

    columns: tuple[str, ...]
    protected_column: str
    success: float
    blind_success: float
    records: int
    is_coarser: bool = False
    """Whether the column is nearly a function of the protected one, so that a coarser form of it is public."""

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
        """The success of the guess in one sentence, without a verdict."""
        column_text = " and ".join(map(repr, self.columns))
        if len(self.columns) > MOST_TOGETHER:
            column_text = f"all public columns together (mainly {format_values(self.columns, MOST_TOGETHER)})"
        return (
            f"guessing {self.protected_column!r} from {column_text} is correct for {self.success:.1%} of the records "
            f"(blind guess: {self.blind_success:.1%})"
        )


def measure_blind_guess(true_codes: Codes) -> float:
    """The share of records with the most frequent value."""
    return float(np.bincount(true_codes).max(initial=0)) / max(len(true_codes), 1)


def measure_best_guess(groups: Keys, true_codes: Codes, size: int) -> float:
    """The share of records with the most frequent value among the others of their group.

    One of several equally frequent values is guessed; a unique record is guessed blindly. By counts: with n1 records of
    the most frequent value of a group and n2 of the next, the n1 records are guessed correctly if n1 - 1 > n2, and no
    others.
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
    """The most frequent value and the next one of each group with records."""

    value: Keys
    """The first of the most frequent values."""
    largest: Keys
    """Its number of records."""
    second_largest: Keys
    """The number of records of the next value; 0 if there is none."""
    ties: Keys
    """The number of values with as many records as the next one, and with one more."""

    @property
    def is_single_record(self) -> npt.NDArray[np.bool_]:
        """Whether the group has a single record."""
        return np.asarray((self.largest == 1) & (self.second_largest == 0))


def _find_tops_by_table(keys: Keys, cells: int, size: int) -> _TopValues:
    """Finds them in a table of all groups and values."""
    table = np.bincount(keys, minlength=cells).reshape(-1, size)
    if not (has_records := table.any(axis=1)).all():
        table = table[has_records]
    lines, value = np.arange(len(table)), table.argmax(axis=1)
    largest = table[lines, value]
    table[lines, value] = 0
    second_largest = table.max(axis=1)
    return _TopValues(value, largest, second_largest, 1 + (table == second_largest[:, None]).sum(axis=1))


def _find_tops_by_list(keys: Keys, size: int) -> _TopValues:
    """Finds them in a list of the pairs of groups and values that occur."""
    keys, counts = count_keys(keys)
    group, value = np.divmod(keys, size)
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    largest = np.maximum.reduceat(counts, firsts)
    lines = np.diff(firsts, append=len(group))
    # The next one: the largest after removing one of the largest.
    is_largest = counts == np.repeat(largest, lines)
    top_lines = np.minimum.reduceat(np.where(is_largest, np.arange(len(counts)), len(counts)), firsts)
    other_counts = counts.copy()
    other_counts[top_lines] = 0
    second_largest = np.maximum.reduceat(other_counts, firsts)
    ties = 1 + np.add.reduceat(other_counts == np.repeat(second_largest, lines), firsts)
    return _TopValues(value[top_lines], largest, second_largest, ties)


def count_keys(keys: Keys) -> tuple[Keys, Keys]:
    """The distinct numbers in rising order with their counts; a table counts small ranges."""
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
    """The success of guessing the protected column from each column, or from each combination."""
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
        """Also measures the reverse: values of another column that the protected one determines are disclosed too."""
        column = wide[names[0]]
        reverse_blind = measure_blind_guess(column)
        reverse_success = measure_best_guess(true_codes.astype(np.int64), column, int(column.max(initial=0)) + 1)
        is_sure = compute_wilson_interval(reverse_success, records, GUESS_ERRORS)[0] > reverse_blind
        return replace(guess(names), is_coarser=is_sure and 1 - reverse_success <= COARSER_DOUBT * (1 - reverse_blind))

    with ThreadPoolExecutor() as pool:  # sorting takes most of the time and releases the lock
        return list(pool.map(guess_both_ways if together == 1 else guess, itertools.combinations(wide, together)))


def find_predictive_columns(rows: pa.Table, columns: Sequence[str], protected_column: str) -> list[str]:
    """Finds the columns of a table that disclose another one, or are a coarser form of it."""
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


def check_predictive_columns(predictions: Sequence[ColumnPrediction]) -> None:
    """Refuses a publication whose public columns disclose a protected one; single columns are reported first."""
    predictive = sorted(
        (prediction for prediction in predictions if prediction.is_predictive),
        key=lambda prediction: (len(prediction.columns), -prediction.success),
    )
    if not predictive:
        return
    # Of columns that disclose only together, accepting the first suffices; those that disclose alone are all accepted.
    single_columns = [prediction.columns[0] for prediction in predictive if len(prediction.columns) == 1]
    named_columns = list(dict.fromkeys(single_columns)) or list(predictive[0].columns[:1])
    raise InfeasibleError(
        f"{predictive[0].sentence}. Perturbing {predictive[0].protected_column!r} does not hide that: drop the column "
        f"(`drop={named_columns!r}`), coarsen it, or accept the disclosure (`accept_disclosing={named_columns!r}`).",
        code="disclosing-columns",
        fields={"columns": ", ".join(named_columns), "protected_column": predictive[0].protected_column},
    )
