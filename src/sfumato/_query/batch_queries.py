"""Answers many SQL questions at once.

Simple counts take one pass over the release, and other questions run one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sfumato._core.small_text_files import read_csv_lines, read_small
from sfumato._query.answer import Answer
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.counting.many_counts import count_many
from sfumato._query.counting.simple_sql import parse_simple_count
from sfumato._query.duckdb_session import Session
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, NO_RECORDS, Estimate
from sfumato._query.impossible_literals import AbsentValue
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.parser.answer_names import DEFAULT_COUNT
from sfumato._query.query_limits import Clock
from sfumato._query.query_runner import JOINT_INTERVALS, QueryRunner, propose_method
from sfumato._query.unknown_literals import find_absent_values, list_text_columns, summarize_absent_values
from sfumato.errors import QueryError, SfumatoError, explain_os_error

Outcome = Answer | SfumatoError
"""The outcome of one question: an answer, or the reason why it failed."""
Progress = Callable[[int, int], None]
"""A callback that receives the number of answered questions and the number of all questions."""


def read_batch(path: Path) -> list[str]:
    """Reads the questions of a file."""
    return [sql for _, sql in read_numbered_batch(path)]


def read_numbered_batch(path: Path) -> list[tuple[int, str]]:
    """Reads the questions of a file with the numbers of their lines.

    A file is a CSV with a column `sql`, JSON lines {"sql": ...}, or text (.sql, .txt) with one question in each line.
    """
    format_error = (
        f"{str(path)!r} is not a batch of questions; write one question in each line of a .sql or .txt file, a CSV "
        'with a column sql, or lines such as {"sql": "SELECT COUNT(*) FROM release"}.'
    )
    try:
        if path.suffix == ".csv":
            header, *rows = read_csv_lines(path, QueryError, format_error) or [[]]
            place = [name.strip().lower() for name in header].index("sql") if rows else 0
            return [(line, row[place]) for line, row in enumerate(rows, start=2) if row]
        if path.suffix in (".jsonl", ".sql", ".txt"):
            text = read_small(path, repr(str(path)), QueryError).decode("utf-8-sig")
            lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
            if path.suffix == ".jsonl":
                return [(number, json.loads(line)["sql"] + "") for number, line in lines]
            return [(number, line.strip().rstrip(";")) for number, line in lines if not line.lstrip().startswith("--")]
    except OSError as error:
        raise QueryError(
            f"{str(path)!r} cannot be read: {explain_os_error(error)}.",
            code="unreadable-file",
            fields={"file": str(path)},
        ) from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise (
            error
            if isinstance(error, QueryError)
            else QueryError(format_error, code="wrong-file-format", fields={"file": str(path)})
        ) from error
    raise QueryError(
        f"{str(path)!r} must end in .csv, .jsonl, .sql or .txt, because the ending decides how the file is read.",
        code="wrong-ending",
        fields={"file": str(path)},
    )


def ask_many(
    runner: QueryRunner, questions: Sequence[str], progress: Progress = lambda done, total: None
) -> list[Outcome]:
    """Answers every question in order. A question that fails yields its error, and the others continue."""
    outcomes: dict[int, Outcome] = {}
    progress(0, len(questions))
    for number, answer in stream_answers(runner, questions):
        outcomes[number] = answer
        progress(len(outcomes), len(questions))
    return [outcomes[number] for number in range(len(questions))]


def stream_answers(
    runner: QueryRunner, questions: Sequence[str], on_begin: Callable[[int], None] = lambda number: None
) -> Iterator[tuple[int, Outcome]]:
    """Yields each question's number and answer as they arrive. Calls `on_begin` before a question runs alone."""
    done: set[int] = set()
    simple: dict[int, tuple[str, CountQuery]] = {}
    for number, sql in enumerate(questions):
        try:
            select = parse(sql)
        except SfumatoError as error:
            done.add(number)
            yield number, error
            continue
        if (query := parse_simple_count(select, runner.open_release.manifest)) is not None:
            simple[number] = (str(select.expressions[0].alias or DEFAULT_COUNT), query)
    count_outcomes = _count_together(runner, simple)
    yield from count_outcomes.items()
    for number, sql in enumerate(questions):
        if number not in count_outcomes and number not in done:
            on_begin(number)
            try:
                outcome: Outcome = runner.ask(sql)
            except SfumatoError as error:
                outcome = error
            yield number, outcome


def _count_together(runner: QueryRunner, simple: dict[int, tuple[str, CountQuery]]) -> dict[int, Outcome]:
    """Answers simple counts together. If one count fails, answers all counts one by one."""
    if not simple:
        return {}
    queries = [query for _, query in simple.values()]
    try:
        estimates = count_many(runner.open_release.manifest, runner.open_release.folder, queries, runner.method)
    except SfumatoError:
        return {}
    with runner.open_release.open_session(clock=Clock(runner.limits)) as session:
        absent_values = _find_absent_values(session, queries)
    empty_flags = [False] * len(queries) if estimates.is_empty is None else estimates.is_empty.tolist()
    outcomes: dict[int, Outcome] = {}
    plain = replace(estimates, is_empty=None)  # an answer reports an empty selection in addition to its numbers
    for (number, (name, query)), estimate, is_empty in zip(simple.items(), plain, empty_flags, strict=True):
        absence_note = summarize_absent_values(
            absent_values[column, text]
            for column, text in _list_compared_texts(query)
            if (column, text) in absent_values
        )
        empty_note = NO_RECORDS if is_empty and absence_note is None else None
        outcomes[number] = _make_answer(runner, name, query, estimate).add_absence_note(absence_note or empty_note)
    return outcomes


def _list_compared_texts(query: CountQuery) -> Iterator[tuple[str, str]]:
    """The public columns that a query compares with strings, and the strings."""
    for column, condition in query.where.items():
        for value in condition if isinstance(condition, tuple) else (condition,):
            if isinstance(value, str):
                yield column, value


def _find_absent_values(session: Session, queries: Sequence[CountQuery]) -> dict[tuple[str, str], AbsentValue]:
    """For each column, the queried strings that do not occur in any record."""
    texts_by_column: dict[str, dict[str, None]] = {}
    for query in queries:
        for column, item in _list_compared_texts(query):
            texts_by_column.setdefault(column, {})[item] = None
    public_columns = set(list_text_columns(session.manifest).values())
    absent_values = [
        item
        for column in texts_by_column
        if column in public_columns
        for item in find_absent_values(session, column, texts_by_column[column])
    ]
    return {(item.column, item.text): item for item in absent_values}


def _make_answer(runner: QueryRunner, name: str, query: CountQuery, estimate: Estimate) -> Answer:
    """Builds the answer that the question would get if it were asked alone."""
    method_label, assumption = (
        (EXACT_METHOD, EXACT_ASSUMPTION) if estimate.is_exact else (estimate.method, estimate.assumption)
    )
    row, counted_unit, note = (
        {name: estimate},
        runner.open_release.manifest.count_unit,
        propose_method(runner, [estimate]),
    )
    answer = Answer(
        (name,),
        (name,),
        (row,),
        method_label,
        assumption,
        note,
        estimate_count=int(not estimate.is_exact),
        counted_unit=counted_unit,
        population=runner.open_release.manifest.population,
    )
    if not runner.is_simultaneous or query.values is None:
        return answer
    return replace(answer, method=method_label + JOINT_INTERVALS.format(answer.estimate_count), is_simultaneous=True)
