"""Questions to releases of decoys: the closed form record by record, several sensitive columns, and what adds up.

With phi the published share of a value and gamma the group size, a record that shows s adds 1/d - phi (1/d - 1) to the
count of s, and - phi (1/d - 1) to that of another value, where d = (1 - gamma phi) / (gamma (1 - phi)). What is asked
of most records is counted exactly, and the rest estimated.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from conditions import Condition, comparisons, patterns, trees
from refusals import refuses
from releases import known_key
from selection import examples
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.answer import Answer
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.schema import Schema
from sfumato.errors import QueryError
from sfumato.mechanisms import _decoys

DISEASES = {"flu": 30, "HIV": 12, "cold": 25, "asthma": 18, "gout": 15}
DRUGS = {"pill": 35, "tea": 25, "none": 40}
ROWS = 400
SIZE = 2
CLOSED = "closed"
"""The method that can be written down in one line; the oracle is for it, and the other tests are for the default."""
LIMITED = settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])

Asked = Callable[[Mapping[str, Any]], float]
"""What is asked of a record, given all its columns."""


def patients() -> pa.Table:
    """Two columns to protect, and two with missing values."""
    chance = random.Random(3)
    diseases = random.Random(4).choices(list(DISEASES), list(DISEASES.values()), k=ROWS)
    return pa.table(
        {
            "age": chance.choices([30, 40, 50, 60, None], k=ROWS),
            "sex": chance.choices(["F", "M", None], k=ROWS),
            "disease": diseases,
            "drug": chance.choices(list(DRUGS), list(DRUGS.values()), k=ROWS),
        }
    )


@dataclass(frozen=True, eq=False)
class Decoys:
    """A release, and what its records show."""

    release: Release = field(repr=False)
    rows: list[dict[str, Any]] = field(repr=False)
    names: tuple[str, ...]

    @classmethod
    def of(cls, out: Path, *names: str, groups: _decoys.GroupCreation = _decoys.GroupCreation.MIXED) -> Decoys:
        """Publish the patients; the named columns are sensitive, each for itself."""
        table = patients().select(["age", "sex", *names])
        request = Request(
            table,
            schema=Schema.of(list(names), public="*"),
            spec=DecoyGroups(SIZE),
            options={"decoys": _decoys.Options(groups=groups)},
            **ALL_ACCEPTED,
        )
        release = publish(request, out, unsafe_test_key=known_key(2)).release
        return cls(release, pq.read_table(out / "data.parquet").to_pylist(), names)

    @functools.cache  # noqa: B019 - there are three of them
    def shares(self, name: str) -> dict[Any, float]:
        """How often each value of a column is published."""
        return {value: count / len(self.rows) for value, count in Counter(row[name] for row in self.rows).items()}

    def weight(self, name: str, value: Any, shown: Any) -> float:
        """What a record that shows one value adds to the count of another, or of itself."""
        share = self.shares(name)[value]
        gain = (1 - SIZE * share) / (SIZE * (1 - share))
        return (value == shown) / gain + share * (1 - 1 / gain)

    def total(self, what: Asked) -> float:
        """The estimate of the sum over all records, one by one."""
        shares = [self.shares(name) for name in self.names]
        domain = list(itertools.product(*shares))
        law = [math.prod(each[value] for each, value in zip(shares, values, strict=True)) for values in domain]
        asked = [
            tuple(what({**row, **dict(zip(self.names, each, strict=True))}) for each in domain) for row in self.rows
        ]
        needed = [at for at in range(len(self.names)) if any(self._matters(at, domain, each) for each in set(asked))]
        # Columns that decide nothing are left out: their values count once, and not for each of them.
        repeats = math.prod(len(each) for at, each in enumerate(shares) if at not in needed)
        adds: dict[Any, float] = {}
        for row, numbers in zip(self.rows, asked, strict=True):
            shown = tuple(row[self.names[at]] for at in needed)
            if (shown, numbers) not in adds:
                usual = _median(numbers, law)
                adds[shown, numbers] = usual + math.fsum(
                    (number - usual)
                    / repeats
                    * math.prod(self.weight(self.names[at], values[at], row[self.names[at]]) for at in needed)
                    for number, values in zip(numbers, domain, strict=True)
                )
        return math.fsum(
            adds[tuple(row[self.names[at]] for at in needed), numbers]
            for row, numbers in zip(self.rows, asked, strict=True)
        )

    def _matters(self, at: int, domain: Sequence[tuple[Any, ...]], asked: Sequence[float]) -> bool:
        """Whether a column decides what is asked."""
        by_rest: dict[Any, set[float]] = {}
        for values, number in zip(domain, asked, strict=True):
            by_rest.setdefault(values[:at] + values[at + 1 :], set()).add(number)
        return any(len(numbers) > 1 for numbers in by_rest.values())


def _median(numbers: Sequence[float], shares: Sequence[float]) -> float:
    """What is asked of most records."""
    passed = 0.0
    for number, share in sorted(zip(numbers, shares, strict=True)):
        passed += share
        if passed >= sum(shares) / 2:
            return number
    raise AssertionError


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Decoys:
    """One sensitive column."""
    return Decoys.of(tmp_path_factory.mktemp("single") / "release", "disease")


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Decoys:
    """Two sensitive columns, each for itself."""
    return Decoys.of(tmp_path_factory.mktemp("double") / "release", "disease", "drug")


def close(number: float) -> Any:
    return pytest.approx(number, rel=1e-8, abs=1e-6)


def counts(condition: Condition) -> Asked:
    """What a count asks of a record."""
    return lambda row: 1.0 if condition.holds(row) is True else 0.0


def asked(release: Release, sql: str) -> float | None:
    """The one number of a query; None where no value of the domain fits, which is refused."""
    try:
        return release.sql(sql, method=CLOSED).get_estimate().value
    except QueryError as error:
        if not str(error).startswith("no value of"):
            raise
        return None


PUBLIC = st.one_of(comparisons("age", "age", [30, 40, 50, 60]), comparisons("sex", "sex", ["F", "M"]))
ILL = st.one_of(
    comparisons("disease", "disease", list(DISEASES)),
    patterns("disease", "disease", list(DISEASES)),
)
TREATED = comparisons("drug", "drug", list(DRUGS))


# ----------------------------------------------------------------------------------------------------------- one column


@pytest.mark.parametrize("value", DISEASES)
@pytest.mark.parametrize("where", [None, "sex = 'F'", "age > 40", "sex IS NULL AND age = 30"])
def test_count_of_a_value_is_the_formula_of_the_paper(single: Decoys, value: str, where: str | None) -> None:
    """R phi + (y - R phi) / d, with y of the R selected records showing the value."""
    found = (
        single.release.sql("SELECT COUNT(*) FROM release" + (f" WHERE {where}" if where else "")).get_estimate().value
    )
    shown = {
        None: lambda row: True,
        "sex = 'F'": lambda row: row["sex"] == "F",
        "age > 40": lambda row: row["age"] is not None and row["age"] > 40,
        "sex IS NULL AND age = 30": lambda row: row["sex"] is None and row["age"] == 30,
    }
    rows = [row for row in single.rows if shown[where](row)]
    assert found == len(rows)
    share = single.shares("disease")[value]
    gain = (1 - SIZE * share) / (SIZE * (1 - share))
    expected = len(rows) * share + (sum(row["disease"] == value for row in rows) - len(rows) * share) / gain
    assert single.release.count(value, where=where, method=CLOSED).value == close(expected)


@LIMITED
@given(trees(st.one_of(PUBLIC, ILL)))
def test_count_under_any_condition_is_that_of_the_records(single: Decoys, condition: Condition) -> None:
    found = asked(single.release, f"SELECT COUNT(*) FROM release WHERE {condition.sql}")
    if found is not None:
        assert found == close(single.total(counts(condition)))


@LIMITED
@given(trees(st.one_of(PUBLIC, ILL)))
def test_sum_under_any_condition_is_that_of_the_records(single: Decoys, condition: Condition) -> None:
    found = asked(single.release, f"SELECT SUM(age) FROM release WHERE {condition.sql}")
    if found is not None and not math.isnan(found):
        wanted = counts(condition)
        assert found == close(_weighed_total(single, wanted, "age"))


def _weighed_total(made: Decoys, wanted: Asked, name: str) -> float:
    """A sum of a public column: each of its numbers is a count of its own."""
    numbers = {row[name] for row in made.rows} - {None}
    return math.fsum(
        number * made.total(lambda row, number=number: wanted(row) if row[name] == number else 0.0)  # type: ignore[misc]
        for number in numbers
    )


def test_ratio_and_mean_are_those_of_their_parts(single: Decoys) -> None:
    release = single.release
    both = [release.count("flu", where=where).value for where in ("sex = 'F'", None)]
    share = release.sql("SELECT COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) FROM release WHERE disease = 'flu'")
    assert share.get_estimate().value == close(both[0] / both[1])
    mean = release.mean("age", where="disease = 'flu'")
    total, below = release.sum("age", where="disease = 'flu'"), release.count("flu", where="age IS NOT NULL")
    assert mean.value == close(total.value / below.value)
    assert mean.standard_error


def test_counts_without_a_condition_are_the_published_ones(single: Decoys) -> None:
    """The published histogram is that of the table, up to chance: it is what all records show."""
    published = Counter(row["disease"] for row in single.rows)
    for value in DISEASES:
        assert single.release.count(value).value == close(published[value])


@pytest.mark.slow
def test_complement_of_a_count_is_the_rest(single: Decoys) -> None:
    """What is asked of most records is counted exactly: a value and all others add up."""
    for where in ("TRUE", "sex = 'F'", "age > 40"):
        rows = single.release.count(where=where).value
        for value in DISEASES:
            others = single.release.count(where=f"{where} AND disease <> '{value}'").value
            assert single.release.count(value, where=where).value + others == close(rows)


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "inverse"])
@pytest.mark.parametrize("groups", _decoys.GroupCreation)
def test_parts_add_up_to_the_whole(tmp_path: Path, groups: _decoys.GroupCreation, method: str | None) -> None:
    release = Decoys.of(tmp_path / "release", "disease", groups=groups).release
    for where in ("sex = 'F'", "age > 40 OR disease = 'flu'"):
        whole = release.sql(f"SELECT COUNT(*) AS n, SUM(age) AS s FROM release WHERE {where}", method=method).rows[0]
        for by in ("disease", "age", "age, disease"):
            sql = f"SELECT {by}, COUNT(*) AS n, SUM(age) AS s FROM release WHERE {where} GROUP BY {by}"
            rows = release.sql(sql, method=method).rows
            for name in ("n", "s"):
                parts = [row[name].value for row in rows if not math.isnan(row[name].value)]
                assert math.fsum(parts) == close(whole[name].value)


def test_groups_by_public_columns_add_up(single: Decoys) -> None:
    where = "WHERE disease = 'flu' OR age > 50"
    whole = single.release.sql(f"SELECT COUNT(*) AS n, SUM(age) AS s FROM release {where}").rows[0]
    for by in ("sex", "age", "sex, age"):
        rows = single.release.sql(f"SELECT {by}, COUNT(*) AS n, SUM(age) AS s FROM release {where} GROUP BY {by}").rows
        for name in ("n", "s"):
            parts = [row[name].value for row in rows if not math.isnan(row[name].value)]
            assert math.fsum(parts) == close(whole[name].value)


def test_every_method_of_decoys_answers_a_count(single: Decoys) -> None:
    for method in single.release.manifest.methods:
        found = single.release.count("flu", where="sex = 'F'", method=method)
        assert math.isfinite(found.value)
        assert (found.standard_error is None) == (method in ("shrunk", "paper"))
        assert found.note


def test_shrinking_is_proposed_once_where_counts_have_large_errors(single: Decoys) -> None:
    release, proposal = single.release, single.release.manifest.proposal
    assert proposal is not None
    rough, fine = "SELECT COUNT(*) FROM release WHERE disease = 'HIV' AND age = 30", "SELECT COUNT(*) FROM release"
    assert release.sql(rough).note == proposal
    assert release.sql(f"{fine} WHERE disease = 'flu'").note is None
    assert release.sql(rough, method="shrunk").note is None  # who asks with it has heard of it
    assert release.sql(rough.replace("COUNT(*)", "SUM(age)")).note is None  # it only counts
    (batched,) = release.ask_many([rough])
    assert isinstance(batched, Answer)
    assert batched.note == proposal


def test_shrinking_is_proposed_where_more_is_done_with_counts_than_to_show_them(single: Decoys) -> None:
    release, proposal = single.release, single.release.manifest.proposal
    counts = "SELECT age, disease, COUNT(*) AS n FROM release GROUP BY 1, 2"
    ranked = "SELECT age, disease, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM release GROUP BY 1, 2"
    (plain, within, beside) = (release.sql(sql).note or "" for sql in (counts, f"SELECT * FROM ({counts})", ranked))
    assert plain == within == proposal
    assert beside.startswith(f"{proposal} ")
    assert release.sql(f"SELECT SUM(n) FROM ({counts} HAVING age = 30)").note is None  # it only counts
    nobody = "GROUP BY age, disease HAVING COUNT(*) < -1e9"
    assert str(proposal) not in str(release.sql(f"SELECT age, SUM(age) AS s FROM release {nobody}").note)
    assert str(proposal) in str(release.sql(f"SELECT age, COUNT(*) AS n FROM release {nobody}").note)
    assert str(proposal) not in str(release.sql(ranked, method="shrunk").note)


# ------------------------------------------------------------------------------------------------------ several columns


@pytest.mark.slow
def test_question_about_one_column_is_that_of_the_column_alone(double: Decoys, tmp_path: Path) -> None:
    """The other column is not looked at: the same records, published without it, say the same."""
    for name, domain in (("disease", DISEASES), ("drug", DRUGS)):
        alone = Decoys(double.release, [{**row} for row in double.rows], (name,))
        for value in domain:
            condition = Condition("", lambda row, name=name, value=value: row[name] == value)  # type: ignore[misc]
            for where, holds in (("TRUE", lambda row: True), ("sex = 'F'", lambda row: row["sex"] == "F")):
                found = double.release.count(where=f"{where} AND {name} = '{value}'", method=CLOSED)
                wanted = counts(Condition("", lambda row: holds(row) and condition.holds(row)))  # noqa: B023
                assert found.value == close(alone.total(wanted))
                assert found.standard_error


@LIMITED
@given(trees(st.one_of(PUBLIC, ILL, TREATED)))
def test_joint_count_is_that_of_the_records(double: Decoys, condition: Condition) -> None:
    found = asked(double.release, f"SELECT COUNT(*) FROM release WHERE {condition.sql}")
    if found is not None:
        assert found == close(double.total(counts(condition)))


def test_joint_count_has_a_wider_interval_than_that_of_a_column(double: Decoys) -> None:
    joint = double.release.count(where="disease = 'flu' AND drug = 'tea' AND sex = 'F'")
    one = double.release.count(where="disease = 'flu' AND sex = 'F'")
    assert joint.standard_error is not None
    assert one.standard_error is not None
    assert joint.standard_error > one.standard_error
    assert joint.interval().high - joint.interval().low > 0


def test_value_of_several_columns_is_a_tuple(double: Decoys) -> None:
    found = double.release.count(("flu", "tea"), where="sex = 'F'")
    assert found == double.release.count(where="sex = 'F' AND disease = 'flu' AND drug = 'tea'")
    (many,) = double.release.count_many([CountQuery({"sex": "F"}, [("flu", "tea")])])
    assert many.value == close(found.value)
    with refuses(QueryError, "missing-parts", column="disease + drug"):
        double.release.count("flu")


@pytest.mark.parametrize("name", ["disease", "drug"])
def test_groups_of_one_column_are_its_counts(double: Decoys, name: str) -> None:
    rows = double.release.sql(f"SELECT {name}, COUNT(*) AS n FROM release WHERE sex = 'F' GROUP BY {name}").rows
    assert {row[name] for row in rows} == set(DISEASES if name == "disease" else DRUGS)
    for row in rows:
        expected = double.release.count(where=f"sex = 'F' AND {name} = '{row[name]}'")
        assert row["n"].value == close(expected.value)
        assert row["n"].standard_error == close(expected.standard_error or 0.0)


@pytest.mark.slow
def test_groups_of_both_columns_are_joint_counts(double: Decoys) -> None:
    rows = double.release.sql("SELECT disease, drug, COUNT(*) AS n FROM release WHERE age > 40 GROUP BY ALL").rows
    assert len(rows) == len(DISEASES) * len(DRUGS)
    for row in rows:
        where = f"age > 40 AND disease = '{row['disease']}' AND drug = '{row['drug']}'"
        assert row["n"].value == close(double.release.count(where=where).value)


def test_groups_of_one_column_under_a_condition_on_the_other_are_joint(double: Decoys) -> None:
    rows = double.release.sql("SELECT disease, COUNT(*) AS n FROM release WHERE drug = 'tea' GROUP BY disease").rows
    for row in rows:
        where = f"drug = 'tea' AND disease = '{row['disease']}'"
        assert row["n"].value == close(double.release.count(where=where).value)


def test_batch_and_single_questions_about_several_columns_agree(double: Decoys) -> None:
    questions = [
        f"SELECT COUNT(*) FROM release WHERE {where}"
        for where in ("disease = 'flu'", "drug = 'tea' AND sex = 'F'", "disease IN ('flu', 'cold') AND drug = 'tea'")
    ]
    for sql, answer in zip(questions, double.release.ask_many(questions), strict=True):
        assert not isinstance(answer, Exception)
        expected = double.release.sql(sql)
        assert answer.get_estimate().value == close(expected.get_estimate().value)
        assert answer.get_estimate().standard_error == close(expected.get_estimate().standard_error or 0.0)
        assert answer.get_estimate().note == expected.get_estimate().note


def test_methods_for_one_column_say_so(double: Decoys) -> None:
    with refuses(QueryError, "method-for-one-column", method="shrunk"):
        double.release.count(where="disease = 'flu' AND drug = 'tea'", method="shrunk")
