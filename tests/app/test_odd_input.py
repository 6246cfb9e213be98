"""Tables that look like trouble and are none: each is published, questioned and verified against its original."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import OPEN_BOUND, people, succeed, write_csv, write_parquet
from releases import WAYS, published_by
from sfumato._core.cell_values import to_json
from sfumato._verify.against_original import verify
from sfumato._verify.file_checks import FITNESS
from sfumato.cli.option_group import join_list

DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 250_000)
UTC_NOON = NOON.replace(tzinfo=datetime.UTC)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


ACCEPTED = ("--accept-disclosing", "age=made up", "--accept-disclosing", "sex=made up")
"""These columns of the tables here repeat, often as the values do."""


def counted(table: Path, sensitive: str, *options: str) -> dict[Any, float]:
    """Publish under a bound that changes nothing, verify against the original, and count each sensitive value."""
    succeed(
        "publish", table, "--out", "release", "--sensitive", join_list([sensitive]), *OPEN_BOUND, *ACCEPTED, *options
    )
    succeed("verify", "release", "--original", table)
    name = quoted(sensitive)
    answer = succeed("query", "release", f"SELECT {name}, COUNT(*) FROM release GROUP BY {name}", "--json").json
    return {row[sensitive]: round(row["n"], 3) for row in answer["rows"]}


def truth(values: Sequence[Any]) -> dict[Any, float]:
    return dict(Counter(to_json(value) for value in values))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 1, 2], pa.int8()),
        ([-(2**63), 0, 2**63 - 1], pa.int64()),
        ([2**64 - 1, 2**64 - 2, 0], pa.uint64()),
        ([True, False], pa.bool_()),
        ([True, None, False], pa.bool_()),
        ([0.1, -0.5, 1e300], pa.float64()),
        ([0.5, 0.25], pa.float16()),
        ([0.1, 0.2], pa.float32()),
        ([DAY, DAY + datetime.timedelta(1)], pa.date32()),
        ([DAY, DAY + datetime.timedelta(1)], pa.date64()),
        ([NOON, NOON + datetime.timedelta(1)], pa.timestamp("ms")),
        ([NOON, NOON + datetime.timedelta(1)], pa.timestamp("us")),
        ([NOON, NOON + datetime.timedelta(1)], pa.timestamp("ns")),
        ([UTC_NOON, UTC_NOON + datetime.timedelta(1)], pa.timestamp("us", tz="UTC")),
        (["a", "", None], pa.string()),
        (["a", "b"], pa.large_string()),
        (["a", "b"], pa.string_view()),
        (["a", None, "b"], pa.dictionary(pa.int8(), pa.large_string())),
        ([7, None, 9], pa.dictionary(pa.int32(), pa.int64())),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_category_of_any_plain_type_is_counted(desk: Path, values: list[Any], kind: pa.DataType) -> None:
    sensitive = pa.array([values[row % len(values)] for row in range(60)], type=kind)
    table = write_parquet(desk / "people.parquet", people() | {"disease": sensitive})
    plain = sensitive.dictionary_decode() if isinstance(sensitive, pa.DictionaryArray) else sensitive
    expected = plain.cast(pa.float32()) if kind == pa.float16() else plain
    assert counted(table, "disease") == truth(expected.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [[3, 1, 2], [True, False], [0.25, -1.5, 10.0], [DAY, DAY + datetime.timedelta(1)], ["007", "7"], ["a", None]],
    ids=["integers", "booleans", "numbers", "dates", "leading zeros", "missing"],
)
def test_category_of_any_type_in_csv_is_counted(desk: Path, values: list[Any]) -> None:
    table = write_csv(desk / "people.csv", people(disease=values))
    written = [str(value) if isinstance(value, bool) else value for value in values]  # CSV has no booleans, only words
    assert counted(table, "disease") == truth(people(disease=written)["disease"])


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        ([3, 1, 2], "disease >= 2"),
        ([True, False], "disease"),
        ([0.25, 1.5], "disease = 0.25"),
        ([DAY, DAY + datetime.timedelta(1)], "disease = DATE '2024-02-29'"),
        ([NOON, NOON + datetime.timedelta(1)], "disease < TIMESTAMP '2024-03-01'"),
        (["it's", "other"], "disease = 'it''s'"),
        (["a", None], "disease IS NULL"),
    ],
)
def test_category_can_be_asked_for_by_its_value(desk: Path, values: list[Any], condition: str) -> None:
    table = write_parquet(desk / "people.parquet", people(disease=values))
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *OPEN_BOUND, *ACCEPTED)
    answer = succeed("query", "release", f"SELECT COUNT(*) FROM release WHERE {condition}", "--json").json
    expected = 40 if len(values) == 3 else 30
    assert round(answer["rows"][0]["n"], 3) == expected


@pytest.mark.slow
def test_number_written_in_two_ways_is_one_value(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(disease=["1.5", "1.50", "0", "-0.0", "0.25"]))
    assert counted(table, "disease") == {0.0: 24, 0.25: 12, 1.5: 24}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_zero_has_no_sign(desk: Path, kind: pa.DataType) -> None:
    zeros = pa.array([0.0, -0.0, 0.5] * 20).cast(kind)
    table = write_parquet(desk / "people.parquet", people() | {"score": zeros, "disease": zeros})
    assert counted(table, "disease", "--accept-disclosing", "score=made up") == {0.0: 40, 0.5: 20}
    shown = pq.read_table(desk / "release" / "data.parquet").column("score").to_pylist()
    assert sorted(map(str, shown)) == ["0.0"] * 40 + ["0.5"] * 20


@pytest.mark.slow
def test_not_a_number_is_a_missing_value(desk: Path) -> None:
    values = pa.array([0.5, float("nan"), None] * 20)
    table = write_parquet(desk / "people.parquet", people() | {"disease": values})
    assert counted(table, "disease") == {0.5: 20, None: 40}


NAMES = ["straße", "café ☕", "\u200fמחלה", "病気", 'say "hi"', "it's", "a, b", "two words", "a=b", "[bold]x", "select"]
OURS = [
    *("place", "symbol", "rows", "g0", "domain", "release", "value", "count", "cell"),
    *("key", "v0", "s0", "c0", "part", "members", "people", "original", "o", "t"),
]
"""Names that our own queries use for their columns and tables."""
HARDEST = ("café ☕", "\u200fמחלה", 'say "hi"', "a, b", "[bold]x", "select", "place", "release", "value", "v0")
"""Of every kind of trouble one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in HARDEST else pytest.mark.full) for name in (*NAMES, *OURS)],
)
def test_column_of_any_name_is_protected_and_counted(desk: Path, name: str) -> None:
    written = people()
    values = written.pop("disease")
    table = write_csv(desk / "people.csv", {**written, name: values})
    assert counted(table, name) == truth(values)
    sql = f"SELECT sex, COUNT(*) FROM release WHERE {quoted(name)} = 'HIV' GROUP BY sex"
    rows = succeed("query", "release", sql, "--json").json["rows"]
    assert [round(row["n"], 3) for row in rows] == [6, 6]


