"""Finds the columns that a request names, and explains names that no column has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sfumato._core.suggestions import NAME_SIMILARITY, explain_missing_name
from sfumato.errors import SchemaError

NAMED_COLUMNS = 50
"""The largest number of existing columns named in the message about a missing one."""
ANY_CHARACTERS = "*"
"""Stands for any characters in the name of a column. Alone, it stands for all columns that have no other role."""


def find_matches(pattern: str, columns: Iterable[str]) -> list[str]:
    """Lists the columns that a name stands for: the column of that name, or those that match its `*`.

    `*` alone stands for all columns, even if one has this name.
    """
    columns = list(columns)
    if pattern in columns and pattern != ANY_CHARACTERS:
        return [pattern]
    expression = re.compile(".*".join(map(re.escape, pattern.split(ANY_CHARACTERS))), re.DOTALL)
    return [name for name in columns if expression.fullmatch(name)]


def check_named_columns(names_by_argument: Iterable[tuple[str, str]], columns: Sequence[str]) -> None:
    """Refuses the first named column that the table does not have, with the argument to correct."""
    for argument, name in names_by_argument:
        if name not in columns:
            raise SchemaError(
                f"{explain_missing_column(name, columns)} Correct `{argument}=`.",
                code="missing-column",
                fields={"column": name, "argument": argument},
            )


def explain_missing_column(name: str, columns: Iterable[str], opening: str = "the table has no column") -> str:
    """Describes a missing column, and suggests the column with the most similar name, ignoring capital letters."""
    return explain_missing_name(name, list(columns), opening, most=NAMED_COLUMNS, similarity=NAME_SIMILARITY)
