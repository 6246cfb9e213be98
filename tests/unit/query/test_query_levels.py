"""Questions about levels of a hierarchy: a group counts as its values together, by every path and every mechanism."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED, REASON, give_reasons
from refusals import refuses
from releases import SENSITIVE, WAYS, known_key
from selection import examples
from sfumato._core.cell_values import Value
from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.counting.count_request import CountQuery, Range
from sfumato._query.counting.simple_sql import parse_simple_count
from sfumato._query.estimate import Estimate
from sfumato._query.release import Release
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato._request.schema import Schema
from sfumato.errors import ErrorField, QueryError
from sfumato.mechanisms import REGISTRY

CHAPTERS = {"J10": "lungs", "J45": "lungs", "F32": "mind", "F41": "mind", "I10": "heart", None: "unknown"}
PARTS = {"lungs": "body", "mind": "mind", "heart": "body", "unknown": "unknown"}
CODES = Hierarchy.of(
    ("code", "Chapter", "big part"), [(code, chapter, PARTS[chapter]) for code, chapter in CHAPTERS.items()]
)
ROWS = 240


MISSING_LAST, GROUPS = CODES.canonical_hierarchy, tuple(PARTS)


def people() -> pa.Table:
    """A table whose sensitive column has a hierarchy."""
    chance = random.Random(5)
    return pa.table(
        {
            "age": chance.choices([30, 40, 50, 60], k=ROWS),
            "sex": chance.choices("FM", k=ROWS),
            SENSITIVE: chance.choices(list(CHAPTERS), [20, 15, 20, 15, 20, 10], k=ROWS),
        }
    )


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """A release of each mechanism."""
    folder = tmp_path_factory.mktemp("levels")
    schema = Schema.of(SENSITIVE, hierarchies={SENSITIVE: CODES}, public="*")
    found = {}
    for name, way in WAYS.items():
        request = Request(
            people(),
            schema=schema,
            **way.request(name),
            accept_disclosing=give_reasons(("age", "sex")),
            accept_exposure=REASON,
            **ALL_ACCEPTED,
        )
        out = folder / name
        found[name] = publish(request, out, unsafe_test_key=known_key(0), on_notice=lambda notice: None).release
    return found


@pytest.fixture(scope="module")
def release(releases: Mapping[str, Release]) -> Release:
    """The one of the simplest mechanism."""
    return releases["uniform"]


every_mechanism = pytest.mark.parametrize("name", WAYS)


def counts(release: Release, sql: str) -> dict[Value | tuple[Value, ...], Estimate]:
    """The count of each group, by its values."""
    rows = release.sql(sql).rows
    return {tuple(value for key, value in row.items() if key != "n"): row["n"] for row in rows}


def same(one: Estimate, other: Estimate) -> bool:
    """Whether two estimates have the same number, error and interval."""
    pairs = [(one.value, other.value), (one.standard_error, other.standard_error), (one.interval(), other.interval())]
    return all(mine == pytest.approx(yours, rel=1e-9, abs=1e-9) for mine, yours in pairs)


def listed(codes: Sequence[Value]) -> str:
    """A condition that names values one by one."""
    named = ", ".join(f"'{code}'" for code in codes if code is not None)
    parts = [f"disease IN ({named})"] if named else []
    return "(" + " OR ".join([*parts, *(["disease IS NULL"] if None in codes else [])]) + ")"


# ---------------------------------------------------------------------------------------------- groups are their values


@every_mechanism
def test_level_is_a_name_to_choose_and_order_by_whatever_stands_beside_it(
    releases: Mapping[str, Release], name: str
) -> None:
    plain = "SELECT disease.chapter, COUNT(*) AS n FROM release GROUP BY 1"
    ranked = "SELECT disease.chapter, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM release GROUP BY 1"
    for ending in ("ORDER BY chapter", "ORDER BY chapter DESC", "HAVING chapter > 'h' ORDER BY chapter"):
        found = [[row["chapter"] for row in releases[name].sql(f"{sql} {ending}").rows] for sql in (plain, ranked)]
        assert found[0] == found[1]
        assert found[0] == sorted(found[0], reverse="DESC" in ending)


@pytest.mark.slow
@every_mechanism
@settings(max_examples=examples(2))
@given(st.data())
def test_count_of_a_group_is_that_of_its_values(
    releases: Mapping[str, Release], name: str, data: st.DataObject
) -> None:
    """Any hierarchy can be written into the release: what is published is the same."""
    groups = {code: data.draw(st.sampled_from("abc")) for code in CHAPTERS}
    drawn = Hierarchy.of(("code", "chapter"), list(groups.items())).canonical_hierarchy
    manifest = replace(releases[name].manifest, hierarchies={SENSITIVE: drawn})
    release, where = (
        replace(releases[name], manifest=manifest),
        data.draw(st.sampled_from(["", " WHERE age < 50", " WHERE sex = 'F'"])),
    )
    single = counts(release, f"SELECT disease, COUNT(*) AS n FROM release{where} GROUP BY 1")
    by_group = counts(release, f"SELECT disease.chapter, COUNT(*) AS n FROM release{where} GROUP BY 1")
    assert {key for (key,) in by_group} == set(groups.values())
    for (group,), found in by_group.items():
        codes = [code for code in groups if groups[code] == group]
        assert found.value == pytest.approx(sum(single[(code,)].value for code in codes), rel=1e-9, abs=1e-6)
        wanted = f"{where} AND" if where else " WHERE"
        (whole,) = counts(release, f"SELECT COUNT(*) AS n FROM release{wanted} {listed(codes)}").values()
        assert same(found, whole)
    (rows,) = counts(release, f"SELECT COUNT(*) AS n FROM release{where}").values()
    assert sum(each.value for each in by_group.values()) == pytest.approx(rows.value, rel=1e-9, abs=1e-6)


@every_mechanism
def test_every_path_gives_the_same_count_of_a_group(releases: Mapping[str, Release], name: str) -> None:
    release = releases[name]
    one = release.count(where="disease.chapter = 'lungs' AND sex = 'F'")
    (many,) = release.count_many([CountQuery({"disease.chapter": "lungs", "sex": "F"})])
    (batch,) = release.ask_many(["SELECT COUNT(*) FROM release WHERE sex = 'F' AND disease.chapter = 'lungs'"])
    table = {(row["Chapter"], row["sex"]): row["n"] for row in release.crosstab("disease.Chapter", "sex").rows}
    shown = release.histogram("disease.chapter", where="sex = 'F'")
    (bar,) = [row["n"] for row in shown.rows if row["disease.chapter"] == "lungs"]
    values = release.count(where="disease IN ('J10', 'J45') AND sex = 'F'")
    for found in (many, batch.get_estimate(), table["lungs", "F"], bar, values):
        assert same(one, found)


@every_mechanism
def test_error_of_a_group_is_about_what_was_foretold(releases: Mapping[str, Release], name: str) -> None:
    """A plan knows how many records hold each value, and a release only about how many."""
    way, counts = WAYS[name], Counter(people().column(SENSITIVE).to_pylist())
    histogram = Histogram.of(MISSING_LAST.domain, [counts[code] for code in MISSING_LAST.domain], (), MISSING_LAST)
    groups = Counter(tuple(row.values()) for row in people().drop_columns([SENSITIVE]).to_pylist())
    sizes = tuple(Counter(groups.values()).items())
    histogram = replace(histogram, is_declared=True, class_sizes=sizes)
    plan = choose(histogram, way.spec, Draws.unsafe_test_key(known_key(0)), name, options={name: way.options}).plan
    women = people().column("sex").to_pylist().count("F")
    sets = [np.array([place for place, path in enumerate(MISSING_LAST.paths) if path[1] == group]) for group in GROUPS]
    foretold = np.sqrt(REGISTRY[name].error_prediction.predict_set_variances(plan, women / ROWS, sets))
    asked = [releases[name].count(where=f"sex = 'F' AND disease.chapter = '{group}'") for group in GROUPS]
    assert [each.standard_error for each in asked] == pytest.approx(foretold, rel=0.25)


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("disease.chapter = 'lungs' AND sex = 'F'", ("J10", "J45")),
        ("disease.CHAPTER IN ('heart', 'unknown')", ("I10", None)),
        ("disease.chapter = 'lungs' AND disease = 'J10'", ("J10",)),
    ],
)
def test_simple_counts_of_groups_are_answered_many_at_a_time(
    release: Release, condition: str, values: tuple[Value, ...]
) -> None:
    select = sqlglot.parse_one(f"SELECT COUNT(*) FROM release WHERE {condition}", dialect="duckdb")
    found = parse_simple_count(select, release.manifest)
    assert found is not None
    assert found.values == values


# -------------------------------------------------------------------------------------------------------- what is named


@pytest.mark.parametrize(
    "condition",
    [
        "disease.chapter = 'lungs'",
        "DISEASE.CHAPTER = 'lungs'",
        'release."disease"."Chapter" = \'lungs\'',
        "\"disease.chapter\" = 'lungs'",
        "disease.chapter LIKE 'l%'",
        "disease.chapter IN ('lungs')",
        "CASE WHEN disease.chapter = 'lungs' THEN 1 ELSE 0 END = 1",
        "UPPER(disease.chapter) = 'LUNGS'",
        "disease.code IN ('J10', 'J45')",
        "disease.\"big part\" = 'body' AND disease.chapter <> 'heart'",
        "disease.\"big part\" = 'body' AND disease <> 'I10'",
    ],
)
def test_condition_on_a_level_is_one_on_its_values(release: Release, condition: str) -> None:
    assert same(release.count(where=condition), release.count(where="disease IN ('J10', 'J45')"))


def test_level_can_be_selected_filtered_and_ordered_by(release: Release) -> None:
    found = release.sql(
        "SELECT disease.chapter, sex, COUNT(*) AS n FROM release WHERE disease.\"big part\" = 'body' "
        "GROUP BY chapter, sex HAVING disease.chapter <> 'mind' ORDER BY chapter DESC, sex"
    )
    assert [(row["chapter"], row["sex"]) for row in found.rows] == [
        *(("lungs", "F"), ("lungs", "M")),
        *(("heart", "F"), ("heart", "M")),
    ]


def test_level_goes_through_subqueries_and_joins(release: Release) -> None:
    direct = counts(release, "SELECT disease.chapter, COUNT(*) AS n FROM release WHERE age > 30 GROUP BY 1")
    inside = "(SELECT disease AS d, disease.chapter FROM release WHERE age > 30) AS x"
    for level in ("d.chapter", "x.d.chapter", "x.chapter"):
        found = counts(release, f"SELECT {level}, COUNT(*) AS n FROM {inside} GROUP BY 1")
        assert all(same(direct[key], found[key]) for key in direct)
    named = pa.table({"chapter": ["lungs", "mind"], "doctor": ["Lund", "Meyer"]})
    sql = "SELECT doctor, COUNT(*) AS n FROM release JOIN t ON t.chapter = disease.chapter WHERE age > 30 GROUP BY 1"
    rows = {row["doctor"]: row["n"] for row in release.sql(sql, attach={"t": named}).rows}
    assert same(rows["Lund"], direct[("lungs",)])
    assert same(rows["Meyer"], direct[("mind",)])


def test_level_wins_over_a_table_of_the_name_of_its_column(release: Release) -> None:
    lungs = release.count(where="disease.chapter = 'lungs'")
    sql = "SELECT COUNT(*) FROM release AS disease WHERE disease.chapter = 'lungs' AND disease.age > 0"
    assert same(release.sql(sql).get_estimate(), lungs)


def test_missing_value_lies_in_its_group(release: Release) -> None:
    assert same(release.count(where="disease.chapter = 'unknown'"), release.count(None))
    (found,) = release.count_many([CountQuery({"disease.chapter": ["unknown"]}, [None, "J10"])])
    assert same(found, release.count(None))


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT COUNT(*) FROM release WHERE disease.chaptr = 'x'", "'disease' has no level 'chaptr'; did you mean"),
        ("SELECT COUNT(*) FROM release WHERE disease.town = 'x'", "it has 'code', 'Chapter', 'big part'."),
        ("SELECT COUNT(*) FROM release WHERE sex.chapter = 'x'", "there is no table 'sex'"),
        ("SELECT COUNT(*) FROM release WHERE disease.chapter = 'lngs'", "'disease.Chapter' are 'lungs',"),
        ("SELECT disease.chapter FROM release", "'disease.Chapter' is protected, so a query cannot show it"),
        ("SELECT COUNT(*) FROM release WHERE chapter = 'lungs'", "has no column 'chapter'"),
        (
            "SELECT COUNT(*) FROM release WHERE age IN (SELECT age FROM release WHERE disease.chapter = 'lungs')",
            "'disease' is protected, so a query cannot show it",
        ),
    ],
)
def test_question_that_misnames_a_level_gets_one_sentence(release: Release, sql: str, sentence: str) -> None:
    with pytest.raises(QueryError) as caught:
        release.sql(sql)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("query", "code", "facts"),
    [
        (CountQuery({"disease.chapter": "lngs"}), "unknown-group", {"column": "disease.chapter"}),
        (CountQuery({"disease.chapter": Range(at_least="a")}), "range-of-level", {"column": "disease.chapter"}),
        (CountQuery({"disease.chapter": "lungs"}, ["F32"]), "no-matching-value", {"column": "disease"}),
        (CountQuery({"disease.chapter": "lungs"}, "F32"), "invalid-values", {}),
    ],
)
def test_count_that_misnames_a_group_gets_one_sentence(
    release: Release, query: CountQuery, code: str, facts: dict[str, ErrorField]
) -> None:
    with refuses(QueryError, code, **facts):
        release.count_many([query])


def test_release_without_a_hierarchy_has_no_levels(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "M"] * 30, SENSITIVE: ["a", "b", "c"] * 20})
    request = Request(
        table,
        schema=Schema.of(SENSITIVE, public="*"),
        **WAYS["uniform"].request("uniform"),
        accept_disclosing=give_reasons(("sex",)),
        **ALL_ACCEPTED,
    )
    plain = publish(request, tmp_path / "plain", unsafe_test_key=known_key(0), on_notice=lambda notice: None).release
    assert plain.hierarchies == {}
    with refuses(QueryError, "unknown-table", table="disease"):
        plain.count(where="disease.chapter = 'lungs'")
