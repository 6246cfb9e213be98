"""The first section of a report: five numbers, what is not covered, and the decision of a person."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato._core.cell_values import listed as few_of
from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.measured_utility import AT, NEAR
from sfumato._evidence.stated_context import NOT_STATED
from sfumato._figures.number_format import NOT_TOLD, percent, percent_exactly
from sfumato._figures.svg import element
from sfumato._report.audit_report.risk_sections import why_open
from sfumato._report.audit_report.shared_sections import ARROW, odds_words
from sfumato._report.certificate import uncovered
from sfumato._report.html_page import HOLDER, decision, facts, listed, paragraph, tiles
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.planned_exposure import ALL_COLUMNS

MOST_NAMED = 5


def summary_section(found: Dossier) -> str:
    """All on one sheet: what was published, five numbers, what is not covered, who decides."""
    manifest, context = found.manifest, found.context
    published = (
        f"{found.release.rows:,} records with {len(manifest.public):,} public columns; {manifest.sensitive_name!r} is "
        f"protected by {manifest.mechanism_name} ({manifest.mechanism.guarantee})"
    )
    why = [each.detail[:1].upper() + each.detail[1:] for each in found.failed]
    decider = context.decider or HOLDER
    blanks = [(words, "" if text == NOT_STATED else text) for words, text in context.entries("decision")[1:]]
    return "".join(
        [
            facts("What was published", [("release", published), ("purpose", context.entry("decision", "purpose"))]),
            element("div", paragraph(manifest.promise), class_="promise"),
            tiles(five_numbers(found)),
            element("h3", "What is not covered"),
            listed([*_open_values(found), *uncovered(manifest)]),
            decision(found.is_met, decider, why, blanks),
        ]
    )


def _open_values(found: Dossier) -> list[str]:
    """Which values that somebody has are not covered by the bound, and how many people that concerns."""
    open_ones = [each for each in found.values if not each.is_covered and each.count]
    if not open_ones:
        return []
    people, total = sum(each.count for each in open_ones), max(sum(each.count for each in found.values), 1)
    named = few_of([each.name for each in open_ones], MOST_NAMED)
    return [f"What {people:,} people have ({percent(people / total)}), which is {named}: {why_open(found)}."]


def five_numbers(found: Dossier) -> Iterator[tuple[str, str, str]]:
    """Five numbers, each with what it does not cover."""
    words = odds_words(found)
    factor = words.partition(",")[0]
    yield (
        factor if "," in words or words == NOT_TOLD else f"{factor} times",
        "the largest factor by which what a record shows moves the odds of two values",
        "Not what public columns tell, nor what a second release adds.",
    )
    best = _most_knowing(found)
    yield (
        NOT_TOLD if best is None else _right(best),
        "people guessed right, without the release and with it"
        + ("" if best is None else f", by somebody who knows {best.knows}"),
        "Not what attackers find who know more than these.",
    )
    yield (
        percent(found.singling.alike.alone),
        "records that are alone with their public columns",
        "Not who has such columns elsewhere, nor what is learned about people who are alike.",
    )
    error = found.utility.error
    yield (
        NOT_TOLD if error is None else f"\u00b1{percent(error)}",
        f"standard error of the middle one of random counts of {round(AT / NEAR):,} to {round(AT * NEAR):,} records",
        "Not other questions: every answer has an error of its own, and a plan names that of an average value.",
    )
    coverage = found.utility.coverage
    yield (
        percent_exactly(coverage),
        f"of {len(found.utility.known):,} intervals hold the truth; 95% are meant to",
        "Counts drawn at random, of this release alone.",
    )


def _most_knowing(found: Dossier) -> Attack | None:
    """Of those who know most and what is published, the one who is right most often."""
    all_of = [each for each in found.audit.attacks if each.who == ALL_COLUMNS] or list(found.audit.attacks)[:1]
    return max(all_of, key=lambda each: (each.with_release or each.without).right, default=None)


def _right(attack: Attack) -> str:
    with_release = None if attack.with_release is None else attack.with_release.right
    return f"{percent(attack.without.right)}{ARROW}{percent(with_release)}"
