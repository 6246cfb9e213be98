"""What a table gives away is found, and the same table without it is clean."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refuses
from releases import WAYS, people, published, published_by
from sfumato import BreachBound, Schema, SchemaError, SourceError, lint
from sfumato._records import DATA_FILE
from sfumato._release.manifest import MANIFEST
from sfumato._risk.lint.findings import FINDINGS, NOTES

ROWS = 300
SHUFFLED = np.random.default_rng(7).permutation(ROWS)


def table(**columns: Sequence[Any]) -> pa.Table:
    """People in random order, with further columns that are put in the same order."""
    usual: dict[str, Any] = {
        "sex": ["FM"[row // 50 % 2] for row in range(ROWS)],
        "age": [20 + row % 50 for row in range(ROWS)],
    }
    return pa.table({**usual, **columns}).take(pa.array(SHUFFLED))


def written(path: Path, rows: pa.Table, **options: Any) -> Path:
    """A Parquet file that says nothing but its rows, unless something is asked for."""
    pq.write_table(rows, path, **{"write_statistics": False, "store_schema": False, **options})
    return path


def found(about: Any, **options: Any) -> list[tuple[str, str | None]]:
    """What should be mended, by code and column."""
    return [(each.code, each.column) for each in lint(about, **options).findings]


def noted(about: Any, **options: Any) -> set[str]:
    return {each.code for each in lint(about, **options).notes}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", WAYS)
def test_releases_are_clean(mechanism: str, tmp_path: Path) -> None:
    """Of all mechanisms; rows of the original are sorted, and nothing of that is found in the release."""
    original = people(2000).sort_by("disease")
    assert ("order-tied", "disease") in found(original)
    folder = published_by(mechanism, original, tmp_path / "release").folder
    inspected = lint(folder)
    assert [(each.code, each.column) for each in inspected.all_findings] == []
    assert all(lint(folder / name).findings == () for name in inspected.tables)


# ------------------------------------------------------------------------------------------------------------- the rows


def test_plain_table_in_random_order_is_clean(tmp_path: Path) -> None:
    inspected = lint(written(tmp_path / "plain.parquet", table()))
    assert (dict(inspected.tables), inspected.findings) == ({"plain.parquet": ROWS}, ())
    assert inspected.notes == ()


def test_sorted_rows_are_found_with_the_column() -> None:
    (one,) = lint(table().sort_by("age")).findings
    assert (one.code, one.column, one.numbers["equal"]) == ("order-tied", "age", 250)
    assert "sorted by 'age'" in one.sentence
    assert one.numbers["correlation"] == pytest.approx(1, abs=0.01)
    assert float(one.numbers["chance"]) < 1e-6


@pytest.mark.parametrize(
    ("column", "code"),
    [
        ([f"P{7 * row}" for row in range(ROWS)], "identifier"),
        ([f"p{row % 40}@example.org" for row in range(ROWS)], "identifier"),
        (list(range(ROWS)), "index-column"),
        ([f"fell on day {row} in ward three" for row in range(ROWS)], "free-text"),
        ([f"ward\n{row % 3}" for row in range(ROWS)], "free-text"),
        ([row % 60 / 7 for row in range(ROWS)], "needless-precision"),
        ([datetime(2024, 1, 1) + timedelta(seconds=7 * (row % 60)) for row in range(ROWS)], "needless-precision"),
        ([f"2024-01-01 09:00:{row % 60:02}" for row in range(ROWS)], "needless-precision"),
        ([row % 60 / 4 for row in range(ROWS)], None),
        ([datetime(2024, 1, 1) + timedelta(minutes=row % 60) for row in range(ROWS)], None),
        ([f"12:{row % 60:02}:00" for row in range(ROWS)], None),
        ([f"other managers of kind {row % 30}" for row in range(ROWS)], None),
    ],
    ids=str,
)
@pytest.mark.light
def test_columns_that_tell_too_much_are_found(column: Sequence[Any], code: str | None) -> None:
    assert found(table(column=column)) == ([] if code is None else [(code, "column")])


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__", "patient_id"])
@pytest.mark.light
def test_columns_are_found_by_their_names(name: str) -> None:
    code = "identifier" if name == "patient_id" else "index-column"
    assert found(table(**{name: [row % 40 for row in range(ROWS)]})) == [(code, name)]


def test_columns_of_few_values_are_not_judged_by_their_names() -> None:
    assert found(table(subject=[("chemistry", "physics")[row % 2] for row in range(ROWS)])) == []


def test_records_alone_are_only_noted() -> None:
    rows = table(zip=[row % 70 for row in range(ROWS)], height=[row % 60 for row in range(ROWS)])
    (one,) = lint(rows).all_findings
    assert (one.code, one.is_note) == ("records-alone", True)


# ------------------------------------------------------------------------------------------------------------ the files


def test_statistics_of_parquet_are_noted_unless_they_are_of_other_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "table.parquet", table(), write_statistics=True)
    assert (found(path), noted(path)) == ([], {"column-statistics"})
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    changed = content[start:].replace(struct.pack("<q", 69), struct.pack("<q", 99))  # the largest age
    path.write_bytes(content[:start] + changed)
    assert found(path) == [("statistics-left-over", "age")]


def test_metadata_of_parquet_is_found(tmp_path: Path) -> None:
    rows = table().replace_schema_metadata({"made_by": "/home/ann/secret"})
    (one,) = lint(written(tmp_path / "table.parquet", rows, store_schema=True)).findings
    assert one.code == "file-metadata"
    assert "'made_by'" in one.sentence
    assert "path" in one.sentence


def test_place_in_the_name_of_the_program_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "table.parquet", table())
    assert found(path) == []
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp", b"/home/ann/x"))
    assert found(path) == [("file-metadata", None)]


def test_index_of_a_pandas_frame_is_found(tmp_path: Path) -> None:
    frame = table().to_pandas()
    frame.to_parquet(tmp_path / "whole.parquet")
    assert (found(tmp_path / "whole.parquet"), noted(tmp_path / "whole.parquet")) == (
        [],
        {"column-statistics", "pandas-metadata"},
    )
    frame.iloc[::2].to_parquet(tmp_path / "range.parquet")
    assert found(tmp_path / "range.parquet") == [("file-metadata", None)]
    frame.iloc[SHUFFLED[:200]].to_parquet(tmp_path / "rows.parquet")
    assert ("index-column", "__index_level_0__") in found(tmp_path / "rows.parquet")


def test_dictionaries_of_other_rows_are_found(tmp_path: Path) -> None:
    codes = table(ward=[row % 3 for row in range(ROWS)]).column("ward").combine_chunks().cast(pa.int32())
    first = codes[0].as_py()
    listed = ["north", "south", "east"][-first:] + ["north", "south", "east"][:-first]  # not in the order of these rows
    for values, expected in (
        (["east", "north", "south"], []),
        (listed[::-1], [("dictionary-order", "ward")]),
        (["east", "north", "south", "west"], [("dictionary-left-over", "ward")]),
    ):
        ward = pa.DictionaryArray.from_arrays(codes, pa.array(values))
        path = written(tmp_path / "table.parquet", table().append_column("ward", ward))
        assert found(path) == expected, values


def test_lists_of_a_release_are_its_domain_and_what_some_row_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every group of rows lists a domain in its declared order, and a town that one row has."""
    monkeypatch.setattr("sfumato._perturb.record_writer.ROW_GROUP_ROWS", 200)
    domain = ["flu", "cold", "HIV", "asthma", "neverseen"]
    original = people(1000, town=["Aix"] * 999 + ["Zug"])
    schema, weak = (
        Schema.of("disease", domains={"disease": domain}, keep=["town"], public="*"),
        BreachBound("1/1000000000", "999999999/1000000000"),
    )
    folder = published(original, tmp_path / "release", schema=schema, bound=weak, mechanism="uniform").folder
    assert "neverseen" not in pq.read_table(folder / DATA_FILE).column("disease").to_pylist()
    assert not [each for each in lint(folder).all_findings if each.code.startswith("dictionary")]
    (folder / MANIFEST).unlink()  # then nobody knows the domain, nor that rows were shuffled
    assert {("dictionary-left-over", "disease"), ("dictionary-order", "disease")} <= set(found(folder / DATA_FILE))
    assert ("dictionary-left-over", "town") not in found(folder / DATA_FILE)


