"""Aggregates under any condition: estimates and errors are those of the records, added up one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conditions import Condition, arithmetic, comparisons, known, patterns, trees
from releases import WAYS, published_by
from selection import examples
from sfumato._query.release import Release
from sfumato.errors import QueryError
from weighed import AGES, CELLS, LINEAR, WEIGHTS, Asked, Weighed, patients

NUMBERS = [age for age in AGES if age is not None]
WORDS = ["flu", "HIV", "cold", "asthma", "other"]
ATOMS = st.one_of(
    comparisons("age", "age", NUMBERS),
    arithmetic("age", "release.age", NUMBERS),
    comparisons("sex", "sex", ["F", "M"]),
    comparisons("weight", "weight", [each for each in WEIGHTS if each is not None]),
    comparisons("disease", "disease", WORDS),
    patterns("disease", "disease", WORDS),
    st.just(known("sex", "LENGTH(sex) = 1 AND SUBSTRING(sex, 1, 1) = 'F'", lambda sex: sex == "F")),
    st.just(
        Condition(
            "COALESCE(sex, disease) = 'flu'",
            lambda row: (row["disease"] if row["sex"] is None else row["sex"]) == "flu",
        )
    ),
    st.just(
        Condition(
            "CASE WHEN age > 40 THEN disease = 'flu' ELSE disease <> 'flu' END",
            lambda row: (row["disease"] == "flu") == (row["age"] is not None and row["age"] > 40),
        )
    ),
    st.just(
        Condition(
            "(COALESCE(sex, '?'), disease) IN (('F', 'flu'), ('?', 'HIV'))",
            lambda row: (row["sex"] or "?", row["disease"]) in (("F", "flu"), ("?", "HIV")),
        )
    ),
)
CONDITIONS = trees(ATOMS)
LIMITED = settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=LINEAR)
def weighed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Weighed:
    """A release by each mechanism whose records have weights."""
    return Weighed.by(request.param, tmp_path_factory.mktemp("weighed") / "release")


@pytest.fixture(scope="module", params=CELLS)
def celled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Weighed:
    """A release by each mechanism that keeps values or redraws them within cells."""
    return Weighed.by(request.param, tmp_path_factory.mktemp("celled") / "release")


@pytest.fixture(scope="module", params=sorted(WAYS))
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release by each mechanism."""
    return published_by(request.param, patients(), tmp_path_factory.mktemp("any") / "release")


def close(number: float) -> Any:
    return pytest.approx(number, rel=1e-7, abs=1e-5)


def counts(condition: Condition) -> Asked:
    """What a count asks of a record."""
    return lambda row: 1.0 if condition.holds(row) is True else 0.0


def adds(condition: Condition, what: str) -> Asked:
    """What a sum of a column asks of a record."""
    return lambda row: row[what] if condition.holds(row) is True else None


def has(condition: Condition, what: str) -> Asked:
    """What the count of a column asks of a record."""
    return lambda row: 1.0 if condition.holds(row) is True and row[what] is not None else 0.0


def asked(release: Release, sql: str) -> Any:
    """The one estimate of a query; None where no value of the domain fits, which is refused."""
    try:
        return release.sql(sql).get_estimate()
    except QueryError as error:
        if not str(error).startswith("no value of 'disease' satisfies"):
            raise
        return None


@LIMITED
@given(CONDITIONS)
def test_count_under_any_condition_is_the_sum_of_the_weights(weighed: Weighed, condition: Condition) -> None:
    found = asked(weighed.release, f"SELECT COUNT(*) FROM release WHERE {condition.sql}")
    assert weighed.total(counts(condition)) == close(0.0 if found is None else found.value)
    if found is not None:
        assert weighed.release.count(where=condition.sql) == found


@LIMITED
@given(CONDITIONS, CONDITIONS, st.sampled_from(["age", "weight"]))
def test_filtered_aggregates_are_sums_of_weights(
    weighed: Weighed, where: Condition, only: Condition, what: str
) -> None:
    inner = Condition("", lambda row: where.holds(row) is True and only.holds(row) is True)
    total = asked(weighed.release, f"SELECT SUM({what}) FILTER (WHERE {only.sql}) FROM release WHERE {where.sql}")
    assume(total is not None and not math.isnan(total.value))
    assert total.value == close(weighed.total(adds(inner, what)))
    below = weighed.total(has(inner, what))
    assume(abs(below) > 1e-6)
    mean = asked(weighed.release, f"SELECT AVG({what}) FILTER (WHERE {only.sql}) FROM release WHERE {where.sql}")
    assert mean.value == close(weighed.total(adds(inner, what)) / below)


