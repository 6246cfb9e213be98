"""Reads the counts, conditions and groups of a SELECT over records."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sfumato._query.duckdb_session import Session
from sfumato._query.formula_estimation import Formula
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.aggregates import Aggregates, Total
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import ColumnNames
from sfumato._query.parser.conditions import Condition, split_conditions
from sfumato._query.parser.from_clause import FromClause, read_from_clause
from sfumato._query.unknown_literals import check_literals
from sfumato._records.sql_quoting import quote_if_needed
from sfumato.errors import QueryError


@dataclass(frozen=True)
class Group:
    """A group expression, over public columns or over sensitive columns."""

    sql: str
    is_sensitive: bool


@dataclass(frozen=True)
class Question:
    """A SELECT over records, with the sums of each group and the formulas over these sums."""

    source: FromClause
    where: Condition
    groups: tuple[Group, ...]
    totals: tuple[Total, ...]
    formulas: tuple[Formula, ...]

    @property
    def public_groups(self) -> tuple[str, ...]:
        """The expressions over public columns."""
        return tuple(group.sql for group in self.groups if not group.is_sensitive)

    @property
    def sensitive_groups(self) -> tuple[str, ...]:
        """The expressions over sensitive columns."""
        return tuple(group.sql for group in self.groups if group.is_sensitive)


class SelectReader:
    """Reads the clauses of a SELECT over the records of the release."""

    def __init__(self, select: exp.Select, session: Session) -> None:
        self.select = select
        self.session = session
        self.source = read_from_clause(select, session)
        self.names: ColumnNames = self.source.names
        self.aggregates = Aggregates(self.names, session, self.source.records_sql)
        self.formulas: list[Formula] = []
        self.aliases = {
            expression.alias_or_name.lower(): expression.unalias()
            for expression in select.expressions
            if _has_name(expression)
        }

    def read_where(self) -> Condition:
        """The condition on records."""
        where = self.select.args.get("where")
        conditions = [*self.source.conditions]
        if where is not None:
            conditions.append(self.resolve(where.this))
        return split_conditions([check_literals(condition, self.session) for condition in conditions], self.names)

    def resolve(self, expression: Tree, allowed: tuple[type[exp.Expr], ...] = allowed_sql.EXPRESSIONS) -> Tree:
        """Resolves an expression. A name that is not a column may be an alias of the SELECT list."""
        self.session.clock.check()
        expression = public_queries.run_subqueries(expression, self.session)
        allowed_sql.check(expression, allowed)
        return check_literals(self.names.resolve(expression), self.session)

    def read_group(self, expression: Tree) -> Tree:
        """An expression to group by."""
        group_tree = allowed_sql.unwrap(self.resolve(self.resolve_alias(expression)))
        if isinstance(group_tree, exp.Literal) and not group_tree.is_string:
            raise QueryError("group by names of columns of the release.", code="group-by-expression")
        protected = self.names.list_sensitive_names(group_tree)
        if protected and not self.names.is_sensitive(group_tree):
            raise QueryError(
                f"group by {protected[0]!r} and by public columns separately, and not by an expression that combines "
                "them.",
                code="group-by-mixed-columns",
                fields={"column": protected[0]},
            )
        return group_tree

    def resolve_alias(self, expression: Tree) -> Tree:
        """The expression of a group. It is a column, or an output given by its number or alias."""
        node = allowed_sql.unwrap(expression)
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(self.select.expressions):
            return self._check_no_aggregate(self.select.expressions[int(node.name) - 1].unalias())
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in self.aliases:
            is_column = any(node.name.lower() in columns for columns in self.names.tables.values())
            return node if is_column else self._check_no_aggregate(self.aliases[node.name.lower()])
        return expression

    @staticmethod
    def _check_no_aggregate(expression: Tree) -> Tree:
        if is_aggregate(expression):
            raise QueryError(
                "group by columns, not by an aggregate; use HAVING to filter by an aggregate.",
                code="group-by-aggregate",
            )
        return expression

    def add_formula(self, aggregate: Tree) -> int:
        """Adds an aggregate as a formula and returns its number."""
        formula = self.aggregates.parse_aggregate(aggregate)
        if formula not in self.formulas:
            self.formulas.append(formula)
        return self.formulas.index(formula)

    def explain_ungrouped(self, column: exp.Column) -> QueryError:
        """Makes the error for a column that is neither a group nor in an aggregate."""
        if (column.table, column.name) in self.names.sensitive_columns:
            return QueryError(
                f"the {column.name!r} of single rows is protected, so it cannot be selected; count its values "
                f"instead, with GROUP BY {quote_if_needed(column.name)}.",
                code="protected-rows",
                fields={"column": column.name},
            )
        return QueryError(
            f"{column.name!r} is neither an aggregate nor a group; add this column to GROUP BY, or aggregate it.",
            code="not-grouped",
            fields={"column": column.name},
        )


def _has_name(expression: Tree) -> bool:
    """Whether an output column has a name, such as an alias, or `chapter` in `diagnosis.chapter`."""
    return isinstance(expression, exp.Alias) or (isinstance(expression, exp.Column) and bool(expression.table))


def is_aggregate(expression: Tree) -> bool:
    """Whether an expression needs more than one record."""
    return expression.find(exp.AggFunc, exp.Filter, exp.Window) is not None


def list_number_columns(name: str) -> list[str]:
    """The columns of a number: the number itself, its standard error, and the two ends of its interval."""
    return [name, f"{name}_se", f"{name}_low", f"{name}_high"]


def name_note_column(name: str) -> str:
    """The column of the notes on a number."""
    return f"{name}_note"
