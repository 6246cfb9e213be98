"""Answers that need no estimate: queries of public columns alone, run as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sfumato._core.cell_values import field_type, listed
from sfumato._query.answer import Answer
from sfumato._query.connection import LARGEST_PART, Session
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato._query.parser import public_queries
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.answer_names import output_names
from sfumato._query.parser.sensitive_queries import is_aggregate, note_column, number_columns
from sfumato._query.unknown_literals import lacking
from sfumato._records.sql_quoting import TABLE
from sfumato.errors import QueryError

MOST_ROWS = 100_000
MOST_FIELDS = 2_000_000


def answer(session: Session, select: Tree) -> Answer:
    """Run a query of public columns, and mark its aggregates as exact."""
    if select.find(exp.Table) is None:
        raise QueryError(f"say where to count: SELECT ... FROM {TABLE} ...")
    select = select.copy()
    select.set("expressions", _named(select.expressions))
    _put_in_order(select)
    table = _read(session, public_queries.written(select, session))
    names = table.schema.names
    numbers = _numbers(select, table)
    filled = [*names, *(each for name in numbers for each in [*number_columns(name)[1:], note_column(name)])]
    if len(set(filled)) != len(filled):
        raise QueryError("two columns of the answer have the same name; rename one with AS.")
    rows = [
        {name: _exact(value) if name in numbers else value for name, value in each.items()}
        for each in table.to_pylist()
    ]
    is_asked = bool(select.args.get("where"))
    is_empty = is_asked and _may_be_nothing(select, rows, numbers) and _counts_nothing(session, select)
    answer = Answer(
        tuple(names), tuple(numbers), tuple(rows), EXACT_METHOD, EXACT_ASSUMPTION, _unshown(session, select)
    )
    return answer.with_lacking(lacking(session, is_empty=is_empty))


def _unshown(session: Session, select: Tree) -> str | None:
    """What is said where a star stands for all columns but those that no row shows."""
    if not public_queries.has_release(select) or not any(each.is_star for each in select.expressions):
        return None
    names = session.manifest.sensitive
    them = "is protected, so rows do not show it" if len(names) == 1 else "are protected, so rows do not show them"
    return f"{listed(names, len(names))} {them}; count with GROUP BY."


def _named(expressions: Sequence[Tree]) -> list[Tree]:
    """The columns of the answer with their names; a star stands for names of its own."""
    return [
        each
        if isinstance(each, exp.Alias | exp.Column | exp.Star | exp.Columns)
        else exp.alias_(each.copy(), name, quoted=True)
        for name, each in zip(output_names(expressions), expressions, strict=True)
    ]


def _put_in_order(select: Tree) -> None:
    """Groups come in the order of their values, unless the query says otherwise."""
    if select.args.get("order") or not select.args.get("group"):
        return
    shown = [number for number, each in enumerate(select.expressions, 1) if not is_aggregate(each)]
    if shown:
        select.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(number)) for number in shown]))


def _read(session: Session, sql: str) -> pa.Table:
    """The rows of an answer, if there are not too many."""
    names = list(session.columns(sql))
    if len({name.lower() for name in names}) != len(names):
        raise QueryError("two columns of the answer have the same name; rename one with AS.")
    batches, rows, size = [], 0, 0
    for batch in session.batches(sql):
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size > LARGEST_PART:
            raise QueryError(f"the answer takes more than {LARGEST_PART >> 20} MiB; add LIMIT, or select fewer.")
        if rows > MOST_ROWS:
            raise QueryError(f"the answer has more than {MOST_ROWS:,} rows; add LIMIT, or group by coarser columns.")
        if rows * len(names) > MOST_FIELDS:
            raise QueryError(f"the answer has more than {MOST_FIELDS:,} numbers and texts; add LIMIT, or select fewer.")
    if not batches:
        return session.table(f"SELECT * FROM ({sql}) AS t LIMIT 0")
    return pa.Table.from_batches(batches)


def _numbers(select: Tree, table: pa.Table) -> list[str]:
    """The columns that hold exact numbers: aggregates that are numeric."""
    if len(select.expressions) != table.num_columns:
        return []  # a star stands for several columns, and no aggregate can stand beside it
    pairs = zip(select.expressions, table.schema, strict=True)
    return [
        field.name for each, field in pairs if is_aggregate(each) and field_type(field.type) in ("integer", "number")
    ]


def _exact(value: Any) -> Estimate:
    return Estimate.missing("no record satisfies the condition") if value is None else Estimate.exact(float(value))


def _counts_nothing(session: Session, select: Tree) -> bool:
    """Whether no record satisfies the condition: a sum may be zero, and HAVING may leave no group."""
    counted = exp.Select(expressions=[exp.Count(this=exp.Star())])
    for name in ("from", "from_", "joins", "where"):
        counted.set(name, select.copy().args.get(name))
    ((found,),) = session.rows(public_queries.written(counted, session))
    return not found


def _may_be_nothing(select: Tree, rows: list[dict[str, Any]], numbers: list[str]) -> bool:
    """Whether an answer may come from no record at all."""
    if select.args.get("group") or not numbers:
        return not rows
    return all(not row[name].value > 0 and not row[name].value < 0 for row in rows for name in numbers)
