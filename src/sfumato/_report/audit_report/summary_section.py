"""The first section of a report: five numbers, what is not covered, and the decision of a person."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato._core.cell_values import format_values
from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.measured_utility import NEAR_FACTOR, TYPICAL_COUNT
from sfumato._evidence.stated_context import NOT_STATED
from sfumato._figures.number_format import NOT_AVAILABLE, format_exact_percent, format_percent
from sfumato._figures.svg import element
from sfumato._report.audit_report.risk_sections import explain_uncovered
from sfumato._report.audit_report.section_phrases import ARROW, describe_odds
from sfumato._report.certificate import list_uncovered
from sfumato._report.html_page import (
    DEFAULT_DECIDER,
    render_decision,
    render_facts,
    render_list,
    render_paragraph,
    render_tiles,
)
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.planned_exposure import ALL_COLUMNS

MOST_NAMED = 5


def render_summary(dossier: Dossier) -> str:
    """All on one sheet: what was published, five numbers, what is not covered, who decides."""
    manifest, context = dossier.manifest, dossier.context
    release_text = (
        f"{dossier.release.rows:,} records with {len(manifest.public_columns):,} public columns; "
        f"{manifest.sensitive_name!r} is protected by {manifest.mechanism_name} ({manifest.mechanism.guarantee})"
    )
    reasons = [check.detail[:1].upper() + check.detail[1:] for check in dossier.failed_checks]
    decider = context.decider or DEFAULT_DECIDER
    blanks = [(label, "" if text == NOT_STATED else text) for label, text in context.list_entries("decision")[1:]]
    return "".join(
        [
            render_facts(
                "What was published", [("release", release_text), ("purpose", context.get_entry("decision", "purpose"))]
            ),
            element("div", render_paragraph(manifest.guarantee_text), class_="promise"),
            render_tiles(list_five_numbers(dossier)),
            element("h3", "What is not covered"),
            render_list([*_describe_uncovered_values(dossier), *list_uncovered(manifest)]),
            render_decision(dossier.is_met, decider, reasons, blanks),
        ]
    )


def _describe_uncovered_values(dossier: Dossier) -> list[str]:
    """Which values that somebody has are not covered by the bound, and how many people that concerns."""
    uncovered_values = [
        protected_value
        for protected_value in dossier.values
        if not protected_value.is_covered and protected_value.count
    ]
    if not uncovered_values:
        return []
    people, total = (
        sum(protected_value.count for protected_value in uncovered_values),
        max(sum(protected_value.count for protected_value in dossier.values), 1),
    )
    value_names = format_values([protected_value.name for protected_value in uncovered_values], MOST_NAMED)
    return [
        f"What {people:,} people have ({format_percent(people / total)}), which is {value_names}: "
        f"{explain_uncovered(dossier)}."
    ]


def list_five_numbers(dossier: Dossier) -> Iterator[tuple[str, str, str]]:
    """Five numbers, each with what it does not cover."""
    odds_text = describe_odds(dossier)
    factor = odds_text.partition(",")[0]
    yield (
        factor if "," in odds_text or odds_text == NOT_AVAILABLE else f"{factor} times",
        "the largest factor by which what a record shows moves the odds of two values",
        "Not what public columns tell, nor what a second release adds.",
    )
    best = _find_strongest_attack(dossier)
    yield (
        NOT_AVAILABLE if best is None else _format_right_guesses(best),
        "people guessed right, without the release and with it"
        + ("" if best is None else f", by somebody who knows {best.knowledge}"),
        "Not what attackers find who know more than these.",
    )
    yield (
        format_percent(dossier.singling_out.class_size_shares.unique_share),
        "records that are alone with their public columns",
        "Not who has such columns elsewhere, nor what is learned about people who are alike.",
    )
    error = dossier.utility.typical_error
    yield (
        NOT_AVAILABLE if error is None else f"\u00b1{format_percent(error)}",
        (
            f"standard error of the middle one of random counts of {round(TYPICAL_COUNT / NEAR_FACTOR):,} to "
            f"{round(TYPICAL_COUNT * NEAR_FACTOR):,} records"
        ),
        "Not other questions: every answer has an error of its own, and a plan names that of an average value.",
    )
    coverage = dossier.utility.coverage
    yield (
        format_exact_percent(coverage),
        f"of {len(dossier.utility.known_answers):,} intervals hold the truth; 95% are meant to",
        "Counts drawn at random, of this release alone.",
    )


def _find_strongest_attack(dossier: Dossier) -> Attack | None:
    """Of those who know most and what is published, the one who is right most often."""
    candidates = [attack for attack in dossier.audit.attacks if attack.scenario == ALL_COLUMNS] or list(
        dossier.audit.attacks
    )[:1]
    return max(candidates, key=lambda attack: (attack.with_release or attack.without_release).success, default=None)


def _format_right_guesses(attack: Attack) -> str:
    with_release = None if attack.with_release is None else attack.with_release.success
    return f"{format_percent(attack.without_release.success)}{ARROW}{format_percent(with_release)}"
