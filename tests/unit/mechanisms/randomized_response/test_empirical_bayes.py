"""Shrunk counts: by hand on a small line, within what is certain, and never far from the unbiased count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from releases import list_domains, published, published_by
from selection import examples
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.estimate import Estimate
from sfumato._query.intervals import compute_intervals, compute_standard_errors
from sfumato._query.release import Release
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato.errors import InternalError, QueryError
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.empirical_bayes import make_counts_add_up, shrink_counts
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection

Floats = npt.NDArray[np.float64]

BOUND = BreachBound("1/10", "1/3")
DESIGNS: dict[str, Any] = {
    "uniform": uniform.Design(tuple(range(6)), uniform.compute_retention((7, 2), 6), BOUND),
    "subset": subset.Design(tuple(range(6)), SubsetSelection(6, 2, 18, 26), BOUND, subset.Form.BITS),
}
METHODS: dict[str, Any] = {"uniform": uniform.METHODS, "subset": subset.METHODS}
either = pytest.mark.parametrize("name", DESIGNS)


def by_hand(values: Sequence[float], noise: Sequence[float], expected: Sequence[float]) -> list[float]:
    """One line, value by value."""
    spread = 0.0
    triples = list(zip(values, noise, expected, strict=True))
    for _ in range(5):
        weights = [1 / (most / e**1.5 + spread) ** 2 for _, most, e in triples]
        excess = [((x - e) ** 2 - most) / e**1.5 for x, most, e in triples]
        spread = max(0.0, sum(w * each for w, each in zip(weights, excess, strict=True)) / sum(weights))
    spread = max(spread, math.sqrt(2 / sum((e**1.5 / most) ** 2 for _, most, e in triples)))
    found = []
    for x, most, e in triples:
        signal = spread * e**1.5
        typical = e * max(0.0, 1 - signal / e**2 / 9) ** 3
        found.append(max(0.0, typical + (x - typical) * signal / (signal + most)))
    return found


LINES = (
    ([40.0, -12.0, 95.0, 8.0, 19.0], [80.0, 60.0, 120.0, 60.0, 70.0], [30.0, 10.0, 60.0, 20.0, 30.0]),
    ([31.0, 9.0, 61.0, 21.0, 28.0], [80.0, 60.0, 120.0, 60.0, 70.0], [30.0, 10.0, 60.0, 20.0, 30.0]),
)


def test_a_line_is_pulled_as_by_hand_whatever_stands_beside_it() -> None:
    values, noise, expected = (np.array(each) for each in zip(*LINES, strict=True))
    for line, found in zip(LINES, shrink_counts(values, noise, expected), strict=True):
        assert found == pytest.approx(by_hand(*line), rel=1e-12)


def test_counts_that_vary_as_noise_does_are_pulled_further_than_others() -> None:
    values, noise, expected = (np.array(each) for each in zip(*LINES, strict=True))
    left = np.abs(shrink_counts(values, noise, expected) - expected) / np.abs(values - expected)
    assert np.median(left[0]) > 1.3 * np.median(left[1])


def test_without_noise_nothing_is_pulled_and_what_nobody_is_expected_to_have_stays() -> None:
    values = np.array([[30.0, -2.0, 0.0, 12.0]])
    assert shrink_counts(values, np.zeros((1, 4)), np.array([[20.0, 10.0, 0.0, 10.0]])).tolist() == [
        [30.0, 0.0, 0.0, 12.0]
    ]
    assert shrink_counts(values, np.full((1, 4), 9.0), np.zeros((1, 4))).tolist() == [[0.0, 0.0, 0.0, 0.0]]


lines = st.lists(st.integers(0, 200), min_size=6, max_size=6)


def _tally(name: str, shown: Sequence[int], whole: Sequence[int]) -> Tally:
    """Sets of two hold two values each; the whole has at least what the condition selects."""
    members = 1 if name == "uniform" else 2
    counts, everything = np.array(shown), np.array(shown) + np.array(whole)
    rows, total = (max(math.ceil(each.sum() / members), int(each.max())) for each in (counts, everything))
    return Tally.of_one(counts, rows).attach_context(Tally.of_one(everything, max(rows, total)), None)


@either
@given(shown=lines, whole=lines)
@settings(max_examples=examples(50))
def test_a_shrunk_count_is_possible_and_near_the_unbiased_one_whose_interval_it_has(
    name: str, shown: list[int], whole: list[int]
) -> None:
    tally, design, methods = _tally(name, shown, whole), DESIGNS[name], METHODS[name]
    wanted = [np.array(places, dtype=np.int64) for places in ([0], [5], [1, 2], [0, 1, 2, 3, 4], range(6), [])]
    pairs = zip(
        methods["closed"].count(design, tally, wanted), methods["shrunk"].count(design, tally, wanted), strict=True
    )
    for closed, shrunk in pairs:
        assert (closed.least <= shrunk.value).all()
        assert (shrunk.value <= closed.most).all()
        nearest = np.clip(closed.value, closed.least, closed.most)
        assert np.abs(shrunk.value - nearest) <= 2 * compute_standard_errors(closed) + 1e-9
        assert compute_standard_errors(shrunk) == pytest.approx(compute_standard_errors(closed))
        assert np.array(compute_intervals(shrunk, 0.9)) == pytest.approx(np.array(compute_intervals(closed, 0.9)))
        assert (shrunk.is_certain == closed.is_certain).all()


@either
def test_all_records_are_counted_as_without_shrinking(name: str) -> None:
    """Nothing else is known of them; what is below zero is nobody, and is taken from the others in equal parts."""
    tally = _tally(name, [60, 50, 40, 40, 40, 2], [0] * 6)
    wanted = [np.array([place]) for place in range(6)]
    found = [
        np.concatenate([each.value for each in METHODS[name][method].count(DESIGNS[name], tally, wanted)])
        for method in ("closed", "shrunk")
    ]
    is_nobody = found[0] < 0
    taken = found[0][is_nobody].sum() / (~is_nobody).sum()
    assert taken < 0
    assert found[1] == pytest.approx(np.where(is_nobody, 0.0, found[0] + taken))


def test_counts_that_add_up_are_the_nearest_ones() -> None:
    """By hand: of 10 and 7, 4 are too many; -3 is nobody's; of a line without records nothing is left."""
    counts = np.array([[10.0, 7.0, -3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [5.0, -1.0, 0.0, 3.0]])
    assert make_counts_add_up(counts, np.array([13.0, 12.0, 0.0])) == pytest.approx(
        np.array([[8.0, 5.0, 0.0, 0.0], [3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    )


@either
def test_a_rare_value_is_pulled_towards_its_share(name: str) -> None:
    """Half as many show it as noise alone would; the unbiased count is negative, the shrunk one is not."""
    tally = _tally(name, [30, 24, 22, 20, 16, 8], [1500, 1200, 1100, 1000, 800, 900])
    (closed,), (shrunk,) = (
        METHODS[name][way].count(DESIGNS[name], tally, [np.array([5])]) for way in ("closed", "shrunk")
    )
    assert closed.value < 0 <= shrunk.value


@either
def test_counts_are_not_shrunk_without_the_whole_release(name: str) -> None:
    with refuses(InternalError, "no-release-counts"):
        METHODS[name]["shrunk"].count(DESIGNS[name], Tally.of_one(np.arange(6), 15), [np.array([0])])


# ------------------------------------------------------------------------------------------------------------ a release


@pytest.fixture(scope="module", params=list(DESIGNS))
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    chance = np.random.default_rng(3)
    diseases = np.array(["flu", "cold", "HIV", "gout"])[np.minimum(chance.geometric(0.5, 800) - 1, 3)]
    table = pa.table({"sex": chance.choice(["F", "M"], 800), "age": chance.integers(20, 25, 800), "disease": diseases})
    folder: Path = tmp_path_factory.mktemp("shrunk") / "release"
    return published_by(request.param, table, folder)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", DESIGNS)
def test_shrunk_counts_of_one_column_of_a_compound_add_up(mechanism: str, tmp_path: Path) -> None:
    """To the number of people, but for a tenth, because none is further than two errors from the unbiased count.

    With 10 wards and 30 diseases, most combinations have fewer people than their error, and half of the unbiased counts
    are negative.
    """
    chance = np.random.default_rng(4)
    table = pa.table(
        {
            "sex": chance.choice(["F", "M"], 3000),
            "ward": [f"ward {number}" for number in chance.integers(0, 10, 3000)],
            "disease": [f"disease {number}" for number in np.minimum(chance.geometric(0.2, 3000), 30)],
        }
    )
    domains = list_domains(table, ["ward", "disease"])
    schema = Schema.of(compound=["ward", "disease"], public="*", domains=domains)
    release = published(table, tmp_path / "release", schema=schema, mechanism=mechanism)
    for column, where, people in (
        ("ward", "1 = 1", 3000),
        ("disease", "1 = 1", 3000),
        ("ward", "sex = 'F'", table["sex"].to_pylist().count("F")),
    ):
        sql = f"SELECT {column}, COUNT(*) AS n FROM release WHERE {where} GROUP BY {column}"
        counted = {
            method: [row["n"].value for row in release.sql(sql, method=method).rows] for method in METHODS[mechanism]
        }
        assert sum(counted["shrunk"]) == pytest.approx(people, rel=0.1)
        assert min(counted["shrunk"]) >= 0


@pytest.mark.slow
def test_a_shrunk_count_is_the_same_by_every_path(release: Release) -> None:
    sql = "SELECT age, disease, COUNT(*) AS n FROM release WHERE sex = 'F' GROUP BY age, disease"
    rows = release.sql(sql, method="shrunk").rows
    queries = [CountQuery({"sex": "F", "age": row["age"]}, [row["disease"]]) for row in rows]
    questions = [
        f"SELECT COUNT(*) AS n FROM release WHERE {query.sql} AND disease = '{query.values[0]}'"
        for query in queries
        if query.values
    ]
    many = release.count_many(queries, method="shrunk")
    asked = release.ask_many(questions[:4], method="shrunk")
    assert len(rows) == 20
    for row, each in zip(rows, many, strict=True):
        assert each.value == pytest.approx(row["n"].value, abs=1e-9)
        assert each.interval() == pytest.approx(row["n"].interval(), abs=1e-9)
    for query, each in zip(queries[:3], many, strict=False):
        one = release.count(query.values[0], where=query.sql, method="shrunk")  # type: ignore[index]
        assert one.value == pytest.approx(each.value, abs=1e-9)
    values = [answer.get_estimate().value for answer in asked if not isinstance(answer, Exception)]
    assert values == pytest.approx(many.value[:4].tolist(), abs=1e-9)


def test_an_answer_says_that_it_is_shrunk_and_whose_interval_it_has(release: Release) -> None:
    shrunk, closed = (release.count("gout", where="age = 21", method=method) for method in ("shrunk", None))
    assert "biased" in shrunk.method
    assert shrunk.note is not None
    assert shrunk.note.startswith("biased, because it is shrunk towards")
    assert shrunk.interval() == closed.interval()
    digits = 1 if "." in str(closed) else 0
    assert str(shrunk) == f"{shrunk.value:.{digits}f} beside {closed}"
    tenth = shrunk.scale(0.1, 3.0)
    assert tenth.interval() == pytest.approx(closed.scale(0.1, 3.0).interval())
    assert tenth.value == pytest.approx(0.1 * shrunk.value + 3)


def test_what_is_shrunk_is_neither_made_consistent_nor_added_up(release: Release) -> None:
    sql = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"
    with refuses(QueryError, "method-without-errors", operation="weights"):
        release.sql(sql, method="shrunk", consistent=True)
    with refuses(QueryError, "only-counts", by="method"):
        release.sum("age", where="disease = 'gout'", method="shrunk")


def test_a_number_that_is_known_moves_the_unbiased_one_too(release: Release) -> None:
    """A condition that is true of all records of some ages adds what is certain."""
    where = "disease = 'gout' OR age = 21"
    with refuses(QueryError, "only-counts", by="method"):
        release.count(where=where + " OR (age = 22 AND disease = 'flu')", method="shrunk")
    shrunk, closed = (release.count(where=where, method=method) for method in ("shrunk", None))
    assert shrunk.interval() == closed.interval()
    assert isinstance(shrunk, Estimate)
    assert shrunk.value != closed.value