@LIMITED
@given(CONDITIONS, st.sampled_from(["age", "weight"]))
def test_error_of_a_sum_is_that_of_what_its_records_add(celled: Weighed, where: Condition, what: str) -> None:
    found = asked(celled.release, f"SELECT SUM({what}) FROM release WHERE {where.sql}")
    assume(found is not None and not math.isnan(found.value))
    assert found.standard_error == close(celled.error((adds(where, what), 1.0)))


@LIMITED
@given(CONDITIONS, st.sampled_from(["age", "weight"]))
def test_error_of_a_mean_is_that_of_its_residual(celled: Weighed, where: Condition, what: str) -> None:
    below = celled.total(has(where, what))
    assume(abs(below) > 1.0)
    found = asked(celled.release, f"SELECT AVG({what}) FROM release WHERE {where.sql}")
    assume(found is not None and not math.isnan(found.value))
    residual = celled.error((adds(where, what), 1 / below), (has(where, what), -found.value / below))
    assert found.standard_error == close(residual)


@LIMITED
@given(CONDITIONS, CONDITIONS)
def test_difference_and_ratio_of_two_counts(celled: Weighed, one: Condition, other: Condition) -> None:
    first, second = celled.total(counts(one)), celled.total(counts(other))
    assume(abs(second) > 1.0)
    pair = f"COUNT(*) FILTER (WHERE {one.sql}) {{}} COUNT(*) FILTER (WHERE {other.sql})"
    found = [asked(celled.release, f"SELECT {pair.format(sign)} FROM release") for sign in "-/"]
    assume(all(each is not None and not math.isnan(each.value) for each in found))
    difference, ratio = found
    assert (difference.value, ratio.value) == (close(first - second), close(first / second))
    if "sums" in difference.method:  # both have errors, and theirs are not that of a single count
        assert difference.standard_error == close(celled.error((counts(one), 1.0), (counts(other), -1.0)))
    if "ratio" in ratio.method and first:
        residual = celled.error((counts(one), 1 / second), (counts(other), -first / second**2))
        low, high = ratio.interval()
        assert ratio.standard_error == close(residual) or "sums" not in difference.method
        assert low <= ratio.value <= high or (low, high) == (0.0, 1.0) or math.isinf(low) or ratio.value < 0


@dataclass(frozen=True)
class Mixed:
    """A condition that mixes columns, and what it becomes for each value."""

    sql: str
    with_value: str


MIXED = [
    Mixed("age > 40 OR disease = 'flu'", "age > 40 OR {} = 'flu'"),
    Mixed("NOT (sex = 'F' AND disease IN ('flu', 'HIV'))", "NOT (sex = 'F' AND {} IN ('flu', 'HIV'))"),
    Mixed("disease > sex", "{} > sex"),
    Mixed("LENGTH(disease) * 10 < age", "LENGTH({}) * 10 < age"),
    Mixed("disease = 'flu' AND (weight > 60 OR disease < 'd')", "{0} = 'flu' AND (weight > 60 OR {0} < 'd')"),
]


@pytest.mark.parametrize("mixed", MIXED, ids=lambda mixed: mixed.sql)
def test_mixed_condition_is_the_sum_over_the_values_put_in(release: Release, mixed: Mixed) -> None:
    parts = [
        release.count(value, where=mixed.with_value.format(f"'{value}'")).value for value in release.manifest.domain
    ]
    found = release.count(where=mixed.sql)
    assert found.value == close(sum(parts))
    assert found.standard_error
    low, high = found.interval()
    assert low <= high


