"""Intervals of every shape of query hold the truth as often as they say, for every mechanism.

A table is drawn, published and asked, time and again; the truth comes from DuckDB on the table itself. One query asks
for all shapes in each region: regions are disjoint, so that their errors are independent, or nearly so where records
share buckets or decoys. Region, age and smoking go with the dose, which is what buckets and decoys are weakest at.

Each assertion fails with probability ALPHA if coverage lies within the limits. Its twin makes intervals of two
fifths of the width, by a level of so much of the quantile, and has them rejected by the same judgement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from releases import Way, known_key
from selection import examples
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.estimate import Estimate
from sfumato._query.release import Release
from sfumato._request.belief_bounds import BreachBound, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, LinearCap
from sfumato._request.schema import Schema
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from statistical.covering import assert_covers, assert_covers_too_rarely

pytestmark = pytest.mark.statistical

LEVEL = 0.95
NARROW = 2 * NormalDist().cdf(NormalDist().inv_cdf((1 + LEVEL) / 2) * 0.4) - 1
"""The level whose intervals have two fifths of the width, whatever their kind."""
LIMITS = (0.92, 0.99)
RELEASES, REGIONS, ROWS = examples(18, most=24), 10, 4000

WAYS: Mapping[str, Way] = {
    "uniform": Way(BreachBound("1/5", "3/5"), uniform.NoOptions()),
    "subset": Way(BreachBound("1/5", "3/5"), subset.Options()),
    "small-domain": Way(BreachBound("1/3", "3/4"), small_domain.Options(min_cell=500)),
    "fine-grain": Way(Tolerance(2), fine_grain.Options(objective=fine_grain.Objective.AGGREGATE)),
    "buckets": Way(LinearCap("3/2", "1/10"), buckets.Options()),
    "decoys": Way(DecoyGroups(2), _decoys.Options()),
}

SHAPES: Mapping[str, str] = {
    "a count": "COUNT(*) FILTER (WHERE dose = 2)",
    "a count that mixes columns": "COUNT(*) FILTER (WHERE dose = 2 OR smoker)",
    "a share": "COUNT(*) FILTER (WHERE dose = 2) / COUNT(*)",
    "a share of an estimate": "COUNT(*) FILTER (WHERE dose = 2 AND smoker) / COUNT(*) FILTER (WHERE dose = 2)",
    "a ratio": "COUNT(*) FILTER (WHERE dose = 2) / COUNT(*) FILTER (WHERE dose = 0)",
    "a difference": "COUNT(*) FILTER (WHERE dose = 2) - COUNT(*) FILTER (WHERE dose = 1)",
    "a public sum": "SUM(age) FILTER (WHERE dose IN (0, 2))",
    "a public mean": "AVG(age) FILTER (WHERE dose IN (0, 2))",
    "a sensitive sum": "SUM(dose)",
    "a sensitive mean": "AVG(dose)",
    "a sum of products": "SUM(age * dose)",
}
GROUPS = "groups of both"
PER_RELEASE: Mapping[str, int] = {**dict.fromkeys(SHAPES, REGIONS), GROUPS: 12}
"""How many numbers of each shape one release gives."""

QUERIES = (
    f"SELECT region, {', '.join(f'{sql} AS {chr(34)}{name}{chr(34)}' for name, sql in SHAPES.items())} "
    "FROM release GROUP BY region ORDER BY region",
    f'SELECT dose, smoker, COUNT(*) AS "{GROUPS}" FROM release WHERE age > 40 GROUP BY ALL ORDER BY dose, smoker',
)

DOSES = np.array([0, 1, 2, 5, 10, 20])
SHARES = np.array([0.28, 0.22, 0.2, 0.14, 0.1, 0.06])


@dataclass(frozen=True)
class Trial:
    """A number of the table, and the estimate that its release gives."""

    truth: float
    estimate: Estimate

    def is_held(self, level: float) -> bool:
        """Whether the interval holds the truth, up to rounding."""
        low, high = self.estimate.interval(level)
        rounding = 1e-9 * abs(self.truth)
        return low - rounding <= self.truth <= high + rounding


def people(number: int) -> pa.Table:
    """A table in which everything goes with the dose."""
    chance = np.random.default_rng(number)
    code = chance.choice(len(DOSES), ROWS, p=SHARES)
    columns = {
        "region": (chance.random(ROWS) * REGIONS + 0.15 * code * chance.random(ROWS)).astype(np.int64) % REGIONS,
        "age": np.clip(chance.normal(40 + 3 * code, 15), 0, 99).round().astype(np.int64),
        "smoker": chance.random(ROWS) < 0.2 + 0.08 * code,
        "dose": DOSES[code],
    }
    return pa.table(columns)


@cache
def trials(mechanism: str) -> Mapping[str, list[Trial]]:
    """All trials of a mechanism, by the shape of the query."""
    found: dict[str, list[Trial]] = {name: [] for name in PER_RELEASE}
    with TemporaryDirectory() as folder:
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
            for name, trial in asked(made.release, table):
                found[name].append(trial)
    assert {name: len(each) for name, each in found.items()} == {
        name: RELEASES * times for name, times in PER_RELEASE.items()
    }
    return found


def asked(release: Release, table: pa.Table) -> Iterator[tuple[str, Trial]]:
    """The numbers of one release, each with the shape of its query."""
    with duckdb.connect() as connection:
        connection.register("release", table)
        for sql in QUERIES:
            answer, truth = release.sql(sql), connection.sql(sql).to_arrow_table().to_pylist()
            for row, true in zip(answer.rows, truth, strict=True):
                assert [row[name] for name in row if name not in answer.numbers] == _groups(true, answer.numbers)
                yield from ((name, Trial(float(true[name]), row[name])) for name in answer.numbers)


def _groups(row: Mapping[str, Any], numbers: tuple[str, ...]) -> list[Any]:
    return [value for name, value in row.items() if name not in numbers]


def coverage(mechanism: str, shape: str, level: float) -> float:
    """The share of intervals that hold the truth."""
    return float(np.mean([trial.is_held(level) for trial in trials(mechanism)[shape]]))


@pytest.mark.parametrize("shape", PER_RELEASE)
@pytest.mark.parametrize("mechanism", WAYS)
def test_intervals_hold_the_truth_as_often_as_they_say(mechanism: str, shape: str) -> None:
    assert_covers(coverage(mechanism, shape, LEVEL), RELEASES * PER_RELEASE[shape], LIMITS)


@pytest.mark.parametrize("shape", PER_RELEASE)
@pytest.mark.parametrize("mechanism", WAYS)
def test_intervals_of_two_fifths_of_the_width_would_be_noticed(mechanism: str, shape: str) -> None:
    assert_covers_too_rarely(coverage(mechanism, shape, NARROW), RELEASES * PER_RELEASE[shape], LIMITS)


@pytest.mark.parametrize("mechanism", WAYS)
def test_certain_bounds_hold_always(mechanism: str) -> None:
    for shape, found in trials(mechanism).items():
        for trial in found:
            moments, rounding = trial.estimate.moments, 1e-9 * abs(trial.truth)
            assert moments.least - rounding <= trial.truth <= moments.most + rounding, shape
