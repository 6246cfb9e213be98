"""CSV beside Parquet: the same rows in a form that people read, declared, packed and verified."""

from __future__ import annotations

import csv
import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import frictionless
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from releases import SENSITIVE, WAYS, accepting, edit_manifest, known_key, people, read_json
from sfumato import Release, Request, Schema, publish, verify
from sfumato._engines import shuffle
from sfumato._records.value_records import ValueEncoding
from sfumato._release.csv_copies import convert_to_texts, write_copy
from sfumato._release.manifest import MANIFEST
from sfumato._verify.file_checks import verify_folder
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._subset_selection import subset_mechanism as subset


def with_csv(mechanism: str, table: Any, out: Path, **more: Any) -> Release:
    schema = WAYS[mechanism].schema(Schema.of(SENSITIVE, public="*"), table)
    way = {**WAYS[mechanism].request(mechanism), **more}
    request = Request(table, schema=schema, **way, **accepting(table, schema), **ALL_ACCEPTED)
    return publish(request, out, unsafe_test_key=known_key(0), as_csv=True).release


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def failed(folder: Path) -> list[str]:
    return [check.name for check in verify_folder(folder).checks if not check.has_passed]


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRY)
def test_copy_says_what_the_release_says(name: str, tmp_path: Path) -> None:
    # Twelve of these people have nobody with equal public columns, so noisy counts publish their rows.
    weights = [*(50.5 if row % 2 else None for row in range(188)), *(60.5 + row for row in range(12))]
    release = with_csv(name, people(200, weight=weights), tmp_path / "release")
    folder, manifest = release.folder, release.manifest
    assert failed(folder) == ["fitness"]  # for the known key alone
    for copy, (table,) in manifest.copies.items():
        expected, found = pq.read_table(folder / table), rows_of(folder / copy)
        assert len(found) == expected.num_rows > 0
        for column in expected.column_names:
            values = expected.column(column).to_pylist()
            if not isinstance(values[0], bytes):
                assert [row[column] for row in found] == ["" if each is None else _plain(each) for each in values]
    package = frictionless.Package(str(folder / MANIFEST))
    assert package.validate().valid
    names = [resource.name for resource in package.resources]
    assert len(set(names)) == len(names)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("form", ["bits", "list"])
def test_sets_are_lists_of_values(form: str, tmp_path: Path) -> None:
    options = {"options": {"subset": subset.Options(form=subset.Form(form))}}
    release = with_csv("subset", people(200), tmp_path / "release", **options)
    held = [json.loads(row[SENSITIVE]) for row in rows_of(release.folder / "data.csv")]
    shown = release.manifest.encoding.make_reader(release.manifest.naming)
    table = pq.read_table(release.folder / "data.parquet").combine_chunks().to_batches()[0]
    expected = [[release.manifest.domain[place] for place in row.nonzero()[0]] for row in shown(table)]
    assert list(map(sorted, held)) == list(map(sorted, expected))


def test_records_in_several_files_have_one_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "FILE_ROWS", 40)
    release = with_csv("uniform", people(200), tmp_path / "release")
    records = pa.concat_tables([pq.read_table(path) for path in release.manifest.list_data_paths(release.folder)])
    assert len(release.manifest.data_files) == 5
    assert (
        pa_csv.read_csv(release.folder / "data.csv").select(["sex"]).to_pydict() == records.select(["sex"]).to_pydict()
    )
    assert failed(release.folder) == ["fitness"]


