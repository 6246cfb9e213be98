"""Explains unknown names and values, with the most similar existing one and a list of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LONGEST, MOST_COMPARED = 100, 5_000
"""No suggestion is made for a longer string, because comparing takes quadratic time.

Further candidates are not compared.
"""
NAME_SIMILARITY, VALUE_SIMILARITY = 0.7, 0.6
"""The similarity that a suggestion needs.

For column names it is so high that 'shoe' does not suggest 'smoker'. For values it is lower, because the names of
ranges are short.
"""


def find_nearest(text: str, candidates: Iterable[str], similarity: float = VALUE_SIMILARITY) -> str | None:
    """The most similar candidate, ignoring case, spaces and brackets. None if none is similar enough."""
    candidates_by_form: dict[str, str] = {}
    for candidate in candidates:
        if len(candidate) <= LONGEST and len(candidates_by_form) < MOST_COMPARED:
            candidates_by_form.setdefault(_normalize_text(candidate), candidate)
    if len(text) > LONGEST:
        return None
    matches = get_close_matches(_normalize_text(text), candidates_by_form, n=1, cutoff=similarity)
    return candidates_by_form[matches[0]] if matches else None


def _normalize_text(text: str) -> str:
    """Keeps lower-case letters and digits, and writes a comma for other characters.

    A string without either is unchanged.
    """
    return re.sub(r"\W+", ",", text.lower()).strip(",") or text


def explain_missing_name(
    text: str, candidates: Sequence[str], opening: str, *, most: int | None = None, similarity: float = VALUE_SIMILARITY
) -> str:
    """Names the missing name, a suggestion, and the existing names or the first of them, in one sentence."""
    suggestion = find_nearest(text, candidates, similarity)
    hint = "it" if suggestion is None else f"did you mean {suggestion!r}? It"
    listing = ", ".join(map(repr, candidates[:most]))
    more = f" and {len(candidates) - most:,} more" if most is not None and len(candidates) > most else ""
    return f"{opening} {text!r}; {hint} has {listing}{more}."
