"""Names the columns of an answer that have no alias. SQL and Python can use these names without quotes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree

DEFAULT_COUNT = "n"
LONGEST_NAME = 40


def make_output_names(expressions: Sequence[Tree]) -> list[str]:
    """A name for each column: its alias, its own name, `n` for COUNT(*), or its words (`avg_stay` for AVG(stay)).

    If different expressions have the same words, a number is added to the later names.
    """
    expression_sql = [allowed_sql.write_sql(allowed_sql.unwrap(expression.unalias())) for expression in expressions]
    names = {sql: DEFAULT_COUNT for sql in expression_sql if sql == "COUNT(*)"}
    used_names = {expression.alias_or_name.lower() for expression in expressions} | set(names.values())
    for sql in dict.fromkeys(expression_sql):
        base_name = _make_name(sql)
        choices = (base_name if number == 1 else f"{base_name}_{number}" for number in itertools.count(1))
        names.setdefault(sql, next(name for name in choices if name not in used_names))
        used_names.add(names[sql])
    pairs = zip(expressions, expression_sql, strict=True)
    return [expression.alias or _find_own_name(expression) or names[sql] for expression, sql in pairs]


def _find_own_name(expression: Tree) -> str:
    """The name of a column."""
    inner = allowed_sql.unwrap(expression)
    return str(inner.name) if isinstance(inner, exp.Column) else ""


def _make_name(sql: str) -> str:
    """Joins the words of an expression to one name."""
    joined_words = "_".join(re.findall(r"\w+", sql.lower()))
    short = (
        joined_words
        if len(joined_words) <= LONGEST_NAME
        else joined_words[: LONGEST_NAME + 1].rpartition("_")[0] or joined_words[:LONGEST_NAME]
    )
    name = short if short[:1].isalpha() else f"column_{short}".rstrip("_")
    return name if name.isidentifier() else "column"