@pytest.mark.slow
def test_column_of_any_name_is_public_and_grouped_by(desk: Path) -> None:
    names = [*NAMES, *OURS]
    table = write_csv(desk / "people.csv", people(**{name: [f"x{name}", f"y{name}"] for name in names}))
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *OPEN_BOUND)
    succeed("verify", "release", "--original", table)
    for name in names:
        sql = f"SELECT {quoted(name)}, COUNT(*) FROM release WHERE disease = 'HIV' GROUP BY {quoted(name)}"
        rows = succeed("query", "release", sql, "--json").json["rows"]
        assert [(row[name], round(row["n"], 3)) for row in rows] == [(f"x{name}", 6), (f"y{name}", 6)]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", WAYS)
def test_columns_of_any_name_are_verified_beside_the_original(tmp_path: Path, mechanism: str) -> None:
    table = pa.table(people(**{name: [f"x{name}", f"y{name}"] for name in (*NAMES, *OURS)}))
    release = published_by(mechanism, table, tmp_path / "release")
    assert [check.name for check in verify(release.folder, table).checks if not check.has_passed] == [FITNESS]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", WAYS)
def test_times_with_a_zone_are_verified_beside_the_original(tmp_path: Path, mechanism: str) -> None:
    times = pa.array([UTC_NOON, UTC_NOON + datetime.timedelta(hours=1)] * 30, pa.timestamp("us", "Europe/Berlin"))
    table = pa.table(people() | {"seen": times})
    release = published_by(mechanism, table, tmp_path / "release")
    assert [check.name for check in verify(release.folder, table).checks if not check.has_passed] == [FITNESS]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        ["naïve", "nai\u0308ve"],
        ["😀", "👩‍👩‍👧", ":smile:"],
        ["שלום", "مرحبا", "\u202ereversed\u202c"],
        ['"', "'", '""', "\\", "`"],
        ["a,b", "a;b", "a\tb", "a|b"],
        ["line\nbreak", "line\r\nbreak", "\u2028"],
        [" x", "x ", "x"],
        ["NULL", "null", "None", "NaN", "NA", "N/A"],
        ["İ", "i", "I", "\u0131"],
        ["=1+1", "--", "/*", "$1", "{x}", "%s", "[red]x[/red]"],
    ],
)
def test_text_is_counted_as_it_is_written(desk: Path, values: list[str]) -> None:
    table = write_csv(desk / "people.csv", people(disease=values))
    confirmed = ["--keep", "disease"] if any("\n" in value for value in values) else []
    assert counted(table, "disease", *confirmed) == truth(people(disease=values)["disease"])
    assert succeed("query", "release", "SELECT disease, COUNT(*) FROM release GROUP BY disease").code == 0


