"""Measures the errors of answers to random counts and to the data steward's questions. Private."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._core.json_types import Json
from sfumato._figures import EstimateWithTruth
from sfumato._figures.forest_plot import AnswerRow, list_answer_rows
from sfumato._query.answer import Answer
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release
from sfumato._query.true_answers import find_true_numbers
from sfumato._risk.attackers.record_linkage import encode_shared_values
from sfumato._risk.attackers.release_matching import find_domain_places
from sfumato.errors import SfumatoError

CONDITIONS, MOST_COLUMNS, MOST_VALUES = 60, 3, 80
"""The number of random conditions, and the most public columns and the most counted values in each condition."""
TYPICAL_COUNT, NEAR_FACTOR = 1000, 2.0
"""The size of counts for the typical error, and the factor by which the included counts may differ from this size."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Utility:
    """Random counts, compared with the truth."""

    answers: tuple[EstimateWithTruth, ...]
    failure_reason: str = ""
    """The reason why there are no counts."""

    @property
    def known_answers(self) -> list[EstimateWithTruth]:
        """The counts that have an interval."""
        return [answer for answer in self.answers if answer.is_complete]

    @property
    def coverage(self) -> float | None:
        """The share of 95% confidence intervals that cover the truth."""
        return (
            sum(answer.is_covered for answer in self.known_answers) / len(self.known_answers)
            if self.known_answers
            else None
        )

    @property
    def typical_error(self) -> float | None:
        """The median relative standard error of counts of about a thousand."""
        near_errors = [
            answer.standard_error / answer.truth
            for answer in self.known_answers
            if TYPICAL_COUNT / NEAR_FACTOR <= answer.truth <= TYPICAL_COUNT * NEAR_FACTOR
        ]
        return median(near_errors) if near_errors else None

    def to_json(self) -> Json:
        """The utility as JSON."""
        return {
            "questions": len(self.known_answers),
            "coverage": self.coverage,
            "relative_error_at_1000": self.typical_error,
            "answers": [
                {
                    "truth": answer.truth,
                    "estimate": answer.estimate,
                    "standard_error": answer.standard_error,
                    "low": _keep_finite(answer.low),
                    "high": _keep_finite(answer.high),
                }
                for answer in self.known_answers
            ],
            "why_not": self.failure_reason or None,
        }


def measure_random_counts(release: Release, table: pa.Table, names: Sequence[str], seed: int | None) -> Utility:
    """Draws conditions from records, counts all values in each, and compares the counts with the truth."""
    manifest, rows = release.manifest, table.num_rows
    places, generator = find_domain_places(manifest.naming, table), np.random.default_rng(seed)
    (columns,) = encode_shared_values(names, [table]) if names else ([],)
    queries, truths = list[CountQuery](), list[int]()
    for _ in range(CONDITIONS if names and rows else 1):
        number = int(generator.integers(0, min(MOST_COLUMNS, len(names)) + 1))
        chosen_columns = generator.choice(len(names), size=number, replace=False).tolist() if names else []
        row = int(generator.integers(rows))
        is_selected = np.ones(rows, dtype=np.bool_)
        for place in chosen_columns:
            is_selected &= columns[place] == columns[place][row]
        where = {names[place]: table.column(names[place])[row].as_py() for place in chosen_columns}
        counts = np.bincount(places[is_selected], minlength=len(manifest.domain))
        for value in _sample_values(counts, generator):
            queries.append(CountQuery(where, [manifest.domain[value]]))
            truths.append(int(counts[value]))
    try:
        estimates = release.count_many(queries)
    except SfumatoError as error:
        return Utility((), str(error))
    return Utility(
        tuple(EstimateWithTruth.of(float(truth), estimate) for truth, estimate in zip(truths, estimates, strict=True))
    )


def _sample_values(counts: Codes, generator: np.random.Generator) -> list[int]:
    """All values. If there are many, some values that occur and a few random ones."""
    if len(counts) <= MOST_VALUES:
        return list(range(len(counts)))
    occurring = np.flatnonzero(counts)
    most = generator.permutation(occurring)[: 3 * MOST_VALUES // 4]
    rest = generator.permutation(len(counts))[: MOST_VALUES - len(most)]
    return sorted({*most.tolist(), *rest.tolist()})


@dataclass(frozen=True)
class OwnAnswer:
    """A question of the data steward, with its answer and the true numbers, if the table can answer the question."""

    sql: str
    rows: tuple[tuple[AnswerRow, float | None], ...] = ()
    failure_reason: str = ""
    source: str | None = None
    """The table that holds the true numbers: the original table, or some of its rows."""

    def to_json(self) -> Json:
        """The answer as JSON."""
        rows = [
            {
                "of": answer_row.label,
                "estimate": _keep_finite(answer_row.value),
                "low": _keep_finite(answer_row.low),
                "high": _keep_finite(answer_row.high),
                "truth": _keep_finite(truth),
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


def _keep_finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
