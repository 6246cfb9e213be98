"""Counts in a release: under every condition and in every group, what adding up the weights of its records gives."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conditions import Condition, Row, arithmetic, both, comparisons, known, patterns, trees
from hospitals import DAYS, DISEASES, ROWS, TOWNS, Published, close, counted
from refusals import refuses
from releases import people, published
from selection import examples
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._release.manifest import WEIGHTS
from sfumato._request.schema import Schema
from sfumato.errors import QueryError, ReleaseFormatError

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


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(PUBLIC, SENSITIVE, st.booleans())
def test_count_of_a_condition_is_the_sum_of_the_weights(
    hospital_release: Published, public: Condition, sensitive: Condition, sensitive_first: bool
) -> None:
    condition = both(*((sensitive, public) if sensitive_first else (public, sensitive)))
    where = condition.sql.format(column="Disease")
    if not any(sensitive.holds({"disease": each["value"]}) for each in hospital_release.weights):
        with refuses(QueryError, "no-matching-value", column="disease"):
            hospital_release.release.count(where=where)
        return
    estimate = hospital_release.release.count(where=where)
    assert estimate.value == close(hospital_release.slow_count(public, sensitive))
    assert estimate.value == close(
        hospital_release.plain_sql(public.sql.replace("release.", "d."), sensitive.sql.format(column="w.value"))
    )


@settings(max_examples=examples(40))
@given(PUBLIC, st.sampled_from([*WORDS[:-1], None]))
def test_count_of_a_value_is_the_sum_of_its_weights(
    hospital_release: Published, public: Condition, value: str | None
) -> None:
    holds = Condition("", lambda row: row["disease"] == value)
    estimate = hospital_release.release.count(value, where=public.sql)
    assert estimate.value == close(hospital_release.slow_count(public, holds))


@settings(max_examples=examples(30))
@given(PUBLIC)
def test_rows_that_satisfy_a_public_condition_are_counted_exactly(
    hospital_release: Published, public: Condition
) -> None:
    estimate = hospital_release.release.count(where=public.sql)
    truth = sum(public.holds(row) is True for row in hospital_release.rows)
    assert (estimate.value, estimate.standard_error, estimate.interval()) == (truth, 0, (truth, truth))


def test_all_ways_to_count_agree(hospital_release: Published) -> None:
    release = hospital_release.release
    frame = pq.read_table(release.folder / DATA_FILE).to_pandas()
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
    found = {(row["Sex"], row["smoker"]): row["n"].value for row in answer.rows}
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
    ).to_table()
    assert columns == ["smoker", "many", "many_se", "many_low", "many_high", "gender"]
    assert all(list(row) == columns for row in rows)


def test_count_without_a_name_is_called_n(hospital_release: Published) -> None:
    columns, rows = hospital_release.release.sql("select count(*) from RELEASE where disease = 'flu';").to_table(0.9)
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
    sql = "SELECT COUNT(*) FROM release WHERE age > {} AND disease = 'flu'"
    assert hospital_release.release.sql(sql.format(200)).note == (
        "no record satisfies the condition on the public columns; check the spelling of their values."
    )
    assert hospital_release.release.sql(sql.format(20)).note is None


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
    return published(table, tmp_path / "release", schema=Schema.of("disease", keep=["disease"], public="*"))


def test_sensitive_value_of_any_type_can_be_counted(typed_release: Release) -> None:
    grouped = counted(typed_release, "SELECT disease, COUNT(*) FROM release GROUP BY disease")
    data = pq.read_table(typed_release.folder / DATA_FILE).to_pylist()
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
    release = published(table, tmp_path / "release", schema=Schema.of(name, public="*"))
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


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"a,b\n1,2\n"], ids=["empty", "cut off", "CSV"])
def test_data_that_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    release = published(people(), tmp_path / "release")
    (release.folder / DATA_FILE).write_bytes(content)
    with refuses(ReleaseFormatError, "damaged-file", file="data.parquet"):
        release.count("flu")


def test_path_of_a_release_may_hold_a_quote(tmp_path: Path) -> None:
    assert published(people(), tmp_path / "it's a release").count().value == 60


def test_published_value_outside_the_domain_is_refused(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release")
    table = pq.read_table(release.folder / DATA_FILE)
    strange = table.set_column(table.schema.names.index("disease"), "disease", pa.array(["plague"] * len(table)))
    pq.write_table(strange, release.folder / DATA_FILE)
    with refuses(ReleaseFormatError, "value-outside-domain"):
        release.crosstab("disease")
