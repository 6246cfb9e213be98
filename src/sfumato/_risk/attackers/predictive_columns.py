"""Which public columns tell the protected one: no perturbation hides what another column says.

A column is guessed by as well as the most frequent value among the others who share it. It tells too much where such a
guess closes half of the distance between the best blind guess and certainty; so do two columns together, and all.
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
"""A column is a coarser form of the protected one if that leaves at most this part of its doubt."""
GUESS_ERRORS = 3.0
"""By so many standard errors a guess must be better than a blind one."""
MOST_TOGETHER = 2
"""So many columns are tried together one by one; all of them by what is learned of each."""
MOST_WORK, LEAST_RECORDS = 1 << 27, 20_000
"""Ways to take columns together times records that are looked at for each; and the fewest records."""
MOST_CELLS = 1 << 21
"""Up to so many pairs of groups and values have a table of their counts; beyond, they are sorted."""
DENSE_FACTOR = 4
"""A table of all groups and values is quicker than a list where it has up to so many times as many cells as records."""
SMALLEST_GROUP = 20
"""In smaller groups a value is above any share by chance too often to be worth a notice."""

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnPrediction:
    """How well a protected column is guessed from others."""

    columns: tuple[str, ...]
    protected_column: str
    success: float
    blind_success: float
    records: int
    is_coarser: bool = False
    """Whether the column is nearly a function of the protected one: a coarser form of it, which is then public."""

    @property
    def is_predictive(self) -> bool:
        """Whether the guess closes half of the distance to certainty, and not by the chance of a few records."""
        is_better = (
            self.blind_success < 1
            and compute_wilson_interval(self.success, self.records, GUESS_ERRORS)[0] > self.blind_success
        )
        return is_better and 2 * self.success >= 1 + self.blind_success

    @property
    def sentence(self) -> str:
        """What the columns tell, without a verdict."""
        column_text = " and ".join(map(repr, self.columns))
        if len(self.columns) > MOST_TOGETHER:
            column_text = f"all public columns together (most by {format_values(self.columns, MOST_TOGETHER)})"
        return (
            f"guessing {self.protected_column!r} from {column_text} is right for {self.success:.1%} of the records "
            f"(blindly: {self.blind_success:.1%})"
        )


def measure_blind_guess(true_codes: Codes) -> float:
    """For which share of the records the most frequent value is right."""
    return float(np.bincount(true_codes).max(initial=0)) / max(len(true_codes), 1)


def measure_best_guess(groups: Keys, true_codes: Codes, size: int) -> float:
    """For which share of the records the most frequent value among the others of their group is right.

    Of several equally frequent ones one is guessed; who is alone is guessed blindly. By counts: with n1 records of the
    most frequent value of a group and n2 of the next, those n1 are guessed right if n1 - 1 > n2, and nobody else.
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
    """Of each group that has records: its most frequent value, and the next one."""

    value: Keys
    """The first of the most frequent ones."""
    largest: Keys
    """How many records that has."""
    second_largest: Keys
    """How many records the next one has; 0 where there is none."""
    ties: Keys
    """How many values have as many records as the next one, and one more."""

    @property
    def is_single_record(self) -> npt.NDArray[np.bool_]:
        """Whether it has one record only."""
        return np.asarray((self.largest == 1) & (self.second_largest == 0))


def _find_tops_by_table(keys: Keys, cells: int, size: int) -> _TopValues:
    """By a table of all groups and values."""
    table = np.bincount(keys, minlength=cells).reshape(-1, size)
    if not (has_records := table.any(axis=1)).all():
        table = table[has_records]
    lines, value = np.arange(len(table)), table.argmax(axis=1)
    largest = table[lines, value]
    table[lines, value] = 0
    second_largest = table.max(axis=1)
    return _TopValues(value, largest, second_largest, 1 + (table == second_largest[:, None]).sum(axis=1))


