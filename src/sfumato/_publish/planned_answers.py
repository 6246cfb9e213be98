"""Answers the data steward's questions before anything is published, from one simulated release. Private.

The release is drawn with a discarded key, in a private folder that is removed. Its standard errors are of the size that
analysts would see, for every mechanism and question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from sfumato._core.json_types import Json
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine
from sfumato._figures.forest_plot import list_answer_rows
from sfumato._perturb.perturbation import Rewrite
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.table_scan import TableScan
from sfumato._publish.publication import build_release
from sfumato._publish.request import Request
from sfumato._query.answer import Answer
from sfumato._query.batch_queries import read_numbered_batch
from sfumato._query.release import Release
from sfumato._query.true_answers import TrueNumbers, find_true_numbers
from sfumato._records.column_codes import decode_dictionary
from sfumato.errors import SfumatoError

BATCH_ROWS = 1 << 17
ASKING = "asking"
"""The stage of progress in which questions are answered."""


@dataclass(frozen=True)
class PlannedNumber:
    """One number of an answer, with its true value and the standard error that a release would state. Secret."""

    label: str
    """The label of the number: its group and its name."""
    truth: float | None
    """The number in the table. None if the table cannot answer the question."""
    standard_error: float | None
    """The standard error in one simulated release. None if the answer has no error."""

    @property
    def relative_error(self) -> float | None:
        """The standard error divided by the true number."""
        return self.standard_error / abs(self.truth) if self.truth and self.standard_error is not None else None

    def to_json(self) -> Json:
        """The number as JSON."""
        errors = {"standard_error": self.standard_error, "relative_error": self.relative_error}
        return {"of": self.label, "truth": self.truth, **errors}


@dataclass(frozen=True)
class PlannedAnswer:
    """A question of the data steward, with its numbers. Secret."""

    line: int
    """The line of the question in its file, or its position in the list."""
    sql: str
    numbers: tuple[PlannedNumber, ...] = ()
    problem: str = ""
    """The reason why there is no answer, or no true number."""

    def to_json(self) -> Json:
        """The answer as JSON."""
        rows = [number.to_json() for number in self.numbers]
        return {"line": self.line, "sql": self.sql, "rows": rows, "why_not": self.problem or None}


def list_questions(questions: Sequence[str] | str | Path) -> list[tuple[int, str]]:
    """The questions of a file or a list, with their lines."""
    if isinstance(questions, str | Path):
        return read_numbered_batch(Path(questions))
    return list(enumerate(questions, start=1))


def answer_before_publishing(  # noqa: PLR0913 - a plan and questions
    questions: Sequence[tuple[int, str]],
    request: Request,
    survey: TableScan,
    chosen: ChosenMechanism,
    *,
    draws: Draws,
    engine: Engine,
    folder: Path,
) -> tuple[PlannedAnswer, ...]:
    """Answers each question from a simulated release.

    A question that fails gets the reason, and the others are still answered.
    """
    if not questions:
        return ()
    rewrite = Rewrite(survey.columns, survey.sensitive, chosen.mechanism, chosen.plan, chosen.histogram.counts, draws)
    try:
        rewrite.encoding.check(survey.sensitive)
        build_release(folder / "simulated", request, survey, rewrite, engine=engine)
    except SfumatoError as error:
        return tuple(PlannedAnswer(line, sql, problem=str(error)) for line, sql in questions)
    texts = [sql for _, sql in questions]
    answers = Release.open(folder / "simulated").ask_many(texts, progress=partial(engine.progress, ASKING))
    truths = find_true_numbers(_read_prepared(survey), zip(texts, answers, strict=True))
    return tuple(
        _make_answer(line, sql, answer, truth)
        for (line, sql), answer, truth in zip(questions, answers, truths, strict=True)
    )


def _make_answer(line: int, sql: str, answer: Answer | SfumatoError, truth: TrueNumbers) -> PlannedAnswer:
    if isinstance(answer, SfumatoError):
        return PlannedAnswer(line, sql, problem=str(answer))
    labels = [row.label for row in list_answer_rows(answer)]
    errors = [row[name].standard_error for row in answer.rows for name in answer.numbers]
    numbers = tuple(
        PlannedNumber(label, number, error if error is not None and math.isfinite(error) else None)
        for label, number, error in zip(labels, truth[0], errors, strict=True)
    )
    return PlannedAnswer(line, sql, numbers, truth[1])


def _read_prepared(survey: TableScan) -> pa.Table:
    """The rows that would be published, but with the true values of the sensitive columns."""
    prepare, names = survey.preparation, list(survey.preparation.columns)
    return pa.Table.from_batches(
        pa.RecordBatch.from_arrays([decode_dictionary(column) for column in prepare(batch).columns], names=names)
        for batch in survey.source.read_batches(names, BATCH_ROWS)
    )
