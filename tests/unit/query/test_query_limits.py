"""What a question may take: whatever is asked, an answer or one sentence comes in time, and nothing else is lost."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping

import pyarrow as pa
import pytest

from refusals import refuses
from releases import people, published
from sfumato._query import duckdb_session as connection
from sfumato._query.answer import Answer
from sfumato._query.parser import query_size
from sfumato._query.release import Release
from sfumato.errors import ErrorField, QueryError, SfumatoError
from slow_questions import BOUNDED, COUNT, ENDLESS

pytestmark = pytest.mark.slow  # questions that are stopped by a clock

SECONDS = 1.0
PATIENCE = 30.0
"""A busy machine is no fault of a question; what is not bounded takes minutes."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release that is large enough for a cross product to take for ever."""
    words = [f"{'a' * (at % 7)}banana{at}" for at in range(50)]
    return published(people(5_000, word=words), tmp_path_factory.mktemp("limits") / "release", mechanism="uniform")


def outcomes(release: Release, questions: Mapping[str, str], seconds: float) -> dict[str, tuple[object, float]]:
    """What each question gives, and how long it takes; all are asked at once, so that stopping takes its time once."""
    found: dict[str, tuple[object, float]] = {}

    def ask(name: str, sql: str) -> None:
        began = time.monotonic()
        try:
            outcome: object = release.sql(sql, timeout=seconds)
        except Exception as error:
            outcome = error
        found[name] = outcome, time.monotonic() - began

    threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in questions.items()]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + seconds + PATIENCE
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    return found


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(5.0, marks=pytest.mark.full)])
def test_endless_question_is_stopped_by_our_sentence(release: Release, seconds: float) -> None:
    found = outcomes(release, ENDLESS, seconds)
    assert set(found) == set(ENDLESS)
    for outcome, took in found.values():
        assert isinstance(outcome, QueryError)
        # With more time, some of them fill the memory first.
        assert outcome.code == "out-of-memory" or (outcome.code, outcome.fields) == ("timeout", {"seconds": seconds})
        assert took < seconds + PATIENCE
    assert any(isinstance(outcome, QueryError) and outcome.code == "timeout" for outcome, _ in found.values())


