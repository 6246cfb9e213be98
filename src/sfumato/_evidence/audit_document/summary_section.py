"""Makes the first section of the report: five numbers, limits, and the decision of a person."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato._core.cell_values import format_values
from sfumato._document.document import (
    DEFAULT_DECIDER,
    Block,
    Decision,
    Facts,
    Heading,
    Items,
    Tile,
    Tiles,
    list_guarantee_blocks,
)
from sfumato._evidence.audit_document.risk_sections import explain_uncovered
from sfumato._evidence.audit_document.section_phrases import ARROW, describe_coverage_error, describe_odds
from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.certificate import list_uncovered
from sfumato._evidence.random_counts import NEAR_FACTOR, TYPICAL_COUNT, Coverage
from sfumato._figures.number_format import NOT_AVAILABLE, format_exact_percent, format_percent
from sfumato._request.stated_context import NOT_STATED
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.planned_exposure import ALL_COLUMNS

MOST_NAMED = 5


def list_summary(dossier: Dossier) -> tuple[Block, ...]:
    """Makes the summary on one sheet, with the release, five numbers, limits, and the person who decides."""
    manifest, context = dossier.manifest, dossier.context
    release_text = (
        f"{dossier.release.rows:,} records with {len(manifest.public_columns):,} public columns; "
        f"{manifest.sensitive_name!r} is protected by {manifest.mechanism_name} ({manifest.mechanism.guarantee})"
    )
    reasons = [check.detail[:1].upper() + check.detail[1:] for check in dossier.failed_checks]
    decider = context.decider or DEFAULT_DECIDER
    blanks = [(label, "" if text == NOT_STATED else text) for label, text in context.list_entries("decision")[1:]]
    return (
        Facts(
            "Release",
            (
                *dossier.description.list_facts(),
                ("release", release_text),
                ("purpose", context.get_entry("decision", "purpose")),
            ),
        ),
        *list_guarantee_blocks(manifest.guarantee),
        Tiles(tuple(list_key_numbers(dossier))),
        Heading("What is not covered"),
        Items((*_describe_uncovered_values(dossier), *list_uncovered(manifest))),
        Decision(dossier.is_met, decider, tuple(reasons), tuple(blanks)),
    )


def _describe_uncovered_values(dossier: Dossier) -> list[str]:
    """Describes the occurring values that the bound does not cover, with the number of people who have these values."""
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
    factor = describe_odds(dossier)
    is_limited = factor != NOT_AVAILABLE and "," not in factor
    limit = f" One published value changes an attacker's odds by a factor of at most {factor}." if is_limited else ""
    owned = "this value" if len(uncovered_values) == 1 else "one of these"
    value_names = format_values([protected_value.name for protected_value in uncovered_values], MOST_NAMED)
    return [
        f"{value_names}: {people:,} people ({format_percent(people / total)}) have {owned}. "
        f"Not covered: {explain_uncovered(dossier)}.{limit}"
    ]


def list_key_numbers(dossier: Dossier) -> Iterator[Tile]:
    """Lists the key numbers, each with its limits."""
    odds_text = describe_odds(dossier)
    factor = odds_text.partition(",")[0]
    yield Tile(
        factor if "," in odds_text or odds_text == NOT_AVAILABLE else f"{factor} times",
        "the largest factor by which one published value changes the odds between two values",
        "Not covered: disclosure by public columns, and by a second release.",
    )
    best = _find_strongest_attack(dossier)
    yield Tile(
        NOT_AVAILABLE if best is None else _format_right_guesses(best),
        "of people whose value is guessed correctly, without and with the release"
        + ("" if best is None else f", by an attacker who knows {best.knowledge}"),
        "Not covered: attackers who know more.",
    )
    yield Tile(
        format_percent(dossier.singling_out.class_size_shares.unique_share),
        "of records are unique on the public columns",
        "Not covered: other data with these columns, and people whose records are not unique.",
    )
    error = dossier.utility.typical_error
    yield Tile(
        NOT_AVAILABLE if error is None else f"\u00b1{format_percent(error)}",
        (
            f"median standard error of random counts of {round(TYPICAL_COUNT / NEAR_FACTOR):,} to "
            f"{round(TYPICAL_COUNT * NEAR_FACTOR):,} records"
        ),
        "Not covered: other questions. Every answer has its own error; a plan predicts the average error.",
    )
    yield _make_coverage_tile(dossier.utility.coverage)


def _make_coverage_tile(coverage: Coverage | None) -> Tile:
    """Shows the share of intervals that cover the truth, and whether its own error explains the difference to 95%."""
    if coverage is None:
        return Tile(NOT_AVAILABLE, "of intervals cover the truth", "No random count has an interval.")
    return Tile(
        format_exact_percent(coverage.share),
        f"of {coverage.questions:,} intervals cover the truth (95% expected)",
        f"{describe_coverage_error(coverage)} Not covered: questions other than random counts.",
    )


def _find_strongest_attack(dossier: Dossier) -> Attack | None:
    """The most successful of the attackers who know all public columns."""
    candidates = [attack for attack in dossier.audit.attacks if attack.scenario == ALL_COLUMNS] or list(
        dossier.audit.attacks
    )[:1]
    return max(candidates, key=lambda attack: attack.final_success, default=None)


def _format_right_guesses(attack: Attack) -> str:
    with_release = None if attack.with_release is None else attack.with_release.success
    return f"{format_percent(attack.without_release.success)}{ARROW}{format_percent(with_release)}"
