"""What is said of a name or a value that is not there: with the one that is nearest to it, and those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LONGEST, MOST_COMPARED = 100, 5_000
"""A longer text gets no other suggested, because that takes the square of its length; nor is it compared with more."""
NEAR, NEAR_VALUE = 0.7, 0.6
"""How much a name of a column must have in common with another, so that 'shoe' was not meant to be 'smoker'; and a
value, of which ranges are short."""


def find_nearest(text: str, candidates: Iterable[str], near: float = NEAR_VALUE) -> str | None:
    """The known text that is nearest, whatever its capital letters, spaces and brackets; None if none is near."""
    spelt: dict[str, str] = {}
    for candidate in candidates:
        if len(candidate) <= LONGEST and len(spelt) < MOST_COMPARED:
            spelt.setdefault(_normalize_text(candidate), candidate)
    if len(text) > LONGEST:
        return None
    matches = get_close_matches(_normalize_text(text), spelt, n=1, cutoff=near)
    return spelt[matches[0]] if matches else None


def _normalize_text(text: str) -> str:
    """Small letters and digits, with commas for what stands between them; the text itself where there are none."""
    return re.sub(r"\W+", ",", text.lower()).strip(",") or text


def explain_missing_name(
    text: str, candidates: Sequence[str], opening: str, *, most: int | None = None, near: float = NEAR_VALUE
) -> str:
    """One sentence: what is not there, what may have been meant, and what there is, or the first of it."""
    suggestion = find_nearest(text, candidates, near)
    meant = "it" if suggestion is None else f"did you mean {suggestion!r}? It"
    listed = ", ".join(map(repr, candidates[:most]))
    more = f" and {len(candidates) - most:,} more" if most is not None and len(candidates) > most else ""
    return f"{opening} {text!r}; {meant} has {listed}{more}."
