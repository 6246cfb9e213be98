"""Reads FROM: the release, subqueries on the release, and tables of the analyst that are joined.

A table joined by public columns is joined to the records. A table joined by the sensitive column is joined to the
values of the domain. The columns of this second kind of table are then sensitive. They are estimated like the sensitive
column.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from sfumato._query.duckdb_session import Session
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import ColumnNames
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_name
from sfumato.errors import QueryError

VALUES_NAME = "sfumato values"
VALUES = quote_name(VALUES_NAME)
"""The domain as a table, with the index of each value and its part in each sensitive column."""


@dataclass
class FromClause:
    """The sources of records and values, with the names of their columns."""

    names: ColumnNames
    record_joins: list[str] = field(default_factory=list)
    """Tables joined to the records."""
    value_joins: list[str] = field(default_factory=list)
    """Tables joined to the values of the domain."""
    conditions: list[Tree] = field(default_factory=list)
    """The resolved conditions of a subquery on the records."""

    @property
    def records_sql(self) -> str:
        """FROM for the records."""
        return self.write_from(RECORDS)

    @property
    def values_sql(self) -> str:
        """FROM for the values."""
        return "".join([f"{VALUES} AS {quote_name(TABLE)}", *self.value_joins])

    def write_from(self, table: str) -> str:
        """The FROM clause for the records of a table, with the tables joined to them."""
        return "".join([f"{table} AS {quote_name(TABLE)}", *self.record_joins])


def read_from_clause(select: exp.Select, session: Session) -> FromClause:
    """Reads FROM and JOIN of a query without common table expressions."""
    from_clause = select.args.get("from_") or select.args.get("from")
    if from_clause is None:
        raise QueryError(f"name the table to count: SELECT ... FROM {TABLE} ...", code="no-from-clause")
    source = _read_first_table(from_clause.this, session)
    for join in select.args.get("joins") or ():
        _join(source, join, session)
    return source


def _read_first_table(table: Tree, session: Session) -> FromClause:
    if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select) and public_queries.has_release(table):
        return _read_filter_subquery(table, session)
    public_queries.check_table(table, session)
    if table.name.lower() != TABLE:
        raise QueryError(
            f"begin FROM with the release: FROM {TABLE} JOIN {table.name} ...",
            code="release-not-first",
            fields={"table": table.name},
        )
    names = ColumnNames.from_manifest(session.manifest)
    if table.alias:
        names.tables = {table.alias.lower(): names.tables[TABLE]}
    return FromClause(names)


def is_filter_only(select: Tree) -> bool:
    """Whether a query only filters records of the release, and selects or computes columns."""
    allowed_clauses = {"expressions", "from", "from_", "where", "joins", "kind"}
    if not isinstance(select, exp.Select) or any(
        value for name, value in select.args.items() if name not in allowed_clauses
    ):
        return False
    from_clause = select.args.get("from_") or select.args.get("from")
    if from_clause is None or any(expression.find(exp.AggFunc, exp.Window) for expression in select.expressions):
        return False
    first = from_clause.this
    return is_filter_only(first.this) if isinstance(first, exp.Subquery) else first.name.lower() == TABLE


def _read_filter_subquery(subquery: exp.Subquery, session: Session) -> FromClause:
    """Reads a subquery over the release that filters its records and selects or computes columns."""
    select: exp.Select = subquery.this
    if not is_filter_only(select):
        raise QueryError(
            f"a subquery over {TABLE} with sensitive columns may only filter records and select columns; move "
            "aggregates, ORDER BY and LIMIT to the outer query.",
            code="aggregated-subquery",
        )
    source = read_from_clause(select, session)
    columns: dict[str, Tree] = {}
    for expression in select.expressions:
        if isinstance(expression, exp.Star):
            for table in source.names.tables.values():
                columns = {**table, **columns}
            continue
        allowed_sql.check(expression.unalias(), allowed_sql.EXPRESSIONS)
        resolved_tree = source.names.resolve(expression.unalias())
        columns[expression.alias_or_name.lower()] = (
            resolved_tree if isinstance(resolved_tree, exp.Column) else exp.paren(resolved_tree)
        )
    where = select.args.get("where")
    if where is not None:
        condition = public_queries.run_subqueries(where.this, session)
        allowed_sql.check(condition, allowed_sql.EXPRESSIONS)
        source.conditions.append(source.names.resolve(condition))
    source.names.tables = {(subquery.alias or TABLE).lower(): columns}
    source.names.shared_names = set()
    return source


def _join(source: FromClause, join: exp.Join, session: Session) -> None:
    """Joins a table of the analyst to the records or to the values."""
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER", "CROSS") or join.args.get("method"):
        raise QueryError(
            f"{side or kind or join.args.get('method')} JOIN cannot be answered, because it may add rows without a "
            "record; use JOIN or LEFT JOIN.",
            code="unsupported-join",
            fields={"join": str(side or kind or join.args.get("method"))},
        )
    alias, table, columns = _read_joined_table(join.this, session)
    earlier_tables = dict(source.names.tables)
    source.names.add(alias, columns)
    on = _read_join_condition(source, join, alias, earlier_tables)
    join_keyword = "LEFT JOIN" if side == "LEFT" else "JOIN"
    other_keys = [key for key in (source.names.find_keys(on) if on is not None else ()) if key[0] != alias]
    protected = [key for key in other_keys if key in source.names.sensitive_columns]
    text = f" {join_keyword} {table} AS {quote_name(alias)} ON {'TRUE' if on is None else allowed_sql.write_sql(on)}"
    if not protected:
        source.record_joins.append(text)
        return
    if len(protected) < len(other_keys):
        raise QueryError(
            f"a join uses {protected[0][1]!r} together with public columns; join by either {protected[0][1]!r} or "
            "the public columns, and compare the others in WHERE.",
            code="join-by-mixed-columns",
            fields={"column": protected[0][1]},
        )
    source.value_joins.append(text)
    source.names.sensitive_columns |= {(alias, name) for name in columns}


def _read_joined_table(table: Tree, session: Session) -> tuple[str, str, list[str]]:
    """The name of a joined table, its SQL, and its columns."""
    if isinstance(table, exp.Subquery):
        if not table.alias:
            raise QueryError("a joined subquery needs a name: (SELECT ...) AS name.", code="unnamed-subquery")
        name = public_queries.materialise(table.this, session)
        return table.alias, name, session.subquery_tables[-1].schema.names
    public_queries.check_table(table, session)
    if table.name.lower() == TABLE:
        raise QueryError(
            f"{TABLE} is joined to itself, which would count a record several times; count in two queries, and join "
            f"their results: WITH a AS (SELECT ... FROM {TABLE} GROUP BY ...), b AS (...) SELECT ... FROM a JOIN b "
            "USING "
            "(...).",
            code="self-join",
        )
    name = table.name.lower()
    return table.alias or table.name, quote_name(name), session.attached_tables[name].schema.names


def _read_join_condition(
    source: FromClause, join: exp.Join, alias: str, earlier_tables: dict[str, dict[str, Tree]]
) -> Tree | None:
    """The resolved condition of a join. USING compares with the first table that has the column."""
    if (on := join.args.get("on")) is not None:
        allowed_sql.check(on, allowed_sql.EXPRESSIONS)
        return source.names.resolve(on)
    using = join.args.get("using") or []
    parts: list[Tree] = []
    for column_name in using:
        name = column_name.name.lower()
        first = next((columns[name] for columns in earlier_tables.values() if name in columns), None)
        own_column = source.names.tables[alias.lower()].get(name)
        if first is None or own_column is None:
            raise QueryError(
                f"USING names {column_name.name!r}, but this is not a column of both tables.",
                code="unshared-column",
                fields={"column": column_name.name},
            )
        source.names.shared_names.add(name)
        parts.append(exp.EQ(this=first.copy(), expression=own_column.copy()))
    return exp.and_(*parts) if parts else None


def check_unique_records(source: FromClause, session: Session, where: str | None) -> None:
    """Rejects a join that counts a record several times. The errors of such counts would not be independent."""
    if not source.record_joins:
        return
    records = source.write_from(f'(SELECT *, ROW_NUMBER() OVER () AS "sfumato row" FROM {RECORDS})')
    clause = f" WHERE {where}" if where else ""
    row, most = f'{quote_name(TABLE)}."sfumato row"', f"(SELECT COUNT(*) + 1 FROM {RECORDS})"
    joined_sql = f"(SELECT {row} AS r FROM {records}{clause} LIMIT {most})"  # with more rows, some records occur twice
    ((rows, distinct),) = session.fetch_rows(f"SELECT COUNT(*), COUNT(DISTINCT r) FROM {joined_sql}")
    if rows != distinct:
        raise QueryError(
            "the join counts some records several times, so the standard errors would be wrong; join a table in "
            "which the columns of the join are unique, or make them unique with SELECT DISTINCT or GROUP BY.",
            code="join-repeats-records",
        )
