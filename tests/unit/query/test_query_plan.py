"""Queries over estimates: the same number by another query has the same value, error and interval."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from refusals import refuses
from releases import WAYS, Way, known_key
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query import group_estimation as estimation
from sfumato._query.estimate import EXACT_METHOD, Estimate
from sfumato._query.query_plan.quantiles import fit_isotonic
from sfumato._query.release import Release
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato.errors import QueryError

pytestmark = pytest.mark.filterwarnings("ignore::sfumato._request.warnings.NoticeWarning")

ROWS = 1200
CODES = pa.table({"disease": ["flu", "cold", "asthma", "HIV"], "part": ["lung", "lung", "lung", "blood"]})


def _people() -> pa.Table:
    chance = np.random.default_rng(11)
    code = chance.choice(4, ROWS, p=[0.4, 0.3, 0.2, 0.1])
    return pa.table(
        {
            "sex": chance.choice(["F", "M"], ROWS),
            "ward": np.array(["A", "B", "C"])[(chance.random(ROWS) * 3 + 0.2 * code).astype(int) % 3],
            "stay": 1 + chance.poisson(2 + code),
            "drugs": chance.poisson(3 + code),
            "disease": np.array(["flu", "cold", "asthma", "HIV"])[code],
        }
    )


PEOPLE = _people()


@pytest.fixture(
    scope="module",
    params=["uniform", *(pytest.param(name, marks=pytest.mark.slow) for name in ("small-domain", "buckets", "decoys"))],
)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    way = WAYS[request.param] if request.param != "uniform" else Way(BreachBound("1/3", "3/4"), WAYS["uniform"].options)
    asked = Request(
        PEOPLE,
        schema=Schema.of("disease", public="*"),
        **way.request(request.param),
        accept_disclosing=give_reasons(("stay", "drugs", "ward", "sex")),
        **ALL_ACCEPTED,
    )
    return publish(asked, tmp_path_factory.mktemp("over") / "release", unsafe_test_key=known_key(3)).release


def assert_same(one: Estimate, other: Estimate) -> None:
    """Two estimates are the same number with the same error."""
    assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-9)
    assert one.standard_error == pytest.approx(other.standard_error, rel=1e-6, abs=1e-9)
    assert list(one.interval()) == pytest.approx(list(other.interval()), rel=1e-6, abs=1e-6)


def column(release: Release, sql: str, name: str) -> list[Estimate]:
    return [row[name] for row in release.sql(sql).rows]


ONE_ROW: Mapping[str, tuple[str, str]] = {
    "a percentage of all": (
        "SELECT 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS x, disease FROM release GROUP BY disease ORDER BY "
        "disease = 'flu' DESC LIMIT 1",
        "SELECT 100 * COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS x FROM release",
    ),
    "a share of some": (
        "SELECT COUNT(*) / SUM(COUNT(*)) OVER () AS x, disease FROM release WHERE disease IN ('flu', 'cold') "
        "GROUP BY disease ORDER BY disease DESC LIMIT 1",
        "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS x FROM release WHERE disease IN ('flu', 'cold')",
    ),
    "a running sum": (
        "SELECT SUM(COUNT(*)) OVER (ORDER BY ward) AS x FROM release WHERE disease = 'flu' GROUP BY ward ORDER "
        "BY ward DESC LIMIT 1",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu'",
    ),
    "a running sum of numbers": (
        "SELECT SUM(SUM(stay)) OVER (ORDER BY ward) AS x FROM release WHERE disease = 'flu' GROUP BY ward ORDER "
        "BY ward DESC LIMIT 1",
        "SELECT SUM(stay) AS x FROM release WHERE disease = 'flu'",
    ),
    "a difference to the row before": (
        "SELECT COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY disease) AS x FROM release GROUP BY disease ORDER BY "
        "disease LIMIT 1 OFFSET 1",
        "SELECT COUNT(*) FILTER (WHERE disease = 'asthma') - COUNT(*) FILTER (WHERE disease = 'HIV') AS x FROM release",
    ),
    "a ratio to the first": (
        "SELECT COUNT(*) / FIRST_VALUE(COUNT(*)) OVER (ORDER BY disease) AS x FROM release GROUP BY disease "
        "ORDER BY disease DESC LIMIT 1",
        "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) FILTER (WHERE disease = 'HIV') AS x FROM release",
    ),
    "a named window": (
        "SELECT SUM(COUNT(*)) OVER w AS x FROM release WHERE disease = 'flu' GROUP BY ward WINDOW w AS () LIMIT 1",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu'",
    ),
    "a subtotal": (
        "SELECT sex, disease, COUNT(*) AS x FROM release GROUP BY ROLLUP (disease, sex) HAVING GROUPING(sex) = 1 "
        "AND disease = 'flu'",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu'",
    ),
    "a subtotal of means": (
        "SELECT AVG(stay) AS x FROM release WHERE disease = 'flu' GROUP BY CUBE (sex, ward) HAVING GROUPING(sex, "
        "ward) = 3",
        "SELECT AVG(stay) AS x FROM release WHERE disease = 'flu'",
    ),
    "a total of groups": (
        "SELECT SUM(n) AS x FROM (SELECT sex, ward, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY ALL)",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu'",
    ),
    "a total of groups of the protected column": (
        "WITH c AS (SELECT disease, COUNT(*) AS n FROM release GROUP BY 1) SELECT SUM(n) FILTER (WHERE disease "
        "<> 'flu') AS x FROM c",
        "SELECT COUNT(*) AS x FROM release WHERE disease <> 'flu'",
    ),
    "a mean of groups": (
        "SELECT AVG(n) AS x FROM (SELECT ward, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY ward)",
        "SELECT COUNT(*) / 3 AS x FROM release WHERE disease = 'flu'",
    ),
    "a share by a subquery": (
        "SELECT COUNT(*) / (SELECT COUNT(*) FROM release) AS x FROM release WHERE disease = 'flu'",
        "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS x FROM release",
    ),
    "a share by a WITH that is named twice": (
        "WITH c AS (SELECT disease, COUNT(*) AS n FROM release WHERE disease IN ('flu', 'cold') GROUP BY disease) "
        "SELECT n / (SELECT SUM(n) FROM c) AS x FROM c WHERE disease = 'flu'",
        "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS x FROM release WHERE disease IN ('flu', 'cold')",
    ),
    "joined groups": (
        "WITH f AS (SELECT ward, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY ward), "
        "t AS (SELECT ward, COUNT(*) AS n FROM release GROUP BY ward) SELECT f.n / t.n AS x FROM f JOIN t USING "
        "(ward) WHERE ward = 'A'",
        "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS x FROM release WHERE ward = 'A'",
    ),
    "an alias of the same SELECT": (
        "SELECT COUNT(*) AS n, n / 2 AS x FROM release WHERE disease = 'flu'",
        "SELECT COUNT(*) / 2 AS x FROM release WHERE disease = 'flu'",
    ),
    "one below the other": (
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu' UNION ALL SELECT 17 LIMIT 1",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu'",
    ),
    "a CASE": (
        "SELECT CASE WHEN COUNT(*) > 0 THEN COUNT(*) ELSE 0 END AS x FROM release WHERE disease = 'flu'",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu'",
    ),
    "a COALESCE": (
        "SELECT COALESCE(LAG(COUNT(*)) OVER (ORDER BY ward), COUNT(*)) AS x FROM release WHERE disease = 'flu' "
        "GROUP BY ward LIMIT 1",
        "SELECT COUNT(*) AS x FROM release WHERE disease = 'flu' AND ward = 'A'",
    ),
    "the largest": (
        "SELECT MAX(n) AS x FROM (SELECT disease, COUNT(*) AS n FROM release GROUP BY disease)",
        "SELECT COUNT(*) AS x FROM release GROUP BY disease ORDER BY x DESC LIMIT 1",
    ),
}


@pytest.mark.parametrize("name", ONE_ROW)
def test_the_same_number_by_another_query_has_the_same_error(release: Release, name: str) -> None:
    one, other = (column(release, sql, "x") for sql in ONE_ROW[name])
    assert len(one) == len(other) == 1
    assert_same(one[0], other[0])


@pytest.mark.slow
def test_all_subtotals_are_those_of_queries_of_their_own(release: Release) -> None:
    cube = release.sql(
        "SELECT sex, disease, COUNT(*) AS n, AVG(stay) AS stay FROM release GROUP BY CUBE (sex, disease)"
    )
    assert len(cube.rows) == 3 * 5
    assert cube.note == "a subtotal has no value in the columns that it sums over"
    for row in cube.rows:
        wanted = [f"{name} = '{row[name]}'" for name in ("sex", "disease") if row[name] is not None]
        where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        (alone,) = release.sql(f"SELECT COUNT(*) AS n, AVG(stay) AS stay FROM release{where}").rows
        assert_same(row["n"], alone["n"])
        assert_same(row["stay"], alone["stay"])


def test_name_of_a_column_can_be_chosen_and_ordered_by_beside_a_window(release: Release) -> None:
    sql = (
        "SELECT sex AS s, COUNT(*) AS n{} FROM release WHERE disease = 'flu' GROUP BY sex HAVING s > '' ORDER BY s DESC"
    )
    plain, ranked = (release.sql(sql.format(each)) for each in ("", ", RANK() OVER (ORDER BY COUNT(*)) AS r"))
    assert [(row["s"], row["n"]) for row in plain.rows] == [(row["s"], row["n"]) for row in ranked.rows]
    assert [row["s"] for row in plain.rows] == sorted((row["s"] for row in plain.rows), reverse=True)


def test_subtotals_that_are_written_otherwise_are_refused(release: Release) -> None:
    with refuses(QueryError, "unsupported-subtotals"):
        release.sql("SELECT sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY sex WITH ROLLUP")


def test_formula_of_one_row_has_the_error_of_the_sum_that_it_is_made_of(release: Release) -> None:
    """The error of the square of a count is twice the count times its error, as next to nothing is added to it."""
    flu, others = (f"COUNT(*) FILTER (WHERE disease {sign} 'flu' AND stay > 3)" for sign in ("=", "<>"))
    counts = f"SELECT sex, {flu} AS n, {others} AS m FROM release GROUP BY sex"
    plain = f"SELECT {flu} AS n, {flu} + 1e-9 * {others} AS s, {flu} * {flu} AS q FROM release GROUP BY sex"
    for asked in (plain, f"SELECT * FROM ({plain})", f"SELECT n, n + 1e-9 * m AS s, n * n AS q FROM ({counts})"):
        for row in release.sql(asked).rows:
            expected = 2 * abs(row["n"].value) * row["s"].standard_error
            assert row["q"].standard_error == pytest.approx(expected, rel=1e-6)


def test_errors_of_numbers_that_never_meet_are_not_worked_out_together(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimation, "MOST_WEIGHTS", 20)
    means = ", ".join(f"AVG(stay + {at}) AS m{at}" for at in range(9))
    sql = f"SELECT {means} FROM release WHERE disease = 'flu'"
    assert len(release.sql(sql).numbers) == 9
    with refuses(QueryError, "query-too-large", limit=20):
        release.sql(f"SELECT * FROM ({sql})")


def test_functions_take_intervals_along(release: Release) -> None:
    ((row,), (plain,)) = (
        release.sql(f"SELECT {each} FROM release WHERE disease = 'flu'").rows
        for each in (
            "LN(COUNT(*)) AS l, SQRT(COUNT(*)) AS r, EXP(COUNT(*) / 1000) AS e, ROUND(COUNT(*), -1) AS t",
            "COUNT(*)",
        )
    )
    count = plain["n"]
    low, high = count.interval()
    assert row["l"].value == pytest.approx(math.log(count.value))
    assert row["l"].standard_error == pytest.approx(count.standard_error / count.value)
    assert list(row["l"].interval()) == pytest.approx([math.log(low), math.log(high)])
    assert list(row["r"].interval()) == pytest.approx([math.sqrt(low), math.sqrt(high)])
    assert list(row["e"].interval()) == pytest.approx([math.exp(low / 1000), math.exp(high / 1000)])
    assert row["t"].value == round(count.value, -1)
    assert row["t"].interval().low <= round(low, -1) + 1e-9
    assert row["t"].interval().high >= round(high, -1) - 1e-9


def test_parts_with_conditions_of_their_own_get_an_upper_bound(release: Release) -> None:
    bound = release.sql(
        "SELECT (SELECT COUNT(*) FROM release WHERE disease = 'flu' AND ward = 'A') - (SELECT COUNT(*) FROM release "
        "WHERE disease = 'cold' AND ward = 'A') AS x"
    ).rows[0]["x"]
    together = release.sql(
        "SELECT COUNT(*) FILTER (WHERE disease = 'flu') - COUNT(*) FILTER (WHERE disease = 'cold') AS x "
        "FROM release WHERE ward = 'A'"
    ).rows[0]["x"]
    assert bound.value == pytest.approx(together.value)
    assert bound.standard_error >= together.standard_error * (1 - 1e-9)
    assert "upper bound" in (bound.note or "")


def test_what_estimates_decide_says_so(release: Release) -> None:
    ranked = release.sql(
        "SELECT disease, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM release WHERE ward = 'A' GROUP BY disease"
    )
    assert "place depends on estimates and thus partly on chance" in (ranked.note or "")
    assert ranked.method != EXACT_METHOD
    by_name = release.sql(
        "SELECT disease, RANK() OVER (ORDER BY disease) AS place, COUNT(*) FROM release GROUP BY disease"
    )
    assert by_name.note is None
    chosen = release.sql(
        "SELECT COUNT(*) AS many FROM (SELECT ward, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY 1) "
        "WHERE n > 9"
    )
    assert "many depends on estimates" in (chosen.note or "")


def test_ranks_and_rows_are_those_of_the_estimates(release: Release) -> None:
    ranked = release.sql(
        "SELECT ward, disease, COUNT(*) AS n, RANK() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC) AS place "
        "FROM release GROUP BY ALL"
    ).rows
    for row in ranked:
        above = [each for each in ranked if each["ward"] == row["ward"] and each["n"].value > row["n"].value]
        assert row["place"] == len(above) + 1
    top = release.sql(
        "SELECT ward, disease, COUNT(*) AS n FROM release GROUP BY ALL QUALIFY ROW_NUMBER() OVER (PARTITION BY "
        "ward ORDER BY n DESC) <= 2"
    ).rows
    assert {(row["ward"], row["disease"]) for row in top} == {
        (row["ward"], row["disease"]) for row in ranked if row["place"] <= 2
    }


def test_intervals_that_hold_together_count_every_candidate(release: Release) -> None:
    sql = (
        "SELECT ward, disease, COUNT(*) AS n FROM release GROUP BY ALL QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) = 1"
    )
    assert release.sql(sql, simultaneous=True).estimate_count == 12


def test_a_public_number_of_a_joined_table_scales(release: Release) -> None:
    shares = release.sql(
        "WITH t AS (SELECT ward, COUNT(*) AS total FROM release GROUP BY ward) SELECT release.ward, COUNT(*) / "
        "MAX(t.total) AS x FROM release JOIN t ON t.ward = release.ward WHERE disease = 'flu' GROUP BY 1"
    ).rows
    for row in shares:
        sql = (
            f"SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS x FROM release WHERE ward = '{row['ward']}'"
        )
        assert_same(row["x"], column(release, sql, "x")[0])
    with refuses(QueryError, "extreme-under-condition"):
        release.sql(
            "WITH t AS (SELECT ward, COUNT(*) AS total FROM release GROUP BY ward) SELECT MAX(t.total) "
            "FROM release JOIN t ON t.ward = release.ward WHERE disease = 'flu'"
        )


def test_no_row_gives_no_number(release: Release) -> None:
    (row,) = release.sql(
        "SELECT SUM(n) AS x, COUNT(*) AS rows FROM (SELECT ward, COUNT(*) AS n FROM release WHERE disease = "
        "'flu' GROUP BY 1) WHERE ward = 'Z'"
    ).rows
    empty: dict[str, Any] = {"x": row["x"].value, "rows": row["rows"]}
    assert math.isnan(empty["x"])
    assert empty["rows"] == 0


SPREAD = {
    "VAR_POP(stay)": "SUM(stay * stay) / COUNT(*) - AVG(stay) * AVG(stay)",
    "VARIANCE(stay)": "(SUM(stay * stay) - SUM(stay) * SUM(stay) / COUNT(*)) / (COUNT(*) - 1)",
    "COVAR_POP(stay, drugs)": "SUM(stay * drugs) / COUNT(*) - AVG(stay) * AVG(drugs)",
    "REGR_SLOPE(stay, drugs)": "(SUM(stay * drugs) - SUM(stay) * SUM(drugs) / COUNT(*)) "
    "/ (SUM(drugs * drugs) - SUM(drugs) * SUM(drugs) / COUNT(*))",
    "REGR_AVGX(stay, drugs)": "AVG(drugs)",
}


@pytest.mark.parametrize("aggregate", SPREAD)
def test_spread_is_what_its_formula_says(release: Release, aggregate: str) -> None:
    sql = "SELECT {} AS x FROM release WHERE disease IN ('flu', 'HIV') AND ward = 'A'"
    ((one,), (other,)) = (column(release, sql.format(each), "x") for each in (aggregate, SPREAD[aggregate]))
    assert one.value == pytest.approx(other.value, rel=1e-6)
    assert one.standard_error == pytest.approx(other.standard_error, rel=1e-4)


def test_spread_of_what_is_known_is_that_of_duckdb(release: Release) -> None:
    """All values together are known, so the sums are, and nothing may be left of the way that they were taken."""
    aggregates = (
        "STDDEV(stay), STDDEV_POP(stay), CORR(stay, drugs), COVAR_SAMP(stay, drugs), REGR_INTERCEPT(stay, drugs), "
    )
    aggregates += "REGR_R2(stay, drugs), REGR_COUNT(stay, drugs), REGR_SXX(stay, drugs), REGR_SYY(stay, drugs)"
    (row,) = release.sql(f"SELECT {aggregates} FROM release WHERE disease IS NOT NULL").rows
    (truth,) = duckdb.from_arrow(PEOPLE).aggregate(aggregates).fetchall()
    assert [each.value for each in row.values()] == pytest.approx(list(truth), rel=1e-9)
    assert all(each.is_exact for each in row.values())


def test_spread_that_is_below_zero_by_chance_has_no_root(release: Release) -> None:
    found = column(
        release, "SELECT stay, SQRT(COUNT(*) - 1000) AS x FROM release WHERE disease = 'flu' GROUP BY stay", "x"
    )
    assert all(
        math.isnan(each.value) and each.note == "no root, because the estimate is negative by chance" for each in found
    )


QUANTILES = ("MEDIAN(stay)", "QUANTILE_CONT(stay, 0.9)", "QUANTILE_DISC(stay, 0.25)", "QUANTILE_CONT(stay, 0.1)")


@pytest.mark.parametrize("aggregate", QUANTILES)
def test_quantiles_of_what_is_known_are_those_of_duckdb(release: Release, aggregate: str) -> None:
    (found,) = column(release, f"SELECT {aggregate} AS x FROM release WHERE disease IS NOT NULL", "x")
    ((truth,),) = duckdb.from_arrow(PEOPLE).aggregate(aggregate).fetchall()
    assert found.value == pytest.approx(truth)
    assert found.is_exact


def test_quantiles_lie_where_the_counts_say(release: Release) -> None:
    """By brute force: each end is where a count below, asked by itself, can no longer be the share."""
    (found,) = column(
        release, "SELECT QUANTILE_DISC(stay, 0.5) AS x FROM release WHERE disease = 'flu' AND ward <> 'C'", "x"
    )
    low, high = found.interval(0.9)
    ends = [low, high] if found.moments.base[0] == 0 else found.origin.interval(0.9)  # type: ignore[union-attr]
    reached: dict[int, bool] = {}
    surely: dict[int, bool] = {}
    for stay in sorted({*PEOPLE["stay"].to_pylist()}):
        sql = f"SELECT COUNT(*) FILTER (WHERE stay <= {stay}) - 0.5 * COUNT(*) AS x FROM release "
        sql += "WHERE disease = 'flu' AND ward <> 'C'"
        (more,) = column(release, sql, "x")
        error = (more.standard_error or 0.0) * 1.6448536
        reached[stay], surely[stay] = more.value + error >= 0, more.value - error >= 0
    first = min(stay for stay, holds in reached.items() if holds)
    assert ends[0] == first
    assert ends[1] == min(stay for stay in surely if all(holds for other, holds in surely.items() if other >= stay))


def test_quantiles_of_very_many_values_are_told_in_points(release: Release) -> None:
    value = "stay + drugs * 0.01 + stay * drugs * 0.37 + stay * stay * drugs * 0.0123"
    (found,) = column(release, f"SELECT MEDIAN({value}) AS x FROM release WHERE disease = 'flu'", "x")
    ((truth,),) = duckdb.from_arrow(PEOPLE).filter("disease = 'flu'").aggregate(f"MEDIAN({value})").fetchall()
    low, high = found.interval(0.9999)
    assert low <= truth <= high


def test_distribution_that_falls_by_chance_is_made_to_rise() -> None:
    assert fit_isotonic(np.array([1.0, 3.0, 2.0, 2.5, 6.0])).tolist() == [1.0, 2.5, 2.5, 2.5, 6.0]


def test_logarithm_of_what_may_be_zero_has_no_lower_end(release: Release) -> None:
    sql = "SELECT stay, ward, sex, LN(COUNT(*)) AS x FROM release WHERE disease = 'HIV' GROUP BY ALL"
    found = [each for each in column(release, sql, "x") if each.has_interval and not each.is_exact]
    open_ended = [each for each in found if each.interval().low == -math.inf]
    assert open_ended
    assert all("for which the function has no value" in each.list_notes()[-1] for each in open_ended)
    assert all(each.to_row()[2] is None for each in open_ended)


def test_tables_and_columns_are_described(release: Release) -> None:
    described = release.sql("DESCRIBE release")
    assert [(row["column"], row["type"], row["role"]) for row in described.rows] == release.columns
    shown = release.sql("SHOW TABLES", attach={"codes": CODES}).rows
    assert [dict(row) for row in shown] == [{"table": "release", "rows": ROWS}, {"table": "codes", "rows": 4}]
    (stay,) = (row for row in release.sql("SUMMARIZE release").rows if row["column"] == "stay")
    (truth,) = (
        duckdb.from_arrow(PEOPLE).aggregate("MIN(stay)::VARCHAR, MAX(stay)::VARCHAR, COUNT(DISTINCT stay)").fetchall()
    )
    assert (stay["least"], stay["largest"], stay["different"], stay["missing"]) == (*truth, 0)
    protected = [row for row in release.sql("SUMMARIZE release").rows if row["column"] == "disease"]
    assert all((row["least"], row["largest"], row["different"]) == (None, None, 4) for row in protected)
    with refuses(QueryError, "unknown-table", table="patients"):
        release.sql("DESCRIBE patients")


def test_pivot_is_refused_with_the_query_that_does_it(release: Release) -> None:
    with refuses(QueryError, "pivot") as refused:
        release.sql("PIVOT release ON sex USING COUNT(*) GROUP BY disease")
    (instead,) = re.findall(r"ask (SELECT .* GROUP BY ALL),", str(refused.value))
    assert len(release.sql(instead).rows) == 8


def test_refusal_of_single_rows_names_a_query_that_works(release: Release) -> None:
    with refuses(QueryError, "protected-rows", column="disease") as refused:
        release.sql("SELECT sex, disease FROM release")
    (instead,) = re.findall(r"(SELECT .*)\.$", str(refused.value))
    assert len(release.sql(instead).rows) == 4


def test_exists_with_a_table_of_ones_own_is_a_condition_on_values(release: Release) -> None:
    for is_not in ("", "NOT "):
        sql = f"SELECT COUNT(*) AS x FROM release r WHERE ward = 'A' AND {is_not}EXISTS (SELECT 1 FROM codes c WHERE "
        sql += "c.disease = r.disease AND c.part = 'blood')"
        (one,) = (row["x"] for row in release.sql(sql, attach={"codes": CODES}).rows)
        (other,) = column(
            release, f"SELECT COUNT(*) AS x FROM release WHERE ward = 'A' AND {is_not}disease = 'HIV'", "x"
        )
        assert_same(one, other)


def test_no_value_is_missing_where_the_domain_has_none_that_is(release: Release) -> None:
    for sql in (
        "SELECT COUNT(*) AS x FROM release WHERE disease IS NULL",
        "SELECT COUNT_IF(disease IS NULL) AS x FROM release",
    ):
        (found,) = column(release, sql, "x")
        assert found.is_exact
        assert found.value == 0
