"""Answers queries of public columns exactly, without estimates."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sfumato._core.cell_values import find_field_type, format_values
from sfumato._query.answer import Answer
from sfumato._query.duckdb_session import LARGEST_PART, Session
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato._query.parser import public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.answer_names import make_output_names
from sfumato._query.parser.sensitive_queries import is_aggregate, list_number_columns, name_note_column
from sfumato._query.unknown_literals import explain_absent_values
from sfumato._records.sql_quoting import TABLE
from sfumato.errors import QueryError

MOST_ROWS = 100_000
MOST_FIELDS = 2_000_000


def answer_public_query(session: Session, select: Tree) -> Answer:
    """Runs a query of public columns and marks its aggregates as exact."""
    if select.find(exp.Table) is None:
        raise QueryError(f"name the table to count: SELECT ... FROM {TABLE} ...", code="no-from-clause")
    select = select.copy()
    select.set("expressions", _name_columns(select.expressions))
    _put_in_order(select)
    table = _read_rows(session, public_queries.write_public_query(select, session))
    names = table.schema.names
    numbers = _list_number_columns(select, table)
    all_names = [
        *names,
        *(record for name in numbers for record in [*list_number_columns(name)[1:], name_note_column(name)]),
    ]
    if len(set(all_names)) != len(all_names):
        raise QueryError("two columns of the answer have the same name; rename one with AS.", code="repeated-column")
    rows = [
        {name: _make_exact(value) if name in numbers else value for name, value in record.items()}
        for record in table.to_pylist()
    ]
    has_condition = bool(select.args.get("where"))
    is_empty = has_condition and _may_have_no_records(select, rows, numbers) and _has_no_records(session, select)
    answer = Answer(
        tuple(names),
        tuple(numbers),
        tuple(rows),
        EXACT_METHOD,
        EXACT_ASSUMPTION,
        _explain_hidden_columns(session, select),
    )
    return answer.add_absence_note(explain_absent_values(session, is_empty=is_empty))


def _explain_hidden_columns(session: Session, select: Tree) -> str | None:
    """Explains that * leaves out the protected columns, because rows do not show them."""
    if not public_queries.has_release(select) or not any(expression.is_star for expression in select.expressions):
        return None
    names = session.manifest.sensitive_columns
    explanation = (
        "is protected, so rows do not show it" if len(names) == 1 else "are protected, so rows do not show them"
    )
    return f"{format_values(names, len(names))} {explanation}; count its values with GROUP BY."


def _name_columns(expressions: Sequence[Tree]) -> list[Tree]:
    """The columns of the answer with their names. The columns of * keep their names."""
    return [
        expression
        if isinstance(expression, exp.Alias | exp.Column | exp.Star | exp.Columns)
        else exp.alias_(expression.copy(), name, quoted=True)
        for name, expression in zip(make_output_names(expressions), expressions, strict=True)
    ]


def _put_in_order(select: Tree) -> None:
    """Orders groups by their values, unless the query has an order."""
    if select.args.get("order") or not select.args.get("group"):
        return
    group_numbers = [number for number, expression in enumerate(select.expressions, 1) if not is_aggregate(expression)]
    if group_numbers:
        select.set(
            "order", exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(number)) for number in group_numbers])
        )


def check_answer_names(names: Sequence[str]) -> None:
    """Refuses an answer in which the names of two columns differ only by capital letters."""
    if len({name.lower() for name in names}) != len(names):
        raise QueryError("two columns of the answer have the same name; rename one with AS.", code="repeated-column")


def _read_rows(session: Session, sql: str) -> pa.Table:
    """The rows of an answer, within a size limit."""
    names = list(session.describe_columns(sql))
    check_answer_names(names)
    batches, rows, size = [], 0, 0
    for batch in session.fetch_batches(sql):
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size > LARGEST_PART:
            raise QueryError(
                f"the answer takes more than {LARGEST_PART >> 20} MiB; add LIMIT, or select fewer columns.",
                code="answer-too-large",
                fields={"limit": LARGEST_PART, "unit": "bytes"},
            )
        if rows > MOST_ROWS:
            raise QueryError(
                f"the answer has more than {MOST_ROWS:,} rows; add LIMIT, or group by coarser columns.",
                code="answer-too-large",
                fields={"limit": MOST_ROWS, "unit": "rows"},
            )
        if rows * len(names) > MOST_FIELDS:
            raise QueryError(
                f"the answer has more than {MOST_FIELDS:,} numbers and strings; add LIMIT, or select fewer columns.",
                code="answer-too-large",
                fields={"limit": MOST_FIELDS, "unit": "fields"},
            )
    if not batches:
        return session.fetch_table(f"SELECT * FROM ({sql}) AS t LIMIT 0")
    return pa.Table.from_batches(batches)


def _list_number_columns(select: Tree, table: pa.Table) -> list[str]:
    """The columns that hold exact numbers: numeric aggregates."""
    if len(select.expressions) != table.num_columns:
        return []  # * stands for several columns, and cannot be combined with an aggregate
    pairs = zip(select.expressions, table.schema, strict=True)
    return [
        field.name
        for expression, field in pairs
        if is_aggregate(expression) and find_field_type(field.type) in ("integer", "number")
    ]


def _make_exact(value: float | Decimal | None) -> Estimate:
    return Estimate.missing("no record satisfies the condition") if value is None else Estimate.exact(float(value))


def _has_no_records(session: Session, select: Tree) -> bool:
    """Whether no record satisfies the condition.

    Results alone do not show this: a sum may be zero, and HAVING may remove all groups.
    """
    count_select = exp.Select(expressions=[exp.Count(this=exp.Star())])
    for name in ("from", "from_", "joins", "where"):
        count_select.set(name, select.copy().args.get(name))
    ((record_count,),) = session.fetch_rows(public_queries.write_public_query(count_select, session))
    return not record_count


def _may_have_no_records(select: Tree, rows: list[dict[str, Any]], numbers: list[str]) -> bool:
    """Whether it is possible that no record contributes to an answer."""
    if select.args.get("group") or not numbers:
        return not rows
    return all(not row[name].value > 0 and not row[name].value < 0 for row in rows for name in numbers)
