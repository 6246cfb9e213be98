"""The analyst's files of noisy counts: the README, exports, CSV copies, pages and queries count all people once."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

import sql_shapes
from accepted import ALL_ACCEPTED, give_reasons
from asked_pages import answered, asked, crossings, differences, opened, patients, question
from command_line import succeed
from protected_tables import readme_query
from refusals import refuses
from releases import accepting, known_key, list_domains, people
from sfumato import QueryError, Schema, export, lint
from sfumato._evidence.certificate import make_certificate
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.parser.allowed_sql import parse
from sfumato._query.release import Release
from sfumato._release.description import Description
from sfumato._report import QuestionPage, make_question_page
from sfumato._request.belief_bounds import BreachBound
from sfumato._verify.file_checks import verify_folder

SIGMAS = 5
BOUND = BreachBound("1/10", "1/3")
DISEASE = ["flu", "HIV", "cold", "asthma"]


def published_counts(
    table: pa.Table, out: Path, bound: BreachBound = BOUND, mechanism: str = "noisy-counts", **kept: Any
) -> Release:
    """A release of noisy counts, or of another mechanism with the same request; `disease` is sensitive."""
    schema = Schema.of("disease", domains=list_domains(table, ["disease"]), public="*")
    request = Request(table, schema=schema, spec=bound, mechanism=mechanism, **accepting(table, schema), **ALL_ACCEPTED)
    return publish(request, out, unsafe_test_key=known_key(0), **kept).release


def mixed(rows: int = 240) -> pa.Table:
    """People, most of whom have somebody alike; some are alone with their ward."""
    wards: list[int | None] = [*(1 + place // 40 for place in range(200)), *range(100, 138), None, None]
    return people(rows, ward=wards, people=["a b", "c"])


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    describe = Description(columns={"ward": "The ward"})
    return published_counts(mixed(), tmp_path_factory.mktemp("noisy") / "release", as_csv=True, describe=describe)


def test_table_of_the_tests_has_people_of_both_kinds(release: Release) -> None:
    assert 0 < release.people_in_counts < release.rows == 240


# ------------------------------------------------------------------------------------------------------------- README


def ask_readme(release: Release, added: str = "", change: Callable[[str], str] = str) -> list[tuple[Any, ...]]:
    """What the statement of the README answers, with something added at its end."""
    statement = change(readme_query(release.folder)).replace("FROM '", f"FROM '{release.folder}/")
    statement = statement.replace(", 'weights", f", '{release.folder}/weights")
    return duckdb.sql(statement + added).fetchall()


def test_readme_says_how_many_people_are_in_each_table(release: Release) -> None:
    text = (release.folder / "README.md").read_text("utf-8")
    counted = release.people_in_counts
    assert (
        f"has 240 rows: {counted} are counted in `counts.parquet`, and {240 - counted} are in `data.parquet`." in text
    )
    assert all(check.has_passed for check in verify_folder(release.folder).checks if check.name == "readme")


def test_statement_of_the_readme_takes_conditions_and_groups(release: Release) -> None:
    value = release.manifest.domain[0]
    assert ask_readme(release)[0][0] == pytest.approx(release.count(value).value)
    where = "sex = 'F' AND (ward < 110 OR ward IS NULL)"
    assert ask_readme(release, f" WHERE {where}")[0][0] == pytest.approx(release.count(value, where=where).value)
    groups = ask_readme(release, " GROUP BY age", lambda text: text.replace("SELECT COALESCE", "SELECT age, COALESCE"))
    assert {age: release.count(value, where=f"age = {age}").value for age in (30, 40, 50, 60)} == pytest.approx(
        dict(groups)
    )


@pytest.mark.slow
def test_statement_of_the_readme_counts_where_nobody_is_alone(tmp_path: Path) -> None:
    release = published_counts(people(80), tmp_path / "release")
    assert release.people_in_counts == release.rows
    assert ask_readme(release)[0][0] == pytest.approx(release.count(release.manifest.domain[0]).value)


# ------------------------------------------------------------------------------------------------------ other programs


@pytest.mark.parametrize("suffix", [".csv", ".dta", ".sav"])
def test_export_has_a_row_for_each_group_with_the_number_of_its_people(
    suffix: str, release: Release, tmp_path: Path
) -> None:
    exported = export(release, ["HIV", "flu"], tmp_path / f"out{suffix}")
    read: Callable[[Path], pd.DataFrame] = {".csv": pd.read_csv, ".dta": pd.read_stata, ".sav": pd.read_spss}[suffix]
    frame = read(exported.path)
    assert exported.people_column == "people_2"  # a public column has the name
    assert frame["people_2"].sum() == 240
    women = frame[frame["sex"] == "F"]
    assert women["people_2"].sum() == 120
    assert women["w_HIV"].sum() == pytest.approx(release.count("HIV", where="sex = 'F'").value)


def test_weights_of_records_alone_are_refused_where_they_would_miss_people(release: Release) -> None:
    with refuses(QueryError, "no-record-weights", rows=240, people_in_counts=release.people_in_counts):
        release.weights("HIV")


def test_csv_copies_have_sets_as_lists_and_counts_as_numbers(release: Release) -> None:
    counts, records = (pd.read_csv(release.folder / name) for name in ("counts.csv", "data.csv"))
    written = pq.read_table(release.folder / "counts.parquet").to_pandas()
    pd.testing.assert_frame_equal(counts, written.astype(counts.dtypes.to_dict()))
    assert len(records) + counts["people_"][:: len(release.manifest.domain)].sum() == 240
    assert records["disease"].str.fullmatch(r'\["\w+"(, "\w+")*\]').all()


def test_lint_knows_the_people_of_both_tables(release: Release) -> None:
    (alone,) = (note for note in lint(release.folder).notes if note.code == "records-alone")
    assert alone.numbers["alone"] == pytest.approx((240 - release.people_in_counts) / 240)


def test_descriptions_say_how_many_people_are_counted(release: Release) -> None:
    told = succeed("info", release.folder, "--json").json
    assert (told["rows"], told["people_in_counts"]) == (240, release.people_in_counts)
    assert f"240 rows ({release.people_in_counts} of them in groups with published counts)" in release._repr_html_()
    assert release.manifest.description.columns == {"ward": "The ward"}


@pytest.mark.slow
def test_certificate_says_where_predicted_errors_come_from(tmp_path: Path) -> None:
    schema = Schema.of("disease", domains={"disease": DISEASE}, public="*")
    request = Request(
        people(200), schema=schema, spec=BOUND, mechanism="noisy-counts", **accepting(people(), schema), **ALL_ACCEPTED
    )
    release = publish(request, tmp_path / "release").release
    certificate = make_certificate(release.folder, datetime.date(2026, 1, 1))
    assert "the sizes of all groups of people" in str(certificate.document())


# ------------------------------------------------------------------------------------------------------------- queries


CLASHES = {
    "sfumato crowd": ["a", "b"],
    "Sfumato People": [1, 2],
    "sfumato crowds": ["x", "y", None],
    "file_row_number": [7, 8],
    "range": [1, 2],
    "noisy": [True, False],
    "count": [0.5, None],
}


@pytest.mark.slow
def test_any_column_may_have_any_name(tmp_path: Path) -> None:
    table = people(240, **CLASHES)
    release = published_counts(table, tmp_path / "release")
    with duckdb.connect() as connection:
        connection.register("release", table)
        for name in CLASHES:
            asked_for = f'SELECT "{name}", COUNT(*) AS n FROM release GROUP BY ALL ORDER BY ALL'
            exact = [(row[name], row["n"].value) for row in release.sql(asked_for).rows]
            assert exact == connection.execute(asked_for).fetchall()
    value, where = release.manifest.domain[0], '"range" = 1'
    assert ask_readme(release, f" WHERE {where}")[0][0] == pytest.approx(release.count(value, where=where).value)


def shapes_release(out: Path, mechanism: str) -> Release:
    """The release of the table of `sql_shapes`, with a declared domain."""
    table = sql_shapes.table()
    schema = Schema.of(
        "diagnosis", ranges={"age": [0, 20, 40, 60, 120]}, public="*", domains=list_domains(table, ["diagnosis"])
    )
    reasons = give_reasons(("stay", "drugs", "age", "sex", "ward"))
    request = Request(
        table,
        schema=schema,
        spec=BreachBound("1/3", "3/4"),
        mechanism=mechanism,
        accept_disclosing=reasons,
        **ALL_ACCEPTED,
    )
    return publish(request, out, unsafe_test_key=known_key(1)).release


UNORDERED = ("LIMIT", "LIST(DISTINCT", "UNION SELECT")
"""Answers that depend on the order of the rows, which is another one in each release."""


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sfumato._request.warnings.NoticeWarning")
def test_every_shape_of_sql_gives_the_truth_or_what_a_release_of_records_says(tmp_path: Path) -> None:
    """Estimates are within five standard errors of the truth; the key is fixed."""
    release, records = (shapes_release(tmp_path / name, name) for name in ("noisy-counts", "subset"))
    ages = pd.cut(sql_shapes.table().to_pandas()["age"], [0, 20, 40, 60, 120], right=False)
    labels = {str(each): str(each).replace(" ", "") for each in ages.cat.categories}
    table = sql_shapes.table().to_pandas().assign(age=ages.astype(str).map(labels).replace("[60,120)", "[60,120]"))
    compared = 0
    with duckdb.connect() as connection:
        connection.register("release", table)
        connection.register("codes", pa.table(sql_shapes.CODES))
        for shape in sql_shapes.SHAPES:
            outcome, said = sql_shapes.told(shape, release)
            assert outcome == shape.outcome, said
            if outcome == "refused":
                assert said == sql_shapes.told(shape, records)[1]
            elif outcome == "exact" and not any(mark in shape.sql for mark in UNORDERED):
                first, second = (list(iter_numbers(each, shape.sql)) for each in (release, records))
                assert first == pytest.approx(second), shape.sql
            elif outcome == "estimated":
                compared += compare_with_truth(release, shape.sql, connection)
    assert compared > 150


def iter_numbers(release: Release, sql: str) -> Iterator[Any]:
    for row in release.sql(sql, attach={"codes": pa.table(sql_shapes.CODES)}).rows:
        for name in row:
            yield getattr(row[name], "value", row[name] if isinstance(row[name], (int, float)) else 0)


def compare_with_truth(release: Release, sql: str, connection: duckdb.DuckDBPyConnection) -> int:
    """Compares the numbers of the groups that an answer and the table have in common; returns how many."""
    answer = release.sql(sql, attach={"codes": pa.table(sql_shapes.CODES)})
    try:
        rows = connection.execute(parse(sql).sql(dialect="duckdb")).fetchall()
    except duckdb.Error:  # some forms are accepted here only
        return 0
    groups = [place for place, name in enumerate(answer.names) if name not in answer.numbers]
    truths = {tuple(str(row[place]) for place in groups): row for row in rows}
    if len(truths) < len(rows):  # such as two counts that are joined by UNION
        return 0
    compared = 0
    for row in answer.rows:
        truth = truths.get(tuple(str(row[answer.names[place]]) for place in groups))
        for place, name in enumerate(answer.names):
            if truth is not None and name in answer.numbers and truth[place] is not None:
                difference = abs(row[name].value - float(truth[place]))
                assert difference <= SIGMAS * (row[name].standard_error or 0) + 1e-6, (sql, row, truth)
                compared += 1
    return compared


# --------------------------------------------------------------------------------------------------------------- pages


def ask_about_few_groups(about: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Questions about one group of people, a few, and many, at several levels."""
    (own,), (age, sex, well) = ([column["id"] for column in about[kind]] for kind in ("protected", "public"))
    yield from crossings(about)
    yield question([age, sex, well], conditions={own: {"codes": [1]}})
    yield question([age, sex, well], conditions={own: {"codes": [0, 1, 2, 4]}}, level=0.8)
    for level in (0.9, 0.99):
        for few in (1, 4, 9, 10, 19, 20):
            conditions = {sex: {"codes": [1]}, well: {"codes": [0]}, age: {"codes": list(range(min(few, 17)))}}
            yield question([own], conditions=conditions, level=level)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bound", [BOUND, pytest.param(BreachBound("1/3", "2/5"), marks=pytest.mark.full), BreachBound("1/10", "9/10")]
)
def test_page_gives_the_intervals_of_few_groups(bound: BreachBound, tmp_path: Path, browser: Browser) -> None:
    """The exact distributions of noise of small and large variance, the clamped counts, and records beside them."""
    table = patients(600).select(["age", "sex", "well", "disease"])
    release = published_counts(table, tmp_path / "release", bound)
    assert 0 < release.people_in_counts < 600
    with opened(browser, make_question_page(release), tmp_path) as tab:
        for each in ask_about_few_groups(tab.evaluate("sfumato.about")):
            found = list(differences(asked(tab, each), answered(release, tab, each), each["level"]))
            assert not found, (each, found[:5])
        assert "counts and all records of the release" in tab.locator("footer").inner_text()


