"""The clauses of a SELECT, in the order in which names can be used: the columns first, then what chooses by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.answer_names import make_output_names
from sfumato._query.parser.query_size import SizeBudget
from sfumato._query.query_plan.name_scope import Scope, replace_aliases
from sfumato._query.query_plan.select_steps import Ending
from sfumato.errors import QueryError


class RowRewriter(Protocol):
    """Knows what the columns of a SELECT are, and puts our names for them into expressions."""

    def has_column(self, name: str) -> bool:
        """Whether there is a column of a name, in small letters."""
        ...

    def rewrite(self, tree: Tree) -> Tree:
        """An expression over the names that we gave to columns of rows."""
        ...


@dataclass
class Clauses:
    """The parts of one SELECT; subqueries within them were already put in by `prepared`."""

    select: exp.Select
    prepare: Callable[[Tree], Tree]
    size_budget: SizeBudget
    scope: Scope | None = None
    """What * stands for; None where it can stand for nothing."""
    outputs: list[tuple[str, Tree]] = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = [(name, self.prepare(tree)) for name, tree in self._iter_outputs()]

    def _iter_outputs(self) -> Iterator[tuple[str, Tree]]:
        names = make_output_names(self.select.expressions)
        for name, item in zip(names, self.select.expressions, strict=True):
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star) and self.scope is not None:
                if star.args.get("replace") or star.args.get("rename"):
                    raise QueryError("name the columns one by one, instead of * REPLACE or * RENAME.")
                without = frozenset(
                    item.name.lower() for item in star.args.get("except_") or star.args.get("except") or ()
                )
                yield from self.scope.expand_star(item.table if isinstance(item, exp.Column) else "", without)
            else:
                yield name, item.unalias()

    @property
    def having(self) -> Tree | None:
        """HAVING, or nothing."""
        return self._read_condition("having")

    def _read_condition(self, name: str) -> Tree | None:
        clause = self.select.args.get(name)
        return None if clause is None else self.prepare(clause.this)

    def read_ending(self, rewriter: RowRewriter) -> Ending:
        """Everything over the names that we gave to columns of rows."""
        aliases: dict[str, Tree] = {}
        outputs: list[tuple[str, Tree]] = []
        for name, tree in self.outputs:
            expanded_tree = replace_aliases(tree, aliases, rewriter.has_column, self.size_budget)
            outputs.append((name, rewriter.rewrite(expanded_tree)))
            column = allowed_sql.unwrap(expanded_tree)
            if not isinstance(column, exp.Column) or column.table or column.name.lower() != name.lower():
                aliases.setdefault(name.lower(), expanded_tree)

        def read(tree: Tree | None) -> Tree | None:
            return (
                None
                if tree is None
                else rewriter.rewrite(replace_aliases(tree, aliases, _is_never_column, self.size_budget))
            )

        having, qualify = read(self.having), read(self._read_condition("qualify"))
        order = self.select.args.get("order")
        order_trees = tuple(
            ordered_tree
            for order_item in (order.expressions if order is not None else ())
            for ordered_tree in self._read_order(order_item, outputs, read)
        )
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise QueryError(
                "DISTINCT ON cannot be answered with a protected column; use QUALIFY ROW_NUMBER() OVER (...) = 1."
            )
        return Ending(
            tuple(outputs), having, qualify, order_trees, allowed_sql.write_limit(self.select), bool(distinct)
        )

    def _read_order(
        self, ordered: Tree, outputs: list[tuple[str, Tree]], read: Callable[[Tree | None], Tree | None]
    ) -> Iterator[Tree]:
        node = allowed_sql.unwrap(ordered.this)
        if isinstance(node, exp.Column | exp.Var) and node.name.lower() == "all":
            yield from (replace_ordered_tree(ordered, tree) for _, tree in outputs)
        elif isinstance(node, exp.Literal) and node.is_int:
            yield replace_ordered_tree(ordered, replace_output_number(node, outputs))
        else:
            tree = read(self.prepare(ordered.this))
            if tree is not None:
                yield replace_ordered_tree(ordered, tree)


def _is_never_column(name: str) -> bool:
    """Behind the SELECT list, an alias goes before a column."""
    return False


def replace_output_number(node: Tree, outputs: list[tuple[str, Tree]]) -> Tree:
    """The column of an answer that a number names."""
    if not 1 <= int(node.name) <= len(outputs):
        raise QueryError(f"ORDER BY {node.name} names no column of the answer.")
    return outputs[int(node.name) - 1][1]


def replace_ordered_tree(ordered: Tree, tree: Tree) -> Tree:
    """A part of ORDER BY, of another expression."""
    copy = ordered.copy()
    copy.set("this", tree.copy())
    return copy
