"""Columns by their names: which table each is of, and whether it is public or belongs to the sensitive value."""

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
from sfumato._request.schema import explain_missing_column
from sfumato.errors import QueryError

ColumnKey = tuple[str, str]


def make_column(table: str, name: str) -> exp.Column:
    """A column of a table, quoted."""
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def make_answer_column(name: str) -> exp.Column:
    """A column of the answer, which no name in a query can stand for."""
    return allowed_sql.OwnColumn(this=exp.to_identifier(name, quoted=True))


def is_of_answer(column: Tree) -> bool:
    """Whether a column is one of the answer."""
    return isinstance(column, allowed_sql.OwnColumn)


@dataclass
class Names:
    """What columns can be named, and what each stands for."""

    tables: dict[str, dict[str, Tree]] = field(default_factory=dict)
    """By the name of a table and of its column, both in small letters: the column, or what a subquery makes of it."""
    shared: set[str] = field(default_factory=set)
    """Names that several tables have and USING makes one; they are the first table's."""
    sensitive: set[ColumnKey] = field(default_factory=set)
    """The columns that depend on nothing but the sensitive value."""
    levels: dict[str, dict[str, exp.Column]] = field(default_factory=dict)
    """By the name of a sensitive column that has a hierarchy: its levels, and the column that each stands for."""
    room: SizeBudget = field(default_factory=SizeBudget)
    """What may still be put in for columns that a subquery computes."""

    @classmethod
    def of_release(cls, manifest: Manifest) -> Names:
        """The columns of the release; what it shows of the sensitive ones is no column to ask about."""
        columns: dict[str, Tree] = {
            name.lower(): make_column(TABLE, name) for name in (*manifest.public, *manifest.sensitive)
        }
        levels: dict[str, dict[str, exp.Column]] = {}
        for name, hierarchy in manifest.hierarchies.items():
            finest, *others = hierarchy.levels
            named = {level: make_column(TABLE, format_level_name(name, level)) for level in others}
            levels[name] = {finest: make_column(TABLE, name), **named}
            columns |= {
                format_level_name(name, level).lower(): level_column for level, level_column in levels[name].items()
            }
        names = cls({TABLE: columns}, sensitive={(TABLE, name) for name in manifest.sensitive}, levels=levels)
        names.sensitive |= names.grouped
        return names

    @property
    def grouped(self) -> set[ColumnKey]:
        """The levels that are not the sensitive value itself: no record shows them."""
        return {
            (TABLE, level_column.name)
            for name, level_columns in self.levels.items()
            for level_column in level_columns.values()
            if level_column.name != name
        }

    def add(self, table: str, columns: Iterable[str]) -> None:
        """A table beside the release."""
        if table.lower() in self.tables:
            raise QueryError(f"two tables are called {table!r}; rename one with AS.")
        self.tables[table.lower()] = {name.lower(): make_column(table, name) for name in columns}

    def resolved(self, expression: Tree) -> Tree:
        """The expression with every column found, and quoted."""
        copy = expression.copy()
        holder = exp.Paren(this=copy)
        for column in list(copy.find_all(exp.Column)):
            if is_of_answer(column):
                continue
            meant = self._found(column)
            column.replace(meant.copy() if isinstance(meant, exp.Column) else self.room.take(meant))
        resolved_tree: Tree = holder.this
        resolved_tree.pop()
        return resolved_tree

    def _found(self, named: exp.Column) -> Tree:
        name, table = named.name.lower(), named.table.lower()
        if (level := self._level(named)) is not None:
            return level
        if named.args.get("db") or named.args.get("catalog") or isinstance(named.this, exp.Star):
            raise QueryError(f"{allowed_sql.write_sql(named)!r} is no column; name columns one by one.")
        if table and table not in self.tables:
            table_names = ", ".join(self.tables)
            raise QueryError(f"there is no table {named.table!r}; there is {table_names}.")
        places = [table] if table else list(self.tables)
        having = [place for place in places if name in self.tables[place]]
        if len(having) > 1 and name not in self.shared:
            raise QueryError(f"{named.name!r} is a column of several tables; write {having[0]}.{named.name}.")
        if not having:
            columns = [spelling for place in places for spelling in self._spelt(place)]
            where = "the release has" if places == [TABLE] else "there is"
            is_text = named.this.quoted and named.name.isidentifier()  # a column of that name would need no quotes
            hint = f" A text stands in single quotes: {quote_text(named.name)}." if is_text else ""
            raise QueryError(explain_missing_column(named.name, columns, f"{where} no column") + hint)
        return self.tables[having[0]][name]

    def _level(self, named: exp.Column) -> Tree | None:
        """What `make_column.level` stands for; None where it is a column of a table."""
        places = [named.db.lower()] if named.db else list(self.tables)
        for columns in (self.tables.get(place, {}) for place in places if named.table):
            owner = columns.get(named.table.lower())
            levels = self.levels.get(owner.name, {}) if isinstance(owner, exp.Column) and owner.table == TABLE else {}
            meant = next(
                (level_column for level, level_column in levels.items() if level.lower() == named.name.lower()), None
            )
            if meant is not None:
                return meant
            if levels and (named.db or named.table.lower() not in self.tables):
                raise QueryError(explain_missing_column(named.name, levels, f"{named.table!r} has no level"))
        return None

    def _spelt(self, table: str) -> list[str]:
        columns = self.tables[table].items()
        return list(
            dict.fromkeys(
                column_tree.name if isinstance(column_tree, exp.Column) else name for name, column_tree in columns
            )
        )

    def keys(self, expression: Tree) -> set[ColumnKey]:
        """The columns of a resolved expression."""
        return {(column.table, column.name) for column in expression.find_all(exp.Column)}

    def protected(self, expression: Tree) -> list[str]:
        """The sensitive columns of a resolved expression, by name."""
        return sorted(name for table, name in self.keys(expression) & self.sensitive)

    def is_public(self, expression: Tree) -> bool:
        """Whether a resolved expression has no sensitive column."""
        return not self.keys(expression) & self.sensitive

    def is_sensitive(self, expression: Tree) -> bool:
        """Whether a resolved expression has sensitive columns and no others."""
        keys = self.keys(expression)
        return bool(keys) and keys <= self.sensitive