def test_text_is_shown_as_it_is_written(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(disease=[":smile:", "[bold]x", "café ☕"]))
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *OPEN_BOUND)
    shown = succeed("query", "release", "SELECT disease, COUNT(*) FROM release GROUP BY disease").out
    assert all(value in shown for value in (":smile:", "[bold]x", "café ☕"))


def test_column_names_are_shown_as_they_are_written(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(**{"[red]": ["x", "y"], ":smile:": ["x", "y"]}))
    outcome = succeed("publish", table, "--out", "release", "--sensitive", "disease", *OPEN_BOUND)
    assert "[red]" in outcome.out
    assert ":smile:" in outcome.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([Decimal("0.10"), Decimal("0.25")], pa.decimal128(5, 2), [0.1, 0.25]),
        ([1.5, float("inf"), float("-inf")], pa.float64(), ["-INF", 1.5, "INF"]),
    ],
    ids=["decimals", "infinite"],
)
def test_public_numbers_that_json_lacks_are_grouped_by(
    desk: Path, values: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    size = pa.array([values[row % len(values)] for row in range(60)], type=kind)
    table = write_parquet(desk / "people.parquet", people() | {"size": size})
    succeed("publish", table, "--out", "release", "--sensitive", "disease", *OPEN_BOUND)
    succeed("verify", "release", "--original", table)
    answer = succeed("query", "release", "SELECT size, COUNT(*) FROM release GROUP BY size", "--json").json
    assert [row["size"] for row in answer["rows"]] == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "kind", "bins", "expected"),
    [
        ([0, 19, 20, 40], pa.int64(), "0,20,40", {"[0,20)": 30, "[20,40]": 30}),
        ([0.0, 19.9, 20.0, None], pa.float64(), "0,20,40", {"[0,20)": 30, "[20,40]": 15, None: 15}),
        ([Decimal("0.1"), Decimal("0.3")], pa.decimal128(5, 2), "0,0.2,0.3", {"[0,0.2)": 30, "[0.2,0.3]": 30}),
        (
            [DAY, DAY + datetime.timedelta(1)],
            pa.date32(),
            "2024-01-01,2024-03-01,9999-12-31",
            {"[2024-01-01,2024-03-01)": 30, "[2024-03-01,9999-12-31]": 30},
        ),
        (
            [NOON, NOON + datetime.timedelta(1)],
            pa.timestamp("ns"),
            "0001-01-01,2024-03-01,9999-12-31",
            {"[0001-01-01,2024-03-01)": 30, "[2024-03-01,9999-12-31]": 30},
        ),
        (
            [UTC_NOON],
            pa.timestamp("us", tz="UTC"),
            "2024-01-01,2024-02-29T12:00,2025-01-01",
            {"[2024-01-01,2024-02-29T12:00)": 0, "[2024-02-29T12:00,2025-01-01]": 60},
        ),
    ],
    ids=["integers", "floats", "decimals", "dates", "nanoseconds", "with an offset"],
)
def test_sensitive_values_in_bins_are_counted(
    desk: Path, values: list[Any], kind: pa.DataType, bins: str, expected: dict[Any, int]
) -> None:
    sensitive = pa.array([values[row % len(values)] for row in range(60)], type=kind)
    table = write_parquet(desk / "people.parquet", people() | {"disease": sensitive})
    # The missing value is in the domain by the policy, whether or not any record needs it.
    assert counted(table, "disease", "--ranges", f"disease={bins}") == {None: 0, **expected}
