"""Makes texts that several sections of a report share."""

from __future__ import annotations

import math

from sfumato._document.document import Facts
from sfumato._evidence.audit_dossier import Dossier
from sfumato._figures.number_format import NOT_AVAILABLE
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
    return "unlimited, because some values are excluded" if math.isinf(max(factors)) else f"{max(factors):.4g}"
