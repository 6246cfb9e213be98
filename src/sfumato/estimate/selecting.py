"""HAVING, ORDER BY and LIMIT: which rows of an answer to show, decided by DuckDB on the answer itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sfumato.estimate.connection import Session
from sfumato.estimate.estimating import Line
from sfumato.estimate.sql.question import Question
from sfumato.shown.quoting import quoted

ANSWER = "sfumato answer"
SELECTS_NOISE = (
    "rows were chosen or ordered by an estimate: those on top are there partly by chance, and their numbers are likely "
    "to be further from zero than the truth"
)


def chosen(session: Session, question: Question, lines: Sequence[Line]) -> list[tuple[Line, list[Any]]]:
    """The lines to show, each with the values of the columns that are no numbers."""
    shown = [output for output in question.outputs if output.formula is None]
    keys = []
    for line in lines:
        public, sensitive = iter(line.public), iter(line.sensitive)
        keys.append([next(sensitive) if group.is_sensitive else next(public) for group in question.groups])
    plain = {f'"k{number}"': number for number in range(len(question.groups))}
    if question.selection.is_all and all(output.sql in plain for output in shown):
        return [(line, [key[plain[output.sql]] for output in shown]) for line, key in zip(lines, keys, strict=True)]
    session.register(ANSWER, _table(question, lines, keys))
    rows = session.rows(_statement(question, [output.sql for output in shown]))
    return [(lines[number], values) for number, *values in rows]


def note_of(question: Question, lines: Sequence[Line]) -> str | None:
    """What to say where noise decides which rows are shown."""
    used = question.selection.by_formulas
    return SELECTS_NOISE if any(not line.estimates[each].is_exact for line in lines for each in used) else None


def _table(question: Question, lines: Sequence[Line], keys: Sequence[Sequence[Any]]) -> pa.Table:
    columns = {f"k{number}": [key[number] for key in keys] for number in range(len(question.groups))}
    numbers = {
        f"e{number}": pa.array(
            [None if math.isnan(value := line.estimates[number].value) else value for line in lines], pa.float64()
        )
        for number in range(len(question.formulas))
    }
    return pa.table({"line": pa.array(range(len(lines)), pa.int64()), **columns, **numbers})


def _statement(question: Question, columns: Sequence[str]) -> str:
    selection = question.selection
    where = f" WHERE {selection.having}" if selection.having else ""
    order = f" ORDER BY {selection.order}, line" if selection.order else " ORDER BY line"
    limit = f" {selection.limit}" if selection.limit else ""
    return f"SELECT {', '.join(['line', *columns])} FROM {quoted(ANSWER)}{where}{order}{limit}"