AGGREGATES = [
    "COUNT(*)",
    "SUM(age)",
    "AVG(weight)",
    "COUNT(*) FILTER (WHERE sex = 'F') * 100.0 / COUNT(*)",
    "SUM(weight) / COUNT(*)",
    "SUM(CASE WHEN sex = 'F' THEN age ELSE 0 END)",
    "COUNT(weight) - 2 * COUNT_IF(age > 40)",
    "AVG(age) * AVG(weight)",
]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_mechanism_estimates_every_aggregate(release: Release, aggregate: str) -> None:
    answer = release.sql(f"SELECT {aggregate} AS a FROM release WHERE disease IN ('flu', 'cold')")
    estimate = answer.get_estimate()
    assert math.isfinite(estimate.value)
    if aggregate == "COUNT(*)" and release.manifest.mechanism_name in ("buckets", "anatomy"):
        assert estimate.standard_error == 0  # what all buckets hold together is published
        return
    assert estimate.standard_error
    method = next(iter(release.manifest.methods.values()))
    assert answer.method.startswith(method.label)
    assert answer.assumption == method.assumption


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates_over_all_values_are_exact(release: Release, aggregate: str) -> None:
    plain = release.sql(f"SELECT {aggregate} AS a FROM release").get_estimate()
    through = release.sql(f"SELECT {aggregate} AS a FROM release WHERE disease IS NOT NULL").get_estimate()
    assert plain.standard_error == through.standard_error == 0
    assert through.value == close(plain.value)


@pytest.mark.slow
def test_sums_over_groups_are_the_sum(release: Release) -> None:
    where = "WHERE disease = 'flu' OR age > 60"
    whole = release.sql(f"SELECT SUM(age) AS s, COUNT(*) AS n FROM release {where}").rows[0]
    for groups in ("sex", "disease", "sex, disease", "age // 20, disease"):
        rows = release.sql(f"SELECT {groups}, SUM(age) AS s, COUNT(*) AS n FROM release {where} GROUP BY {groups}").rows
        for name in ("s", "n"):
            parts = [row[name].value for row in rows if not math.isnan(row[name].value)]
            assert sum(parts) == close(whole[name].value)


@pytest.mark.parametrize(
    ("expression", "is_given"),
    [("SUM(age)", False), ("AVG(age)", False), ("COUNT(*)", True), ("COUNT(*) / COUNT(*)", False)],
)
def test_aggregate_of_no_record_is_what_sql_says(release: Release, expression: str, is_given: bool) -> None:
    columns, (row,) = release.sql(
        f"SELECT {expression} AS a FROM release WHERE age > 200 AND disease = 'flu'"
    ).to_table()
    assert row["a"] == (0 if is_given else None)
    assert ("a_note" in columns) is not is_given


def test_parts_that_cannot_be_taken_together_are_given_an_upper_bound(celled: Weighed) -> None:
    flu, cold = (Condition("", lambda row, name=name: row["disease"] == name) for name in ("flu", "cold"))  # type: ignore[misc]
    sql = "SELECT SUM(age) FILTER (WHERE disease = 'flu') - COUNT(*) FILTER (WHERE disease = 'cold') FROM release"
    found = celled.release.sql(sql).get_estimate()
    exact = celled.error((adds(flu, "age"), 1.0), (counts(cold), -1.0))
    apart = celled.error((adds(flu, "age"), 1.0)) + celled.error((counts(cold), -1.0))
    assert found.note == "the standard error is an upper bound, because it is the sum of the errors of the parts"
    assert exact <= found.standard_error == close(apart)


# ------------------------------------------------------------------------------------------------- all groups at once


GROUPED = {
    "count": "COUNT(*)",
    "filtered": "COUNT(*) FILTER (WHERE sex = 'F')",
    "mixed": "COUNT(*) FILTER (WHERE sex = 'F' OR disease = 'flu')",
    "share": "COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*)",
}
"""Counts from one tally, from the records of some signatures, and from other ones for each value."""


@pytest.mark.slow
@pytest.mark.parametrize("expression", GROUPED.values(), ids=GROUPED)
def test_groups_that_are_counted_at_once_are_those_counted_one_by_one(release: Release, expression: str) -> None:
    answer = release.sql(f"SELECT disease, {expression} AS n FROM release WHERE age > 30 GROUP BY disease")
    assert len(answer.rows) == len(release.manifest.domain)
    for row in answer.rows:
        where = f"age > 30 AND disease = '{row['disease']}'"
        (alone,) = release.sql(f"SELECT {expression} AS n FROM release WHERE {where}").rows
        found, expected = ((each.value, each.standard_error, *each.interval()) for each in (row["n"], alone["n"]))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-6, nan_ok=True)