def _find_tops_by_list(keys: Keys, size: int) -> _TopValues:
    """By a list of the pairs of groups and values that occur."""
    keys, counts = count_keys(keys)
    group, value = np.divmod(keys, size)
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    largest = np.maximum.reduceat(counts, firsts)
    lines = np.diff(firsts, append=len(group))
    # The next one: the largest of the rest, where one of the largest is taken out.
    is_largest = counts == np.repeat(largest, lines)
    top_lines = np.minimum.reduceat(np.where(is_largest, np.arange(len(counts)), len(counts)), firsts)
    other_counts = counts.copy()
    other_counts[top_lines] = 0
    second_largest = np.maximum.reduceat(other_counts, firsts)
    ties = 1 + np.add.reduceat(other_counts == np.repeat(second_largest, lines), firsts)
    return _TopValues(value[top_lines], largest, second_largest, ties)


def count_keys(keys: Keys) -> tuple[Keys, Keys]:
    """The different numbers in rising order, and how often each occurs; few possible ones have a table."""
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
    """How well the protected column is guessed from each column, or from each so many together."""
    blind_success, records = measure_blind_guess(true_codes), len(true_codes)
    if (ways := math.comb(len(columns), together)) > 1:  # of very many, records that come first by chance are enough
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
        """Also the other way round: what the protected column decides of another is known as soon as that is public."""
        column = wide[names[0]]
        reverse_blind = measure_blind_guess(column)
        reverse_success = measure_best_guess(true_codes.astype(np.int64), column, int(column.max(initial=0)) + 1)
        is_sure = compute_wilson_interval(reverse_success, records, GUESS_ERRORS)[0] > reverse_blind
        return replace(guess(names), is_coarser=is_sure and 1 - reverse_success <= COARSER_DOUBT * (1 - reverse_blind))

    with ThreadPoolExecutor() as pool:  # sorting takes the time, and needs no lock
        return list(pool.map(guess_both_ways if together == 1 else guess, itertools.combinations(wide, together)))


def find_predictive_columns(rows: pa.Table, columns: Sequence[str], protected_column: str) -> list[str]:
    """The columns of a table that tell another one of it, or are a coarser form of it."""
    column_codes = {
        name: encode_batch_values(rows.column(name).combine_chunks())[0] for name in (*columns, protected_column)
    }
    true_codes = column_codes.pop(protected_column)
    predictions = measure_guesses(
        column_codes, true_codes, int(true_codes.max(initial=0)) + 1, protected_column, together=1
    )
    return [prediction.columns[0] for prediction in predictions if prediction.is_predictive or prediction.is_coarser]


def count_disclosed_records(codes: Codes, true_codes: Codes, size: int, prior: float, posterior: float) -> int:
    """The records whose value is within the prior in the table, and above the posterior in their group."""
    keys, counts = count_keys(codes.astype(np.int64) * size + true_codes)
    group, value = np.divmod(keys, size)
    sizes = np.bincount(group, weights=counts).astype(np.int64).take(group)
    is_rare = np.bincount(true_codes, minlength=size).take(value) <= len(true_codes) * prior
    return int(counts[is_rare & (counts > sizes * posterior) & (sizes >= SMALLEST_GROUP)].sum())


def check_predictive_columns(predictions: Sequence[ColumnPrediction]) -> None:
    """Stop where public columns tell what is protected, and say what can be done: about single columns first."""
    predictive = sorted(
        (prediction for prediction in predictions if prediction.is_predictive),
        key=lambda prediction: (len(prediction.columns), -prediction.success),
    )
    if not predictive:
        return
    # Of columns that tell only together, the first is enough to go on with; of those that tell alone, each is.
    single_columns = [prediction.columns[0] for prediction in predictive if len(prediction.columns) == 1]
    named_columns = list(dict.fromkeys(single_columns)) or list(predictive[0].columns[:1])
    raise InfeasibleError(
        f"{predictive[0].sentence}, and no perturbation hides what other columns say: leave out what tells "
        f"(`drop={named_columns!r}`), coarsen it, or go on in spite of it (`accept_disclosing={named_columns!r}`)."
    )
