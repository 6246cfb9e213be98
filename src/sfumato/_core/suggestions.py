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


def nearest(text: str, known: Iterable[str], near: float = NEAR_VALUE) -> str | None:
    """The known text that is nearest, whatever its capital letters, spaces and brackets; None if none is near."""
    spelt: dict[str, str] = {}
    for each in known:
        if len(each) <= LONGEST and len(spelt) < MOST_COMPARED:
            spelt.setdefault(_plain(each), each)
    if len(text) > LONGEST:
        return None
    found = get_close_matches(_plain(text), spelt, n=1, cutoff=near)
    return spelt[found[0]] if found else None


def _plain(text: str) -> str:
    """Small letters and digits, with commas for what stands between them; the text itself where there are none."""
    return re.sub(r"\W+", ",", text.lower()).strip(",") or text


def no_such(text: str, known: Sequence[str], said: str, *, most: int | None = None, near: float = NEAR_VALUE) -> str:
    """One sentence: what is not there, what may have been meant, and what there is, or the first of it."""
    found = nearest(text, known, near)
    meant = "it" if found is None else f"did you mean {found!r}? It"
    listed = ", ".join(map(repr, known[:most]))
    more = f" and {len(known) - most:,} more" if most is not None and len(known) > most else ""
    return f"{said} {text!r}; {meant} has {listed}{more}."
