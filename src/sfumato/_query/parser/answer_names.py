"""What the columns of an answer are called that nobody named: by names that SQL and Python can use unquoted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree

DEFAULT_COUNT = "n"
LONGEST = 40


def output_names(expressions: Sequence[Tree]) -> list[str]:
    """A name for each column: its alias, its own, `n` for COUNT(*), or its words, as `avg_stay` for AVG(stay).

    Words may be the same where expressions differ: later ones are numbered then.
    """
    written = [allowed_sql.sql_of(allowed_sql.unwrapped(each.unalias())) for each in expressions]
    names = {sql: DEFAULT_COUNT for sql in written if sql == "COUNT(*)"}
    taken = {each.alias_or_name.lower() for each in expressions} | set(names.values())
    for sql in dict.fromkeys(written):
        words = _words(sql)
        choices = (words if number == 1 else f"{words}_{number}" for number in itertools.count(1))
        names.setdefault(sql, next(name for name in choices if name not in taken))
        taken.add(names[sql])
    pairs = zip(expressions, written, strict=True)
    return [each.alias or _own(each) or names[sql] for each, sql in pairs]


def _own(expression: Tree) -> str:
    """The name of a column."""
    inner = allowed_sql.unwrapped(expression)
    return str(inner.name) if isinstance(inner, exp.Column) else ""


def _words(sql: str) -> str:
    """The words of an expression, as one name."""
    found = "_".join(re.findall(r"\w+", sql.lower()))
    short = found if len(found) <= LONGEST else found[: LONGEST + 1].rpartition("_")[0] or found[:LONGEST]
    name = short if short[:1].isalpha() else f"column_{short}".rstrip("_")
    return name if name.isidentifier() else "column"
