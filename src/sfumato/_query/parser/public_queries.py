"""Queries of public columns and of the analyst's own tables: nothing is estimated, so DuckDB answers as it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sfumato._query import unknown_literals
from sfumato._query.connection import Session
from sfumato._query.parser import allowed_sql, range_comparisons
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.column_names import Names
from sfumato._query.parser.query_size import Room
from sfumato._records.sql_quoting import TABLE, quoted
from sfumato._request.hierarchy import level_name
from sfumato.errors import QueryError

Parts = Mapping[str, Tree]
"""The common table expressions that can be named, by their names in small letters."""
OWN = "of the release"
"""What is noted of columns while they are looked at."""


def common(select: Tree, known: Parts, room: Room) -> dict[str, Tree]:
    """The common table expressions of a query, added to those around it; each sees the ones before it."""
    given = select.args.get("with_") or select.args.get("with")
    found = dict(known)
    if given is None:
        return found
    if given.args.get("recursive"):
        raise QueryError("a recursive WITH cannot be answered; write what it makes into a file and attach it.")
    for each in given.expressions:
        name = each.alias.lower()
        if name == TABLE:
            raise QueryError(f"{TABLE!r} is the release; give the common table expression another name.")
        if each.args["alias"].args.get("columns"):
            raise QueryError("name the columns of a common table expression inside it, with AS.")
        found[name] = inlined(each.this, found, room)
    return found


def inlined(tree: Tree, known: Parts, room: Room) -> Tree:
    """A query in which every common table expression stands where it is named, as far as there is room."""
    copy = room.take(tree)
    parts = common(copy, known, room)
    for name in ("with_", "with"):
        if copy.args.get(name):
            copy.set(name, None)
    for table in list(copy.find_all(exp.Table)):
        body = parts.get(table.name.lower())
        if body is not None and is_plain(table):
            alias = table.alias or table.name
            table.replace(exp.Subquery(this=room.take(body), alias=exp.TableAlias(this=exp.to_identifier(alias))))
    return copy


def is_plain(table: Tree) -> bool:
    """Whether a table is given by its name alone, with AS or without."""
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return False
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return False
    return not any(value for name, value in table.args.items() if name not in ("this", "alias"))


def names_sensitive(tree: Tree, session: Session) -> bool:
    """Whether a query may speak of a sensitive column of the release."""
    sensitive = {name.lower() for name in (*session.manifest.sensitive, *session.manifest.levels)}
    joined = [each for join in tree.find_all(exp.Join) for each in join.args.get("using") or ()]
    named = [
        each for column in tree.find_all(exp.Column) for each in (column.name, level_name(column.table, column.name))
    ]
    return not sensitive.isdisjoint(each.lower() for each in [*named, *(each.name for each in joined)])


def has_release(tree: Tree) -> bool:
    """Whether a query reads the release."""
    return any(table.name.lower() == TABLE for table in tree.find_all(exp.Table))


def written(tree: Tree, session: Session) -> str:
    """Write a query of public columns anew: known constructs, known tables, every name quoted."""
    allowed_sql.check(tree, allowed_sql.PUBLIC, allowed_sql.PUBLIC_NAMED)
    if has_release(tree) and names_sensitive(tree, session):
        (name, *_) = session.manifest.sensitive
        raise QueryError(
            f"a subquery cannot use {name!r}, because it is estimated, not known; use it in WHERE, GROUP BY and "
            "aggregates of the outer query."
        )
    copy = tree.copy()
    for table in list(copy.find_all(exp.Table)):
        check_table(table, session)
    _check_columns(copy, session)
    for each in own_columns(copy):
        each.meta[OWN] = True
    unknown_literals.look(copy, session, _is_own)
    copy = _in_ranges(copy, session)
    for each in copy.find_all(exp.Identifier):
        each.set("quoted", True)
    return allowed_sql.sql_of(copy)


def without_subqueries(expression: Tree, session: Session) -> Tree:
    """An expression in which every subquery was run, and stands as the table that it gave.

    A subquery is run on its own, so that it cannot look at what the records of the release show.
    """
    holder = exp.Paren(this=expression.copy())
    while (found := holder.find(exp.Subquery, exp.Exists, exp.Query)) is not None:
        is_exists = isinstance(found, exp.Exists)
        inner = found.this if isinstance(found, exp.Subquery | exp.Exists) else found
        name = materialised(inner, session)
        found.replace(allowed_sql.ready(f"{'EXISTS ' if is_exists else ''}(SELECT * FROM {name})"))
    return holder.this.pop()


def _outside(tree: Tree) -> set[str]:
    """The tables that a query names without reading them."""
    inside = {each.alias_or_name.lower() for each in tree.find_all(exp.Table, exp.Subquery, exp.CTE, exp.Unnest)}
    inside |= {each.name.lower() for each in tree.find_all(exp.TableAlias)}
    return {each.table.lower() for each in tree.find_all(exp.Column) if each.table} - inside


def uncorrelated(tree: Tree) -> Tree:
    """A query in which EXISTS (SELECT ... WHERE inner = outer) is outer IN (SELECT inner ...), to be run first."""
    copy = tree.copy()
    for exists in list(copy.find_all(exp.Exists)):
        inner = exists.this.this if isinstance(exists.this, exp.Subquery) else exists.this
        where = inner.args.get("where") if isinstance(inner, exp.Select) else None
        if where is None or has_release(inner) or not _outside(inner):
            continue
        parts = [allowed_sql.unwrapped(each) for each in allowed_sql.conjuncts(where.this)]
        joining = [each for each in parts if _outside_of(each, inner)]
        if len(joining) != 1 or not isinstance(joining[0], exp.EQ):
            continue
        sides = [joining[0].this, joining[0].expression]
        own, other = sorted(sides, key=lambda each: bool(_outside_of(each, inner)))
        if _outside_of(own, inner) or any(not _outside_of(each, inner) for each in other.find_all(exp.Column)):
            continue
        rest = [each for each in parts if each is not joining[0]]
        given = exp.Not(this=exp.Is(this=exp.paren(own.copy()), expression=exp.Null()))
        listed = inner.copy()
        listed.set("expressions", [own.copy()])
        listed.set("where", exp.Where(this=exp.and_(given, *(each.copy() for each in rest))))
        found = exp.In(this=other.copy(), query=exp.Subquery(this=listed))
        exists.replace(exp.Coalesce(this=found, expressions=[exp.false()]))  # EXISTS is never unknown
    return copy


def _outside_of(tree: Tree, inner: Tree) -> set[str]:
    """The tables that a part of a query names, and the query does not read."""
    outside = _outside(inner)
    return {each.table.lower() for each in tree.find_all(exp.Column) if each.table.lower() in outside}


def materialised(tree: Tree, session: Session) -> str:
    """Run a query of public columns, keep what it gives as a table, and name it."""
    if (TABLE in (found := _outside(tree)) and not has_release(tree)) or found - {TABLE}:
        raise QueryError(
            f"a subquery is run on its own, so it cannot use a column of {TABLE} beside it; join the table instead."
        )
    name = f"sfumato part {len(session.parts)}"
    session.parts.append(session.part(written(tree, session)))
    session.register(name, session.parts[-1])
    return quoted(name)


def check_table(table: Tree, session: Session) -> None:
    """Refuse what is neither the release nor a table that was attached."""
    if not is_plain(table) or table.name.lower() not in (TABLE, *session.attached):
        beside = "".join(f", {name}" for name in session.attached)
        yours = f" A table of your own is attached first: --attach {table.name}=FILE."
        yours = yours if table.name.isidentifier() and table.name.lower() != TABLE else ""
        raise QueryError(f"the tables to ask are {TABLE}{beside}: SELECT ... FROM {TABLE} ...{yours}")


def _in_ranges(tree: Tree, session: Session) -> Tree:
    """Comparisons of the release's ranges with numbers, in each SELECT that reads the release and nothing else."""
    spelt = {name.lower(): name for name in session.manifest.bins}
    if not spelt:
        return tree
    for each in tree.find_all(exp.Column):
        if _is_own(each) and each.name.lower() in spelt:
            each.set("this", exp.to_identifier(spelt[each.name.lower()], quoted=True))
    for aggregate in tree.find_all(exp.Sum, exp.Avg):
        range_comparisons.check_sum(aggregate, session.manifest.bins, _is_own)
    return range_comparisons.by_ranges(tree, session.manifest.bins, _is_own)


def own_columns(tree: Tree) -> Iterator[exp.Column]:
    """The columns of a public query that are those of the release, because they can be of no other table."""
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
    return OWN in column.meta


def _check_columns(tree: Tree, session: Session) -> None:
    """Name the columns that there are, if one is asked for that there is not; only where one table can have it."""
    if tree.find(exp.Subquery, exp.Join, exp.Exists) or not has_release(tree) or not isinstance(tree, exp.Select):
        return
    names = Names.of_release(session.manifest)
    source = tree.args.get("from_") or tree.args["from"]
    if source.this.alias:
        names.tables = {source.this.alias.lower(): names.tables[TABLE]}
    given = {each.alias.lower() for each in tree.expressions}
    for each in list(tree.find_all(exp.Column)):
        if not isinstance(each.this, exp.Star) and (each.table or each.name.lower() not in given):
            names.resolved(each)
