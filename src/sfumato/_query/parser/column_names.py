"""Resolves column names to the table and the role (public or sensitive) of each column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from sfumato._query.parser import allowed_sql
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.query_size import SizeBudget
from sfumato._records.sql_quoting import TABLE, quote_text
from sfumato._release.manifest import Manifest
from sfumato._request.hierarchy import format_level_name
from sfumato._request.named_columns import explain_missing_column
from sfumato.errors import QueryError

ColumnKey = tuple[str, str]


def make_column(table: str, name: str) -> exp.Column:
    """A quoted column of a table."""
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def make_answer_column(name: str) -> exp.Column:
    """A column of the answer. No name in a query can refer to it."""
    return allowed_sql.OwnColumn(this=exp.to_identifier(name, quoted=True))


def is_of_answer(column: Tree) -> bool:
    """Whether a column is a column of the answer."""
    return isinstance(column, allowed_sql.OwnColumn)


@dataclass
class ColumnNames:
    """The columns that a query can name, and their meanings."""

    tables: dict[str, dict[str, Tree]] = field(default_factory=dict)
    """Maps the lower-case names of a table and its column to their meaning.

    This is the column itself, or a subquery's expression for the column.
    """
    shared_names: set[str] = field(default_factory=set)
    """Names that USING merges because several tables have them. They refer to the first table."""
    sensitive_columns: set[ColumnKey] = field(default_factory=set)
    """The columns that depend only on the sensitive value."""
    levels: dict[str, dict[str, exp.Column]] = field(default_factory=dict)
    """Maps the name of a sensitive column with a hierarchy to its levels and their columns."""
    size_budget: SizeBudget = field(default_factory=SizeBudget)
    """The size that remains for inserting a subquery's expressions in place of column names."""

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> ColumnNames:
        """The columns of the release. Queries cannot name the published form of sensitive columns."""
        columns: dict[str, Tree] = {
            name.lower(): make_column(TABLE, name) for name in (*manifest.public_columns, *manifest.sensitive_columns)
        }
        levels: dict[str, dict[str, exp.Column]] = {}
        for name, hierarchy in manifest.hierarchies.items():
            finest, *coarser_levels = hierarchy.levels
            coarser_columns = {level: make_column(TABLE, format_level_name(name, level)) for level in coarser_levels}
            levels[name] = {finest: make_column(TABLE, name), **coarser_columns}
            columns |= {
                format_level_name(name, level).lower(): level_column for level, level_column in levels[name].items()
            }
        names = cls(
            {TABLE: columns}, sensitive_columns={(TABLE, name) for name in manifest.sensitive_columns}, levels=levels
        )
        names.sensitive_columns |= names.coarse_columns
        return names

    @property
    def coarse_columns(self) -> set[ColumnKey]:
        """The levels above the sensitive value itself, which no record contains."""
        return {
            (TABLE, level_column.name)
            for name, level_columns in self.levels.items()
            for level_column in level_columns.values()
            if level_column.name != name
        }

    def add(self, table: str, columns: Iterable[str]) -> None:
        """Adds a table beside the release."""
        if table.lower() in self.tables:
            raise QueryError(
                f"two tables have the name {table!r}; rename one with AS.",
                code="repeated-table",
                fields={"table": table},
            )
        self.tables[table.lower()] = {name.lower(): make_column(table, name) for name in columns}

    def resolve(self, expression: Tree) -> Tree:
        """Replaces every column by its resolved, quoted form."""
        copy = expression.copy()
        holder = exp.Paren(this=copy)
        for column in list(copy.find_all(exp.Column)):
            if is_of_answer(column):
                continue
            definition = self._find_column(column)
            column.replace(
                definition.copy() if isinstance(definition, exp.Column) else self.size_budget.copy_tree(definition)
            )
        resolved_tree: Tree = holder.this
        resolved_tree.pop()
        return resolved_tree

    def _find_column(self, column: exp.Column) -> Tree:
        name, table = column.name.lower(), column.table.lower()
        if (level := self._find_level(column)) is not None:
            return level
        if column.args.get("db") or column.args.get("catalog") or isinstance(column.this, exp.Star):
            raise QueryError(
                f"{allowed_sql.write_sql(column)!r} is not a column; name the columns one by one.",
                code="columns-by-star",
            )
        if table and table not in self.tables:
            table_names = ", ".join(self.tables)
            raise QueryError(
                f"there is no table {column.table!r}; the tables are {table_names}.",
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
            columns = [spelling for place in searched_tables for spelling in self._list_column_names(place)]
            subject = "the release has" if searched_tables == [TABLE] else "there is"
            is_text = column.this.quoted and column.name.isidentifier()  # a column with this name would need no quotes
            hint = f" Write a string in single quotes: {quote_text(column.name)}." if is_text else ""
            raise QueryError(
                explain_missing_column(column.name, columns, f"{subject} no column") + hint,
                code="missing-column",
                fields={"column": column.name},
            )
        return self.tables[matching_tables[0]][name]

    def _find_level(self, column: exp.Column) -> Tree | None:
        """The column that `column.level` means. None if this is a column of a table."""
        searched_tables = [column.db.lower()] if column.db else list(self.tables)
        for columns in (self.tables.get(place, {}) for place in searched_tables if column.table):
            owner = columns.get(column.table.lower())
            levels = self.levels.get(owner.name, {}) if isinstance(owner, exp.Column) and owner.table == TABLE else {}
            target_column = next(
                (level_column for level, level_column in levels.items() if level.lower() == column.name.lower()), None
            )
            if target_column is not None:
                return target_column
            if levels and (column.db or column.table.lower() not in self.tables):
                raise QueryError(
                    explain_missing_column(column.name, levels, f"{column.table!r} has no level"),
                    code="unknown-level",
                    fields={"level": column.name},
                )
        return None

    def _list_column_names(self, table: str) -> list[str]:
        columns = self.tables[table].items()
        return list(
            dict.fromkeys(
                column_tree.name if isinstance(column_tree, exp.Column) else name for name, column_tree in columns
            )
        )

    def find_keys(self, expression: Tree) -> set[ColumnKey]:
        """The keys of the columns in a resolved expression."""
        return {(column.table, column.name) for column in expression.find_all(exp.Column)}

    def list_sensitive_names(self, expression: Tree) -> list[str]:
        """The names of the sensitive columns in a resolved expression."""
        return sorted(name for table, name in self.find_keys(expression) & self.sensitive_columns)

    def is_public(self, expression: Tree) -> bool:
        """Whether a resolved expression has no sensitive column."""
        return not self.find_keys(expression) & self.sensitive_columns

    def is_sensitive(self, expression: Tree) -> bool:
        """Whether a resolved expression has sensitive columns and no other columns."""
        keys = self.find_keys(expression)
        return bool(keys) and keys <= self.sensitive_columns
