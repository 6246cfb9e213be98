"""What is said of a name or a value that is not there: with the one that is nearest to it, and those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LONGEST, MOST_COMPARED = 100, 5_000
"""A longer text gets no other suggested, because that takes the square of its length; nor is it compared with more."""
NAME_SIMILARITY, VALUE_SIMILARITY = 0.7, 0.6
"""How much a name of a column must have in common with another, so that 'shoe' was not meant to be 'smoker'; and a
value, of which ranges are short."""


def find_nearest(text: str, candidates: Iterable[str], similarity: float = VALUE_SIMILARITY) -> str | None:
    """The known text that is nearest, whatever its capital letters, spaces and brackets; None if none is near."""
    candidates_by_form: dict[str, str] = {}
    for candidate in candidates:
        if len(candidate) <= LONGEST and len(candidates_by_form) < MOST_COMPARED:
            candidates_by_form.setdefault(_normalize_text(candidate), candidate)
    if len(text) > LONGEST:
        return None
    matches = get_close_matches(_normalize_text(text), candidates_by_form, n=1, cutoff=similarity)
    return candidates_by_form[matches[0]] if matches else None


def _normalize_text(text: str) -> str:
    """Small letters and digits, with commas for what stands between them; the text itself where there are none."""
    return re.sub(r"\W+", ",", text.lower()).strip(",") or text


def explain_missing_name(
    text: str, candidates: Sequence[str], opening: str, *, most: int | None = None, similarity: float = VALUE_SIMILARITY
) -> str:
    """One sentence: what is not there, what may have been meant, and what there is, or the first of it."""
    suggestion = find_nearest(text, candidates, similarity)
    hint = "it" if suggestion is None else f"did you mean {suggestion!r}? It"
    listing = ", ".join(map(repr, candidates[:most]))
    more = f" and {len(candidates) - most:,} more" if most is not None and len(candidates) > most else ""
    return f"{opening} {text!r}; {hint} has {listing}{more}."
