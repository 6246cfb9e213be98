"""Resolves the names of columns and of aliases in a SELECT over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import is_of_answer, make_answer_column
from sfumato._query.parser.query_size import SizeBudget
from sfumato._request.named_columns import explain_missing_column
from sfumato.errors import QueryError


def replace_aliases(
    tree: Tree, aliases: Mapping[str, Tree], is_column: Callable[[str], bool], size_budget: SizeBudget
) -> Tree:
    """Replaces aliases by their expressions if no column has the same name.

    Within an aggregate, a name always refers to a column.
    """
    holder = exp.Paren(this=tree.copy())
    for node in list(holder.find_all(exp.Column)):
        name = node.name.lower()
        if node.table or is_of_answer(node) or name not in aliases or is_column(name):
            continue
        if not _is_aggregated(node):
            node.replace(exp.paren(size_budget.copy_tree(aliases[name])))
    return holder.this.pop()


def _is_aggregated(node: Tree) -> bool:
    """Whether a column is in an aggregate that belongs to a group and not to a window."""
    around = node.find_ancestor(exp.AggFunc, exp.Filter, exp.Window, exp.Query)
    return isinstance(around, exp.AggFunc | exp.Filter) and not isinstance(around.parent, exp.Window)


def replace_named_windows(select: exp.Select, size_budget: SizeBudget) -> exp.Select:
    """Replaces named windows by their definitions in the WINDOW clause."""
    windows_by_name = {item.name.lower(): item for item in select.args.get("windows") or ()}
    copy = select.copy()
    copy.set("windows", None)
    for window in copy.find_all(exp.Window):
        alias = window.args.get("alias")
        if alias is None:
            continue
        definition = windows_by_name.get(alias.name.lower())
        if definition is None:
            raise QueryError(
                f"there is no window {alias.name!r}; define it with WINDOW {alias.name!r} AS (...).",
                code="unknown-window",
                fields={"window": alias.name},
            )
        for part in ("partition_by", "order", "spec"):
            if not window.args.get(part) and definition.args.get(part):
                window_part = definition.args[part]
                window.set(
                    part,
                    [size_budget.copy_tree(item) for item in window_part]
                    if isinstance(window_part, list)
                    else size_budget.copy_tree(window_part),
                )
        window.set("alias", None)
    return copy


@dataclass
class Scope:
    """The columns of the tables in FROM, by their names in the query."""

    tables: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    """Maps the lower-case names of a table and its column to the original and the internal name of the column."""
    shared_names: set[str] = field(default_factory=set)

    def add(self, table: str, columns: Mapping[str, str]) -> None:
        """Adds a table with the internal names of its columns."""
        if table.lower() in self.tables:
            raise QueryError(
                f"two tables have the name {table!r}; rename one with AS.",
                code="repeated-table",
                fields={"table": table},
            )
        self.tables[table.lower()] = {name.lower(): (name, own) for name, own in columns.items()}

    def has_column(self, name: str) -> bool:
        """Whether a column has the name."""
        return any(name.lower() in columns for columns in self.tables.values())

    def resolve(self, tree: Tree) -> Tree:
        """The expression with every column resolved."""
        holder = exp.Paren(this=tree.copy())
        for node in list(holder.find_all(exp.Column)):
            if not is_of_answer(node):
                node.replace(make_answer_column(self.find_column(node)))
        return holder.this.pop()

    def find_column(self, column: exp.Column) -> str:
        """The internal name of a column."""
        name, table = column.name.lower(), column.table.lower()
        if column.args.get("db") or column.args.get("catalog") or isinstance(column.this, exp.Star):
            raise QueryError(
                f"{allowed_sql.write_sql(column)!r} is not a column; name the columns one by one.",
                code="columns-by-star",
            )
        if table and table not in self.tables:
            raise QueryError(
                f"there is no table {column.table!r}; the tables are {', '.join(self.tables) or 'none'}.",
                code="unknown-table",
                fields={"table": column.table},
            )
        searched_tables = [table] if table else list(self.tables)
        matching_tables = [place for place in searched_tables if name in self.tables[place]]
        if len(matching_tables) > 1 and name not in self.shared_names:
            raise QueryError(
                f"{column.name!r} is a column of several tables; write {matching_tables[0]}.{column.name}.",
                code="ambiguous-column",
                fields={"column": column.name},
            )
        if not matching_tables:
            column_names = list(
                dict.fromkeys(name for place in searched_tables for name, _ in self.tables[place].values())
            )
            raise QueryError(
                explain_missing_column(column.name, column_names, "there is no column")
                if column_names
                else f"there is no column {column.name!r}.",
                code="missing-column",
                fields={"column": column.name},
            )
        return self.tables[matching_tables[0]][name][1]

    def expand_star(self, table: str = "", excluded_names: frozenset[str] = frozenset()) -> list[tuple[str, Tree]]:
        """All columns or all columns of one table, with their names."""
        if table and table.lower() not in self.tables:
            raise QueryError(
                f"there is no table {table!r}; the tables are {', '.join(self.tables)}.",
                code="unknown-table",
                fields={"table": table},
            )
        searched_tables = [table.lower()] if table else list(self.tables)
        star_columns: list[tuple[str, Tree]] = []
        listed_names: set[str] = set()
        for place in searched_tables:
            for key, (name, own) in self.tables[place].items():
                if key not in excluded_names and not (key in self.shared_names and key in listed_names):
                    star_columns.append((name, make_answer_column(own)))
                listed_names.add(key)
        return star_columns
