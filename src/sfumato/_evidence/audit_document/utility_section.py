"""Makes the section of the report about the errors of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from sfumato._document.document import Block, DataTable, Heading, Picture, Text, Tone
from sfumato._document.html_markup import NOTHING, shorten_name
from sfumato._evidence.audit_document.section_phrases import (
    describe_coverage_error,
    describe_shared_records,
    make_statement,
)
from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.certificate import draw_certificate_curves, make_error_curves
from sfumato._evidence.own_questions import OwnAnswer
from sfumato._evidence.random_counts import Utility
from sfumato._figures import draw_against_truth, draw_forest_plot
from sfumato._figures.estimates_against_truth import split_by_size
from sfumato._figures.number_format import format_exact_percent, format_quantity
from sfumato._query.release_error_prediction import predict_errors

MOST_QUESTIONS = 20
"""The most questions of the data steward that have a table each. The JSON output has all questions."""


def list_utility(dossier: Dossier) -> tuple[Block, ...]:
    """Makes the section with predicted and observed errors, and the data steward's own questions."""
    utility, parts = dossier.utility, list[Block]()
    if curves := make_error_curves(predict_errors(dossier.release)):
        parts.append(Picture(partial(draw_certificate_curves, curves)))
    if utility.known_answers:
        parts.append(Picture(partial(draw_against_truth, utility.answers)))
        rows = [
            (
                f"below {format_quantity(size_class.high)}"
                if not size_class.low
                else f"{format_quantity(size_class.low)} to {format_quantity(size_class.high)}",
                f"{len(size_class.answers):,}",
                format_quantity(_root_mean_square([answer.standard_error for answer in size_class.answers])),
                format_quantity(_root_mean_square([answer.estimate - answer.truth for answer in size_class.answers])),
                format_exact_percent(size_class.coverage),
            )
            for size_class in split_by_size(utility.known_answers)
        ]
        headings = (
            "true count",
            "questions",
            "predicted error",
            "observed error",
            "95% intervals that cover the truth",
        )
        caption = "Random counts with conditions on up to three public columns; some records meet the conditions"
        parts.append(DataTable(caption, headings, tuple(rows), (1, 2, 3, 4)))
        parts.append(
            Text(
                "Both errors are root mean squares: of the standard errors, and of estimate minus truth. Counts of one "
                f"release are not independent of each other. {_describe_coverage(utility)}",
                Tone.QUIET,
            )
        )
    else:
        parts.append(
            Text(f"No count was compared with the truth: {utility.failure_reason or 'no count was possible.'}")
        )
    if dossier.own_answers:
        parts.append(Heading("The data steward's own questions"))
        parts += [block for answer in dossier.own_answers[:MOST_QUESTIONS] for block in _list_own_answer(answer)]
        if len(dossier.own_answers) > MOST_QUESTIONS:
            parts.append(
                Text(
                    f"{len(dossier.own_answers) - MOST_QUESTIONS:,} more questions; the JSON output has all.",
                    Tone.QUIET,
                )
            )
    return *parts, make_statement(dossier, "fit_for_purpose")


def _describe_coverage(utility: Utility) -> str:
    """Says which share of all intervals covers the truth, with its own error."""
    coverage = utility.coverage
    if coverage is None:
        return ""
    share = format_exact_percent(coverage.share)
    return (
        f"Of all {coverage.questions:,} intervals, {share} cover the truth. {describe_coverage_error(coverage)} "
        f"{describe_shared_records(coverage)}"
    )


def _root_mean_square(numbers: Sequence[float]) -> float:
    return math.sqrt(sum(number**2 for number in numbers) / max(len(numbers), 1))


def _list_own_answer(answer: OwnAnswer) -> list[Block]:
    question = Text(answer.sql, Tone.CODE)
    if answer.failure_reason and not answer.rows:
        return [question, Text(f"Not answered: {answer.failure_reason}")]
    rows = tuple(
        (
            shorten_name(answer_row.label) or "all",
            answer_row.value_text,
            answer_row.interval_text,
            format_quantity(truth),
            _format_coverage(answer_row.low, answer_row.high, truth),
        )
        for answer_row, truth in answer.rows
    )
    headings = ("of", "estimate", "95% confidence interval", "truth", "covered")
    blocks: list[Block] = [question, DataTable("Answer and truth", headings, rows, (1, 3))]
    if len(rows) > 1:
        answer_rows = [answer_row for answer_row, _ in answer.rows]
        blocks.append(Picture(partial(draw_forest_plot, answer_rows, source=answer.source)))
    if answer.failure_reason:
        blocks.append(Text(answer.failure_reason[:1].upper() + answer.failure_reason[1:], Tone.QUIET))
    return blocks


def _format_coverage(low: float | None, high: float | None, truth: float | None) -> str:
    if truth is None or low is None or high is None:
        return NOTHING
    return "yes" if low <= truth <= high else "no"
