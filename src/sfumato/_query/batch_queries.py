"""Many SQL questions at once: simple counts by one reading of the release, the rest one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sfumato._core.small_text_files import read_csv_lines, read_small
from sfumato._query.answer import Answer
from sfumato._query.answering import TOGETHER, Asker, propose_method
from sfumato._query.connection import Session
from sfumato._query.counting.count_queries import CountQuery
from sfumato._query.counting.many_counts import count_many
from sfumato._query.counting.simple_sql import parse_simple_count
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, NOTHING, Estimate
from sfumato._query.impossible_literals import Unheard
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.parser.answer_names import DEFAULT_COUNT
from sfumato._query.query_limits import Clock
from sfumato._query.unknown_literals import find_absent_values, open_columns, summarize_absent_values
from sfumato.errors import QueryError, SfumatoError, explain_os_error

Outcome = Answer | SfumatoError
"""What a question of many has: an answer, or the reason why it has none."""
Progress = Callable[[int, int], None]
"""Called with how many questions are answered, and how many there are."""


def read_batch(path: Path) -> list[str]:
    """The questions of a file: the column `sql` of a CSV, or a line {"sql": ...} of JSON for each."""
    unlike = (
        f"{str(path)!r} is not a batch of questions: write a CSV with a column sql, or lines such as "
        '{"sql": "SELECT COUNT(*) FROM release"}.'
    )
    try:
        if path.suffix == ".csv":
            header, *rows = read_csv_lines(path, QueryError, unlike) or [[]]
            place = [name.strip().lower() for name in header].index("sql") if rows else 0
            return [row[place] for row in rows if row]
        if path.suffix == ".jsonl":
            text = read_small(path, repr(str(path)), QueryError).decode("utf-8-sig")
            read = [json.loads(line) for line in text.split("\n") if line.strip()]
            return [question["sql"] + "" for question in read]
    except OSError as error:
        raise QueryError(f"{str(path)!r} cannot be read: {explain_os_error(error)}.") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise error if isinstance(error, QueryError) else QueryError(unlike) from error
    raise QueryError(f"{str(path)!r} must end in .csv or .jsonl, so that it is clear how to read it.")


def ask_many(asker: Asker, questions: Sequence[str], progress: Progress = lambda done, total: None) -> list[Outcome]:
    """Answer every question, in their order; one that cannot be answered gives its error, and the others go on."""
    outcomes: dict[int, Outcome] = {}
    progress(0, len(questions))
    for number, answer in stream_answers(asker, questions):
        outcomes[number] = answer
        progress(len(outcomes), len(questions))
    return [outcomes[number] for number in range(len(questions))]


def stream_answers(
    asker: Asker, questions: Sequence[str], begins: Callable[[int], None] = lambda number: None
) -> Iterator[tuple[int, Outcome]]:
    """The number of each question with its answer, as they come; what is asked alone is told when it begins."""
    done: set[int] = set()
    simple: dict[int, tuple[str, CountQuery]] = {}
    for number, sql in enumerate(questions):
        try:
            select = parse(sql)
        except SfumatoError as error:
            done.add(number)
            yield number, error
            continue
        if (query := parse_simple_count(select, asker.opened.manifest)) is not None:
            simple[number] = (str(select.expressions[0].alias or DEFAULT_COUNT), query)
    counted = _count_together(asker, simple)
    yield from counted.items()
    for number, sql in enumerate(questions):
        if number not in counted and number not in done:
            begins(number)
            try:
                outcome: Outcome = asker.ask(sql)
            except SfumatoError as error:
                outcome = error
            yield number, outcome


def _count_together(asker: Asker, simple: dict[int, tuple[str, CountQuery]]) -> dict[int, Outcome]:
    """Answer simple counts together; if one of them cannot be answered so, all are left to be asked one by one."""
    if not simple:
        return {}
    queries = [query for _, query in simple.values()]
    try:
        estimates = count_many(asker.opened.manifest, asker.opened.folder, queries, asker.method)
    except SfumatoError:
        return {}
    with asker.opened.session(clock=Clock(asker.limits)) as session:
        unheard = _find_absent_values(session, queries)
    empty = [False] * len(queries) if estimates.empty is None else estimates.empty.tolist()
    outcomes: dict[int, Outcome] = {}
    plain = replace(estimates, empty=None)  # of what no record satisfies, an answer says it beside its numbers
    for (number, (name, query)), estimate, is_empty in zip(simple.items(), plain, empty, strict=True):
        told_of = summarize_absent_values(
            unheard[column, text] for column, text in _list_compared_texts(query) if (column, text) in unheard
        )
        nothing = NOTHING if is_empty and told_of is None else None
        outcomes[number] = _make_answer(asker, name, query, estimate).with_lacking(told_of or nothing)
    return outcomes


def _list_compared_texts(query: CountQuery) -> Iterator[tuple[str, str]]:
    """The public columns of a query that are compared with texts, and the texts."""
    for column, condition in query.where.items():
        for value in condition if isinstance(condition, tuple) else (condition,):
            if isinstance(value, str):
                yield column, value


def _find_absent_values(session: Session, queries: Sequence[CountQuery]) -> dict[tuple[str, str], Unheard]:
    """The texts of all queries that no record has, by their columns."""
    named: dict[str, dict[str, None]] = {}
    for query in queries:
        for column, item in _list_compared_texts(query):
            named.setdefault(column, {})[item] = None
    public_columns = set(open_columns(session.manifest).values())
    absent_values = [
        item
        for column in named
        if column in public_columns
        for item in find_absent_values(session, column, named[column])
    ]
    return {(item.column, item.text): item for item in absent_values}


def _make_answer(asker: Asker, name: str, query: CountQuery, estimate: Estimate) -> Answer:
    """The answer that the question would have had alone."""
    method_label, assumption = (
        (EXACT_METHOD, EXACT_ASSUMPTION) if estimate.is_exact else (estimate.method, estimate.assumption)
    )
    row, counted, note = {name: estimate}, asker.opened.manifest.counted, propose_method(asker, [estimate])
    answer = Answer(
        (name,), (name,), (row,), method_label, assumption, note, estimated=int(not estimate.is_exact), counted=counted
    )
    if not asker.is_simultaneous or query.values is None:
        return answer
    return replace(answer, method=method_label + TOGETHER.format(answer.estimated), is_simultaneous=True)
