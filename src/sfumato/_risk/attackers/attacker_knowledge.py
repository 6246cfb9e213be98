"""What is believed of a person by somebody who knows some public columns, and how these go with the values of others.

Each column weighs the values by their counts among the others who share the person's value of it, and by the shares of
the table as if these were so many further records (naive Bayes, leaving one out). How much the shares of the table
weigh, and how much columns repeat each other, is what predicts the others best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._core.arrays import Codes, Floats, Places

WEIGHTS = np.geomspace(0.1, 10_000, 16)
"""As how many further records the shares of the table may count."""
TEMPERS = np.array([1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
"""How much of what columns say together may be believed."""
MOST_CELLS = 1 << 22
"""A larger table of counts is kept sparse."""
TUNING_CELLS = 1 << 18
"""On as many records as have this many beliefs the temper is chosen."""


Table = Any
"""Rows of a table by their numbers: an array, or a sparse one where there are many."""


@dataclass(frozen=True)
class Evidence:
    """One column: what it says for each value, and what of that is a person's own record."""

    codes: Codes
    says: Table
    """For each value of the column (row) and each protected value (column), the logarithm of what it weighs more."""
    own: Floats
    """For each record, what it adds to what is said of its own value."""

    @classmethod
    def of(cls, codes: Codes, held: Codes, shares: Floats, height: int = 0) -> Evidence:
        """Count how a column goes with the protected values; it may have more values than are met here."""
        codes = codes.astype(np.int64)
        counts, met = count_cooccurrences(codes, held, len(shares), height)
        weight = _choose_prior_weight(codes, met, held, shares)
        if isinstance(counts, np.ndarray):
            if counts.size > len(held):
                own = _compute_own_evidence(met, weight * shares.take(held), weight, len(held))
            else:  # the same for all records of a cell
                own = _compute_own_evidence(np.maximum(counts, 1), weight * shares, weight, len(held)).take(
                    codes * len(shares) + held
                )
            return cls(codes, np.log1p(counts / (weight * shares)), own)
        own = _compute_own_evidence(met, weight * shares.take(held), weight, len(held))
        counts.data = np.log1p(counts.data / (weight * shares.take(counts.indices)))
        return cls(codes, counts, own)

    def said(self, rows: Places) -> Floats:
        """What the column says of some records, for each protected value."""
        return rows_of(self.says, self.codes[rows])


def _compute_own_evidence(met: Floats, prior: Floats, weight: float, records: int) -> Floats:
    """What a record adds to what is said of its own value, which so many records of its column hold.

    Without it, its value is rarer in the table too: else its own value would seem a little less likely.
    """
    others = np.maximum(prior - weight / records, prior / records)
    return np.log1p(met / prior) - np.log1p((met - 1) / others)


def rows_of(table: Table, rows: Codes) -> Floats:
    """Some rows of a table, written out."""
    table_rows = table[rows]
    return np.asarray(table_rows if isinstance(table, np.ndarray) else table_rows.toarray())


def count_cooccurrences(codes: Codes, true_codes: Codes, size: int, height: int = 0) -> tuple[Table, Floats]:
    """How often each value of a column (row) meets each of so many values; and of each record, how often its own do.

    The table has a row for each value that occurs, or as many as are asked for.
    """
    height, wide = max(int(codes.max(initial=0)) + 1, height), codes.astype(np.int64)
    keys = wide * size + true_codes
    if height * size <= MOST_CELLS:
        table = np.bincount(keys, minlength=height * size).astype(np.float64)
        return table.reshape(height, size), table.take(keys)
    from scipy import sparse  # noqa: PLC0415 - takes long to load, and is for columns of many values

    lines, places, times = np.unique(keys, return_inverse=True, return_counts=True)
    rows, columns = np.divmod(lines, size)
    counts = sparse.coo_array((times.astype(np.float64), (rows, columns)), shape=(height, size)).tocsr()
    return counts, times.astype(np.float64).take(places)


def _choose_prior_weight(codes: Codes, met: Floats, true_codes: Codes, shares: Floats) -> float:
    """The weight of the table's shares under which records are likeliest by what the others say."""
    step = max(1, len(met) // 10_000)  # one number is chosen, and as many records are enough for it
    sizes = np.bincount(codes).astype(np.float64).take(codes[::step])
    met, shares = met[::step], shares.take(true_codes[::step])
    fits = [np.log((met - 1 + weight * shares) / (sizes - 1 + weight)).sum() for weight in WEIGHTS]
    return float(WEIGHTS[int(np.argmax(fits))])


def compute_smoothed_shares(true_codes: Codes, size: int) -> Floats:
    """The shares of the values, of which none is nothing."""
    return (np.bincount(true_codes, minlength=size) + 1 / size) / (len(true_codes) + 1)


@dataclass(frozen=True)
class Knowledge:
    """What is believed by somebody who knows some columns of a person, before anything is published."""

    shares: Floats
    held: Codes
    evidence: Sequence[Evidence]
    temper: float = 1.0

    @classmethod
    def of(cls, evidence: Sequence[Evidence], held: Codes, shares: Floats) -> Knowledge:
        """What is believed by some columns; each record is left out where it is believed something of."""
        knowledge = cls(shares, held, evidence)
        return knowledge if len(evidence) < 2 else knowledge.tempered()  # noqa: PLR2004

    def tempered(self) -> Knowledge:
        """The same, with as much of the evidence as predicts best."""
        rows = np.arange(min(len(self.held), max(1, TUNING_CELLS // len(self.shares))))
        log_weights, own, fits, shares = self._said(rows), self.held[rows], [], np.log(self.shares)
        weighed = np.empty_like(log_weights)
        for temper in TEMPERS:
            np.multiply(log_weights, temper, out=weighed)
            weighed += shares
            believed, top = weighed[np.arange(len(rows)), own], weighed.max(axis=1, keepdims=True)
            weighed -= top
            total = np.log(np.exp(weighed, out=weighed).sum(axis=1)) + top[:, 0]
            fits.append(float((believed - total).sum()))
        return Knowledge(self.shares, self.held, self.evidence, float(TEMPERS[int(np.argmax(fits))]))

    def beliefs(self, rows: Places) -> Floats:
        """What is believed of some records: a row each, which adds up to 1."""
        return self._weighed(self._said(rows))

    def beliefs_of_others(self, columns: Sequence[Codes], people: int) -> Floats:
        """What is believed of so many people who are not among the records, by their columns."""
        log_weights = np.zeros((people, len(self.shares)))
        for column_evidence, codes in zip(self.evidence, columns, strict=True):
            log_weights += rows_of(column_evidence.says, codes.astype(np.int64))
        return self._weighed(log_weights)

    def _weighed(self, said: Floats) -> Floats:
        """Beliefs, in the place of what was said."""
        said *= self.temper
        said += np.log(self.shares)
        said -= said.max(axis=1, keepdims=True)
        np.exp(said, out=said)
        said /= said.sum(axis=1, keepdims=True)
        return said

    def _said(self, rows: Places) -> Floats:
        log_weights = np.zeros((len(rows), len(self.shares)))
        for number, column_evidence in enumerate(self.evidence):
            log_weights = (
                column_evidence.said(rows)
                if not number
                else np.add(log_weights, column_evidence.said(rows), out=log_weights)
            )
            log_weights[np.arange(len(rows)), self.held[rows]] -= column_evidence.own[rows]
        return log_weights
