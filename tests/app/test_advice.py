"""Advice of an error, followed as it is written, leads to no further error."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, REASON
from command_line import people
from sfumato import BreachBound, Grade, Release, Request, Schema, plan, publish
from sfumato._publish.request_settings import (
    convert_setting,
    list_bound_flags,
    list_mechanism_flags,
    make_request,
)
from sfumato.errors import InfeasibleError, QueryError, SfumatoError

Settings = Mapping[str, Any]

ROWS = 240
SENSITIVE: Settings = {"sensitive": ["disease"]}
BOUND: Settings = {"prior": "1/10", "posterior": "1/3"}
COMPOUND: Settings = {"compound": ["disease", "drug"]}
DRUGS = ["a", "b", "c", "d", "e", "f", "g"]
FREQUENT = ["flu", "flu", "flu", "HIV", "cold"]
WARDS = [*"aaaabbbbccccddddaaae"]
"""A public column that says a lot about the disease, of which every group has several."""
LARGEST_GROUPS = [*"abcdefghij"]


def make_table(**columns: Sequence[Any]) -> pa.Table:
    return pa.table(people(ROWS, **columns))


def declare(table: pa.Table, columns: Sequence[str], folder: Path) -> list[str]:
    """Declares the values of the columns of a compound, and writes the files of their domains."""
    for name in columns:
        values = dict.fromkeys(value or "" for value in table.column(name).to_pylist())
        (folder / f"{name}.txt").write_text("".join(f"{value}\n" for value in values))
    return [f"{name}={folder / name}.txt" for name in columns]


def list_public(table: pa.Table, settings: Settings) -> set[str]:
    """The columns to which the settings give no other role."""
    roles = ("sensitive", "compound", "drop", "identifier", "person")
    return set(table.column_names) - {name for role in roles for name in settings.get(role) or ()}


def request_plan(table: pa.Table, settings: Settings) -> None:
    """Plans a request from its settings, and raises what would stop its publication.

    Exposure is accepted unless the settings say otherwise, because it depends on the draws.
    """
    flags = (*list_bound_flags(), *(flag for _, _, flag in list_mechanism_flags()))
    given = {flag.name: convert_setting(flag, settings[flag.name]) for flag in flags if flag.name in settings}
    decided = {"public": ["*"], "accept_unique": REASON, "accept_uncovered": REASON, "accept_exposure": REASON}
    decided["accept_disclosing"] = [
        f"{name}={REASON}" for name in ("ward", "drug", "disease", "name") if name in list_public(table, settings)
    ]
    with tempfile.TemporaryDirectory() as folder:
        decided["domain"] = declare(table, settings.get("compound") or (), Path(folder))
        outlook = plan(make_request(table, {**decided, **settings, **given}))
    for notice in outlook.notices:
        if notice.grade is Grade.STOP:
            raise InfeasibleError(" ".join([notice.sentence, *notice.ways_out]))


def one_bound(**others: Any) -> Settings:
    return {"diversity": None, "group_size": None, **BOUND, **others}


SITUATIONS: Mapping[str, tuple[pa.Table, Settings, Sequence[tuple[str, Settings]]]] = {
    "diversity that is too high": (
        make_table(),
        {**SENSITIVE, "diversity": 5},
        [("`diversity=2`", {"diversity": 2}), ("`spec=BreachBound(...)`", one_bound())],
    ),
    "diversity where one value dominates": (
        make_table(disease=FREQUENT),
        {**SENSITIVE, "diversity": 2},
        [
            ("no diversity works", one_bound()),
            ("`spec=LinearCap(...)`", {"diversity": None, "cap_factor": "3/2"}),
            ("`spec=BreachBound(...)`", one_bound()),
        ],
    ),
    "group size that is too high": (
        make_table(),
        {**SENSITIVE, "group_size": 5},
        [("`group_size=2`", {"group_size": 2}), ("`spec=BreachBound(...)`", one_bound())],
    ),
    "group size where one value dominates": (
        make_table(disease=FREQUENT),
        {**SENSITIVE, "group_size": 2},
        [
            ("`spec=LinearCap(...)`", {"group_size": None, "cap_factor": "3/2"}),
            ("`spec=BreachBound(...)`", one_bound()),
        ],
    ),
    "diversity of combinations": (
        make_table(drug=DRUGS),
        {**COMPOUND, "diversity": 3},
        [
            ("`spec=BreachBound(...)`", one_bound()),
            ("buckets for one column", {"compound": [], "sensitive": ["drug"], "drop": ["disease"]}),
        ],
    ),
    "decoys of combinations": (
        make_table(drug=DRUGS),
        {**COMPOUND, "group_size": 2},
        [("`sensitive=`", {"compound": [], "sensitive": ["disease", "drug"]})],
    ),
    "combinations that disclose a column": (
        make_table(drug=DRUGS),
        {
            **COMPOUND,
            "prior": "1/5",
            "posterior": "1/2",
            "mechanism": "small-domain",
            "accept_marginal_prior": REASON,
        },
        [("`mechanism='uniform'`", {"mechanism": "uniform"}), ("`mechanism='subset'`", {"mechanism": "subset"})],
    ),
    "two sensitive columns": (
        make_table(drug=DRUGS),
        {"sensitive": ["disease", "drug"], **BOUND},
        [
            ("`compound=['disease', 'drug']` instead of `sensitive=`", {"sensitive": [], **COMPOUND}),
            ("`spec=DecoyGroups(...)`", {"prior": None, "posterior": None, "group_size": 2}),
        ],
    ),
    "buckets beside a public column": (
        make_table(ward=WARDS),
        {**SENSITIVE, "diversity": 2, "accept_exposure": ""},
        [
            ("`spec=BreachBound(...)`", one_bound()),
            ("`accept_exposure='REASON'`", {"accept_exposure": REASON}),
        ],
    ),
    "decoys beside a public column": (
        make_table(ward=WARDS),
        {**SENSITIVE, "group_size": 2, "accept_exposure": ""},
        [("`spec=BreachBound(...)`", one_bound()), ("`accept_exposure='REASON'`", {"accept_exposure": REASON})],
    ),
    "identifier that repeats": (
        make_table(patient=range(120)),
        {**SENSITIVE, **BOUND, "identifier": ["patient"]},
        [
            (
                "`person='patient'` with `one_row='random'`",
                {"identifier": [], "person": ["patient"], "one_row": "random"},
            ),
            ("`rows_per_person=2`", {"identifier": [], "person": ["patient"], "rows_per_person": 2}),
            ("`drop=['patient']`", {"identifier": [], "drop": ["patient"]}),
        ],
    ),
    "person with several rows": (
        make_table(patient=range(120)),
        {**SENSITIVE, **BOUND, "person": ["patient"]},
        [("`one_row='random'`", {"one_row": "random"}), ("`rows_per_person=K`", {"rows_per_person": 2})],
    ),
    "names": (
        make_table(name=[f"name {number}" for number in range(ROWS)]),
        {**SENSITIVE, **BOUND},
        [
            ("`person='name'`", {"person": ["name"]}),
            ("`identifier=['name']`", {"identifier": ["name"]}),
            ("`keep=['name']`", {"keep": ["name"]}),
        ],
    ),
    "numbers that are nearly unique": (
        make_table(number=range(ROWS)),
        {**SENSITIVE, **BOUND},
        [("`ranges={'number': ...}`", {"ranges": ["number=0,100,240"]})],
    ),
    "sensitive decimals": (
        make_table(disease=[-1.5, -1.5, -1.5, -1.5, 30.25, 30.25, 30.25, 30.25, float("inf"), 4.5, 4.5, 4.5, 4.5]),
        {**SENSITIVE, **BOUND},
        [("`ranges={'disease': ['-inf', 0, 10, 20, 'inf']}`", {"ranges": ["disease=-inf,0,10,20,inf"]})],
    ),
    "rows of persons under a diversity": (
        make_table(patient=range(120)),
        {**SENSITIVE, "person": ["patient"], "rows_per_person": 2, "diversity": 2},
        [
            ("`spec=BreachBound(...)`", one_bound()),
            ("`one_row=`", {"rows_per_person": 1, "one_row": "random"}),
        ],
    ),
    "both directions": (
        make_table(),
        {**SENSITIVE, "tolerance": "2", "mechanism": "harmonic", "direction": "both"},
        [
            ("`mechanism='fine-grain'`", {"mechanism": "fine-grain"}),
            ("`direction='upward'`", {"direction": "upward"}),
        ],
    ),
    "cap below the share": (
        make_table(),
        {**SENSITIVE, "cap_factor": "1/2"},
        [("Raise the cap to at least 1/5", {"cap_factor": "1"})],
    ),
    "cap that needs larger buckets": (
        make_table(),
        {**SENSITIVE, "cap_factor": "101/100", "max_bucket": 3},
        [
            ("at least 5", {"max_bucket": 5}),
            ("at least 1/3", {"cap_factor": "5/3"}),
        ],
    ),
    "prior below every share": (
        make_table(),
        {**SENSITIVE, "prior": "1/100", "posterior": "1/2", "mechanism": "small-domain"},
        [("choose a prior above", {"prior": "1/5", "accept_marginal_prior": REASON})],
    ),
    "tolerance of everything": (
        make_table(),
        {**SENSITIVE, "tolerance": "10"},
        [("smaller tolerance", {"tolerance": "2"})],
    ),
    "rare numbers": (
        make_table(disease=[1] * 60 + [2] * 60 + [3] * 118 + [4] * 2),
        {**SENSITIVE, "group_size": 2, "ratio_limit": "3", "rare": "merge"},
        [("`rare='suppress'`", {"rare": "suppress"})],
    ),
    "chance that no group gives": (
        make_table(disease=LARGEST_GROUPS),
        {**SENSITIVE, "off_by": "1/10", "small_count": 5, "small_chance": "99/100"},
        [("smaller chance", {"small_chance": "1/20"})],
    ),
    "column that discloses": (
        make_table(copy=[f"{disease}!" for disease in people(ROWS)["disease"]]),
        {**SENSITIVE, **BOUND},
        [
            ("`drop=['copy']`", {"drop": ["copy"]}),
            ("`accept_disclosing={'copy': 'REASON'}`", {"accept_disclosing": ["copy=made up"]}),
        ],
    ),
    "missing values as an error": (
        make_table(disease=["flu"] * 7 + [None] + ["HIV"] * 5 + ["cold"] * 6),
        {**SENSITIVE, **BOUND, "nulls": "error"},
        [("`nulls='value'`", {"nulls": "value"}), ("`nulls='drop'`", {"nulls": "drop"})],
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_advice_is_not_refused(situation: str) -> None:
    table, settings, advice = SITUATIONS[situation]
    with pytest.raises(SfumatoError) as caught:
        request_plan(table, settings)
    for words, change in advice:
        assert words in str(caught.value)
        request_plan(table, {**settings, **change})


@pytest.mark.parametrize("settings", [{"diversity": 2}, {"group_size": 2}], ids=str)
def test_advice_never_asks_for_what_protects_nobody(settings: Settings) -> None:
    with pytest.raises(InfeasibleError) as caught:
        request_plan(make_table(disease=FREQUENT), {**SENSITIVE, **settings})
    for useless in ("at most 1 ", "diversity=1`", "group_size=1`", "merge"):
        assert useless not in str(caught.value)


def test_ranges_are_not_advised_for_text() -> None:
    with pytest.raises(SfumatoError) as caught:
        request_plan(make_table(name=[f"name {number}" for number in range(ROWS)]), {**SENSITIVE, **BOUND})
    assert "`ranges=" not in str(caught.value)


def test_declared_domain_helps_a_column_of_one_value(tmp_path: Path) -> None:
    table, settings = make_table(disease=["flu"]), {**SENSITIVE, **BOUND}
    with pytest.raises(InfeasibleError, match=r"`domains=`"):
        request_plan(table, settings)
    (tmp_path / "diseases.txt").write_text("flu\nHIV\n")
    request_plan(table, {**settings, "domain": [f"disease={tmp_path / 'diseases.txt'}"]})


# ---------------------------------------------------------------------------------------------------------- questions


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """One release with a sensitive text, and one with a sensitive number."""
    table, folder = make_table(stay=[1, 2, 3, 4, 5, 6, 7]), tmp_path_factory.mktemp("releases")
    for name in ("disease", "stay"):
        publish(
            Request(
                table,
                schema=Schema.of(name, public="*"),
                spec=BreachBound("1/3", "2/3"),
                accept_disclosing=dict.fromkeys(set(table.column_names) - {name}, REASON),
                **ALL_ACCEPTED,
            ),
            folder / name,
            on_notice=lambda _: None,
        )
    return {name: Release.open(folder / name) for name in ("disease", "stay")}


@pytest.mark.parametrize("function", ["MAX", "MIN", "MODE", "ANY_VALUE", "FIRST", "ARRAY_AGG"])
@pytest.mark.parametrize(
    ("protected", "column", "advised"),
    [
        ("disease", "disease", ["GROUP BY disease"]),
        ("disease", "sex", ["GROUP BY sex"]),
        ("disease", "age", ["AVG(age)", "STDDEV(age)", "QUANTILE_CONT(age, 0.95)"]),
        ("stay", "stay", ["AVG(stay)", "STDDEV(stay)", "GROUP BY stay"]),
    ],
)
def test_advised_aggregate_is_answered(
    releases: Mapping[str, Release], function: str, protected: str, column: str, advised: Sequence[str]
) -> None:
    release = releases[protected]
    where = f"WHERE {protected} IS NOT NULL"
    with pytest.raises(QueryError) as caught:
        release.sql(f"SELECT {function}({column}) FROM release {where}")
    assert ("QUANTILE_CONT" in str(caught.value)) == ("QUANTILE_CONT(age, 0.95)" in advised)
    for advice in advised:
        assert advice in str(caught.value)
        if advice.startswith("GROUP BY"):
            release.sql(f"SELECT {column}, COUNT(*) FROM release {where} {advice}")
        else:
            release.sql(f"SELECT {advice} FROM release {where}")


FLU = "FROM release WHERE disease = 'flu'"
COUNTS = f"(SELECT age, sex, COUNT(*) AS n {FLU} GROUP BY age, sex)"


@pytest.mark.parametrize(
    ("question", "words", "advised"),
    [
        (
            "SELECT COUNT(*) FROM release a JOIN release b ON a.age = b.age WHERE a.disease = 'flu'",
            "count in two queries",
            f"WITH a AS (SELECT age, COUNT(*) AS n {FLU} GROUP BY age), b AS (SELECT age, COUNT(*) AS m FROM release "
            "GROUP BY age) SELECT age, n / m FROM a JOIN b USING (age)",
        ),
        (
            f"SELECT COUNT(*) {FLU} UNION SELECT COUNT(*) {FLU}",
            "use UNION ALL",
            f"SELECT COUNT(*) {FLU} UNION ALL SELECT COUNT(*) {FLU}",
        ),
        (
            f"SELECT QUANTILE_CONT(age, [0.1, 0.9]) {FLU}",
            "select several columns",
            f"SELECT QUANTILE_CONT(age, 0.1), QUANTILE_CONT(age, 0.9) {FLU}",
        ),
        ("SELECT MEDIAN(disease) FROM release", "GROUP BY", "SELECT disease, COUNT(*) FROM release GROUP BY disease"),
        (
            "SELECT disease, sex FROM release GROUP BY sex",
            "with GROUP BY disease",
            "SELECT disease, sex, COUNT(*) FROM release GROUP BY sex, disease",
        ),
        (
            f"SELECT DISTINCT ON (sex) sex, n FROM {COUNTS} ORDER BY n",
            "use QUALIFY ROW_NUMBER() OVER (...) = 1",
            f"SELECT sex, n FROM {COUNTS} QUALIFY ROW_NUMBER() OVER (PARTITION BY sex ORDER BY n) = 1",
        ),
        (
            "SELECT SUM(age + LENGTH(disease)) FROM release",
            "SUM(...) + SUM(...)",
            "SELECT SUM(age) + SUM(LENGTH(disease)) FROM release",
        ),
        (
            "SELECT SUM(CASE WHEN disease = 'flu' THEN age ELSE stay END) FROM release",
            "SUM(...) FILTER (WHERE ...)",
            "SELECT SUM(age) FILTER (WHERE disease = 'flu') FROM release",
        ),
        (
            f"SELECT STDDEV(n) FROM {COUNTS}",
            "use SUM, AVG, COUNT, MIN or MAX",
            f"SELECT SUM(n), AVG(n), COUNT(n), MIN(n), MAX(n) FROM {COUNTS}",
        ),
        (
            "SELECT COUNT(*) FROM release RIGHT JOIN (SELECT 'flu' AS disease) x USING (disease)",
            "use JOIN",
            "SELECT COUNT(*) FROM release JOIN (SELECT 'flu' AS disease) x USING (disease)",
        ),
    ],
)
def test_advised_question_is_answered(releases: Mapping[str, Release], question: str, words: str, advised: str) -> None:
    with pytest.raises(QueryError) as caught:
        releases["disease"].sql(question)
    assert words in str(caught.value)
    releases["disease"].sql(advised)
