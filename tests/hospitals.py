"""A hospital table with every type of column, published; and what the release says, computed slowly."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conditions import Condition, Row
from releases import published
from sfumato._query.release import Release
from sfumato._records import DATA_FILE
from sfumato._release.manifest import WEIGHTS

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
            FROM '{self.release.folder / DATA_FILE}' AS d, '{self.release.folder / WEIGHTS}' AS w
            WHERE ({public}) AND ({sensitive})"""
        with duckdb.connect() as connection:
            return float(connection.sql(sql).fetchall()[0][0])


def hospital_in(folder: Path) -> Published:
    """The table, published into a folder."""
    release = published(hospital(), folder)
    rows, weights = (pq.read_table(release.folder / name).to_pylist() for name in (DATA_FILE, WEIGHTS))
    return Published(release, rows, weights)


def counted(release: Release, sql: str) -> list[dict[str, Any]]:
    """The rows of an answer, with the estimate alone."""
    answer = release.sql(sql)
    return [{name: each.value if name in answer.numbers else each for name, each in row.items()} for row in answer.rows]


def close(number: float) -> Any:
    """The same number, up to the rounding of long sums."""
    return pytest.approx(number, rel=1e-9, abs=1e-9)
