"""Makes texts that several sections of a report share."""

from __future__ import annotations

import math

from sfumato._document.document import Facts
from sfumato._evidence.audit_dossier import Dossier
from sfumato._evidence.random_counts import EXPECTED_COVERAGE, Coverage
from sfumato._figures.number_format import NOT_AVAILABLE, format_percent, format_upper_factor
from sfumato._request.stated_context import SECTIONS

ARROW = " \u2192 "
STATED_CAPTION = "Stated by a person, not checked"


def make_statement(dossier: Dossier, *keys: str) -> Facts:
    """Makes the list of a person's statements about a section, or the text that there are none."""
    pairs = tuple((SECTIONS["judgement"][key], dossier.context.get_entry("judgement", key)) for key in keys)
    return Facts(STATED_CAPTION, pairs)


def describe_odds(dossier: Dossier) -> str:
    """Formats the largest factor by which odds can rise."""
    factors = [factor for factor in dossier.audit.odds_factors.values() if factor is not None]
    if not factors:
        return NOT_AVAILABLE
    if math.isinf(max(factors)):
        return "unlimited, some values are excluded"
    return format_upper_factor(max(factors)).replace(",", "")


def describe_coverage_error(coverage: Coverage) -> str:
    """Says how exactly the coverage is known, and whether it is below 95% by more than that."""
    low, high = coverage.interval
    verdict = (
        "Chance does not explain a share below 95%"
        if coverage.is_below_expected
        else "Chance explains a share below 95%"
    )
    if coverage.share >= EXPECTED_COVERAGE:
        verdict = "It shows no fault"
    return f"Interval of this share: {format_percent(low)} to {format_percent(high)}. {verdict}."


def describe_shared_records(coverage: Coverage) -> str:
    """Says why the coverage is known less exactly than the number of questions suggests."""
    return (
        f"The questions share records, so their {coverage.questions:,} intervals contain as much information as "
        f"{coverage.independent_questions:,.0f} independent ones."
    )