EDGES = {"whole": "0,5,18,65,120", "negative": "-120,-18,-5,5,18,120", "decimal": "-20,-10,-2.5,-0.5,2.5,10.25"}


@pytest.mark.parametrize("key", [0, None])
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_ranges_of_a_release_are_listed_by_their_edges(edges: str, key: int | None, tmp_path: Path) -> None:
    """`[5,18)` comes before `[18,65)`, although not as text; so it is in a data file that was copied elsewhere."""
    low, high = (float(edge) for edge in edges.split(",")[:: edges.count(",")])
    original = people(1000, score=[low + row / 999 * (high - low) for row in range(1000)])
    schema = Schema.of("disease", keep=["score"], ranges={"score": edges}, public="*")
    folder = published(original, tmp_path / "release", schema=schema, key=key).folder
    copied = tmp_path / "copied.parquet"
    copied.write_bytes((folder / DATA_FILE).read_bytes())
    listed = pq.ParquetFile(copied, read_dictionary=["score"]).read_row_group(0)["score"].chunk(0).dictionary
    assert listed.to_pylist() == list(schema.ranges["score"].labels) != sorted(listed.to_pylist())
    assert [found(each) for each in (folder, folder / DATA_FILE, copied)] == [[], [], []]


@pytest.mark.parametrize("labels", [["[5,18)", "[0,5)", "[18,65]"], ["[18,65]", "[5,18)", "[0,5)"]])
def test_ranges_in_another_order_are_found(labels: list[str], tmp_path: Path) -> None:
    rows = [row % 3 for row in SHUFFLED]
    codes = pa.array([(row + 1 - rows[0]) % 3 for row in rows], pa.int32())  # the first row has the second label
    span = pa.DictionaryArray.from_arrays(codes, pa.array(labels))
    assert found(written(tmp_path / "table.parquet", table().append_column("span", span))) == [
        ("dictionary-order", "span")
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xef\xbb\xbfsex,age\nF,1\n", "byte-order-mark"),
        ("sex,ort\nF,Köln\n".encode("latin-1"), "not-utf-8"),
        ("sex,ort\nF,Köln\n".encode("utf-16"), "byte-order-mark"),
        (b"sex,age\r\nF,1\nM,2\n", "odd-bytes"),
    ],
    ids=["mark", "latin", "utf-16", "line ends"],
)
@pytest.mark.light
def test_odd_bytes_of_csv_are_noted_and_the_file_is_read(content: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(content)
    inspected = lint(tmp_path / "table.csv")
    assert code in {each.code for each in inspected.notes}
    assert inspected.tables["table.csv"] == (2 if code == "odd-bytes" else 1)


# ----------------------------------------------------------------------------------------------------------- two tables


def two_tables(folder: Path, order: Sequence[int], *, has_key: bool) -> None:
    """Anatomy's two tables of two thousand people in groups of four; the second in an order of its own."""
    draw = np.random.default_rng(8)
    age, mixed = draw.integers(0, 60, 2000), draw.permutation(2000)
    disease = np.where(draw.random(2000) < 0.5, age // 15, draw.integers(0, 4, 2000))
    group = draw.permutation(500)[np.arange(2000) // 4]
    kept = ["group"] if has_key else []
    people_here = pa.table({"age": age, "group": group}).take(pa.array(mixed)).select(["age", *kept])
    values = pa.table({"disease": disease, "group": group}).take(pa.array(mixed)).take(pa.array(order))
    written(folder / "people.parquet", people_here)
    written(folder / "values.parquet", values.select(["disease", *kept]))


@pytest.mark.parametrize("has_key", [True, False], ids=["groups", "no groups"])
@pytest.mark.light
def test_tables_in_the_same_order_are_found_and_shuffled_ones_are_not(has_key: bool, tmp_path: Path) -> None:
    two_tables(tmp_path, list(range(2000)), has_key=has_key)
    assert found(tmp_path) == [("tables-joined", "disease")]
    two_tables(tmp_path, np.random.default_rng(9).permutation(2000).tolist(), has_key=has_key)
    assert found(tmp_path) == []


def test_order_within_groups_is_enough_to_join_tables(tmp_path: Path) -> None:
    """The values are sorted by their group, and within each stand as the people do."""
    two_tables(tmp_path, list(range(2000)), has_key=True)
    values = pq.read_table(tmp_path / "values.parquet")
    order = np.argsort(values.column("group").to_numpy(), kind="stable")
    two_tables(tmp_path, order.tolist(), has_key=True)
    assert set(found(tmp_path)) == {("order-tied", "group"), ("tables-joined", "disease")}


@pytest.mark.parametrize(("name", "code"), [("group", "group-number"), ("patient_id", "identifier")])
@pytest.mark.light
def test_group_numbers_that_another_table_describes_are_noted(name: str, code: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(10)
    written(tmp_path / "people.parquet", pa.table({name: draw.permutation(np.arange(6000) // 4)}))
    assert found(tmp_path) == [("identifier", name)]
    written(tmp_path / "groups.parquet", pa.table({name: draw.permutation(1500), "size": [4] * 1500}))
    assert [each.code for each in lint(tmp_path).all_findings if each.file == "people.parquet"] == [code]


# ------------------------------------------------------------------------------------------------------------- the rest


def test_frames_and_streams_are_looked_at() -> None:
    assert found(table().to_pandas().sort_values("age")) == [("order-tied", "age")]
    assert lint(pd.DataFrame({"list": [[1], [2]]})).all_findings[0].code == "not-looked-at"


def test_files_of_a_glob_are_tables_of_their_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "table.parquet", table())
    assert list(lint(f"{tmp_path}/*/table.parquet").tables.values()) == [ROWS, ROWS]


def test_empty_table_has_nothing_to_find() -> None:
    assert lint(table().slice(0, 0)).all_findings == ()


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,a\n1,2\n")
    with refuses(SchemaError, "repeated-column", column="a"):
        lint(tmp_path / "table.csv")
    (tmp_path / "folder").mkdir()
    damaged = written(tmp_path / "damaged.parquet", table(disease=["flu"] * ROWS))
    damaged.write_bytes(damaged.read_bytes().replace(b"disease", b"dise\xffse"))
    for path in ("folder", "nothing.csv", "table.docx", "damaged.parquet"):
        with pytest.raises(SourceError):
            lint(tmp_path / path)


def test_codes_are_either_findings_or_notes() -> None:
    assert set(FINDINGS).isdisjoint(NOTES)
