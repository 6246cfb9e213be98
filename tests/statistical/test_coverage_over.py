"""Intervals of what SQL makes of estimates hold the truth as often as they say: windows, subtotals, functions, spread.

As for the simpler queries: a table is drawn, published and asked, time and again, and the truth comes from DuckDB on
the table itself, by the same query. Every query gives one number for each region, and regions are disjoint, so that
errors are independent, or nearly so where records share buckets.

Each assertion fails with probability ALPHA if coverage lies within the limits. Its twin makes intervals of a tenth of
the width, by a level of so much of the quantile, and has them rejected by the same judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from releases import known_key
from selection import examples
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._request.schema import Schema
from statistical.covering import Range, assert_covers, assert_covers_too_rarely
from statistical.test_coverage_queries import LEVEL, LIMITS, REGIONS, WAYS, Trial, people

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

NARROW = 2 * NormalDist().cdf(NormalDist().inv_cdf((1 + LEVEL) / 2) * 0.1) - 1
"""The level whose intervals have a tenth of the width, whatever their kind."""
AT_LEAST: Range = (LIMITS[0], 1.0)
"""Of upper bounds, and of numbers that take few values."""
RELEASES = examples(6, most=16)
MECHANISMS = ("uniform", "buckets")

SHAPES: Mapping[str, str] = {
    "a share of some groups": """SELECT region, x FROM (
        SELECT region, dose, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY region) AS x
        FROM release WHERE dose IN (0, 2, 5) GROUP BY region, dose) WHERE dose = 2 ORDER BY region""",
    "a running sum": """SELECT region, x FROM (
        SELECT region, dose, SUM(COUNT(*)) OVER (PARTITION BY region ORDER BY dose) AS x
        FROM release GROUP BY region, dose) WHERE dose = 2 ORDER BY region""",
    "a difference to the group before": """SELECT region, x FROM (
        SELECT region, dose, COUNT(*) - LAG(COUNT(*)) OVER (PARTITION BY region ORDER BY dose) AS x
        FROM release GROUP BY region, dose) WHERE dose = 2 ORDER BY region""",
    "a mean of a subtotal": """SELECT region, AVG(age) AS x FROM release WHERE dose IN (0, 2)
        GROUP BY GROUPING SETS ((region, smoker), (region)) HAVING GROUPING(smoker) = 1 ORDER BY region""",
    "a mean of groups": """SELECT region, AVG(n) AS x FROM (
        SELECT region, smoker, COUNT(*) AS n FROM release WHERE dose = 2 GROUP BY region, smoker)
        GROUP BY region ORDER BY region""",
    "a logarithm of a ratio": """SELECT region,
        LN(COUNT(*) FILTER (WHERE dose = 2) / COUNT(*) FILTER (WHERE dose = 0)) AS x
        FROM release GROUP BY region ORDER BY region""",
    "a rounded share": """SELECT region, ROUND(100.0 * COUNT(*) FILTER (WHERE dose = 2) / COUNT(*), 1) AS x
        FROM release GROUP BY region ORDER BY region""",
    "a standard deviation": """SELECT region, STDDEV(age) AS x FROM release WHERE dose IN (0, 2)
        GROUP BY region ORDER BY region""",
    "a correlation": """SELECT region, CORR(age, CAST(smoker AS INT)) AS x FROM release WHERE dose IN (0, 2)
        GROUP BY region ORDER BY region""",
    "a slope": """SELECT region, REGR_SLOPE(age, CAST(smoker AS INT)) AS x FROM release WHERE dose IN (0, 2)
        GROUP BY region ORDER BY region""",
}
CAREFUL: Mapping[str, str] = {
    "a median": "SELECT region, MEDIAN(age) AS x FROM release WHERE dose IN (0, 2) GROUP BY region ORDER BY region",
    "a ratio of two subqueries": """WITH a AS (SELECT region, COUNT(*) AS n FROM release WHERE dose = 2 GROUP BY 1),
        b AS (SELECT region, COUNT(*) AS n FROM release WHERE dose IN (0, 2) GROUP BY 1)
        SELECT region, a.n / b.n AS x FROM a JOIN b USING (region) ORDER BY region""",
}
ALL = {**SHAPES, **CAREFUL}


@cache
def trials(mechanism: str) -> Mapping[str, list[Trial]]:
    """All trials of a mechanism, by the shape of the query; what has no number by chance is left out."""
    found: dict[str, list[Trial]] = {name: [] for name in ALL}
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        for number in range(RELEASES):
            table = people(number)
            request = Request(
                table,
                schema=Schema.of("dose", public="*"),
                accept_disclosing=give_reasons(["smoker"]),
                **WAYS[mechanism].request(mechanism),
                **ALL_ACCEPTED,
            )
            made = publish(request, Path(folder) / str(number), unsafe_test_key=known_key(number))
            connection.register("release", table)
            for name, sql in ALL.items():
                rows = zip(made.release.sql(sql).rows, connection.sql(sql).fetchall(), strict=True)
                found[name] += [Trial(float(truth), row["x"]) for row, (_, truth) in rows if row["x"].has_interval]
    assert all(len(each) > 0.95 * RELEASES * REGIONS for each in found.values())
    return found


def coverage(mechanism: str, shape: str, level: float) -> tuple[float, int]:
    """The share of intervals that hold the truth, and how many there are."""
    found = trials(mechanism)[shape]
    return float(np.mean([trial.is_held(level) for trial in found])), len(found)


@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_intervals_over_estimates_hold_the_truth_as_often_as_they_say(mechanism: str, shape: str) -> None:
    assert_covers(*coverage(mechanism, shape, LEVEL), LIMITS if shape in SHAPES else AT_LEAST)


@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_intervals_of_a_tenth_of_the_width_would_be_noticed(mechanism: str, shape: str) -> None:
    assert_covers_too_rarely(*coverage(mechanism, shape, NARROW), LIMITS)
