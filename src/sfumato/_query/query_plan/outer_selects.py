"""Reads a SELECT over the results of other queries, with its groups and aggregates over the columns in FROM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.answer_names import make_output_names
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.parser.query_size import SizeBudget
from sfumato._query.query_plan.intermediate_rows import PlanContext, is_scalar
from sfumato._query.query_plan.name_scope import Scope, replace_aliases
from sfumato._query.query_plan.select_clauses import Ending, find_aggregates
from sfumato.errors import QueryError

# The clauses of a SELECT, in the order in which they can use names (first columns, then filters).


class RowRewriter(Protocol):
    """Rewrites expressions of a SELECT with internal column names."""

    def has_column(self, name: str) -> bool:
        """Whether a column with a lower-case name exists."""
        ...

    def rewrite(self, tree: Tree) -> Tree:
        """The expression with internal column names."""
        ...


@dataclass
class Clauses:
    """The parts of one SELECT. In `prepared`, its subqueries are already replaced."""

    select: exp.Select
    prepare: Callable[[Tree], Tree]
    size_budget: SizeBudget
    scope: Scope | None = None
    """The scope of *; None if * is not allowed."""
    outputs: list[tuple[str, Tree]] = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = [(name, self.prepare(tree)) for name, tree in self._iter_outputs()]

    def _iter_outputs(self) -> Iterator[tuple[str, Tree]]:
        names = make_output_names(self.select.expressions)
        for name, item in zip(names, self.select.expressions, strict=True):
            star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
            if isinstance(star, exp.Star) and self.scope is not None:
                if star.args.get("replace") or star.args.get("rename"):
                    raise QueryError(
                        "name the columns one by one, instead of using * REPLACE or * RENAME.", code="columns-by-star"
                    )
                without = frozenset(
                    item.name.lower() for item in star.args.get("except_") or star.args.get("except") or ()
                )
                yield from self.scope.expand_star(item.table if isinstance(item, exp.Column) else "", without)
            else:
                yield name, item.unalias()

    @property
    def having(self) -> Tree | None:
        """The HAVING condition, if any."""
        return self._read_condition("having")

    def _read_condition(self, name: str) -> Tree | None:
        clause = self.select.args.get(name)
        return None if clause is None else self.prepare(clause.this)

    def read_ending(self, rewriter: RowRewriter) -> Ending:
        """Rewrites all clauses with internal column names."""
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
                "DISTINCT ON cannot be answered with a protected column; use QUALIFY ROW_NUMBER() OVER (...) = 1.",
                code="distinct-on",
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
    """Always False, because an alias has precedence over a column after the SELECT list."""
    return False


def replace_output_number(node: Tree, outputs: list[tuple[str, Tree]]) -> Tree:
    """The output column that a number refers to."""
    if not 1 <= int(node.name) <= len(outputs):
        raise QueryError(
            f"ORDER BY {node.name} is not the number of a column of the answer.",
            code="unknown-order",
            fields={"name": node.name},
        )
    return outputs[int(node.name) - 1][1]


def replace_ordered_tree(ordered: Tree, tree: Tree) -> Tree:
    """The same part of ORDER BY with another expression."""
    copy = ordered.copy()
    copy.set("this", tree.copy())
    return copy


# ---------------------------------------------------------------------------------------------------------------------

_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)


@dataclass
class RowSelect:
    """Reads the expressions of a SELECT over rows."""

    context: PlanContext
    scope: Scope
    clauses: Clauses
    keys: dict[str, Tree] = field(default_factory=dict)
    aggregates: dict[str, Tree] = field(default_factory=dict)
    grouping_sql: str = ""
    has_groups: bool = False

    def __post_init__(self) -> None:
        group = self.clauses.select.args.get("group")
        having = self.clauses.having
        trees = [*(tree for _, tree in self.clauses.outputs), *([having] if having is not None else [])]
        self.has_groups = group is not None or any(map(find_aggregates, trees))
        if group is not None:
            self._read_groups(group)

    def has_column(self, name: str) -> bool:
        """Whether a column with the name exists."""
        return self.scope.has_column(name)

    def _read_groups(self, group: Tree) -> None:
        if group.args.get("all"):
            group_trees = [
                tree for _, tree in self.clauses.outputs if not find_aggregates(tree) and not tree.find(exp.Window)
            ]
        else:
            group_trees = group.expressions
        self.grouping_sql = ", ".join(
            allowed_sql.write_sql(self._rewrite_group(group_tree)) for group_tree in group_trees
        )

    def _rewrite_group(self, element: Tree) -> Tree:
        """A part of GROUP BY with internal names."""
        if isinstance(element, _SETS):
            copy = element.copy()
            copy.set("expressions", [self._rewrite_group(expression) for expression in element.expressions])
            return copy
        tree = self.resolve(self._resolve_alias(allowed_sql.unwrap(element)))
        if tree not in self.keys.values():
            self.keys[self.context.make_name("g")] = tree
        return tree

    def _resolve_alias(self, node: Tree) -> Tree:
        outputs = self.clauses.outputs
        if isinstance(node, exp.Literal) and node.is_int:
            node = replace_output_number(node, outputs)
        elif isinstance(node, exp.Column) and not node.table and not self.scope.has_column(node.name):
            node = next((tree for name, tree in outputs if name.lower() == node.name.lower()), node)
        if find_aggregates(node):
            raise QueryError(
                "group by columns, not by an aggregate; use HAVING to filter by an aggregate.",
                code="group-by-aggregate",
            )
        return node

    def resolve(self, tree: Tree) -> Tree:
        """The expression over the columns in FROM."""
        resolved_tree = self.scope.resolve(tree)
        allowed_sql.check(resolved_tree, allowed_sql.EXPRESSIONS + allowed_sql.WINDOWS)
        return resolved_tree

    def rewrite(self, tree: Tree) -> Tree:
        """The expression over the groups of rows. Without groups, the expression over the rows."""
        if not self.has_groups:
            return self.resolve(tree)
        holder = exp.Paren(this=self.scope.resolve(tree))
        for node in find_aggregates(holder):
            node.replace(make_answer_column(self._add_aggregate(node)))
        allowed_sql.check(holder, allowed_sql.EXPRESSIONS + allowed_sql.WINDOWS)
        names_by_sql = {allowed_sql.write_sql(column): name for name, column in self.keys.items()}

        def replace_key(node: Tree) -> Tree:
            name = names_by_sql.get(allowed_sql.write_sql(allowed_sql.unwrap(node)))
            return node if name is None else make_answer_column(name)

        row_tree: Tree = holder.this.transform(replace_key)
        own_names = {*self.keys, *self.aggregates}
        for column in row_tree.find_all(exp.Column):
            if is_of_answer(column) and column.name not in own_names and not is_scalar(column.name):
                raise QueryError(
                    f"{self._find_column_name(column.name)!r} is neither an aggregate nor a group; add this column "
                    "to GROUP BY.",
                    code="not-grouped",
                    fields={"column": self._find_column_name(column.name)},
                )
        return row_tree

    def _add_aggregate(self, node: Tree) -> str:
        for inner in node.iter_expressions():
            allowed_sql.check(
                inner,
                (*allowed_sql.EXPRESSIONS, exp.Star, exp.Distinct, exp.Order, exp.Ordered, exp.Where, exp.AggFunc),
            )
        name = next((name for name, aggregate in self.aggregates.items() if aggregate == node), None)
        if name is None:
            name = self.context.make_name("a")
            self.aggregates[name] = node.copy()
        return name

    def _find_column_name(self, own: str) -> str:
        columns = (pair for table in self.scope.tables.values() for pair in table.values())
        return next((name for name, column in columns if column == own), own)
