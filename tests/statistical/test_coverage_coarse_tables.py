"""Intervals of counts that combine coarse tables with noisy counts and sets hold the truth as often as they say.

The same people are published many times. Answers of one release share their noise, so releases are compared.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from releases import accepting, known_key, list_domains
from sfumato import BreachBound, Request, Schema, publish
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts

pytestmark = [pytest.mark.statistical, pytest.mark.full]

RELEASES = 200
ROWS = 600
QUESTIONS = {
    "each value": "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease",
    "each group": "SELECT age, sex, disease, COUNT(*) AS n FROM release GROUP BY age, sex, disease",
    "some groups": "SELECT disease, COUNT(*) AS n FROM release WHERE age > 20 AND sex = 'F' GROUP BY disease",
    "a mean": "SELECT AVG(age) AS n FROM release WHERE disease = 'flu'",
    "a share": "SELECT COUNT(*) FILTER (WHERE disease = 'flu') / COUNT(*) AS n FROM release WHERE age = 30",
}
"""Questions whose answers all use the coarse table."""


def make_people() -> pa.Table:
    chance = np.random.default_rng(8)
    return pa.table(
        {
            "age": chance.choice([20, 30, 40], ROWS),
            "sex": chance.choice(["F", "M"], ROWS),
            "region": chance.integers(0, 60, ROWS),
            "disease": chance.choice(["HIV", "cold", "flu", "none"], ROWS, p=[0.05, 0.15, 0.3, 0.5]),
        }
    )


def find_truth(table: pa.Table, sql: str) -> dict[tuple[Any, ...], float]:
    with duckdb.connect() as connection:
        connection.register("release", table)
        return {row[:-1]: float(row[-1]) for row in connection.execute(sql).fetchall()}


@cache
def list_answers() -> dict[str, npt.NDArray[np.float64]]:
    """For each question a line for each release and row: the error, the standard error, and whether it is covered."""
    table = make_people()
    asked = Schema.of("disease", public="*", domains=list_domains(table, ["disease"]))
    request = Request(
        table,
        schema=asked,
        spec=BreachBound("1/10", "1/3"),
        mechanism="noisy-counts",
        options={"noisy-counts": noisy_counts.Options(also_by="age,sex=1/4")},
        **accepting(table, asked),
        **ALL_ACCEPTED,
    )
    truths = {name: find_truth(table, sql) for name, sql in QUESTIONS.items()}
    lines: dict[str, list[tuple[float, float, bool]]] = {name: [] for name in QUESTIONS}
    with TemporaryDirectory() as folder:
        for number in range(RELEASES):
            target = Path(folder) / str(number)
            release = publish(request, target, unsafe_test_key=known_key(number), on_notice=lambda notice: None).release
            for name, sql in QUESTIONS.items():
                for row in release.sql(sql).rows:
                    estimate, key = row["n"], tuple(value for column, value in row.items() if column != "n")
                    truth, (low, high) = truths[name][key], estimate.interval()
                    lines[name].append((estimate.value - truth, estimate.standard_error, low <= truth <= high))
    return {name: np.array(own, dtype=np.float64) for name, own in lines.items()}


@pytest.mark.parametrize("question", QUESTIONS)
def test_estimates_are_right_on_average_and_scatter_as_much_as_they_say(question: str) -> None:
    errors, standard_errors, _ = list_answers()[question].T
    by_release = errors.reshape(RELEASES, -1)
    scatter = by_release.std(axis=0, ddof=1)
    assert (np.abs(by_release.mean(axis=0)) < 4 * scatter / np.sqrt(RELEASES)).all()
    ratio = (errors**2).mean() / (standard_errors**2).mean()
    assert 0.8 < ratio < 1.25


@pytest.mark.parametrize("question", QUESTIONS)
def test_intervals_hold_the_truth_as_often_as_they_say(question: str) -> None:
    is_covered = list_answers()[question][:, 2]
    assert 0.92 < is_covered.mean() < 0.98


def test_intervals_of_half_the_width_would_be_noticed() -> None:
    for lines in list_answers().values():
        errors, standard_errors, _ = lines.T
        assert (np.abs(errors) < 0.98 * standard_errors).mean() < 0.85
