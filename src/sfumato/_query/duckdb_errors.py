"""What DuckDB says of a query that it cannot run, in sentences for whoever asked."""

from __future__ import annotations

import re
from collections.abc import Callable

TYPES = "info shows the types of the columns"
UNFIT = f"the query cannot be run on the columns of the release as it is written; {TYPES}."
_KINDS = {
    "VARCHAR": "a text", "BOOLEAN": "a truth value", "DATE": "a date", "TIMESTAMP": "a time", "INTERVAL": "a time span",
}  # fmt: skip
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?(\d+)?|DOUBLE|FLOAT|DECIMAL.*|INTEGER_LITERAL")


def _kind(name: str) -> str:
    """A type of DuckDB in plain words."""
    base = name.strip().strip("'\"")
    if _NUMBERS.fullmatch(base):
        return "a number"
    return next((words for kind, words in _KINDS.items() if base.startswith(kind)), "what it was given")


def _conversion(found: re.Match[str]) -> str:
    return f"{found[1]!r} is not {_kind(found[2])}, as what it stands beside; {TYPES}."


def _function(found: re.Match[str]) -> str:
    kinds = " and ".join(dict.fromkeys(map(_kind, found[2].split(",")))) if found[2].strip() else "nothing"
    return f"{found[1].upper()} has no meaning for {kinds}; {TYPES}."


def _ungrouped(found: re.Match[str]) -> str:
    return f"{found[1]!r} is neither an aggregate nor a group; add it to GROUP BY, or aggregate it."


def _column(found: re.Match[str]) -> str:
    return f"there is no column {found[1]!r}; info shows the columns."


def _table(found: re.Match[str]) -> str:
    return f"there is no table {found[1]!r} in this part of the query."


_SENTENCES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"Could not convert string '([^'\"]*)' to (\w+)", _conversion),
    (r"(?:invalid|date) \w+ ?field format: \"([^\"]*)\"", lambda found: f"{found[1]!r} is no date; write 2026-01-31."),
    (r"argument types '(\w+)\((.*?)\)'", _function),
    (r"column \"?([\w .]+?)\"? must appear in the GROUP BY", _ungrouped),
    (r"Referenced column \"([^\"]+)\" not found", _column),
    (r"Referenced table \"([^\"]+)\" not found", _table),
    (
        r"Cannot (?:compare|mix) values? of type (\w+).* (?:and|to) (?:values? of )?(?:type )?(\w+)",
        lambda found: f"{_kind(found[1])} and {_kind(found[2])} cannot be compared; {TYPES}.",
    ),
    (r"[Mm]ore than one row returned by a subquery", lambda found: "a subquery in an expression must give one row."),
    (
        r"(?:Out of Range|Overflow)",
        lambda found: "a number of the query is too large, or outside of what its type holds.",
    ),
)


def sentence(said: str) -> str:
    """One sentence for what DuckDB said."""
    for pattern, words in _SENTENCES:
        found = re.search(pattern, said)
        if found is not None and "sfumato " not in found[0]:
            return words(found)
    return UNFIT
