"""Answers the data steward's own questions from a release, beside the truth. Private."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfumato._core.json_types import Json
from sfumato._evidence.random_counts import keep_finite
from sfumato._figures.forest_plot import AnswerRow, list_answer_rows
from sfumato._query.answer import Answer
from sfumato._query.release import Release
from sfumato._query.true_answers import find_true_numbers
from sfumato.errors import SfumatoError

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class OwnAnswer:
    """A question of the data steward: its answer, and the truth of each number, if the table can answer it."""

    sql: str
    rows: tuple[tuple[AnswerRow, float | None], ...] = ()
    failure_reason: str = ""
    source: str | None = None
    """The origin of the true numbers: the original table, or some of its rows."""

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
    truths = find_true_numbers(table, zip(questions, answers, strict=True))
    return [
        OwnAnswer(sql, (), str(answer))
        if isinstance(answer, SfumatoError)
        else _make_own_answer(sql, answer, numbers, reason)
        for sql, answer, (numbers, reason) in zip(questions, answers, truths, strict=True)
    ]


def _make_own_answer(sql: str, answer: Answer, numbers: Sequence[float | None], reason: str) -> OwnAnswer:
    source = None if answer.population is None else answer.population.source
    return OwnAnswer(sql, tuple(zip(list_answer_rows(answer), numbers, strict=True)), reason, source)
