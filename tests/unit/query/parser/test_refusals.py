"""What cannot be answered: each is refused by the code of its problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hospitals import Published
from refusals import refuses
from releases import people, published
from sfumato._records import tally as tallying
from sfumato.errors import ErrorField, QueryError

Refusal = tuple[str, dict[str, ErrorField]]

ONE_SELECT: Refusal = ("not-one-select", {})
NO_TABLE: Refusal = ("no-from-clause", {})
CONSTRUCT: Refusal = ("unsupported-expression", {})
PROTECTED: Refusal = ("protected-rows", {"column": "disease"})
NO_VALUE: Refusal = ("no-matching-value", {"column": "disease"})
UNREADABLE: Refusal = ("invalid-sql", {})
SAME_NAME: Refusal = ("repeated-column", {})
NOT_ESTIMATED: Refusal = ("unsupported-aggregate", {})
SAMPLED: Refusal = ("sample", {})
COMPARED: Refusal = ("condition-on-estimate", {})
OF_ESTIMATES: Refusal = ("aggregate-of-estimates", {})
FUNCTION: Refusal = ("unsupported-function-of-estimate", {})
DISTINCT: Refusal = ("count-of-different-values", {})
SELF_JOIN: Refusal = ("self-join", {})
TWICE: Refusal = ("join-repeats-records", {})

REFUSED_QUERIES: dict[str, Refusal] = {
    "": ONE_SELECT,
    ";": ONE_SELECT,
    "-- nothing": ONE_SELECT,
    "SELECT COUNT(*) FROM release; SELECT COUNT(*) FROM release": ONE_SELECT,
    "VALUES (1)": ONE_SELECT,
    "EXPLAIN SELECT COUNT(*) FROM release": ONE_SELECT,
    "SELECT COUNT(*) FROM release WHERE Sex = '\0'": ONE_SELECT,
    "SELECT COUNT(*)": NO_TABLE,
    "SELECT COUNT(*) FROM domain": ("unknown-table", {"table": "domain"}),
    "SELECT COUNT(*) FROM domain WHERE disease = 'flu'": ("unknown-table", {"table": "domain"}),
    "SELECT COUNT(*) FROM release JOIN domain ON value = disease": ("unknown-table", {"table": "domain"}),
    "SELECT COUNT(*) FROM 'data.parquet' WHERE disease = 'flu'": ("unknown-table", {"table": "data.parquet"}),
    "SELECT COUNT(*) FROM main.release": ("unknown-table", {"table": "release"}),
    "SELECT COUNT(*) FROM main.release WHERE disease = 'flu'": ("unknown-table", {"table": "release"}),
    "SELECT COUNT(*) FROM release AS r(a, b) WHERE disease = 'flu'": ("unknown-table", {"table": "release"}),
    "SELECT COUNT(*) FROM release TABLESAMPLE 10%": SAMPLED,
    "SELECT COUNT(*) FROM release PIVOT (COUNT(*) FOR Sex IN ('F'))": CONSTRUCT,
    "SELECT COUNT(*) FROM release AT (VERSION => 1)": CONSTRUCT,
    "SELECT COUNT(*) FROM release USING SAMPLE 5": SAMPLED,
    "SELECT COUNT(*) INTO other FROM release": CONSTRUCT,
    "SELECT COUNT(*) FROM release GROUP BY random()": CONSTRUCT,
    "SELECT DISTINCT disease FROM release": PROTECTED,
    "SELECT Sex, COUNT(*) FROM release": ("not-grouped", {"column": "Sex"}),
    "SELECT FROM release": ("unfit-columns", {}),
    "SELECT COUNT(*, age) FROM release": ("unfit-columns", {}),
    "SELECT COUNT(* EXCLUDE (age)) FROM release": ("unfit-columns", {}),
    "SELECT Sex, COUNT(*) FROM release WHERE disease = 'flu'": ("not-grouped", {"column": "Sex"}),
    "SELECT * FROM release WHERE disease = 'flu'": PROTECTED,
    "SELECT age FROM release WHERE disease = 'flu'": PROTECTED,
    "SELECT UPPER(disease), COUNT(*) FROM release": PROTECTED,
    "SELECT disease FROM release": PROTECTED,
    "SELECT disease FROM release LIMIT 1": PROTECTED,
    "SELECT age, disease FROM release GROUP BY age": PROTECTED,
    "SELECT disease, ROW_NUMBER() OVER () FROM release": PROTECTED,
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' GROUP BY Sex ORDER BY disease": PROTECTED,
    "SELECT COUNT(*) FROM release GROUP BY Sex HAVING disease = 'flu'": PROTECTED,
    "SELECT ROW_NUMBER() OVER (ORDER BY disease) FROM release": PROTECTED,
    "SELECT SUM(age) OVER (PARTITION BY disease) FROM release": PROTECTED,
    "SELECT COUNT(DISTINCT disease) FROM release": DISTINCT,
    "SELECT COUNT(DISTINCT age) FROM release WHERE disease = 'flu'": DISTINCT,
    "SELECT SUM(DISTINCT age) FROM release WHERE disease = 'flu'": DISTINCT,
    "SELECT MIN(disease) FROM release": NOT_ESTIMATED,
    "SELECT MAX(disease) FROM release": NOT_ESTIMATED,
    "SELECT MEDIAN(disease) FROM release": ("quantile-of-protected-column", {}),
    "SELECT MEDIAN(age) + 2 * AVG(age) FROM release WHERE disease = 'flu'": ("not-combined", {}),
    "SELECT QUANTILE_CONT(age, 2) FROM release WHERE disease = 'flu'": ("invalid-quantile", {}),
    "SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM release WHERE disease = 'flu'": ("invalid-quantile", {}),
    "SELECT MODE(disease) FROM release": NOT_ESTIMATED,
    "SELECT LIST(disease) FROM release": NOT_ESTIMATED,
    "SELECT STRING_AGG(disease, ',') FROM release": NOT_ESTIMATED,
    "SELECT FIRST(disease) FROM release": NOT_ESTIMATED,
    "SELECT ANY_VALUE(disease) FROM release": NOT_ESTIMATED,
    "SELECT MEDIAN(Sex) FROM release WHERE disease = 'flu'": ("incomparable-value", {}),
    "SELECT STDDEV(Sex) FROM release WHERE disease = 'flu'": ("incomparable-value", {}),
    "SELECT KURTOSIS(age) FROM release WHERE disease = 'flu'": NOT_ESTIMATED,
    "SELECT SUM(disease) FROM release": ("other-argument-types", {}),
    "SELECT SUM(age || disease) FROM release": ("mixed-expression", {}),
    "SELECT (SELECT COUNT(*) FROM release) FROM release WHERE disease = 'flu'": PROTECTED,
    "SELECT COUNT(*) FROM release WHERE age > (SELECT COUNT(*) FROM release WHERE disease = 'flu')": COMPARED,
    "SELECT COUNT(*) FROM release WHERE disease IN (SELECT disease FROM release)": PROTECTED,
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM release AS r WHERE r.disease = 'flu')": (
        "estimated-column",
        {"column": "disease"},
    ),
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM tiny WHERE tiny.a = release.disease)": (
        "incomparable-value",
        {},
    ),
    "SELECT COUNT(*) FROM release JOIN (SELECT a FROM tiny WHERE a = release.disease) AS s ON TRUE": (
        "correlated-subquery",
        {},
    ),
    "SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM tiny WHERE a = disease) AND disease = 'flu'": (
        "missing-column",
        {"column": "disease"},
    ),
    "WITH w AS (SELECT disease FROM release LIMIT 3) SELECT COUNT(*) FROM w WHERE disease = 'flu'": PROTECTED,
    "WITH w AS (SELECT DISTINCT disease FROM release) SELECT COUNT(*) FROM w": PROTECTED,
    "WITH release AS (SELECT 1 AS a) SELECT COUNT(*) FROM release": ("reserved-name", {}),
    "WITH RECURSIVE w AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM w) SELECT COUNT(*) FROM w": ("recursive-query", {}),
    "WITH w(a) AS (SELECT age FROM release) SELECT COUNT(*) FROM w": ("renamed-columns", {}),
    "SELECT COUNT(*) FROM release, release WHERE disease = 'flu'": SELF_JOIN,
    "SELECT COUNT(*) FROM release JOIN release AS r ON TRUE WHERE disease = 'flu'": SELF_JOIN,
    "SELECT COUNT(*) FROM release, tiny WHERE disease = 'flu'": TWICE,
    "SELECT COUNT(*) FROM release JOIN tiny ON age > a WHERE disease = 'flu'": TWICE,
    "SELECT COUNT(*) FROM release JOIN twice ON disease = word": ("join-repeats-values", {}),
    "SELECT COUNT(*) FROM release RIGHT JOIN tiny ON age = a WHERE disease = 'flu'": (
        "unsupported-join",
        {"join": "RIGHT"},
    ),
    "SELECT COUNT(*) FROM release FULL JOIN tiny ON age = a WHERE disease = 'flu'": (
        "unsupported-join",
        {"join": "FULL"},
    ),
    "SELECT COUNT(*) FROM release SEMI JOIN tiny ON age = a WHERE disease = 'flu'": (
        "unsupported-join",
        {"join": "SEMI"},
    ),
    "SELECT COUNT(*) FROM release NATURAL JOIN tiny WHERE disease = 'flu'": ("unsupported-join", {"join": "NATURAL"}),
    "SELECT COUNT(*) FROM release JOIN twice ON disease = word AND age = b": (
        "join-by-mixed-columns",
        {"column": "disease"},
    ),
    "SELECT COUNT(*) FROM release JOIN tiny USING (nothing) WHERE disease = 'flu'": (
        "unshared-column",
        {"column": "nothing"},
    ),
    "SELECT COUNT(*) FROM tiny JOIN release ON age = a WHERE disease = 'flu'": ("release-not-first", {"table": "tiny"}),
    "SELECT COUNT(*) FROM release JOIN (SELECT 1 AS a) ON TRUE WHERE disease = 'flu'": ("unnamed-subquery", {}),
    "SELECT LAG(disease) OVER (ORDER BY age) FROM release": PROTECTED,
    "SELECT age, COUNT(*) OVER (PARTITION BY disease) FROM release": PROTECTED,
    "SELECT Sex, MAX(disease) OVER () FROM release GROUP BY Sex": PROTECTED,
    "SELECT Sex, LAG(disease) OVER (ORDER BY Sex) FROM release GROUP BY Sex": PROTECTED,
    "SELECT Sex, SUM(COUNT(*)) OVER (ORDER BY disease) FROM release GROUP BY Sex": PROTECTED,
    "SELECT Sex, COUNT(*) FROM release GROUP BY Sex QUALIFY disease = 'flu'": PROTECTED,
    "SELECT Sex, SUM(COUNT(*)) OVER (ORDER BY random()) FROM release GROUP BY Sex, disease": CONSTRUCT,
    "SELECT Sex, SUM(COUNT(*)) OVER w FROM release GROUP BY Sex, disease": ("unknown-window", {"window": "w"}),
    "SELECT COUNT(*)::VARCHAR FROM release WHERE disease = 'flu'": FUNCTION,
    "SELECT COUNT(*) || ' people' FROM release WHERE disease = 'flu'": FUNCTION,
    "SELECT SIN(COUNT(*)) FROM release WHERE disease = 'flu'": CONSTRUCT,
    "SELECT STRFTIME(admitted, '%Y') || COUNT(*) FROM release WHERE disease = 'flu' GROUP BY 1": (
        "group-by-aggregate",
        {},
    ),
    "SELECT POWER(2, COUNT(*)) FROM release WHERE disease = 'flu'": FUNCTION,
    "SELECT COUNT(*) + 'one' FROM release WHERE disease = 'flu'": ("estimate-with-other-type", {}),
    "SELECT STDDEV(n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": OF_ESTIMATES,
    "SELECT LIST(n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": OF_ESTIMATES,
    "SELECT COUNT(DISTINCT n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": (
        "distinct-estimates",
        {},
    ),
    "SELECT DISTINCT COUNT(*) FROM release GROUP BY disease": ("distinct-estimates", {}),
    "SELECT n, COUNT(*) AS m FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease) GROUP BY n": (
        "group-by-estimate",
        {},
    ),
    "SELECT m FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": ("missing-column", {"column": "m"}),
    "SELECT t.n FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease) AS s": (
        "unknown-table",
        {"table": "t"},
    ),
    "SELECT disease, SUM(n) FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)": (
        "not-grouped",
        {"column": "disease"},
    ),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' UNION SELECT 1": ("union-of-estimates", {}),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' EXCEPT SELECT 1": ("set-operation-on-estimates", {}),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' UNION ALL SELECT 1, 2": ("other-column-count", {}),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' UNION ALL SELECT 'a'": ("other-column-types", {}),
    "SELECT COUNT(*) + (SELECT disease FROM release) FROM release WHERE disease = 'flu'": PROTECTED,
    "SELECT COUNT(*) + (SELECT COUNT(*) FROM release GROUP BY disease) FROM release": ("subquery-not-scalar", {}),
    "SELECT Sex AS n, COUNT(*) FROM release GROUP BY Sex": SAME_NAME,
    "SELECT Sex AS n_low, COUNT(*) FROM release GROUP BY Sex": SAME_NAME,
    "SELECT disease AS n, COUNT(*) FROM release GROUP BY disease": SAME_NAME,
    "SELECT disease AS n_note, COUNT(*) FROM release GROUP BY disease": SAME_NAME,
    "SELECT COUNT(*), COUNT(*) FROM release WHERE disease = 'flu'": SAME_NAME,
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' GROUP BY 7": ("group-by-expression", {}),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' GROUP BY 1": ("group-by-aggregate", {}),
    "SELECT COUNT(*) AS c FROM release WHERE disease = 'flu' GROUP BY c": ("group-by-aggregate", {}),
    "SELECT COUNT(*) FROM release GROUP BY Sex || disease": ("group-by-mixed-columns", {"column": "disease"}),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' ORDER BY 2": ("unknown-order", {"name": "2"}),
    "SELECT COUNT(*) FROM release WHERE disease = 'flu' LIMIT 1 + 1": ("not-a-whole-number", {"clause": "LIMIT"}),
    "SELECT COUNT(*) FROM release GROUP BY town": ("missing-column", {"column": "town"}),
    "SELECT COUNT(*) FROM release WHERE": UNREADABLE,
    "SELECT COUNT(*) FROM release WHERE Sex = 'F": UNREADABLE,
    "SELECT COUNT(* FROM release": UNREADABLE,
    "SELEC COUNT(*) FROM release": UNREADABLE,
    "how many women have the flu?": UNREADABLE,
}

REFUSED_CONDITIONS: dict[str, Refusal] = {
    "random() < 0.5": CONSTRUCT,
    "CURRENT_DATE > admitted": CONSTRUCT,
    "NOW() > admitted": CONSTRUCT,
    "uuid() = Sex": CONSTRUCT,
    "Sex = ?": CONSTRUCT,
    "Sex = $1": CONSTRUCT,
    "len(range(age)) > 3": CONSTRUCT,
    "repeat(Sex, 1000000000) = ''": CONSTRUCT,
    "CAST(age AS no_such_type) = 1": CONSTRUCT,
    "disease = 'flu' AND COUNT(*) > 1": CONSTRUCT,
    "disease = 'flu' AND ROW_NUMBER() OVER () = 1": CONSTRUCT,
    "COUNT(*) > 1": ("unfit-columns", {}),
    "ROW_NUMBER() OVER () = 1": ("unfit-columns", {}),
    "town = 'Aix'": ("missing-column", {"column": "town"}),
    "town = 'Aix' AND disease = 'flu'": ("missing-column", {"column": "town"}),
    'Sex = "F"': ("missing-column", {"column": "F"}),
    "wieght > 50": ("missing-column", {"column": "wieght"}),
    "rowid = 1": ("missing-column", {"column": "rowid"}),
    "filename = 'data.parquet'": ("missing-column", {"column": "filename"}),
    "other.age = 1": ("unknown-table", {"table": "other"}),
    "age > 30 GROUP BY Sex": ("not-a-condition", {}),
    "age > 30 LIMIT 1": ("not-a-condition", {}),
    "age > 30; DROP VIEW release": ONE_SELECT,
    "age > 30) OR (disease = 'flu'": UNREADABLE,
    "age > 30 ESCAPE": UNREADABLE,
    "Sex > 30": ("incomparable-value", {}),
    "YEAR(Sex) = 3": ("other-argument-types", {}),
    "disease = 'plague'": NO_VALUE,
    "disease = 'Flu'": NO_VALUE,
    "disease = NULL": NO_VALUE,
    "disease = 'flu' AND disease = 'cold'": NO_VALUE,
}

TABLES_BESIDE = {
    "tiny": pa.table({"a": [1, 2]}),
    "twice": pa.table({"word": ["flu", "flu"], "b": [1, 2]}),
}


@pytest.mark.parametrize(("sql", "refusal"), [pytest.param(*each, id=each[0]) for each in REFUSED_QUERIES.items()])
def test_query_that_cannot_be_answered_is_refused(hospital_release: Published, sql: str, refusal: Refusal) -> None:
    named = {name: table for name, table in TABLES_BESIDE.items() if name in sql}
    code, facts = refusal
    with refuses(QueryError, code, **facts):
        hospital_release.release.sql(sql, attach=named)


@pytest.mark.parametrize(("where", "refusal"), [pytest.param(*each, id=each[0]) for each in REFUSED_CONDITIONS.items()])
def test_condition_that_cannot_be_answered_is_refused(
    hospital_release: Published, where: str, refusal: Refusal
) -> None:
    code, facts = refusal
    with refuses(QueryError, code, **facts):
        hospital_release.release.count(where=where)


@pytest.mark.parametrize(
    ("where", "remedy"),
    [('Sex = "F"', "Write a string in single quotes: 'F'."), ("wieght > 50", "did you mean 'weight'?")],
)
def test_refusal_of_a_missing_column_names_what_was_meant(hospital_release: Published, where: str, remedy: str) -> None:
    with pytest.raises(QueryError) as refused:
        hospital_release.release.count(where=where)
    assert remedy in str(refused.value)


def test_refusal_of_a_table_tells_how_to_attach_one(hospital_release: Published) -> None:
    with refuses(QueryError, "unknown-table", table="domain") as refused:
        hospital_release.release.sql("SELECT COUNT(*) FROM domain")
    assert "`attach={'domain': 'FILE'}`" in str(refused.value)
    with refuses(QueryError, "unknown-table", table="release") as refused:
        hospital_release.release.sql("SELECT COUNT(*) FROM main.release")
    assert "attach" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("plague", "unknown-value"),
        (3, "unknown-value"),
        (True, "unknown-value"),
        ("(missing)", "value-of-other-type"),
        (float("nan"), "unknown-value"),
    ],
)
def test_value_outside_the_domain_cannot_be_counted(hospital_release: Published, value: Any, code: str) -> None:
    with refuses(QueryError, code, column="disease"):
        hospital_release.release.count(value)


def test_missing_value_cannot_be_counted_where_none_can_be_missing(tmp_path: Path) -> None:
    with refuses(QueryError, "unknown-value", column="disease"):
        published(people(), tmp_path / "release").count(None)


def test_too_many_groups_are_refused(hospital_release: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT Sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY Sex"
    cells = 3 * 6  # groups times values
    monkeypatch.setattr(tallying, "MOST_CELLS", cells)
    assert len(hospital_release.release.sql(sql).rows) == 3
    monkeypatch.setattr(tallying, "MOST_CELLS", cells - 1)
    with refuses(QueryError, "too-many-groups"):
        hospital_release.release.sql(sql)


def test_rows_of_public_columns_without_a_limit_are_refused_if_they_are_too_many(
    hospital_release: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato._query.public_answers.MOST_ROWS", 100)
    with refuses(QueryError, "answer-too-large", limit=100, unit="rows"):
        hospital_release.release.sql("SELECT age FROM release")
    assert len(hospital_release.release.sql("SELECT age FROM release LIMIT 100").rows) == 100


def test_conditions_that_tell_too_many_values_apart_are_refused(tmp_path: Path) -> None:
    names = [f"d{number:03}" for number in range(300)]
    table = pa.table({"word": [names[-1], names[0]] * 600, "disease": names * 4})
    release = published(table, tmp_path / "release")
    with refuses(QueryError, "too-many-value-groups", limit=240):
        release.count(where="disease = word")
    assert release.count(where="disease >= 'd150' OR word = 'd000'").standard_error
