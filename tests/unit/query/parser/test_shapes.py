"""The shapes of a query: aliases, HAVING, ORDER BY and LIMIT, joins and common table expressions, ranges."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conditions import Condition
from hospitals import Published, close, counted
from refusals import refuses
from releases import people, published, published_by
from sfumato._query.answer import Answer
from sfumato._query.counting.count_request import CountQuery, Range
from sfumato._query.estimate import Estimate
from sfumato._query.release import Release
from sfumato._records.value_records import ValueEncoding
from sfumato._request.schema import Schema
from sfumato.errors import ErrorField, QueryError, ReleaseFormatError

GROUPED = "SELECT Sex, age // 10 AS decade, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY Sex, age // 10"
TOWNS = pa.table({"town": ["Aix", "Birr", "Lich"], "country": ["F", "IE", "AT"], "people": [1000, 2000, None]})
COUNTRIES = {"Aix": "F", "Birr": "IE", "Lich": "AT"}
CHAPTERS = pa.table({"code": ["flu", "cold", "HIV", "asthma"], "chapter": ["lung", "lung", "blood", "lung"]})
SELECTS_NOISE = "rows were selected or ordered by an estimate"
FLU = Condition("", lambda row: row["disease"] == "flu")


def where(holds: Any) -> Condition:
    """A condition in Python."""
    return Condition("", holds)


# --------------------------------------------------------------------------------------------------- groups and choices


@pytest.mark.parametrize("group", ["1, 2", "Sex, decade", "sex, (AGE // 10)", "ALL"])
def test_groups_go_by_number_alias_and_expression(hospital_release: Published, group: str) -> None:
    sql = GROUPED.replace("GROUP BY Sex, age // 10", f"GROUP BY {group}")
    assert counted(hospital_release.release, sql) == counted(hospital_release.release, GROUPED)


def test_expression_of_a_group_can_be_selected(hospital_release: Published) -> None:
    sql = "SELECT (age // 10) * 10 AS low, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY age // 10 ORDER BY low"
    assert [row["low"] for row in counted(hospital_release.release, sql)] == [20, 30, 40, 50, 60, None]


def test_expression_of_the_sensitive_column_is_a_group(hospital_release: Published) -> None:
    sql = "SELECT CASE WHEN disease IN ('flu', 'cold') THEN 'lung' END AS part, COUNT(*) FROM release GROUP BY part"
    found = {row["part"]: row["n"] for row in counted(hospital_release.release, sql)}
    lung = hospital_release.release.count(where="disease IN ('flu', 'cold')").value
    assert found == {"lung": close(lung), None: close(len(hospital_release.rows) - lung)}


@pytest.mark.parametrize(
    ("clause", "chosen"),
    [
        ("HAVING COUNT(*) > 10", lambda rows: [row for row in rows if row["n"] > 10]),
        ("HAVING n > 10 AND Sex = 'F'", lambda rows: [row for row in rows if row["n"] > 10 and row["Sex"] == "F"]),
        ("ORDER BY n DESC", lambda rows: sorted(rows, key=lambda row: -row["n"])),
        ("ORDER BY 3 DESC LIMIT 2", lambda rows: sorted(rows, key=lambda row: -row["n"])[:2]),
        ("ORDER BY COUNT(*) LIMIT 3 OFFSET 1", lambda rows: sorted(rows, key=lambda row: row["n"])[1:4]),
        ("ORDER BY -COUNT(*) / 2", lambda rows: sorted(rows, key=lambda row: -row["n"])),
        ("HAVING SUM(age) > 0 AND Sex = 'M'", None),
    ],
)
def test_choice_by_an_estimate_is_that_of_the_rows_and_says_so(
    hospital_release: Published, clause: str, chosen: Any
) -> None:
    answer = hospital_release.release.sql(f"{GROUPED} {clause}")
    assert answer.note is not None
    assert answer.note.startswith(SELECTS_NOISE)
    if chosen is not None:
        expected = chosen(counted(hospital_release.release, GROUPED))
        assert counted(hospital_release.release, f"{GROUPED} {clause}") == expected


@pytest.mark.parametrize("clause", ["HAVING Sex = 'F'", "ORDER BY decade DESC, Sex", "LIMIT 3"])
def test_choice_by_groups_says_nothing(hospital_release: Published, clause: str) -> None:
    assert hospital_release.release.sql(f"{GROUPED} {clause}").note is None


def test_missing_values_are_ordered_last_and_numbers_downwards(hospital_release: Published) -> None:
    found = counted(hospital_release.release, f"{GROUPED} ORDER BY Sex NULLS FIRST, decade DESC LIMIT 6")
    assert [row["Sex"] for row in found[:4]] == [None] * 4
    decades = [row["decade"] for row in found if row["Sex"] is None and row["decade"] is not None]
    assert decades == sorted(decades, reverse=True)
    assert counted(hospital_release.release, f"{GROUPED} ORDER BY decade")[-1]["decade"] is None


def test_public_rows_are_shown(hospital_release: Published) -> None:
    answer = hospital_release.release.sql("SELECT DISTINCT Sex, smoker FROM release ORDER BY Sex, smoker")
    assert answer.numbers == ()
    assert answer.method == "exact count"
    pairs = {(row["Sex"], row["smoker"]) for row in hospital_release.rows}
    assert {(row["Sex"], row["smoker"]) for row in answer.rows} == pairs


def test_any_aggregate_of_public_columns_is_exact(hospital_release: Published) -> None:
    sql = "SELECT MEDIAN(age) AS m, MAX(admitted) AS last, COUNT(DISTINCT Sex) AS kinds FROM release WHERE age > 30"
    columns, (row,) = hospital_release.release.sql(sql).to_table()
    ages = sorted(row["age"] for row in hospital_release.rows if row["age"] is not None and row["age"] > 30)
    assert row["m"] == (ages[(len(ages) - 1) // 2] + ages[len(ages) // 2]) / 2
    assert (row["m_se"], row["kinds"], row["kinds_low"]) == (0, 2, 2)
    assert row["last"] == max(each["admitted"] for each in hospital_release.rows)
    assert "last_se" not in columns


def test_intervals_that_hold_together_are_wider(hospital_release: Published) -> None:
    alone, together = (hospital_release.release.sql(GROUPED, simultaneous=each) for each in (False, True))
    numbers = len(alone.rows)
    assert together.method == f"{alone.method}; all intervals hold simultaneously (Bonferroni over {numbers} numbers)"
    each: Estimate = alone.rows[0]["n"]
    row = together.to_table(0.9)[1][0]
    assert (row["n_low"], row["n_high"]) == each.interval(1 - 0.1 / numbers)


def test_intervals_that_hold_together_allow_for_rows_that_are_not_shown(hospital_release: Published) -> None:
    whole, few = (hospital_release.release.sql(f"{GROUPED} {more}", simultaneous=True) for more in ("", "LIMIT 1"))
    assert few.to_table()[1][0] == whole.to_table()[1][0]


# ------------------------------------------------------------------------------------------------------- tables beside


def test_attached_table_gives_columns_to_records(hospital_release: Published) -> None:
    sql = """SELECT country, COUNT(*) AS n FROM release AS r LEFT JOIN towns AS t ON r."home town" = t.town
             WHERE disease = 'flu' GROUP BY t.country"""
    answer = hospital_release.release.sql(sql, attach={"towns": TOWNS})
    found = {row["country"]: row["n"].value for row in answer.rows}
    expected = hospital_release.slow_groups(lambda row: COUNTRIES.get(row["home town"]), FLU)
    assert found == {key: close(value) for key, value in expected.items()}


def test_inner_join_leaves_records_without_a_match_out(hospital_release: Published) -> None:
    sql = """SELECT COUNT(*), AVG(people) AS size FROM release JOIN towns ON "home town" = town WHERE disease = 'flu'"""
    row = hospital_release.release.sql(sql, attach={"Towns": TOWNS}).rows[0]
    matched = where(lambda each: each["home town"] in COUNTRIES)
    assert row["n"].value == close(hospital_release.slow_count(matched, FLU))
    small, large = (
        hospital_release.slow_count(where(lambda each, town=town: each["home town"] == town), FLU)
        for town in ("Aix", "Birr")
    )
    assert row["size"].value == close((1000 * small + 2000 * large) / (small + large))


def test_table_joined_by_the_sensitive_column_is_estimated_like_it(hospital_release: Published) -> None:
    release = hospital_release.release
    sql = "SELECT chapter, COUNT(*) AS n FROM release {} JOIN icd ON icd.code = disease GROUP BY chapter"
    found = {row["chapter"]: row["n"] for row in release.sql(sql.format("LEFT"), attach={"icd": CHAPTERS}).rows}
    lung = release.count(where="disease IN ('flu', 'cold', 'asthma')")
    assert set(found) == {"lung", "blood", None}
    assert found["lung"] == lung
    assert found[None].value == close(release.count(where="disease = 'crohn''s' OR disease IS NULL").value)
    inner = release.sql(sql.format(""), attach={"icd": CHAPTERS}).rows
    assert [row["chapter"] for row in inner] == ["blood", "lung"]
    counted_lung = "SELECT COUNT(*) FROM release JOIN icd ON code = disease WHERE chapter = 'lung' OR age > 200"
    assert release.sql(counted_lung, attach={"icd": CHAPTERS}).get_estimate().value == close(lung.value)


def test_join_by_several_rows_is_refused_unless_a_condition_leaves_one(hospital_release: Published) -> None:
    years = pa.table({"town": ["Aix", "Aix", "Birr"], "year": [2019, 2020, 2020]})
    sql = """SELECT COUNT(*) FROM release JOIN years ON "home town" = town WHERE disease = 'flu'"""
    with refuses(QueryError, "join-repeats-records"):
        hospital_release.release.sql(sql, attach={"years": years})
    found = hospital_release.release.sql(f"{sql} AND year = 2020", attach={"years": years}).get_estimate()
    both_towns = where(lambda row: row["home town"] in ("Aix", "Birr"))
    assert found.value == close(hospital_release.slow_count(both_towns, FLU))


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        (
            "WITH young AS (SELECT age AS years, disease AS what FROM release WHERE age < 40)"
            " SELECT COUNT(*) FROM young WHERE what = 'flu' AND years > 25",
            lambda row: row["age"] is not None and 25 < row["age"] < 40,
        ),
        (
            "SELECT COUNT(*) FROM (SELECT age + 1 AS older, disease FROM release) AS s WHERE disease = 'flu'"
            " AND s.older * 2 > 80",
            lambda row: row["age"] is not None and (row["age"] + 1) * 2 > 80,
        ),
        (
            "WITH a AS (SELECT * FROM release WHERE Sex = 'F'), b AS (SELECT * FROM a WHERE smoker)"
            " SELECT COUNT(*) FROM b WHERE disease = 'flu'",
            lambda row: row["Sex"] == "F" and bool(row["smoker"]),
        ),
        (
            "WITH big AS (SELECT town FROM towns WHERE people > 1500)"
            " SELECT COUNT(*) FROM release WHERE disease = 'flu' AND \"home town\" IN (SELECT town FROM big)",
            lambda row: row["home town"] == "Birr",
        ),
        (
            "WITH s AS (SELECT country, MIN(town) AS town FROM towns GROUP BY country)"
            " SELECT COUNT(*) FROM release JOIN s ON s.town = \"home town\" WHERE disease = 'flu'",
            lambda row: row["home town"] in COUNTRIES,
        ),
        (
            "SELECT COUNT(*) FROM release WHERE disease = 'flu' AND age > (SELECT AVG(age) FROM release)",
            lambda row: row["age"] is not None and row["age"] > 40,
        ),
        (
            "SELECT COUNT(*) FROM release JOIN towns ON \"home town\" = town AND people > 1500 WHERE disease = 'flu'",
            lambda row: row["home town"] == "Birr",
        ),
    ],
)
def test_subqueries_filter_and_pick(hospital_release: Published, sql: str, condition: Any) -> None:
    found = hospital_release.release.sql(sql, attach={"towns": TOWNS}).get_estimate()
    assert found.value == close(hospital_release.slow_count(where(condition), FLU))


def test_sensitive_column_may_be_looked_up_in_a_list(hospital_release: Published) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE disease IN (SELECT code FROM icd WHERE chapter = 'lung')"
    found = hospital_release.release.sql(sql, attach={"icd": CHAPTERS}).get_estimate()
    assert found == hospital_release.release.count(where="disease IN ('flu', 'cold', 'asthma')")


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "pandas", "polars"])
def test_table_is_attached_from_any_source(hospital_release: Published, tmp_path: Path, form: str) -> None:
    towns = TOWNS.drop_columns(["people"])
    path = tmp_path / f"towns.{form}"
    sources: dict[str, Any] = {"arrow": towns, "pandas": towns.to_pandas(), "polars": pl.from_arrow(towns)}
    if form == "csv":
        towns.to_pandas().to_csv(path, index=False)
    elif form == "parquet":
        pq.write_table(towns, path)
    sql = """SELECT COUNT(*) FROM release JOIN t ON "home town" = town WHERE disease = 'flu' AND country = 'IE'"""
    found = hospital_release.release.sql(sql, attach={"t": sources.get(form, path)}).get_estimate()
    assert found.value == close(hospital_release.slow_count(where(lambda row: row["home town"] == "Birr"), FLU))


@pytest.mark.parametrize("name", ["release", "Release", "a b", "", "1a", 'x"y'])
def test_table_under_an_odd_name_is_refused(hospital_release: Published, name: str) -> None:
    with refuses(QueryError, "invalid-table-name", table=name):
        hospital_release.release.sql("SELECT COUNT(*) FROM release", attach={name: TOWNS})


def test_table_that_cannot_be_read_is_refused(hospital_release: Published, tmp_path: Path) -> None:
    with refuses(QueryError, "unreadable-table", table="t", cause="missing-file"):
        hospital_release.release.sql("SELECT COUNT(*) FROM t", attach={"t": tmp_path / "none.csv"})


# ------------------------------------------------------------------------------------------------------------- numbers


@pytest.fixture(scope="module")
def incomes(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release whose sensitive column is a number, and may be missing."""
    table = people(120, disease=[0, 10, 10, 25, 40, None] * 4)
    return published(table, tmp_path_factory.mktemp("numbers") / "release")


