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


def _describe_kind(name: str) -> str:
    """A type of DuckDB in plain words."""
    base = name.strip().strip("'\"")
    if _NUMBERS.fullmatch(base):
        return "a number"
    return next((label for kind, label in _KINDS.items() if base.startswith(kind)), "what it was given")


def _explain_conversion(match: re.Match[str]) -> str:
    return f"{match[1]!r} is not {_describe_kind(match[2])}, as what it stands beside; {TYPES}."


def _explain_function(match: re.Match[str]) -> str:
    kinds = " and ".join(dict.fromkeys(map(_describe_kind, match[2].split(",")))) if match[2].strip() else "nothing"
    return f"{match[1].upper()} has no meaning for {kinds}; {TYPES}."


def _explain_ungrouped(match: re.Match[str]) -> str:
    return f"{match[1]!r} is neither an aggregate nor a group; add it to GROUP BY, or aggregate it."


def _explain_column(match: re.Match[str]) -> str:
    return f"there is no column {match[1]!r}; info shows the columns."


def _explain_table(match: re.Match[str]) -> str:
    return f"there is no table {match[1]!r} in this part of the query."


_SENTENCES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"Could not convert string '([^'\"]*)' to (\w+)", _explain_conversion),
    (r"(?:invalid|date) \w+ ?field format: \"([^\"]*)\"", lambda match: f"{match[1]!r} is no date; write 2026-01-31."),
    (r"argument types '(\w+)\((.*?)\)'", _explain_function),
    (r"column \"?([\w .]+?)\"? must appear in the GROUP BY", _explain_ungrouped),
    (r"Referenced column \"([^\"]+)\" not found", _explain_column),
    (r"Referenced table \"([^\"]+)\" not found", _explain_table),
    (
        r"Cannot (?:compare|mix) values? of type (\w+).* (?:and|to) (?:values? of )?(?:type )?(\w+)",
        lambda match: f"{_describe_kind(match[1])} and {_describe_kind(match[2])} cannot be compared; {TYPES}.",
    ),
    (r"[Mm]ore than one row returned by a subquery", lambda match: "a subquery in an expression must give one row."),
    (
        r"(?:Out of Range|Overflow)",
        lambda match: "a number of the query is too large, or outside of what its type holds.",
    ),
)


def explain_error(message: str) -> str:
    """One sentence for what DuckDB said."""
    for pattern, explain in _SENTENCES:
        match = re.search(pattern, message)
        if match is not None and "sfumato " not in match[0]:
            return explain(match)
    return UNFIT
