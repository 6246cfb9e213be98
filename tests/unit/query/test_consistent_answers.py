"""Answers made consistent: sums that hold whatever is shown, by every mechanism, with the plain numbers beside."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hospitals import Published
from refusals import refuses
from releases import people, published, published_by
from selection import examples
from sfumato._query.answer import Answer
from sfumato._query.consistency.consistent_tables import CALIBRATED, CONSISTENT
from sfumato._query.release import Release
from sfumato.errors import ErrorField, QueryError
from sfumato.mechanisms import REGISTRY

TABLE = people(240, age=[30, 40, 50, 60, 70, 30, 40], town=["Aix", "Birr", "Lich"])
BY_AGE = "SELECT age, disease, COUNT(*) FROM release GROUP BY age, disease"
RECORDS = Counter(TABLE.column("age").to_pylist())


@pytest.fixture(scope="module", params=sorted(REGISTRY))
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release by each mechanism."""
    return published_by(request.param, TABLE, tmp_path_factory.mktemp("release") / "r")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release by `uniform`, with much noise."""
    return published(TABLE, tmp_path_factory.mktemp("plain") / "r", mechanism="uniform")


def added(answer: Answer, column: str, *by: str) -> dict[Any, float]:
    """What the numbers of a column add up to, for the values of other columns."""
    found: dict[Any, float] = defaultdict(float)
    for row in answer.rows:
        found[tuple(row[name] for name in by)] += row[column]
    return found


def exactly(numbers: Mapping[Any, float]) -> Any:
    """These numbers, but for rounding."""
    return pytest.approx(dict(numbers), rel=1e-9, abs=1e-7)


def numbers(answer: Answer, column: str = "n_consistent") -> dict[Any, float]:
    """A column of an answer, by the values of its groups."""
    groups = [name for name in answer.names if name not in answer.numbers]
    return {tuple(row[name] for name in groups): row[column] for row in answer.rows}


def totals(**columns: list[Any]) -> pa.Table:
    """Known totals."""
    return pa.table(columns)


# --------------------------------------------------------------------------------------------------- by every mechanism


def test_groups_add_up_to_their_records_without_negative_numbers(release: Release) -> None:
    answer = release.sql(BY_AGE, consistent=True)
    assert added(answer, "n_consistent", "age") == exactly({(age,): rows for age, rows in RECORDS.items()})
    assert min(row["n_consistent"] for row in answer.rows) >= 0


def test_plain_numbers_stay_beside(release: Release) -> None:
    alone, beside = release.sql(BY_AGE).to_table()[1], release.sql(BY_AGE, consistent=True).to_table()[1]
    assert [{name: each for name, each in row.items() if name != "n_consistent"} for row in beside] == alone


@pytest.mark.parametrize("consistent", [True, False])
def test_known_totals_hold(release: Release, consistent: bool) -> None:
    by_disease = totals(disease=["flu", "HIV"], total=[100, 40])
    by_both = totals(age=[30], disease=["cold"], total=[12])
    answer = release.sql(BY_AGE, consistent=consistent, totals=[by_disease, by_both])
    column = "n_consistent" if consistent else "n_calibrated"
    assert added(answer, column, "age") == exactly({(age,): rows for age, rows in RECORDS.items()})
    sums = added(answer, column, "disease")
    assert [sums["flu",], sums["HIV",]] == pytest.approx([100, 40], rel=1e-9)
    assert numbers(answer, column)[30, "cold"] == pytest.approx(12, rel=1e-9)


@pytest.mark.parametrize(
    "where",
    [
        "disease = 'flu'",
        "disease IN ('flu', 'cold') AND sex = 'F'",
        "sex = 'F' AND disease = 'flu' OR sex = 'M' AND disease <> 'HIV'",
        "age > 40 OR disease = 'asthma'",
        "age > 40 AND age < 50 AND disease = 'flu'",
    ],
)
def test_part_of_a_group_lies_between_what_is_certain(release: Release, where: str) -> None:
    """What the condition leaves out has its place, so the part is not lifted to the whole."""
    answer = release.sql(f"SELECT town, COUNT(*) FROM release WHERE {where} GROUP BY town", consistent=True)
    for row in answer.rows:
        moments, number = row["n"].moments, row["n_consistent"]
        assert moments.least - 1e-9 <= number <= moments.most + 1e-9
        if moments.least <= row["n"].value <= moments.most and release.manifest.mechanism_name == "uniform":
            assert number == pytest.approx(row["n"].value, rel=1e-9)


@pytest.mark.parametrize("clause", ["LIMIT 3", "ORDER BY n DESC LIMIT 2", "HAVING COUNT(*) > 10", "HAVING age > 40"])
def test_choice_of_rows_changes_no_number(release: Release, clause: str) -> None:
    whole = numbers(release.sql(BY_AGE, consistent=True))
    some = numbers(release.sql(f"{BY_AGE} {clause}", consistent=True))
    assert 0 < len(some) < len(whole)
    assert some == {key: whole[key] for key in some}


# ------------------------------------------------------------------------------------------------------------- the rest


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.sampled_from(["flu", "HIV", "cold", "crohn's", "asthma"]), st.sampled_from(["age", "Sex", '"home town"']))
def test_one_value_is_moved_as_if_all_others_were_asked_for(
    hospital_release: Published, value: str, column: str
) -> None:
    """Two cells with a sum have a closed form: each takes its share of what is missing, by its variance."""
    release, text = hospital_release.release, value.replace("'", "''")
    sql = f"SELECT {column} AS g, COUNT(*) FROM release WHERE {{}} GROUP BY g"
    inside = release.sql(sql.format(f"disease = '{text}'"), consistent=True).rows
    outside = release.sql(sql.format(f"disease <> '{text}' OR disease IS NULL")).rows
    records = {row["g"]: row["n"].value for row in release.sql(sql.format("TRUE")).rows}
    assert inside
    for one, other in zip(inside, outside, strict=True):
        (n, m), total = (one["n"], other["n"]), records[one["g"]]
        variances = n.standard_error**2, m.standard_error**2
        moved = n.value + (total - n.value - m.value) * variances[0] / sum(variances)
        assert one["n_consistent"] == pytest.approx(min(max(moved, 0.0), total), rel=1e-7, abs=1e-7)


def test_values_left_out_count_in_no_total_of_the_analyst(plain: Release) -> None:
    sql = "SELECT age, disease, COUNT(*) FROM release WHERE disease IN ('flu', 'HIV') GROUP BY age, disease"
    answer = plain.sql(sql, totals=[totals(total=[130])])
    assert sum(numbers(answer, "n_calibrated").values()) == pytest.approx(130, rel=1e-9)
    answer = plain.sql(sql, consistent=True, totals=[totals(age=[30], total=[20])])
    assert added(answer, "n_consistent", "age")[30,] == pytest.approx(20, rel=1e-9)


def test_values_left_out_by_a_join_are_part_of_the_group(plain: Release) -> None:
    chapters = pa.table({"code": ["flu", "cold"], "chapter": ["lung", "lung"]})
    sql = "SELECT age, chapter, COUNT(*) FROM release {} chapters ON code = disease GROUP BY age, chapter"
    inner, left = (
        numbers(plain.sql(sql.format(join), consistent=True, attach={"chapters": chapters}))
        for join in ("JOIN", "LEFT JOIN")
    )
    assert set(left) - set(inner) == {(age, None) for age in RECORDS}
    assert inner == exactly({key: number for key, number in left.items() if key[1] is not None})


@pytest.mark.slow
def test_records_that_are_in_for_certain_stay_in(tmp_path: Path) -> None:
    """Without a lower bound, the number would follow an estimate below it."""
    sql = "SELECT town, COUNT(*) FROM release WHERE sex = 'F' OR disease = 'HIV' GROUP BY town"
    table = people(240, town=["Aix", "Birr", "Lich"], disease=[*["flu", "cold", "asthma"] * 13, "HIV"])
    below = 0
    for key in range(4):
        answer = published(table, tmp_path / str(key), key=key, mechanism="uniform").sql(sql, consistent=True)
        for row in answer.rows:
            assert row["n_consistent"] == pytest.approx(max(row["n"].value, row["n"].moments.least), rel=1e-9)
            below += row["n"].value < row["n"].moments.least
    assert below


# --------------------------------------------------------------------------------------------------------------- totals


def test_totals_come_from_files_and_frames_alike(plain: Release, tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("disease,total\nflu,100\nHIV,40\n")
    known = {"disease": ["flu", "HIV"], "total": [100, 40]}
    answers = [
        plain.sql(BY_AGE, totals=[given])
        for given in (tmp_path / "known.csv", str(tmp_path / "known.csv"), pd.DataFrame(known), pl.DataFrame(known))
    ]
    assert all(numbers(each, "n_calibrated") == numbers(answers[0], "n_calibrated") for each in answers)


def test_missing_value_and_whole_number_of_a_frame_are_found(hospital_release: Published) -> None:
    known = pd.DataFrame({"age": [20.0, math.nan], "total": [5, 6]})
    sql = "SELECT age, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY age"
    found = numbers(hospital_release.release.sql(sql, consistent=True, totals=[known]))
    assert [found[20,], found[None,]] == pytest.approx([5, 6], rel=1e-9)


def test_totals_name_the_columns_of_the_answer(plain: Release) -> None:
    sql = "SELECT age // 20 AS a, UPPER(disease) AS name, COUNT(*) AS c FROM release GROUP BY age // 20, disease"
    answer = plain.sql(sql, consistent=True, totals=[totals(name=["FLU"], total=[90])])
    assert added(answer, "c_consistent", "name")["FLU",] == pytest.approx(90, rel=1e-9)


def test_group_that_is_not_shown_adds_up_too(plain: Release) -> None:
    answer = plain.sql("SELECT disease, COUNT(*) FROM release GROUP BY age, disease", consistent=True)
    sums = [sum(row["n_consistent"] for row in answer.rows[at : at + 4]) for at in range(0, len(answer.rows), 4)]
    assert sums == pytest.approx([RECORDS[age] for age in sorted(RECORDS)], rel=1e-9)


@pytest.mark.parametrize(
    ("known", "code", "facts"),
    [
        (
            [totals(disease=["HIV", "asthma", "cold", "flu"], total=[1, 2, 3, 4])],
            "conflicting-totals",
            {"first_sum": 240, "second_sum": 10},
        ),
        (
            [totals(disease=["flu"], total=[100]), totals(disease=["flu"], total=[90])],
            "conflicting-totals",
            {"first_sum": 100, "second_sum": 90},
        ),
        (
            [totals(age=[30], disease=["flu"], total=[300])],
            "conflicting-totals",
            {"first_sum": 300, "second_sum": RECORDS[30]},
        ),
        ([totals(disease=["gout"], total=[3])], "total-without-row", {}),
        ([totals(town=["Aix"], total=[3])], "not-a-group", {"column": "town"}),
        ([totals(disease=["flu"])], "invalid-totals-header", {"file": "table 1 of totals"}),
        ([totals(disease=["flu", "flu"], total=[1, 2])], "repeated-total", {"file": "table 1 of totals"}),
        ([totals(disease=["flu"], total=[-1])], "invalid-total", {"file": "table 1 of totals"}),
        ([totals(disease=["flu"], total=[None])], "invalid-total", {"file": "table 1 of totals"}),
        ([totals(disease=["flu"], total=["many"])], "invalid-total", {"file": "table 1 of totals"}),
        (["missing.csv"], "unreadable-file", {"file": "missing.csv", "reason": "No such file or directory"}),
        ("known.csv", "not-a-list", {"argument": "totals"}),
    ],
)
def test_totals_that_cannot_hold_are_refused(
    plain: Release, known: Any, code: str, facts: dict[str, ErrorField]
) -> None:
    with refuses(QueryError, code, **facts):
        plain.sql(BY_AGE, consistent=True, totals=known)


# ------------------------------------------------------------------------------------------------ which numbers get one


def test_every_plain_count_gets_a_number_and_no_other(plain: Release) -> None:
    sql = (
        "SELECT age, COUNT(*), COUNT(1) AS rows, COUNT(*) FILTER (WHERE sex = 'F') AS women, SUM(age) AS years, "
        "COUNT(*) / 2 AS half FROM release WHERE disease = 'flu' GROUP BY age"
    )
    answer = plain.sql(sql, consistent=True)
    assert answer.adjusted_columns == {"n": "n_consistent", "rows": "rows_consistent"}
    assert [name for name in answer.to_table()[0] if name.endswith("consistent")] == ["n_consistent", "rows_consistent"]
    assert numbers(answer) == numbers(answer, "rows_consistent")
    alone = plain.sql("SELECT age, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY age", consistent=True)
    assert numbers(answer) == exactly(numbers(alone))


@pytest.mark.parametrize(
    "selected", ["SUM(age)", "COUNT(*) FILTER (WHERE sex = 'F')", "COUNT(*) / 2", "COUNT(age)", "AVG(age)"]
)
def test_question_without_a_plain_count_is_refused(plain: Release, selected: str) -> None:
    with refuses(QueryError, "no-count-to-adjust"):
        plain.sql(f"SELECT {selected} AS x FROM release WHERE disease = 'flu' HAVING COUNT(*) > 0", consistent=True)


def test_method_without_errors_is_refused(plain: Release) -> None:
    with refuses(QueryError, "method-without-errors", operation="weights"):
        plain.sql(BY_AGE, method="em", consistent=True)


def test_column_of_the_same_name_is_refused(plain: Release) -> None:
    sql = "SELECT age AS n_consistent, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY age"
    with refuses(QueryError, "repeated-column"):
        plain.sql(sql, consistent=True)
    assert plain.sql(sql).names == ("n_consistent", "n")


def test_exact_answer_stays_as_it_is_and_says_so(plain: Release) -> None:
    sql = "SELECT age, COUNT(*) FROM release GROUP BY age"
    alone, asked = plain.sql(sql), plain.sql(sql, consistent=True)
    assert asked.to_table() == alone.to_table()
    assert asked.adjustment is None
    assert asked.note == "every number is exact, so nothing was made consistent or calibrated."


def test_nothing_selected_is_zero(plain: Release) -> None:
    answer = plain.sql("SELECT COUNT(*) FROM release WHERE age > 200 AND disease = 'flu'", consistent=True)
    assert [row["n_consistent"] for row in answer.rows] == [0]
    answer = plain.sql(
        "SELECT age, COUNT(*) FROM release WHERE age > 200 AND disease = 'flu' GROUP BY age", consistent=True
    )
    assert answer.to_table() == (["age", "n", "n_se", "n_low", "n_high", "n_consistent"], [])


# --------------------------------------------------------------------------------------------------------------- frames


def test_number_stands_before_the_note_in_every_table(tmp_path: Path) -> None:
    answer = published_by("buckets", TABLE, tmp_path / "r").sql(BY_AGE, consistent=True)
    columns = ["age", "disease", "n", "n_se", "n_low", "n_high", "n_consistent"]
    shown = answer.to_table()[0]
    assert [name for name in shown if name != "n_note"] == columns
    assert shown[-1] in ("n_note", "n_consistent")
    table = answer.to_arrow()
    assert table.schema.field("n_consistent").type == pa.float64()
    assert table.column_names == shown == list(answer.to_pandas().columns) == answer.to_polars().columns
    assert table.column("n_consistent").to_pylist() == [row["n_consistent"] for row in answer.rows]


def test_adjustment_is_told_in_words(plain: Release) -> None:
    assert plain.sql(BY_AGE).adjustment is None
    assert plain.sql(BY_AGE, consistent=True).adjustment == CONSISTENT.description
    assert plain.sql(BY_AGE, totals=[totals(total=[240])]).adjustment == CALIBRATED.description


def test_crosstab_and_histogram_give_what_sql_gives(plain: Release) -> None:
    known = [totals(disease=["flu"], total=[90])]
    by_sql = plain.sql(BY_AGE, consistent=True, totals=known)
    assert numbers(plain.crosstab("age", "disease", consistent=True, totals=known)) == numbers(by_sql)
    values = plain.histogram("disease", consistent=True, totals=known)
    assert numbers(values)["flu",] == pytest.approx(90, rel=1e-9)
    assert sum(numbers(values).values()) == pytest.approx(240, rel=1e-9)


def test_totals_of_a_histogram_name_its_ranges(plain: Release) -> None:
    known = [totals(age=["[40,70]"], total=[50])]
    found = plain.histogram("age", edges=[30, 40, 70], where="disease = 'flu'", consistent=True, totals=known)
    assert [row["age"] for row in found.rows] == ["[30,40)", "[40,70]"]
    assert numbers(found)["[40,70]",] == pytest.approx(50, rel=1e-9)