def test_sum_and_mean_of_a_sensitive_number_come_from_its_domain(incomes: Release) -> None:
    counts = {value: incomes.count(value, where="sex = 'F'").value for value in incomes.manifest.domain}
    total = sum(value * count for value, count in counts.items() if value is not None)
    known = sum(count for value, count in counts.items() if value is not None)
    found = incomes.sql("SELECT SUM(disease) AS s, AVG(disease) AS a, COUNT(disease) AS c FROM release WHERE sex = 'F'")
    (row,) = found.rows
    assert [row[name].value for name in "sac"] == [close(total), close(total / known), close(known)]
    assert all(row[name].standard_error for name in "sac")
    assert incomes.sum("disease", where="sex = 'F'") == row["s"]
    assert incomes.mean("disease", where="sex = 'F'") == row["a"]


def test_sensitive_number_may_be_weighed_by_a_public_one(incomes: Release) -> None:
    found = incomes.sum("disease * age", where="disease > 5")
    parts = [value * incomes.sum("age", where=f"disease = {value}").value for value in (10, 25, 40)]
    assert found.value == close(sum(parts))


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release whose sensitive column and a public one were published in ranges."""
    table = people(120, disease=[5, 22, 25, 39, 41, 60, None] * 4, age=[18, 30, 44, 60])
    schema = Schema.of("disease", ranges={"disease": "0,20,40,60", "age": "0,30,60"}, public="*")
    return published(table, tmp_path_factory.mktemp("ranges") / "release", schema=schema)


@pytest.mark.parametrize(
    ("condition", "labels"),
    [
        ("disease < 40", ["[0,20)", "[20,40)"]),
        ("disease >= 20", ["[20,40)", "[40,60]"]),
        ("NOT disease >= 20.0", ["[0,20)"]),
        ("disease >= 20 AND disease < 40", ["[20,40)"]),
        ("disease BETWEEN 20 AND 60", ["[20,40)", "[40,60]"]),
        ("40 > disease", ["[0,20)", "[20,40)"]),
        ("disease <= 60", ["[0,20)", "[20,40)", "[40,60]"]),
        ("disease = '[20,40)'", ["[20,40)"]),
        ("disease <> 70", ["[0,20)", "[20,40)", "[40,60]"]),
        ("disease < 40 AND age >= 30 OR disease < 40 AND age < 30", ["[0,20)", "[20,40)"]),
    ],
)
def test_condition_between_ranges_is_answered(ranges: Release, condition: str, labels: list[str]) -> None:
    found = ranges.count(where=condition)
    assert found.value == close(sum(ranges.count(label).value for label in labels))


@pytest.mark.parametrize(
    "condition",
    [
        "disease < 25",
        "disease <= 40",
        "disease > 20",
        "disease < 60",
        "disease = 30",
        "disease = 60",
        "disease IN (30, 31)",
        "disease BETWEEN 20 AND 40",
        "age > 40 OR disease < 20",
        "age < 40",
        "age BETWEEN 0 AND 29",
    ],
)
def test_condition_that_cuts_inside_a_range_is_refused_with_the_edges(ranges: Release, condition: str) -> None:
    with refuses(QueryError, "cut-inside-range", column="age" if "age" in condition else "disease"):
        ranges.count(where=condition)


@pytest.mark.parametrize(
    "condition",
    [
        "age = '30-60'",
        "age <> '[30,60)'",
        "age IN ('[0,30)', '30-60')",
        "NOT age IN ('30 to 60')",
        "'30-60' = AGE",
        "age IS NOT DISTINCT FROM '[30, 60]'",
        "CASE age WHEN '30..60' THEN TRUE ELSE FALSE END",
        "age < '30-60'",
        "age BETWEEN '[0,30)' AND '30-60'",
        "disease = '[0,20)' OR age = '30-60'",
        "disease = '[0,20)' AND age = '30-60'",
    ],
)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM release WHERE {}",
        "SELECT COUNT(*) FILTER (WHERE {}) FROM release",
        "SELECT COUNT(*) FROM (SELECT * FROM release WHERE {}) AS t",
        "SELECT SUM(n) FROM (SELECT sex, COUNT(*) AS n FROM release WHERE {} GROUP BY sex)",
    ],
)
def test_text_that_is_no_range_is_refused_with_the_ranges_that_there_are(
    ranges: Release, sql: str, condition: str
) -> None:
    with refuses(QueryError, "unknown-range", column="age", nearest="[30,60]"):
        ranges.sql(sql.format(condition))
    (found,) = ranges.ask_many([sql.format(condition)])
    assert isinstance(found, QueryError)


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("age < '[30,60]'", "age < 30"),
        ("age <= '[0,30)'", "age < 30"),
        ("age >= '[30,60]'", "age >= 30"),
        ("age > '[0,30)'", "age >= 30"),
        ("'[30,60]' > age", "age < 30"),
        ("age BETWEEN '[0,30)' AND '[30,60]'", "age IS NOT NULL"),
        ("age < '30'", "age < 30"),
        ("age >= '30.0'", "age >= 30"),
        ("age IN ('[0,30)', '200')", "age < 30"),
        ("age = '200'", "age = 200"),
        ("age LIKE '30%'", "FALSE"),
        ("age = sex", "FALSE"),
        ("sex = '30-60'", "FALSE"),
    ],
)
def test_ranges_are_compared_in_their_order_and_with_numbers_in_quotes(
    ranges: Release, condition: str, same: str
) -> None:
    for where in ("{}", "{} AND disease < 40"):
        assert ranges.count(where=where.format(condition)).value == ranges.count(where=where.format(same)).value
        (found,) = ranges.ask_many([f"SELECT COUNT(*) FROM release WHERE {where.format(condition)}"])
        assert isinstance(found, Answer)
        assert found.get_estimate().value == close(ranges.count(where=where.format(same)).value)


@pytest.mark.parametrize("beside", ["", " AND disease < 40"])
def test_text_that_is_no_range_is_refused_in_a_subquery(ranges: Release, beside: str) -> None:
    inner = "SELECT sex FROM release AS x WHERE x.Age = '{}' GROUP BY sex"
    sql = f"SELECT COUNT(*) FROM release AS r WHERE sex IN ({inner}){beside}"
    with refuses(QueryError, "unknown-range", column="age", nearest="[30,60]"):
        ranges.sql(sql.format("30-60"))
    assert ranges.sql(sql.format("[30,60]")).get_estimate().value > 0


def test_ranges_come_in_the_order_of_their_edges(tmp_path: Path) -> None:
    """As texts, [100,120] would come before [20,100)."""
    table = people(60, age=[5, 30, 110, 30, 110])
    release = published(
        table, tmp_path / "release", schema=Schema.of("disease", ranges={"age": "0,20,100,120"}, public="*")
    )
    assert release.count(where="age > '[20,100)'").value == release.count(where="age = '[100,120]'").value == 24
    assert release.count(where="age <= '[20,100)'").value == 36


@pytest.mark.parametrize("offset", ["", "+00:00"])
def test_moments_are_compared_with_edges_that_have_an_offset_or_none(tmp_path: Path, offset: str) -> None:
    zone = datetime.UTC if offset else None
    days = [datetime.datetime(2024, month, 1, tzinfo=zone) for month in (1, 2, 3)]
    edges = [f"2024-0{month}-01T00:00:00{offset}" for month in (1, 3, 4)]
    schema = Schema.of("disease", ranges={"seen": edges}, public="*")
    release = published(people(60, seen=days), tmp_path / "release", schema=schema)
    for asked in ("2024-03-01", "2024-03-01 00:00:00+00:00", "2024-03-01T02:00:00+02:00"):
        assert release.count(where=f"seen < '{asked}'").value == 40


@pytest.mark.parametrize(
    ("condition", "code", "facts"),
    [
        ("30-60", "unknown-range", {"column": "age", "nearest": "[30,60]"}),
        (["[0,30)", "30-60"], "unknown-range", {"column": "age", "nearest": "[30,60]"}),
        (30, "incomparable-value", {"column": "age", "type": "string"}),
        (Range(at_least=30), "range-of-ranges", {"column": "age"}),
    ],
)
def test_count_of_many_refuses_what_is_no_range(
    ranges: Release, condition: Any, code: str, facts: dict[str, ErrorField]
) -> None:
    with refuses(QueryError, code, **facts):
        ranges.count_many([CountQuery({"AGE": condition})])


def test_one_question_of_many_with_no_range_leaves_the_others_together(ranges: Release) -> None:
    asked = ["30-60", "[30,60]"]
    wrong, right = ranges.ask_many([f"SELECT COUNT(*) FROM release WHERE age = '{each}'" for each in asked])
    assert isinstance(wrong, QueryError)
    assert isinstance(right, Answer)
    assert right.get_estimate().value == ranges.count(where="age >= 30").value


@pytest.mark.parametrize("aggregate", ["SUM(disease)", "AVG(disease)", "SUM(disease * age)"])
def test_sum_of_ranges_is_refused_with_the_edges(ranges: Release, aggregate: str) -> None:
    with refuses(QueryError, "sum-of-ranges", column="disease"):
        ranges.sql(f"SELECT {aggregate} FROM release")


# -------------------------------------------------------------------------------------------------------------- Python


@pytest.mark.slow
def test_python_asks_what_sql_asks(hospital_release: Published) -> None:
    release = hospital_release.release
    only = "age > 30 OR disease = 'flu'"
    queries = {
        "COUNT(*)": release.count(where=only),
        "SUM(age)": release.sum("age", where=only),
        "AVG(age)": release.mean("age", where=only),
        "COUNT(*) FILTER (WHERE disease = 'cold') / COUNT(*)": release.share("disease = 'cold'", where=only),
    }
    for expression, estimate in queries.items():
        assert release.sql(f"SELECT {expression} AS e FROM release WHERE {only}").get_estimate() == estimate
    table = release.crosstab("Sex", "disease", where="age > 30")
    grouped = "SELECT Sex, disease, COUNT(*) AS n FROM release WHERE age > 30 GROUP BY Sex, disease"
    assert table == release.sql(grouped)


def test_share_lies_between_zero_and_one(hospital_release: Published) -> None:
    share = hospital_release.release.share("disease = 'asthma'", where="age = 20 AND disease <> 'flu'")
    low, high = share.interval(0.99)
    assert 0 <= low < high <= 1


def test_histogram_counts_values_and_ranges(hospital_release: Published) -> None:
    release = hospital_release.release
    values = release.histogram("disease")
    assert [row["n"] for row in values.rows] == [release.count(row["disease"]) for row in values.rows]
    ranges = release.histogram("age", edges=[20, 40, 60], where="disease = 'flu'")
    assert [row["age"] for row in ranges.rows] == ["[20,40)", "[40,60]", None]
    old = release.count("flu", where="age >= 40 AND age <= 60")
    assert ranges.rows[1]["n"] == old


@pytest.mark.parametrize("value", ["flu", None])
def test_weights_of_records_add_up_to_counts(hospital_release: Published, value: str | None) -> None:
    release = hospital_release.release
    weights = release.weights(value).to_pylist()
    assert sum(weights) == close(release.count(value).value)
    women = [weight for weight, row in zip(weights, hospital_release.rows, strict=True) if row["Sex"] == "F"]
    assert sum(women) == close(release.count(value, where="Sex = 'F'").value)


def test_answer_is_a_table_for_any_tool(hospital_release: Published) -> None:
    answer = hospital_release.release.sql(f"{GROUPED} ORDER BY Sex, decade")
    columns, rows = answer.to_table(0.9)
    assert answer.to_arrow(0.9).to_pylist() == rows
    frame = answer.to_pandas(0.9)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == columns
    assert answer.to_polars(0.9).to_dicts() == rows


# ----------------------------------------------------------------------------------------------------------- quick way


@pytest.mark.parametrize("mechanism", ["uniform", "small-domain"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'",
        "SELECT COUNT(*) AS n FROM release WHERE age > 30 AND disease <> 'flu'",
        "SELECT sex, COUNT(*) AS n FROM release WHERE disease IN ('HIV', 'cold') GROUP BY sex",
        "SELECT COUNT(*) AS n FROM release WHERE age > 200 AND disease = 'flu'",
        "SELECT COUNT(*) AS n FROM release WHERE disease >= 'a'",
    ],
)
def test_quick_way_to_a_count_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str, sql: str
) -> None:
    release = published_by(mechanism, people(240), tmp_path / "release")
    quick = release.sql(sql)
    monkeypatch.setattr(ValueEncoding, "tally_hits", lambda *given: None)
    assert release.sql(sql) == quick


def test_value_outside_its_cell_is_refused(tmp_path: Path) -> None:
    release = published_by("small-domain", people(240), tmp_path / "release")
    path = release.folder / release.manifest.data_file
    table = pq.read_table(path)
    column = str(release.manifest.cell_column)
    strange = table.set_column(table.schema.names.index(column), column, pa.array([200] * len(table), pa.int32()))
    pq.write_table(strange, path)
    with refuses(ReleaseFormatError, "value-outside-cell"):
        release.count("flu")
