"""Many SQL questions at once: simple counts by one reading of the release, the rest one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sfumato._core.small_text_files import lines, read_small
from sfumato._query.answer import Answer
from sfumato._query.answering import TOGETHER, Asker, proposed
from sfumato._query.connection import Session
from sfumato._query.counting.count_queries import CountQuery
from sfumato._query.counting.many_counts import count_many
from sfumato._query.counting.simple_sql import simple_count
from sfumato._query.estimate import EXACT_ASSUMPTION, EXACT_METHOD, NOTHING, Estimate
from sfumato._query.impossible_literals import Unheard
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.parser.answer_names import DEFAULT_COUNT
from sfumato._query.query_limits import Clock
from sfumato._query.unknown_literals import absent, open_columns, told
from sfumato.errors import QueryError, SfumatoError, reason

Found = Answer | SfumatoError
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
            header, *rows = lines(path, QueryError, unlike) or [[]]
            place = [name.strip().lower() for name in header].index("sql") if rows else 0
            return [row[place] for row in rows if row]
        if path.suffix == ".jsonl":
            text = read_small(path, repr(str(path)), QueryError).decode("utf-8-sig")
            read = [json.loads(line) for line in text.split("\n") if line.strip()]
            return [question["sql"] + "" for question in read]
    except OSError as error:
        raise QueryError(f"{str(path)!r} cannot be read: {reason(error)}.") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise error if isinstance(error, QueryError) else QueryError(unlike) from error
    raise QueryError(f"{str(path)!r} must end in .csv or .jsonl, so that it is clear how to read it.")


def ask_many(asker: Asker, questions: Sequence[str], progress: Progress = lambda done, total: None) -> list[Found]:
    """Answer every question, in their order; one that cannot be answered gives its error, and the others go on."""
    found: dict[int, Found] = {}
    progress(0, len(questions))
    for number, answer in answered(asker, questions):
        found[number] = answer
        progress(len(found), len(questions))
    return [found[number] for number in range(len(questions))]


def answered(
    asker: Asker, questions: Sequence[str], begins: Callable[[int], None] = lambda number: None
) -> Iterator[tuple[int, Found]]:
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
        if (query := simple_count(select, asker.opened.manifest)) is not None:
            simple[number] = (str(select.expressions[0].alias or DEFAULT_COUNT), query)
    counted = _counted(asker, simple)
    yield from counted.items()
    for number, sql in enumerate(questions):
        if number not in counted and number not in done:
            begins(number)
            try:
                found: Found = asker.ask(sql)
            except SfumatoError as error:
                found = error
            yield number, found


def _counted(asker: Asker, simple: dict[int, tuple[str, CountQuery]]) -> dict[int, Found]:
    """Answer simple counts together; if one of them cannot be answered so, all are left to be asked one by one."""
    if not simple:
        return {}
    queries = [query for _, query in simple.values()]
    try:
        estimates = count_many(asker.opened.manifest, asker.opened.folder, queries, asker.method)
    except SfumatoError:
        return {}
    with asker.opened.session(clock=Clock(asker.limits)) as session:
        unheard = _unheard(session, queries)
    empty = [False] * len(queries) if estimates.empty is None else estimates.empty.tolist()
    found: dict[int, Found] = {}
    plain = replace(estimates, empty=None)  # of what no record satisfies, an answer says it beside its numbers
    for (number, (name, query)), estimate, is_empty in zip(simple.items(), plain, empty, strict=True):
        told_of = told(unheard[column, each] for column, each in _texts(query) if (column, each) in unheard)
        nothing = NOTHING if is_empty and told_of is None else None
        found[number] = _answer(asker, name, query, estimate).with_lacking(told_of or nothing)
    return found


def _texts(query: CountQuery) -> Iterator[tuple[str, str]]:
    """The public columns of a query that are compared with texts, and the texts."""
    for column, condition in query.where.items():
        for each in condition if isinstance(condition, tuple) else (condition,):
            if isinstance(each, str):
                yield column, each


def _unheard(session: Session, queries: Sequence[CountQuery]) -> dict[tuple[str, str], Unheard]:
    """The texts of all queries that no record has, by their columns."""
    named: dict[str, dict[str, None]] = {}
    for query in queries:
        for column, each in _texts(query):
            named.setdefault(column, {})[each] = None
    known = set(open_columns(session.manifest).values())
    found = [each for column in named if column in known for each in absent(session, column, named[column])]
    return {(each.column, each.text): each for each in found}


def _answer(asker: Asker, name: str, query: CountQuery, estimate: Estimate) -> Answer:
    """The answer that the question would have had alone."""
    words, assumption = (
        (EXACT_METHOD, EXACT_ASSUMPTION) if estimate.is_exact else (estimate.method, estimate.assumption)
    )
    row, counted, note = {name: estimate}, asker.opened.manifest.counted, proposed(asker, [estimate])
    answer = Answer(
        (name,), (name,), (row,), words, assumption, note, estimated=int(not estimate.is_exact), counted=counted
    )
    if not asker.is_simultaneous or query.values is None:
        return answer
    return replace(answer, method=words + TOGETHER.format(answer.estimated), is_simultaneous=True)
