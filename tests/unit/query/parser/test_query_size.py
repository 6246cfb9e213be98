"""What a question would make is counted before it is made: refusing it costs next to nothing."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from refusals import refuses
from releases import people, published
from sfumato._query import formula_estimation as formulas
from sfumato._query.duckdb_session import Session
from sfumato._query.parser import allowed_sql, query_size
from sfumato._query.query_plan import record_selects
from sfumato._query.release import Release
from sfumato.errors import QueryError
from slow_questions import COUNT, GROUPED, MULTIPLIED, SETS, several

MOST_BYTES = 16 << 20
"""What reading a question of 65,536 letters takes, and some more."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A small release."""
    return published(people(200, word=["a", "b"]), tmp_path_factory.mktemp("size") / "release", mechanism="uniform")


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What DuckDB is asked."""
    asked: list[str] = []
    complaining = Session.explain_errors

    def noted(session: Session) -> Any:
        asked.append("statement")
        return complaining(session)

    monkeypatch.setattr(Session, "explain_errors", noted)
    yield asked


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_grouping_sets_are_refused_before_one_is_made(
    release: Release, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_selects, "combinations", None)
    monkeypatch.setattr(record_selects, "product", None)
    tracemalloc.start()
    try:
        with (
            counting(monkeypatch) as asked,
            refuses(QueryError, "too-many-subtotals", limit=query_size.MOST_SETS),
        ):
            release.sql(SETS[name])
        assert not asked
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("age", 1),
        ("age, sex", 1),
        ("ROLLUP (age, sex)", 3),
        ("ROLLUP ((age, sex), word)", 3),
        ("CUBE (age, sex, word)", 8),
        ("GROUPING SETS ((age, sex), age, ())", 3),
        ("GROUPING SETS (CUBE (age, sex), ROLLUP (word), ())", 7),
        ("CUBE (age, sex), ROLLUP (word)", 8),
        ("sex, CUBE (age, word), GROUPING SETS (age, ())", 8),
    ],
)
def test_grouping_sets_are_counted_as_they_are_made(
    release: Release, parts: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = f"{COUNT} WHERE disease = 'flu' GROUP BY {parts}"
    monkeypatch.setattr(query_size, "MOST_SETS", expected)
    assert release.sql(rows).rows
    monkeypatch.setattr(query_size, "MOST_SETS", expected - 1)
    with refuses(QueryError, "too-many-subtotals", limit=expected - 1):
        release.sql(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", MULTIPLIED)
def test_what_multiplies_itself_is_refused_before_it_is_made(
    release: Release, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formulas, "MOST_PARTS", 4096)
    monkeypatch.setattr(query_size, "MOST_SQL_PARTS", 8192)
    tracemalloc.start()
    try:
        with pytest.raises(QueryError) as refused:
            release.sql(MULTIPLIED[name], timeout=600)
        assert refused.value.code in ("query-too-large", "strings-too-long")
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_formula_counts_its_parts_as_often_as_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    formula: formulas.Formula = formulas.Sum(0)
    for _ in range(4):
        formula = formulas.Arithmetic("*", formula, formula)
    assert isinstance(formula, formulas.Arithmetic)
    assert formula.parts == 31
    monkeypatch.setattr(formulas, "MOST_PARTS", 62)
    with refuses(QueryError, "query-too-large", limit=62):
        formulas.Arithmetic("+", formula, formula)
    assert formula == formulas.Arithmetic("*", formula.left, formula.right)


def test_what_is_written_for_duckdb_is_counted_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = allowed_sql.parse("SELECT ceil(1, ceil(1, ceil(1, age))) FROM release")
    assert allowed_sql.write_sql(tree).count("age") == 27
    monkeypatch.setattr(query_size, "MOST_SQL_PARTS", 100)
    with refuses(QueryError, "query-too-large", limit=100):
        allowed_sql.write_sql(tree)


@pytest.mark.parametrize(
    ("join", "code"),
    [
        ("CROSS JOIN wide a CROSS JOIN wide b WHERE disease = 'flu'", "join-repeats-records"),
        (
            "JOIN wide a ON release.disease > '' JOIN wide b ON release.disease > '' "
            "JOIN wide c ON release.disease > ''",
            "join-repeats-values",
        ),
    ],
)
def test_join_that_multiplies_is_refused_by_its_first_rows(
    release: Release, join: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, rows = 0, Session.fetch_rows

    def measured(session: Session, sql: str) -> list[tuple[Any, ...]]:
        nonlocal most
        found = rows(session, sql)
        most = max(most, len(found))
        return found

    monkeypatch.setattr(Session, "fetch_rows", measured)
    wide = pa.table({"v": range(3_000)})
    with refuses(QueryError, code):
        release.sql(f"{COUNT} {join}", attach={"wide": wide}, timeout=600)
    assert most <= len(release.manifest.domain) + 1


def test_grouping_of_very_many_columns_is_refused(release: Release) -> None:
    sql = "SELECT GROUPING({}) AS g, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY ROLLUP (age)".format
    assert release.sql(sql(", ".join(["age"] * 62))).rows
    with refuses(QueryError, "too-many-grouping-columns", limit=62):
        release.sql(sql(", ".join(["age"] * 63)))


@pytest.mark.parametrize(
    "sql",
    [
        f"{COUNT} WHERE disease = 'flu' GROUP BY CUBE ({several(4)}), ROLLUP (sex)",
        f"SELECT CASE CASE n WHEN 1 THEN 2 ELSE n END WHEN 2 THEN 3 ELSE n END AS x FROM ({GROUPED})",
        "SELECT * FROM (SELECT *, age + 1 AS b FROM (SELECT *, age + 2 AS c FROM release)) LIMIT 3",
        "WITH a AS (SELECT age, COUNT(*) AS n FROM release GROUP BY age), b AS (SELECT a.*, c.n AS m FROM a JOIN a c"
        " USING (age)) SELECT a.*, b.m FROM a JOIN b USING (age)",
        "SELECT [age, age + 1] AS l, {'a': age, 'b': word} AS s FROM release LIMIT 3",
        f"SELECT [{', '.join(map(str, range(3000)))}] AS l FROM release LIMIT 1",
        f"SELECT SUM(sqrt(n)) OVER (ORDER BY disease) AS s, SUM(n) OVER () AS t FROM ({GROUPED})",
    ],
)
def test_usual_question_is_within_the_bounds(release: Release, sql: str) -> None:
    assert release.sql(sql).rows
