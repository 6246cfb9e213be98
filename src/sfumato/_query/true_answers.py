"""Answers questions from the original table. The true numbers are compared with the answers of a release.

The results are private.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from sfumato._query.answer import Answer
from sfumato._query.parser.allowed_sql import parse
from sfumato._records.tally import ResultRow
from sfumato.errors import SfumatoError

LOCKED_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}
MOST_ROWS = 1000
UNKNOWN = "the original table cannot answer this question, so the true numbers are unknown."

TrueNumbers = tuple[tuple[float | None, ...], str]
"""The true value of each number of an answer, row by row, and the reason if the table cannot answer."""


def find_true_numbers(table: pa.Table, answers: Iterable[tuple[str, Answer | SfumatoError]]) -> Iterator[TrueNumbers]:
    """Finds the true numbers of each answer in order. An answer that failed has no true numbers."""
    with duckdb.connect(config=LOCKED_CONFIG) as connection:
        connection.register("release", table)
        connection.execute("SET lock_configuration = true")
        for sql, answer in answers:
            yield ((), "") if isinstance(answer, SfumatoError) else _ask_table(connection, sql, answer)


def _ask_table(connection: duckdb.DuckDBPyConnection, sql: str, answer: Answer) -> TrueNumbers:
    truths: dict[tuple[str, ...], ResultRow] = {}
    reason = ""
    places = [place for place, name in enumerate(answer.names) if name in answer.numbers]
    try:
        truth_rows = connection.execute(parse(sql).sql(dialect="duckdb")).fetchmany(MOST_ROWS)
        truths = {_make_group_key(row, places): row for row in truth_rows if len(row) == len(answer.names)}
    except (duckdb.Error, SfumatoError):
        reason = UNKNOWN
    answered_rows = [tuple(row[name] for name in answer.names) for row in answer.rows]
    numbers = [
        _parse_number(truths.get(_make_group_key(row, places), ()), place) for row in answered_rows for place in places
    ]
    return tuple(numbers), reason


def _make_group_key(row: ResultRow, places: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(cell) for place, cell in enumerate(row) if place not in places)


def _parse_number(row: ResultRow, place: int) -> float | None:
    """A cell as a number. Other code handles missing groups, which have the count 0 in the table too."""
    try:
        return float(row[place]) if row and row[place] is not None else None
    except (TypeError, ValueError):
        return None
