"""The section of a report about how far off answers are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.measured_utility import OwnAnswer
from sfumato._figures import against_truth, error_by_count, forest
from sfumato._figures.estimates_against_truth import size_classes
from sfumato._figures.number_format import percent_exactly, quantity
from sfumato._figures.svg import element
from sfumato._query.design_errors import foreseen
from sfumato._report.audit_report.shared_sections import stated
from sfumato._report.certificate import OF, foreseen_curves
from sfumato._report.html_page import NOTHING, called, drawn, paragraph, said, table

MOST_QUESTIONS = 20
"""So many of the holder's own questions have a table of their own; all are in the output of --json."""


def utility_section(found: Dossier) -> str:
    """Errors as foreseen and as seen, and the holder's own questions."""
    useful, parts = found.utility, list[str]()
    if curves := foreseen_curves(foreseen(found.release)):
        parts.append(drawn(partial(error_by_count, curves, of=OF)))
    if useful.known:
        parts.append(drawn(partial(against_truth, useful.answers)))
        rows = [
            (
                f"below {quantity(each.high)}" if not each.low else f"{quantity(each.low)} to {quantity(each.high)}",
                f"{len(each.answers):,}",
                quantity(_root_mean_square([one.standard_error for one in each.answers])),
                quantity(_root_mean_square([one.estimate - one.truth for one in each.answers])),
                percent_exactly(each.held),
            )
            for each in size_classes(useful.known)
        ]
        headings = ("true count", "questions", "predicted error", "observed error", "95% intervals that hold")
        caption = "Counts drawn at random: conditions as records have them, on up to three public columns"
        parts.append(table(caption, headings, rows, numbers=range(1, 5)))
        parts.append(
            paragraph(
                "Both errors are root mean squares: of the standard errors that answers say, and of how far they are "
                "off. Counts of one release are not independent of each other.",
                "quiet",
            )
        )
    else:
        parts.append(paragraph(f"No count was compared with the truth: {useful.why_not or 'none could be asked.'}"))
    if found.own:
        parts.append(element("h3", "The holder's own questions"))
        parts += map(_own, found.own[:MOST_QUESTIONS])
        if len(found.own) > MOST_QUESTIONS:
            parts.append(paragraph(f"{len(found.own) - MOST_QUESTIONS:,} more are in the output of --json.", "quiet"))
    return "".join([*parts, stated(found, "fit_for_purpose")])


def _root_mean_square(numbers: Sequence[float]) -> float:
    return math.sqrt(sum(each**2 for each in numbers) / max(len(numbers), 1))


def _own(answer: OwnAnswer) -> str:
    asked = element("p", element("code", said(answer.sql)))
    if answer.why_not and not answer.rows:
        return asked + paragraph(f"Not answered: {answer.why_not}")
    rows = [
        (called(each.label) or "all", each.words, each.ends, quantity(truth), _holds(each.low, each.high, truth))
        for each, truth in answer.rows
    ]
    told = table("Answer and truth", ("of", "estimate", "95% interval", "truth", "holds it"), rows, numbers=(1, 3))
    picture = drawn(partial(forest, [each for each, _ in answer.rows])) if len(rows) > 1 else ""
    return (
        asked
        + told
        + picture
        + (paragraph(answer.why_not[:1].upper() + answer.why_not[1:], "quiet") if answer.why_not else "")
    )


def _holds(low: float | None, high: float | None, truth: float | None) -> str:
    if truth is None or low is None or high is None:
        return NOTHING
    return "yes" if low <= truth <= high else "no"