REFUSED: dict[str, tuple[str, dict[str, ErrorField]]] = {
    "common tables doubled 15 times": ("query-too-large", {"limit": 20_000}),
    "common tables that nobody asks": ("query-too-large", {"limit": 20_000}),
    "common tables doubled 6 times": ("query-too-large", {"limit": 50}),
    "many joins": ("query-too-large", {"limit": 50}),
    "too many alternatives": ("query-too-large", {"limit": 65_536}),
    "sums of names": ("aliases-too-large", {"limit": 2_000}),
    "sums through subqueries of a sensitive column": ("query-too-large", {"limit": 20_000}),
    "replacing by a pattern": ("strings-too-long", {"limit": 65_536}),
    "texts joined by a function": ("strings-too-long", {"limit": 65_536}),
    "long texts letter by letter": ("strings-too-long-to-compare", {}),
    "cross product kept as a table": ("subquery-too-large", {"limit": 1 << 20}),
    "an answer of 500 columns": ("answer-too-large", {"limit": 2_000_000, "unit": "fields"}),
    "5,000 parentheses": ("query-too-deep", {}),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_question_is_answered_or_refused_in_time(release: Release, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LARGEST_PART", 1 << 20)
    began = time.monotonic()
    try:
        assert isinstance(release.sql(BOUNDED[name], timeout=SECONDS), Answer)
        assert name not in REFUSED
    except SfumatoError as error:
        # A busy machine may give up before it comes to what is wrong.
        if name in REFUSED and error.code != "timeout":
            assert (error.code, error.fields) == REFUSED[name]  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    assert time.monotonic() - began < SECONDS + PATIENCE


def test_long_condition_is_answered_as_the_short_one_that_it_is(release: Release) -> None:
    short = release.sql(f"{COUNT} WHERE disease = 'flu' AND age > 30").get_estimate()
    assert (
        release.sql(f"{COUNT} WHERE disease = 'flu' AND (age = 40" + " OR age > 30" * 1200 + ")").get_estimate()
        == short
    )
    assert release.count("flu", where="TRUE" + " AND age > 30" * 1200) == short


def test_batch_keeps_its_answers_whatever_one_question_is(release: Release) -> None:
    simple = f"{COUNT} WHERE disease = 'flu'"
    deep, long = BOUNDED["5,000 parentheses"], simple + " AND age > 0" * 1200
    found = release.ask_many([simple, deep, long, simple])
    assert [isinstance(each, Answer) for each in found] == [True, False, True, True]
    found = release.ask_many([simple, ENDLESS["cross product row by row"], simple], timeout=1)
    assert [isinstance(each, Answer) for each in found] == [True, False, True]
    assert isinstance(found[1], QueryError)
    assert found[1].code == "timeout"


def test_caller_who_is_deep_himself_gets_a_sentence(release: Release) -> None:
    def deeper(levels: int) -> object:
        return release.sql(sql) if levels == 0 else deeper(levels - 1)

    sql = f"{COUNT} WHERE disease = 'flu' AND age > {'+'.join(['1'] * 60)}"
    said = set()
    for room in range(100, 500, 50):
        try:
            deeper(sys.getrecursionlimit() - len_of_stack() - room)
        except QueryError as error:
            said.add(str(error))
    assert said == {str(query_size.explain_too_deep())}


def len_of_stack() -> int:
    """How many calls deep this is."""
    frame, found = sys._getframe(), 0
    while frame is not None:
        frame, found = frame.f_back, found + 1  # type: ignore[assignment]
    return found


def test_time_runs_while_a_question_is_read(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(sql: str) -> None:
        time.sleep(0.1)

    monkeypatch.setattr(query_size, "check_text", slow)
    with refuses(QueryError, "timeout", seconds=0.1):
        release.sql(COUNT, timeout=0.1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT lower(word) AS word, COUNT(*) FROM release GROUP BY 1",
        "SELECT max(replace(replace(replace(word, 'a', 'ae'), 'b', ''), 'n', 'nn')) AS w FROM release",
        "SELECT min(levenshtein(word, 'banana')) AS nearest FROM release",
        "SELECT upper(word) AS u, u || ' ' || sex AS v FROM release LIMIT 3",
        f"{COUNT} WHERE concat_ws('-', word, sex, age) LIKE 'a%' AND disease = 'flu'",
        f"{COUNT} WHERE age IN ({', '.join(map(str, range(5000)))}) AND disease = 'flu'",
        "WITH old AS (SELECT * FROM release WHERE age > 40) SELECT disease, COUNT(*) FROM old GROUP BY disease",
    ],
)
def test_usual_question_is_within_all_bounds(release: Release, sql: str) -> None:
    assert release.sql(sql).rows


def test_longest_text_is_that_of_the_tables(release: Release) -> None:
    own = {"code": ["flu"], "note": ["x" * 40_000]}
    joined = "SELECT max({0}) AS x FROM release JOIN notes ON code = sex".format
    notes = {"notes": pa.table(own)}
    assert release.sql(joined("note"), attach=notes).rows
    with refuses(QueryError, "strings-too-long", limit=65536):
        release.sql(joined("note || note"), attach=notes)
    with refuses(QueryError, "strings-too-long-to-compare"):
        release.sql(joined("levenshtein(note, word)"), attach=notes)


def test_memory_that_is_full_behind_the_reader_is_our_sentence(release: Release) -> None:
    wide = "SELECT a.word || b.word || c.word AS w FROM release a, release b, release c ORDER BY w LIMIT 90000"
    with pytest.raises(QueryError) as refused:
        release.sql(wide, memory="30MB", timeout=1)
    assert refused.value.code in ("out-of-memory", "timeout")
