"""Reads totals that the analyst knows from elsewhere.

The totals are in a CSV with columns of the answer and a column `total`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.cell_values import Value, display
from sfumato._core.small_text_files import LONGEST_VALUE, read_csv_lines
from sfumato._query.consistency.sum_constraints import Family
from sfumato.errors import QueryError

TOTAL = "total"

Key = tuple[Value, ...]


@dataclass(frozen=True)
class KnownTotals:
    """Known totals of cells. Each total belongs to given values in some columns of the answer."""

    columns: tuple[str, ...]
    totals_by_key: Mapping[tuple[str, ...], float]
    """The total of each combination of values, spelled as in the CSV. A missing value is an empty string."""
    source: str
    """The name of the source, such as its file."""

    def make_family(self, columns: Sequence[str], keys: Sequence[Key | None]) -> Family:
        """Makes the constraints on the cells of an answer. A cell without a key belongs to no total."""
        if unknown := [name for name in self.columns if name not in columns]:
            raise QueryError(
                f"{self.source} has the column {unknown[0]!r}, but the answer is not grouped by this column; it is "
                f"grouped by {', '.join(map(repr, columns)) or 'none'}.",
                code="not-a-group",
                fields={"column": unknown[0]},
            )
        numbers = {line: number for number, line in enumerate(self.totals_by_key)}
        places = [list(columns).index(name) for name in self.columns]
        texts = []
        for position, place in enumerate(places):  # the spelling of each value of a column in the totals
            listed_values = {line[position] for line in self.totals_by_key}
            values = {key[place] for key in keys if key is not None}
            texts.append(
                {
                    value: next((text for text in _list_spellings(value) if text in listed_values), display(value))
                    for value in values
                }
            )
        labels = np.full(len(keys), -1, dtype=np.int64)
        for cell, key in enumerate(keys):
            if key is not None:
                key_texts = tuple(text[key[place]] for text, place in zip(texts, places, strict=True))
                labels[cell] = numbers.get(key_texts, -1)
        totals: Floats = np.array(list(self.totals_by_key.values()), dtype=np.float64)
        has_cells = np.isin(np.arange(len(totals)), labels)
        for number in np.flatnonzero(~has_cells & (totals != 0)).tolist():
            raise QueryError(
                f"{self._describe_total(number)} has no row in the answer; check the spelling of its values, or "
                "remove this total.",
                code="total-without-row",
            )
        return Family(labels, totals, f"the totals in {self.source}", self._describe_total)

    def _describe_total(self, number: int) -> str:
        pairs = zip(self.columns, list(self.totals_by_key)[number], strict=True)
        conditions = ", ".join(f"{name} = {text!r}" for name, text in pairs)
        return f"the total of {conditions}" if conditions else "the total of all rows"


def _list_spellings(value: Value) -> list[str]:
    """The possible spellings of a value in a CSV."""
    if value is None:
        return [""]
    if isinstance(value, bool):
        return [str(value), str(value).lower(), str(value).upper()]
    if isinstance(value, float) and value.is_integer():
        return [display(value), str(int(value))]
    return [display(value)]


def read_totals(path: Path) -> KnownTotals:
    """Reads a CSV of totals."""
    name = repr(str(path))
    csv_rows = read_csv_lines(path, QueryError, f"{name} cannot be read as a CSV file.")
    header, *rows = [row for row in csv_rows if row] or [[]]
    if TOTAL not in header or len(set(header)) != len(header):
        raise QueryError(
            f"{name} must have the column {TOTAL!r} and at least one column of the answer, with no column repeated.",
            code="invalid-totals-header",
            fields={"file": str(path)},
        )
    totals_by_key: dict[tuple[str, ...], float] = {}
    for number, row in enumerate(rows, 2):
        key, total = _parse_line(path, number, header, row)
        if key in totals_by_key:
            raise QueryError(
                f"line {number} of {name} repeats the values of another line; write one total for these values.",
                code="repeated-total",
                fields={"file": str(path), "line": number},
            )
        totals_by_key[key] = total
    if not totals_by_key:
        raise QueryError(
            f"{name} has no rows; write one row for each known total.", code="no-totals", fields={"file": str(path)}
        )
    return KnownTotals(tuple(column_name for column_name in header if column_name != TOTAL), totals_by_key, name)


def _parse_line(path: Path, number: int, header: Sequence[str], row: Sequence[str]) -> tuple[tuple[str, ...], float]:
    name = repr(str(path))
    if len(row) != len(header) or any(len(text) > LONGEST_VALUE for text in row):
        raise QueryError(
            f"line {number} of {name} has {len(row)} fields, but the header has {len(header)}.",
            code="wrong-number-of-fields",
            fields={"file": str(path), "line": number, "fields": len(row), "columns": len(header)},
        )
    place = header.index(TOTAL)
    try:
        total = float(row[place])
    except ValueError:
        total = math.nan
    if not (math.isfinite(total) and total >= 0):
        raise QueryError(
            f"line {number} of {name} has no valid total; write a number of at least 0, such as 1234 or 56.7.",
            code="invalid-total",
            fields={"file": str(path), "line": number},
        )
    return tuple(text for position, text in enumerate(row) if position != place), total
