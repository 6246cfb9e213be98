"""Answers DESCRIBE, SHOW TABLES and SUMMARIZE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from sfumato._query.answer import Answer
from sfumato._query.duckdb_session import Session
from sfumato._query.estimate import EXACT_ASSUMPTION
from sfumato._query.parser import allowed_sql, public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._records.sql_quoting import TABLE, quote_name
from sfumato._release.manifest import Manifest
from sfumato._request.range_edges import Ranges
from sfumato.errors import QueryError

AS_PUBLISHED = "as it was published"
MOST_RANGES = 12
"""Up to this number, all ranges of a column are listed. Otherwise only the first two and the last range are listed."""
PROTECTED_NOTE = "a protected column has only estimated counts and no exact summary; count its values with GROUP BY."


def list_askable_columns(manifest: Manifest) -> list[tuple[str, str, str]]:
    """The name, the type and the role of each column that queries can use.

    Queries cannot use the published form of a protected column: bits, a column for each value, or buckets. The list has
    the protected columns themselves instead, with the type of their values.
    """
    protected = [
        (name, kind, _describe_role("protected", name, manifest))
        for name, kind in zip(manifest.sensitive_columns, manifest.sensitive_types, strict=True)
    ]
    askable_columns = []
    for field in manifest.fields:
        if field.name in manifest.public_columns:
            askable_columns.append((field.name, field.type, _describe_role("public", field.name, manifest)))
        elif own_columns := [column_name for column_name in protected if column_name[0] == field.name] or protected:
            protected = [column_name for column_name in protected if column_name not in own_columns]
            askable_columns += own_columns
    return [*askable_columns, *protected]


def _describe_role(role: str, name: str, manifest: Manifest) -> str:
    if edges := manifest.ranges.get(name):
        labels = Ranges(edges).labels
        shown_labels = labels if len(labels) <= MOST_RANGES else (*labels[:2], f"... {labels[-1]}")
        return f"{role}, in {', '.join(shown_labels)}"
    level = manifest.published_levels.get(name)
    return f"{role}, at the level {level}" if level else role


def is_description(tree: Tree) -> bool:
    """Whether a statement asks about tables and columns instead of numbers."""
    return isinstance(tree, exp.Describe | exp.Summarize | exp.Show | exp.Pivot)


def answer_description(tree: Tree, session: Session) -> Answer:
    """Answers a statement about tables and columns."""
    if isinstance(tree, exp.Pivot):
        raise _explain_pivot(tree)
    if isinstance(tree, exp.Show):
        if str(tree.name).upper() not in ("TABLES", "ALL TABLES"):
            raise QueryError(
                "use SHOW TABLES to list the tables, or DESCRIBE release to list the columns.",
                code="unsupported-statement",
            )
        return _make_answer(
            [{"table": name, "rows": _count_rows(name, session)} for name in (TABLE, *session.attached_tables)]
        )
    table = tree.this
    if not isinstance(table, exp.Table):
        raise QueryError(
            "describe a table by its name, such as DESCRIBE release; to see the columns of a query, run the query "
            "with LIMIT 1.",
            code="describe-query",
        )
    public_queries.check_table(table, session)
    name = table.name.lower()
    columns = _describe_columns(name, session)
    if isinstance(tree, exp.Describe):
        return _make_answer(columns)
    return _make_answer(
        [{**column, **_summarize_column(name, column, session)} for column in columns],
        PROTECTED_NOTE if name == TABLE else None,
    )


def _make_answer(rows: Sequence[Mapping[str, object]], note: str | None = None) -> Answer:
    names = tuple(rows[0]) if rows else ("column",)
    return Answer(names, (), tuple(rows), AS_PUBLISHED, EXACT_ASSUMPTION, note, counted_unit=f"{names[0]}s")


def _count_rows(name: str, session: Session) -> int:
    ((row_count,),) = session.fetch_rows(f"SELECT COUNT(*) FROM {quote_name(name)}")
    return int(row_count)


def _describe_columns(name: str, session: Session) -> list[dict[str, object]]:
    if name == TABLE:
        return [
            dict(zip(("column", "type", "role"), column, strict=True))
            for column in list_askable_columns(session.manifest)
        ]
    kinds = session.describe_columns(f"SELECT * FROM {quote_name(name)}")
    return [{"column": column, "type": kind.lower(), "role": "attached"} for column, kind in kinds.items()]


def _summarize_column(name: str, column: Mapping[str, Any], session: Session) -> dict[str, object]:
    """The exact summary of a public column. For a protected column, the summary has only the size of the domain."""
    if name == TABLE and column["column"] not in session.manifest.public_columns:
        number = session.manifest.sensitive_columns.index(column["column"])
        values = dict.fromkeys(session.manifest.naming.make_part_domain(number).to_pylist())
        return {"least": None, "largest": None, "different": len(values), "missing": None}
    column_sql = quote_name(column["column"])
    aggregates = (
        f"MIN({column_sql})::VARCHAR, MAX({column_sql})::VARCHAR, COUNT(DISTINCT {column_sql}), COUNT(*) - "
        f"COUNT({column_sql})"
    )
    ((least, largest, different, missing),) = session.fetch_rows(f"SELECT {aggregates} FROM {quote_name(name)}")
    return {"least": least, "largest": largest, "different": different, "missing": missing}


def _explain_pivot(pivot: Tree) -> QueryError:
    """Explains that PIVOT is not supported. Proposes a query that gives the same numbers."""
    keys = [*(pivot.args["group"].expressions if pivot.args.get("group") else ()), *pivot.expressions]
    listed = ", ".join(
        allowed_sql.write_sql(expression)
        for expression in [*keys, *(pivot.args.get("using") or [exp.Count(this=exp.Star())])]
    )
    source = allowed_sql.write_sql(pivot.this) if isinstance(pivot.this, exp.Table) else TABLE
    return QueryError(
        f"PIVOT is not supported, because its columns are values; ask SELECT {listed} FROM {source} GROUP BY ALL, "
        "and pivot the answer in a frame (to_pandas().pivot).",
        code="pivot",
    )
