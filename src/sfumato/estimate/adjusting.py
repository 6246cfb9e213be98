"""Consistent numbers beside the estimates of an answer: its counts as cells, with what they must add up to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.errors import QueryError
from sfumato.estimate.attaching import attached
from sfumato.estimate.connection import Session
from sfumato.estimate.consistent.tables import CALIBRATED, CONSISTENT, Adjustment, AnswerCells
from sfumato.estimate.consistent.totals import TOTAL, KnownTotals, read_totals
from sfumato.estimate.estimate import Estimate
from sfumato.estimate.estimating import Estimator, Line
from sfumato.estimate.selecting import chosen
from sfumato.estimate.sql.question import Question, Selection
from sfumato.request.values import Value, display
from sfumato.shown.tally import Key, key_of

NO_COUNT = "only COUNT(*) is made consistent or calibrated, and the question does not select it; add COUNT(*)."
NOTHING_TO_ADJUST = "every number is exact, so nothing was made consistent or calibrated."


@dataclass(frozen=True)
class _CountedPart:
    """A line of an answer, or what the lines leave out of a public group."""

    key: Key | None
    """Its values in the columns of the answer; None for what is left out, which is in no total of the analyst."""
    estimate: Estimate
    group: Key

    @property
    def certain(self) -> float:
        """How many records are in it for certain, where not all of it is known."""
        return 0.0 if self.estimate.is_exact else max(0.0, self.estimate.bounds.low)

    def split(self) -> tuple[_CountedPart, _CountedPart]:
        """What is certain, and the rest of it, which cannot be negative either."""
        known, rest = Estimate.exact(self.certain), self.estimate.scaled(1.0, -self.certain)
        return replace(self, estimate=known), replace(self, estimate=rest)


@dataclass(frozen=True)
class Adjusting:
    """How to adjust the counts of an answer, and to which totals of the analyst."""

    adjustment: Adjustment
    totals: tuple[KnownTotals, ...] = ()

    def columns(self, question: Question) -> dict[str, str]:
        """For each number to adjust, which is every COUNT(*), the column of its adjusted one."""
        found = {each.name: self.adjustment.column(each.name) for each in question.outputs if question.is_count(each)}
        if not found:
            raise QueryError(NO_COUNT)
        if {name for each in question.outputs for name in each.columns} & set(found.values()):
            raise QueryError("two columns of the answer have the same name; rename one with AS.")
        return found

    def adjusted(self, session: Session, estimator: Estimator, lines: Sequence[Line]) -> list[Line]:
        """All lines, before rows are chosen among, each with its adjusted count."""
        question, groups = estimator.question, estimator.public_groups()
        (count,) = {each.formula for each in question.outputs if each.formula is not None and question.is_count(each)}
        shown = chosen(session, replace(question, selection=Selection()), lines)
        parts = [_CountedPart(key_of(values), line.estimates[count], line.public) for line, values in shown]
        parts += [_CountedPart(None, group.rest, key) for key, group in groups.items() if group.rest is not None]
        numbers = self._numbers(question, parts, {key: group.records for key, group in groups.items()})
        return [replace(line, adjusted=number) for line, number in zip(lines, numbers[: len(lines)], strict=True)]

    def _numbers(self, question: Question, parts: Sequence[_CountedPart], records: Mapping[Key, float]) -> list[float]:
        """The adjusted count of each part."""
        known, free = zip(*(part.split() for part in parts), strict=True) if parts else ((), ())
        split = [*free, *(part for part in known if part.estimate.value)]
        cells = AnswerCells(
            tuple(output.name for output in question.outputs if output.formula is None),
            [part.key for part in split],
            [part.estimate for part in split],
            question.public_names,
            [part.group for part in split],
            records,
        )
        found = cells.adjusted(self.adjustment, self.totals)[: len(parts)].tolist()
        return [number + part.certain for number, part in zip(found, parts, strict=True)]


def adjusting(*, consistent: bool, totals: Sequence[Any]) -> Adjusting | None:
    """What is asked for: no negative numbers, known totals (files or tables), both or nothing."""
    if isinstance(totals, str | Path):
        raise QueryError("give a list of totals, such as totals=['known.csv'].")
    known = tuple(
        read_totals(Path(each)) if isinstance(each, str | Path) else _of_table(each, f"table {number} of totals")
        for number, each in enumerate(totals, 1)
    )
    if not consistent and not known:
        return None
    return Adjusting(CONSISTENT if consistent else CALIBRATED, known)


def _of_table(given: Any, name: str) -> KnownTotals:
    """Known totals from a frame, or another table in memory."""
    table = attached("totals", given)
    columns = tuple(column for column in table.schema.names if column != TOTAL)
    if len(columns) == table.num_columns:
        raise QueryError(f"{name} must have the column {TOTAL!r}, and columns of the answer.")
    lines: dict[tuple[str, ...], float] = {}
    for row in table.to_pylist():
        key = tuple(_written(row[column]) for column in columns)
        if key in lines:
            raise QueryError(f"{name} has two rows with the same values; write one total for them.")
        lines[key] = _number(row, name)
    if not lines:
        raise QueryError(f"{name} has no row; write one for each total that is known.")
    return KnownTotals(columns, lines, name)


def _number(row: Mapping[str, Any], name: str) -> float:
    try:
        total = float(row[TOTAL])
    except (TypeError, ValueError):
        total = math.nan
    if not (math.isfinite(total) and total >= 0):
        raise QueryError(f"{name} has a row without a total that is a number from 0, such as 1234 or 56.7.")
    return total


def _written(value: Value) -> str:
    """A value as a CSV would have it: frames turn whole numbers into others where one is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else display(value)
