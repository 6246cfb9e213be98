"""The beliefs of an attacker who knows public columns of a person, and how these columns predict the values of others.

Each column gives each value a weight: its count among the other people with the same value in this column. The shares
in the whole table count as further records (naive Bayes, leaving one out). The weight of these shares and the
correction for correlated columns are chosen to predict the other people best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._core.array_types import Codes, Floats, Places

WEIGHTS = np.geomspace(0.1, 10_000, 16)
"""The choices for the weight of the table's shares, as a number of records."""
TEMPERS = np.array([1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
"""The choices for the share of the columns' joint evidence to use."""
MOST_CELLS = 1 << 22
"""Tables of counts that are larger than this are sparse."""
TUNING_CELLS = 1 << 18
"""The number of beliefs (and thus of records) that are used to choose the correction for correlated columns."""


Table = Any
"""Takes rows of a table by number, from a dense or sparse array."""


@dataclass(frozen=True)
class ColumnEvidence:
    """The evidence of one column for each value, and the part of the evidence that comes from a person's own record."""

    codes: Codes
    log_weights: Table
    """For each value of the column (row) and each protected value (column), the logarithm of its relative weight."""
    own_log_weights: Floats
    """The contribution of each record to the evidence for its own value."""

    @classmethod
    def of(cls, codes: Codes, true_codes: Codes, shares: Floats, height: int = 0) -> ColumnEvidence:
        """Counts how often values of a column and protected values occur together.

        Some values may not occur in these records.
        """
        codes = codes.astype(np.int64)
        counts, cell_counts = count_cooccurrences(codes, true_codes, len(shares), height)
        weight = _choose_prior_weight(codes, cell_counts, true_codes, shares)
        if isinstance(counts, np.ndarray):
            if counts.size > len(true_codes):
                own_log_weights = _compute_own_evidence(
                    cell_counts, weight * shares.take(true_codes), weight, len(true_codes)
                )
            else:  # equal for all records of a cell
                own_log_weights = _compute_own_evidence(
                    np.maximum(counts, 1), weight * shares, weight, len(true_codes)
                ).take(codes * len(shares) + true_codes)
            return cls(codes, np.log1p(counts / (weight * shares)), own_log_weights)
        own_log_weights = _compute_own_evidence(cell_counts, weight * shares.take(true_codes), weight, len(true_codes))
        counts.data = np.log1p(counts.data / (weight * shares.take(counts.indices)))
        return cls(codes, counts, own_log_weights)

    def look_up(self, rows: Places) -> Floats:
        """The evidence of the column for each protected value of some records."""
        return select_rows(self.log_weights, self.codes[rows])


def _compute_own_evidence(cell_counts: Floats, prior: Floats, weight: float, records: int) -> Floats:
    """A record's contribution to the evidence for its own value, given the number of records with this value.

    Without the record, its value is also rarer in the table. If this were ignored, the true value would seem slightly
    less likely.
    """
    others = np.maximum(prior - weight / records, prior / records)
    return np.log1p(cell_counts / prior) - np.log1p((cell_counts - 1) / others)


def select_rows(table: Table, rows: Codes) -> Floats:
    """Takes rows of a table as a dense array."""
    table_rows = table[rows]
    return np.asarray(table_rows if isinstance(table, np.ndarray) else table_rows.toarray())


def count_cooccurrences(codes: Codes, true_codes: Codes, size: int, height: int = 0) -> tuple[Table, Floats]:
    """Counts how often each column value (row) occurs with each protected value.

    Also returns the count of each record's own pair.

    The table has a row for each value that occurs, or as many rows as requested.
    """
    height, wide = max(int(codes.max(initial=0)) + 1, height), codes.astype(np.int64)
    keys = wide * size + true_codes
    if height * size <= MOST_CELLS:
        table = np.bincount(keys, minlength=height * size).astype(np.float64)
        return table.reshape(height, size), table.take(keys)
    from scipy import sparse  # noqa: PLC0415 - scipy takes long to load, and only columns of many values need it

    lines, places, times = np.unique(keys, return_inverse=True, return_counts=True)
    rows, columns = np.divmod(lines, size)
    counts = sparse.coo_array((times.astype(np.float64), (rows, columns)), shape=(height, size)).tocsr()
    return counts, times.astype(np.float64).take(places)


def _choose_prior_weight(codes: Codes, cell_counts: Floats, true_codes: Codes, shares: Floats) -> float:
    """The weight of the table's shares that predicts each record best from the other records."""
    step = max(1, len(cell_counts) // 10_000)  # a sample is enough to choose one number
    sizes = np.bincount(codes).astype(np.float64).take(codes[::step])
    cell_counts, shares = cell_counts[::step], shares.take(true_codes[::step])
    fits = [np.log((cell_counts - 1 + weight * shares) / (sizes - 1 + weight)).sum() for weight in WEIGHTS]
    return float(WEIGHTS[int(np.argmax(fits))])


def compute_smoothed_shares(true_codes: Codes, size: int) -> Floats:
    """The shares of the values, all of which are positive."""
    return (np.bincount(true_codes, minlength=size) + 1 / size) / (len(true_codes) + 1)


@dataclass(frozen=True)
class Knowledge:
    """The beliefs of an attacker who knows some columns of a person, before anything is published."""

    shares: Floats
    true_codes: Codes
    evidence: Sequence[ColumnEvidence]
    temper: float = 1.0

    @classmethod
    def of(cls, evidence: Sequence[ColumnEvidence], true_codes: Codes, shares: Floats) -> Knowledge:
        """The beliefs from some columns. Each record is left out of the evidence about itself."""
        knowledge = cls(shares, true_codes, evidence)
        return knowledge if len(evidence) < 2 else knowledge.tune_temper()  # noqa: PLR2004

    def tune_temper(self) -> Knowledge:
        """Reduces the evidence to the strength that predicts best."""
        rows = np.arange(min(len(self.true_codes), max(1, TUNING_CELLS // len(self.shares))))
        log_weights, true_codes, fits, shares = (
            self._sum_log_weights(rows),
            self.true_codes[rows],
            [],
            np.log(self.shares),
        )
        log_beliefs = np.empty_like(log_weights)
        for temper in TEMPERS:
            np.multiply(log_weights, temper, out=log_beliefs)
            log_beliefs += shares
            true_log_beliefs, top = (
                log_beliefs[np.arange(len(rows)), true_codes],
                log_beliefs.max(axis=1, keepdims=True),
            )
            log_beliefs -= top
            total = np.log(np.exp(log_beliefs, out=log_beliefs).sum(axis=1)) + top[:, 0]
            fits.append(float((true_log_beliefs - total).sum()))
        return Knowledge(self.shares, self.true_codes, self.evidence, float(TEMPERS[int(np.argmax(fits))]))

    def compute_beliefs(self, rows: Places) -> Floats:
        """Beliefs about some records: one row each, with sum 1."""
        return self._normalize(self._sum_log_weights(rows))

    def predict_others(self, columns: Sequence[Codes], people: int) -> Floats:
        """The beliefs about people outside these records, from their columns."""
        log_weights = np.zeros((people, len(self.shares)))
        for column_evidence, codes in zip(self.evidence, columns, strict=True):
            log_weights += select_rows(column_evidence.log_weights, codes.astype(np.int64))
        return self._normalize(log_weights)

    def _normalize(self, log_weights: Floats) -> Floats:
        """Turns log-weights into beliefs, in place."""
        log_weights *= self.temper
        log_weights += np.log(self.shares)
        log_weights -= log_weights.max(axis=1, keepdims=True)
        np.exp(log_weights, out=log_weights)
        log_weights /= log_weights.sum(axis=1, keepdims=True)
        return log_weights

    def _sum_log_weights(self, rows: Places) -> Floats:
        log_weights = np.zeros((len(rows), len(self.shares)))
        for number, column_evidence in enumerate(self.evidence):
            log_weights = (
                column_evidence.look_up(rows)
                if not number
                else np.add(log_weights, column_evidence.look_up(rows), out=log_weights)
            )
            log_weights[np.arange(len(rows)), self.true_codes[rows]] -= column_evidence.own_log_weights[rows]
        return log_weights
