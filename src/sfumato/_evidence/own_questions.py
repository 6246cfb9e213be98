"""Answers the data steward's own questions from a release, beside the truth. Private."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from sfumato._core.json_types import Json
from sfumato._evidence.random_counts import keep_finite
from sfumato._figures.forest_plot import AnswerRow, list_answer_rows
from sfumato._query.answer import Answer
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.release import Release
from sfumato._records.tally import ResultRow
from sfumato.errors import SfumatoError

LOCKED_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}
MOST_ROWS = 1000
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class OwnAnswer:
    """A question of the data steward: its answer, and the truth of each number, if the table can answer it."""

    sql: str
    rows: tuple[tuple[AnswerRow, float | None], ...] = ()
    failure_reason: str = ""

    def to_json(self) -> Json:
        """The answer as JSON."""
        rows = [
            {
                "of": answer_row.label,
                "estimate": keep_finite(answer_row.value),
                "low": keep_finite(answer_row.low),
                "high": keep_finite(answer_row.high),
                "truth": keep_finite(truth),
            }
            for answer_row, truth in self.rows
        ]
        return {"sql": self.sql, "rows": rows, "why_not": self.failure_reason or None}


def answer_own_questions(
    release: Release, table: pa.Table, questions: Sequence[str], progress: Progress
) -> list[OwnAnswer]:
    """Answers the data steward's questions from the release and from the table."""
    if not questions:
        return []
    answers = release.ask_many(questions, progress=progress)
    with duckdb.connect(config=LOCKED_CONFIG) as connection:
        connection.register("release", table)
        connection.execute("SET lock_configuration = true")
        return [_compare_with_truth(connection, sql, answer) for sql, answer in zip(questions, answers, strict=True)]


def _compare_with_truth(connection: duckdb.DuckDBPyConnection, sql: str, answer: Answer | SfumatoError) -> OwnAnswer:
    if isinstance(answer, SfumatoError):
        return OwnAnswer(sql, (), str(answer))
    rows, reason = list_answer_rows(answer), ""
    truths: dict[tuple[str, ...], ResultRow] = {}
    places = [place for place, name in enumerate(answer.names) if name in answer.numbers]
    try:
        truth_rows = connection.execute(parse(sql).sql(dialect="duckdb")).fetchmany(MOST_ROWS)
        truths = {_make_group_key(row, places): row for row in truth_rows if len(row) == len(answer.names)}
    except (duckdb.Error, SfumatoError):
        reason = "the original table cannot answer this question, so the truth is unknown."
    answered_rows = [tuple(row[name] for name in answer.names) for row in answer.rows]
    numbers = [
        _parse_number(truths.get(_make_group_key(row, places), ()), place) for row in answered_rows for place in places
    ]
    return OwnAnswer(sql, tuple(zip(rows, numbers, strict=True)), reason)


def _make_group_key(row: ResultRow, places: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(cell) for place, cell in enumerate(row) if place not in places)


def _parse_number(row: ResultRow, place: int) -> float | None:
    """A cell as a number; missing groups have count 0 in the table too, but are not handled here."""
    try:
        return float(row[place]) if row and row[place] is not None else None
    except (TypeError, ValueError):
        return None