def make_page_of_sums(release: Release) -> QuestionPage:
    page = make_question_page(release, max_megabytes=(make_question_page(release).size - 1) / 1e6)
    assert page.has_only_counts
    return page


@pytest.mark.slow
def test_page_of_sums_has_the_same_estimates_and_no_smaller_errors(tmp_path: Path, browser: Browser) -> None:
    table = patients(1500).select(["age", "sex", "well", "day", "disease"])
    release = published_counts(table, tmp_path / "release")
    compared = 0
    with opened(browser, make_page_of_sums(release), tmp_path) as tab:
        assert "at least as large as those that sfumato gives" in tab.locator("main").inner_text()
        about = tab.evaluate("sfumato.about")
        (own,) = (column["id"] for column in about["protected"])
        for column in about["public"]:
            for conditions in ({}, {own: {"codes": [1, 2]}}):
                each = question([column["id"]] if conditions else [own, column["id"]], conditions=conditions)
                theirs = answered(release, tab, each)
                for key, row in asked(tab, each).items():
                    low, high = theirs[key].interval(0.95)
                    assert row["value"] == pytest.approx(theirs[key].value)
                    assert row["error"] >= (theirs[key].standard_error or 0) - 1e-9
                    assert row["low"] <= low + 1e-9
                    assert row["high"] >= high - 1e-9
                    compared += not math.isclose(row["error"], theirs[key].standard_error or 0)
    assert compared > 50
