"""A SELECT over what other queries gave: its groups and aggregates, over the columns behind FROM."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.query_plan.estimated_rows import PlanContext, is_scalar
from sfumato._query.query_plan.name_scope import Scope
from sfumato._query.query_plan.select_clauses import Clauses, replace_output_number
from sfumato._query.query_plan.select_steps import find_aggregates
from sfumato.errors import QueryError

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
        """Whether there is a column of a name."""
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
        """A part of GROUP BY over our names."""
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
            raise QueryError("group by columns, not by an aggregate; use HAVING to choose by one.")
        return node

    def resolve(self, tree: Tree) -> Tree:
        """An expression over the columns behind FROM."""
        resolved_tree = self.scope.resolve(tree)
        allowed_sql.check(resolved_tree, allowed_sql.EXPRESSIONS + allowed_sql.WINDOWS)
        return resolved_tree

    def rewrite(self, tree: Tree) -> Tree:
        """An expression over the rows, or over their groups if there are any."""
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
                    f"{self._find_column_name(column.name)!r} is neither an aggregate nor a group; add it to GROUP BY."
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