@pytest.mark.slow
def test_release_answers_the_same_packed_and_with_copies(tmp_path: Path) -> None:
    release = with_csv("uniform", people(200), tmp_path / "release")
    packed = with_csv("uniform", people(200), tmp_path / "release.zip")
    assert packed.count("flu") == release.count("flu")
    assert (packed.folder / "data.csv").read_bytes() == (release.folder / "data.csv").read_bytes()
    assert not [
        check for check in verify(tmp_path / "release.zip").checks if not check.has_passed and check.name != "fitness"
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_csv("uniform", people(60), tmp_path / "release").folder


@pytest.mark.parametrize("name", ["data.csv", "weights.csv"])
def test_copy_that_says_something_else_is_found_out(name: str, folder: Path) -> None:
    lines = (folder / name).read_text().splitlines(keepends=True)
    (folder / name).write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert failed(folder) == ["files"]
    edit_manifest(folder)
    assert failed(folder) == ["copies", "fitness"]


def test_copies_are_there_for_all_tables_or_for_none(folder: Path) -> None:
    def without(written: dict[str, Any]) -> None:
        written["resources"] = [each for each in written["resources"] if each["path"] != "weights.csv"]

    (folder / "weights.csv").unlink()
    edit_manifest(folder, without)
    assert failed(folder) == ["files"]


def test_copy_that_nobody_lists_is_found_out(folder: Path, tmp_path: Path) -> None:
    def without(written: dict[str, Any]) -> None:
        written["resources"] = [each for each in written["resources"] if not each["path"].endswith(".csv")]

    edit_manifest(folder, without)
    assert failed(folder) == ["files"]
    assert not read_json(folder)["resources"][0]["path"].endswith(".csv")


def test_release_with_copies_is_replaced_by_force(folder: Path) -> None:
    shutil.rmtree(folder.parent / "other", ignore_errors=True)
    schema = Schema.of(SENSITIVE, public="*")
    table = people(60)
    request = Request(
        table, schema=schema, **WAYS["uniform"].request("uniform"), **accepting(table, schema), **ALL_ACCEPTED
    )
    publish(request, folder, unsafe_test_key=known_key(1), force=True)
    assert not (folder / "data.csv").exists()


@given(
    st.lists(
        st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
        min_size=1,
        max_size=8,
    )
)
def test_texts_are_read_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, texts: list[str | None]) -> None:
    folder = tmp_path_factory.mktemp("copy")
    pq.write_table(pa.table({"x": pa.array(texts, pa.string()), "n": range(len(texts))}), folder / "t.parquet")
    write_copy((folder / "t.parquet",), folder / "t.csv", ValueEncoding(1), None)  # type: ignore[arg-type]
    with (folder / "t.csv").open(newline="", encoding="utf-8") as file:
        assert [row["x"] for row in csv.DictReader(file)] == [text or "" for text in texts]
    kinds = pa_csv.ConvertOptions(
        column_types={"x": pa.string()}, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    options = pa_csv.ParseOptions(newlines_in_values=True)
    found = pa_csv.read_csv(folder / "t.csv", convert_options=kinds, parse_options=options)
    assert found.column("x").to_pylist() == texts


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([0.1, 1e22, -0.0, None]), ["0.1", "1e+22", "-0.0", None]),
        (pa.array([1, None, -3]), ["1", None, "-3"]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([datetime.date(2024, 1, 31)]), ["2024-01-31"]),
        (pa.array([datetime.datetime(2024, 1, 31, 10)], pa.timestamp("us")), ["2024-01-31T10:00:00"]),
        (pa.array([["a", 'b"'], [], None]), ['["a", "b\\""]', "[]", "[]"]),
        (pa.array([[1, 2]]), ["[1, 2]"]),
        (pa.array(["x", None]).dictionary_encode(), ["x", None]),
    ],
    ids=str,
)
def test_every_value_has_one_spelling(values: pa.Array, texts: list[str | None]) -> None:
    assert convert_to_texts(values).to_pylist() == texts


def test_only_texts_that_need_them_are_in_quotes_and_no_row_is_lost(tmp_path: Path) -> None:
    table = {"a,b": ["x", 'say "x"', "", None, "two\nlines"], "n": [1, 2, 3, None, 5]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    write_copy((tmp_path / "t.parquet",), tmp_path / "t.csv", ValueEncoding(1), None)  # type: ignore[arg-type]
    expected = '"a,b",n\nx,1\n"say ""x""",2\n"",3\n,\n"two\nlines",5\n'
    assert (tmp_path / "t.csv").read_text() == expected
    pq.write_table(pa.table({"x": ["a", None]}), tmp_path / "t.parquet")
    write_copy((tmp_path / "t.parquet",), tmp_path / "t.csv", ValueEncoding(1), None)  # type: ignore[arg-type]
    assert (tmp_path / "t.csv").read_text() == 'x\na\n""\n'
