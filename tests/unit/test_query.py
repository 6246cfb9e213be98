"""Questions to a release: what can be asked, what is answered, and what is refused with which sentence."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conditions import Condition, Row, arithmetic, both, comparisons, known, patterns, trees
from releases import people, published
from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.manifest import DATA, WEIGHTS
from sfumato.query import _connection
from sfumato.release import Release
from sfumato.schema import Schema

DISEASES = ["flu", "HIV", "cold", "crohn's", None, "asthma", "flu"]
TOWNS = ["Aix", "Birr", "Lich", "Virum"]
DAYS = [datetime.date(2019, 12, 31), datetime.date(2020, 2, 29), datetime.date(2021, 7, 1)]
ROWS = 420


def hospital() -> pa.Table:
    """Every type of public column, missing values, a name with a space and one with capitals."""
    cycles: Mapping[str, Sequence[Any]] = {
        "age": [*range(20, 61), None],
        "Sex": ["F", "M", None],
        "home town": TOWNS,
        "admitted": DAYS,
        "smoker": [True, False, None, False, False],
        "weight": [50.25, 61.5, 72.75, 83.125, None, 99.5, 100.0, 47.0, 55.5, 66.25, 77.75],
        "disease": [disease for disease in DISEASES for _ in range(13)],
    }
    return pa.table({name: [values[row % len(values)] for row in range(ROWS)] for name, values in cycles.items()})


@dataclass(frozen=True)
class Published:
    """A release, with what it published as plain Python."""

    release: Release = field(repr=False)
    rows: list[dict[str, Any]] = field(repr=False)
    weights: list[dict[str, Any]] = field(repr=False)

    def slow_count(self, public: Condition | None = None, sensitive: Condition | None = None) -> float:
        """Add up the weights of the rows one by one."""
        wanted = [each for each in self.weights if sensitive is None or sensitive.holds({"disease": each["value"]})]
        rows = [row for row in self.rows if public is None or public.holds(row)]
        return math.fsum(
            each["if_equal"] if row["disease"] == each["value"] else each["otherwise"]
            for row in rows
            for each in wanted
        )

    def slow_groups(self, key: Callable[[Row], Any], sensitive: Condition | None = None) -> dict[Any, float]:
        """The slow count of each group of rows."""
        keys = {key(row) for row in self.rows}
        return {
            each: self.slow_count(Condition("", lambda row, each=each: key(row) == each), sensitive)  # type: ignore[misc]
            for each in keys
        }

    def plain_sql(self, public: str, sensitive: str) -> float:
        """Add up the weights with nothing but SQL, as the README of the release says; `w.value` is the disease."""
        sql = f"""
            SELECT COALESCE(SUM(
                CASE WHEN d.disease IS NOT DISTINCT FROM w.value THEN w.if_equal ELSE w.otherwise END), 0)
            FROM '{self.release.folder / DATA}' AS d, '{self.release.folder / WEIGHTS}' AS w
            WHERE ({public}) AND ({sensitive})"""
        with duckdb.connect() as connection:
            return float(connection.sql(sql).fetchall()[0][0])


@pytest.fixture(scope="module")
def hospital_release(tmp_path_factory: pytest.TempPathFactory) -> Published:
    release = published(hospital(), tmp_path_factory.mktemp("query") / "release")
    rows, weights = (pq.read_table(release.folder / name).to_pylist() for name in (DATA, WEIGHTS))
    return Published(release, rows, weights)


def counted(release: Release, sql: str) -> list[dict[str, Any]]:
    """The rows of an answer, with the estimate alone."""
    answer = release.sql(sql)
    return [{**groups, answer.count_name: estimate.value} for groups, estimate in answer.rows]


def close(number: float) -> Any:
    """The same number, up to the rounding of long sums."""
    return pytest.approx(number, rel=1e-9, abs=1e-9)


# ---------------------------------------------------------------------------------------------------- random conditions

PUBLIC = trees(
    st.one_of(
        comparisons("age", "AGE", range(18, 63)),
        arithmetic("age", "age", range(18, 63)),
        comparisons("Sex", "sex", ["F", "M", "X"]),
        patterns("Sex", "release.Sex", ["F", "M"]),
        comparisons("home town", '"Home Town"', TOWNS),
        patterns("home town", '"home town"', TOWNS),
        comparisons("admitted", "admitted", DAYS),
        comparisons("weight", "Weight", [50.25, 72.75, 100.0, 60.1]),
        st.just(known("smoker", "smoker", bool)),
        st.just(known("smoker", "smoker = FALSE", lambda smokes: not smokes)),
        st.just(known("admitted", "YEAR(admitted) = 2020 OR MONTH(admitted) = 7", lambda day: day != DAYS[0])),
    )
)
WORDS = ["flu", "HIV", "cold", "crohn's", "asthma", "unknown"]
SENSITIVE = trees(st.one_of(comparisons("disease", "{column}", WORDS), patterns("disease", "{column}", WORDS)))


@settings(max_examples=60)
@given(PUBLIC, SENSITIVE, st.booleans())
def test_count_of_a_condition_is_the_sum_of_the_weights(
    hospital_release: Published, public: Condition, sensitive: Condition, sensitive_first: bool
) -> None:
    condition = both(*((sensitive, public) if sensitive_first else (public, sensitive)))
    where = condition.sql.format(column="Disease")
    if not any(sensitive.holds({"disease": each["value"]}) for each in hospital_release.weights):
        with pytest.raises(QueryError, match=NO_VALUE):
            hospital_release.release.count(where=where)
        return
    estimate = hospital_release.release.count(where=where)
    assert estimate.value == close(hospital_release.slow_count(public, sensitive))
    assert estimate.value == close(
        hospital_release.plain_sql(public.sql.replace("release.", "d."), sensitive.sql.format(column="w.value"))
    )


@settings(max_examples=40)
@given(PUBLIC, st.sampled_from([*WORDS[:-1], None]))
def test_count_of_a_value_is_the_sum_of_its_weights(
    hospital_release: Published, public: Condition, value: str | None
) -> None:
    holds = Condition("", lambda row: row["disease"] == value)
    estimate = hospital_release.release.count(value, where=public.sql)
    assert estimate.value == close(hospital_release.slow_count(public, holds))


@settings(max_examples=30)
@given(PUBLIC)
def test_rows_that_satisfy_a_public_condition_are_counted_exactly(
    hospital_release: Published, public: Condition
) -> None:
    estimate = hospital_release.release.count(where=public.sql)
    truth = sum(public.holds(row) is True for row in hospital_release.rows)
    assert (estimate.value, estimate.standard_error, estimate.interval()) == (truth, 0, (truth, truth))


def test_all_ways_to_count_agree(hospital_release: Published) -> None:
    release = hospital_release.release
    frame = pq.read_table(release.folder / DATA).to_pandas()
    weights = pq.read_table(release.folder / WEIGHTS).to_pandas()
    pairs = frame[frame["Sex"] == "F"].merge(weights[weights["value"].isin(["flu", "HIV"])], how="cross")
    by_pandas = np.where(pairs["disease"] == pairs["value"], pairs["if_equal"], pairs["otherwise"]).sum()
    where = "Sex = 'F' AND disease IN ('flu', 'HIV')"
    assert release.count("flu", where="sex = 'F'").value + release.count("HIV", where="sex = 'F'").value == close(
        by_pandas
    )
    assert counted(release, f"SELECT COUNT(*) FROM release WHERE {where}") == [{"n": close(by_pandas)}]
    assert release.count(where=where).value == close(by_pandas)
    assert hospital_release.plain_sql("Sex = 'F'", "w.value IN ('flu', 'HIV')") == close(by_pandas)


# --------------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize(
    ("expression", "key"),
    [
        pytest.param("sex", lambda row: row["Sex"], id="column"),
        pytest.param('"home town"', lambda row: row["home town"], id="quoted column"),
        pytest.param("smoker", lambda row: row["smoker"], id="truth"),
        pytest.param("admitted", lambda row: row["admitted"], id="date"),
        pytest.param("YEAR(admitted)", lambda row: row["admitted"].year, id="year"),
        pytest.param("age // 10", lambda row: None if row["age"] is None else row["age"] // 10, id="decade"),
        pytest.param(
            "FLOOR(weight / 25)", lambda row: None if row["weight"] is None else row["weight"] // 25, id="floor"
        ),
        pytest.param('UPPER("home town")', lambda row: row["home town"].upper(), id="upper case"),
        pytest.param("COALESCE(sex, '?')", lambda row: row["Sex"] or "?", id="coalesce"),
        pytest.param(
            "CASE WHEN age < 40 THEN 'young' ELSE 'old' END",
            lambda row: "young" if row["age"] is not None and row["age"] < 40 else "old",
            id="case",
        ),
        pytest.param("CAST(age AS VARCHAR)", lambda row: None if row["age"] is None else str(row["age"]), id="cast"),
        pytest.param("age > 40", lambda row: None if row["age"] is None else row["age"] > 40, id="comparison"),
    ],
)
def test_groups_are_those_of_the_rows(hospital_release: Published, expression: str, key: Callable[[Row], Any]) -> None:
    sql = f"SELECT {expression} AS g, COUNT(*) AS c FROM release WHERE disease = 'flu' GROUP BY {expression}"
    found = {row["g"]: row["c"] for row in counted(hospital_release.release, sql)}
    has_flu = Condition("", lambda row: row["disease"] == "flu")
    expected = hospital_release.slow_groups(key, has_flu)
    assert found == {each: close(count) for each, count in expected.items()}


def test_groups_of_public_columns_alone_are_exact(hospital_release: Published) -> None:
    answer = hospital_release.release.sql("SELECT Sex, smoker, COUNT(*) FROM release GROUP BY smoker, Sex")
    assert answer.method == "exact count"
    keys = [(row["Sex"], row["smoker"]) for row in hospital_release.rows]
    found = {(groups["Sex"], groups["smoker"]): estimate.value for groups, estimate in answer.rows}
    assert found == {key: keys.count(key) for key in keys}


def test_groups_of_the_sensitive_column_are_its_values(hospital_release: Published) -> None:
    found = counted(hospital_release.release, "SELECT DISEASE, COUNT(*) FROM release GROUP BY disease")
    domain = hospital_release.release.manifest.design.domain
    assert [row["DISEASE"] for row in found] == list(domain)
    for row in found:
        assert row["n"] == close(hospital_release.release.count(row["DISEASE"]).value)


def test_groups_of_public_and_sensitive_columns_are_all_pairs(hospital_release: Published) -> None:
    sql = "SELECT COUNT(*), disease, Sex FROM release WHERE disease <> 'flu' GROUP BY disease, Sex"
    found = counted(hospital_release.release, sql)
    others = {disease for disease in DISEASES if disease not in (None, "flu")}
    assert {(row["disease"], row["Sex"]) for row in found} == {(d, s) for d in others for s in ("F", "M", None)}
    for row in found:
        condition = Condition("", lambda each, row=row: each["disease"] == row["disease"])  # type: ignore[misc]
        is_group = Condition("", lambda each, row=row: each["Sex"] == row["Sex"])  # type: ignore[misc]
        assert row["n"] == close(hospital_release.slow_count(is_group, condition))


@pytest.mark.parametrize(
    ("select", "group"),
    [
        ("SEX", "sex"),
        ('"Sex"', "sex"),
        ("release.sex", "sex"),
        ("(sex)", "sex"),
        ("sex", "(SEX)"),
        ("age // 10", "AGE//10"),
        ("DISEASE", "(disease)"),
    ],
)
def test_group_is_recognised_however_it_is_written(hospital_release: Published, select: str, group: str) -> None:
    plain = "disease" if "ease" in group else "age // 10" if "//" in group else "sex"
    found = counted(hospital_release.release, f"SELECT {select} AS g, COUNT(*) FROM release GROUP BY {group}")
    assert found == counted(hospital_release.release, f"SELECT {plain} AS g, COUNT(*) FROM release GROUP BY {plain}")


def test_group_that_is_no_number_is_one_group(hospital_release: Published) -> None:
    nothing = "weight * CAST('nan' AS DOUBLE)"
    sql = f"SELECT {nothing} AS g, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY {nothing}"
    found = counted(hospital_release.release, sql)
    assert len(found) == 2  # the other group is that of the missing weights
    assert sum(row["n"] for row in found) == close(hospital_release.release.count("flu").value)


def test_columns_of_the_answer_come_in_the_order_of_the_query(hospital_release: Published) -> None:
    columns, rows = hospital_release.release.sql(
        "SELECT smoker, COUNT(*) AS many, Sex AS gender FROM release GROUP BY Sex, smoker"
    ).table()
    assert columns == ["smoker", "many", "many_se", "many_low", "many_high", "gender"]
    assert all(list(row) == columns for row in rows)


def test_count_without_a_name_is_called_n(hospital_release: Published) -> None:
    columns, rows = hospital_release.release.sql("select count(*) from RELEASE where disease = 'flu';").table(0.9)
    assert columns == ["n", "n_se", "n_low", "n_high"]
    estimate = hospital_release.release.count("flu")
    assert list(rows[0].values()) == [estimate.value, estimate.standard_error, *estimate.interval(0.9)]


# -------------------------------------------------------------------------------------------------------------- corners


@pytest.mark.parametrize("where", ["disease IS NULL OR disease IS NOT NULL", "COALESCE(disease, 'x') <> 'y'"])
def test_condition_that_every_value_satisfies_is_counted_exactly(hospital_release: Published, where: str) -> None:
    estimate = hospital_release.release.count(where=where)
    assert (estimate.value, estimate.standard_error, estimate.method) == (ROWS, 0, "exact count")


@pytest.mark.parametrize("value", [..., "flu", None])
def test_no_rows_count_zero(hospital_release: Published, value: Any) -> None:
    estimate = hospital_release.release.count(value, where="age > 200")
    assert (estimate.value, estimate.standard_error, estimate.interval()) == (0, 0, (0, 0))


def test_answer_from_no_rows_says_so(hospital_release: Published) -> None:
    sql = "SELECT COUNT(*) FROM release WHERE Sex = '{}' AND disease = 'flu'"
    assert hospital_release.release.sql(sql.format("f")).note == (
        "no record satisfies the condition on the public columns; check how their values are spelt."
    )
    assert hospital_release.release.sql(sql.format("F")).note is None


def test_no_rows_have_no_public_groups(hospital_release: Published) -> None:
    sql = "SELECT Sex, COUNT(*) FROM release WHERE age > 200 AND disease = 'flu' GROUP BY Sex"
    assert hospital_release.release.sql(sql).rows == ()


def test_no_rows_still_have_a_group_for_each_sensitive_value(hospital_release: Published) -> None:
    found = counted(hospital_release.release, "SELECT disease, COUNT(*) FROM release WHERE age > 200 GROUP BY disease")
    assert [row["n"] for row in found] == [0] * len(hospital_release.release.manifest.design.domain)


def test_estimates_of_all_values_sum_to_the_rows(hospital_release: Published) -> None:
    release = hospital_release.release
    assert sum(release.count(value).value for value in release.manifest.design.domain) == close(ROWS)


@pytest.mark.parametrize(
    "comment",
    ["-- */ OR disease = 'flu'\n", "/* OR disease = 'flu' */", "-- '", "--; DROP VIEW release\n"],
)
def test_comment_changes_nothing(hospital_release: Published, comment: str) -> None:
    estimate = hospital_release.release.count(where=f"Sex = 'F' {comment}")
    assert estimate == hospital_release.release.count(where="Sex = 'F'")


VALUES: Mapping[str, pa.Array] = {
    "whole numbers": pa.array([1, -5, 2**62, 0]),
    "unsigned numbers": pa.array([1, 2**63 + 5, 7, 2**64 - 1], pa.uint64()),
    "narrow numbers": pa.array([1, -5, None, 127], pa.int8()),
    "numbers": pa.array([0.1, 0.30000000000000004, 1e300, 5e-324]),
    "single numbers": pa.array([0.1, 0.3, None, 1e30], pa.float32()),
    "truths": pa.array([True, False, None, True]),
    "dates": pa.array([datetime.date(2020, 2, 29), datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "times": pa.array([datetime.datetime(2020, 1, 2, 3, 4, 5, 678901), datetime.datetime(1969, 1, 1), None]),
    "times of a zone": pa.array(
        [datetime.datetime(2020, 7, 1, 12, tzinfo=datetime.UTC), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)],
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "texts": pa.array(["it's", 'say "x"', "a\\b\n", "", "%_", "null", "\u2028{x}?$1", "nul\0"]),
}


@pytest.fixture(params=[pytest.param(values, id=name) for name, values in VALUES.items()])
def typed_release(request: pytest.FixtureRequest, tmp_path: Path) -> Release:
    """A release whose sensitive column has some type."""
    values = pa.concat_arrays([request.param] * 12)
    table = pa.table({"sex": ["F", "M"] * (len(values) // 2), "disease": values})
    return published(table, tmp_path / "release", schema=Schema.of("disease", keep=["disease"]))


def test_sensitive_value_of_any_type_can_be_counted(typed_release: Release) -> None:
    grouped = counted(typed_release, "SELECT disease, COUNT(*) FROM release GROUP BY disease")
    data = pq.read_table(typed_release.folder / DATA).to_pylist()
    weights = pq.read_table(typed_release.folder / WEIGHTS).to_pylist()
    for row, weight in zip(grouped, weights, strict=True):
        shown = sum(record["disease"] == weight["value"] for record in data)
        expected = shown * weight["if_equal"] + (len(data) - shown) * weight["otherwise"]
        assert row["n"] == close(expected)
        assert typed_release.count(row["disease"]).value == close(expected)


@pytest.mark.parametrize(
    ("values", "where", "wanted"),
    [
        pytest.param([1, 2, 3, None], "disease > 1", {2, 3}, id="numbers compared"),
        pytest.param([1, 2, 3, 4], "disease * 2 - 1 IN (3, 5)", {2, 3}, id="numbers computed"),
        pytest.param([0.5, 1.5, 2.5], "disease BETWEEN 1 AND 2", {1.5}, id="numbers between"),
        pytest.param([True, False, None], "disease", {True}, id="truth itself"),
        pytest.param([True, False, None], "NOT disease", {False}, id="truth denied"),
        pytest.param([True, False, None], "disease IS NULL", {None}, id="missing"),
        pytest.param(DAYS, "disease < DATE '2020-06-01'", {DAYS[0], DAYS[1]}, id="dates compared"),
        pytest.param(DAYS, "YEAR(disease) = 2021", {DAYS[2]}, id="year"),
        pytest.param(["a", "b", "C"], "LOWER(disease) >= 'b'", {"b", "C"}, id="texts lowered"),
        pytest.param(["1", "2", "10"], "CAST(disease AS INTEGER) > 1", {"2", "10"}, id="texts as numbers"),
    ],
)
def test_sensitive_condition_means_what_it_says(
    tmp_path: Path, values: Sequence[Any], where: str, wanted: set[Any]
) -> None:
    table = pa.table({"sex": ["F", "M"] * 6 * len(values), "disease": [value for value in values for _ in range(12)]})
    release = published(table, tmp_path / "release")
    assert release.count(where=where).value == close(sum(release.count(value).value for value in wanted))


@pytest.mark.parametrize(
    "name", ["place", "Place", "symbol", "rows", "g0", "domain", "release", "n", 'q"q', "a b", "É"]
)
def test_sensitive_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    table = people().rename_columns({"disease": name})
    release = published(table, tmp_path / "release", schema=Schema.of(name))
    quoted = '"' + name.replace('"', '""') + '"'
    grouped = counted(release, f"SELECT {quoted} AS v, sex AS s, COUNT(*) AS c FROM release GROUP BY {quoted}, sex")
    total = release.count(where=f"{quoted} = 'flu' AND sex = 'F'").value
    assert [row["c"] for row in grouped if row["v"] == "flu" and row["s"] == "F"] == [close(total)]
    assert release.count("flu", where="sex = 'F'").value == close(total)


@pytest.mark.parametrize(
    "name", ["place", "symbol", "rows", "g0", "domain", "release", "n", 'q"q', "a b", "É", "disease place"]
)
def test_public_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    table = people().rename_columns({"sex": name})
    release = published(table, tmp_path / "release")
    quoted = '"' + name.replace('"', '""') + '"'
    grouped = counted(
        release, f"SELECT {quoted} AS s, COUNT(*) AS c FROM release WHERE disease = 'flu' GROUP BY {quoted}"
    )
    assert [row["c"] for row in grouped] == [
        close(release.count("flu", where=f"{quoted} = '{sex}'").value) for sex in ("F", "M")
    ]


# ------------------------------------------------------------------------------------------------------------- refusals

ONE_SELECT = r"^ask one SELECT, such as SELECT COUNT\(\*\) FROM release WHERE age > 30\.$"
ONE_TABLE = r"^the one table to ask is release: SELECT \.\.\. FROM release \.\.\.$"
ONE_COUNT = r"^select one COUNT\(\*\), and any of the columns that you group by\.$"
PLAIN_COUNT = r"^count rows with COUNT\(\*\); other counts cannot be answered yet\.$"
NOTHING_ELSE = r"^select COUNT\(\*\) and columns that you also GROUP BY; nothing else can be answered yet\.$"
CLAUSE = r"^{} cannot be answered yet: ask SELECT \.\.\. FROM release WHERE \.\.\. GROUP BY \.\.\.$"
CONSTRUCT = r" cannot be answered: use comparisons, AND, OR, NOT, IN, BETWEEN, LIKE\.$"
MIXED = r"^a condition mixes 'disease' with public columns other than by AND; ask for the parts one by one"
PROTECTED = r"^the 'disease' of single rows is protected, so it cannot be selected; count it instead, with GROUP BY"
UNKNOWN = (
    r"^the release has no column '{}'; it has 'age', 'Sex', 'home town', 'admitted', 'smoker', 'weight', 'disease'\.$"
)
UNFIT = r"^the query does not fit the columns of the release \(.*\); info shows their types\.$"
NO_VALUE = (
    r"^no value of 'disease' satisfies the condition; its values are 'HIV', 'asthma', 'cold', \"crohn's\", 'flu', "
)
UNREADABLE = r"^this is not SQL that can be read: "

REFUSED_QUERIES = {
    "": ONE_SELECT,
    ";": ONE_SELECT,
    "-- nothing": ONE_SELECT,
    "SELECT COUNT(*) FROM release; SELECT COUNT(*) FROM release": ONE_SELECT,
    "SELECT COUNT(*) FROM release UNION SELECT COUNT(*) FROM release": ONE_SELECT,
    "(SELECT COUNT(*) FROM release)": ONE_SELECT,
    "VALUES (1)": ONE_SELECT,
    "COPY release TO 'copy.csv'": ONE_SELECT,
    "ATTACH 'other.db'": ONE_SELECT,
    "PRAGMA version": ONE_SELECT,
    "SET memory_limit = '9GB'": ONE_SELECT,
    "INSTALL httpfs": ONE_SELECT,
    "LOAD httpfs": ONE_SELECT,
    "EXPLAIN SELECT COUNT(*) FROM release": ONE_SELECT,
    "DESCRIBE release": ONE_SELECT,
    "CREATE TABLE more (a INT)": ONE_SELECT,
    "DROP VIEW release": ONE_SELECT,
    "INSERT INTO release VALUES (1)": ONE_SELECT,
    "UPDATE release SET age = 1": ONE_SELECT,
    "DELETE FROM release": ONE_SELECT,
    "CALL pragma_version()": ONE_SELECT,
    "SELECT COUNT(*)": ONE_TABLE,
    "SELECT COUNT(*) FROM domain": ONE_TABLE,
    "SELECT COUNT(*) FROM main.release": ONE_TABLE,
    "SELECT COUNT(*) FROM release AS r": ONE_TABLE,
    "SELECT COUNT(*) FROM (SELECT * FROM release)": ONE_TABLE,
    "SELECT COUNT(*) FROM read_csv('people.csv')": ONE_TABLE,
    "SELECT COUNT(*) FROM read_text('/etc/hostname')": ONE_TABLE,
    "SELECT COUNT(*) FROM 'people.csv'": ONE_TABLE,
    "SELECT COUNT(*) FROM duckdb_settings()": ONE_TABLE,
    "SELECT COUNT(*) FROM release TABLESAMPLE 10%": ONE_TABLE,
    "SELECT COUNT(*) FROM release PIVOT (COUNT(*) FOR Sex IN ('F'))": ONE_TABLE,
    "SELECT COUNT(*) FROM release AT (VERSION => 1)": ONE_TABLE,
    "SELECT COUNT(*) FROM release, release": CLAUSE.format("JOINS"),
    "SELECT COUNT(*) FROM release JOIN release AS other ON TRUE": CLAUSE.format("JOINS"),
    "WITH more AS (SELECT 1) SELECT COUNT(*) FROM release": CLAUSE.format("WITH"),
    "SELECT DISTINCT COUNT(*) FROM release": CLAUSE.format("DISTINCT"),
    "SELECT COUNT(*) FROM release ORDER BY 1": CLAUSE.format("ORDER"),
    "SELECT COUNT(*) FROM release LIMIT 1": CLAUSE.format("LIMIT"),
    "SELECT COUNT(*) FROM release OFFSET 1": CLAUSE.format("OFFSET"),
    "SELECT COUNT(*) FROM release HAVING COUNT(*) > 1": CLAUSE.format("HAVING"),
    "SELECT COUNT(*) FROM release QUALIFY TRUE": CLAUSE.format("QUALIFY"),
    "SELECT COUNT(*) FROM release WINDOW w AS ()": CLAUSE.format("WINDOWS"),
    "SELECT COUNT(*) FROM release USING SAMPLE 5": CLAUSE.format("SAMPLE"),
    "SELECT COUNT(*) INTO other FROM release": CLAUSE.format("INTO"),
    "SELECT * FROM release": NOTHING_ELSE,
    "FROM release": NOTHING_ELSE,
    "SELECT age FROM release": NOTHING_ELSE,
    "SELECT Sex, COUNT(*) FROM release": NOTHING_ELSE,
    "SELECT SUM(age) FROM release": NOTHING_ELSE,
    "SELECT COUNT(*) + 1 FROM release": NOTHING_ELSE,
    "SELECT COUNT(*) OVER () FROM release": NOTHING_ELSE,
    "SELECT COUNT(*) FILTER (WHERE age > 30) FROM release": NOTHING_ELSE,
    "SELECT ROW_NUMBER() OVER (ORDER BY age), COUNT(*) FROM release": NOTHING_ELSE,
    "SELECT (SELECT 1), COUNT(*) FROM release": NOTHING_ELSE,
    "SELECT getenv('HOME'), COUNT(*) FROM release": NOTHING_ELSE,
    "SELECT UPPER(disease), COUNT(*) FROM release": NOTHING_ELSE,
    "SELECT disease FROM release": PROTECTED,
    "SELECT age, disease FROM release GROUP BY age": PROTECTED,
    "SELECT Sex FROM release GROUP BY Sex": ONE_COUNT,
    "SELECT COUNT(*), COUNT(*) AS more FROM release": ONE_COUNT,
    "SELECT FROM release": ONE_COUNT,
    "SELECT COUNT(disease) FROM release": PLAIN_COUNT,
    "SELECT COUNT(DISTINCT disease) FROM release": PLAIN_COUNT,
    "SELECT COUNT(1) FROM release": PLAIN_COUNT,
    "SELECT COUNT(*, age) FROM release": PLAIN_COUNT,
    "SELECT COUNT(* EXCLUDE (age)) FROM release": PLAIN_COUNT,
    "SELECT Sex AS n, COUNT(*) FROM release GROUP BY Sex": r"^two columns of the answer have the same name; rename one",
    "SELECT Sex AS n_low, COUNT(*) FROM release GROUP BY Sex": r"^two columns of the answer have the same name",
    "SELECT COUNT(*) FROM release GROUP BY 1": r"^group by columns of the release, by their names\.$",
    "SELECT COUNT(*) FROM release GROUP BY ()": r"^group by columns of the release, by their names\.$",
    "SELECT COUNT(*) FROM release GROUP BY ALL": r"^group by a plain list of columns\.$",
    "SELECT COUNT(*) FROM release GROUP BY GROUPING SETS ((age), (Sex))": CONSTRUCT,
    "SELECT COUNT(*) FROM release GROUP BY UPPER(disease)": r"^group by 'disease' itself, not by an expression",
    "SELECT COUNT(*) FROM release GROUP BY random()": CONSTRUCT,
    "SELECT COUNT(*) FROM release GROUP BY town": UNKNOWN.format("town"),
    "SELECT COUNT(*) FROM release WHERE": UNREADABLE,
    "SELECT COUNT(*) FROM release WHERE Sex = 'F": UNREADABLE,
    "SELECT COUNT(* FROM release": UNREADABLE,
    "SELEC COUNT(*) FROM release": UNREADABLE,
    "how many women have the flu?": UNREADABLE,
}

REFUSED_CONDITIONS = {
    "age > 30 OR disease = 'flu'": MIXED,
    "NOT (age > 30 AND disease = 'flu')": MIXED,
    "disease = Sex": MIXED,
    "disease BETWEEN 'a' AND Sex": MIXED,
    "(Sex, disease) = ('F', 'flu')": MIXED,
    "CASE WHEN age > 30 THEN disease = 'flu' ELSE disease = 'cold' END": MIXED,
    "age IN (SELECT age FROM release)": CONSTRUCT,
    "age = (SELECT MAX(age) FROM release)": CONSTRUCT,
    "EXISTS (SELECT 1)": CONSTRUCT,
    "Sex = (SELECT content FROM read_text('/etc/hostname'))": CONSTRUCT,
    "Sex = getenv('HOME')": CONSTRUCT,
    "Sex = current_setting('allowed_paths')": CONSTRUCT,
    "random() < 0.5": CONSTRUCT,
    "COUNT(*) > 1": CONSTRUCT,
    "ROW_NUMBER() OVER () = 1": CONSTRUCT,
    "CURRENT_DATE > admitted": CONSTRUCT,
    "Sex ~ 'F'": CONSTRUCT,
    "Sex || 'x' = 'Fx'": CONSTRUCT,
    "Sex = ?": CONSTRUCT,
    "Sex = $1": CONSTRUCT,
    "age = [1][1]": CONSTRUCT,
    "CAST(age AS no_such_type) = 1": CONSTRUCT,
    'CAST(age AS "varint) = 40 OR (SELECT 1) = (1") = 1': CONSTRUCT,
    'age::"oid) IS NULL OR (1 = 1" IS NULL': CONSTRUCT,
    "town = 'Aix'": UNKNOWN.format("town"),
    'Sex = "F"': UNKNOWN.format("F"),
    "rowid = 1": UNKNOWN.format("rowid"),
    "filename = 'data.parquet'": UNKNOWN.format("filename"),
    "other.age = 1": r"^there is no table 'other'; the one table is release\.$",
    "age > 30 GROUP BY Sex": r"^a condition has no GROUP BY; ask for groups with a whole query\.$",
    "age > 30 LIMIT 1": CLAUSE.format("LIMIT"),
    "age > 30; DROP VIEW release": ONE_SELECT,
    "age > 30) OR (disease = 'flu'": UNREADABLE,
    "age > 30 ESCAPE": UNREADABLE,
    "Sex > 30": UNFIT,
    "YEAR(Sex) = 3": UNFIT,
    "disease = 'plague'": NO_VALUE,
    "disease = 'Flu'": NO_VALUE,
    "disease = NULL": NO_VALUE,
    "disease = 'flu' AND disease = 'cold'": NO_VALUE,
}


@pytest.mark.parametrize(("sql", "sentence"), [pytest.param(*each, id=each[0]) for each in REFUSED_QUERIES.items()])
def test_query_that_cannot_be_answered_is_refused(hospital_release: Published, sql: str, sentence: str) -> None:
    with pytest.raises(QueryError, match=sentence):
        hospital_release.release.sql(sql)


@pytest.mark.parametrize(
    ("where", "sentence"), [pytest.param(*each, id=each[0]) for each in REFUSED_CONDITIONS.items()]
)
def test_condition_that_cannot_be_answered_is_refused(hospital_release: Published, where: str, sentence: str) -> None:
    with pytest.raises(QueryError, match=sentence):
        hospital_release.release.count(where=where)


@pytest.mark.parametrize("value", ["plague", 3, True, "(missing)", float("nan")])
def test_value_outside_the_domain_cannot_be_counted(hospital_release: Published, value: Any) -> None:
    with pytest.raises(QueryError, match=r"^'.+' is not in the domain of 'disease'\.$"):
        hospital_release.release.count(value)


def test_missing_value_cannot_be_counted_where_none_can_be_missing(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"^'\(missing\)' is not in the domain of 'disease'\.$"):
        published(people(), tmp_path / "release").count(None)


def test_too_many_groups_are_refused(hospital_release: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT Sex, COUNT(*) FROM release GROUP BY Sex"
    cells = 3 * 6  # groups times values
    monkeypatch.setattr("sfumato.query.MOST_CELLS", cells)
    assert len(hospital_release.release.sql(sql).rows) == 3
    monkeypatch.setattr("sfumato.query.MOST_CELLS", cells - 1)
    with pytest.raises(QueryError, match=r"^the query makes too many groups; group by fewer or coarser columns\.$"):
        hospital_release.release.sql(sql)


# ------------------------------------------------------------------------------------------------------ escape attempts


@pytest.fixture
def connection(hospital_release: Published) -> Iterator[duckdb.DuckDBPyConnection]:
    """The connection that counts, as a parser that lets everything through would use it."""
    with _connection(hospital_release.release.folder / DATA) as opened:
        yield opened


def test_connection_reads_the_release(connection: duckdb.DuckDBPyConnection) -> None:
    assert connection.sql("SELECT COUNT(*) FROM release").fetchall() == [(ROWS,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM read_text('{other}')",
        "SELECT * FROM read_blob('{other}')",
        "SELECT * FROM read_json('{other}')",
        "SELECT * FROM sniff_csv('{other}')",
        "SELECT * FROM '{other}'",
        "SELECT * FROM read_parquet('{weights}')",
        "SELECT * FROM parquet_metadata('{weights}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY release TO '{folder}/leak.csv'",
        "COPY (SELECT 1) TO '{other}'",
        "EXPORT DATABASE '{folder}/leak'",
        "ATTACH '{folder}/leak.db'",
        "CREATE SECRET (TYPE s3)",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT getenv('HOME')",
    ],
)
def test_connection_reaches_no_other_file(
    connection: duckdb.DuckDBPyConnection, hospital_release: Published, tmp_path: Path, statement: str
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    places = {"other": other, "weights": hospital_release.release.folder / WEIGHTS, "folder": tmp_path}
    with pytest.raises(duckdb.Error, match=r"disabled|does not exist"):
        connection.sql(statement.format(**places)).fetchall()
    assert os.listdir(tmp_path) == ["other.csv"]
    assert other.read_text() == "a\n1\n"


@pytest.mark.parametrize(
    "statement",
    [
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET allowed_paths = ['/']",
        "SET allowed_directories = ['/']",
        "SET memory_limit = '1TB'",
        "SET temp_directory = 'elsewhere'",
        "SET python_enable_replacements = true",
        "SET autoload_known_extensions = true",
        "RESET allowed_paths",
        "RESET memory_limit",
    ],
)
def test_connection_cannot_be_configured(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    with pytest.raises(duckdb.Error, match=r"the configuration has been locked"):
        connection.execute(statement)


def test_connection_does_not_see_the_variables_of_the_program(connection: duckdb.DuckDBPyConnection) -> None:
    secret_frame = pd.DataFrame({"a": [1]})
    with pytest.raises(duckdb.CatalogException, match=r"secret_frame does not exist"):
        connection.sql("SELECT * FROM secret_frame").fetchall()
    assert len(secret_frame) == 1


def test_connections_share_nothing(hospital_release: Published) -> None:
    data = hospital_release.release.folder / DATA
    with _connection(data) as one, _connection(data) as other:
        one.execute("CREATE TABLE notes AS SELECT 1 AS a")
        with pytest.raises(duckdb.CatalogException, match=r"notes does not exist"):
            other.sql("SELECT * FROM notes").fetchall()


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"a,b\n1,2\n"], ids=["empty", "cut off", "CSV"])
def test_data_that_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    release = published(people(), tmp_path / "release")
    (release.folder / DATA).write_bytes(content)
    with pytest.raises(ReleaseFormatError, match=r"^data\.parquet cannot be read; get the release again"):
        release.count("flu")


def test_path_of_a_release_may_hold_a_quote(tmp_path: Path) -> None:
    assert published(people(), tmp_path / "it's a release").count().value == 60


def test_published_value_outside_the_domain_is_refused(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release")
    table = pq.read_table(release.folder / DATA)
    strange = table.set_column(table.schema.names.index("disease"), "disease", pa.array(["plague"] * len(table)))
    pq.write_table(strange, release.folder / DATA)
    with pytest.raises(ReleaseFormatError, match=r"^the release holds a value outside its domain"):
        release.count("flu")
