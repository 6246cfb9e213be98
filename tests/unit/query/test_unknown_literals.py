"""Values that a question names and that are not there: told beside the answer, by every way to ask."""

from __future__ import annotations

import time

import pytest

from refusals import refuses
from releases import people, published, published_by
from sfumato._query.answer import Answer
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.estimate import NO_RECORDS
from sfumato._query.release import Release
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.schema import Schema
from sfumato.errors import QueryError

HIV = "'disease' has no value 'hiv'; did you mean 'HIV'? It has 'HIV', 'asthma', 'cold', 'flu'."
FEMALE = "no record has 'f' in 'sex'; did you mean 'F'?"
MALE = "no record has 'm' in 'sex'; did you mean 'M'?"
NOWHERE = "no record has 'nowhere' in 'ward'."

NOTES = {
    "sex = 'f'": FEMALE,
    "SEX = 'f'": FEMALE,
    "'f' = sex": FEMALE,
    "sex <> 'f'": FEMALE,
    "sex IN ('F', 'm')": MALE,
    "sex NOT IN ('f', 'm')": f"{FEMALE} {MALE}",
    "sex IS DISTINCT FROM 'f'": FEMALE,
    "CASE sex WHEN 'f' THEN TRUE ELSE FALSE END": FEMALE,
    "sex = 'F' OR ward = 'nowhere'": NOWHERE,
    "sex = 'f' AND ward = 'nowhere'": f"{FEMALE} {NOWHERE}",
    "disease IN ('flu', 'hiv')": HIV,
    "disease <> 'hiv'": HIV,
    "disease = 'hiv' OR disease = 'flu'": HIV,
    "disease = 'hiv' OR sex = 'F'": HIV,
    "disease = 'flu' AND sex = 'f'": FEMALE,
    "disease IN ('flu', 'hiv') AND sex = 'f'": f"{HIV} {FEMALE}",
    "ward IN ('a', 'b', 'c', 'd', 'e')": (
        "no record has 'a' in 'ward'; did you mean 'A'? no record has 'b' in 'ward'; did you mean 'B'? "
        "no record has 'c' in 'ward'; did you mean 'C'? A further 2 values do not exist."
    ),
    "code = 1 AND disease = 'flu'": NO_RECORDS,
    "code > 100": NO_RECORDS,
    "sex LIKE 'f%'": NO_RECORDS,
}
SILENT = (
    "sex = 'F'",
    "sex IN ('F', 'M') AND disease IN ('flu', 'HIV')",
    "disease <> 'flu'",
    "sex LIKE 'F%'",
    "UPPER(sex) = 'F'",
    "LOWER(disease) = 'hiv'",
    "code IN (10, 11)",
    "code <> 11",
    "disease LIKE 'fl%'",
    "disease IS NOT NULL",
    "sex = ward OR sex = 'F'",
    "ward = 'rare'",
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release with texts and numbers as they come."""
    table = people(600, ward=["A", "B", "C", *["D"] * 590, "rare"], code=[10, 20, 30])
    return published(table, tmp_path_factory.mktemp("unheard") / "release")


def answer(release: Release, where: str) -> Answer:
    """The answer to a count, the same whether it is asked alone or with others."""
    sql = f"SELECT COUNT(*) FROM release WHERE {where}"
    alone, (found,) = release.sql(sql), release.ask_many([sql])
    assert isinstance(found, Answer)
    assert (found.note, found.absence_note) == (alone.note, alone.absence_note)
    assert found.to_table() == alone.to_table()
    return alone


@pytest.mark.parametrize(("where", "note"), [pytest.param(*each, id=each[0]) for each in NOTES.items()])
def test_value_that_is_not_there_is_told_by_every_way_to_ask(release: Release, where: str, note: str) -> None:
    assert answer(release, where).note == note
    for estimate in (release.count(where=where), release.share("sex = 'F'", where=where)):
        assert (estimate.note or "").startswith(note)


@pytest.mark.parametrize("where", SILENT)
def test_honest_questions_get_no_note(release: Release, where: str) -> None:
    assert answer(release, where).absence_note is None
    assert release.count(where=where).note in {None, "below zero by chance"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, COUNT(*) FILTER (WHERE sex = 'f') AS n FROM release GROUP BY ward",
        "SELECT disease, COUNT(*) FILTER (WHERE sex = 'f') AS n FROM release GROUP BY disease",
        "SELECT COUNT(*) FROM (SELECT * FROM release WHERE sex = 'f') AS t",
        "SELECT disease, COUNT(*) FROM (SELECT * FROM release AS r WHERE r.sex <> 'f') AS t GROUP BY disease",
        "SELECT SUM(n) FROM (SELECT age, COUNT(*) AS n FROM release WHERE sex <> 'f' OR disease = 'flu' GROUP BY age)",
        "SELECT COUNT(*) FROM release WHERE ward IN (SELECT ward FROM release WHERE sex = 'f' OR code = 10)",
        "SELECT SUM(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) AS n FROM release WHERE disease = 'flu'",
    ],
)
def test_value_that_is_not_there_is_told_wherever_it_stands(release: Release, sql: str) -> None:
    assert FEMALE in (release.sql(sql).note or "")
    assert FEMALE not in (release.sql(sql.replace("'f'", "'F'")).note or "")


def test_protected_value_that_would_leave_nothing_is_refused_with_the_nearest(release: Release) -> None:
    for where in ("disease = 'hiv'", "disease = 'hiv' AND sex = 'F'", "disease IN ('hiv', 'flue')"):
        with refuses(QueryError, "no-matching-value", column="disease") as refused:
            release.count(where=where)
        assert "did you mean 'HIV'?" in str(refused.value)


def test_many_counts_tell_which_no_record_satisfies(release: Release) -> None:
    asked = [({"sex": "f"}, None), ({"sex": "F"}, None), ({"sex": "f"}, ["flu"]), ({"sex": "F"}, ["flu"]), ({}, None)]
    found = release.count_many([CountQuery(where, values) for where, values in asked])
    assert [each.note for each in found] == found.notes == [NO_RECORDS, None, NO_RECORDS, None, None]
    assert found.to_arrow().column("n_note").to_pylist() == found.notes


@pytest.mark.slow
def test_bucket_without_a_value_is_no_condition_without_records(tmp_path_factory: pytest.TempPathFactory) -> None:
    """That no record of a condition can have the value is certain, and not because nothing satisfies the condition."""
    table = people(110, code=list(range(37)), disease=["HIV", "flu", "cold", "gout", "mumps", "asthma"])
    release = published_by("anatomy", table, tmp_path_factory.mktemp("unheard") / "release")
    certain = 0
    for code in range(37):
        found = answer(release, f"code = {code} AND disease = 'HIV'")
        certain += found.get_estimate().bounds == (0, 0)
        assert found.absence_note is None
    assert 0 < certain < 37


def test_number_or_group_that_is_not_there_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("unheard")
    numbers = published(people(60, disease=[410, 411, 412, 500]), folder / "numbers")
    assert "'disease' has no value '4100'; did you mean '410'?" in (
        answer(numbers, "disease IN (410, 4100)").note or ""
    )
    assert answer(numbers, "disease IN (410, '411', 412.0)").note is None
    with refuses(QueryError, "value-of-other-type", column="disease"):
        numbers.count("410")
    chapters = Hierarchy.of(
        ("own", "kind"), [(name, "lung") for name in ("flu", "cold", "asthma")] + [("HIV", "blood")]
    )
    schema = Schema.of("disease", hierarchies={"disease": chapters}, public="*")
    levels = published(people(60), folder / "levels", schema=schema)
    note = answer(levels, "disease.kind IN ('lung', 'bloood')").note or ""
    assert "'disease.kind' has no value 'bloood'; did you mean 'blood'?" in note


def test_sum_of_nothing_but_zeros_is_not_told_to_be_of_no_record(release: Release) -> None:
    assert release.sql("SELECT SUM(code * 0) AS n FROM release WHERE sex = 'F'").note is None
    assert release.sql("SELECT SUM(code * 0) AS n FROM release WHERE code = 11").note == NO_RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 3000])
def test_many_values_that_are_not_there_take_no_longer(release: Release, length: int) -> None:
    names = ", ".join(f"'ward {number}'" for number in range(length))
    begin = time.process_time()
    release.count("flu", where=f"ward IN ({names})")
    assert time.process_time() - begin < 10
