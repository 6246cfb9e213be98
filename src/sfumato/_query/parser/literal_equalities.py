"""Which columns a query says to be equal to something that is written in it, or not to be."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree

EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)


def find_equalities(tree: Tree) -> Iterator[tuple[exp.Column, exp.Literal]]:
    """Each column with each literal, as they are written: by =, <>, IS DISTINCT FROM, IN, and CASE column WHEN."""
    for node in tree.walk(bfs=False):
        if isinstance(node, EQUALITIES):
            sides = [(node.this, node.expression), (node.expression, node.this)]
        elif isinstance(node, exp.In):
            sides = [(node.this, item) for item in node.expressions]
        elif isinstance(node, exp.Case) and node.this is not None:
            sides = [(node.this, item.this) for item in node.args["ifs"]]
        else:
            continue
        for column, other in sides:
            bare_column, literal = allowed_sql.unwrap(column), allowed_sql.unwrap(other)
            if isinstance(bare_column, exp.Column) and isinstance(literal, exp.Literal):
                yield bare_column, literal
