"""Checks and runs queries that need no estimates: queries of public columns, and of the analyst's own tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sfumato._query import unknown_literals
from sfumato._query.duckdb_session import Session
from sfumato._query.parser import allowed_sql, range_comparisons
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import ColumnNames
from sfumato._query.parser.query_size import SizeBudget
from sfumato._records.sql_quoting import TABLE, quote_name
from sfumato._request.hierarchy import format_level_name
from sfumato.errors import QueryError

CommonTables = Mapping[str, Tree]
"""The available common table expressions, by their lower-case names."""
RELEASE_MARK = "of the release"
"""The mark that columns of the release have during the analysis."""


def list_common_tables(select: Tree, outer_tables: CommonTables, size_budget: SizeBudget) -> dict[str, Tree]:
    """The common table expressions of a query, in addition to outer ones. Each can use the earlier ones."""
    with_clause = select.args.get("with_") or select.args.get("with")
    common_tables = dict(outer_tables)
    if with_clause is None:
        return common_tables
    if with_clause.args.get("recursive"):
        raise QueryError(
            "a recursive WITH cannot be answered; write its result to a file, and attach this file.",
            code="recursive-query",
        )
    for definition in with_clause.expressions:
        name = definition.alias.lower()
        if name == TABLE:
            raise QueryError(
                f"{TABLE!r} is the name of the release; give the common table expression another name.",
                code="reserved-name",
            )
        if definition.args["alias"].args.get("columns"):
            raise QueryError(
                "name the columns of a common table expression inside it, with AS.", code="renamed-columns"
            )
        common_tables[name] = inline_common_tables(definition.this, common_tables, size_budget)
    return common_tables


def inline_common_tables(tree: Tree, common_tables: CommonTables, size_budget: SizeBudget) -> Tree:
    """Inserts every common table expression at the places where its name occurs, within the size limit."""
    copy = size_budget.copy_tree(tree)
    visible_tables = list_common_tables(copy, common_tables, size_budget)
    for name in ("with_", "with"):
        if copy.args.get(name):
            copy.set(name, None)
    for table in list(copy.find_all(exp.Table)):
        body = visible_tables.get(table.name.lower())
        if body is not None and is_plain(table):
            alias = table.alias or table.name
            table.replace(
                exp.Subquery(this=size_budget.copy_tree(body), alias=exp.TableAlias(this=exp.to_identifier(alias)))
            )
    return copy


def is_plain(table: Tree) -> bool:
    """Whether a table is given by its name alone, with or without AS."""
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return False
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return False
    return not any(value for name, value in table.args.items() if name not in ("this", "alias"))


def has_sensitive_names(tree: Tree, session: Session) -> bool:
    """Whether a query may use a sensitive column of the release."""
    sensitive = {name.lower() for name in (*session.manifest.sensitive_columns, *session.manifest.levels)}
    using_columns = [item for join in tree.find_all(exp.Join) for item in join.args.get("using") or ()]
    column_names = [
        item
        for column in tree.find_all(exp.Column)
        for item in (column.name, format_level_name(column.table, column.name))
    ]
    return not sensitive.isdisjoint(item.lower() for item in [*column_names, *(item.name for item in using_columns)])


def has_release(tree: Tree) -> bool:
    """Whether a query reads the release."""
    return any(table.name.lower() == TABLE for table in tree.find_all(exp.Table))


def write_public_query(tree: Tree, session: Session) -> str:
    """Rewrites a query of public columns. Only known constructs and tables are allowed, and every name is quoted."""
    allowed_sql.check(tree, allowed_sql.PUBLIC_CONSTRUCTS, allowed_sql.PUBLIC_FUNCTION_NAMES)
    if has_release(tree) and has_sensitive_names(tree, session):
        (name, *_) = session.manifest.sensitive_columns
        raise QueryError(
            f"a subquery cannot use {name!r}, because this column is estimated; use it in WHERE, GROUP BY and "
            "aggregates of the outer query.",
            code="estimated-column",
            fields={"column": name},
        )
    copy = tree.copy()
    for table in list(copy.find_all(exp.Table)):
        check_table(table, session)
    _check_columns(copy, session)
    for node in list_own_columns(copy):
        node.meta[RELEASE_MARK] = True
    unknown_literals.note_absent_values(copy, session, _is_own)
    copy = _rewrite_ranges(copy, session)
    for node in copy.find_all(exp.Identifier):
        node.set("quoted", True)
    return allowed_sql.write_sql(copy)


def run_subqueries(expression: Tree, session: Session) -> Tree:
    """Runs every subquery of an expression, and replaces it by the table of its result.

    A subquery runs on its own, so it cannot read the published values of the records.
    """
    holder = exp.Paren(this=expression.copy())
    while (subquery := holder.find(exp.Subquery, exp.Exists, exp.Query)) is not None:
        is_exists = isinstance(subquery, exp.Exists)
        inner = subquery.this if isinstance(subquery, exp.Subquery | exp.Exists) else subquery
        name = materialise(inner, session)
        subquery.replace(allowed_sql.make_ready_sql(f"{'EXISTS ' if is_exists else ''}(SELECT * FROM {name})"))
    return holder.this.pop()


def _find_outside_tables(tree: Tree) -> set[str]:
    """The tables that a query names but does not read."""
    inside = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE, exp.Unnest)}
    inside |= {node.name.lower() for node in tree.find_all(exp.TableAlias)}
    return {node.table.lower() for node in tree.find_all(exp.Column) if node.table} - inside


def decorrelate(tree: Tree) -> Tree:
    """Rewrites EXISTS (SELECT ...

    WHERE inner = outer) as outer IN (SELECT inner ...), so that the subquery can run first.
    """
    copy = tree.copy()
    for exists in list(copy.find_all(exp.Exists)):
        inner = exists.this.this if isinstance(exists.this, exp.Subquery) else exists.this
        where = inner.args.get("where") if isinstance(inner, exp.Select) else None
        if where is None or has_release(inner) or not _find_outside_tables(inner):
            continue
        parts = [allowed_sql.unwrap(item) for item in allowed_sql.split_conjuncts(where.this)]
        outer_conditions = [item for item in parts if _find_outside_tables_of(item, inner)]
        if len(outer_conditions) != 1 or not isinstance(outer_conditions[0], exp.EQ):
            continue
        sides = [outer_conditions[0].this, outer_conditions[0].expression]
        inner_side, outer_side = sorted(sides, key=lambda item: bool(_find_outside_tables_of(item, inner)))
        if _find_outside_tables_of(inner_side, inner) or any(
            not _find_outside_tables_of(item, inner) for item in outer_side.find_all(exp.Column)
        ):
            continue
        other_conditions = [item for item in parts if item is not outer_conditions[0]]
        is_not_null = exp.Not(this=exp.Is(this=exp.paren(inner_side.copy()), expression=exp.Null()))
        value_query = inner.copy()
        value_query.set("expressions", [inner_side.copy()])
        value_query.set("where", exp.Where(this=exp.and_(is_not_null, *(item.copy() for item in other_conditions))))
        membership = exp.In(this=outer_side.copy(), query=exp.Subquery(this=value_query))
        exists.replace(exp.Coalesce(this=membership, expressions=[exp.false()]))  # EXISTS is never NULL
    return copy


def _find_outside_tables_of(tree: Tree, inner: Tree) -> set[str]:
    """The tables that a part of a query names although the query does not read them."""
    outside = _find_outside_tables(inner)
    return {column.table.lower() for column in tree.find_all(exp.Column) if column.table.lower() in outside}


def materialise(tree: Tree, session: Session) -> str:
    """Runs a query of public columns, stores its result as a table, and returns the name."""
    if (TABLE in (outside_tables := _find_outside_tables(tree)) and not has_release(tree)) or outside_tables - {TABLE}:
        raise QueryError(
            f"a subquery runs on its own, so it cannot use a column of the outer {TABLE}; join the table instead.",
            code="correlated-subquery",
        )
    name = f"sfumato part {len(session.subquery_tables)}"
    session.subquery_tables.append(session.fetch_subquery(write_public_query(tree, session)))
    session.register(name, session.subquery_tables[-1])
    return quote_name(name)


def check_table(table: Tree, session: Session) -> None:
    """Rejects a table that is neither the release nor attached."""
    if not is_plain(table) or table.name.lower() not in (TABLE, *session.attached_tables):
        attached_names = "".join(f", {name}" for name in session.attached_tables)
        attach_hint = f" Attach a table of your own first: `attach={{{table.name!r}: 'FILE'}}`."
        attach_hint = attach_hint if table.name.isidentifier() and table.name.lower() != TABLE else ""
        raise QueryError(
            f"use only the tables {TABLE}{attached_names}: SELECT ... FROM {TABLE} ...{attach_hint}",
            code="unknown-table",
            fields={"table": table.name},
        )


def _rewrite_ranges(tree: Tree, session: Session) -> Tree:
    """Rewrites comparisons of ranges with numbers in each SELECT that reads only the release."""
    range_names = {name.lower(): name for name in session.manifest.ranges}
    if not range_names:
        return tree
    for column in tree.find_all(exp.Column):
        if _is_own(column) and column.name.lower() in range_names:
            column.set("this", exp.to_identifier(range_names[column.name.lower()], quoted=True))
    for aggregate in tree.find_all(exp.Sum, exp.Avg):
        range_comparisons.check_sum(aggregate, session.manifest.ranges, _is_own)
    return range_comparisons.rewrite_by_ranges(tree, session.manifest.ranges, _is_own)


def list_own_columns(tree: Tree) -> Iterator[exp.Column]:
    """The columns of a public query that can only belong to the release."""
    for column in tree.find_all(exp.Column):
        select = column.parent_select
        source = None if select is None else select.args.get("from_") or select.args.get("from")
        if source is None or select.args.get("joins") or select.args.get("laterals"):
            continue
        table = source.this
        is_release = isinstance(table, exp.Table) and table.name.lower() == TABLE
        if is_release and column.table.lower() in ("", table.alias_or_name.lower()):
            yield column


def _is_own(column: exp.Column) -> bool:
    return RELEASE_MARK in column.meta


def _check_columns(tree: Tree, session: Session) -> None:
    """Reports an unknown column, and lists the existing columns, if only one table can have the column."""
    if tree.find(exp.Subquery, exp.Join, exp.Exists) or not has_release(tree) or not isinstance(tree, exp.Select):
        return
    names = ColumnNames.from_manifest(session.manifest)
    source = tree.args.get("from_") or tree.args["from"]
    if source.this.alias:
        names.tables = {source.this.alias.lower(): names.tables[TABLE]}
    aliases = {item.alias.lower() for item in tree.expressions}
    for item in list(tree.find_all(exp.Column)):
        if not isinstance(item.this, exp.Star) and (item.table or item.name.lower() not in aliases):
            names.resolve(item)
