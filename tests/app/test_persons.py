"""Persons with several rows, from the table to the release, its answers and its verification."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED
from command_line import complaint, content, people, run, succeed, write_csv, write_parquet
from refusals import refuses
from releases import edit_manifest
from sfumato import (
    BreachBound,
    CountQuery,
    QueryError,
    Release,
    ReleaseFormatError,
    Request,
    Schema,
    SchemaError,
    SpecError,
    info,
    plan,
    publish,
    verify,
)
from sfumato._evidence.certificate import make_certificate
from sfumato._release.manifest import MANIFEST, README, compute_manifest_digest
from sfumato._report import make_question_page
from sfumato._request.person_rows import ROW_NUMBERS_SENTENCE, STATED_SENTENCE, UNCHECKED_SENTENCE

BOUND = BreachBound("1/10", "1/2")
ROWS = 60
PEOPLE = 25


@pytest.fixture
def table(desk: Path) -> Path:
    """Sixty stays of 25 people, each on two or three of them, on days of their own."""
    written = people(ROWS, number=[row * 7 % PEOPLE for row in range(ROWS)])
    return write_parquet(desk / "stays.parquet", {**written, "day": [row * 11 % 31 for row in range(ROWS)]})


def request(table: Path, **rows: object) -> Request:
    return Request(
        table,
        schema=Schema.of("disease", person="number", keep=["day"], **rows, public="*"),
        spec=BOUND,
        **ALL_ACCEPTED,
    )  # type: ignore[arg-type]


WAYS = {
    "random": {"one_row": "random"},
    "first": {"one_row": "first:day"},
    "surplus": {"rows_per_person": 2, "surplus": "drop"},
}
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
@pytest.mark.slow
def test_rows_that_are_left_out_are_said_and_the_rest_verifies(table: Path, way: str) -> None:
    made = publish(request(table, **WAYS[way]), "release", plan_file="plan")
    manifest = made.release.manifest
    expected = PEOPLE if way != "surplus" else 2 * PEOPLE
    assert made.release.rows == expected
    assert manifest.person_check is not None
    assert manifest.person_check.dropped_rows == ROWS - expected
    assert f"{ROWS - expected}" in manifest.person_sentence
    assert manifest.person_sentence in " ".join((Path("release") / README).read_text().split())
    assert [notice.code for notice in made.notices].count("rows-chosen") == 1
    found = verify("release", table, plan_file="plan")
    assert found.has_passed
    assert [check.name for check in found.checks].count("persons") == 2


POPULATIONS: dict[str, tuple[dict[str, object], str]] = {
    "first": ({"one_row": "first:day"}, "people, by their first row by 'day'"),
    "unnamed": ({"one_row": "last:day", "keep": [], "drop": ["day"]}, "people, by their last row"),
    "random": ({"one_row": "random"}, "people, by one random row each"),
    "one": ({"surplus": "drop"}, "people, by one random row each"),
    "surplus": ({"rows_per_person": 2, "surplus": "drop"}, "rows, at most 2 of each person, chosen at random"),
    "all of some": ({"rows_per_person": 9, "surplus": "drop"}, "rows of the original table"),
    "all": ({"rows_per_person": 9}, "rows of the original table"),
    "unchecked": ({"person": None, "drop": ["number"]}, "rows of the original table"),
    "missing": (
        {"one_row": "first:day", "nulls": "drop"},
        "people, by their first row by 'day', without records that lack a 'disease'",
    ),
}


def write_everything(release: Release) -> dict[str, str]:
    """All that tells people and machines about the numbers of a release."""
    sql = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"
    answers = {
        "answer": release.sql(sql),
        "exact": release.sql("SELECT sex, COUNT(*) AS n FROM release GROUP BY sex"),
        "batch": release.ask_many(["SELECT COUNT(*) FROM release WHERE disease = 'flu'"])[0],
        "count": release.count("flu"),
        "exact count": release.count(where="sex = 'F'"),
        "mean": release.mean("age", where="disease = 'flu'"),
        "many": release.count_many([CountQuery({"sex": "F"}, ["flu"])]),
        "one of many": release.count_many([CountQuery({"sex": "F"}, ["flu"])])[0],
    }
    notebooks: dict[str, str] = {}
    for name, answer in answers.items():
        assert not isinstance(answer, Exception)
        notebooks[f"{name} in a notebook"] = answer._repr_html_()
    return {
        **notebooks,
        "query JSON": json.dumps(succeed("query", release.path, sql, "--json").json, ensure_ascii=False),
        "query": succeed("query", release.path, sql).out,
        "info JSON": json.dumps(info(release), ensure_ascii=False),
        "info": succeed("info", release.path).out,
        "page": make_question_page(release).to_html(),
        "README": (release.path / README).read_text(encoding="utf-8"),
        "certificate": make_certificate(release.path, date(2026, 1, 1)).document().to_html(),
        "certificate JSON": json.dumps(make_certificate(release.path, date(2026, 1, 1)).to_json(), ensure_ascii=False),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", POPULATIONS)
def test_everything_says_which_people_the_numbers_describe(table: Path, kind: str) -> None:
    settings, population = POPULATIONS[kind]
    named = {"person": "number", "keep": ["day"], **settings}
    asked = Request(table, schema=Schema.of("disease", **named, public="*"), spec=BOUND, **ALL_ACCEPTED)  # type: ignore[arg-type]
    release = publish(asked, "release").release
    manifest = release.manifest
    assert str(manifest.population) == population
    is_original = population.endswith("of the original table")
    assert manifest.population.is_original == is_original
    for name, text in write_everything(release).items():
        words = " ".join(html.unescape(text).replace("\\", "").split())
        # Answers about all rows name the original table, as the legend of the numbers.
        if not is_original or name.partition(" ")[0] in ("info", "page", "README", "certificate", "query JSON"):
            is_sentence = name in ("info", "page", "README")
            assert (manifest.population.sentence if is_sentence else population) in words, name
        assert is_original or "for the numbers of the original table" not in words, name
        assert is_original or "the number in the original table" not in words, name


@every_way
@pytest.mark.slow
def test_same_rows_come_again_with_the_plan_file_alone(table: Path, way: str) -> None:
    for target in ("one", "two"):
        publish(request(table, **WAYS[way]), target, plan_file="plan")
    assert content(Path("one")) == content(Path("two"))
    publish(request(table, **WAYS[way]), "other")
    public = [
        sorted(map(str, pq.read_table(Path(name) / "data.parquet", columns=["age", "sex", "day"]).to_pylist()))
        for name in ("one", "other")
    ]
    assert (public[0] == public[1]) == (way == "first")


def test_row_is_the_first_of_its_person(table: Path) -> None:
    publish(request(table, one_row="first:day"), "release")
    rows = pq.read_table(table).to_pylist()
    first = {whose: min(row["day"] for row in rows if row["number"] == whose) for whose in range(PEOPLE)}
    shown = pq.read_table("release/data.parquet", columns=["day"]).column(0).to_pylist()
    assert sorted(shown) == sorted(first.values())


@pytest.mark.slow
def test_original_cannot_be_compared_without_the_key_that_chose(table: Path) -> None:
    publish(request(table, one_row="random"), "release", plan_file="plan")
    with refuses(SpecError, "missing-plan-file"):
        verify("release", table)
    with refuses(SpecError, "missing-original", argument="plan_file"):
        verify("release", plan_file="plan")
    pq.write_table(pq.read_table(table).slice(1), "other.parquet")
    with refuses(ReleaseFormatError, "plan-file-of-another-table"):
        verify("release", "other.parquet", plan_file="plan")


@pytest.mark.slow
def test_persons_are_counted_again_where_the_plan_file_says_who_they_are(table: Path) -> None:
    publish(request(table, rows_per_person=3), "release", plan_file="plan")
    assert [check.name for check in verify("release", table).checks].count("persons") == 1
    found = verify("release", table, plan_file="plan")
    assert found.has_passed
    assert "in the original, the rows of each 'number' were counted again" in " ".join(
        check.detail for check in found.checks
    )


@pytest.mark.slow
def test_release_that_promises_less_than_its_persons_need_does_not_verify(table: Path) -> None:
    publish(request(table, rows_per_person=3), "release")
    edit_manifest(Path("release"), lambda written: written["sfumato"]["persons"].update(most=4))
    (failed,) = (check for check in verify("release").checks if not check.has_passed and check.name != "fitness")
    assert failed.detail == "a person may have 4 rows, but the guarantee covers 3."


@pytest.mark.slow
def test_design_that_keeps_too_much_for_all_rows_does_not_verify(table: Path) -> None:
    """Each row keeps the bound of a person, and all of them together do not."""
    made = publish(
        Request(
            table,
            schema=Schema.of("disease", person="number", rows_per_person=3, keep=["day"], public="*"),
            spec=BOUND,
            mechanism="uniform",
            **ALL_ACCEPTED,
        ),
        "release",
    )
    written = json.loads((Path("release") / MANIFEST).read_text())
    retention = made.release.manifest.design.retention
    alone = publish(
        Request(
            table,
            schema=Schema.of("disease", drop=["number"], keep=["day"], public="*"),
            spec=BOUND,
            mechanism="uniform",
            **ALL_ACCEPTED,
        ),
        "alone",
    )
    assert alone.release.manifest.design.retention > retention
    written["sfumato"]["design"]["retention"] = str(alone.release.manifest.design.retention)
    written["sfumato"]["digest"] = compute_manifest_digest(written)
    (Path("release") / MANIFEST).write_text(json.dumps(written))
    with refuses(ReleaseFormatError, "design-breaks-bound"):
        verify("release")


@pytest.mark.slow
def test_answers_count_people_or_rows(table: Path) -> None:
    one = publish(request(table, one_row="random"), "one").release
    several = publish(request(table, rows_per_person=3), "several").release
    unknown = publish(
        Request(
            table, schema=Schema.of("disease", drop=["number"], keep=["day"], public="*"), spec=BOUND, **ALL_ACCEPTED
        ),
        "unknown",
    ).release
    for release, counted in ((one, "people"), (several, "rows"), (unknown, "rows")):
        for sql in ("SELECT COUNT(*) FROM release WHERE disease = 'flu'", "SELECT COUNT(*) FROM release"):
            assert release.sql(sql).counted_unit == counted
        (answer,) = release.ask_many(["SELECT COUNT(*) FROM release WHERE disease = 'flu'"])
        assert getattr(answer, "counted_unit", None) == counted
    assert UNCHECKED_SENTENCE in unknown.guarantee.details


def test_promise_of_several_rows_is_about_all_of_them(table: Path) -> None:
    guarantee = publish(request(table, rows_per_person=3), "release").release.guarantee
    assert "at most 3" in guarantee.short
    assert "all sensitive values of a person with at most 3 records" in guarantee.exact
    assert "by at most 9 " in guarantee.exact


def test_plan_says_what_shared_rows_cost(table: Path) -> None:
    made = publish(request(table, rows_per_person=3), "release")
    (notice,) = (each for each in made.notices if each.code == "shared-bound")
    assert notice.numbers["rows"] == 3
    assert isinstance(notice.numbers["error_factor"], float)
    assert notice.numbers["error_factor"] > 2


def test_table_in_memory_has_persons_too(desk: Path) -> None:
    whole = pa.table(people(ROWS, number=[row * 7 % PEOPLE for row in range(ROWS)]))
    schema = Schema.of("disease", person="number", one_row="random", nulls="drop", public="*")
    assert publish(Request(whole, schema=schema, spec=BOUND, **ALL_ACCEPTED), "release").release.rows == PEOPLE


def test_column_that_names_each_person_is_nearly_unique_however_many_rows_they_have(desk: Path) -> None:
    """Six rows of each of forty people: no value is alone, and every value is one person's."""
    each, many = 6, 40
    whole = people(each * many, patient=[row // each for row in range(each * many)])
    whole["insurance"] = [f"I{row // each * 17}" for row in range(each * many)]
    schema = Schema.of("disease", person="patient", rows_per_person=each, public="*")
    with refuses(SchemaError, "nearly-unique", column="insurance") as refused:
        publish(Request(pa.table(whole), schema=schema, spec=BOUND, **ALL_ACCEPTED), "release")
    assert "person=" not in str(refused.value), "there is a person column already"
    assert "identifier=['insurance']" in str(refused.value)
    found = plan(
        Request(
            pa.table(whole),
            schema=replace(schema, confirmed_columns=frozenset({"insurance"})),
            spec=BOUND,
            **ALL_ACCEPTED,
        )
    )
    assert found.uniqueness.after_bins.unique_share == 1


def test_who_counts_different_persons_is_told_how_people_are_counted(table: Path) -> None:
    asked = "SELECT COUNT(DISTINCT {}) FROM release WHERE disease = 'flu'"
    people_are_rows = "Each person has one row here, so COUNT(*) counts people."
    one = publish(request(table, one_row="random"), "one").release
    with refuses(QueryError, "missing-column", column="number") as unknown:
        one.sql(asked.format("number"))
    with refuses(QueryError, "count-of-different-values") as distinct:
        one.sql(asked.format("age"))
    assert str(unknown.value).endswith(people_are_rows)
    assert str(distinct.value).endswith(people_are_rows)
    several = publish(request(table, rows_per_person=3), "several").release
    with refuses(QueryError, "missing-column", column="number") as without:
        several.sql(asked.format("number"))
    assert people_are_rows not in str(without.value)


# ------------------------------------------------------------------------------------- what no column of persons shows


ASKED = ("--sensitive", "disease", "--prior", "1/10", "--posterior", "1/2")


def test_row_number_as_person_is_not_called_a_check(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(ROWS, number=[row * 7 % ROWS for row in range(ROWS)]))
    asked = ("publish", table, *ASKED, "--person", "number", "--out", "release", "--plan-file", "plan")
    made = succeed(*asked, "--json").json
    (notice,) = (each for each in made["notices"] if each["code"] == "row-number-as-person")
    assert notice["column"] == "number"
    assert (made["persons"]["basis"], made["counted"]) == ("row-numbers", "rows")
    texts = [Path("release", README).read_text().replace("\n", " ")]
    succeed("certificate", "release", "--out", "certificate.html")
    texts.append(Path("certificate.html").read_text())
    for text in texts:
        assert "exactly one row" not in text
        assert ROW_NUMBERS_SENTENCE in text
    (check,) = (each for each in succeed("verify", "release", "--json").json["checks"] if each["name"] == "persons")
    assert ROW_NUMBERS_SENTENCE in check["detail"]
    succeed("verify", "release", "--original", table, "--plan-file", "plan")


def test_numbers_of_persons_that_are_no_row_numbers_are_a_check(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(ROWS, number=range(100, 100 + ROWS)))
    made = succeed("publish", table, *ASKED, "--person", "number", "--out", "release", "--json").json
    assert "row-number-as-person" not in [each["code"] for each in made["notices"]]
    assert (made["persons"].get("basis"), made["counted"]) == (None, "people")


@pytest.mark.slow
def test_statement_about_persons_is_printed_as_a_statement(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(ROWS))
    made = succeed(
        "publish", table, *ASKED, "--each-row-is-a-person", "--out", "release", "--plan-file", "plan", "--json"
    ).json
    assert not {"persons-unchecked", "row-number-as-person"} & {each["code"] for each in made["notices"]}
    assert (made["persons"]["basis"], made["counted"]) == ("stated", "people")
    succeed("certificate", "release", "--out", "certificate.html")
    assert STATED_SENTENCE in Path("certificate.html").read_text()
    assert STATED_SENTENCE in Path("release", README).read_text()
    checks = succeed("verify", "release", "--original", table, "--plan-file", "plan", "--json").json["checks"]
    assert [each["detail"] for each in checks if each["name"] == "persons"] == [STATED_SENTENCE]
    with pytest.raises(QueryError, match="The publisher states"):
        publish(
            Request(
                table, schema=Schema.of("disease", each_row_is_a_person=True, public="*"), spec=BOUND, **ALL_ACCEPTED
            ),
            "again",
        ).release.sql("SELECT COUNT(DISTINCT age) FROM release WHERE disease = 'flu'")


def test_statement_and_person_column_are_one_decision(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(ROWS, number=range(100, 100 + ROWS)))
    both = ("--each-row-is-a-person", "--person", "number")
    assert "give one of the two" in complaint(run("plan", table, *ASKED, *both))
    request = Path("request.toml")
    request.write_text(f'path = "{table}"\nsensitive = "disease"\nperson = "number"\nprior = 0.1\nposterior = 0.5\n')
    found = succeed("publish", request, "--each-row-is-a-person", "--drop", "number", "--out", "one", "--json").json
    assert found["persons"]["basis"] == "stated"
    request.write_text(request.read_text().replace('person = "number"', "each_row_is_a_person = true"))
    found = succeed("publish", request, "--drop", "number", "--out", "two", "--json").json
    assert found["persons"]["basis"] == "stated"
    found = succeed("publish", request, "--person", "number", "--out", "three", "--json").json
    assert "basis" not in found["persons"]


@pytest.mark.slow
def test_row_number_that_is_called_a_check_is_noticed_unless_the_release_is_older(desk: Path) -> None:
    """Older releases say that the column was counted, which was all that was known."""
    table = write_csv(desk / "people.csv", people(ROWS, number=range(ROWS)))
    publish(
        Request(table, schema=Schema.of("disease", person="number", public="*"), spec=BOUND, **ALL_ACCEPTED),
        "release",
        plan_file="plan",
    )

    def call_it_a_check(written: dict[str, Any]) -> None:
        written["sfumato"]["persons"].pop("basis", None)

    edit_manifest(Path("release"), call_it_a_check)
    failed = verify("release", original=table, plan_file="plan")
    assert [check.name for check in failed.checks if not check.has_passed] == ["persons"]
    no_risks = {"telling": [], "exposure": False, "marginal_prior": False}
    edit_manifest(Path("release"), lambda written: written["sfumato"].update(format=4, accepted=no_risks))
    assert verify("release", original=table, plan_file="plan").has_passed
